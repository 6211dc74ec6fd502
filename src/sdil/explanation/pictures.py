"""What cameras saw, as thumbnails: one strip of pictures for each demonstration and camera.

A strip is a single WebP with the pictures of an episode side by side, as small as it can be: a page
holds a hundred of them. Where an episode is long, every n-th step has a picture.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.explanation.record import Strip
from sdil.observations import parts_of, unpack_observations
from sdil.spaces import Array

SetName = Literal["clean", "noisy"]
MOST = 100
"""Demonstrations that have pictures where nobody says how many."""
ROOM = 4_400_000  # bytes of all strips of a page; as text, in base 64, a third more
_LONGEST = 120  # pictures of an episode
_TRIES = ((96, 1), (96, 2), (64, 2), (64, 3), (64, 5), (48, 8))
"""Pixels of the longer side, and how much thinner than at first: the first that fits its room."""
_IS_LAST = (*(False for _ in _TRIES[1:]), True)
_COLUMNS = 12  # pictures side by side; a WebP is at most 16,383 pixels wide
_FEW_COLOURS = 64  # of a drawing, which keeps every pixel in less room than a photograph's does
_CLEAN_SHARE = 0.2


class Filmed(Protocol):
    """Whoever can tell what cameras saw."""

    @property
    def cameras(self) -> tuple[str, ...]: ...

    def look(self, kind: SetName, index: int, camera: str, steps: Array) -> Iterable[Array]:
        """What a camera saw before each of these steps (n,), which rise, of an episode of a set."""
        ...


class Observed:
    """Pictures that are, or are parts of, the observations themselves."""

    def __init__(self, demos: Demonstrations) -> None:
        self.demos = demos
        parts = parts_of(demos.spaces.observation)
        self.parts = {part.name: part for part in parts if part.is_image}

    @property
    def cameras(self) -> tuple[str, ...]:
        return tuple(self.parts)

    def look(self, kind: SetName, index: int, camera: str, steps: Array) -> Iterable[Array]:
        rows = getattr(self.demos, kind)[index].observations[steps]
        return iter(unpack_observations(self.demos.spaces.observation, rows)[camera])


def strips_of(
    filmed: Filmed,
    demos: Demonstrations,
    means: Array,
    *,
    most: int = MOST,
    on_progress: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, dict[str, Strip]], list[str]]:
    """Strips of at most so many demonstrations by "clean/ID" or "noisy/ID" and camera, and what is
    to be said of them.

    `means` (E,) is how good each is, clean ones first: the worst and the best have pictures.
    """
    chosen = _choose(means, len(demos.clean), most)
    room = int(ROOM / max(len(chosen) * len(filmed.cameras), 1))
    strips: dict[str, dict[str, Strip]] = {}
    failed: list[str] = []
    for done, number in enumerate(chosen):
        if on_progress is not None:
            on_progress(done, len(chosen))
        kind: SetName = "clean" if number < len(demos.clean) else "noisy"
        index = number if kind == "clean" else number - len(demos.clean)
        trajectories = demos.clean if kind == "clean" else demos.noisy
        try:
            found = episode_strips(filmed, kind, index, int(trajectories.lengths[index]), room)
        except InputError as error:  # a video that is missing or damaged is no reason for no page
            failed.append(str(error))
            continue
        strips[f"{kind}/{trajectories.ids[index]}"] = found
    return strips, _told(strips, len(means), failed)


def episode_strips(
    filmed: Filmed, kind: SetName, index: int, length: int, room: int
) -> dict[str, Strip]:
    """The strip of each camera, of at most `room` bytes each where that can be."""
    every = -(-length // _LONGEST)
    steps = np.arange(0, length, every)
    return {
        camera: make_strip(filmed.look(kind, index, camera, steps), every, room)
        for camera in filmed.cameras
    }


def make_strip(pictures: Iterable[Array], every: int, room: int) -> Strip:
    """One strip of pictures, each `every` steps apart; fewer and smaller ones where they must be
    to fit into `room` bytes."""
    from PIL import Image

    large = [_thumbnail(Image.fromarray(as_rgb(p)), _TRIES[0][0]) for p in pictures]
    if not large:
        raise InputError("an episode without a step has no pictures")
    expected = 0.0  # bytes of a pixel; those of the first try tell what the others will take
    for last, (side, thinner) in zip(_IS_LAST, _TRIES, strict=True):
        small = [_thumbnail(image, side) for image in large[::thinner]]
        pixels = len(small) * small[0].width * small[0].height
        if expected * pixels > 1.2 * room and not last:
            continue
        data, drawn = _encode(small)
        expected = len(data) / pixels
        if len(data) <= room:
            break
    text = "data:image/webp;base64," + base64.b64encode(data).decode()
    width, height = small[0].size
    columns = min(len(small), _COLUMNS)
    return Strip(text, width, height, len(small), columns, every * thinner, drawn)


def as_rgb(picture: Array) -> Array:
    """A picture (H, W), (H, W, C) or (C, H, W), in bytes or real numbers up to 1 or 255, as
    (H, W, 3) bytes."""
    picture = np.asarray(picture)
    if picture.dtype.kind == "f":
        picture = np.nan_to_num(picture)
        picture = np.clip(picture * (1.0 if picture.max(initial=0) > 1 else 255.0), 0, 255)
    if picture.ndim == 3 and picture.shape[2] == 4 <= picture.shape[0]:
        picture = picture[..., :3]  # without how opaque it is
    if picture.ndim == 3 and picture.shape[0] < picture.shape[2]:
        picture = picture.transpose(1, 2, 0)
    if picture.ndim == 3 and picture.shape[2] % 3 == 0:
        picture = picture[..., -3:]  # of several frames in one the last
    elif picture.ndim == 3:
        picture = picture[..., -1]
    if picture.ndim == 2:
        picture = np.repeat(picture[..., None], 3, 2)
    return np.ascontiguousarray(picture.astype(np.uint8))


def _choose(means: Array, n_clean: int, most: int) -> list[int]:
    """Numbers of demonstrations: of either set the worst, the best, the second worst, ..."""
    if most < 1:
        return []
    queues = []
    for first, mine in ((0, means[:n_clean]), (n_clean, means[n_clean:])):
        order = first + np.argsort(mine, kind="stable")
        ends = np.stack([order, order[::-1]], 1).ravel()
        queues.append(list(dict.fromkeys(ends.tolist())))
    clean, noisy = queues
    of_clean = max(round(most * _CLEAN_SHARE), most - len(noisy))
    return [*clean[:of_clean], *noisy[: most - min(of_clean, len(clean))]]


def _told(strips: dict[str, dict[str, Strip]], total: int, failed: list[str]) -> list[str]:
    """In sentences, what has pictures and what has not."""
    said = []
    if strips and len(strips) + len(failed) < total:
        said.append(
            f"{len(strips):,} of {total:,} demonstrations have pictures, the worst and the best of "
            "each set (--pictures N for more)"
        )
    if failed:
        several = (
            f"{len(failed):,} demonstrations have" if len(failed) > 1 else "1 demonstration has"
        )
        said.append(f"{several} no pictures: {failed[0]}")
    return said


def _thumbnail(image: Any, side: int) -> Any:
    """The same picture, its longer side at most so many pixels."""
    from PIL import Image

    scale = side / max(image.size)
    if scale >= 1:
        return image
    size = (max(round(image.width * scale), 1), max(round(image.height * scale), 1))
    return image.resize(size, Image.Resampling.BOX)


def _encode(pictures: list[Any]) -> tuple[bytes, bool]:
    """Pictures of one size as a WebP, row by row; drawings without loss, and whether it is one."""
    from PIL import Image

    width, height = pictures[0].size
    columns = min(len(pictures), _COLUMNS)
    rows = -(-len(pictures) // columns)
    sheet = Image.new("RGB", (columns * width, rows * height))
    for i, picture in enumerate(pictures):
        sheet.paste(picture, (i % columns * width, i // columns * height))
    drawn = sheet.getcolors(_FEW_COLOURS) is not None
    file = io.BytesIO()
    sheet.save(file, "WEBP", lossless=drawn, quality=80 if drawn else 60, method=4)
    return file.getvalue(), drawn
