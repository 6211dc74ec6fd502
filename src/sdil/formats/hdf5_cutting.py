"""Cutting HDF5 files: the same groups, attributes and number types with some of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from sdil.errors import InputError
from sdil.spaces import Array

Rows = Sequence[tuple[int, int]]
"""Runs of rows, each from its first to one past its last."""
_BLOCK = 1 << 24  # bytes that are read at a time


@contextmanager
def opened(path: Path, mode: str = "r") -> Iterator[Any]:
    """An HDF5 file; what is no longer one is said in a sentence."""
    try:
        file = h5py.File(path, mode)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened as HDF5 ({error})") from None
    with file:
        yield file


def copy_attributes(old: Any, new: Any) -> None:
    """All of them, with their own types."""
    for name in old.attrs:
        new.attrs.create(name, old.attrs[name], dtype=old.attrs.get_id(name).dtype)


def copy_cut(old: Any, parent: Any, name: str, rows: Rows | None, axis: int = 0) -> None:
    """A data set, or a part of its rows, stored as it was: chunks, filters, attributes.

    `rows` None: all of it, as it is.
    """
    if rows is None:
        parent.file.copy(old, parent, name=name)
        return
    shape = list(old.shape)
    shape[axis] = sum(stop - start for start, stop in rows)
    kept: dict[str, Any] = {}
    if old.chunks is not None:
        kept = {
            "chunks": tuple(min(c, max(n, 1)) for c, n in zip(old.chunks, shape, strict=True)),
            "compression": old.compression,
            "compression_opts": old.compression_opts,
            "shuffle": old.shuffle,
            "fletcher32": old.fletcher32,
            "maxshape": tuple(
                None if limit is None else n for limit, n in zip(old.maxshape, shape, strict=True)
            ),
        }
        if 0 in shape:
            kept = {}
    new = parent.create_dataset(name, shape=tuple(shape), dtype=old.dtype, **kept)
    copy_attributes(old, new)
    at = 0
    step = max(1, _BLOCK // max(1, old.dtype.itemsize * (old.size // max(1, old.shape[axis]))))
    lead = (slice(None),) * axis
    for start, stop in rows:
        for first in range(start, stop, step):
            last = min(first + step, stop)
            new[(*lead, slice(at, at + last - first))] = old[(*lead, slice(first, last))]
            at += last - first


def copy_tree(
    old: Any, new: Any, rows_of: Callable[[str, Any], tuple[Rows | None, int]], at: str = ""
) -> None:
    """Everything below a group; `rows_of(path, data set)` says which rows of it, and the axis.

    Links stay links where they point within the file.
    """
    copy_attributes(old, new)
    for name in old:
        link = old.get(name, getlink=True)
        where = f"{at}/{name}" if at else name
        if isinstance(link, h5py.SoftLink | h5py.ExternalLink):
            new[name] = link
            continue
        item = old[name]
        if isinstance(item, h5py.Group):
            copy_tree(item, new.create_group(name, track_order=_ordered(item)), rows_of, where)
        else:
            rows, axis = rows_of(where, item)
            copy_cut(item, new, name, rows, axis)


def _ordered(group: Any) -> bool:
    """Whether a group remembers the order in which things were put into it."""
    return bool(group.id.get_create_plist().get_link_creation_order())


def put(group: Any, name: str, values: Array) -> None:
    """A data set of these values, whatever was there under this name."""
    if name in group:
        del group[name]
    group.create_dataset(name, data=values)
