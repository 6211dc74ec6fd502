"""Any Minari data set on this machine, ours included; Dict and Tuple spaces are taken apart.

Features are called like their path: `observations/desired_goal`, `observations/0`, `actions`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.formats.hdf5 import clear_reading, first_line, looks_like_image, plain_attributes
from sdil.formats.source import Episode, Feature, Recorded, Role
from sdil.spaces import Array

_FILE = "main_data.hdf5"


@dataclass(frozen=True)
class MinariSource:
    """An opened Minari data set."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    _storage: Any
    """Minari's own reader, for what is not HDF5 or holds JPEG."""
    _file: Any
    """h5py's, or None."""
    format: str = "minari"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one episode, with its last observation."""
        where = f"{self.location}: episode {self.episodes[index].id}"
        with clear_reading(where):
            if self._file is not None:
                group = self._file[f"episode_{index}"]
                values = {name: np.asarray(group[_hdf5_path(name)][()]) for name in features}
                rewards, ends = group["rewards"][()], group["terminations"][()]
            else:
                (episode,) = self._storage.get_episodes([index])
                values = {name: np.asarray(_within(episode, name)) for name in features}
                rewards, ends = episode["rewards"], episode["terminations"]
            steps = self.episodes[index].steps
            for name, array in values.items():
                if name.startswith("infos") and len(array) == steps + 1:
                    values[name] = array[:-1]
            known = not np.isnan(np.asarray(rewards, float)).all()
            return Recorded(values, bool(len(ends) and ends[-1]), rewards if known else None)


def open_minari(path: str | Path) -> MinariSource:
    """Open a Minari data set by its path or, from Minari's own folder, by its id."""
    from minari.dataset.minari_storage import MinariStorage

    location = str(path)
    folder = _data_folder(location)
    try:
        said = json.loads((folder / "metadata.json").read_text("utf-8"))
        _refuse_environment(said, folder)
        storage = MinariStorage.read(folder)
        count = said["total_episodes"]
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise InputError("total_episodes is not a whole number")
        file = _open_hdf5(folder, said)
        lengths = _lengths(storage, file, count)
        columns = [] if not count else _columns(storage, file, count)
    except Exception as error:  # Minari, Gymnasium, HDF5 and JSON each have their own
        raise InputError(
            f"{location}: Minari cannot open this data set ({type(error).__name__}: "
            f"{first_line(error)})"
        ) from None
    if not count:
        raise InputError(f"{location}: the data set is empty")
    features = [
        *_features("observations", storage.observation_space, "observation"),
        *_features("actions", storage.action_space, "action"),
    ]
    with clear_reading(location):
        if file is not None:
            features = [*(_as_stored(f, file) for f in features), *_infos(file)]
    episodes = tuple(Episode(str(i), steps, columns=columns[i]) for i, steps in enumerate(lengths))
    about = {k: v for k, v in said.items() if k in _ABOUT and v is not None}
    return MinariSource(location, tuple(features), episodes, about, storage, file)


_ABOUT = ("dataset_id", "author", "algorithm_name", "minari_version", "description")


def local_folder(name: str) -> Path | None:
    """Where Minari keeps the local data set of this id, if it does."""
    root = os.environ.get("MINARI_DATASETS_PATH")
    base = Path(root) if root else Path.home() / ".minari" / "datasets"
    folder = base / name / "data"
    return folder if (folder / "metadata.json").is_file() else None


def _data_folder(location: str) -> Path:
    place = Path(location)
    for folder in (place, place / "data"):
        if (folder / "metadata.json").is_file():
            return folder
    found = None if place.exists() else local_folder(location)
    if found is None:
        raise InputError(
            f"{location}: no Minari data set: there is no data/metadata.json, and none of this id "
            "on this machine"
        )
    return found


def _refuse_environment(said: Any, folder: Path) -> None:
    """Minari makes the environment that a file names where spaces are missing: code of others."""
    if not isinstance(said, dict):
        raise InputError("metadata.json is not an object")
    missing = [k for k in ("observation_space", "action_space") if not isinstance(said.get(k), str)]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} is missing in {folder / 'metadata.json'}, and no environment "
            "that a file names is made here; add the spaces with minari"
        )


def _open_hdf5(folder: Path, said: Mapping[str, Any]) -> Any:
    """The file itself where its arrays are as they were recorded: faster than through Minari."""
    import h5py

    if said.get("data_format") != "hdf5" or not (folder / _FILE).is_file():
        return None
    if said.get("jpeg_encoding", True) and "uint8" in str(said["observation_space"]):
        return None  # pictures may be JPEG
    return h5py.File(folder / _FILE, "r")


def _lengths(storage: Any, file: Any, count: int) -> list[int]:
    if file is not None:
        return [int(file[f"episode_{i}"]["rewards"].shape[0]) for i in range(count)]
    return [int(m["total_steps"]) for m in storage.get_episode_metadata(range(count))]


def _columns(storage: Any, file: Any, count: int) -> list[dict[str, Any]]:
    if file is not None:
        said = [plain_attributes(file[f"episode_{i}"]) for i in range(count)]
    else:
        said = [
            {k: v for k, v in m.items() if isinstance(v, str | int | float | bool)}
            for m in storage.get_episode_metadata(range(count))
        ]
    return [{k: v for k, v in m.items() if k not in ("id", "total_steps")} for m in said]


def _features(name: str, space: gym.Space[Any], role: Role) -> list[Feature]:
    if isinstance(space, gym.spaces.Dict):
        parts = [(str(k), s) for k, s in space.spaces.items()]
    elif isinstance(space, gym.spaces.Tuple):
        parts = [(str(i), s) for i, s in enumerate(space.spaces)]
    else:
        shape = tuple(space.shape or ())
        numbers = space.dtype is not None and np.dtype(space.dtype).kind in "biuf"
        kind: Role = role
        if not numbers or space.shape is None:
            kind = "other"
        elif role == "observation" and looks_like_image(shape):
            kind = "image"
        return [Feature(name, kind, shape, str(np.dtype(space.dtype)) if numbers else "object")]
    return [f for key, part in parts for f in _features(f"{name}/{key}", part, role)]


def _as_stored(feature: Feature, file: Any) -> Feature:
    """The number type and shape on disk, which may differ from what the space says."""
    found = file["episode_0"].get(_hdf5_path(feature.name))
    if found is None or feature.role == "other":
        return feature
    return Feature(feature.name, feature.role, tuple(found.shape[1:]), str(found.dtype))


def _infos(file: Any) -> list[Feature]:
    """What was noted of each step beside what was seen, as the first episode has it: left out
    unless somebody names it."""
    found: list[Feature] = []

    def note(name: str, item: Any) -> None:
        if getattr(item, "shape", ()):  # a group has none
            found.append(Feature(f"infos/{name}", "other", item.shape[1:], str(item.dtype)))

    infos = file["episode_0"].get("infos")
    if infos is not None:
        infos.visititems(note)
    return found


def _hdf5_path(name: str) -> str:
    """Minari calls the parts of a Tuple `_index_0`."""
    first, *rest = name.split("/")
    return "/".join([first, *(f"_index_{p}" if p.isdecimal() else p for p in rest)])


def _within(episode: Mapping[str, Any], name: str) -> Array:
    value: Any = episode
    for part in name.split("/"):
        value = value[int(part)] if isinstance(value, tuple) else value[part]
    return np.asarray(value)
