"""Rows of a mapped file, asked for before they are looked at.

Whoever touches a page of a file that the system has not read yet waits for the disk, page after
page. Told of all rows of a batch beforehand, the system reads them side by side: of rows at random,
some fifty times as fast. Where everything is in memory already the telling costs more than
the rows; the faults of this thread that had to wait for the disk say which it is.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from sdil.spaces import Array

_PAGE = mmap.PAGESIZE
_PROBE = 8  # of every so many batches one row is not asked for, to see if it is waited for
_QUIET = 16  # batches without a fault after which rows are no longer asked for
_FEW = 32  # a fault for so many rows at the most is nothing to ask for


class Fetching:
    """Asks for rows of an array that lies in a file, while that is worth it."""

    def __init__(self, array: Array) -> None:
        self._map, self._begin = _mapping_of(array)
        self._row = array.strides[0] if array.ndim else 0
        self._faults = _waits()
        self._left = _QUIET  # batches for which rows are asked for
        self._asked = 0

    @property
    def lies_in_file(self) -> bool:
        """Whether there is anything to ask for."""
        return self._map is not None and self._row > 0

    def __call__(self, rows: Array, before: int = 0) -> None:
        """These rows are about to be read, and so many before each."""
        if not self.lies_in_file or not len(rows):
            return
        faults, self._faults = self._faults, _waits()
        waited = self._faults - faults
        if (self._left and waited) or (not self._left and waited > len(rows) // _FEW):
            self._left = _QUIET
        if not self._left:
            return
        self._left -= 1
        self._asked += 1
        wanted = np.unique(rows)[int(self._asked % _PROBE == 0) :]
        for first, size in _stretches(wanted, before, self._row, self._begin):
            self._map.madvise(mmap.MADV_WILLNEED, first, size)


def _stretches(rows: Array, before: int, row: int, begin: int) -> list[tuple[int, int]]:
    """Pages of a map in which rows lie, from where and how many bytes; those that touch as one."""
    if not len(rows):
        return []
    first = np.maximum(rows - before, 0) * row + begin
    last = (rows + 1) * row + begin
    first -= first % _PAGE
    apart = np.flatnonzero(first[1:] > last[:-1]) + 1
    starts, ends = np.r_[0, apart], np.r_[apart, len(rows)] - 1
    return list(zip(first[starts].tolist(), (last[ends] - first[starts]).tolist(), strict=True))


def _mapping_of(array: Array) -> tuple[Any, int]:
    """The map that an array lies in, and at which byte of it; None where it lies in none."""
    base: Any = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    found = getattr(base, "_mmap", None)
    if found is None or not hasattr(mmap, "MADV_WILLNEED") or _waits() < 0:
        return None, 0
    start = base.__array_interface__["data"][0] - base.offset % mmap.ALLOCATIONGRANULARITY
    return found, array.__array_interface__["data"][0] - start


def _waits() -> int:
    """How often this thread had to wait for the disk; -1 where the system does not say."""
    try:
        import resource

        return resource.getrusage(resource.RUSAGE_THREAD).ru_majflt
    except (ImportError, AttributeError):  # not on Linux
        return -1
