"""Frames of videos, decoded when they are asked for: what a camera saw in one episode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.lerobot_layout import told_of
from sdil.spaces import Array

_GLIMPSES = 12  # pictures of an episode that are looked at to see whether a camera is frozen
_BLOCK, _ALIKE = 8, 1.5  # alike: no block of so many pixels a side changes by so many of 255 levels


@dataclass(frozen=True)
class Clip:
    """The part of a video file that shows one episode."""

    path: Path
    start: float
    """Seconds into the file at which the episode begins."""
    stop: float
    """Seconds into the file at which it has ended."""
    fps: float

    def frames(self, times: Array) -> Iterator[Array]:
        """The pictures (H, W, 3) uint8 at these seconds into the episode, which must rise."""
        for frame in self.raw_frames(times):
            yield frame.to_ndarray(format="rgb24")

    def resized(self, times: Array, size: tuple[int, int]) -> Iterator[Array]:
        """The same at another size (height, width), by area."""
        height, width = size
        for frame in self.raw_frames(times):
            if (frame.height, frame.width) == size:
                yield frame.to_ndarray(format="rgb24")
            else:
                small = frame.reformat(width, height, "rgb24", interpolation="AREA")
                yield small.to_ndarray()

    def frozen_share(self, times: Array) -> float:
        """The share of some of these pictures, evenly spaced, that look like the one before."""
        some = np.unique(np.linspace(0, len(times) - 1, min(_GLIMPSES, len(times))).astype(int))
        seen = [_blocks(next(self.frames(times[[at]]))) for at in some]  # each by a seek of its own
        same = [np.abs(now - before).max() < _ALIKE for before, now in pairwise(seen)]
        return float(np.mean(same)) if same else 0.0

    def raw_frames(self, times: Array) -> Iterator[Any]:
        """The same, as PyAV decodes them; in the file's own pixel format."""
        with told_of(self.path):
            yield from self._decode(np.asarray(times, np.float64) + self.start)

    def _decode(self, wanted: Array) -> Iterator[Any]:
        tolerance = 0.5 / self.fps + 1e-6
        with open_video(self.path) as container:
            if not container.streams.video:
                raise InputError(f"{self.path}: it has no video in it; fetch it again")
            stream = container.streams.video[0]
            stream.thread_type = "AUTO"
            if len(wanted) and wanted[0] > 0:
                container.seek(max(round(wanted[0] / stream.time_base) - 1, 0), stream=stream)
            decoded = (f for f in container.decode(stream) if f.pts is not None)
            before, now = None, next(decoded, None)
            for time in wanted:
                while now is not None and _seconds(now, stream) < time:
                    before, now = now, next(decoded, None)
                near = [frame for frame in (before, now) if frame is not None]
                if not near:
                    raise InputError(f"{self.path}: no frame can be decoded; fetch it again")
                best = min(near, key=lambda frame: abs(_seconds(frame, stream) - time))
                if abs(_seconds(best, stream) - time) > tolerance:
                    raise InputError(
                        f"{self.path}: it has no frame at {time:.3f} s (the nearest is at "
                        f"{_seconds(best, stream):.3f} s); it does not match the recorded steps"
                    )
                yield best


def _blocks(picture: Array) -> Array:
    """Means of blocks of a picture: what compression does to single pixels is not seen."""
    height, width = (side // _BLOCK * _BLOCK for side in picture.shape[:2])
    cut = picture[:height, :width].astype(np.float32)
    shape = (height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK, -1)
    return np.asarray(cut.reshape(shape).mean((1, 3)))


def _seconds(frame: Any, stream: Any) -> float:
    return float(frame.pts * stream.time_base)


def require_video(path: Path) -> None:
    """Refuse a video that is not there: people fetch data sets without them."""
    if not path.is_file():
        raise InputError(f"{path} is missing; download the videos of the data set too")


def open_video(path: Path, mode: str = "r") -> Any:
    """A video file, opened; where PyAV is missing the error says how to get it."""
    if mode == "r":
        require_video(path)
    try:
        import av
    except ImportError:
        raise InputError("video needs PyAV: pip install 'sdil[formats]'") from None
    return av.open(str(path), mode)


def decode_pictures(column: Any, where: str, root: Path) -> Array:
    """A column of stored pictures ({bytes, path} or bytes) as (T, H, W, C)."""
    return np.stack(list(each_picture(column, where, root)))


def each_picture(column: Any, where: str, root: Path) -> Iterator[Array]:
    """The same one after the other."""
    shape = None
    for row, value in enumerate(column.to_pylist()):
        data = value.get("bytes") if isinstance(value, dict) else value
        place = value.get("path") if isinstance(value, dict) else None
        if data is None and isinstance(place, str) and ".." not in place:
            file = root / place.lstrip("/")
            data = file.read_bytes() if file.is_file() else None
        if not isinstance(data, bytes):
            raise InputError(f"{where}: row {row} holds no picture")
        picture = decode_picture(data)
        shape = shape or picture.shape
        if picture.shape != shape:
            raise InputError(f"{where}: row {row} is {picture.shape}, the first {shape}")
        yield picture


def decode_picture(data: bytes) -> Array:
    """A JPEG, a PNG or the like as (H, W, C) or (H, W)."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture)
