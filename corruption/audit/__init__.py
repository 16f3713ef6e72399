"""The laws that any corrupted data set must obey, whoever made it; pure functions of arrays."""

from corruption.audit.finding import Evidence, Finding, Place, judged
from corruption.audit.masking import Masking
from corruption.audit.steps import chain_laws, step_laws

__all__ = ["Evidence", "Finding", "Masking", "Place", "chain_laws", "judged", "step_laws"]
