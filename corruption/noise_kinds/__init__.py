"""One file per corruption: add a new kind here, decorated with `register`, and import it below."""

from corruption.noise_kinds.mask import Mask

__all__ = ["Mask"]
