"""The Zarr replay buffer of Diffusion Policy: `data/*` end to end, `meta/episode_ends`."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.blocks import Blocks
from sdil.formats.hdf5 import check_numbers_like, clear_reading, first_line, looks_like_image
from sdil.formats.runs import Rows
from sdil.formats.source import OURS, Episode, Feature, Recorded, Role
from sdil.spaces import Array

_ACTIONS = ("action", "actions")
_METADATA = (".zarray", "zarr.json")
_REWARDS = ("reward", "rewards")


@dataclass(frozen=True)
class ReplayBufferSource:
    """An opened Zarr store."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    _arrays: Mapping[str, Any]
    _edges: Array
    """Where each episode begins, and where the last one ends. (E+1,)"""
    _blocks: Blocks = field(default_factory=Blocks, repr=False)
    format: str = "zarr"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one episode; the last observation is unknown."""
        return self.read_rows(index, index + 1, features).recorded

    def read_rows(self, first: int, last: int, features: Sequence[str]) -> Rows:
        """These features of several episodes."""
        begin, end = int(self._edges[first]), int(self._edges[last])
        where = f"{self.location}: episode {self.episodes[first].id}, rows {begin} to {end - 1}"
        with clear_reading(where):
            values = {
                name: self._blocks.rows(name, self._arrays[name], begin, end) for name in features
            }
            rewards = None
            for name in _REWARDS:
                if name in self._arrays:
                    rewards = self._blocks.rows(name, self._arrays[name], begin, end).reshape(-1)
        return Rows(Recorded(values, False, rewards), [False] * (last - first))


def open_replay_buffer(path: str | Path) -> ReplayBufferSource:
    """Open a Zarr store, version 2 or 3, a folder or a zip file."""
    location = str(path)
    try:
        import zarr
    except ImportError:
        raise InputError(
            f'{location}: reading Zarr needs zarr: pip install "sdil[formats]"'
        ) from None
    root: Any
    try:
        if Path(path).is_file():
            root = zarr.open_group(zarr.storage.ZipStore(path, mode="r"), mode="r")
        else:
            root = zarr.open_group(location, mode="r")
        found, odd = _members(root["data"], Path(path))
        ends = np.asarray(root["meta"]["episode_ends"][:])
    except Exception as error:  # zarr, numcodecs, zip and JSON each have their own
        raise InputError(
            f"{location}: it is no replay buffer that Zarr can open, with data/ and "
            f"meta/episode_ends ({type(error).__name__}: {first_line(error)})"
        ) from None
    with clear_reading(location):
        arrays = {}
        for name, item in found.items():
            check_numbers_like(item, f"{location}: data/{name}")
            arrays[name] = item
        edges = _check_ends(ends, {n: int(a.shape[0]) for n, a in arrays.items()}, location)
        features = tuple(_feature(name, array) for name, array in sorted(arrays.items()))
        episodes = tuple(
            Episode(str(i), int(edges[i + 1] - edges[i]), columns={"first_row": int(edges[i])})
            for i in range(len(edges) - 1)
        )
        about = dict(root.attrs) | ({"odd": odd} if odd else {})
        return ReplayBufferSource(location, features, episodes, about, arrays, edges)


def _members(group: Any, path: Path) -> tuple[dict[str, Any], list[str]]:
    """The arrays of a group; and what is odd: pictures that cannot be opened, since their codec is
    not installed. Anything else that cannot be is an error."""
    try:
        return {str(name): item for name, item in group.members()}, []
    except Exception:  # Zarr opens all of them or none
        found, odd = {}, []
        for name, shape in sorted(_shapes(path).items()):
            try:
                found[name] = group[name]
            except Exception as error:  # numcodecs has its own
                if "Codec" not in type(error).__name__ or not looks_like_image(shape[1:]):
                    raise
                odd.append(f"data/{name}, pictures, cannot be opened: {first_line(error)}")
        return found, odd


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of each array of `data/`, as its own metadata says."""
    if path.is_file():
        with zipfile.ZipFile(path) as packed:
            said = {Path(n): packed.read(n) for n in packed.namelist() if _is_about(Path(n))}
    else:
        files = (p for name in _METADATA for p in (path / "data").glob(f"*/{name}"))
        said = {p.relative_to(path): p.read_bytes() for p in files}
    return {p.parts[1]: tuple(json.loads(text)["shape"]) for p, text in said.items()}


def _is_about(path: Path) -> bool:
    return path.name in _METADATA and len(path.parts) == 3 and path.parts[0] == "data"


def _check_ends(ends: Array, lengths: Mapping[str, int], location: str) -> Array:
    where = f"{location}: meta/episode_ends"
    if ends.ndim != 1 or ends.dtype.kind not in "iu" or not len(ends):
        raise InputError(f"{where} is no list of whole numbers")
    edges = np.concatenate([[0], ends.astype(np.int64)])
    backwards = np.flatnonzero(np.diff(edges) <= 0)
    if len(backwards):
        at = int(backwards[0])
        raise InputError(
            f"{where}: episode {at} would end at {edges[at + 1]} and begin at {edges[at]}"
        )
    for name, length in lengths.items():
        if length != edges[-1]:
            raise InputError(
                f"{where}: the last episode ends at {edges[-1]}, but data/{name} has {length} rows"
            )
    if not lengths:
        raise InputError(f"{location}: data/ holds no arrays")
    return edges


def _feature(name: str, array: Any) -> Feature:
    shape = tuple(int(n) for n in array.shape[1:])
    role: Role = "observation"
    if name.startswith(OURS):
        role = "other"
    elif name in _ACTIONS:
        role = "action"
    elif name in _REWARDS:
        role = "reward"
    elif looks_like_image(shape):  # Diffusion Policy keeps them as floats from 0 to 255
        role = "image"
    return Feature(name, role, shape, str(np.dtype(array.dtype)))
