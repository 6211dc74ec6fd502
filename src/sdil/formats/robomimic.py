"""robomimic's HDF5: `data/demo_0/obs/*, actions`, and filter keys, lists of demos (`mask/*`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.hdf5 import (
    clear_reading,
    dataset,
    first_line,
    leaves,
    looks_like_image,
    opened,
    plain_attributes,
)
from sdil.formats.source import Episode, Feature, Recorded, Role
from sdil.spaces import Array

_NUMBER = re.compile(r"(\d+)$")
_OPERATOR = re.compile(r"operator|teleop|(^|_)(user|subject|person)_?\d", re.IGNORECASE)
_STEP_DATA = ("rewards", "dones", "actions")


@dataclass(frozen=True)
class RobomimicSource:
    """An opened robomimic file."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    _file: Any
    """h5py's; it stays open."""
    format: str = "robomimic"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one demo; an observation has a last row where `next_obs` has one."""
        name = self.episodes[index].id
        where = f"{self.location}: {name}"
        with clear_reading(where):
            demo = self._file["data"][name]
            values = {feature: _values(demo, feature, where) for feature in features}
            rewards = None
            if "rewards" in demo:
                rewards = np.asarray(dataset(demo, "rewards", where)[()]).reshape(-1)
            dones = np.asarray(demo["dones"][()]).reshape(-1) if "dones" in demo else np.zeros(0)
            # robomimic's `dones` mark success at the last step; without rewards nobody says
            ended = bool(len(dones) and dones[-1] and (rewards is None or rewards[-1] > 0))
            return Recorded(values, ended, rewards)


def open_robomimic(path: str | Path) -> RobomimicSource:
    """Open a robomimic file: features are told from its first demo, lengths from each."""
    import h5py

    location = str(path)
    with opened(Path(path)):  # says in one sentence if it cannot
        pass
    file = h5py.File(path, "r")
    with clear_reading(location):
        if not isinstance(file.get("data"), h5py.Group):
            raise InputError(f"{location}: there is no group `data`: not a robomimic file")
        names = sorted(
            (n for n in file["data"] if isinstance(file["data"].get(n), h5py.Group)), key=_order
        )
        if not names:
            raise InputError(f"{location}: there are no demos in `data`")
        tags, missing = _tags(file, set(names))
        episodes = tuple(_episode(file["data"][n], n, tags.get(n, set()), location) for n in names)
        about = _about(file) | ({"odd": missing} if missing else {})
        features = _features(file["data"][names[0]], location)
        return RobomimicSource(location, features, episodes, about, file)


def _order(name: str) -> tuple[int, str]:
    match = _NUMBER.search(name)
    return (int(match[1]) if match else -1, name)


def _values(demo: Any, feature: str, where: str) -> Array:
    values: Array = dataset(demo, feature, where)[()]
    group, _, rest = feature.partition("/")
    if group != "obs" or "next_obs" not in demo or rest not in demo["next_obs"]:
        return values
    after = dataset(demo["next_obs"], rest, where)
    if len(after) != len(values) or after.shape[1:] != values.shape[1:]:
        raise InputError(
            f"{where}: next_obs/{rest} has shape {after.shape}, but obs/{rest} {values.shape}"
        )
    return np.concatenate([values, after[-1:]])


def _episode(demo: Any, name: str, tags: set[str], location: str) -> Episode:
    where = f"{location}: {name}"
    steps = len(dataset(demo, "actions", where))
    said = {k: v for k, v in plain_attributes(demo).items() if k not in ("model_file", "ep_meta")}
    operators = sorted(tag for tag in tags if _OPERATOR.search(tag))
    group = operators[0] if operators else None
    task = None
    if "ep_meta" in demo.attrs:  # robocasa: a language instruction
        try:
            task = json.loads(demo.attrs["ep_meta"]).get("lang")
        except (ValueError, AttributeError, TypeError):
            task = None
    return Episode(
        name, steps, group, task if isinstance(task, str) else None, frozenset(tags), said
    )


def _tags(file: Any, known: set[str]) -> tuple[dict[str, set[str]], list[str]]:
    """The filter keys of each demo; and what is odd: keys that list demos which are not there, as
    after demos were deleted."""
    import h5py

    found: dict[str, set[str]] = {}
    missing: list[str] = []
    masks = file.get("mask")
    if not isinstance(masks, h5py.Group):
        return found, missing
    for key in masks:
        if not isinstance(masks.get(key), h5py.Dataset):
            missing.append(f"mask/{key} is no list of demos")
            continue
        raw = np.asarray(masks[key][()]).reshape(-1).tolist()
        names = [n.decode("utf-8", "replace") if isinstance(n, bytes) else str(n) for n in raw]
        for name in names:
            found.setdefault(name, set()).add(str(key))
        lost = [name for name in names if name not in known]
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            missing.append(f"mask/{key} lists {lost[0]!r}{more}, which the file does not hold")
    return found, missing


def _features(demo: Any, location: str) -> tuple[Feature, ...]:
    found = []
    for name, array in leaves(demo).items():
        shape = tuple(array.shape[1:])
        group = name.partition("/")[0]
        role: Role = "other"
        if group == "obs":
            role = "image" if looks_like_image(shape) else "observation"
        elif name == "actions":
            role = "action"
        elif name == "rewards":
            role = "reward"
        elif group == "next_obs":
            continue
        found.append(Feature(name, role, shape, str(array.dtype)))
    if not any(f.role == "observation" for f in found):  # states alone: what the simulator knows
        found = [
            Feature(f.name, "observation", f.shape, f.dtype) if f.name == "states" else f
            for f in found
        ]
    return tuple(found)


def _about(file: Any) -> dict[str, Any]:
    said = plain_attributes(file["data"])
    text = said.pop("env_args", None)
    if isinstance(text, str):
        try:
            said["env_args"] = json.loads(text)
        except ValueError as error:
            said["env_args"] = f"cannot be read ({first_line(error)})"
    return said
