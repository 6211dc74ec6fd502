"""The Gymnasium spaces of a data set: shapes, limits, and how they are written down."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from sdil.errors import InputError
from sdil.nested import counted_columns, has_parts, leaves_of, limits_of, row_space

Array = NDArray[Any]

_ROWS_AT_ONCE = 65_536  # values are checked in blocks, so that checking never doubles the memory
_LARGEST_ELEMENT = 2**26  # numbers in one observation or action; a file may not ask for more
_MOST_COUNTED = 2**31  # actions in a column of floats; larger ones are measured, not counted


@dataclass(frozen=True)
class Spaces:
    """The Gymnasium spaces that every observation and action of a data set lies in."""

    observation: gym.Space[Any]
    action: gym.Space[Any]

    @property
    def listed(self) -> int:
        """How many actions there are, where they can be listed and each has its probability."""
        return int(self.action.n) if isinstance(self.action, gym.spaces.Discrete) else 0

    def __str__(self) -> str:
        return " ".join(f"observations {self.observation}, actions {self.action}".split())

    def to_json(self) -> dict[str, Any]:
        return {
            "observation": _space_to_json(self.observation),
            "action": _space_to_json(self.action),
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> Spaces:
        """The inverse of `to_json`; InputError where something is missing or wrong."""
        if not isinstance(value, dict):
            raise InputError("the spaces are not an object with `observation` and `action`")
        made = []
        for name in ("observation", "action"):
            try:
                made.append(_space_from_json(value[name]))
            except KeyError as error:
                raise InputError(f"the {name} space: {error} is missing") from None
            except Exception as error:  # Gymnasium and NumPy each have their own
                raise InputError(f"the {name} space: {error}") from None
        return Spaces(*made)


def infer_spaces(observations: Sequence[Array], actions: Sequence[Array]) -> Spaces:
    """The widest spaces that these arrays, one of each per episode, fit in; precision is kept.

    A column of whole numbers from 0 is a column of Discrete actions, whatever its number type.
    """
    return Spaces(infer_box(observations), infer_action(actions))


def infer_box(arrays: Sequence[Array]) -> gym.spaces.Box:
    """The widest `Box` that these arrays (N, *element) fit in: of bytes, or of unbounded floats."""
    if arrays[0].dtype == np.uint8 and not any(_floating(a) for a in arrays):
        return gym.spaces.Box(0, 255, arrays[0].shape[1:], np.uint8)
    return _unbounded(arrays)


def infer_action(actions: Sequence[Array]) -> gym.Space[Any]:
    """The space of these columns or rows of actions."""
    return _discrete(actions) or _unbounded(actions)


def _discrete(actions: Sequence[Array]) -> gym.spaces.Discrete | None:
    """Discrete(largest + 1) where these are columns of counted actions."""
    columns = [a for a in actions if a.ndim == 1]
    if actions[0].ndim != 1 or (_floating(actions[0]) and not all(map(_counts, columns))):
        return None
    top = max(max(a.max(), 0) for a in columns)
    if top >= np.iinfo(np.int64).max:
        raise InputError(f"an action is {top}: number the actions from 0")
    return gym.spaces.Discrete(int(top) + 1)


def _counts(column: Array) -> bool:
    """Are these whole numbers from 0 (and not so many that they must be measurements)?"""
    within = (column >= 0) & (column < _MOST_COUNTED)
    return bool((within & (column == np.floor(column))).all())


def _unbounded(arrays: Sequence[Array]) -> gym.spaces.Box:
    """A Box of the narrowest float type, from float32 on for integers, that keeps all of them."""
    floats = [a.dtype for a in arrays if _floating(a)]
    number = np.result_type(*floats) if floats else np.dtype(np.float32)
    if number.itemsize > 8 or any(find_loss(a, number) for a in arrays):
        number = np.dtype(np.float64)
    return gym.spaces.Box(-np.inf, np.inf, arrays[0].shape[1:], number.type)


def _floating(array: Array) -> bool:
    return array.dtype.kind == "f"


def element_shape(space: gym.Space[Any]) -> tuple[int, ...]:
    """The shape in which one element is kept; what no data set can keep is refused here."""
    return _kept(space).shape or ()


def element_type(space: gym.Space[Any]) -> np.dtype[Any]:
    """The number type in which its elements are kept."""
    number = _kept(space).dtype
    assert number is not None
    return number


def stored_space(space: gym.Space[Any]) -> gym.Space[Any]:
    """The space of the arrays in which its elements are kept: of a `Dict` or `Tuple` its rows."""
    return row_space(space) if has_parts(space) else space


def _kept(space: gym.Space[Any]) -> gym.Space[Any]:
    leaves_of(space)  # refuses what is none of ours
    return stored_space(space)


def find_fault(values: Array, space: gym.Space[Any]) -> tuple[tuple[int, ...], str] | None:
    """Where `values` (N, *element) first leaves the space, and what is wrong there."""
    if _holds_every_byte(values, space):
        return None
    low, high = _limits(stored_space(space))
    counted = np.flatnonzero(counted_columns(space)) if has_parts(space) else None
    for begin in range(0, len(values), _ROWS_AT_ONCE):
        block = values[begin : begin + _ROWS_AT_ONCE]
        good = np.isfinite(block) if block.dtype.kind == "f" else np.ones(block.shape, bool)
        if low is not None:
            good &= (block >= low) & (block <= high)
        if counted is not None:
            good[:, counted] &= block[:, counted] == np.floor(block[:, counted])
        if not good.all():
            row, *element = (int(j) for j in np.argwhere(~good)[0])
            value = block[(row, *element)]
            at = f" element {tuple(element)}" if element else ""
            what = f"lies outside {space}" if np.isfinite(value) else "is not a finite number"
            return (begin + row, *element), f"{at} = {value} {what}"
    return None


def _holds_every_byte(values: Array, space: gym.Space[Any]) -> bool:
    """Pictures: whatever the bytes are, they lie in the space."""
    return (
        isinstance(space, gym.spaces.Box)
        and values.dtype == space.dtype == np.uint8
        and bool((space.low == 0).all() and (space.high == 255).all())
    )


def cast_fault(values: Array, space: gym.Space[Any]) -> tuple[tuple[int, ...], str] | None:
    """Where the space's own number type cannot keep `values` (N, *element), and what is wrong."""
    kept = element_type(space)
    if kept.kind == "f":
        return find_loss(values, kept)
    if values.dtype.kind == "f":
        wrong = np.argwhere(values != np.floor(values))
        if len(wrong):
            row, *element = (int(j) for j in wrong[0])
            what = f" {values[(row, *element)]} is not a whole number, but the space is {space}"
            return (row, *element), what
    return find_fault(values, space)  # before a narrower type wraps it round


def find_loss(values: Array, number: np.dtype[Any]) -> tuple[tuple[int, ...], str] | None:
    """Where the float type `number` cannot keep `values` (N, *element), and what is wrong there.

    Whole numbers must stay what they are: integers, and floats whose element is whole at all N
    (beyond 2^53 they are measurements). Other floats may be rounded, but not to infinity.
    """
    exact = 2 ** (np.finfo(number).nmant + 1)  # up to here every whole number has its float
    if not values.size or values.dtype.kind == "b":
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if values.dtype.kind in "iu":
            if -exact <= values.min() and values.max() <= exact:
                return None
            kept = values.astype(number)
            beyond = 2.0 ** (8 * values.itemsize - (values.dtype.kind == "i"))
            lost = (kept >= beyond) | (kept.astype(values.dtype) != values)
        else:
            if np.can_cast(values.dtype, number):
                return None
            kept = values.astype(number)
            whole = ((values == np.rint(values)) & (np.abs(values) <= 2.0**53)).all(0)
            lost = ((kept != values) & whole) | (np.isinf(kept) & np.isfinite(values))
    if not lost.any():
        return None
    row, *element = (int(j) for j in np.argwhere(lost)[0])
    at = f" element {tuple(element)}" if element else ""
    wider = "np.int64" if number == np.float64 else "np.float64"
    return (row, *element), (
        f"{at} = {values[(row, *element)]} cannot be kept in {number}; "
        f"give spaces with a Box of dtype {wider}"
    )


def _limits(space: gym.Space[Any]) -> tuple[Any, Any]:
    """The lowest and highest element, or (None, None) where there is no limit."""
    if not isinstance(space, gym.spaces.Box):
        return limits_of(space)
    unbounded = not space.bounded_below.any() and not space.bounded_above.any()
    if unbounded and space.dtype.kind == "f":  # whole numbers have the limits of their type
        return None, None
    return space.low, space.high


def _space_to_json(space: gym.Space[Any]) -> dict[str, Any]:
    if isinstance(space, gym.spaces.Discrete):
        narrow = {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start), **narrow}
    if isinstance(space, gym.spaces.MultiDiscrete):
        return {
            "type": "MultiDiscrete",
            "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
            "dtype": str(space.dtype),
        }
    if isinstance(space, gym.spaces.MultiBinary):
        return {"type": "MultiBinary", "shape": list(space.shape)}
    if isinstance(space, gym.spaces.Dict):  # a list: the order of its columns is that of its keys
        parts = [[key, _space_to_json(part)] for key, part in space.spaces.items()]
        return {"type": "Dict", "parts": parts}
    if isinstance(space, gym.spaces.Tuple):
        return {"type": "Tuple", "parts": [_space_to_json(part) for part in space.spaces]}
    shape = list(element_shape(space))
    assert isinstance(space, gym.spaces.Box)
    limits = {}
    for name, values in (("low", space.low), ("high", space.high)):
        same = len(np.unique(values)) == 1
        numbers = values.ravel()[:1] if same else values.ravel()
        limits[name] = [str(v.item()) for v in numbers]  # text, since JSON has no infinity
    return {"type": "Box", "shape": shape, "dtype": str(space.dtype), **limits}


def _space_from_json(value: dict[str, Any]) -> gym.Space[Any]:
    """The inverse; KeyError, TypeError, ValueError or Gymnasium's own where something is wrong."""
    if not isinstance(value, dict):
        raise InputError("it is not an object")
    if value["type"] == "Discrete":
        number = np.dtype(value.get("dtype", "int64")).type
        n, start = (_whole(value[key], key) for key in ("n", "start"))
        return gym.spaces.Discrete(n, start=start, dtype=number)
    if value["type"] in ("MultiDiscrete", "MultiBinary", "Dict", "Tuple"):
        return _of_parts_from_json(value)
    if value["type"] != "Box" or not isinstance(value["shape"], list):
        raise InputError("its `type` is unknown, or its `shape` is no list")
    dtype, shape = np.dtype(value["dtype"]), tuple(_whole(n, "shape") for n in value["shape"])
    if not all(n >= 0 for n in shape) or prod(shape) > _LARGEST_ELEMENT:
        raise InputError(f"its `shape` {shape} is negative or too large")
    low, high = (_limit_from_json(value[key], shape, dtype) for key in ("low", "high"))
    if (low > high).any():
        raise InputError("a `low` lies above its `high`")
    return gym.spaces.Box(low, high, shape, dtype.type)


def _of_parts_from_json(value: dict[str, Any]) -> gym.Space[Any]:
    if value["type"] == "MultiDiscrete":
        number = np.dtype(value["dtype"]).type
        counts, start = (np.array(value[key], np.int64) for key in ("nvec", "start"))
        if counts.size > _LARGEST_ELEMENT or (counts < 1).any():
            raise InputError("its `nvec` is not a list of numbers from 1")
        return gym.spaces.MultiDiscrete(counts, dtype=number, start=start)
    if value["type"] == "MultiBinary":
        shape = [_whole(n, "shape") for n in value["shape"]]
        if not all(n > 0 for n in shape) or prod(shape) > _LARGEST_ELEMENT:
            raise InputError(f"its `shape` {shape} is negative or too large")
        return gym.spaces.MultiBinary(shape[0] if len(shape) == 1 else shape)
    parts = value["parts"]
    if not isinstance(parts, list):
        raise InputError("its `parts` are no list")
    if value["type"] == "Tuple":
        return gym.spaces.Tuple([_space_from_json(part) for part in parts])
    return gym.spaces.Dict(OrderedDict((str(key), _space_from_json(part)) for key, part in parts))


def _limit_from_json(texts: list[str], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise InputError("`low` and `high` are not lists of numbers written as text")
    if dtype.kind == "b":
        numbers = np.array([text == "True" for text in texts])
    else:
        numbers = np.array([(float if dtype.kind == "f" else int)(text) for text in texts], dtype)
    if (numbers != numbers).any():
        raise InputError("a `low` or `high` is not a number")
    return np.full(shape, numbers[0]) if len(numbers) == 1 else numbers.reshape(shape)


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"`{name}` is not a whole number")
    return value


def require_vectors(spaces: Spaces, who: str) -> None:
    """Raise where the spaces are not what our networks take."""
    require_known_actions(spaces, who)
    if not isinstance(spaces.observation, gym.spaces.Box) or len(spaces.observation.shape) != 1:
        raise InputError(
            f"{who} needs vector observations, but the data has {spaces.observation}; "
            "gymnasium.wrappers.FlattenObservation makes them"
        )


def require_columns(action: gym.Space[Any]) -> None:
    """Raise where an action is a real number that is no column."""
    if isinstance(action, gym.spaces.Box) and not action.shape and action.dtype.kind == "f":
        raise InputError(
            "actions of shape (T,) are counted ones, whole numbers from 0, but the data has "
            f"{action}; give real ones as (T, 1), such as actions[:, None], in a Box of shape (1,)"
        )


def require_known_actions(spaces: Spaces, who: str) -> None:
    """Raise where no head of ours is for these actions."""
    action = spaces.action
    require_columns(action)
    if isinstance(action, gym.spaces.Discrete) and action.start != 0:
        raise InputError(f"{who} needs actions that count from 0, but the data has {action}")
    boxes = [leaf.space for leaf in leaves_of(action) if isinstance(leaf.space, gym.spaces.Box)]
    if any(box.dtype.kind != "f" for box in boxes):
        raise InputError(f"{who} needs actions that are counted or real, but the data has {action}")


def require_vectors_and_discrete_actions(spaces: Spaces, who: str) -> None:
    """The same for those who need a list of actions."""
    if not isinstance(spaces.action, gym.spaces.Discrete):
        raise InputError(f"{who} needs discrete actions, but the data has {spaces.action}")
    require_vectors(spaces, who)
