"""A study that takes a second: updates by the dozen, not to convergence."""

from __future__ import annotations

from pathlib import Path

from sdil.studies.cell import Cell, sorted_fields
from sdil.studies.grid import Entry, Study

SHORT = {"max_updates": 20, "min_updates": 1, "hidden": 8}


def cell(learner: str = "bc", seed: int = 0, **more) -> Cell:
    fields = sorted_fields(SHORT | more.pop("fields", {}))
    place = {"task": "sepsis", "clean": 5, "noisy": 5, "measured": "validation"} | more
    return Cell(learner=learner, seed=seed, fields=fields, **place)


def study(*entries: Entry, name: str = "small") -> Study:
    usual = tuple(
        Entry(row, cell(learner, seed, measured="all", task="fourrooms"))
        for seed in (0, 1)
        for row, learner in (("BC", "bc"), ("DWBC", "dwbc"))
    )
    return Study(name, "A small study", entries or usual, champion="DWBC")


def records(root: Path) -> dict[str, bytes]:
    """All records under a folder, by address."""
    kept = (p for p in root.glob("cells/*/*.json") if "." not in p.stem)
    return {path.stem: path.read_bytes() for path in kept}
