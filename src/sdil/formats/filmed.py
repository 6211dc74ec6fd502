"""What the cameras of imported data saw: pictures of its source, decoded when they are asked for.

Demonstrations that were read without their pictures know where they came from; whoever shows them
to people looks there again, for a few episodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats.lerobot import LeRobot
from sdil.formats.origin import Origin
from sdil.formats.recognise import open_source
from sdil.formats.source import Source
from sdil.observations import has_images
from sdil.spaces import Array

_WITH_PICTURES = ("lerobot", "robomimic", "aloha", "zarr", "minari", "numpy")


class Cameras:
    """The cameras of a source, for the episodes of demonstrations that were read from it."""

    def __init__(self, source: Source, origin: Origin, demos: Demonstrations) -> None:
        self.source, self.origin, self.demos = source, origin, demos
        self.features = {f.name: f for f in source.features if f.role == "image"}
        self.place = {episode.id: i for i, episode in enumerate(source.episodes)}

    @property
    def cameras(self) -> tuple[str, ...]:
        return tuple(self.features)

    def look(
        self, kind: Literal["clean", "noisy"], index: int, camera: str, steps: Array
    ) -> Iterable[Array]:
        """What a camera saw before each of these steps (n,), which rise, of an episode of a set."""
        trajectories = self.demos.clean if kind == "clean" else self.demos.noisy
        name, length = trajectories.ids[index], int(trajectories.lengths[index])
        if name not in self.place:
            raise InputError(f"{self.source.location}: it has no episode {name!r} any more")
        number, wanted = self.place[name], self.origin.frames_of(name, length)[steps]
        if isinstance(self.source, LeRobot) and self.features[camera].dtype == "video":
            at = self._rows(self.source.frames_of(number)[0], wanted, name)
            return self.source.clip(number, camera).frames(self.source.times(number)[at])
        recorded = self.source.read(number, [camera])
        pictures = recorded.values[camera]
        frames = np.arange(len(pictures)) if recorded.frames is None else recorded.frames
        return iter(pictures[self._rows(np.asarray(frames), wanted, name)])

    def _rows(self, frames: Array, wanted: Array, name: str) -> Array:
        """Where frames with these numbers lie among all of an episode."""
        rows = np.minimum(np.searchsorted(frames, wanted), len(frames) - 1)
        absent = frames[rows] != wanted
        if absent.any():
            raise InputError(
                f"{self.source.location}: episode {name!r} has no frame {wanted[absent][0]} any "
                "more; import it again"
            )
        return rows


def cameras_for(origin: Origin | None, demos: Demonstrations) -> tuple[Cameras | None, str | None]:
    """The cameras of the source that demonstrations came from, where it has some and they hold no
    pictures themselves; where it had some and cannot be read any more, a sentence that says so."""
    if (
        origin is None
        or origin.format not in _WITH_PICTURES
        or has_images(demos.spaces.observation)
    ):
        return None, None
    try:
        found = Cameras(open_source(origin.location, origin.format), origin, demos)
    except (InputError, OSError) as error:
        known = origin.about.get("cameras")
        return (
            None,
            f"no pictures: where they come from cannot be read ({error})" if known else None,
        )
    return (found if found.cameras else None), None
