"""The Gymnasium spaces of a data set: shapes, limits, and how they are written down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sdil.errors import InputError

Array = NDArray[Any]

_ROWS_AT_ONCE = 65_536  # values are checked in blocks, so that checking never doubles the memory


@dataclass(frozen=True)
class Spaces:
    """The Gymnasium spaces that every observation and action of a data set lies in."""

    observation: gym.Space[Any]
    action: gym.Space[Any]

    def to_json(self) -> dict[str, Any]:
        return {
            "observation": _space_to_json(self.observation),
            "action": _space_to_json(self.action),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Spaces:
        return Spaces(
            _space_from_json(value["observation"]),
            _space_from_json(value["action"]),
        )


def infer_spaces(observations: Sequence[Array], actions: Sequence[Array]) -> Spaces:
    """The widest spaces that these arrays, one of each per episode, fit in."""
    number = observations[0].dtype
    shape = observations[0].shape[1:]
    observation: gym.Space[Any]
    if number == np.uint8:
        observation = gym.spaces.Box(0, 255, shape, np.uint8)
    else:
        number = number if number.kind == "f" else np.dtype(np.float32)
        observation = gym.spaces.Box(-np.inf, np.inf, shape, number.type)
    if actions[0].dtype.kind in "iub" and actions[0].ndim == 1:
        top = max(int(a.max()) for a in actions if a.ndim == 1)
        return Spaces(observation, gym.spaces.Discrete(max(top, 0) + 1))
    return Spaces(observation, gym.spaces.Box(-np.inf, np.inf, actions[0].shape[1:], np.float32))


def element_shape(space: gym.Space[Any]) -> tuple[int, ...]:
    """The shape of one element; spaces other than Box and Discrete are refused here."""
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
        raise InputError(
            f"the space {space} is not supported yet: observations and actions are Box or Discrete "
            "(gymnasium.spaces.flatten turns others into a Box)"
        )
    return space.shape or ()


def find_fault(values: Array, space: gym.Space[Any]) -> tuple[tuple[int, ...], str] | None:
    """Where `values` (N, *element) first leaves the space, and what is wrong there."""
    low, high = _limits(space)
    for begin in range(0, len(values), _ROWS_AT_ONCE):
        block = values[begin : begin + _ROWS_AT_ONCE]
        good = np.isfinite(block) if block.dtype.kind == "f" else np.ones(block.shape, bool)
        if low is not None:
            good &= (block >= low) & (block <= high)
        if not good.all():
            row, *element = (int(j) for j in np.argwhere(~good)[0])
            value = block[(row, *element)]
            at = f" element {tuple(element)}" if element else ""
            what = f"lies outside {space}" if np.isfinite(value) else "is not a finite number"
            return (begin + row, *element), f"{at} = {value} {what}"
    return None


def _limits(space: gym.Space[Any]) -> tuple[Any, Any]:
    """The lowest and highest element, or (None, None) where there is no limit."""
    if isinstance(space, gym.spaces.Discrete):
        return space.start, space.start + space.n - 1
    assert isinstance(space, gym.spaces.Box)
    if not space.bounded_below.any() and not space.bounded_above.any():
        return None, None
    return space.low, space.high


def _space_to_json(space: gym.Space[Any]) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    shape = list(element_shape(space))
    assert isinstance(space, gym.spaces.Box)
    limits = {}
    for name, values in (("low", space.low), ("high", space.high)):
        same = len(np.unique(values)) == 1
        numbers = values.ravel()[:1] if same else values.ravel()
        limits[name] = [str(v.item()) for v in numbers]  # text, since JSON has no infinity
    return {"type": "Box", "shape": shape, "dtype": str(space.dtype), **limits}


def _space_from_json(value: dict[str, Any]) -> gym.Space[Any]:
    if value["type"] == "Discrete":
        return gym.spaces.Discrete(value["n"], start=value["start"])
    dtype, shape = np.dtype(value["dtype"]), tuple(value["shape"])
    parse = float if dtype.kind == "f" else int
    low, high = (
        np.broadcast_to(numbers, shape) if len(numbers) == 1 else numbers.reshape(shape)
        for numbers in (np.array([parse(v) for v in value[k]], dtype) for k in ("low", "high"))
    )
    return gym.spaces.Box(low, high, shape, dtype.type)


def require_vectors_and_discrete_actions(spaces: Spaces, who: str) -> None:
    """Raise where the spaces are not what our networks take."""
    if not isinstance(spaces.action, gym.spaces.Discrete):
        raise InputError(f"{who} needs discrete actions, but the data has {spaces.action}")
    if spaces.action.start != 0:
        raise InputError(f"{who} needs actions that count from 0, but the data has {spaces.action}")
    if not isinstance(spaces.observation, gym.spaces.Box) or len(spaces.observation.shape) != 1:
        raise InputError(
            f"{who} needs vector observations, but the data has {spaces.observation}; "
            "gymnasium.wrappers.FlattenObservation makes them"
        )
