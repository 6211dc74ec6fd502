"""HDF5 files of other people: opened, and read with errors that name file and place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The file, and whatever HDF5 says against it as an InputError."""
    import h5py

    try:
        file = h5py.File(path, "r")
    except Exception as error:  # OSError mostly; a damaged file has others
        raise InputError(
            f"{path}: HDF5 cannot open it ({first_line(error)}); copy it again"
        ) from None
    with file, clear_reading(str(path)):
        yield file


@contextmanager
def clear_reading(where: str) -> Iterator[None]:
    """What a library says against damaged data, in one sentence that names the place."""
    try:
        yield
    except (InputError, KeyboardInterrupt):
        raise
    except Exception as error:  # HDF5 raises OSError, RuntimeError, KeyError, ValueError, ...
        raise InputError(
            f"{where}: damaged or truncated ({type(error).__name__}: {first_line(error)})"
        ) from None


def first_line(error: BaseException) -> str:
    """What an error says, short."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def dataset(group: Any, name: str, where: str) -> Any:
    """A data set of numbers within a group, with a leading axis of time."""
    import h5py

    found = group.get(name)
    if found is None:
        raise InputError(f"{where}: {name} is missing")
    if not isinstance(found, h5py.Dataset):
        raise InputError(f"{where}: {name} is a group, where numbers were expected")
    check_numbers_like(found, f"{where}: {name}")
    return found


def check_numbers_like(array: Any, where: str) -> None:
    """Refuse what is no array of numbers over time (HDF5, Zarr and NumPy alike)."""
    if getattr(array, "shape", None) is None or len(array.shape) < 1:
        raise InputError(f"{where} has no axis of time")
    if array.dtype.kind not in "biuf":
        raise InputError(f"{where} holds {array.dtype}, not numbers")


def leaves(group: Any, prefix: str = "") -> dict[str, Any]:
    """Every data set of numbers below a group, by its path."""
    import h5py

    found: dict[str, Any] = {}
    for name in group:
        child = group.get(name)
        if isinstance(child, h5py.Group):
            found.update(leaves(child, f"{prefix}{name}/"))
        elif isinstance(child, h5py.Dataset) and child.ndim >= 1 and child.dtype.kind in "biuf":
            found[f"{prefix}{name}"] = child
    return found


def plain_attributes(item: Any) -> dict[str, Any]:
    """The attributes of a group or a data set, those that JSON can hold."""
    found: dict[str, Any] = {}
    for name in item.attrs:
        value = item.attrs[name]
        if isinstance(value, bytes):
            value = value.decode("utf-8", "replace")
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, str | int | float | bool):
            found[str(name)] = value
    return found


def looks_like_image(shape: tuple[int, ...]) -> bool:
    """Whether one step of this shape is a picture: height, width, one to four channels last."""
    return (
        len(shape) == 3
        and min(shape) > 0
        and (
            (shape[-1] in (1, 3, 4) and min(shape[:2]) >= 8)
            or (shape[0] in (1, 3, 4) and min(shape[1:]) >= 8)
        )
    )
