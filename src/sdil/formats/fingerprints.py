"""The fingerprint of an imported folder: of every value, name and space, made of checksums.

`Demonstrations.fingerprint` is a SHA-256 of all bytes, which takes longer than reading them. The
CRC-32 of each array of an episode is needed anyway, for the file that it goes into, and often the
source has it already. So an imported folder carries a SHA-256 of these, and of names, ends and
spaces; of pictures it is of the SHA-256 that `digests.npy` has. What CRC-32 misses of damage
(`sdil.formats.checksums`) it misses in each array by itself.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sdil.demonstrations import Demonstrations, digest_of
from sdil.observations import has_frames
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectory

_KIND = "crc32:"


@dataclass
class Summed:
    """What the fingerprint holds of some episodes, one entry each."""

    ids: list[str] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)
    terminated: list[bool] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)
    """Observations, with the last one where it is known."""
    steps: list[int] = field(default_factory=list)
    seen: list[int | str] = field(default_factory=list)
    """CRC-32 of the observations; of pictures their SHA-256 in letters."""
    done: list[int] = field(default_factory=list)
    """CRC-32 of the actions."""
    rewards: list[int | None] = field(default_factory=list)
    """CRC-32 of the rewards, where they are known."""

    def extend(self, more: Summed) -> None:
        """Some more episodes."""
        for name, entries in vars(self).items():
            entries.extend(getattr(more, name))


def sum_up(
    t: Trajectory, *, framed: bool, seen: int | None = None, done: int | None = None
) -> Summed:
    """One episode; `seen` and `done` are what is known already, `framed` is one with pictures."""
    return Summed(
        [t.id],
        [t.group],
        [bool(t.terminated)],
        [len(t.observations)],
        [len(t.actions)],
        [digest_of(t.observations).hex() if framed else _known(seen, t.observations)],
        [_known(done, t.actions)],
        [None if t.rewards is None else crc_of(t.rewards)],
    )


def crc_of(array: Array) -> int:
    """CRC-32 of all numbers of an array, row by row."""
    return zlib.crc32(np.ascontiguousarray(array).data)


def _known(summed: int | None, array: Array) -> int:
    return crc_of(array) if summed is None else summed


def fingerprint_of(spaces: Spaces, sets: Sequence[Summed]) -> str:
    """The fingerprint of sets over these spaces."""
    said = [repr((spaces.observation, spaces.action)), *map(vars, sets)]
    return _KIND + hashlib.sha256(json.dumps(said).encode()).hexdigest()


def fingerprint_like(written: str, demos: Demonstrations) -> str:
    """The fingerprint of demonstrations, of the kind of the one that was written."""
    if not written.startswith(_KIND):
        return demos.fingerprint()
    sets, framed = (Summed(), Summed()), has_frames(demos.spaces.observation)
    for found, trajectories in zip(sets, (demos.clean, demos.noisy), strict=True):
        for t in trajectories:
            found.extend(sum_up(t, framed=framed))
    return fingerprint_of(demos.spaces, sets)
