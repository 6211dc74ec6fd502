"""What a demonstrator saw and was paid, as the timeline shows it: features, a place, rewards.

Names come with the demonstrations (`names` in `sdil.json`) or from the task; otherwise features
have numbers. Two features may be a place: the user says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.observations import parts_of, unpack_observations
from sdil.spaces import Array, Spaces

MOST = 24
"""Features that are kept where nobody chooses: a page of all of them would be too large."""


@dataclass(frozen=True, eq=False)
class Names:
    """What the entries of observations and the actions are called."""

    observation: tuple[str, ...] = ()
    action: tuple[str, ...] = ()
    """Of counted actions one each, of real numbers one per entry."""


@dataclass(frozen=True, eq=False)
class Seen:
    """For every step, clean ones first."""

    names: list[str]
    features: Array | None
    """(N, F)"""
    rewards: Array | None
    """NaN where not known. (N,)"""
    place: Array | None
    """(N, 2)"""
    place_names: list[str]


def names_of(about: Mapping[str, Any], spaces: Spaces) -> Names:
    """What `sdil.json` calls them, or the task; whatever does not fit the spaces is left out."""
    told = about.get("names") or {}
    observation = [str(name) for name in told.get("observation", ())]
    action = [str(name) for name in told.get("action", ())]
    if about.get("task") == "mimic" and not action:
        from sdil.tasks.mimic.preparation import action_names, observation_names

        observation, action = observation or observation_names(), action_names()
    entries = len(_column_names(spaces.observation))
    space = spaces.action
    n = int(space.n) if isinstance(space, gym.spaces.Discrete) else int(np.prod(space.shape or ()))
    return Names(
        tuple(observation) if len(observation) == entries else (),
        tuple(action) if len(action) == n else (),
    )


def what_was_seen(
    demos: Demonstrations,
    names: Names,
    *,
    show: Sequence[str] = (),
    place: Sequence[str] = (),
    drawn: bool = False,
) -> Seen:
    """`show` are the features to keep, by name or number; by default the first that vary, and none
    where they have no names, are many and the task is `drawn` anyway. `place` are two of them."""
    everything = demos.all
    rows = everything.rows()
    flat = _numbers(everything.observations, demos.spaces.observation)
    called = list(names.observation) or _column_names(demos.spaces.observation)
    chosen: list[int] = [_find(name, called) for name in show]
    if not chosen and called and (names.observation or not drawn or len(called) <= MOST):
        varies = np.flatnonzero(flat.max(0) > flat.min(0))
        chosen = varies[:MOST].tolist()
    at = [_find(name, called) for name in place]
    if len(at) not in (0, 2):
        raise InputError(f"a place is two features, not {len(at)}")
    rewards = everything.rewards[everything.steps()]
    return Seen(
        names=[called[i] for i in chosen],
        features=flat[rows][:, chosen].astype(np.float32) if chosen else None,
        rewards=None if np.isnan(rewards).all() else rewards.astype(np.float32),
        place=flat[rows][:, at].astype(np.float32) if at else None,
        place_names=[called[i] for i in at],
    )


def _numbers(observations: Array, space: gym.Space[Any]) -> Array:
    """Observations without their pictures, as rows of numbers. (n, columns)"""
    found = unpack_observations(space, observations)
    parts = [found[part.name] for part in parts_of(space) if not part.is_image]
    flat = [part.reshape(len(part), -1) for part in parts]
    if len(flat) == 1:
        return flat[0]
    return np.concatenate([np.empty((len(observations), 0), np.float32), *flat], 1)


def _column_names(space: gym.Space[Any]) -> list[str]:
    """What the columns of `_numbers` are called where nobody says."""
    return [
        f"{part.name or 'feature'} {i}"
        for part in parts_of(space)
        if not part.is_image
        for i in range(prod(part.shape))
    ]


def _find(name: str, called: Sequence[str]) -> int:
    if name in called:
        return called.index(name)
    if name.isdigit() and int(name) < len(called):
        return int(name)
    if not called:
        raise InputError(f"no feature is called {name!r}: observations are pictures alone")
    some = ", ".join(called[:8]) + (", ..." if len(called) > 8 else "")
    raise InputError(f"no feature is called {name!r}; there are {some} (or give its number)")
