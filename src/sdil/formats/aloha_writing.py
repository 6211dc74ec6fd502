"""ALOHA's HDF5 files back: a score and a weight of each step, or the kept segments as files."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.files import new_folder
from sdil.formats.hdf5_cutting import Rows, copy_tree, opened, put
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer, files_of


def write_scored(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """Copies of all files, each with `sdil_score` and `sdil_weight`."""
    paths = files_of(original, answers)
    with new_folder(out, overwrite=False, marker="", size=_size(paths)) as temporary:
        for answer in answers:
            path = paths[answer.id]
            shutil.copyfile(path, temporary / path.name)
            with opened(temporary / path.name, "r+") as file:
                _check_rows(file["action"], len(answer), path)
                put(file, SCORE, answer.score)
                put(file, WEIGHT, answer.weight)


def write_curated(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept segments, each a file. ALOHA's reader counts files from 0, and so they are named;
    each says where it comes from."""
    paths = files_of(original, answers)
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


def _check_rows(actions: Any, length: int, path: Path) -> None:
    if actions.shape[0] != length:
        raise InputError(
            f"{path}: it has {actions.shape[0]} steps now, but {length} were judged; import it "
            "again"
        )


def _size(paths: Mapping[str, Path]) -> int:
    return sum(path.stat().st_size for path in paths.values())
