"""Finished cells on disk, shared by all studies of one folder.

studies/
  cells/ab/<address>.json           inputs and measures: equal runs write equal bytes
  cells/ab/<address>.timing.json    how long it took, where and when
  cells/ab/<address>.failed.json    instead, where it failed: the traceback
  table1/study.json                 which cells a study consists of, and how to show them

A record that is damaged, or that lies at the address of another cell, does not count: a warning
says so, and the next run measures the cell again.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.files import write_json
from sdil.studies.cell import MIMIC, address_of
from sdil.studies.documents import NUMBER, TEXT, Kind, Part, is_number, list_of, or_null, table_of

Record = dict[str, Any]
"""`inputs`, `measures` and `warnings` of a finished cell."""

_A_FOLDER = "a folder of studies"
_INTERVAL = Kind(
    "two finite numbers",
    lambda v: isinstance(v, list) and len(v) == 2 and all(map(is_number, v)),
)
_KINDS = {"acting": TEXT, "success_interval": or_null(_INTERVAL)}
_ALWAYS = ("valid_nll", "valid_acc")
_ON_TEST = ("acc", "macro_f", "macro_auroc", "micro_auroc")


class Records:
    """The records under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, address: str) -> bool:
        """Whether this cell is finished."""
        return self.read(address) is not None

    def read(self, address: str) -> Record | None:
        """The record of a cell; None where it is not finished, or what is there is not its own."""
        path = self._path(address, "")
        if not path.exists():
            return None
        try:
            return _checked_record(path, address)
        except InputError as error:
            warnings.warn(f"{error}; it does not count as measured", stacklevel=2)
            return None

    def timing(self, address: str) -> dict[str, Any] | None:
        """How long it took, where and when."""
        try:
            part = self._read(address, ".timing")
            if part is None:
                return None
            for name in ("wall_s", "cpu_s"):
                part.take(name, NUMBER)
            for name in ("started", "machine"):
                part.take(name, TEXT)
            part.take("versions", table_of(TEXT))
            return part.value
        except InputError as error:
            warnings.warn(f"{error}; it is left out", stacklevel=2)
            return None

    def failure(self, address: str) -> str | None:
        """The traceback of a cell that failed when it was last tried."""
        try:
            part = self._read(address, ".failed")
            return None if part is None else str(part.take("traceback", TEXT))
        except InputError as error:
            warnings.warn(f"{error}; it does not count", stacklevel=2)
            return None

    def keep(self, address: str, record: Record, timing: dict[str, Any]) -> None:
        """Keep a finished cell."""
        write_json(self._path(address, ".timing"), timing)
        write_json(self._path(address, ""), record)
        self._path(address, ".failed").unlink(missing_ok=True)

    def keep_failure(self, address: str, inputs: dict[str, Any], traceback: str) -> None:
        """Keep what went wrong."""
        write_json(self._path(address, ".failed"), {"inputs": inputs, "traceback": traceback})

    def _read(self, address: str, kind: str) -> Part | None:
        path = self._path(address, kind)
        return Part.read(path, what=_A_FOLDER) if path.exists() else None

    def _path(self, address: str, kind: str) -> Path:
        return self.root / "cells" / address[:2] / f"{address}{kind}.json"


def checked_measures(record: Part) -> dict[str, Any]:
    """The measures of a record or of a published cell: finite numbers, or not known."""
    measures = record.part("measures")
    for name in measures.value:
        measures.take(name, _KINDS.get(name, or_null(NUMBER)))
    return measures.value


def _checked_record(path: Path, address: str) -> Record:
    """What is in a file, if it is the record of the cell at this address."""
    record = Part.read(path, what=_A_FOLDER)
    inputs = record.part("inputs")
    try:
        found = address_of(inputs.value)
    except ValueError as error:  # NaN has no address
        raise record.error("inputs", f"cannot be hashed ({error})") from None
    if found != address:
        raise record.error("inputs", "are those of another cell")
    measures = checked_measures(record)
    needed = [*_ALWAYS]
    if inputs.value.get("measured") == "all":
        needed += _ON_TEST if inputs.value.get("task") == MIMIC else (*_ON_TEST, "reward")
    for name in needed:
        if name not in measures:
            raise record.error(f"measures.{name}", "is missing")
    record.take("warnings", list_of(TEXT))
    return record.value
