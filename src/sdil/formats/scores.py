"""A table of step scores, Parquet or CSV: a row per step, for other tools to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file
from sdil.formats.sql import quoted_text
from sdil.scores import StepScores
from sdil.segmentation import segments_of
from sdil.spaces import Array


@dataclass(frozen=True, eq=False)
class ScoredSet:
    """The episodes of one set and what was said of their steps."""

    ids: Sequence[str]
    """The name of each of E episodes."""
    scores: Sequence[StepScores]
    """E of them."""
    more: Mapping[str, Sequence[Array]] = field(default_factory=dict)
    """Further columns, by name: per episode (T,)."""


FORMATS = {".parquet": "FORMAT parquet", ".csv": "FORMAT csv, HEADER"}
"""How a table is written, by the ending of its name."""


def check_table_name(path: Path) -> None:
    """Refuse a name that does not say which format is meant."""
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{path}: its name must end in {' or '.join(FORMATS)}")


def write_scores(path: Path, sets: Mapping[str, ScoredSet]) -> None:
    """Write set, episode, step, skill, optimality, its spread and parts, quality and its parts
    (quality_NAME), integrity, segment, its mean optimality.

    Skill, spread, quality, integrity and parts only where the scores have them; integrity is empty
    where it is not known. Every set has the same further columns.
    """
    check_table_name(path)
    columns: dict[str, list[Array]] = {}
    for name, judged in sets.items():
        for i, (episode, scores) in enumerate(zip(judged.ids, judged.scores, strict=True)):
            n, segments = len(scores.optimality), segments_of(scores)
            number = np.repeat(np.arange(len(segments)), [s.stop - s.start for s in segments])
            row = {
                "set": np.full(n, name, object),
                "episode": np.full(n, episode, object),
                "step": np.arange(n),
                **({} if scores.skill is None else {"skill": scores.skill}),
                "optimality": scores.optimality,
                **({} if scores.spread is None else {"spread": scores.spread}),
                **scores.parts,
                **({} if scores.quality is None else {"quality": scores.quality}),
                **{f"quality_{part}": values for part, values in scores.quality_parts.items()},
                **({} if scores.integrity is None else {"integrity": scores.integrity}),
                "segment": number,
                "segment_optimality": np.array([s.optimality for s in segments])[number],
                **{column: values[i] for column, values in judged.more.items()},
            }
            for column, values in row.items():
                columns.setdefault(column, []).append(values)
    import duckdb  # not for --help

    with new_file(path.absolute()) as temporary, duckdb.connect() as connection:
        connection.register("steps", {k: np.concatenate(v) for k, v in columns.items()})
        form = FORMATS[path.suffix.lower()]
        connection.execute(f"COPY (SELECT * FROM steps) TO {quoted_text(temporary)} ({form})")


_KNOWN = ("set", "episode", "step", "skill", "optimality", "spread", "quality", "integrity")
_SEGMENT = ("segment", "segment_optimality")
MORE = ("frame", "kept", "weight")
"""Further columns that `sdil score` and `sdil curate` write: they are read again as such."""


def read_scores(path: Path) -> dict[str, ScoredSet]:
    """What `write_scores` wrote, by set; episodes in their order."""
    import duckdb

    check_table_name(path)
    reader = "read_csv" if path.suffix.lower() == ".csv" else "read_parquet"
    more = ", sample_size = -1" if reader == "read_csv" else ""
    try:
        found = duckdb.execute(f"SELECT * FROM {reader}({quoted_text(path)}{more})").fetchnumpy()
    except duckdb.Error as error:
        raise InputError(f"{path}: it cannot be read ({str(error).splitlines()[0]})") from None
    missing = next((n for n in ("set", "episode", "step", "optimality") if n not in found), None)
    if missing is not None:
        raise InputError(f"{path}: it has no column {missing}: not a table of `sdil score --out`")
    columns = {name: _plain(values) for name, values in found.items()}
    keys = list(zip(map(str, columns["set"]), map(str, columns["episode"]), strict=True))
    edges = [i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]] + [len(keys)]
    sets: dict[str, list[tuple[str, slice]]] = {}
    for first, stop in pairwise(edges):
        which, episode = keys[first]
        rows = slice(first, stop)
        if not np.array_equal(columns["step"][rows], np.arange(stop - first)):
            raise InputError(
                f"{path}: the steps of episode {episode!r} are not 0, 1, 2, ... in order; give the "
                "table as it was written"
            )
        sets.setdefault(which, []).append((episode, rows))
    return {
        which: ScoredSet(
            [episode for episode, _ in episodes],
            [_scores_of(columns, rows) for _, rows in episodes],
            {name: [columns[name][r] for _, r in episodes] for name in MORE if name in columns},
        )
        for which, episodes in sets.items()
    }


def _scores_of(columns: Mapping[str, Array], rows: slice) -> StepScores:
    known = {name: columns[name][rows] for name in _KNOWN[3:] if name in columns}
    others = [n for n in columns if n not in (*_KNOWN, *_SEGMENT, *MORE)]
    quality = {n: columns[n][rows] for n in others if n.startswith("quality_")}
    return StepScores(
        optimality=known["optimality"],
        skill=known.get("skill"),
        spread=known.get("spread"),
        quality=known.get("quality"),
        integrity=known.get("integrity"),
        parts={n: columns[n][rows] for n in others if n not in quality},
        quality_parts={n.removeprefix("quality_"): v for n, v in quality.items()},
    )


def _plain(values: Array) -> Array:
    """A column with NaN where it is empty."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype.kind == "f":
        return np.asarray(values.filled(np.nan))
    return np.asarray(values.filled()) if not values.mask.any() else np.asarray(values, float)
