"""Actions of several parts (`Dict`, `Tuple`) as rows of numbers, and back.

A data set keeps each such action as one row: the parts one after the other in the space's order
(Gymnasium sorts the keys of a `Dict`), a `Discrete` or `MultiDiscrete` entry as its number, a `Box`
flattened. The space itself is kept, with its names, so that a policy answers in the space's own
form. `MultiDiscrete` and `MultiBinary` alone are arrays already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sdil.errors import InputError

Array = NDArray[Any]

_EXACT = 2**24  # up to here every whole number has its own single-precision float
_LEAVES = (
    gym.spaces.Box,
    gym.spaces.Discrete,
    gym.spaces.MultiDiscrete,
    gym.spaces.MultiBinary,
)


@dataclass(frozen=True)
class Leaf:
    """A part of an action that is an array or a number."""

    name: str
    """Its keys and positions: "arm", "hand.grip", "0.1"; empty where the space has no parts."""
    space: gym.Space[Any]
    first: int
    """The column of the row where it begins."""

    @property
    def width(self) -> int:
        """Columns that it takes."""
        return int(np.prod(self.space.shape or (), dtype=np.int64))

    @property
    def columns(self) -> slice:
        return slice(self.first, self.first + self.width)


def has_parts(space: gym.Space[Any]) -> bool:
    """Whether its elements are not arrays, but dictionaries or tuples of them."""
    return isinstance(space, gym.spaces.Dict | gym.spaces.Tuple)


def leaves_of(space: gym.Space[Any]) -> tuple[Leaf, ...]:
    """The parts in the order of their columns; InputError where one is neither Box nor counted."""
    found: list[Leaf] = []
    _walk(space, "", found)
    if not found:
        raise InputError(f"the space {space} has no parts")
    return tuple(found)


def _walk(space: gym.Space[Any], name: str, found: list[Leaf]) -> None:
    if isinstance(space, gym.spaces.Dict):
        parts = [(str(key), part) for key, part in space.spaces.items()]
    elif isinstance(space, gym.spaces.Tuple):
        parts = [(str(i), part) for i, part in enumerate(space.spaces)]
    elif isinstance(space, _LEAVES):
        found.append(Leaf(name, space, found[-1].columns.stop if found else 0))
        return
    else:
        raise InputError(
            f"the space {space} is not supported: actions are Box, Discrete, MultiDiscrete or "
            "MultiBinary, or a Dict or Tuple of these"
        )
    for key, part in parts:
        _walk(part, f"{name}.{key}" if name else key, found)


def column_names(space: gym.Space[Any]) -> list[str]:
    """What each number of an action is called: "arm[0]", "arm[1]", "grip"; of one array "[0]"."""
    return [
        f"{leaf.name}[{', '.join(map(str, index))}]" if index else leaf.name
        for leaf in leaves_of(space)
        for index in np.ndindex(*(leaf.space.shape or ()))
    ]


def counted_columns(space: gym.Space[Any]) -> Array:
    """Which of its columns hold whole numbers that are counted, not measured. (columns,)"""
    leaves = leaves_of(space)
    counted = [not isinstance(leaf.space, gym.spaces.Box) for leaf in leaves]
    return np.repeat(counted, [leaf.width for leaf in leaves])


def limits_of(space: gym.Space[Any]) -> tuple[Array, Array]:
    """The lowest and the highest of an array space, shaped like its elements."""
    if isinstance(space, gym.spaces.Discrete):
        return np.asarray(space.start), np.asarray(space.start + space.n - 1)
    if isinstance(space, gym.spaces.MultiDiscrete):
        return space.start, space.start + space.nvec - 1
    if isinstance(space, gym.spaces.MultiBinary):
        return np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
    assert isinstance(space, gym.spaces.Box)
    return space.low, space.high


def row_space(space: gym.Space[Any]) -> gym.spaces.Box:
    """The `Box` in which the rows of a `Dict` or `Tuple` lie: of single precision where that keeps
    every part."""
    leaves = leaves_of(space)
    limits = [limits_of(leaf.space) for leaf in leaves]
    low, high = (np.concatenate([np.ravel(pair[i]) for pair in limits]) for i in (0, 1))
    wide = any(
        leaf.space.dtype == np.float64
        if leaf.space.dtype is not None and leaf.space.dtype.kind == "f"
        else max(abs(float(lo.min())), abs(float(hi.max()))) > _EXACT
        for leaf, (lo, hi) in zip(leaves, (map(np.atleast_1d, p) for p in limits), strict=True)
    )
    number = np.float64 if wide else np.float32
    return gym.spaces.Box(low.astype(number), high.astype(number), low.shape, number)


def flatten_actions(space: gym.Space[Any], actions: Any) -> Array:
    """The rows (T, columns) of T actions of a `Dict` or `Tuple`: a list of them, or one dictionary
    or tuple whose parts have a leading time axis. What `Trajectory(actions=...)` takes."""
    if not has_parts(space):
        return np.asarray(actions)
    if isinstance(actions, Sequence) and not (
        isinstance(space, gym.spaces.Tuple) and isinstance(actions, tuple)
    ):
        rows = [_columns(space, _with_time(space, one)) for one in actions]
        return np.concatenate(rows).astype(row_space(space).dtype)
    return _columns(space, actions).astype(row_space(space).dtype)


def _with_time(space: gym.Space[Any], one: Any) -> Any:
    """One action as a record of one step."""
    if isinstance(space, gym.spaces.Dict):
        return {key: _with_time(part, _part(one, key)) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_with_time(part, _part(one, i)) for i, part in enumerate(space.spaces))
    return np.asarray(one)[None]


def _columns(space: gym.Space[Any], record: Any) -> Array:
    """(T, columns) of parts with a leading time axis."""
    if isinstance(space, gym.spaces.Dict):
        parts = [_columns(part, _part(record, key)) for key, part in space.spaces.items()]
    elif isinstance(space, gym.spaces.Tuple):
        parts = [_columns(part, _part(record, i)) for i, part in enumerate(space.spaces)]
    else:
        array = np.asarray(record)
        if array.dtype.kind not in "biuf" or array.shape[1:] != (space.shape or ()):
            raise InputError(
                f"actions of {space} have shape (T, *{space.shape or ()}), not {array.shape}"
            )
        return array.reshape(len(array), -1).astype(np.float64)
    if len({len(part) for part in parts}) > 1:
        raise InputError(f"the parts of actions of {space} have different numbers of steps")
    return np.concatenate(parts, 1)


def _part(record: Any, key: Any) -> Any:
    try:
        return record[key]
    except (KeyError, IndexError, TypeError):
        raise InputError(f"an action has no part {key!r}, which its space has") from None


def shape_actions(space: gym.Space[Any], rows: Array) -> Any:
    """The inverse of `flatten_actions` on rows (..., columns): of the space's own form, each part
    with the leading axes of the rows. Actions that are arrays stay as they are."""
    if not has_parts(space):
        return rows
    leaves = iter(leaves_of(space))

    def build(part: gym.Space[Any]) -> Any:
        if isinstance(part, gym.spaces.Dict):
            return {key: build(inner) for key, inner in part.spaces.items()}
        if isinstance(part, gym.spaces.Tuple):
            return tuple(build(inner) for inner in part.spaces)
        values = rows[..., next(leaves).columns]
        shaped = values.reshape((*rows.shape[:-1], *(part.shape or ()))).astype(part.dtype)
        return shaped[()]  # a single counted part is a number

    return build(space)


def action_of(space: gym.Space[Any], actions: Any, episode: int) -> Any:
    """What one of several episodes does in an environment with this space, of what `predict`
    returned for all: within its limits, which demonstrations may not have told."""
    if isinstance(space, gym.spaces.Dict):
        return {key: action_of(part, actions[key], episode) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        parts = enumerate(space.spaces)
        return tuple(action_of(part, actions[i], episode) for i, part in parts)
    action = actions[episode]
    return np.clip(action, space.low, space.high) if isinstance(space, gym.spaces.Box) else action
