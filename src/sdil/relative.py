"""Actions that say where something should be, read as how far it is from there.

A robot is often told positions: an action is where the hand or a joint should be next, and it is
always close to where that is now, which is part of the observation. What a demonstrator decides is
the difference, and next to the range of positions it is small: a clone that is to predict positions
spends itself on copying an input. So entries of an action that follow an entry of the observation
are told as what is left of them, `a - (slope * s + offset)`. Nothing is lost: states are known
wherever actions are told.
"""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories
from sdil.windows import STEPS_AT_ONCE, as_tensor

FOLLOWS = 0.75
"""The least share of the variance of an entry that an observation must tell by a line."""


@dataclass(frozen=True, eq=False)
class Relative:
    """Which entry of the observation each entry of an action follows, and by which line."""

    entry: Array
    """Of the observation; -1 where it follows none. (D,)"""
    slope: Array
    """0 where it follows none. (D,)"""
    offset: Array
    """(D,)"""

    @staticmethod
    def find(trajectories: Trajectories, spaces: Spaces) -> Relative | None:
        """None where no entry follows one; only vectors of real numbers can."""
        action, observation = spaces.action, spaces.observation
        vectors = all(
            isinstance(space, gym.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f"
            for space in (action, observation)
        )
        if not vectors or not len(trajectories):
            return None
        rows, steps = trajectories.rows(), trajectories.steps()
        first = _at(trajectories, rows[:1], steps[:1])[0]  # against cancellation
        n = len(first)
        total, products = np.zeros(n), np.zeros((n, n))
        for begin in range(0, len(rows), STEPS_AT_ONCE):
            part = slice(begin, begin + STEPS_AT_ONCE)
            both = _at(trajectories, rows[part], steps[part]) - first
            total += both.sum(0)
            products += both.T @ both
        mean = total / len(rows)
        shared = products / len(rows) - np.outer(mean, mean)  # covariances
        split = len(first) - trajectories.actions.shape[1]
        told, wide = shared[:split, split:], np.diag(shared).clip(min=0.0)  # (I, D), (I + D,)
        least = 1e-9 * (1 + first**2)
        known = (wide[:split] > least[:split])[:, None] & (wide[split:] > least[split:])
        safe = np.where(known, wide[:split, None] * wide[split:], 1.0)
        share = np.where(known, told**2 / safe, 0.0)  # of the variance that a line tells (I, D)
        entry, at = share.argmax(0), np.arange(share.shape[1])
        follows = (share[entry, at] >= FOLLOWS) & ~_two_valued(trajectories, steps)
        if not follows.any():
            return None
        slope = np.where(follows, told[entry, at] / np.where(follows, wide[entry], 1.0), 0.0)
        centre = mean + first
        offset = np.where(follows, centre[split:] - slope * centre[entry], 0.0)
        return Relative(np.where(follows, entry, -1), slope, offset)

    def of(self, trajectories: Trajectories) -> Tensor:
        """The flat actions of trajectories, told so. (S, D)"""
        actions, states = as_tensor(trajectories.actions), as_tensor(trajectories.observations)
        found = actions.clone()
        rows, steps = (torch.from_numpy(x) for x in (trajectories.rows(), trajectories.steps()))
        for row, step in zip(rows.split(STEPS_AT_ONCE), steps.split(STEPS_AT_ONCE), strict=True):
            apart = actions[step].double() - self.line(states[row])
            found[step] = apart.to(actions.dtype)
        return found

    def line(self, states: Tensor) -> Tensor:
        """What is taken off. (..., I) to (..., D)"""
        entry = torch.from_numpy(self.entry.clip(min=0))
        slope, offset = torch.from_numpy(self.slope), torch.from_numpy(self.offset)
        return states[..., entry].double() * slope + offset

    def tensors(self) -> dict[str, Tensor]:
        return {name: torch.from_numpy(value) for name, value in vars(self).items()}

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Relative:
        return Relative(**{name: value.numpy() for name, value in tensors.items()})


def _at(trajectories: Trajectories, rows: Array, steps: Array) -> Array:
    """States beside actions. (n, I + D)"""
    return np.hstack([trajectories.observations[rows], trajectories.actions[steps]]).astype(float)


def _two_valued(trajectories: Trajectories, steps: Array) -> Array:
    """Entries that take two values: a choice, not a place. (D,)"""
    actions = trajectories.actions[steps]
    return np.asarray(((actions == actions.min(0)) | (actions == actions.max(0))).all(0))
