"""Other people's data: what a source offers, whatever its format.

A source is opened, looked at and read one episode at a time; nothing is copied before it is asked
for. One module per format makes sources (`lerobot.py`, `robomimic.py`, ...); `reading.py` chooses
features, actions and trusted episodes and makes demonstrations of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from sdil.spaces import Array

Role = Literal["observation", "action", "reward", "image", "other"]
OURS = "sdil_"
"""How the names begin of what is written beside data here: no feature to learn from."""


@dataclass(frozen=True)
class Feature:
    """One thing that is recorded at every step."""

    name: str
    """As the source calls it: `observation.state`, `obs/robot0_eef_pos`."""
    role: Role
    """What it would be used for by default; images are named and left out."""
    shape: tuple[int, ...]
    """Of one step; () for a single number."""
    dtype: str
    """Its number type in the source."""
    entries: tuple[str, ...] = ()
    """What its numbers are called, flattened; empty where nobody says."""
    unit: str | None = None
    """Of its numbers, where the source says."""

    @property
    def dtype_kind(self) -> str:
        """NumPy's letter for its number type: b, i, u or f; O for what is no number."""
        try:
            return np.dtype(self.dtype).kind
        except TypeError:
            return "O"


class Episode(NamedTuple):
    """What is known of an episode without reading its steps. There may be a million of them, and
    a tuple is made in a third of the time of a frozen data class."""

    id: str
    """Unique within the source; the source's own name or number."""
    steps: int
    """How many actions it has."""
    group: str | None = None
    """Operator, patient, machine: what a split keeps together."""
    task: str | None = None
    """What was to be done, where a source holds several tasks."""
    tags: frozenset[str] = frozenset()
    """Filter keys and the like that it is listed under."""
    columns: Mapping[str, Any] = MappingProxyType({})
    """Further values of the whole episode (return, success, length, operator, ...)."""


@dataclass(frozen=True)
class Recorded:
    """The steps of one episode, as the source has them."""

    values: Mapping[str, Array]
    """By feature (T, *shape); an observation may have T+1 rows, the last where it ended."""
    terminated: bool = False
    """True only where the source says that the task itself ended it."""
    rewards: Array | None = None
    """(T,), where known."""
    frames: Array | None = None
    """The source's own number of each step (T,), where it has one; answers are given in these."""
    sums: Mapping[str, int] = field(default_factory=dict)
    """CRC-32 of the bytes of these features, where the source had to sum them up anyway."""


class Source(Protocol):
    """An opened source. Errors are `InputError` and name file, episode, row and column."""

    format: str
    """The name that `--format` takes."""
    location: str
    """Path or address, as it was given."""
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    """What else is known: frames per second, robot, environment, version of the format."""

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one episode."""
        ...
