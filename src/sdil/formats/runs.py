"""Episodes that lie side by side in a source: looked at and written together, not one by one.

An episode of some hundred steps is read in a few microseconds, and looking at it takes ten times
as long. Sources whose episodes are rows of long arrays (`Rowed`) hand over many of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol, runtime_checkable

from sdil.formats.crc import sum_rows
from sdil.formats.fingerprints import Summed
from sdil.formats.source import Recorded
from sdil.spaces import Array
from sdil.trajectories import Trajectory

BYTES = 1 << 23
"""Of a run, about: the system takes longer for what is written in smaller pieces."""


@dataclass(frozen=True)
class Rows:
    """The steps of several episodes, end to end."""

    recorded: Recorded
    """Of all of them; whether the task ended them is said below."""
    terminated: Sequence[bool]
    sums: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """CRC-32 of each episode, by feature, where the source had to sum them up anyway."""


@runtime_checkable
class Rowed(Protocol):
    """A source whose episodes are rows of long arrays."""

    def read_rows(self, first: int, last: int, features: Sequence[str]) -> Rows | None:
        """These features of episodes from `first` to before `last`; None where each must be read
        by itself."""
        ...


@dataclass(frozen=True)
class Run:
    """Episodes whose steps lie end to end, none with an observation after its last step."""

    observations: Array
    """(N, width), in one piece and of the space's number type; so are actions and rewards."""
    actions: Array
    rewards: Array | None
    lengths: Sequence[int]
    terminated: Sequence[bool]
    ids: Sequence[str]
    groups: Sequence[str | None]
    sums: tuple[Sequence[int] | None, Sequence[int] | None] = (None, None)
    """CRC-32 of the observations and of the actions of each, where known."""

    def __iter__(self) -> Iterator[Trajectory]:
        for (first, last), ended, name, group in zip(
            self.steps(), self.terminated, self.ids, self.groups, strict=True
        ):
            rewards = None if self.rewards is None else self.rewards[first:last]
            seen, done = self.observations[first:last], self.actions[first:last]
            yield Trajectory(seen, done, rewards, ended, name, group)

    def steps(self) -> Iterator[tuple[int, int]]:
        """The first step of each, and the one after its last."""
        first = 0
        for length in self.lengths:
            yield first, first + length
            first += length

    def sum_up(self) -> Summed:
        """All of them; what is known is not summed up again."""
        seen, done = (
            self._sums_of(array) if known is None else known
            for array, known in zip((self.observations, self.actions), self.sums, strict=True)
        )
        rewards = None if self.rewards is None else self._sums_of(self.rewards)
        return Summed(
            [*self.ids],
            [*self.groups],
            [*map(bool, self.terminated)],
            [*map(int, self.lengths)],
            [*map(int, self.lengths)],
            [*seen],
            [*done],
            [None] * len(self.ids) if rewards is None else [*rewards],
        )

    def _sums_of(self, array: Array) -> Sequence[int]:
        return sum_rows(array, [0, *accumulate(self.lengths)])
