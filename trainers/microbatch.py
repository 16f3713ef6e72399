"""A microbatch on the device: padded int64 columns and the lengths they came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from corruption.padding import attention_mask, pad
from corruption.schema import COLUMNS


@dataclass(frozen=True, eq=False)
class Microbatch:
    """B examples padded to T positions.

    columns: int64[B, T] for columns of one number per token, int64[B] for one per example. lengths:
    int64[B]. attention_mask: int64[B, T], 1 on real positions; from the lengths, since a pad id may be a
    real token too.
    """

    columns: Mapping[str, Tensor]
    lengths: Tensor
    attention_mask: Tensor

    def __len__(self) -> int:
        return len(self.lengths)

    @staticmethod
    def from_flat(
        columns: Mapping[str, npt.NDArray[np.int32]],
        lengths: npt.NDArray[np.integer],
        pad_id: int,
        device: torch.device | str = "cpu",
        width: int | None = None,
    ) -> Microbatch:
        """From flat int32 columns and the examples' lengths, padded as the column table says.

        B = 0 is legal (a lane that only fills up a step). Raises ValueError for a column that is not in the
        table or does not have the lengths' number of entries.
        """
        lengths = np.ascontiguousarray(lengths, dtype=np.int64)
        padded = {}
        for name, values in columns.items():
            if name not in COLUMNS:
                raise ValueError(f"no column {name!r} in the column table")
            column = COLUMNS[name]
            if column.per == "row":
                if len(values) != len(lengths):
                    raise ValueError(f"column {name!r}: {len(values)} entries for {len(lengths)} examples")
                padded[name] = values.astype(np.int64)
            else:
                fill = pad_id if column.pad == "pad" else int(column.pad)
                padded[name] = pad(values, lengths, fill, width)
        tensors = {name: torch.from_numpy(array).to(device) for name, array in padded.items()}
        mask = torch.from_numpy(attention_mask(lengths, width)).to(device)
        return Microbatch(tensors, torch.from_numpy(lengths).to(device), mask)
