"""A table of step scores, Parquet or CSV: a row per step, for other tools to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
