"""Zarr replay buffers back: a score and a weight of each row, or the kept rows as episodes.

Arrays keep what their own metadata says (number type, chunks, compressor, attributes): it is copied
as it is but for the number of rows. A zipped store is unpacked, written and packed again.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file, new_folder
from sdil.formats.hdf5 import first_line
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer
from sdil.spaces import Array

_ENDS = Path("meta") / "episode_ends"
_METADATA = (".zarray", "zarr.json")


def write_scored(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same store with `data/sdil_score` and `data/sdil_weight`."""
    with _new_store(out, original) as new, _as_folder(original, out) as old:
        shutil.copytree(old, new, dirs_exist_ok=True)
        _check(old, answers, original)
        _add(new, "data", SCORE, np.concatenate([a.score for a in answers]))
        _add(new, "data", WEIGHT, np.concatenate([a.weight for a in answers]))
        _consolidate(new)


def write_curated(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept rows alone, each run of them an episode.

    `meta/sdil_source` is the number of the episode that each comes from, `meta/sdil_first` its
    first row there.
    """
    import zarr

    with _new_store(out, original) as new, _as_folder(original, out) as old:
        rows = _check(old, answers, original)
        starts = np.cumsum([0, *map(len, answers)])
        pieces = [(at, a, b) for at, answer in enumerate(answers) for a, b in answer.pieces]
        index = np.concatenate([np.arange(starts[at] + a, starts[at] + b) for at, a, b in pieces])
        source = np.array([at for at, _, _ in pieces], np.int64)
        ends = np.cumsum([b - a for _, a, b in pieces])
        arrays = list(_arrays(old))
        shutil.copytree(old, new, dirs_exist_ok=True, ignore=_chunks_of(old, arrays))
        for path in arrays:
            try:
                array = zarr.open_array(old / path, mode="r")
            except Exception as error:  # numcodecs has its own
                raise InputError(
                    f"{original}: {path} cannot be opened ({first_line(error)}), so that it cannot "
                    "be cut: install its codec, or take the copy with scores or a trim list"
                ) from None
            taken: Array | None = None
            if path == _ENDS:
                _fill(new / path, len(ends), lambda a, b: ends[a:b])
                continue
            if path.parts[0] == "data" and array.shape and array.shape[0] == rows:
                taken = index
            elif path.parts[0] == "meta" and array.shape and array.shape[0] == len(answers):
                taken = source
            if taken is None:
                shutil.copytree(old / path, new / path, dirs_exist_ok=True)
            else:
                _fill(new / path, len(taken), _taking(array, taken))
        _add(new, "meta", SOURCE, source)
        _add(new, "meta", FIRST, np.array([a for _, a, _ in pieces], np.int64))
        _consolidate(new)


def _taking(array: Any, index: Array) -> Any:
    """Rows of the new array, run by run of the old one."""

    def take(first: int, last: int) -> Array:
        wanted = index[first:last]
        edges = np.flatnonzero(np.diff(wanted) != 1) + 1
        return np.concatenate([array[r[0] : r[-1] + 1] for r in np.split(wanted, edges)])

    return take


def _fill(path: Path, rows: int, take: Any) -> None:
    """Give an array whose metadata is there already another number of rows, and these values."""
    import zarr

    for name in _METADATA:
        if (path / name).is_file():
            about = json.loads((path / name).read_text("utf-8"))
            about["shape"][0] = rows
            (path / name).write_text(json.dumps(about, indent=4), "utf-8")
    array = zarr.open_array(path, mode="r+")
    block = max(1, array.chunks[0])
    for first in range(0, rows, block):
        last = min(first + block, rows)
        array[first:last] = take(first, last)


def _add(folder: Path, group: str, name: str, values: Array) -> None:
    """A new array in a group, in the version of Zarr that its neighbours have."""
    import zarr

    new = any((folder / group).rglob("zarr.json"))
    shutil.rmtree(folder / group / name, ignore_errors=True)
    array = zarr.create_array(
        store=folder / group / name,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(max(1, min(len(values), 1 << 16)),),
        zarr_format=3 if new else 2,
    )
    array[...] = values


def _check(folder: Path, answers: Sequence[RowAnswer], original: Path) -> int:
    """How many rows there are; refused where they are not those that were judged."""
    import zarr

    ends = np.asarray(zarr.open_array(folder / _ENDS, mode="r")[...])
    if np.diff(ends, prepend=0).tolist() != [len(a) for a in answers]:
        raise InputError(
            f"{original}: its episodes are not those that were judged; import and judge it again"
        )
    return int(ends[-1])


def _arrays(folder: Path) -> Iterator[Path]:
    """Where arrays lie, relative to the store."""
    for path in sorted(folder.rglob(".zarray")):
        yield path.parent.relative_to(folder)
    for path in sorted(folder.rglob("zarr.json")):
        if json.loads(path.read_text("utf-8")).get("node_type") == "array":
            yield path.parent.relative_to(folder)


def _chunks_of(folder: Path, arrays: Sequence[Path]) -> Any:
    """What `copytree` leaves out: everything of an array but what is said of it."""
    within = {folder / path for path in arrays}

    def ignore(where: str, names: list[str]) -> list[str]:
        if Path(where) not in within:
            return []
        return [name for name in names if name not in (*_METADATA, ".zattrs")]

    return ignore


def _consolidate(folder: Path) -> None:
    """Where all metadata is gathered in one file, gather it again."""
    import zarr

    root = folder / "zarr.json"
    gathered = (folder / ".zmetadata").exists() or (
        root.exists() and json.loads(root.read_text("utf-8")).get("consolidated_metadata")
    )
    if gathered:
        zarr.consolidate_metadata(folder, zarr_format=3 if root.exists() else 2)


@contextmanager
def _as_folder(original: Path, out: Path) -> Iterator[Path]:
    """The store as a folder: itself, or unpacked for a while."""
    if original.is_dir():
        yield original
        return
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as place:
        try:
            with zipfile.ZipFile(original) as packed:
                packed.extractall(place)
        except (OSError, zipfile.BadZipFile) as error:
            raise InputError(f"{original}: cannot be unpacked ({error})") from None
        yield Path(place)


@contextmanager
def _new_store(out: Path, original: Path) -> Iterator[Path]:
    """A folder to write the store into, which is packed where the original is."""
    out.parent.mkdir(parents=True, exist_ok=True)
    if original.is_dir():
        with new_folder(out, overwrite=False, marker="") as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as place:
        yield Path(place)
        with new_file(out) as temporary, zipfile.ZipFile(temporary, "w") as packed:
            for path in sorted(Path(place).rglob("*")):
                packed.write(path, path.relative_to(place))
