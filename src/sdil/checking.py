"""Whether episodes, and what a policy is to act on, fit their spaces.

Shapes, number types and every value are looked at; a refusal names episode and step, or row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.observations import (
    PartError,
    find_unseen,
    is_packed,
    observation_shape,
    observation_type,
    pack_observations,
    unpack_observations,
)
from sdil.spaces import Array, Spaces, cast_fault, element_shape, element_type, find_fault
from sdil.trajectories import Trajectories, Trajectory


def check_values(trajectories: Trajectories, spaces: Spaces, name: str) -> None:
    """Raise where a value is not finite or lies outside its space, naming episode and step."""
    if _all_good(trajectories, spaces):
        return
    for trajectory in trajectories:
        seen = find_unseen(trajectory.observations, spaces.observation)
        _raise_at(seen, name, trajectory, "observations")
        done = find_fault(trajectory.actions, spaces.action)
        _raise_at(done, name, trajectory, "actions")
        if trajectory.rewards is not None and not np.isfinite(trajectory.rewards).all():
            step = int(np.argmin(np.isfinite(trajectory.rewards)))
            raise InputError(
                f"{name} set, episode {trajectory.id!r}, step {step}: "
                f"reward is {trajectory.rewards[step]}; "
                "give finite rewards, or None for the whole episode"
            )


def _all_good(trajectories: Trajectories, spaces: Spaces) -> bool:
    """Whether all values are good at once, where hardly any others lie beside them."""
    if len(trajectories.actions) > 2 * trajectories.n_steps:
        return False
    known = trajectories.rewards[trajectories.steps()]
    finite = np.isfinite(known) | ~np.repeat(trajectories.has_rewards, trajectories.lengths)
    seen = trajectories.observations
    in_file = trajectories.digests is not None  # whose values were checked when it was written
    return bool(
        finite.all()
        and (in_file or find_unseen(seen, spaces.observation) is None)
        and find_fault(trajectories.actions, spaces.action) is None
    )


def check_fits(trajectory: Trajectory, spaces: Spaces, name: str) -> None:
    """Shapes and number types, before anything is copied into the spaces' own types."""
    seen, done = spaces.observation, spaces.action
    for label, array, space, shape, kept in (
        (
            "observations",
            trajectory.observations,
            seen,
            observation_shape(seen),
            observation_type(seen),
        ),
        ("actions", trajectory.actions, done, element_shape(done), element_type(done)),
    ):
        if array.shape[1:] != shape:
            raise InputError(
                f"{name} set, episode {trajectory.id!r}: {label} have shape {array.shape[1:]} per "
                f"step, but the space is {space}; clean and noisy episodes must come from the same "
                "spaces"
            )
        if array.dtype == kept:
            continue
        if label == "observations" and is_packed(seen):
            raise InputError(
                f"{name} set, episode {trajectory.id!r}: packed observations are bytes, not "
                f"{array.dtype}; sdil.pack_observations makes them"
            )
        _raise_at(cast_fault(array, space), name, trajectory, label)


def packed(trajectory: Trajectory, spaces: Spaces, name: str) -> Trajectory:
    """The same episode, its observations packed where the space is a `Dict`."""
    given, space = trajectory.observations, spaces.observation
    if given.dtype.names is None:
        return trajectory
    where = f"{name} set, episode {trajectory.id!r}"
    if not is_packed(space):
        raise InputError(
            f"{where}: observations are dictionaries, but the space is {space}; clean and noisy "
            "episodes must come from the same spaces"
        )
    try:
        rows = pack_observations(space, given)
    except PartError as fault:
        raise InputError(f"{where}, step {fault.row}: observation{fault.what}") from None
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return replace(trajectory, observations=rows)


def batch_of(space: gym.Space[Any], observation: Any) -> tuple[Array, bool]:
    """Observations that a policy is to act on, as they are kept, and whether it is one alone.

    (n, *kept), with n = 1 for one alone.
    """
    shape = observation_shape(space)
    kept = observation_type(space)
    given = batch = pack_observations(space, observation)
    if given.dtype.kind not in "biuf":
        raise InputError(f"observations are numbers, not {given.dtype}")
    if given.dtype != kept:
        with np.errstate(over="ignore", invalid="ignore"):  # refused below, by name
            batch = given.astype(kept)
    single = batch.shape == shape
    if single:
        batch = batch[None]
    if batch.shape[1:] != shape:
        raise InputError(
            f"this policy expects observations of shape {shape} or (n, *{shape}), not {given.shape}"
        )
    _check_batch(space, batch, given.reshape(batch.shape))
    return batch, single


def _check_batch(space: gym.Space[Any], batch: Array, given: Array) -> None:
    """Refuse observations (n, *kept) that are not finite, or that bytes do not hold as they were
    `given`: pictures from 0 to 1 would be black."""
    if batch.dtype.kind == "f":
        _check_finite(batch)
    elif isinstance(space, gym.spaces.Dict):
        for name, part in unpack_observations(space, batch).items():
            _check_finite(part, f"part {name!r}, ")
    elif given.dtype != batch.dtype:
        _check_finite(given)
        lost = np.argwhere(batch != given)
        if len(lost):
            at = tuple(int(j) for j in lost[0])
            raise InputError(
                f"the observation of episode {at[0]} (row {at[0]} of {len(batch)}): element "
                f"{at[1:]} is {given[at]}, but this policy learned from {batch.dtype}, "
                "pictures from 0 to 255; give them so"
            )


def _check_finite(batch: Array, where: str = "") -> None:
    if batch.dtype.kind == "f" and not np.isfinite(batch).all():
        row, *element = (int(j) for j in np.argwhere(~np.isfinite(batch))[0])
        raise InputError(
            f"the observation of episode {row} (row {row} of {len(batch)}): {where}element "
            f"{tuple(element)} is {batch[(row, *element)]}; give finite numbers"
        )


def _raise_at(
    fault: tuple[tuple[int, ...], str] | None, name: str, trajectory: Trajectory, label: str
) -> None:
    if fault is not None:
        (step, *_), what = fault
        field = label.removesuffix("s")
        raise InputError(f"{name} set, episode {trajectory.id!r}, step {step}: {field}{what}")
