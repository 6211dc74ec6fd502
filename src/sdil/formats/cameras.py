"""Pictures out of other people's data: which cameras are chosen, and their frames as bytes.

Frames become (H, W, C) bytes, whatever the source keeps (videos, JPEG, floats from 0 to 255,
channels first), resized by area where that is asked for. They come one after the other where the
source can do that, so that an episode is never held at its full size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.formats.source import Feature, Source
from sdil.spaces import Array

STATE = "state"
"""The part of a `Dict` observation that holds all chosen vectors side by side."""
_SIZE = re.compile(r"^(\d+)(?:[xX](\d+))?$")
_LARGEST_SIDE = 4096
_AT_ONCE = 64  # frames that are converted and resized together
Size = tuple[int, int]
"""Height and width."""


@runtime_checkable
class Films(Protocol):
    """A source that gives the frames of a camera one after the other."""

    def pictures(self, index: int, feature: str, size: Size | None) -> Iterator[Array]:
        """The frames (H, W, C) of an episode, of this size where the source can resize them."""
        ...


@dataclass(frozen=True)
class Camera:
    """A camera that was chosen."""

    feature: Feature
    name: str
    """Of its part in a `Dict` observation."""
    shape: tuple[int, int, int]
    """Height, width and channels of what becomes of a frame."""

    @property
    def space(self) -> gym.spaces.Box:
        return gym.spaces.Box(0, 255, self.shape, np.uint8)


def parse_size(text: str | None) -> Size | None:
    """`96` or `HxW`."""
    if text is None:
        return None
    match = _SIZE.match(text.strip())
    sides = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not all(8 <= side <= _LARGEST_SIDE for side in sides):
        raise InputError(
            f"the size of pictures is a number of pixels or HxW, from 8 to {_LARGEST_SIDE}, "
            f"not {text!r}"
        )
    return sides


def choose_cameras(
    source: Source, asked: Sequence[str] | None, size: Size | None
) -> tuple[tuple[Camera, ...], list[str] | None]:
    """The cameras among the names that were asked for, and the other names."""
    if asked is None:
        return (), None
    pictures = [f for f in source.features if f.role == "image"]
    chosen: dict[str, Feature] = {}
    others = []
    for text in asked:
        found = [f for f in pictures if f.name == text] or [
            f
            for f in pictures
            if fnmatchcase(f.name, text)
            and not any(o.role != "image" and fnmatchcase(o.name, text) for o in source.features)
        ]
        chosen |= {f.name: f for f in found}
        if not found:
            others.append(text)
    names = _part_names(list(chosen))
    cameras = tuple(
        Camera(f, names[f.name], _shape(f, size, source.location)) for f in chosen.values()
    )
    return cameras, others


def _part_names(features: list[str]) -> dict[str, str]:
    """The last word of each name, where that tells them apart; else all of it."""
    short = {name: re.split(r"[./]", name)[-1] for name in features}
    clear = len(set(short.values())) == len(short) and STATE not in short.values()
    return short if clear else {name: name.replace("/", ".") for name in features}


def _shape(feature: Feature, size: Size | None, location: str) -> tuple[int, int, int]:
    if len(feature.shape) not in (2, 3) or min(feature.shape) < 1:
        raise InputError(
            f"{location}: {feature.name} has shape {feature.shape}, which is no picture's"
        )
    height, width, channels = _sides(feature.shape)
    return (*(size or (height, width)), channels)


def _sides(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height, width and channels of a picture of this shape."""
    if len(shape) == 2:
        return shape[0], shape[1], 1
    a, b, c = shape
    return (b, c, a) if a in (1, 3, 4) and c not in (1, 3, 4) else (a, b, c)


def observation_space(
    cameras: Sequence[Camera], width: int, number: type[np.floating[Any]]
) -> gym.Space[Any]:
    """A vector, a picture, or a `Dict` of pictures and `state`."""
    state = gym.spaces.Box(-np.inf, np.inf, (width,), number)
    if not cameras:
        return state
    if len(cameras) == 1 and not width:
        return cameras[0].space
    parts: dict[str, gym.Space[Any]] = {camera.name: camera.space for camera in cameras}
    return gym.spaces.Dict({**parts, **({STATE: state} if width else {})})


def rows_of(source: Source, index: int, cameras: Sequence[Camera]) -> dict[str, Array]:
    """The frames of cameras that the source can only give all at once, as it has them."""
    if isinstance(source, Films):
        return {}
    wanted = [camera.feature.name for camera in cameras]
    return dict(source.read(index, wanted).values) if wanted else {}


def fill(
    source: Source, index: int, camera: Camera, given: Array | None, at: Array, out: Array
) -> None:
    """The frames with the numbers `at`, which rise, into `out` (len(at), H, W, C).

    `given` are all of them, where the source gives them at once.
    """
    name = camera.feature.name
    where = f"{source.location}: episode {source.episodes[index].id!r}: {name}"
    if given is not None:
        for first in range(0, len(at), _AT_ONCE):
            some = at[first : first + _AT_ONCE]
            out[first : first + len(some)] = _converted(given[some], camera, where)
        return
    assert isinstance(source, Films)
    last, done, wanted = int(at[-1]), 0, set(at.tolist())
    for number, frame in enumerate(source.pictures(index, name, camera.shape[:2])):
        if number in wanted:
            out[done] = _converted(frame[None], camera, where)[0]
            done += 1
        if number == last:
            break
    if done != len(at):
        raise InputError(f"{where}: it has fewer frames than steps ({done} of {len(at)})")


def _converted(frames: Array, camera: Camera, where: str) -> Array:
    """Frames (n, *shape) as bytes (n, H, W, C) of the camera's size."""
    height, width, channels = _sides(frames.shape[1:])
    if frames.ndim == 3:
        frames = frames[..., None]
    elif frames.shape[1:] != (height, width, channels):  # channels first
        frames = np.moveaxis(frames, 1, -1)
    if channels != camera.shape[2]:
        if channels == 4 and camera.shape[2] == 3:
            frames = frames[..., :3]
        elif channels == 1 and camera.shape[2] == 3:
            frames = np.repeat(frames, 3, axis=-1)
        else:
            raise InputError(
                f"{where}: a frame has {channels} channels, but {camera.shape[2]} were said"
            )
    resized = resize(_as_bytes(frames, where), camera.shape[:2])
    if resized.shape[1:] != camera.shape:
        raise InputError(f"{where}: a frame is {resized.shape[1:]}, not {camera.shape}")
    return resized


def _as_bytes(frames: Array, where: str) -> Array:
    if frames.dtype == np.uint8:
        return frames
    low, high = frames.min(), frames.max()
    if not (low >= 0 and high <= 255):
        raise InputError(
            f"{where}: its values lie between {low} and {high}; pictures have 0 to 255"
        )
    if frames.dtype.kind == "f" and 0 < high <= 1 and (frames != np.rint(frames)).any():
        raise InputError(
            f"{where}: its values lie between 0 and 1; multiply them by 255, as pictures have them"
        )
    return np.rint(frames).astype(np.uint8)


def resize(frames: Array, size: Size) -> Array:
    """Frames (n, H, W, C) of bytes at another size: each pixel the mean of those it covers."""
    if frames.shape[1:3] == size:
        return frames
    import torch
    from torch.nn.functional import interpolate

    planes = torch.from_numpy(np.ascontiguousarray(np.moveaxis(frames, -1, 1))).float()
    means = interpolate(planes, size, mode="area")
    return np.moveaxis(means.round().to(torch.uint8).numpy(), 1, -1)
