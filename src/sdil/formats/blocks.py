"""Long arrays on disk, read in blocks: episodes are short, and chunks of a file span several."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sdil.spaces import Array

_BYTES = 32_000_000  # of one array that are kept


@dataclass
class Blocks:
    """The block of each array that was read last."""

    _held: dict[str, tuple[int, Array]] = field(default_factory=dict, repr=False)

    def rows(self, name: str, array: Any, first: int, last: int) -> Array:
        """Rows of an array (HDF5's or Zarr's), out of a larger block that is read once."""
        start, block = self._held.get(name, (0, np.empty(0)))
        if not start <= first <= last <= start + len(block):
            row = max(1, int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize)
            stop = max(last, min(int(array.shape[0]), first + _BYTES // row))
            start, block = first, np.asarray(array[first:stop])
            self._held[name] = (start, block)
        return block[first - start : last - start]
