"""Observations: vectors, pictures, and `Dict` observations of several such parts.

A data set keeps a vector or a picture as the array that it is, and a `Dict` observation as one row
of bytes: its parts in the space's order, each at an offset that is a multiple of eight, so that
flat arrays, views, windows, memory maps and checksums are the same for every kind of observation.
Only whoever looks into an observation (an encoder, a page) takes a row apart again.

Actions of several parts are rows of numbers instead (`sdil.nested`): an observation's shape is
`observation_shape`, an action's is `sdil.spaces.element_shape`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sdil.errors import InputError
from sdil.spaces import cast_fault, element_shape, element_type, find_fault, infer_box

if TYPE_CHECKING:
    from torch import Tensor

Array = NDArray[Any]
_ALIGNED = 8  # bytes; every number type may be viewed at such an offset
_SMALLEST_SIDE = 8  # of a picture, in pixels
_FLATTEN = "gymnasium.wrappers.FlattenObservation"


@dataclass(frozen=True)
class Part:
    """A part of an observation that is an array."""

    name: str
    """Its keys with slashes between them: "camera", "robot/state"; "" where there are no parts."""
    space: gym.spaces.Box
    offset: int
    """The byte of a packed row where it begins."""

    @property
    def shape(self) -> tuple[int, ...]:
        return self.space.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.space.dtype)

    @property
    def n_bytes(self) -> int:
        return self.dtype.itemsize * prod(self.shape)

    @property
    def is_image(self) -> bool:
        """A picture: bytes, (H, W), (H, W, C) or (C, H, W)."""
        if self.dtype != np.uint8 or len(self.shape) not in (2, 3):
            return False
        height, width, _ = self.image_shape
        return min(height, width) >= _SMALLEST_SIDE

    @property
    def channels_first(self) -> bool:
        """(C, H, W): the first of three axes is shorter than the last."""
        return len(self.shape) == 3 and self.shape[0] < self.shape[2]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a picture."""
        if len(self.shape) == 2:
            return (*self.shape, 1)
        a, b, c = self.shape
        return (b, c, a) if self.channels_first else (a, b, c)


def parts_of(space: gym.Space[Any]) -> tuple[Part, ...]:
    """The parts of an observation in the order of their bytes; of a plain `Box` itself alone."""
    if isinstance(space, gym.spaces.Box):
        return (Part("", space, 0),)
    found: list[Part] = []
    _walk(space, "", found)
    if not found:
        raise InputError(f"the observation space {space} has no parts")
    if len({part.name for part in found}) < len(found):
        raise InputError(f"two parts of the observation space {space} have the same name")
    return tuple(found)


def _walk(space: gym.Space[Any], name: str, found: list[Part]) -> None:
    if isinstance(space, gym.spaces.Dict):
        for key, part in space.spaces.items():
            _walk(part, f"{name}/{key}" if name else str(key), found)
    elif isinstance(space, gym.spaces.Box) and np.dtype(space.dtype).kind in "biuf":
        end = found[-1].offset + found[-1].n_bytes if found else 0
        found.append(Part(name, space, _rounded(end)))
    else:
        raise InputError(
            f"the observation space {space}{f' of {name!r}' if name else ''} is not supported: "
            f"observations are Box, or a Dict of Box{_instead(space, name)}"
        )


def _instead(space: gym.Space[Any], name: str) -> str:
    """What to do about a space that is not supported, as the end of a sentence."""
    ways = []
    if isinstance(space, gym.spaces.Discrete):
        states = f"states - {space.start}".replace("- -", "+ ") if space.start else "states"
        recorded = f"np.eye({space.n})[{states}]"
        ways.append(f"{_FLATTEN} makes them one-hot, or {recorded} where they are recorded")
    elif space.is_np_flattenable and not isinstance(space, gym.spaces.Box | gym.spaces.Text):
        recorded = "gymnasium.spaces.flatten"
        ways.append(f"{_FLATTEN} makes vectors of them, or {recorded} where they are recorded")
    if name:
        ways.append("gymnasium.wrappers.FilterObservation leaves parts out")
    return f"; {'; '.join(ways)}" if ways else ""


def has_images(space: gym.Space[Any]) -> bool:
    """Whether a part of it is a picture."""
    return isinstance(space, gym.spaces.Box | gym.spaces.Dict) and any(
        part.is_image for part in parts_of(space)
    )


def is_vector(space: gym.Space[Any]) -> bool:
    """Whether observations are plain rows of numbers."""
    return isinstance(space, gym.spaces.Box) and len(space.shape) == 1


def is_packed(space: gym.Space[Any]) -> bool:
    """Whether observations are kept as rows of bytes."""
    return isinstance(space, gym.spaces.Dict)


def has_frames(space: gym.Space[Any]) -> bool:
    """Whether observations are large: pictures, or rows of bytes that may hold some."""
    return is_packed(space) or has_images(space)


def observation_shape(space: gym.Space[Any]) -> tuple[int, ...]:
    """The shape in which one observation is kept: of a `Dict` the bytes of its row."""
    return (packed_type(space).itemsize,) if is_packed(space) else element_shape(space)


def observation_type(space: gym.Space[Any]) -> np.dtype[Any]:
    """The number type in which observations are kept."""
    return np.dtype(np.uint8) if is_packed(space) else element_type(space)


def packed_type(space: gym.Space[Any]) -> np.dtype[Any]:
    """A packed row as a NumPy record: `rows.view(packed_type(space))` has its parts as fields."""
    return _record([(part.name, part.dtype, part.shape) for part in parts_of(space)])


def _record(parts: Sequence[tuple[str, np.dtype[Any], tuple[int, ...]]]) -> np.dtype[Any]:
    offsets, end = [], 0
    for _, number, shape in parts:
        offsets.append(_rounded(end))
        end = offsets[-1] + number.itemsize * prod(shape)
    names, numbers, shapes = zip(*parts, strict=True)
    return np.dtype(
        {
            "names": list(names),
            "formats": [(n, s) for n, s in zip(numbers, shapes, strict=True)],
            "offsets": offsets,
            "itemsize": _rounded(end),
        }
    )


def _rounded(size: int) -> int:
    return size + -size % _ALIGNED


def pack_observations(space: gym.Space[Any], observations: Any) -> Array:
    """Observations of a `Dict` as rows of bytes: (n, n_bytes), or (n_bytes,) of a single one.

    Takes a dictionary whose parts have a leading axis, or one observation, or a list of
    observations; nested as the space is, or with names such as "robot/state". Observations that
    are arrays are returned as they are.
    """
    if not is_packed(space):
        return np.asarray(observations)
    if isinstance(observations, np.ndarray) and observations.dtype.names is not None:
        if observations.dtype == packed_type(space):
            return _as_bytes(observations)
        observations = {name: observations[name] for name in observations.dtype.names}
    if isinstance(observations, Sequence) and not isinstance(observations, str):
        if not observations:
            return np.empty((0, *observation_shape(space)), np.uint8)
        return np.stack([pack_observations(space, one) for one in observations])
    if not isinstance(observations, Mapping):
        given = np.asarray(observations)
        if given.dtype == np.uint8 and given.shape[-1:] == observation_shape(space):
            return given  # packed already
        raise InputError(
            f"observations of {space} are dictionaries, not {type(observations).__name__}"
        )
    found = flatten_parts(observations)
    parts = parts_of(space)
    arrays = [_array_of(part, found) for part in parts]
    unknown = set(found) - {part.name for part in parts}
    if unknown:
        raise InputError(
            f"observations have a part {min(unknown)!r}, which their space has not; it has "
            f"{', '.join(part.name for part in parts)}"
        )
    leading = {a.shape[: a.ndim - len(p.shape)] for a, p in zip(arrays, parts, strict=True)}
    if len(leading) > 1:
        sizes = ", ".join(f"{p.name} {a.shape}" for a, p in zip(arrays, parts, strict=True))
        raise InputError(f"the parts of observations differ in their leading axis: {sizes}")
    rows = np.zeros(leading.pop(), packed_type(space))  # zeros: what lies between parts is kept too
    for part, array in zip(parts, arrays, strict=True):
        rows[part.name] = array
    return _as_bytes(rows)


def _array_of(part: Part, found: Mapping[str, Array]) -> Array:
    """The values of a part, checked: they fit its shape, and its number type keeps them."""
    if part.name not in found:
        raise InputError(
            f"an observation has no part {part.name!r}, which its space has; it has "
            f"{', '.join(found) or 'none'}"
        )
    array = found[part.name]
    axes = array.ndim - len(part.shape)
    if axes not in (0, 1) or array.shape[axes:] != part.shape or array.dtype.kind not in "biuf":
        raise InputError(
            f"part {part.name!r} of observations has shape {array.shape} and type {array.dtype}, "
            f"but its space is {part.space}, so that its shape is {part.shape}, or (n, "
            f"*{part.shape}) of several"
        )
    if array.dtype != part.dtype:
        fault = cast_fault(array if axes else array[None], part.space)
        if fault is not None:
            raise PartError(part.name, fault)
    return array


class PartError(InputError):
    """A value that a part of an observation cannot keep: which, and at which row."""

    def __init__(self, name: str, fault: tuple[tuple[int, ...], str]) -> None:
        (self.row, *_), what = fault
        self.what = f" part {name!r}{what}"
        super().__init__(f"row {self.row}: observation{self.what}")


def flatten_parts(observations: Mapping[Any, Any], name: str = "") -> dict[str, Array]:
    """Nested dictionaries of arrays as one, its names joined with slashes."""
    found: dict[str, Array] = {}
    for key, value in observations.items():
        called = f"{name}/{key}" if name else str(key)
        if isinstance(value, Mapping):
            found |= flatten_parts(value, called)
        else:
            try:
                found[called] = np.asarray(value)
            except ValueError:  # rows of different lengths
                found[called] = np.empty(0, object)
    return found


def _as_bytes(rows: Array) -> Array:
    """(n, n_bytes) of records (n,); a view."""
    return np.atleast_1d(rows).view(np.uint8).reshape(*rows.shape, rows.dtype.itemsize)


def unpack_observations(space: gym.Space[Any], rows: Array) -> dict[str, Array]:
    """The inverse: the parts of rows (..., n_bytes) by their names, each (..., *shape).

    Views, where rows lie whole in memory. Observations that are arrays are the part "".
    """
    if not is_packed(space):
        return {"": rows}
    record = packed_type(space)
    if rows.dtype != np.uint8 or rows.shape[-1:] != (record.itemsize,):
        raise InputError(
            f"packed observations of {space} are bytes (n, {record.itemsize}), not {rows.dtype} "
            f"{rows.shape}"
        )
    if rows.strides[-1] != 1:
        rows = np.ascontiguousarray(rows)
    records = rows.view(record)[..., 0]
    return {part.name: records[part.name] for part in parts_of(space)}


def nest_parts(space: gym.Space[Any], found: Mapping[str, Any], name: str = "") -> Any:
    """Parts by their joined names in the space's own nested form."""
    if not isinstance(space, gym.spaces.Dict):
        return found[name]
    return {
        key: nest_parts(part, found, f"{name}/{key}" if name else str(key))
        for key, part in space.spaces.items()
    }


def part_of(rows: Tensor, part: Part) -> Tensor:
    """A part (..., *shape) of packed rows (..., n_bytes) on any device; a view where it is bytes.

    Of observations without parts (`part.name` is empty) the rows themselves.
    """
    if not part.name:
        return rows
    piece = rows[..., part.offset : part.offset + part.n_bytes]
    if part.dtype != np.uint8:
        piece = piece.contiguous().view(_torch_type(str(part.dtype)))
    return piece.reshape(*rows.shape[:-1], *part.shape)


@lru_cache
def _torch_type(number: str) -> Any:
    import torch

    kind = getattr(torch, number, None)
    if not isinstance(kind, torch.dtype):
        raise InputError(f"PyTorch has no numbers of type {number}")
    return kind


def find_unseen(values: Array, space: gym.Space[Any]) -> tuple[tuple[int, ...], str] | None:
    """Where kept observations (N, *kept) first leave their space, and what is wrong there."""
    if not is_packed(space):
        return find_fault(values, space)
    found = unpack_observations(space, values)
    faults = []
    for part in parts_of(space):
        fault = find_fault(found[part.name], part.space)
        if fault is not None:
            (row, *_), what = fault
            faults.append(((row,), f" part {part.name!r}{what}"))
    return min(faults, default=None)


def infer_observation(observations: Sequence[Array]) -> gym.Space[Any]:
    """The widest space that these arrays, one per episode, fit in; of records a `Dict`."""
    if observations[0].dtype.names is None:
        return infer_box(observations)
    tree: dict[str, Any] = {}
    for name in observations[0].dtype.names:
        arrays = [o[name] for o in observations if name in (o.dtype.names or ())]
        *path, last = name.split("/")
        at = tree
        for key in path:
            at = at.setdefault(key, {})
        at[last] = infer_box(arrays)
    return _dict_of(tree)


def _dict_of(tree: Mapping[str, Any]) -> gym.spaces.Dict:
    return gym.spaces.Dict(
        {key: _dict_of(v) if isinstance(v, Mapping) else v for key, v in tree.items()}
    )


def as_records(observations: Mapping[Any, Any], where: str) -> Array:
    """A dictionary of arrays (T, *shape) as one array (T,) of records, whose fields they are."""
    found = flatten_parts(observations)
    if not found:
        raise InputError(f"{where}: observations have no parts")
    for name, array in found.items():
        if array.dtype.kind not in "biuf" or not array.ndim:
            raise InputError(
                f"{where}: part {name!r} of observations must be a rectangular array of numbers "
                f"with a leading time axis, not {array.dtype} {array.shape}"
            )
    if len({len(array) for array in found.values()}) > 1:
        sizes = ", ".join(f"{name} {len(array)}" for name, array in found.items())
        raise InputError(f"{where}: the parts of observations differ in their steps: {sizes}")
    ordered = sorted(found.items())  # as Gymnasium sorts the keys of a Dict
    rows = np.zeros(
        len(ordered[0][1]), _record([(name, a.dtype, a.shape[1:]) for name, a in ordered])
    )
    for name, array in ordered:
        rows[name] = array
    return rows
