"""Where demonstrations came from: names and units of numbers, episodes and frames of the source.

`sdil.json` keeps it, so that answers about a copy are given in the user's own numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats.recognise import is_server, without_password
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories


@dataclass(frozen=True)
class Numbered:
    """The source's own number of each step of an episode: `first`, `first + every`, ..."""

    first: int = 0
    every: int = 1
    frames: tuple[int, ...] | None = None
    """Every one of them, where they are not evenly spaced."""

    @staticmethod
    def of(frames: Array) -> Numbered:
        """In as few words as will do."""
        first = int(frames[0]) if len(frames) else 0
        every = int(frames[1]) - first if len(frames) > 1 else 1
        if np.array_equal(frames, first + every * np.arange(len(frames))):
            return Numbered(first, every)
        return Numbered(first, 1, tuple(int(f) for f in frames))

    def at(self, steps: int) -> Array:
        """The numbers of the first so many steps. (steps,)"""
        if self.frames is not None:
            return np.array(self.frames[:steps], np.int64)
        return self.first + self.every * np.arange(steps)

    def to_json(self) -> list[int] | dict[str, int]:
        if self.frames is not None:
            return list(self.frames)
        return {"first": self.first, "every": self.every}

    @staticmethod
    def from_json(value: Any) -> Numbered:
        """The inverse; InputError where it is something else."""
        if isinstance(value, list) and all(map(_is_whole, value)):
            return Numbered(value[0] if value else 0, 1, tuple(value))
        if isinstance(value, dict) and all(_is_whole(value.get(k)) for k in ("first", "every")):
            return Numbered(value["first"], value["every"])
        raise InputError("the frames of an episode are neither a list nor first and every")


@dataclass(frozen=True)
class Origin:
    """Where demonstrations came from, and what their numbers are called."""

    format: str
    location: str
    """Path or address in the source, without passwords."""
    choices: Mapping[str, str]
    """What was chosen of it, as `--clean` and its like took it."""
    chosen: str
    """The same in a sentence."""
    observation: tuple[str, ...]
    """What the entries of an observation are called."""
    action: tuple[str, ...]
    """What the entries of an action are called."""
    observation_units: tuple[str | None, ...] = ()
    action_units: tuple[str | None, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the source says of itself: frames per second, robot, environment."""
    frames: Mapping[str, Numbered] = field(default_factory=dict)
    """By the name of the episode; those that count 0, 1, 2, ... are left out."""
    tasks: Mapping[str, str] = field(default_factory=dict)
    """By the name of the episode, where the source holds several tasks."""

    def frames_of(self, episode: str, steps: int) -> Array:
        """The source's own number of each step of an episode. (steps,)"""
        return self.frames.get(episode, Numbered()).at(steps)

    def to_json(self) -> dict[str, Any]:
        """The keys that it adds to `sdil.json`."""
        names = {"observation": list(self.observation), "action": list(self.action)}
        units = {"observation": list(self.observation_units), "action": list(self.action_units)}
        return {
            "names": names,
            **({"units": units} if any(map(any, units.values())) else {}),
            "source": {
                "format": self.format,
                "location": self.location,
                "choices": dict(self.choices),
                "chosen": self.chosen,
                "about": dict(self.about),
                "frames": {name: n.to_json() for name, n in self.frames.items()},
                "tasks": dict(self.tasks),
            },
        }

    @staticmethod
    def from_json(about: Mapping[str, Any]) -> Origin | None:
        """What `sdil.json` says of it, or None; InputError where that is damaged."""
        if "source" not in about:
            return None
        said, units = about["source"], about.get("units", {})
        try:
            names = about["names"]
            return Origin(
                format=_text(said["format"]),
                location=_text(said["location"]),
                choices={_text(k): _text(v) for k, v in said["choices"].items()},
                chosen=_text(said["chosen"]),
                observation=tuple(map(_text, names["observation"])),
                action=tuple(map(_text, names["action"])),
                observation_units=tuple(units.get("observation", ())),
                action_units=tuple(units.get("action", ())),
                about=dict(said["about"]),
                frames={_text(k): Numbered.from_json(v) for k, v in said["frames"].items()},
                tasks={_text(k): _text(v) for k, v in said["tasks"].items()},
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise InputError(f"`source` or `names` is damaged ({error})") from None

    def for_episodes(self, ids: Sequence[str]) -> Origin:
        """The same, of these episodes alone."""
        kept = set(ids)
        return Origin(
            **{
                **{name: getattr(self, name) for name in self.__dataclass_fields__},
                "frames": {k: v for k, v in self.frames.items() if k in kept},
                "tasks": {k: v for k, v in self.tasks.items() if k in kept},
            }
        )


@dataclass(frozen=True, eq=False, init=False)
class Imported(Demonstrations):
    """Demonstrations that were read from a source, and where they came from."""

    origin: Origin

    def __init__(
        self, clean: Trajectories, noisy: Trajectories, spaces: Spaces, origin: Origin
    ) -> None:
        super().__init__(clean, noisy, spaces)
        object.__setattr__(self, "origin", origin)

    __hash__ = None


def place_of(location: str) -> str:
    """Absolute, and of a server without the password."""
    if is_server(location):
        return without_password(location)
    path = Path(location)
    return str(path.absolute()) if path.exists() else location


def plain(value: Any) -> Any:
    """What JSON can hold of what a source says of itself."""
    if isinstance(value, dict) or hasattr(value, "items"):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{value!r} is not a text")
    return value
