"""Finished cells on disk, shared by all studies of one folder.

studies/
  cells/ab/<address>.json           inputs and measures: equal runs write equal bytes
  cells/ab/<address>.timing.json    how long it took, where and when
  cells/ab/<address>.failed.json    instead, where it failed: the traceback
  table1/study.json                 which cells a study consists of, and how to show them
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdil.files import read_json, write_json

Record = dict[str, Any]
"""`inputs`, `measures` and `warnings` of a finished cell."""


class Records:
    """The records under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, address: str) -> bool:
        """Whether this cell is finished."""
        return self._path(address, "").exists()

    def read(self, address: str) -> Record | None:
        """The record of a cell; None where it is not finished."""
        return self._read(address, "")

    def timing(self, address: str) -> dict[str, Any] | None:
        """How long it took, where and when."""
        return self._read(address, ".timing")

    def failure(self, address: str) -> dict[str, Any] | None:
        """What went wrong with a cell that failed, and has not been finished since."""
        return None if self.has(address) else self._read(address, ".failed")

    def keep(self, address: str, record: Record, timing: dict[str, Any]) -> None:
        """Keep a finished cell."""
        write_json(self._path(address, ".timing"), timing)
        write_json(self._path(address, ""), record)
        self._path(address, ".failed").unlink(missing_ok=True)

    def keep_failure(self, address: str, inputs: dict[str, Any], traceback: str) -> None:
        """Keep what went wrong."""
        write_json(self._path(address, ".failed"), {"inputs": inputs, "traceback": traceback})

    def _read(self, address: str, kind: str) -> dict[str, Any] | None:
        path = self._path(address, kind)
        return read_json(path, what="a folder of studies") if path.exists() else None

    def _path(self, address: str, kind: str) -> Path:
        return self.root / "cells" / address[:2] / f"{address}{kind}.json"
