"""A study: cells with the places they take in its tables, and what becomes of them when it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from sdil.errors import InputError
from sdil.files import write_json
from sdil.studies.cell import Cell, address_of
from sdil.studies.records import Record, Records
from sdil.studies.runners import Job, Run, Started, data_key
from sdil.studies.source import Sources

FORMAT_VERSION = 1
MEASURES = (
    *(
        "reward",
        "reward_without_circles",
        "reward_not_stuck",
        "reward_sampled",
        "reward_default",
        "success",
    ),
    *("acc", "macro_f", "macro_auroc", "micro_auroc", "valid_acc", "score_auroc"),
)
"""What a study may compare; of all of them more is better."""
STUDY_FILE = "study.json"


def check_name(name: str, what: str) -> None:
    """Refuse what is not one plain component of a path; `what` says where the name comes from."""
    if not re.fullmatch(r"[\w.-]+", name) or name in (".", ".."):
        raise InputError(f'{what} must be letters, digits, "-", "_" and "." alone, not {name!r}')


@dataclass(frozen=True)
class Entry:
    """A cell and where it is shown."""

    row: str
    """The method, as tables name it."""
    cell: Cell
    at: float | None = None
    """The point on the axis that the study varies."""


@dataclass(frozen=True)
class Claim:
    """Something that is said of the champion, to be checked."""

    text: str
    row: str
    """It should be better than this row"""
    at: float
    """at this point of the axis."""


@dataclass(frozen=True)
class Study:
    """A named grid of cells."""

    name: str
    title: str
    entries: tuple[Entry, ...]
    axis: str | None = None
    """What is varied, where the study is a curve; None for a table of methods."""
    measures: Mapping[str, str] = field(default_factory=dict)
    """What is compared, by task; the reward where it is not said."""
    champion: str = "SDIL"
    """The row that is compared with every other."""
    claim: Claim | None = None
    remark: str = ""
    """What a reader of its comparisons must know."""

    def __post_init__(self) -> None:
        check_name(self.name, "a study's name")

    def measure_of(self, task: str) -> str:
        """What is compared in this task."""
        return self.measures.get(task, "reward")

    @cached_property
    def limits(self) -> set[str]:
        """The rows that are told the truth: limits, not competitors."""
        sources = Sources()
        learners = {e.cell.learner for e in self.entries} & set(sources.learners)
        told = {n for n in learners if sources.learner(n).class_variables["takes_truth"]}
        return {e.row for e in self.entries if e.cell.learner in told}

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(e.cell.task for e in self.entries))

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(e.row for e in self.entries))

    def only(self, *, tasks: Iterable[str] = (), learners: Iterable[str] = ()) -> Study:
        """The part with these tasks and learners (or rows); everything where none is named."""
        names: tuple[tuple[set[str], Callable[[Entry], set[str]]], ...] = (
            (set(tasks), lambda e: {e.cell.task}),
            (set(learners), lambda e: {e.cell.learner, e.row}),
        )
        kept = self.entries
        for wanted, of in names:
            known = {name for e in self.entries for name in of(e)}
            for name in sorted(wanted - known):
                raise InputError(f"{self.name} has no {name!r}; it has {', '.join(sorted(known))}")
            kept = tuple(e for e in kept if not wanted or of(e) & wanted)
        return replace(self, entries=kept)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT_VERSION,
            "name": self.name,
            "title": self.title,
            "axis": self.axis,
            "measures": dict(self.measures),
            "champion": self.champion,
            "claim": None if self.claim is None else asdict(self.claim),
            "remark": self.remark,
        }


State = Literal["done", "missing", "failed", "stale"]


@dataclass(frozen=True)
class Found:
    """What there is of an entry: its record, where the cell is done with the source as it is."""

    entry: Entry
    state: State
    record: Record | None
    timing: dict[str, Any] | None = None
    traceback: str | None = None


@dataclass(frozen=True)
class Results:
    """A study and what has been found of it."""

    study: Study
    found: tuple[Found, ...]
    command: str = ""

    def count(self, state: State) -> int:
        return sum(f.state == state for f in self.found)

    def values(self, row: str, task: str, measure: str, at: Any = None) -> dict[int, float]:
        """A measure by seed, of the cells that are done and have it."""
        return {
            f.entry.cell.seed: f.record["measures"][measure]
            for f in self.at(row, task, at)
            if f.record is not None and f.record["measures"].get(measure) is not None
        }

    def at(self, row: str, task: str, at: Any = None) -> list[Found]:
        """What there is of this row of a task's table, at one point of the axis."""
        place = (row, task, at)
        return [f for f in self.found if (f.entry.row, f.entry.cell.task, f.entry.at) == place]

    def points(self, task: str) -> list[Any]:
        """The points of the axis."""
        entries = (f.entry for f in self.found)
        return list(dict.fromkeys(e.at for e in entries if e.cell.task == task))


def run_study(
    study: Study,
    root: Path,
    run: Run,
    *,
    name: str | None = None,
    command: str = "",
    tasks: Iterable[str] = (),
    learners: Iterable[str] = (),
    on_progress: Callable[[Progress], None] | None = None,
) -> Results:
    """Measure what is missing, keep it, and say what there is now.

    Of `tasks` and `learners` alone, where any are named; the study's file lists all cells, so that
    it can be measured in parts.
    """
    study = study if name is None else replace(study, name=name)
    asked = {e.cell for e in study.only(tasks=tasks, learners=learners).entries}
    records, sources = Records(root), Sources()
    placed = [(entry, entry.cell.inputs(sources)) for entry in study.entries]
    addressed = [(entry, inputs, address_of(inputs)) for entry, inputs in placed]
    write_json(
        root / study.name / STUDY_FILE,
        study.as_json()
        | {
            "command": command,
            "entries": [
                {"row": e.row, "at": e.at, "cell": e.cell.as_json(), "address": address}
                for e, _, address in addressed
            ],
        },
    )
    jobs = {
        address: Job(address, str(entry.cell), inputs, entry.cell.data)
        for entry, inputs, address in addressed
        if entry.cell in asked and not records.has(address)
    }
    if jobs:
        in_order = sorted(jobs.values(), key=_order)
        total = len({address for entry, _, address in addressed if entry.cell in asked})
        _measure(records, in_order, total, run, on_progress)
    placed_now = [(e, address, address) for e, _, address in addressed]
    return find_results(study, placed_now, records, command)


def _order(job: Job) -> tuple[Any, ...]:
    """Seed by seed, so that a part tells of all methods; equal demonstrations together."""
    asked = job.inputs
    return asked["seed"], asked["task"], asked["clean"] or 0, asked["expert_share"], data_key(job)


def _measure(
    records: Records,
    jobs: list[Job],
    total: int,
    run: Run,
    on_progress: Callable[[Progress], None] | None,
) -> None:
    progress = Progress(total=total, done=total - len(jobs), waiting={j.address: j for j in jobs})
    for event in run(jobs):
        if isinstance(event, Started):
            progress.started(event.address)
        else:
            job = progress.waiting[event.address]
            if event.record is not None:
                records.keep(event.address, event.record, event.timing)
            else:
                records.keep_failure(event.address, job.inputs, event.traceback or "")
            progress.finished(event.address, event.timing.get("wall_s"))
        if on_progress is not None:
            on_progress(progress)


@dataclass
class Progress:
    """How far a study is."""

    total: int
    done: int
    waiting: dict[str, Job]
    """Cells that are not finished, those that run included."""
    running: set[str] = field(default_factory=set)
    failed: int = 0
    last: Job | None = None
    """What was finished last, and"""
    last_seconds: float | None = None
    """how long it took; None where it failed."""
    most_abreast: int = 1
    _seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def started(self, address: str) -> None:
        self.running.add(address)
        self.most_abreast = max(self.most_abreast, len(self.running))
        self.last = None

    def finished(self, address: str, seconds: float | None) -> None:
        job = self.waiting.pop(address)
        self.running.discard(address)
        self.last, self.last_seconds = job, seconds
        if seconds is None:
            self.failed += 1
            return
        self.done += 1
        self._seconds.setdefault(_kind(job), []).append(seconds)

    def seconds_left(self) -> float | None:
        """An estimate, from cells of the same learner and task, or else from all so far."""
        everything = [s for kind in self._seconds.values() for s in kind]
        if not everything:
            return None
        usual = sum(everything) / len(everything)
        left = 0.0
        for job in self.waiting.values():
            known = self._seconds.get(_kind(job))
            left += sum(known) / len(known) if known else usual
        return left / self.most_abreast


def _kind(job: Job) -> tuple[str, str]:
    return str(job.inputs["learner"]), str(job.inputs["task"])


def find_results(
    study: Study, placed: list[tuple[Entry, str, str]], records: Records, command: str
) -> Results:
    """What there is of each entry, whose address was one when the study ran and is another now."""
    found = []
    for entry, kept, now in placed:
        record = records.read(now)
        traceback = records.failure(now) if record is None else None
        state: State = "missing"
        if record is not None:
            state = "done"
        elif traceback is not None:
            state = "failed"
        elif kept != now and records.has(kept):
            state = "stale"
        timing = None if record is None else records.timing(now)
        found.append(Found(entry, state, record, timing, traceback))
    return Results(study, tuple(found), command)
