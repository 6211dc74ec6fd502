"""D4RL's HDF5 back: a score and a weight of each row, or the kept rows alone."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file
from sdil.formats.hdf5_cutting import Rows, copy_tree, opened, put
from sdil.formats.rows import SCORE, WEIGHT, RowAnswer
from sdil.spaces import Array


def write_scored(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same file with `sdil_score` and `sdil_weight`, a number for each row."""
    with new_file(out, size=original.stat().st_size) as temporary:
        shutil.copyfile(original, temporary)
        with opened(temporary, "r+") as file:
            rows = _rows_of(file, answers, original)
            put(file, SCORE, _joined([a.score for a in answers], rows, np.nan))
            put(file, WEIGHT, _joined([a.weight for a in answers], rows, 1.0))


def write_curated(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept rows alone; where an episode is cut `timeouts` says so.

    `infos/sdil_row` is where each row stood in the original.
    """
    with (
        new_file(out, size=original.stat().st_size) as temporary,
        opened(original) as old,
        opened(temporary, "w") as new,
    ):
        length = _rows_of(old, answers, original)
        starts = np.cumsum([0, *map(len, answers)])
        runs = [
            (int(start) + a, int(start) + b)
            for start, answer in zip(starts[:-1], answers, strict=True)
            for a, b in answer.pieces
        ]
        whole_ends = {int(stop) for stop in starts[1:]}

        def rows_of(_: str, item: Any) -> tuple[Rows | None, int]:
            return (runs if item.ndim and item.shape[0] == length else None), 0

        copy_tree(old, new, rows_of)
        lengths = np.array([b - a for a, b in runs])
        cut = np.array([b not in whole_ends for _, b in runs], bool)
        last = np.cumsum(lengths) - 1
        if cut.any():
            if "timeouts" not in new:
                new.create_dataset("timeouts", shape=(int(lengths.sum()),), dtype=bool)
            timeouts = new["timeouts"][()]
            timeouts[last[cut]] = 1
            new["timeouts"][...] = timeouts
        infos = new.require_group("infos")
        put(infos, "sdil_row", np.concatenate([np.arange(a, b) for a, b in runs]))


def _rows_of(file: Any, answers: Sequence[RowAnswer], path: Path) -> int:
    rows = int(file["actions"].shape[0])
    if sum(map(len, answers)) > rows:
        raise InputError(f"{path}: it has only {rows} rows now; import it again")
    return rows


def _joined(of_episodes: Sequence[Array], rows: int, rest: float) -> Array:
    """One value for each row of the file; `rest` where a row is of no episode."""
    joined = np.full(rows, rest, np.float32)
    values = np.concatenate(list(of_episodes))
    joined[: len(values)] = values
    return joined
