"""A folder of demonstrations on disk: two Minari data sets and what Minari has no place for.

    demos/fourrooms/
      clean-v0/data/, noisy-v0/data/   Minari data sets (HDF5): `MinariDataset(".../data")`, or
                                       `minari.load_dataset("clean-v0")` with this folder as root
                                       and `places.npy`, where in the file each episode lies
      sdil.json                        spaces, task, environment, ids, groups, what is absent;
                                       the fingerprint of the data and checksums of files; of
                                       imported data names, units, and the source's own frames
      truth.npz                        where known: which steps were good. No learner reads it.

`sdil.formats.minari` knows one data set; this module knows what lies around the two. What is read
is compared with the fingerprint and the checksums, so that no damage goes unseen; folders of a
version that wrote none are read without. Nothing is written that would not be read again.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sdil.demonstrations import Demonstrations, check_values
from sdil.errors import InputError
from sdil.files import new_folder, read_json, refuse_missing, write_json
from sdil.formats.episodes import FILE, PLACES, read_places
from sdil.formats.minari import (
    Notes,
    annotate,
    lengths_of,
    read_at_once,
    read_datasets,
    write_dataset,
)
from sdil.formats.origin import Imported, Origin
from sdil.observations import observation_type
from sdil.spaces import Array, Spaces, element_type
from sdil.truth import Truth

FORMAT_VERSION = 1
_ABOUT = "sdil.json"
_TRUTH = "truth.npz"
_SETS = ("clean", "noisy")
_FINGERPRINT, _CHECKSUMS = "fingerprint", "checksums"
_FIELDS: dict[str, Any] = {
    "task": str | None,
    "environment": str | None,
    "origin": dict,
    "spaces": dict,
    "clean": dict,
    "noisy": dict,
    _FINGERPRINT: str | None,
    _CHECKSUMS: dict,
}
"""What `sdil.json` must hold, and of which type."""
_AGAIN = "copy the folder again, or collect again"


def save_demonstrations(
    demos: Demonstrations,
    folder: str | Path,
    *,
    task: str | None = None,
    environment: str | None = None,
    truth: Truth | None = None,
    origin: dict[str, Any] | None = None,
    source: Origin | None = None,
    overwrite: bool = False,
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write demonstrations to a new folder, whole or not at all.

    `task` and `environment` (a Gymnasium id) say where they come from, `origin` is free text for
    people (who collected, how, with which seed); `truth` is stored apart. `source` is where they
    were read from and what their numbers are called, by default what `sdil.read` noted.
    `write_more` is given the folder before it takes its name, to write further files into it.
    """
    if source is None and isinstance(demos, Imported):
        source = demos.origin
    if truth is not None:
        truth.check_fits(demos)
    _check_storable(demos)
    size = size_on_disk(demos)  # refused beforehand: HDF5 does not survive a full disk
    path = Path(folder).absolute()
    with new_folder(path, overwrite=overwrite, marker=_ABOUT, size=size) as temporary:
        about: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "task": task,
            "environment": environment,
            "origin": origin or {},
            "spaces": demos.spaces.to_json(),
            **({} if source is None else source.to_json()),
        }
        for name, trajectories in zip(_SETS, (demos.clean, demos.noisy), strict=True):
            notes = write_dataset(trajectories, demos.spaces, _dataset(temporary, name))
            about[name] = notes.to_json()
        about[_FINGERPRINT], about[_CHECKSUMS] = demos.fingerprint(), {}
        if truth is not None:
            np.savez_compressed(temporary / _TRUTH, allow_pickle=False, **truth.to_arrays())
            about[_CHECKSUMS][_TRUTH] = _digest((temporary / _TRUTH).read_bytes())
        if write_more is not None:
            write_more(temporary)
        write_about(temporary, about)


def write_about(folder: Path, about: dict[str, Any]) -> None:
    """Write `sdil.json` with checksums of the files of both sets and of all that it says."""
    for name in _SETS:
        for file in _files(name):
            if (folder / file).exists():
                about[_CHECKSUMS][file] = _checksum_of(folder / file)
    about[_CHECKSUMS][_ABOUT] = _digest_of_the_rest(about)
    write_json(folder / _ABOUT, about)


def load_demonstrations(folder: str | Path) -> Demonstrations:
    """Read demonstrations that `save_demonstrations` wrote; every value is checked again."""
    folder = Path(folder)
    about = describe(folder)
    try:
        spaces = Spaces.from_json(about["spaces"])
    except InputError as error:
        raise InputError(f"{folder / _ABOUT}: damaged ({error}); {_AGAIN}") from None
    notes = {name: _notes(folder, about, name) for name in _SETS}
    found = _read_at_once(folder, about, notes, spaces)
    if found is not None:
        return found
    # by an earlier version, or changed: episode by episode, to say what is wrong with which
    sets = {_dataset(folder, name): noted for name, noted in notes.items()}
    clean, noisy = read_datasets(sets, spaces)
    if not len(clean):
        raise InputError(f"{folder}: the clean set is empty")
    try:
        check_values(clean, spaces, "clean")
        check_values(noisy, spaces, "noisy")
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    demos = Demonstrations(clean, noisy, spaces)
    _check_as_written(folder, about, demos.fingerprint())
    return demos


def _read_at_once(
    folder: Path, about: dict[str, Any], notes: dict[str, Notes], spaces: Spaces
) -> Demonstrations | None:
    """From where the data lies in its files; None where not every byte is what was written."""
    if about[_CHECKSUMS].get(_ABOUT) != _digest_of_the_rest(about):
        return None
    sets = {}
    for name, noted in notes.items():
        place = _known_places(folder, about, name, noted)
        if place is None or not _is_as_written(folder, about, _files(name)[1], noted):
            return None
        sets[_dataset(folder, name)] = noted, place
    try:
        read = read_at_once(sets, spaces)
        if read is None or not len(read[0]):
            return None
        demos = Demonstrations(read[0], read[1], spaces)
        check_values(demos.all, spaces, "whole")  # they share their arrays: at once
    except (InputError, MemoryError, ValueError):
        return None
    return demos


def _known_places(folder: Path, about: dict[str, Any], name: str, noted: Notes) -> Array | None:
    """Where each episode of a set lies in its file, as it was written; None where it is unknown."""
    if not noted.episodes:
        return np.zeros((0, 5), np.int64)
    file = _files(name)[0]
    if not _is_as_written(folder, about, file, noted):
        return None
    return read_places((folder / file).read_bytes(), noted.episodes)


def _is_as_written(folder: Path, about: dict[str, Any], file: str, noted: Notes) -> bool:
    """Whether a file of a set has the checksum that was noted; an empty set needs none."""
    if not noted.episodes:
        return True
    written = str(about[_CHECKSUMS].get(file))
    kind = "crc32" if written.startswith("crc32:") else "sha256"  # of earlier versions
    try:
        return written == _checksum_of(folder / file, kind)
    except OSError:
        return False


def load_truth(folder: str | Path) -> Truth | None:
    """What is known of the quality of each step, or None; the only reader of `truth.npz`."""
    folder = Path(folder)
    about = describe(folder)  # a folder of demonstrations, and of this version
    path = folder / _TRUTH
    if not path.exists():
        return None
    lengths = {}
    for name in _SETS:
        noted = _notes(folder, about, name)
        places = _known_places(folder, about, name, noted)
        held = lengths_of(_dataset(folder, name)) if places is None else places[:, 0].tolist()
        if (len(held), sum(held)) != (noted.episodes, noted.steps):
            raise InputError(
                f"{_dataset(folder, name)}: damaged (it does not hold the noted episodes and "
                f"steps); {_AGAIN}"
            )
        lengths[name] = held
    try:
        content = path.read_bytes()
        if about[_CHECKSUMS].get(_TRUTH, _digest(content)) != _digest(content):
            raise InputError("it is not the file that was written with these demonstrations")
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            return Truth.from_arrays(arrays, **lengths)
    except Exception as error:  # zip, zlib and NumPy each have their own
        raise InputError(f"{path}: cannot be read ({error}); {_AGAIN}") from None


def describe(folder: str | Path) -> dict[str, Any]:
    """The contents of `sdil.json`: task, environment, origin and what each set holds."""
    folder = Path(folder)
    refuse_missing(folder, "`sdil collect` makes a folder of demonstrations")
    about = read_json(folder / _ABOUT, what="a folder of demonstrations")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder / _ABOUT}: format {version!r} is not the one this version reads "
            f"({FORMAT_VERSION}); upgrade sdil or collect again"
        )
    about = {_FINGERPRINT: None, _CHECKSUMS: {}, **about}  # earlier versions wrote neither
    for name, kind in _FIELDS.items():
        if name not in about or not isinstance(about[name], kind):
            wrong = "of the wrong type" if name in about else "missing"
            raise InputError(f"{folder / _ABOUT}: damaged (`{name}` is {wrong}); {_AGAIN}")
    return about


def origin_of(folder: str | Path) -> Origin | None:
    """Where imported demonstrations came from, and what their numbers are called."""
    try:
        return Origin.from_json(describe(folder))
    except InputError as error:
        raise InputError(f"{Path(folder) / _ABOUT}: {error}; {_AGAIN}") from None


def size_on_disk(demos: Demonstrations) -> int:
    """At most how many bytes a folder of these demonstrations takes.

    An episode is a group of small HDF5 data sets, some 1 kB of headers whatever it holds.
    """
    everything = demos.all
    steps, episodes = everything.n_steps, len(everything)
    per_step = everything.observations[:1].nbytes + everything.actions[:1].nbytes
    return (steps + episodes) * per_step + 100 * steps + 4_000 * episodes + 200_000


def annotate_episodes(folder: Path, name: str, notes: Sequence[dict[str, Any]]) -> None:
    """Add to what Minari says of each episode of a set (its metadata); values are plain."""
    annotate(_dataset(folder, name), notes)


def _dataset(folder: Path, name: str) -> Path:
    return folder / f"{name}-v0"


def _files(name: str) -> tuple[str, str]:
    """Of a set, within the folder: where its episodes lie, and the file that they lie in."""
    return f"{name}-v0/{PLACES}", f"{name}-v0/{FILE.as_posix()}"


def _notes(folder: Path, about: dict[str, Any], name: str) -> Notes:
    try:
        return Notes.from_json(about[name])
    except InputError as error:
        raise InputError(f"{folder / _ABOUT}: damaged ({name} set: {error}); {_AGAIN}") from None


def _check_storable(demos: Demonstrations) -> None:
    """Raise where these demonstrations, once written, would be refused or come back changed."""
    spaces = demos.spaces
    for space, values, kept in (
        (spaces.observation, demos.clean.observations, observation_type(spaces.observation)),
        (spaces.action, demos.clean.actions, element_type(spaces.action)),
    ):
        if values.dtype != kept or values.dtype.itemsize > 8:
            raise InputError(f"{values.dtype} numbers of the space {space} cannot be stored")
    if Spaces.from_json(spaces.to_json()) != spaces:
        raise InputError(f"the spaces {spaces.observation}, {spaces.action} cannot be stored")
    if not len(demos.clean):
        raise InputError("the clean set is empty: at least one trusted trajectory is needed")
    for name, trajectories in zip(_SETS, (demos.clean, demos.noisy), strict=True):
        check_values(trajectories, spaces, name)


def _check_as_written(folder: Path, about: dict[str, Any], fingerprint: str) -> None:
    """Raise where the data or what is said of it is not what was written, as far as is known."""
    if about[_FINGERPRINT] not in (None, fingerprint):
        raise InputError(
            f"{folder}: the data is not what was written (its fingerprint differs), so a file is "
            f"damaged or was changed; {_AGAIN}"
        )
    if about[_CHECKSUMS].get(_ABOUT, digest := _digest_of_the_rest(about)) != digest:
        raise InputError(
            f"{folder / _ABOUT}: it is not what was written (its checksum differs); {_AGAIN}, or "
            f"remove `{_CHECKSUMS}` from it where you changed it yourself"
        )


def _digest_of_the_rest(about: dict[str, Any]) -> str:
    """A checksum of all that `sdil.json` says but for this checksum, however it is laid out."""
    others = {name: value for name, value in about[_CHECKSUMS].items() if name != _ABOUT}
    plain = json.loads(json.dumps({**about, _CHECKSUMS: others}))  # as it will be read
    return _digest(json.dumps(plain, sort_keys=True).encode())


def _checksum_of(path: Path, kind: str = "crc32") -> str:
    """Of all bytes of a file of a set. CRC-32 misses no flipped bit and no damaged run of up to
    four bytes, other damage once in four thousand million times, in a third of SHA-256's time."""
    content = np.memmap(path, np.uint8, "r").data if path.stat().st_size else b""
    return _digest(content) if kind == "sha256" else f"crc32:{zlib.crc32(content):08x}"


def _digest(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()
