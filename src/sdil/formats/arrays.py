"""NumPy files: one `.npz` of steps end to end with their ends, or a folder with one per episode.

    steps.npz       observations (N, ...), actions (N, ...), and where episodes end: `ends` or
                    `episode_ends` (positions), `terminals`, `timeouts`, `dones` or `episode` (N,)
    episodes/*.npz  one file per episode; observations may have a last row more than actions

Any further array of N rows is a feature. Nothing is ever unpickled.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.hdf5 import check_numbers_like, clear_reading, first_line, looks_like_image
from sdil.formats.npz import Member, read_npz
from sdil.formats.runs import Rows
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
_NEEDED = {*_ACTIONS, *_OBSERVATIONS, *_REWARDS, *_ENDS, *_FLAGS, *_NUMBERS, *_STARTS}
_LONG = 4096  # bytes of an episode from which on its own checksum is kept


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
    _sums: Mapping[str, Array] = field(default_factory=dict)
    """CRC-32 of each episode, of arrays whose bytes had to be summed up."""
    _files: tuple[Path, ...] = ()
    format: str = "numpy"

    @cached_property
    def _reward(self) -> str | None:
        return next((n for n in _REWARDS if n in (self._arrays or ())), None)

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
        rows = self.read_rows(index, index + 1, features)
        assert rows is not None
        sums = {name: each[0] for name, each in rows.sums.items()}
        return replace(rows.recorded, terminated=rows.terminated[0], sums=sums)

    def read_rows(self, first: int, last: int, features: Sequence[str]) -> Rows | None:
        """These features of several episodes."""
        if self._arrays is None:
            return None
        part = slice(int(self._edges[first]), int(self._edges[last]))
        reward = self._arrays[self._reward] if self._reward else None
        return Rows(
            Recorded(
                {name: self._arrays[name][part] for name in features},
                rewards=None if reward is None else reward[part].reshape(-1),
            ),
            self._terminated[first:last].tolist(),
            {name: each[first:last].tolist() for name, each in self._sums.items()},
        )


def open_arrays(path: str | Path) -> ArraysSource:
    """Open a `.npz` file, or a folder of them."""
    location, place = str(path), Path(path)
    if place.is_dir():
        return _open_folder(place)
    members, objects = _members(place)
    long = {
        n: members[n] for n in (*_OBSERVATIONS, *_ACTIONS) if n in members and members[n].array.ndim
    }
    arrays = _numbers(place, members, unchecked=long)
    actions = next((n for n in _ACTIONS if n in arrays), None)
    if actions is None:
        names = ", ".join([*arrays, *(f"{name} (objects)" for name in objects)])
        raise InputError(f"{location}: there are no actions; it holds {names}")
    rows = len(arrays[actions])
    edges, terminated = _edges(arrays, rows, location)
    sums = {}
    for name, member in long.items():
        with _clear(place):
            summed = _sum_up(member, edges)
        if summed is not None:
            sums[name] = summed
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
        Episode(str(i), last - first, columns={"first_row": first})
        for i, (first, last) in enumerate(pairwise(edges.tolist()))
    )
    odd = [f"{name} holds objects, which are never unpickled: it is left out" for name in objects]
    about = {"odd": odd} if odd else {}
    return ArraysSource(location, features, episodes, about, kept, edges, terminated, sums)


def load(path: Path) -> dict[str, Array]:
    """The arrays of a file that hold numbers."""
    return _numbers(path, _members(path)[0])


def _members(path: Path) -> tuple[dict[str, Member], list[str]]:
    with _clear(path):
        return read_npz(path)


@contextmanager
def _clear(path: Path) -> Iterator[None]:
    """What NumPy says against a file, in one sentence."""
    try:
        yield
    except MemoryError:
        raise InputError(f"{path}: it does not fit into memory") from None
    except Exception as error:  # zip, zlib and NumPy each have their own
        raise InputError(f"{path}: NumPy cannot read it ({first_line(error)})") from None


def _numbers(
    path: Path, members: Mapping[str, Member], unchecked: Container[str] = ()
) -> dict[str, Array]:
    """Arrays that hold numbers, compared with their checksums but for those named. Texts that
    nobody needs are left out."""
    found = {}
    for name, member in members.items():
        if name not in unchecked:
            with _clear(path):
                member.check()
        if member.array.ndim and (member.array.dtype.kind in "biuf" or name in _NEEDED):
            check_numbers_like(member.array, f"{path}: {name}")
            found[name] = member.array
    return found


def _sum_up(member: Member, edges: Array) -> Array | None:
    """The CRC-32 of each episode, where episodes are long enough for that to pay."""
    rows = len(member.array)
    if rows != edges[-1] or member.array.nbytes < _LONG * (len(edges) - 1):
        member.check()
        return None
    return member.sum_up(edges)


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
        str(folder), features, tuple(episodes), {}, None, empty, empty, {}, tuple(files)
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
        elif given in _STARTS and is_flags(arrays[given], rows):  # as Stable-Baselines has it
            if arrays[given].size != rows:
                raise InputError(f"{location}: {given} has not {rows} rows, as actions have")
            begun = np.flatnonzero(arrays[given].reshape(-1))
            edges = np.unique(np.concatenate([[0], begun, [rows]]))
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


def is_flags(starts: Array, rows: int) -> bool:
    """Whether it says of each step whether an episode begins there, and not where they begin."""
    flat = starts.reshape(-1)
    return starts.dtype == bool or (
        len(flat) == rows > 1 and bool(((flat == 0) | (flat == 1)).all())
    )


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
