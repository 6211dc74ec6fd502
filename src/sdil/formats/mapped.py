"""Episodes whose observations lie row after row in one file: mapped into memory, never read whole.

Pictures, observations of several parts, and vectors of more than a gigabyte are written this way.
The file is the Minari data set's own HDF5 file, so that Minari opens it as any other:

    superblock | rows of all episodes | actions | rewards | terminations | truncations | headers

Each row is an observation as it is kept in memory; each episode has one more than it has steps, the
last twice where the final one is unknown. The rows of a `Dict` are packed, and HDF5 finds each part
of them as a data set of chunks, one in each row. The noisy set's file begins with the rows of the
clean set once more: one map holds both, so that nothing is copied to have them side by side.

While episodes come, their actions and rewards wait in a file beside it (`steps.part`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sdil.demonstrations import digest_of
from sdil.errors import InputError
from sdil.formats.fingerprints import Summed
from sdil.formats.hdf5_headers import Repeated, make_headers
from sdil.formats.runs import Run
from sdil.observations import has_frames, is_packed, observation_shape, observation_type, parts_of
from sdil.spaces import Array, Spaces, element_shape, element_type
from sdil.trajectories import Trajectories, Trajectory

DIGESTS = "digests.npy"
"""(E, 32) bytes: SHA-256 of the observations of each episode, of which the fingerprint is made."""
_LARGE = 2**30  # bytes of observations from which vectors are mapped, too
_BEGIN = 4096  # bytes before the first row; maps begin at pages
_BLOCK = 1 << 24  # bytes that are copied or summed up at once
_PART = "steps.part"


def is_mapped(spaces: Spaces, rows: int) -> bool:
    """Whether so many observations are written to be mapped."""
    space = spaces.observation
    return has_frames(space) or rows * row_bytes(space) > _LARGE


def row_bytes(space: Any) -> int:
    """Of one observation as it is kept."""
    return observation_type(space).itemsize * prod(observation_shape(space))


@dataclass(frozen=True)
class Rows:
    """Where the rows of a file lie."""

    begin: int
    """The byte at which they begin."""
    rows: int
    bytes: int
    """Of all of them."""
    checksum: str
    """CRC-32 of them, as text."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(value: Any) -> Rows:
        """The inverse; InputError where it cannot be right."""
        numbers = ("begin", "rows", "bytes")
        if (
            not isinstance(value, dict)
            or set(value) != {*numbers, "checksum"}
            or not all(isinstance(value[n], int) and value[n] >= 0 for n in numbers)
            or not isinstance(value["checksum"], str)
        ):
            raise InputError("where its rows lie is not said as it should be")
        return Rows(**value)

    def sum_up(self, path: Path) -> str:
        """The checksum of the rows as they are now; reads all of them, a block at a time."""
        crc = 0
        for block in _blocks(path, self.begin, self.bytes):
            crc = zlib.crc32(block, crc)
        return f"crc32:{crc:08x}"


def _blocks(path: Path, begin: int, size: int) -> Iterator[bytes]:
    with path.open("rb", 0) as file:
        file.seek(begin)
        while size > 0:
            block = file.read(min(_BLOCK, size))
            if not block:
                raise InputError(f"{path}: it is shorter than what was noted; copy it again")
            size -= len(block)
            yield block


class MappedFile:
    """A file that episodes are appended to; HDF5 once it is finished. As `EpisodeFile`."""

    def __init__(
        self,
        path: Path,
        spaces: Spaces,
        lengths: list[int] | None = None,
        before: tuple[Path, Rows] | None = None,
    ) -> None:
        """A new file, or one with episodes of these lengths, to go on with; what follows is cut.

        `before` are a finished file and where its rows lie, which this one begins with.
        """
        self.lengths = lengths or []
        self._path, self._space = path, spaces.observation
        self._seen = observation_type(spaces.observation), observation_shape(spaces.observation)
        self._done = element_type(spaces.action), element_shape(spaces.action)
        self._row = row_bytes(spaces.observation)
        self._before = before[1].rows if before else 0
        is_new = not self.lengths
        self._crc: int | None = 0 if is_new else None
        self._file = path.open("w+b" if is_new else "r+b", _BLOCK)
        self._steps = path.with_name(_PART).open("w+b" if is_new else "r+b", 1 << 20)
        try:
            if is_new:
                self._file.write(bytes(_BEGIN))
                if before:
                    for block in _blocks(before[0], before[1].begin, before[1].bytes):
                        self._write_rows(block)
            else:
                self._cut()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def __enter__(self) -> MappedFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._steps.close()

    def _cut(self) -> None:
        """Leave what belongs to the noted episodes."""
        for file, end in (
            (self._file, _BEGIN + self._row * self.rows),
            (self._steps, sum(map(self._step_bytes, self.lengths))),
        ):
            if file.seek(0, 2) < end:
                raise EOFError(f"{file.name} is shorter than what was noted")
            file.truncate(end)
            file.seek(end)

    @property
    def rows(self) -> int:
        """How many there are so far, those before included."""
        return self._before + sum(self.lengths) + len(self.lengths)

    def _step_bytes(self, length: int) -> int:
        number, shape = self._done
        return length * (number.itemsize * prod(shape) + 8) + 1

    def append(self, t: Trajectory, summed: Summed | None = None) -> None:
        """Write one more episode; what is known of it is no help."""
        seen = np.ascontiguousarray(t.observations, self._seen[0])
        self._write_rows(seen.data)
        if not t.has_final_observation:
            self._write_rows(np.ascontiguousarray(seen[-1:]).data)
        steps = len(t)
        rewards = np.full(steps, np.nan) if t.rewards is None else t.rewards
        self._steps.write(np.ascontiguousarray(t.actions, self._done[0]).tobytes())
        self._steps.write(np.ascontiguousarray(rewards, np.float64).tobytes())
        self._steps.write(bytes([t.terminated]))
        self.lengths.append(steps)

    def append_run(self, run: Run, summed: Summed) -> None:
        """Write several."""
        for t in run:
            self.append(t)

    def _write_rows(self, content: Any) -> None:
        if self._crc is not None and len(content):
            self._crc = zlib.crc32(content, self._crc)
        if len(content):
            self._file.write(content)

    def read_again(self) -> Iterator[list[Array]]:
        """The five arrays of each episode that was there from the beginning, in order."""
        number, shape = self._seen
        self._file.flush()
        row = self._before
        for length, (done, rewards, terminated) in self._again():
            self._file.seek(_BEGIN + self._row * row)
            content = self._file.read(self._row * (length + 1))
            seen = np.frombuffer(content, number).reshape(length + 1, *shape)
            row += length + 1
            ends = np.zeros((2, length), bool)
            ends[0 if terminated else 1, -1] = True
            yield [seen, done, rewards, *ends]
        self._file.seek(0, 2)

    def _again(self) -> Iterator[tuple[int, tuple[Array, Array, bool]]]:
        """The steps of each episode."""
        number, shape = self._done
        self._steps.flush()
        self._steps.seek(0)
        for length in list(self.lengths):
            content = self._steps.read(self._step_bytes(length))
            cut = length * number.itemsize * prod(shape)
            done = np.frombuffer(content[:cut], number).reshape(length, *shape)
            rewards = np.frombuffer(content[cut:-1], np.float64)
            yield length, (done, rewards, bool(content[-1]))
        self._steps.seek(0, 2)

    def flush(self) -> None:
        """Hand all episodes so far to the system."""
        self._file.flush()
        self._steps.flush()

    def finish(self) -> Array:
        """Make an HDF5 file of it; the places of its episodes, as `EpisodeFile` has them."""
        length = np.array(self.lengths, np.int64)
        number, shape = self._done
        sizes = (number.itemsize * prod(shape), 8, 1, 1)
        first, at = np.cumsum(length) - length, _BEGIN + self._row * self.rows
        at += self._pad(at)
        begin = []
        for i, size in enumerate(sizes):
            begin.append(np.where(size * length > 0, at + size * first, -1))
            for steps, (done, rewards, terminated) in self._again():
                ends = np.zeros(steps, bool)
                ends[-1] = terminated == (i == 2)
                self._file.write((done, rewards, ends, ends)[i].tobytes())
            at += size * int(length.sum())
            at += self._pad(at)
        rows = _BEGIN + self._row * (self._before + first + np.arange(len(length)))
        ends_ = np.dtype(bool)
        data = [
            *self._seen_headers(length + 1, rows),
            Repeated("actions", number, shape, length, begin[0]),
            Repeated("rewards", np.dtype(np.float64), (), length, begin[1]),
            Repeated("terminations", ends_, (), length, begin[2]),
            Repeated("truncations", ends_, (), length, begin[3]),
        ]
        names = [f"episode_{i}" for i in range(len(length))]
        about = {"id": np.arange(len(length)), "total_steps": length}
        superblock, headers = make_headers(names, data, about, at)
        self._file.writelines(headers)
        self._file.seek(0)
        self._file.write(superblock)
        self._file.flush()
        return np.column_stack([length, rows, *begin[:3]])

    def _pad(self, at: int) -> int:
        self._file.write(bytes(-at % 8))
        return -at % 8

    def _seen_headers(self, rows: Array, place: Array) -> list[Repeated]:
        if not is_packed(self._space):
            return [Repeated("observations", *self._seen, rows, place)]
        return [
            Repeated(f"observations/{p.name}", p.dtype, p.shape, rows, place + p.offset, self._row)
            for p in parts_of(self._space)
        ]

    def about_rows(self) -> Rows:
        """Where its rows lie, and their checksum: summed up as they were written, or again."""
        rows = self.where_rows()
        if self._crc is not None:
            return replace(rows, checksum=f"crc32:{self._crc:08x}")
        self._file.flush()
        return replace(rows, checksum=rows.sum_up(self._path))

    def where_rows(self) -> Rows:
        """The same without the checksum."""
        return Rows(_BEGIN, self.rows, self._row * self.rows, "")


Laid = dict[Path, Rows]
"""The mapped files of a folder so far, in the order of its sets."""


def write_mapped(trajectories: Trajectories, spaces: Spaces, file: Path, laid: Laid) -> Array:
    """Write all episodes into a new file that begins with the rows of the one before; places."""
    before = next(reversed(laid.items()), None)
    with MappedFile(file, spaces, before=before) as storage:
        for t in trajectories:
            storage.append(t)
        places = storage.finish()
        laid[file] = storage.about_rows()
    if has_frames(spaces.observation):
        known = trajectories.digests
        save_digests(
            file,
            [digest_of(t.observations) for t in trajectories]
            if known is None
            else [row.tobytes() for row in known],
        )
    remove_part(file)
    return places


def save_digests(file: Path, digests: Sequence[bytes]) -> None:
    """Beside the data of a set, the hashes of its episodes."""
    table = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)
    np.save(file.parent.parent / DIGESTS, table)


def read_digests(path: Path, episodes: int) -> Array | None:
    """What was saved; None where it cannot be right."""
    try:
        table = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return None
    return table if table.shape == (episodes, 32) and table.dtype == np.uint8 else None


def remove_part(path: Path) -> None:
    """Remove what waited beside a file that is finished for good."""
    path.with_name(_PART).unlink(missing_ok=True)


def sum_up_others(path: Path, rows: Rows) -> str:
    """A checksum of all bytes of a file but its rows."""
    content = np.memmap(path, np.uint8, "r").data
    if rows.begin + rows.bytes > len(content):
        raise OSError(f"{path} is shorter than what was noted")
    crc = zlib.crc32(content[rows.begin + rows.bytes :], zlib.crc32(content[: rows.begin]))
    return f"crc32:{crc:08x}"
