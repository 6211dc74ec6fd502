"""Episodes that lie side by side in a source: looked at and written together, not one by one.

An episode of some hundred steps is read in a few microseconds, and looking at it takes ten times
as long. Sources whose episodes are rows of long arrays (`Rowed`) hand over many of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from sdil.formats.source import Recorded
from sdil.spaces import Array
from sdil.trajectories import Trajectory

BYTES = 1 << 21
"""Of a run, about: it should stay in the processor's cache."""


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
    sums: Sequence[int] | None
    """CRC-32 of the observations of each, where known."""

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

    def update_fingerprint(self, digest: Any) -> None:
        """As `sdil.demonstrations.update_fingerprint` does for each of them in turn."""
        seen, done, rewards = self.observations, self.actions, self.rewards
        shape = seen.shape[1:]
        for (first, last), ended, name, group in zip(
            self.steps(), self.terminated, self.ids, self.groups, strict=True
        ):
            digest.update(repr((name, group, ended, (last - first, *shape))).encode())
            digest.update(seen[first:last].data)
            digest.update(done[first:last].data)
            digest.update(b"-" if rewards is None else rewards[first:last].data)
