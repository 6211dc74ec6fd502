"""What the steps of an episode must be to become demonstrations: as many of each, and finite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from sdil.errors import InputError
from sdil.formats.picking import Picked
from sdil.formats.source import Recorded
from sdil.spaces import Array

_Sums = TypeVar("_Sums")  # of an episode, or of each of a run


def check_lengths(
    recorded: Recorded, observation: Picked, action: Picked, where: str
) -> tuple[int, int]:
    """How many actions and observations an episode has; every feature agrees."""
    given = recorded.values
    for name, shape in (*observation.shapes.items(), *action.shapes.items()):
        values = given.get(name)
        if values is None:
            raise InputError(f"{where}: {name} is missing")
        if values.dtype.kind not in "biuf":
            raise InputError(f"{where}: {name} holds {values.dtype}, not numbers")
        if values.shape[1:] != shape:
            raise InputError(
                f"{where}: {name} has shape {values.shape[1:]} per step, but {shape} elsewhere in "
                "the data set"
            )
    steps = [len(given[n]) for n in action.features]
    count = min(steps)
    if max(steps) > count:
        told = ", ".join(f"{n} {len(given[n])}" for n in action.features)
        raise InputError(f"{where}: actions differ in length: {told}")
    if not count:
        raise InputError(f"{where} is empty: it needs at least one action")
    rows = [(n, len(given[n])) for n in observation.features]  # an action may be one of them
    for name, length in rows:
        if length not in (count, count + 1):
            raise InputError(f"{where}: {name} has {length} rows for {count} actions")
    return count, min((length for _, length in rows), default=count)


def check_finite(values: Array, picked: Picked, recorded: Recorded, steps: int, where: str) -> None:
    """Refuse a number that is none, and say where it stands."""
    if np.isfinite(values).all():
        return
    row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
    frame = int(frames_of(recorded, steps)[row]) if row < steps else "after the last"
    raise InputError(
        f"{where}, row {frame}, {picked.names[column]}: {values[row, column]} is not a finite "
        "number; leave the episode or the feature out, or mend the data"
    )


def frames_of(recorded: Recorded, steps: int) -> Array:
    """The source's own number of each step; 0, 1, ... where it has none. (T,)"""
    return np.arange(steps) if recorded.frames is None else np.asarray(recorded.frames)


def rewards_of(recorded: Recorded, steps: int, where: str) -> Array | None:
    """What each step was paid, where that is known."""
    if recorded.rewards is None:
        return None
    rewards = np.asarray(recorded.rewards, np.float64).reshape(-1)
    if len(rewards) != steps:
        raise InputError(f"{where}: {len(rewards)} rewards for {steps} actions")
    if not np.isfinite(rewards).all():
        at = int(np.argmin(np.isfinite(rewards)))
        raise InputError(
            f"{where}, row {int(frames_of(recorded, steps)[at])}: the reward is {rewards[at]}, "
            "not a finite number"
        )
    return rewards


def known_sums(
    laid: Array, picked: Picked, given: Mapping[str, Array], sums: Mapping[str, _Sums]
) -> _Sums | None:
    """The checksums of what was picked that the source knows, where it is its own bytes."""
    if not sums or len(picked.parts) != 1:
        return None
    (name,) = picked.features
    own = laid.size == given[name].size and np.may_share_memory(laid, given[name])
    return sums.get(name) if own else None
