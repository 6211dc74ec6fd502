"""Episodes of a Minari data set in HDF5, laid out so that a million steps are read at once.

Minari finds what it expects: a group for each episode, five data sets in it. Each of these lies in
the file in one piece, and `places.npy` beside it says where, so that we read without opening them:
some hundred thousand objects. Whoever reads that way must know that the file is what was written.

    superblock | observations, actions, rewards, terminations, truncations of 0 | of 1 | headers

The arrays are appended as episodes come; HDF5's headers follow when all are there (`hdf5_headers`),
and the superblock, without which it is no HDF5 file yet, comes last.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sdil.formats.crc import join_sums
from sdil.formats.fingerprints import Summed, sum_up
from sdil.formats.hdf5_headers import SUPERBLOCK, Repeated, make_headers
from sdil.formats.runs import Run
from sdil.observations import observation_shape, observation_type
from sdil.spaces import Array, Spaces, element_shape, element_type
from sdil.trajectories import Trajectories, Trajectory

PLACES = "places.npy"
"""(E, 5) integers: of each episode its length, and at which byte of the file its observations,
actions, rewards and terminations begin."""
FILE = Path("data", "main_data.hdf5")
_GATHERED = 1 << 20  # bytes from which on the system is asked to write them
_PIECES = 1000  # that it takes at once
_SUMS = 20_000  # of pieces that are kept before they are put together


def write_episodes(
    trajectories: Trajectories, spaces: Spaces, file: Path
) -> tuple[Array, int | None]:
    """Write all episodes into a new HDF5 file as Minari does; their places, and its CRC-32."""
    with EpisodeFile(file, spaces) as storage:
        for t in trajectories:
            storage.append(t)
        return storage.finish(), storage.checksum


class EpisodeFile:
    """A file that episodes are appended to; HDF5 once it is finished.

    Its CRC-32 is summed up on the way, so that nobody has to read it again for that. What Minari
    has no place for it sees as `sdil.formats.minari` says: NaN for unknown rewards, the last
    observation twice where the final one is unknown.
    """

    def __init__(self, path: Path, spaces: Spaces, lengths: list[int] | None = None) -> None:
        """A new file, or one with episodes of these lengths, to go on with; what follows is cut."""
        self.lengths = lengths or []
        seen, done = spaces.observation, spaces.action
        self._kinds: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...] = (
            ("observations", observation_type(seen), observation_shape(seen)),
            ("actions", element_type(done), element_shape(done)),
            ("rewards", np.dtype(np.float64), ()),
            ("terminations", np.dtype(bool), ()),
            ("truncations", np.dtype(bool), ()),
        )
        self.checksum: int | None = None
        """CRC-32 of the finished file; None where it was gone on with."""
        self._is_whole = not self.lengths  # whether all of it was summed up here
        self._sums: list[int] = []  # of each piece
        self._sizes: list[int] = []
        self._waiting: list[bytes | memoryview] = []
        self._at = SUPERBLOCK  # where what is waiting belongs
        self._bytes = 0  # of it
        self._known_ends: dict[tuple[int, bool, bool, int], tuple[bytes, int]] = {}
        self._file = path.open("r+b" if self.lengths else "w+b", 0)
        if self.lengths:
            self._at = int(self._layout()[1])
            if self._file.seek(0, 2) < self._at:
                self._file.close()
                raise EOFError(f"{path} is shorter than what was noted")
            self._file.truncate(self._at)

    def __enter__(self) -> EpisodeFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file:
            if kind is None:
                self.flush()

    def append(self, t: Trajectory, summed: Summed | None = None) -> None:
        """Write one more episode, or keep it for a moment: its arrays must not change.

        `summed` are its checksums, where they are known already.
        """
        (_, seen, _), (_, done, _), *_ = self._kinds
        self._append(
            np.ascontiguousarray(t.observations, seen),
            np.ascontiguousarray(t.actions, done),
            None if t.rewards is None else np.ascontiguousarray(t.rewards, np.float64),
            sum_up(t, framed=False) if summed is None else summed,
        )

    def append_run(self, run: Run, summed: Summed) -> None:
        """Write several, or keep them for a moment."""
        self._append(run.observations, run.actions, run.rewards, summed)

    def _append(
        self, observations: Array, actions: Array, rewards: Array | None, summed: Summed
    ) -> None:
        """Write episodes that lie end to end in these arrays, in as few pieces as will do."""
        row, step = (a.nbytes // len(a) for a in (observations, actions))
        seen, done = (a.reshape(-1).view(np.uint8).data for a in (observations, actions))
        paid = None if rewards is None else rewards.reshape(-1).view(np.uint8).data
        at = first = 0
        for rows, steps, ended, seen_sum, done_sum, paid_sum in zip(
            summed.rows,
            summed.steps,
            summed.terminated,
            summed.seen,
            summed.done,
            summed.rewards,
            strict=True,
        ):
            end, last = at + rows * row, first + steps
            rest = seen[end - row : end].tobytes() if rows == steps else b""
            rest += bytes(-(steps + 1) * row % 8)  # arrays begin at multiples of eight
            self._waiting += (seen[at:end], rest, done[first * step : last * step])
            self._sums += (seen_sum, zlib.crc32(rest), done_sum)
            self._sizes += (rows * row, len(rest), steps * step)
            gap = -steps * step % 8
            if paid is not None:
                self._put(bytes(gap), zlib.crc32(bytes(gap)))
                self._put(paid[first * 8 : last * 8], paid_sum)
                gap = 0
            self._put(*self._ends(steps, ended, paid is None, gap))
            at, first = end, last
        self._bytes += at + first * step
        self.lengths += summed.steps
        if self._bytes > _GATHERED or len(self._waiting) > _PIECES:
            self.flush()

    def _ends(self, steps: int, terminated: bool, no_rewards: bool, gap: int) -> tuple[bytes, int]:
        """Terminations and truncations, to eight bytes, and their CRC-32; before them a gap and
        unknown rewards."""
        key = steps, terminated, no_rewards, gap
        known = self._known_ends.get(key)
        if known is not None:
            return known
        ends = np.zeros((2, steps), bool)
        ends[0 if terminated else 1, -1] = True
        rewards = np.full(steps if no_rewards else 0, np.nan)
        content = bytes(gap) + rewards.tobytes() + ends.tobytes() + bytes(-ends.nbytes % 8)
        made = content, zlib.crc32(content)
        if len(content) * len(self._known_ends) < _GATHERED:  # no more of them are kept
            self._known_ends[key] = made
        return made

    def _put(self, content: bytes | memoryview, summed: int) -> None:
        """Append bytes whose CRC-32 is known."""
        size = len(content)
        self._waiting.append(content)
        self._bytes += size
        self._sums.append(summed)
        self._sizes.append(size)

    def read_again(self) -> Iterator[list[Array]]:
        """The five arrays of each episode that was there from the beginning, in order."""
        begin, _ = self._layout()
        for length, places in zip(list(self.lengths), begin.tolist(), strict=True):
            arrays = []
            for i, (place, (_, number, shape)) in enumerate(zip(places, self._kinds, strict=True)):
                whole = (length + (i == 0), *shape)
                self._file.seek(max(place, 0))
                content = self._file.read(number.itemsize * prod(whole))
                arrays.append(np.frombuffer(content, number).reshape(whole))
            yield arrays

    def flush(self) -> None:
        """Hand all episodes so far to the system: what is not yet there. Interrupted and called
        again, it writes the same to the same place."""
        at, size = self._at, sum(map(len, self._waiting))
        if size:
            with suppress(OSError, AttributeError):  # not known here; of a full disk writing tells
                # room that is asked for at once is found in two thirds of the time
                os.posix_fallocate(self._file.fileno(), at, size)
        for first in range(0, len(self._waiting), _PIECES):
            pieces = self._waiting[first : first + _PIECES]
            left = sum(map(len, pieces))
            while left:
                written = os.pwritev(self._file.fileno(), pieces, at)
                at += written
                left -= written
                if left:  # in part, as on a disk that fills
                    pieces = [memoryview(b"".join(pieces))[written:]]
        self._waiting, self._at, self._bytes = [], at, 0
        if len(self._sums) > _SUMS:
            self._sums, self._sizes = [join_sums(self._sums, self._sizes)], [sum(self._sizes)]

    def finish(self) -> Array:
        """Make an HDF5 file of it; the places of its episodes."""
        begin, end = self._layout()
        length = np.array(self.lengths, np.int64)
        data = [
            Repeated(name, number, shape, length + (name == "observations"), begin[:, i])
            for i, (name, number, shape) in enumerate(self._kinds)
        ]
        numbers = np.arange(len(length))
        superblock, headers = make_headers(
            [f"episode_{i}" for i in range(len(length))],
            data,
            {"id": numbers, "total_steps": length},
            end,
        )
        for piece in headers:
            self._put(piece, zlib.crc32(piece))
        self.flush()
        os.pwrite(self._file.fileno(), superblock, 0)
        if self._is_whole:
            self.checksum = join_sums(
                [zlib.crc32(superblock), *self._sums], [len(superblock), *self._sizes]
            )
        return np.column_stack([length, begin[:, :4]])

    def _layout(self) -> tuple[Array, int]:
        """At which byte each array of each episode begins (E, 5), -1 for what takes no room, and
        where the next episode would begin."""
        length = np.array(self.lengths, np.int64).reshape(-1, 1)
        rows = length + (np.arange(5) == 0)
        sizes = rows * [number.itemsize * prod(shape) for _, number, shape in self._kinds]
        room = sizes + -sizes % 8
        room[:, 3] = sizes[:, 3]  # terminations and truncations lie side by side
        room[:, 4] = sizes[:, 4] + -sizes[:, 3:].sum(1) % 8
        ends = SUPERBLOCK + np.cumsum(room).reshape(room.shape)
        begin = np.where(sizes > 0, ends - room, -1)
        return begin, int(ends[-1, -1]) if len(ends) else SUPERBLOCK


def read_places(content: bytes, episodes: int) -> Array | None:
    """What `places.npy` says, or None where it cannot be right."""
    try:
        places = np.load(BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return None
    fits = places.shape == (episodes, 5) and places.dtype == np.int64
    return places if fits and (places[:, 0] > 0).all() else None


def read_at(
    file: Path,
    places: Array,
    spaces: Spaces,
    *,
    has_final: Array,
    observations: Array | None,
    actions: Array,
    rewards: Array,
) -> Array | None:
    """Fill flat arrays from what lies at these places; whether each episode was ended by its task.
    Observations are left where they are if no array is given.

    None where the file is too short for them, or the arrays are: then they hold anything.
    """
    try:
        raw = np.asarray(np.memmap(file, np.uint8, "r"))  # whose own parts are slow to make
    except (OSError, ValueError):  # missing, or empty
        return None
    length, *begin = places.T
    rows = length + has_final
    wanted = (
        (
            observations,
            rows,
            observation_type(spaces.observation),
            observation_shape(spaces.observation),
        ),
        (actions, length, element_type(spaces.action), element_shape(spaces.action)),
        (rewards, length, np.dtype(np.float64), ()),
    )
    for (flat, counts, number, shape), first in zip(wanted, begin, strict=False):
        if flat is None:
            continue
        if number is None or flat.dtype != number or len(flat) != counts.sum():
            return None
        size = number.itemsize * int(np.prod(shape, dtype=np.int64))
        if not _copy(raw, first, counts * size, flat):
            return None
    last = begin[3] + length - 1
    if not ((last >= 0) & (last < len(raw))).all():
        return None
    return np.asarray(raw[last] != 0)


def _copy(raw: Array, first: Array, sizes: Array, flat: Array) -> bool:
    """Bytes from their places to one another's side; False where they are not all there."""
    if not ((first >= 0) & (first + sizes <= len(raw)) | (sizes == 0)).all():
        return False
    to = flat.reshape(-1).view(np.uint8)
    stop = np.cumsum(sizes)
    for source, size, end in zip(first.tolist(), sizes.tolist(), stop.tolist(), strict=True):
        to[end - size : end] = raw[source : source + size]
    return True
