"""D4RL's and ALOHA's HDF5 files back: a score and a weight of each row, or the kept rows alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file, new_folder
from sdil.formats.hdf5_cutting import Rows, copy_tree, opened
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer
from sdil.spaces import Array


def write_scored_d4rl(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same file with `sdil_score` and `sdil_weight`, a number for each row."""
    with new_file(out, size=original.stat().st_size) as temporary:
        shutil.copyfile(original, temporary)
        with opened(temporary, "r+") as file:
            rows = _rows_of(file, answers, original)
            _add(file, SCORE, _joined([a.score for a in answers], rows, np.nan))
            _add(file, WEIGHT, _joined([a.weight for a in answers], rows, 1.0))


def write_curated_d4rl(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
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
        _add(infos, "sdil_row", np.concatenate([np.arange(a, b) for a, b in runs]))


def write_scored_aloha(paths: Mapping[str, Path], answers: Sequence[RowAnswer], out: Path) -> None:
    """Copies of all files, each with `sdil_score` and `sdil_weight`."""
    with new_folder(out, overwrite=False, marker="", size=_size(paths)) as temporary:
        for answer in answers:
            path = paths[answer.id]
            shutil.copyfile(path, temporary / path.name)
            with opened(temporary / path.name, "r+") as file:
                _check_rows(file["action"], len(answer), path)
                _add(file, SCORE, answer.score)
                _add(file, WEIGHT, answer.weight)


def write_curated_aloha(paths: Mapping[str, Path], answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept segments, each a file. ALOHA's reader counts files from 0, and so they are named;
    each says where it comes from."""
    with new_folder(out, overwrite=False, marker="", size=_size(paths)) as temporary:
        number = 0
        for answer in answers:
            path = paths[answer.id]
            with opened(path) as old:
                _check_rows(old["action"], len(answer), path)
                for start, stop in answer.pieces:
                    name = _numbered(path, number)
                    number += 1
                    if answer.is_whole:
                        shutil.copyfile(path, temporary / name)
                    else:
                        _cut_file(old, temporary / name, start, stop, len(answer))
                    with opened(temporary / name, "r+") as new:
                        new.attrs[SOURCE], new.attrs[FIRST] = answer.id, start


def _cut_file(old: Any, path: Path, start: int, stop: int, length: int) -> None:
    def rows_of(where: str, item: Any) -> tuple[Rows | None, int]:
        if where == "compress_len" and item.ndim == 2 and item.shape[1] == length:
            return [(start, stop)], 1  # bytes of each camera's picture at each step
        if item.ndim and item.shape[0] == length:
            return [(start, stop)], 0
        return None, 0

    with opened(path, "w") as new:
        copy_tree(old, new, rows_of)


def _numbered(path: Path, number: int) -> str:
    """The same name with another number: episode_7.hdf5."""
    stem = re.sub(r"\d+$", "", path.stem) or f"{path.stem}_"
    return f"{stem}{number}{path.suffix}"


def _rows_of(file: Any, answers: Sequence[RowAnswer], path: Path) -> int:
    rows = int(file["actions"].shape[0])
    if sum(map(len, answers)) > rows:
        raise InputError(f"{path}: it has only {rows} rows now; import it again")
    return rows


def _check_rows(actions: Any, length: int, path: Path) -> None:
    if actions.shape[0] != length:
        raise InputError(
            f"{path}: it has {actions.shape[0]} steps now, but {length} were judged; import it "
            "again"
        )


def _joined(of_episodes: Sequence[Array], rows: int, rest: float) -> Array:
    """One value for each row of the file; `rest` where a row is of no episode."""
    joined = np.full(rows, rest, np.float32)
    values = np.concatenate(list(of_episodes))
    joined[: len(values)] = values
    return joined


def _add(group: Any, name: str, values: Array) -> None:
    if name in group:
        del group[name]
    group.create_dataset(name, data=values)


def _size(paths: Mapping[str, Path]) -> int:
    return sum(path.stat().st_size for path in paths.values())
