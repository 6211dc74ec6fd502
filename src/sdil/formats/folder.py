"""A folder of demonstrations on disk: two Minari data sets and what Minari has no place for.

    demos/fourrooms/
      clean-v0/data/, noisy-v0/data/   Minari data sets (HDF5): `MinariDataset(".../data")`, or
                                       `minari.load_dataset("clean-v0")` with this folder as root
                                       and `places.npy`, where in the file each episode lies;
                                       of pictures `digests.npy`, a hash of each episode's
      sdil.json                        spaces, task, environment, ids, groups, what is absent;
                                       the fingerprint of the data and checksums of files; of
                                       imported data names, units, and the source's own frames
      truth.npz                        where known: which steps were good. No learner reads it.

`sdil.formats.minari` knows one data set; this module knows what lies around the two. What is read
is compared with the fingerprint and the checksums, so that no damage goes unseen; folders of a
version that wrote none are read without. Nothing is written that would not be read again. Pictures
and very large sets are mapped into memory (`sdil.formats.mapped`), and where they are large their
frames are compared only where that is asked for (`sdil inspect --check`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sdil.checking import check_values
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import new_folder, read_json, refuse_missing
from sdil.formats.checksums import (
    ABOUT,
    AGAIN,
    CHECKSUMS,
    MAPPED,
    SETS,
    data_folder,
    digest,
    digest_of_the_rest,
    files_of,
    is_as_written,
    known_places,
    write_about,
)
from sdil.formats.fingerprints import fingerprint_like
from sdil.formats.mapped import Laid, is_mapped
from sdil.formats.mapping import map_demonstrations, mapped_to_json
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
from sdil.spaces import Spaces, element_type
from sdil.truth import Truth

FORMAT_VERSION = 1
_TRUTH = "truth.npz"
_FINGERPRINT = "fingerprint"
_FIELDS: dict[str, Any] = {
    "task": str | None,
    "environment": str | None,
    "origin": dict,
    "spaces": dict,
    "clean": dict,
    "noisy": dict,
    _FINGERPRINT: str | None,
    CHECKSUMS: dict,
    MAPPED: dict,
}
"""What `sdil.json` must hold, and of which type."""


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
    with new_folder(path, overwrite=overwrite, marker=ABOUT, size=size) as temporary:
        about: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "task": task,
            "environment": environment,
            "origin": origin or {},
            "spaces": demos.spaces.to_json(),
            **({} if source is None else source.to_json()),
        }
        laid: Laid | None = {} if is_mapped(demos.spaces, len(demos.clean.observations)) else None
        known: dict[str, int | None] = {}
        for name, trajectories in zip(SETS, (demos.clean, demos.noisy), strict=True):
            place = data_folder(temporary, name)
            noted = write_dataset(trajectories, demos.spaces, place, laid, known)
            about[name] = noted.to_json()
        if laid is not None:
            about[MAPPED] = mapped_to_json(temporary, laid)
        about[_FINGERPRINT], about[CHECKSUMS] = demos.fingerprint(), {}
        if truth is not None:
            np.savez_compressed(temporary / _TRUTH, allow_pickle=False, **truth.to_arrays())
            about[CHECKSUMS][_TRUTH] = digest((temporary / _TRUTH).read_bytes())
        if write_more is not None:
            write_more(temporary)
        write_about(temporary, about, known)


def load_demonstrations(folder: str | Path, *, check: bool = False) -> Demonstrations:
    """Read demonstrations that `save_demonstrations` wrote; every value is checked again.

    Pictures and very large sets are mapped, not read: then sizes, headers and everything but the
    frames are checked, and these too where they are few, or with `check`.
    """
    folder = Path(folder)
    about = describe(folder)
    try:
        spaces = Spaces.from_json(about["spaces"])
    except InputError as error:
        raise InputError(f"{folder / ABOUT}: damaged ({error}); {AGAIN}") from None
    notes = {name: _notes(folder, about, name) for name in SETS}
    found = (
        map_demonstrations(folder, about, notes, spaces, check=check)
        if about[MAPPED]
        else _read_at_once(folder, about, notes, spaces)
    )
    if found is not None:
        return found
    # by an earlier version, or changed: episode by episode, to say what is wrong with which
    sets = {data_folder(folder, name): noted for name, noted in notes.items()}
    clean, noisy = read_datasets(sets, spaces)
    if not len(clean):
        raise InputError(f"{folder}: the clean set is empty")
    try:
        check_values(clean, spaces, "clean")
        check_values(noisy, spaces, "noisy")
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    demos = Demonstrations(clean, noisy, spaces)
    _check_as_written(folder, about, demos)
    return demos


def _read_at_once(
    folder: Path, about: dict[str, Any], notes: dict[str, Notes], spaces: Spaces
) -> Demonstrations | None:
    """From where the data lies in its files; None where not every byte is what was written."""
    if about[CHECKSUMS].get(ABOUT) != digest_of_the_rest(about):
        return None
    sets = {}
    for name, noted in notes.items():
        place = known_places(folder, about, name, noted)
        if place is None or not is_as_written(folder, about, files_of(name)[1], noted):
            return None
        sets[data_folder(folder, name)] = noted, place
    try:
        read = read_at_once(sets, spaces)
        if read is None or not len(read[0]):
            return None
        demos = Demonstrations(read[0], read[1], spaces)
        check_values(demos.all, spaces, "whole")  # they share their arrays: at once
    except (InputError, MemoryError, ValueError):
        return None
    return demos


def load_truth(folder: str | Path) -> Truth | None:
    """What is known of the quality of each step, or None; the only reader of `truth.npz`."""
    folder = Path(folder)
    about = describe(folder)  # a folder of demonstrations, and of this version
    path = folder / _TRUTH
    if not path.exists():
        return None
    lengths = {}
    for name in SETS:
        noted = _notes(folder, about, name)
        places = known_places(folder, about, name, noted)
        held = lengths_of(data_folder(folder, name)) if places is None else places[:, 0].tolist()
        if (len(held), sum(held)) != (noted.episodes, noted.steps):
            raise InputError(
                f"{data_folder(folder, name)}: damaged (it does not hold the noted episodes and "
                f"steps); {AGAIN}"
            )
        lengths[name] = held
    try:
        content = path.read_bytes()
        if about[CHECKSUMS].get(_TRUTH, digest(content)) != digest(content):
            raise InputError("it is not the file that was written with these demonstrations")
        with np.load(BytesIO(content), allow_pickle=False) as arrays:
            return Truth.from_arrays(arrays, **lengths)
    except Exception as error:  # zip, zlib and NumPy each have their own
        raise InputError(f"{path}: cannot be read ({error}); {AGAIN}") from None


def describe(folder: str | Path) -> dict[str, Any]:
    """The contents of `sdil.json`: task, environment, origin and what each set holds."""
    folder = Path(folder)
    refuse_missing(folder, "`sdil collect` makes a folder of demonstrations")
    about = read_json(folder / ABOUT, what="a folder of demonstrations")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder / ABOUT}: format {version!r} is not the one this version reads "
            f"({FORMAT_VERSION}); upgrade sdil or collect again"
        )
    about = {_FINGERPRINT: None, CHECKSUMS: {}, MAPPED: {}, **about}  # not in earlier versions
    for name, kind in _FIELDS.items():
        if name not in about or not isinstance(about[name], kind):
            wrong = "of the wrong type" if name in about else "missing"
            raise InputError(f"{folder / ABOUT}: damaged (`{name}` is {wrong}); {AGAIN}")
    return about


def origin_of(folder: str | Path) -> Origin | None:
    """Where imported demonstrations came from, and what their numbers are called."""
    try:
        return Origin.from_json(describe(folder))
    except InputError as error:
        raise InputError(f"{Path(folder) / ABOUT}: {error}; {AGAIN}") from None


def size_on_disk(demos: Demonstrations) -> int:
    """At most how many bytes a folder of these demonstrations takes.

    An episode is a group of small HDF5 data sets, some 1 kB of headers whatever it holds.
    """
    everything = demos.all
    steps, episodes = everything.n_steps, len(everything)
    per_step = everything.observations[:1].nbytes + everything.actions[:1].nbytes
    mapped = is_mapped(demos.spaces, len(everything.observations))
    twice = demos.clean.n_steps + len(demos.clean) if mapped else 0
    rows = (steps + episodes + twice) * per_step  # a mapped file begins with the clean set's
    return rows + 200 * steps + 8_000 * episodes + 400_000


def annotate_episodes(folder: Path, name: str, notes: Sequence[dict[str, Any]]) -> None:
    """Add to what Minari says of each episode of a set (its metadata); values are plain."""
    annotate(data_folder(folder, name), notes)


def _notes(folder: Path, about: dict[str, Any], name: str) -> Notes:
    try:
        return Notes.from_json(about[name])
    except InputError as error:
        raise InputError(f"{folder / ABOUT}: damaged ({name} set: {error}); {AGAIN}") from None


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
    for name, trajectories in zip(SETS, (demos.clean, demos.noisy), strict=True):
        check_values(trajectories, spaces, name)


def _check_as_written(folder: Path, about: dict[str, Any], demos: Demonstrations) -> None:
    """Raise where the data or what is said of it is not what was written, as far as is known."""
    written = about[_FINGERPRINT]
    if written is not None and written != fingerprint_like(written, demos):
        raise InputError(
            f"{folder}: the data is not what was written (its fingerprint differs), so a file is "
            f"damaged or was changed; {AGAIN}"
        )
    if about[CHECKSUMS].get(ABOUT, digest := digest_of_the_rest(about)) != digest:
        raise InputError(
            f"{folder / ABOUT}: it is not what was written (its checksum differs); {AGAIN}, or "
            f"remove `{CHECKSUMS}` from it where you changed it yourself"
        )
