"""Studies on disk, read again: those that ran here, and those that were published in one file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

from sdil.errors import InputError
from sdil.studies.cell import Cell, address_of
from sdil.studies.documents import (
    ANYTHING,
    NUMBER,
    OBJECT,
    TEXT,
    Kind,
    Part,
    list_of,
    one_of,
    or_null,
    table_of,
)
from sdil.studies.grid import (
    FORMAT_VERSION,
    MEASURES,
    STUDY_FILE,
    Claim,
    Entry,
    Found,
    Results,
    State,
    Study,
    check_name,
    find_results,
)
from sdil.studies.records import Records, checked_measures
from sdil.studies.source import Sources

_ADDRESS = Kind(
    "the hash of a cell",
    lambda v: isinstance(v, str) and re.fullmatch("[0-9a-f]{64}", v) is not None,
)


def read_study(folder: Path) -> Results:
    """A study's records, as far as they are there and not stale."""
    about = Part.read(folder / STUDY_FILE, what="a study")
    study = _study_of(about, about, "entries")
    kept = [entry.take("address", _ADDRESS) for entry in about.parts("entries")]
    command = about.take("command", TEXT)
    sources = Sources()
    with _named(about.path):
        now = [address_of(entry.cell.inputs(sources)) for entry in study.entries]
    placed = list(zip(study.entries, kept, now, strict=True))
    return find_results(study, placed, Records(folder.parent), command)


def read_published(path: Path) -> Results:
    """The records of a study in one file (`sdil study publish`), as they were when it was made."""
    about = Part.read(path, what="a folder of published studies")
    study = _study_of(about.part("study"), about, "cells")
    cells = zip(study.entries, about.parts("cells"), strict=True)
    found = tuple(_found_in(cell, entry) for entry, cell in cells)
    return Results(study, found, about.take("command", TEXT))


def _found_in(cell: Part, entry: Entry) -> Found:
    """What a published file says of an entry."""
    state = cell.take("state", one_of(*get_args(State)))
    if state != "done":
        return Found(entry, state, None)
    told = cell.get("warnings", list_of(TEXT), [])
    return Found(entry, state, {"measures": checked_measures(cell), "warnings": told})


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say in which file it stands, where a cell cannot be measured."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _study_of(about: Part, file: Part, entries: str) -> Study:
    """The inverse of `Study.as_json`, with the entries that lie in the file by this name."""
    version = about.take("format", ANYTHING)
    if version != FORMAT_VERSION:
        raise InputError(f"{about.path}: format {version!r} is not known")
    name = about.take("name", TEXT)
    check_name(name, f"{about.path}: name")
    axis = about.take("axis", or_null(TEXT))
    return Study(
        name,
        about.take("title", TEXT),
        tuple(_entry_of(part, axis) for part in file.parts(entries)),
        axis,
        about.take("measures", table_of(one_of(*MEASURES, "valid_nll"))),
        about.take("champion", TEXT),
        _claim_of(about),
        about.get("remark", TEXT, ""),
    )


def _claim_of(about: Part) -> Claim | None:
    if about.get("claim", or_null(OBJECT), None) is None:
        return None
    claim = about.part("claim")
    return Claim(claim.take("text", TEXT), claim.take("row", TEXT), claim.take("at", NUMBER))


def _entry_of(part: Part, axis: str | None) -> Entry:
    at = part.take("at", or_null(NUMBER) if axis is None else NUMBER)
    try:
        cell = Cell.from_json(part.part("cell").value)
    except InputError as error:
        raise part.error("cell", f"cannot be used: {error}") from None
    return Entry(part.take("row", TEXT), cell, at)
