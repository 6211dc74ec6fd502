"""A study that takes a second: updates by the dozen, not to convergence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sdil.studies.cell import Cell, sorted_fields
from sdil.studies.grid import Entry, Study
from sdil.studies.runners import Event, Finished, Job, Started

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


def invented(jobs: Sequence[Job]) -> Iterator[Event]:
    """A way to measure cells that takes no time: nothing is trained."""
    names = ("valid_nll", "valid_acc", "acc", "macro_f", "macro_auroc", "micro_auroc", "reward")
    for job in jobs:
        measures = dict.fromkeys(names, 0.5) | {"acting": "greedy", "success_interval": [0.4, 0.6]}
        record = {"inputs": job.inputs, "measures": measures, "warnings": []}
        timing = {"started": "2026-01-02T03:04:05", "wall_s": 1.0, "cpu_s": 1.0}
        yield Started(job.address)
        yield Finished(job.address, record, timing | {"machine": "M", "versions": {"sdil": "1"}})


def record_file(root: Path, kind: str = "") -> Path:
    """The file of the only cell under a folder."""
    (found,) = (p for p in root.glob("cells/*/*.json") if p.name.partition(".")[2] == f"{kind}json")
    return found
