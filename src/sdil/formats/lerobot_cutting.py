"""Videos cut to match cut episodes: copied where whole files stay, else encoded anew.

A frame that is kept is the frame that LeRobot would have shown for its step, at a time of its own:
the k-th frame of an episode comes k / fps seconds after its first.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.lerobot import LeRobot
from sdil.formats.lerobot_layout import VIDEO_3, told_of
from sdil.formats.lerobot_video import Clip, open_video, require_video
from sdil.spaces import Array

ENCODERS = {"h264": "libx264", "hevc": "libx265", "av1": "libsvtav1"}
"""By the codec of the source; others become h264."""
_OPTIONS = {
    "libx264": {"crf": "18", "g": "2"},
    "libx265": {"crf": "18", "g": "2", "x265-params": "log-level=none"},
    "libsvtav1": {"crf": "24", "g": "2", "preset": "10"},
}
_LARGEST = 200 * 2**20  # bytes of one video file: LeRobot's own limit
_IN_CHUNK = 1000


@dataclass(frozen=True)
class Piece:
    """Rows of an episode that become an episode."""

    at: int
    """The position of the episode in the source."""
    start: int
    stop: int
    length: int
    """Of the episode it is cut from."""

    @property
    def is_whole(self) -> bool:
        return (self.start, self.stop) == (0, self.length)


@dataclass(frozen=True)
class Placed:
    """Where the video of an episode lies."""

    file: int
    """The number of the file, counted through all chunks."""
    start: float
    stop: float

    def columns(self, camera: str) -> dict[str, Any]:
        return {
            f"videos/{camera}/chunk_index": self.file // _IN_CHUNK,
            f"videos/{camera}/file_index": self.file % _IN_CHUNK,
            f"videos/{camera}/from_timestamp": self.start,
            f"videos/{camera}/to_timestamp": self.stop,
        }


def find_copied(source: LeRobot, pieces: Sequence[Piece]) -> set[int]:
    """Numbers of pieces whose video files can be copied: all that is in them stays, in order."""
    copied = set(range(len(pieces)))
    for camera in source.layout.cameras:
        files: dict[Path, list[int]] = {}
        for at in range(len(source.episodes)):
            files.setdefault(source.clip(at, camera).path, []).append(at)
        of_camera: set[int] = set()
        for first, piece in enumerate(pieces):
            inside = files[source.clip(piece.at, camera).path]
            some = pieces[first : first + len(inside)]
            if [p.at for p in some] == inside and all(p.is_whole for p in some):
                of_camera.update(range(first, first + len(inside)))
        copied &= of_camera
    return copied if source.layout.cameras else set()


class Camera:
    """The videos of one camera, written one piece after the other."""

    def __init__(self, source: LeRobot, name: str, new_name: str, out: Path) -> None:
        self._source, self._name, self._new_name, self._out = source, name, new_name, out
        self._files = 0
        self._copies: dict[Path, int] = {}
        self._open: _Encoder | None = None
        self.info: dict[str, Any] = {}
        """What LeRobot notes of the encoding, where something was encoded."""

    def copy(self, piece: Piece) -> Placed:
        """The file with this episode, as it is; the same for all episodes in it."""
        clip = self._source.clip(piece.at, self._name)
        if clip.path not in self._copies:
            require_video(clip.path)
            self._copies[clip.path] = self._files
            shutil.copyfile(clip.path, self._next())
        return Placed(self._copies[clip.path], clip.start, clip.stop)

    def cut(self, piece: Piece, times: Array, look: Callable[[int, Any], None]) -> Placed:
        """The frames of this piece, encoded; `look` sees each with its number in the piece."""
        clip = self._source.clip(piece.at, self._name)
        frames = clip.raw_frames(times[piece.start : piece.stop])
        if self._open is None:
            number = self._files
            self._open = _Encoder(self._next(), clip, self._source.layout.fps, number)
        placed = self._open.add(self._seen(frames, look), piece.stop - piece.start)
        if self._open.path.stat().st_size > _LARGEST:
            self.close()
        return placed

    def close(self) -> None:
        if self._open is not None:
            self.info = self._open.close()
            self._open = None

    def _next(self) -> Path:
        chunk, file = divmod(self._files, _IN_CHUNK)
        name = VIDEO_3.format(video_key=self._new_name, chunk_index=chunk, file_index=file)
        self._files += 1
        path = self._out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    @staticmethod
    def _seen(frames: Iterator[Any], look: Callable[[int, Any], None]) -> Iterator[Any]:
        for number, frame in enumerate(frames):
            look(number, frame)
            yield frame


class _Encoder:
    """One video file that is being written."""

    def __init__(self, path: Path, like: Clip, fps: float, number: int) -> None:
        self.path, self._number, self._frames = path, number, 0
        self._rate = Fraction(fps).limit_denominator(100_000)
        with told_of(like.path), open_video(like.path) as old:
            stream = old.streams.video[0]
            codec = ENCODERS.get(stream.codec_context.name.removeprefix("lib"), "")
            codec = codec or ENCODERS.get(stream.codec.canonical_name, "libx264")
            self._codec, self._pixels = codec, str(stream.codec_context.pix_fmt or "yuv420p")
            self._size = stream.codec_context.width, stream.codec_context.height
        self._container, self._stream = self._opened()

    def _opened(self) -> tuple[Any, Any]:
        os.environ.setdefault("SVT_LOG", "1")  # else it tells the terminal of its settings
        container = open_video(self.path, "w")
        try:
            options = dict(_OPTIONS[self._codec])
            if self._codec == "libx265" and self._pixels.startswith("gray"):  # depths
                options["x265-params"] = f"lossless=1:{options['x265-params']}"
            stream = container.add_stream(self._codec, rate=self._rate, options=options)
            stream.width, stream.height = self._size
            stream.pix_fmt = self._pixels
            stream.time_base = 1 / self._rate
            container.start_encoding()
        except Exception as error:
            raise InputError(
                f"{self.path}: video of codec {self._codec} and pixels {self._pixels} cannot be "
                f"encoded here ({' '.join(str(error).split())[:120]})"
            ) from error
        return container, stream

    def add(self, frames: Iterator[Any], length: int) -> Placed:
        first = self._frames
        for frame in frames:
            if (frame.width, frame.height) != self._size:
                raise InputError(
                    f"{self.path}: a picture of {frame.width} x {frame.height} comes after one of "
                    f"{self._size[0]} x {self._size[1]}; a camera's pictures must be of one size"
                )
            new = frame.reformat(width=self._size[0], height=self._size[1], format=self._pixels)
            new.pts, new.time_base = self._frames, 1 / self._rate
            new.pict_type = 0
            self._container.mux(self._stream.encode(new))
            self._frames += 1
        assert self._frames - first == length
        rate = float(self._rate)
        return Placed(self._number, first / rate, self._frames / rate)

    def close(self) -> dict[str, Any]:
        self._container.mux(self._stream.encode())
        self._container.close()
        names = {encoder: codec for codec, encoder in ENCODERS.items()}
        rate = float(self._rate)
        return {
            "video.height": self._size[1],
            "video.width": self._size[0],
            "video.codec": names[self._codec],
            "video.pix_fmt": self._pixels,
            "video.fps": int(rate) if rate == int(rate) else rate,
            "video.crf": int(_OPTIONS[self._codec]["crf"]),
            "video.g": int(_OPTIONS[self._codec]["g"]),
            "has_audio": False,
        }


def even_times(length: int, fps: float) -> Array:
    """Seconds into an episode of each frame, as LeRobot writes them. (T,) float32"""
    return (np.arange(length) / fps).astype(np.float32)
