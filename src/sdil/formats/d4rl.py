"""D4RL's HDF5: all steps end to end, cut into episodes where `terminals` or `timeouts` say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.blocks import Blocks
from sdil.formats.hdf5 import clear_reading, dataset, leaves, looks_like_image, opened
from sdil.formats.runs import Rows
from sdil.formats.source import Episode, Feature, Recorded, Role
from sdil.spaces import Array

_NEXT = "next_observations"
_ENDS = ("terminals", "timeouts")


@dataclass(frozen=True)
class D4rlSource:
    """An opened D4RL file."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    _file: Any
    """h5py's; it stays open."""
    _edges: Array
    """Where each episode begins, and where the last one ends. (E+1,)"""
    _terminated: Array
    """(E,)"""
    _blocks: Blocks = field(default_factory=Blocks, repr=False)
    format: str = "d4rl"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one episode; its frames are rows of the file."""
        first, last = int(self._edges[index]), int(self._edges[index + 1])
        where = f"{self.location}: episode {self.episodes[index].id}, rows {first} to {last - 1}"
        with clear_reading(where):
            values = {name: self._rows(name, first, last) for name in features}
            if "observations" in values and _NEXT in self._file:
                final = self._rows(_NEXT, last - 1, last)
                values["observations"] = np.concatenate([values["observations"], final])
            rewards = None
            if "rewards" in self._file:
                rewards = self._rows("rewards", first, last).reshape(-1)
        ended = bool(self._terminated[index])
        return Recorded(values, ended, rewards, np.arange(first, last))

    def read_rows(self, first: int, last: int, features: Sequence[str]) -> Rows | None:
        """These features of several episodes, where none has an observation after its last step."""
        if _NEXT in self._file:
            return None
        begin, end = int(self._edges[first]), int(self._edges[last])
        where = f"{self.location}: episode {self.episodes[first].id}, rows {begin} to {end - 1}"
        with clear_reading(where):
            values = {name: self._rows(name, begin, end) for name in features}
            rewards = None
            if "rewards" in self._file:
                rewards = self._rows("rewards", begin, end).reshape(-1)
        return Rows(
            Recorded(values, False, rewards, np.arange(begin, end)),
            self._terminated[first:last].tolist(),
        )

    def _rows(self, name: str, first: int, last: int) -> Array:
        return self._blocks.rows(name, self._file[name], first, last)


def open_d4rl(path: str | Path) -> D4rlSource:
    """Open a D4RL file and find where its episodes end."""
    import h5py

    location = str(path)
    with opened(Path(path)):
        pass
    file = h5py.File(path, "r")
    with clear_reading(location):
        rows = len(dataset(file, "observations", location))
        for name in ("actions", "rewards", _NEXT, *_ENDS):
            if name == "actions" or name in file:
                length = len(dataset(file, name, location))
                if length != rows:
                    raise InputError(
                        f"{location}: {name} has {length} rows, but observations {rows}"
                    )
        if not any(name in file for name in _ENDS):
            raise InputError(
                f"{location}: it has neither terminals nor timeouts, so that nobody says where "
                "an episode ends"
            )
        terminals, timeouts = (
            np.asarray(file[name][()]).reshape(-1).astype(bool)
            if name in file
            else np.zeros(rows, bool)
            for name in _ENDS
        )
        if not rows:
            raise InputError(f"{location}: it is empty")
        ends = np.flatnonzero(terminals | timeouts) + 1
        edges = np.unique(np.concatenate([[0], ends, [rows]]))
        lengths = np.diff(edges)
        episodes = tuple(
            Episode(str(i), int(n), columns={"first_row": int(edges[i])})
            for i, n in enumerate(lengths)
        )
        features = tuple(
            _feature(name, array)
            for name, array in leaves(file).items()
            if len(array) == rows and name != _NEXT
        )
        about = _about(file)
        return D4rlSource(
            location, features, episodes, about, file, edges, terminals[edges[1:] - 1]
        )


def _feature(name: str, array: Any) -> Feature:
    shape = tuple(array.shape[1:])
    role: Role = "other"
    if name == "observations":
        role = "image" if looks_like_image(shape) else "observation"
    elif name == "actions":
        role = "action"
    elif name == "rewards":
        role = "reward"
    return Feature(name, role, shape, str(array.dtype))


def _about(file: Any) -> dict[str, Any]:
    """What `metadata/` says in words and single numbers."""
    import h5py

    found: dict[str, Any] = {}
    group = file.get("metadata")
    if isinstance(group, h5py.Group):
        for name in group:
            item = group[name]
            if isinstance(item, h5py.Dataset) and item.shape == ():
                value = item[()]
                found[name] = (
                    value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                )
    return found
