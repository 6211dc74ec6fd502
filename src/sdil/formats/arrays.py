"""NumPy files: one `.npz` of steps end to end with their ends, or a folder with one per episode.

    steps.npz       observations (N, ...), actions (N, ...), and where episodes end: `ends` or
                    `episode_ends` (positions), `terminals`, `timeouts`, `dones` or `episode` (N,)
    episodes/*.npz  one file per episode; observations may have a last row more than actions

Any further array of N rows is a feature. Nothing is ever unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.hdf5 import check_numbers_like, clear_reading, first_line, looks_like_image
from sdil.formats.source import OURS, Episode, Feature, Recorded, Role
from sdil.spaces import Array

_ACTIONS = ("actions", "action", "acts", "a")
_OBSERVATIONS = ("observations", "observation", "obs", "states", "state", "s", "x")
_REWARDS = ("rewards", "reward", "rews", "r")
_ENDS = ("ends", "episode_ends")
_FLAGS = ("terminals", "timeouts", "dones", "done", "terminated", "truncated")
_TERMINAL = ("terminals", "terminated")
_NUMBERS = ("episode", "episodes", "episode_index", "episode_id", "traj_id")
_STARTS = ("starts", "episode_starts")


@dataclass(frozen=True)
class ArraysSource:
    """NumPy files, one at a time in memory."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    _arrays: Mapping[str, Array] | None
    """Of a single file; None where each episode has its own."""
    _edges: Array
    _terminated: Array
    _files: tuple[Path, ...] = ()
    format: str = "numpy"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one episode."""
        if self._arrays is None:
            arrays = load(self._files[index])
            missing = next((n for n in features if n not in arrays), None)
            if missing is not None:
                raise InputError(f"{self._files[index]}: {missing} is missing")
            values = {name: arrays[name] for name in features}
            reward = next((arrays[n] for n in _REWARDS if n in arrays), None)
            flags = next((arrays[n] for n in _TERMINAL if n in arrays), np.zeros(0))
            return Recorded(
                values,
                bool(flags.size and flags.reshape(-1)[-1]),
                None if reward is None else reward.reshape(-1),
            )
        first, last = int(self._edges[index]), int(self._edges[index + 1])
        values = {name: self._arrays[name][first:last] for name in features}
        reward = next((self._arrays[n] for n in _REWARDS if n in self._arrays), None)
        rewards = None if reward is None else reward[first:last].reshape(-1)
        return Recorded(values, bool(self._terminated[index]), rewards)


def open_arrays(path: str | Path) -> ArraysSource:
    """Open a `.npz` file, or a folder of them."""
    location, place = str(path), Path(path)
    if place.is_dir():
        return _open_folder(place)
    arrays = load(place)
    actions = next((n for n in _ACTIONS if n in arrays), None)
    if actions is None:
        raise InputError(f"{location}: there are no actions; it holds {', '.join(arrays)}")
    rows = len(arrays[actions])
    edges, terminated = _edges(arrays, rows, location)
    kept = {}
    for name, array in arrays.items():
        if name in (*_ENDS, *_STARTS):
            continue
        if array.shape[:1] != (rows,):
            if name in (*_OBSERVATIONS, *_REWARDS):
                raise InputError(
                    f"{location}: {name} has shape {array.shape}, but there are {rows} actions"
                )
            continue
        kept[name] = array
    features = _features(kept)
    episodes = tuple(
        Episode(str(i), int(n), columns={"first_row": int(edges[i])})
        for i, n in enumerate(np.diff(edges))
    )
    return ArraysSource(location, features, episodes, {}, kept, edges, terminated)


def load(path: Path) -> dict[str, Array]:
    """The arrays of a file that hold numbers."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                raise InputError("it is a single array; put observations and actions into a .npz")
            arrays = {str(name): content[name] for name in content.files}
    except MemoryError:
        raise InputError(f"{path}: it does not fit into memory") from None
    except Exception as error:  # zip, zlib and NumPy each have their own
        raise InputError(f"{path}: NumPy cannot read it ({first_line(error)})") from None
    found = {}
    for name, array in arrays.items():
        if array.ndim:
            check_numbers_like(array, f"{path}: {name}")
            found[name] = array
    return found


def _open_folder(folder: Path) -> ArraysSource:
    files = sorted(
        (p for p in folder.iterdir() if p.suffix.lower() == ".npz"),
        key=lambda p: ([int(n) for n in re.findall(r"\d+", p.stem)], p.name),
    )
    if not files:
        raise InputError(f"{folder}: there are no .npz files in it")
    episodes: list[Episode] = []
    features: tuple[Feature, ...] = ()
    for path in files:
        arrays = load(path)
        actions = next((n for n in _ACTIONS if n in arrays), None)
        if actions is None:
            raise InputError(f"{path}: there are no actions; it holds {', '.join(arrays)}")
        steps = len(arrays[actions])
        episodes.append(Episode(path.stem, steps))
        if not features:
            features = _features({n: a for n, a in arrays.items() if len(a) in (steps, steps + 1)})
    empty = np.empty(0)
    return ArraysSource(
        str(folder), features, tuple(episodes), {}, None, empty, empty, tuple(files)
    )


def _edges(arrays: Mapping[str, Array], rows: int, location: str) -> tuple[Array, Array]:
    """Where episodes begin and end (E+1,), and which the task itself ended (E,)."""
    given = next((n for n in (*_ENDS, *_STARTS, *_NUMBERS) if n in arrays), None)
    flags = [n for n in _FLAGS if n in arrays]
    if not rows:
        raise InputError(f"{location}: it is empty")
    with clear_reading(location):
        if given in _ENDS:
            edges = np.concatenate([[0], arrays[given].reshape(-1)])
        elif given in _STARTS:
            edges = np.concatenate([arrays[given].reshape(-1), [rows]])
        elif given is not None:
            number = arrays[given].reshape(-1)
            if len(number) != rows:
                raise InputError(f"{location}: {given} has {len(number)} rows for {rows} actions")
            edges = np.concatenate([[0], np.flatnonzero(np.diff(number)) + 1, [rows]])
            if len(np.unique(number)) != len(edges) - 1:
                raise InputError(f"{location}: the rows of an episode do not follow one another")
        elif flags:
            ended = np.zeros(rows, bool)
            for name in flags:
                if arrays[name].size != rows:
                    raise InputError(f"{location}: {name} has not {rows} rows, as actions have")
                ended |= arrays[name].reshape(-1).astype(bool)
            edges = np.unique(np.concatenate([[0], np.flatnonzero(ended) + 1, [rows]]))
        else:
            raise InputError(
                f"{location}: nobody says where an episode ends; add an array `ends` with the "
                "position after the last step of each"
            )
    if edges.dtype.kind == "f" and (edges == np.rint(edges)).all():
        edges = edges.astype(np.int64)
    if edges.dtype.kind not in "iu" or (np.diff(edges) <= 0).any() or edges[0] or edges[-1] != rows:
        raise InputError(
            f"{location}: {given} does not cut {rows} steps into episodes; it must rise, and end "
            f"with {rows}"
        )
    terminal = next((arrays[n].reshape(-1) for n in _TERMINAL if n in arrays), None)
    at_end = edges[1:].astype(np.int64) - 1
    if terminal is not None and len(terminal) == rows:
        return edges.astype(np.int64), terminal[at_end].astype(bool)
    return edges.astype(np.int64), np.zeros(len(at_end), bool)


def _features(arrays: Mapping[str, Array]) -> tuple[Feature, ...]:
    found = []
    by_name = any(n in _OBSERVATIONS for n in arrays)
    for name, array in arrays.items():
        shape = tuple(array.shape[1:])
        role: Role = "other"
        if name in _ACTIONS:
            role = "action"
        elif name in _REWARDS:
            role = "reward"
        elif name in (*_FLAGS, *_NUMBERS) or name.startswith(OURS):
            role = "other"
        elif name in _OBSERVATIONS or not by_name:
            role = "image" if looks_like_image(shape) else "observation"
        found.append(Feature(name, role, shape, str(array.dtype)))
    return tuple(found)
