"""A folder of demonstrations on disk: two Minari data sets and what Minari has no place for.

    demos/fourrooms/
      clean-v0/data/, noisy-v0/data/   Minari data sets (HDF5): `MinariDataset(".../data")`, or
                                       `minari.load_dataset("clean-v0")` with this folder as root
      sdil.json                        spaces, task, environment, ids, groups, what is absent
      truth.npz                        where known: which steps were good. No learner reads it.

`sdil.formats.minari` knows one data set; this module knows what lies around the two.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sdil.demonstrations import Demonstrations, check_values
from sdil.errors import InputError
from sdil.files import new_folder, read_json, write_json
from sdil.formats.minari import Notes, annotate, lengths_of, read_datasets, write_dataset
from sdil.spaces import Spaces
from sdil.truth import Truth

FORMAT_VERSION = 1
_ABOUT = "sdil.json"
_TRUTH = "truth.npz"
_SETS = ("clean", "noisy")


def save_demonstrations(
    demos: Demonstrations,
    folder: str | Path,
    *,
    task: str | None = None,
    environment: str | None = None,
    truth: Truth | None = None,
    origin: dict[str, Any] | None = None,
    overwrite: bool = False,
    write_more: Callable[[Path], None] | None = None,
) -> None:
    """Write demonstrations to a new folder, whole or not at all.

    `task` and `environment` (a Gymnasium id) say where they come from, `origin` is free text for
    people (who collected, how, with which seed); `truth` is stored apart. `write_more` is given
    the folder before it takes its name, to write further files into it.
    """
    if truth is not None:
        truth.check_fits(demos)
    with new_folder(Path(folder).absolute(), overwrite=overwrite, marker=_ABOUT) as temporary:
        about: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "task": task,
            "environment": environment,
            "origin": origin or {},
            "spaces": demos.spaces.to_json(),
        }
        for name, trajectories in zip(_SETS, (demos.clean, demos.noisy), strict=True):
            notes = write_dataset(trajectories, demos.spaces, _dataset(temporary, name))
            about[name] = notes.to_json()
        if truth is not None:
            np.savez_compressed(temporary / _TRUTH, allow_pickle=False, **truth.to_arrays())
        if write_more is not None:
            write_more(temporary)
        write_json(temporary / _ABOUT, about)


def load_demonstrations(folder: str | Path) -> Demonstrations:
    """Read demonstrations that `save_demonstrations` wrote; every value is checked again."""
    folder = Path(folder)
    about = describe(folder)
    try:
        spaces = Spaces.from_json(about["spaces"])
        sets = {_dataset(folder, name): Notes.from_json(about[name]) for name in _SETS}
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / _ABOUT}: damaged ({error!r})") from None
    clean, noisy = read_datasets(sets, spaces)
    if not len(clean):
        raise InputError(f"{folder}: the clean set is empty")
    try:
        check_values(clean, spaces, "clean")
        check_values(noisy, spaces, "noisy")
    except InputError as error:
        raise InputError(f"{folder}: {error}") from None
    return Demonstrations(clean, noisy, spaces)


def load_truth(folder: str | Path) -> Truth | None:
    """What is known of the quality of each step, or None; the only reader of `truth.npz`."""
    folder = Path(folder)
    describe(folder)  # a folder of demonstrations, and of this version
    path = folder / _TRUTH
    if not path.exists():
        return None
    clean, noisy = (lengths_of(_dataset(folder, name)) for name in _SETS)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return Truth.from_arrays(arrays, clean=clean, noisy=noisy)
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def describe(folder: str | Path) -> dict[str, Any]:
    """The contents of `sdil.json`: task, environment, origin and what each set holds."""
    folder = Path(folder)
    if not folder.exists():
        raise InputError(
            f"{folder} does not exist; `sdil collect` makes a folder of demonstrations"
        )
    about = read_json(folder / _ABOUT, what="a folder of demonstrations")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder / _ABOUT}: format {version!r} is not the one this version reads "
            f"({FORMAT_VERSION}); upgrade sdil or collect again"
        )
    return about


def annotate_episodes(folder: Path, name: str, notes: Sequence[dict[str, Any]]) -> None:
    """Add to what Minari says of each episode of a set (its metadata); values are plain."""
    annotate(_dataset(folder, name), notes)


def _dataset(folder: Path, name: str) -> Path:
    return folder / f"{name}-v0"
