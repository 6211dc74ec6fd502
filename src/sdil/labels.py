"""What people say of spans of steps: good, bad or unsure; a small table, CSV or Parquet.

A row per answer: set (clean or noisy), episode (its own name), first_step and last_step (counted
from 0, both of them inside), label, who, when (ISO 8601) and note. Where answers of one person
overlap the later row counts; where people differ, each has one voice.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import new_file
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectory

LABELS = ("good", "bad", "unsure")
SETS = ("clean", "noisy")
PROGRAM = "(the program)"
_WORTH = {"good": 1.0, "bad": 0.0, "unsure": np.nan}
_FROM = " from "  # between the name of an episode and the first step of a span of it


@dataclass(frozen=True)
class Label:
    """One answer about a span of steps."""

    set: str
    """clean or noisy."""
    episode: str
    first_step: int
    last_step: int
    """It is inside."""
    label: str
    """good, bad or unsure; unsure counts as nothing."""
    who: str = ""
    when: str = ""
    """ISO 8601, as in 2026-11-17T04:30:00+00:00."""
    note: str = ""

    def __post_init__(self) -> None:
        for column, allowed in (("set", SETS), ("label", LABELS)):
            if getattr(self, column) not in allowed:
                raise InputError(
                    f"{column} is {getattr(self, column)!r}, not one of {', '.join(allowed)}"
                )
        for column in ("first_step", "last_step"):
            value = getattr(self, column)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise InputError(f"{column} is {value!r}, not a whole number from 0 on")
        if self.last_step < self.first_step:
            raise InputError(f"last_step is {self.last_step}, before first_step, {self.first_step}")
        for column in ("episode", "who", "when", "note"):
            if not isinstance(getattr(self, column), str):
                raise InputError(f"{column} is {getattr(self, column)!r}, not text")


COLUMNS = tuple(field.name for field in fields(Label))
_NEEDED = COLUMNS[:5]


def load_labels(path: str | Path, demos: Demonstrations | None = None) -> list[Label]:
    """Read a table of labels; with `demos` it is checked that they have these steps."""
    path = Path(path)
    rows = _read(path)
    found = []
    for number, row in enumerate(rows, 1):
        try:
            found.append(_label_of(row))
        except InputError as error:
            raise InputError(f"{path}, row {number}: {error}") from None
    if demos is not None:
        check_labels(found, episodes_of(demos), where=str(path))
    return found


def save_labels(path: str | Path, labels: Iterable[Label]) -> None:
    """Write a table of labels, .csv or .parquet, in one stroke: the old one stays until the new
    one is whole."""
    path = Path(path)
    rows = [[getattr(label, column) for column in COLUMNS] for label in labels]
    if _ending(path) == ".csv":
        with (
            new_file(path.absolute()) as temporary,
            temporary.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            writer.writerows(rows)
        return
    import duckdb

    with new_file(path.absolute()) as temporary, duckdb.connect() as connection:
        types = ("BIGINT" if c.endswith("_step") else "VARCHAR" for c in COLUMNS)
        columns = ", ".join(f'"{c}" {t}' for c, t in zip(COLUMNS, types, strict=True))
        connection.execute(f"CREATE TABLE labels ({columns})")
        if rows:
            marks = ", ".join("?" for _ in COLUMNS)
            connection.executemany(f"INSERT INTO labels VALUES ({marks})", rows)
        connection.execute(f"COPY labels TO '{_quoted(temporary)}' (FORMAT parquet)")


Episodes = Mapping[tuple[str, str], tuple[int, int]]
"""By set and name: how many steps lie before the episode, clean ones first, and its own."""


def episodes_of(demos: Demonstrations) -> Episodes:
    """Where each episode lies among the steps of the clean and then the noisy set."""
    found, before = {}, 0
    for name, some in (("clean", demos.clean), ("noisy", demos.noisy)):
        for episode, length in zip(some.ids, some.lengths.tolist(), strict=True):
            found[name, episode] = before, length
            before += length
    return found


def check_labels(labels: Sequence[Label], episodes: Episodes, *, where: str = "labels") -> None:
    """Raise where a label is of an episode or a step that there is not."""
    for number, label in enumerate(labels, 1):
        place = episodes.get((label.set, label.episode))
        if place is None:
            raise InputError(
                f"{where}, row {number}, episode: there is no {label.set} episode "
                f"{label.episode!r} among the demonstrations; labels go by their own names"
            )
        if label.last_step >= place[1]:
            raise InputError(
                f"{where}, row {number}, last_step: episode {label.episode!r} has {place[1]} "
                f"steps, the last of them {place[1] - 1}, not {label.last_step}"
            )


def clean_from_labels(
    noisy: Sequence[Trajectory], labels: Sequence[Label], spaces: Spaces | None = None
) -> Demonstrations:
    """Demonstrations where nobody has a clean set: the spans of noisy episodes that people call
    good are it, and all noisy episodes are the noisy set, under their own names.

    A span is of the group of its episode, as is the episode, so that what is learned from one is
    never tried on the other. Where people differ, more must say good than bad.
    """
    named = {episode.id or str(number): episode for number, episode in enumerate(noisy)}
    starts, before = {}, 0
    for name, trajectory in named.items():
        starts["noisy", name] = before, len(trajectory)
        before += len(trajectory)
    good = told_steps(labels, starts)[0] > 0.5
    clean = []
    for name, trajectory in named.items():
        first, length = starts["noisy", name]
        inside = np.flatnonzero(np.diff(np.r_[False, good[first : first + length], False]))
        for start, stop in inside.reshape(-1, 2).tolist():
            clean.append(
                Trajectory(
                    trajectory.observations[start : stop + 1],
                    trajectory.actions[start:stop],
                    None,
                    trajectory.terminated and stop == length,
                    f"{name}{_FROM}{start}",
                    trajectory.group or f"noisy:{name}",
                )
            )
    if not clean:
        raise InputError("no label calls a noisy step good, so that there is nothing to trust yet")
    grouped = [
        replace(episode, id=name, group=episode.group or f"noisy:{name}")
        for name, episode in named.items()
    ]
    return Demonstrations(clean, grouped, spaces)


def whole_episodes(demos: Demonstrations) -> dict[int, int]:
    """Of clean demonstrations that `clean_from_labels` cut out of noisy episodes, by number: the
    number of the noisy episode."""
    numbers = {name: number for number, name in enumerate(demos.noisy.ids)}
    found = {}
    for number, piece in enumerate(demos.clean):
        name, _, first = (piece.id or "").rpartition(_FROM)
        if name not in numbers or not first.isdecimal():
            continue
        episode, start = demos.noisy[numbers[name]], int(first)
        same = np.array_equal(episode.actions[start : start + len(piece)], piece.actions)
        if same and piece.group == episode.group and len(piece) < len(episode):
            found[number] = numbers[name]
    return found


def told_steps(labels: Sequence[Label], episodes: Episodes) -> tuple[Array, Array]:
    """What people say of each step, clean ones first: 1 good, 0 bad, between where they differ, NaN
    nothing (N,); and the number of the answer that says it, the last one, or -1 (N,)."""
    check_labels(labels, episodes)
    n = sum(length for _, length in episodes.values())
    of_people: dict[str, Array] = {}
    span = np.full(n, -1)
    for number, label in enumerate(labels):
        said = of_people.setdefault(label.who, np.full(n, np.nan))
        before = episodes[label.set, label.episode][0]
        steps = slice(before + label.first_step, before + label.last_step + 1)
        said[steps] = _WORTH[label.label]
        span[steps] = number
    voices = np.array(list(of_people.values())).reshape(-1, n)
    known = ~np.isnan(voices)
    mean = np.where(known, voices, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    told = np.where(known.any(0), mean, np.nan)
    return told, np.where(np.isnan(told), -1, span)


def agreement(one: Array, other: Array) -> float | None:
    """Cohen's kappa of two answers about the same steps (1 good, 0 bad, NaN nothing), where both
    say something: 1 they always agree, 0 as often as by chance. None where there is too little."""
    from sklearn.metrics import cohen_kappa_score

    both = ~np.isnan(one) & ~np.isnan(other)
    first, second = one[both] > 0.5, other[both] > 0.5
    if not both.any() or len(np.unique(np.concatenate([first, second]))) < 2:
        return None
    return float(cohen_kappa_score(first, second))


def agreements(
    labels: Sequence[Label], episodes: Episodes, program: Array | None = None
) -> list[dict[str, Any]]:
    """Cohen's kappa of each pair of people who labelled the same steps, and of each of them and the
    program, whose `optimality` (N,) is given."""
    people = sorted({label.who for label in labels})
    told = {
        who: told_steps([label for label in labels if label.who == who], episodes)[0]
        for who in people
    }
    if program is not None:
        told[PROGRAM] = (np.asarray(program) > 0).astype(float)
    found = []
    for i, one in enumerate(people):
        for other in [*people[i + 1 :], *([PROGRAM] if program is not None else [])]:
            second = told[other]
            both = int((~np.isnan(told[one]) & ~np.isnan(second)).sum())
            kappa = agreement(told[one], second)
            found.append({"one": one, "other": other, "steps": both, "kappa": kappa})
    return [row for row in found if row["steps"]]


def _ending(path: Path) -> str:
    ending = path.suffix.lower()
    if ending not in (".csv", ".parquet"):
        raise InputError(f"{path}: its name must end in .csv or .parquet")
    return ending


def _read(path: Path) -> list[dict[str, Any]]:
    ending = _ending(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such table of labels")
    if ending == ".csv":
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                rows: list[dict[str, Any]] = list(reader)
                columns = list(reader.fieldnames or ())
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: it is no CSV ({error})") from None
    else:
        import duckdb

        try:
            with duckdb.connect() as connection:
                answer = connection.execute(f"SELECT * FROM read_parquet('{_quoted(path)}')")
                columns = [about[0] for about in answer.description or ()]
                rows = [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
        except duckdb.Error as error:
            message = str(error).splitlines()[0]
            raise InputError(f"{path}: it cannot be read ({message})") from None
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise InputError(
            f"{path}: it has no column {missing[0]}; there must be {', '.join(_NEEDED)}"
        )
    return rows


def _label_of(row: Mapping[str, Any]) -> Label:
    values = {c: "" if row.get(c) is None else str(row[c]) for c in COLUMNS}
    steps = {}
    for column in ("first_step", "last_step"):
        try:
            steps[column] = int(values.pop(column))
        except ValueError:
            raise InputError(
                f"{column} is {str(row[column])!r}, not a whole number from 0 on"
            ) from None
    return Label(first_step=steps["first_step"], last_step=steps["last_step"], **values)


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
