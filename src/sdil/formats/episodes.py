"""Episodes of a Minari data set in HDF5, laid out so that a million steps are read at once.

Minari finds what it expects: a group for each episode, five data sets in it. Each of these lies in
the file in one piece, and `places.npy` beside it says where, so that we read without opening them:
some hundred thousand objects. Whoever reads that way must know that the file is what was written.

    superblock | observations, actions, rewards, terminations, truncations of 0 | of 1 | headers

The arrays are appended as episodes come; HDF5's headers follow when all are there (`hdf5_headers`),
and the superblock, without which it is no HDF5 file yet, comes last.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sdil.formats.hdf5_headers import SUPERBLOCK, Repeated, make_headers
from sdil.observations import observation_shape, observation_type
from sdil.spaces import Array, Spaces, element_shape, element_type
from sdil.trajectories import Trajectories, Trajectory

PLACES = "places.npy"
"""(E, 5) integers: of each episode its length, and at which byte of the file its observations,
actions, rewards and terminations begin."""
FILE = Path("data", "main_data.hdf5")
_BUFFER = 1 << 20  # bytes that are gathered before the system is asked to write them


def write_episodes(trajectories: Trajectories, spaces: Spaces, file: Path) -> Array:
    """Write all episodes into a new HDF5 file as Minari does; their places."""
    with EpisodeFile(file, spaces) as storage:
        for t in trajectories:
            storage.append(t)
        return storage.finish()


class EpisodeFile:
    """A file that episodes are appended to; HDF5 once it is finished.

    What Minari has no place for it sees as `sdil.formats.minari` says: NaN for unknown rewards, the
    last observation twice where the final one is unknown.
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
        self._file = path.open("r+b" if self.lengths else "w+b", _BUFFER)
        if self.lengths:
            end = int(self._layout()[1])
            if self._file.seek(0, 2) < end:
                self._file.close()
                raise EOFError(f"{path} is shorter than what was noted")
            self._file.truncate(end)
            self._file.seek(end)
        else:
            self._file.write(bytes(SUPERBLOCK))

    def __enter__(self) -> EpisodeFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def append(self, t: Trajectory) -> None:
        """Write one more episode."""
        steps = len(t)
        ends = np.zeros((2, steps), bool)
        ends[0 if t.terminated else 1, -1] = True
        (_, seen, _), (_, done, _), *_ = self._kinds
        missing = None if t.has_final_observation else t.observations[-1:]
        rewards = np.full(steps, np.nan) if t.rewards is None else t.rewards
        self._put(seen, t.observations, missing)
        self._put(done, t.actions)
        self._put(np.dtype(np.float64), rewards)
        self._put(np.dtype(bool), ends)  # both lie side by side
        self.lengths.append(steps)

    def _put(self, number: np.dtype[Any], *arrays: Array | None) -> None:
        """Append arrays, and zeros up to the next multiple of eight bytes."""
        size = 0
        for array in arrays:
            if array is not None:
                values = np.ascontiguousarray(array, number)
                size += values.nbytes
                if values.nbytes:
                    self._file.write(values.data)
        if size % 8:
            self._file.write(bytes(-size % 8))

    def read_again(self) -> Iterator[list[Array]]:
        """The five arrays of each episode that was there from the beginning, in order."""
        begin, end = self._layout()
        for length, places in zip(list(self.lengths), begin.tolist(), strict=True):
            arrays = []
            for i, (place, (_, number, shape)) in enumerate(zip(places, self._kinds, strict=True)):
                whole = (length + (i == 0), *shape)
                self._file.seek(max(place, 0))
                content = self._file.read(number.itemsize * prod(whole))
                arrays.append(np.frombuffer(content, number).reshape(whole))
            yield arrays
        self._file.seek(end)

    def flush(self) -> None:
        """Hand all episodes so far to the system."""
        self._file.flush()

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
        self._file.writelines(headers)
        self._file.seek(0)
        self._file.write(superblock)
        self._file.flush()
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
