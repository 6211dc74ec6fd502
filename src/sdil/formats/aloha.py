"""ALOHA's HDF5: one file per episode with `action` and `observations/qpos, qvel, images/*`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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

_ENDINGS = (".hdf5", ".h5")
_IMAGES = "observations/images/"
_ARM = ("waist", "shoulder", "elbow", "forearm_roll", "wrist_angle", "wrist_rotate", "gripper")
_JOINTS = tuple(f"{side}_{joint}" for side in ("left", "right") for joint in _ARM)
"""Two ViperX arms of six joints and a gripper each, in the order of ALOHA's own code."""


@dataclass(frozen=True)
class AlohaSource:
    """A folder of ALOHA files, or one of them."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    _files: tuple[Path, ...]
    _compressed: frozenset[str] = frozenset()
    """Cameras whose frames are JPEG."""
    format: str = "aloha"

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one file; the last observation is unknown."""
        path = self._files[index]
        with opened(path) as file:
            values = {
                name: np.stack(list(self.pictures(index, name, None)))
                if name in self._compressed
                else dataset(file, name, str(path))[()]
                for name in features
            }
            rewards = None
            if "rewards" in file:
                rewards = np.asarray(dataset(file, "rewards", str(path))[()]).reshape(-1)
        return Recorded(values, False, rewards)

    def pictures(self, index: int, feature: str, size: tuple[int, int] | None) -> Iterator[Array]:
        """The frames of a camera in an episode, one after the other, as they were recorded."""
        path = self._files[index]
        with opened(path) as file:
            frames = dataset(file, feature, str(path))
            for row in range(len(frames)):
                frame = frames[row]
                if feature in self._compressed:
                    frame = _decoded(frame, f"{path}: {feature}, row {row}")
                yield frame


def open_aloha(path: str | Path) -> AlohaSource:
    """Open a folder of ALOHA files: features are told from the first one, lengths from each."""
    location, place = str(path), Path(path)
    files = [place] if place.is_file() else _files_of(place)
    if not files:
        raise InputError(f"{location}: there are no {' or '.join(_ENDINGS)} files in it")
    episodes = []
    for file_path in files:
        with opened(file_path) as file:
            said = plain_attributes(file)
            steps = len(dataset(file, "action", str(file_path)))
        columns = {k: v for k, v in said.items() if k not in ("sim", "compress")}
        episodes.append(Episode(_id(file_path), steps, columns=columns))
    with opened(files[0]) as file, clear_reading(str(files[0])):
        arrays = leaves(file)
        compressed = {n for n, a in arrays.items() if n.startswith(_IMAGES) and a.ndim == 2}
        features = tuple(
            _compressed_feature(n, a, str(files[0])) if n in compressed else _feature(n, a)
            for n, a in arrays.items()
        )
        about = plain_attributes(file)
    return AlohaSource(
        location, features, tuple(episodes), about, tuple(files), frozenset(compressed)
    )


def _compressed_feature(name: str, array: Any, where: str) -> Feature:
    """A camera whose rows are JPEG and zeros behind it; its first frame tells the size."""
    try:
        shape = _decoded(array[0], f"{where}: {name}, row 0").shape
    except InputError:  # told when it is asked for
        return _feature(name, array)
    return Feature(name, "image", shape, "jpeg")


def _decoded(frame: Array, where: str) -> Array:
    from sdil.formats.lerobot_video import decode_picture

    try:
        return decode_picture(np.ascontiguousarray(frame, np.uint8).tobytes())
    except Exception as error:  # Pillow has many
        raise InputError(f"{where} is no JPEG ({first_line(error)})") from None


def _files_of(folder: Path) -> list[Path]:
    found = [p for p in folder.iterdir() if p.suffix.lower() in _ENDINGS and p.is_file()]
    return sorted(found, key=lambda p: ([int(n) for n in re.findall(r"\d+", p.stem)], p.name))


def _id(path: Path) -> str:
    return path.stem


def _feature(name: str, array: Any) -> Feature:
    shape = tuple(array.shape[1:])
    role: Role = "other"
    if name == "action":
        role = "action"
    elif name == "rewards":
        role = "reward"
    elif name.startswith("observations/"):
        role = "image" if name.startswith(_IMAGES) or looks_like_image(shape) else "observation"
    joints = shape == (len(_JOINTS),) and name in ("action", "observations/qpos")
    return Feature(name, role, shape, str(array.dtype), _JOINTS if joints else ())
