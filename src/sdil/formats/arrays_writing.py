"""NumPy files back: a score and a weight of each row, or the kept segments as episodes."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file, new_folder
from sdil.formats.arrays import is_flags
from sdil.formats.npz import read_npz
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer, files_of
from sdil.spaces import Array

_ACTIONS = ("actions", "action", "acts", "a")
_ENDS, _STARTS = ("ends", "episode_ends"), ("starts", "episode_starts")
_NUMBERS = ("episode", "episodes", "episode_index", "episode_id", "traj_id")
_CUT_OFF = ("timeouts", "truncated")


def write_scored(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same with `sdil_score` and `sdil_weight`: a file, or a folder of them."""
    (_score_folder if original.is_dir() else _score_file)(original, answers, out)


def write_curated(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """What was kept of a file, or of each file of a folder."""
    (_curate_folder if original.is_dir() else _curate_file)(original, answers, out)


def _score_file(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same arrays with `sdil_score` and `sdil_weight`."""
    arrays = _load(original)
    _check(arrays, sum(map(len, answers)), original)
    arrays[SCORE] = np.concatenate([a.score for a in answers])
    arrays[WEIGHT] = np.concatenate([a.weight for a in answers])
    _save(out, arrays, original)


def _curate_file(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept rows; where episodes end is said as it was before. `sdil_row`: where each stood."""
    arrays = _load(original)
    rows = sum(map(len, answers))
    _check(arrays, rows, original)
    starts = np.cumsum([0, *map(len, answers)])
    runs = [
        (int(first) + a, int(first) + b, answer.is_whole or b == len(answer))
        for first, answer in zip(starts[:-1], answers, strict=True)
        for a, b in answer.pieces
    ]
    index = np.concatenate([np.arange(a, b) for a, b, _ in runs])
    ends = np.cumsum([b - a for a, b, _ in runs])
    cut = {
        name: array[index] if array.ndim and len(array) == rows else array
        for name, array in arrays.items()
    }
    of_run = np.repeat(np.arange(len(answers)), [len(answer.pieces) for answer in answers])
    said = False
    for name in arrays:
        if name in _ENDS:
            cut[name], said = ends.astype(arrays[name].dtype), True
        elif name in _STARTS and is_flags(arrays[name], rows):
            flags = np.zeros(len(index), arrays[name].dtype)
            flags[np.append(0, ends[:-1])] = 1
            cut[name], said = flags.reshape(-1, *arrays[name].shape[1:]), True
        elif name in _STARTS:
            cut[name], said = np.append(0, ends[:-1]).astype(arrays[name].dtype), True
        elif name.startswith("episode_") and arrays[name].shape[:1] == (len(answers),) != (rows,):
            cut[name] = arrays[name][of_run]  # a value for each episode goes along
        elif name in _NUMBERS and len(arrays[name]) == rows:
            numbers = _new_numbers(arrays[name], runs)
            cut[name], said = np.repeat(numbers, np.diff(ends, prepend=0)), True
    short = ends[[not whole for *_, whole in runs]] - 1
    if len(short) and (not said or any(name in cut for name in _CUT_OFF)):
        name = next((n for n in _CUT_OFF if n in cut), _CUT_OFF[0])
        flags = cut.get(name, np.zeros(len(index), bool)).copy()
        flags[short] = 1
        cut[name] = flags
    cut["sdil_row"] = index
    _save(out, cut, original)


def _score_folder(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """Each file with `sdil_score` and `sdil_weight`."""
    paths = files_of(original, answers)
    with new_folder(out, overwrite=False, marker="") as folder:
        for answer in answers:
            path = paths[answer.id]
            arrays = _load(path)
            _check(arrays, len(answer), path)
            arrays[SCORE], arrays[WEIGHT] = answer.score, answer.weight
            _save(folder / path.name, arrays, path)


def _curate_folder(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """Episodes that are kept whole as they are; segments of others in files of their own, which
    say where they come from (`sdil_source`, `sdil_first`)."""
    paths = files_of(original, answers)
    with new_folder(out, overwrite=False, marker="") as folder:
        for answer in answers:
            path = paths[answer.id]
            if answer.is_whole:
                shutil.copyfile(path, folder / path.name)
                continue
            arrays, n = _load(path), len(answer)
            _check(arrays, n, path)
            for first, stop in answer.pieces:
                cut = {
                    name: array[first : stop + (len(array) - n)]
                    if array.ndim and len(array) in (n, n + 1)
                    else array
                    for name, array in arrays.items()
                }
                flag = next((name for name in _CUT_OFF if name in cut), None)
                if flag is not None and stop < n:
                    cut[flag] = cut[flag].copy()
                    cut[flag][stop - first - 1] = 1
                cut[SOURCE], cut[FIRST] = np.array(answer.id), np.array(first)
                _save(folder / f"{path.stem}_{first}_{stop}{path.suffix}", cut, path)


def _new_numbers(given: Array, runs: Sequence[tuple[int, int, bool]]) -> Array:
    """The number of each run: the episode's own for its first, a new one for every further."""
    seen: set[object] = set()
    after, numbers = int(given.max()) + 1, []
    for first, _, _ in runs:
        number = given[first].item()
        if number in seen:
            number, after = after, after + 1
        seen.add(number)
        numbers.append(number)
    return np.array(numbers, given.dtype)


def _load(path: Path) -> dict[str, Array]:
    """All arrays but those of objects, which would have to be unpickled."""
    try:
        members, _ = read_npz(path)
        for member in members.values():
            member.check()
        return {name: member.array for name, member in members.items()}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: NumPy cannot read it ({error})") from None


def _check(arrays: Mapping[str, Array], rows: int, path: Path) -> None:
    actions = next((arrays[n] for n in _ACTIONS if n in arrays), None)
    if actions is None or len(actions) != rows:
        raise InputError(f"{path}: it does not hold the {rows} steps that were judged any more")


def _save(out: Path, arrays: Mapping[str, Array], original: Path) -> None:
    """Compressed where the original is."""
    with zipfile.ZipFile(original) as packed:
        squeezed = any(item.compress_type != zipfile.ZIP_STORED for item in packed.infolist())
    save = np.savez_compressed if squeezed else np.savez
    size = sum(array.nbytes for array in arrays.values())
    with new_file(out, size=size) as temporary, temporary.open("wb") as file:
        save(file, allow_pickle=False, **arrays)
