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
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from sdil.windows import STEPS_AT_ONCE, Windows

FOLLOWS = 0.75
"""The least share of the variance of an entry that an observation must tell by a line."""
_LEAST = 1e-4  # less of an entry's spread than this is rounding


@dataclass(frozen=True, eq=False)
class Relative:
    """Which entry of the observation each of D entries of an action follows, and by which line."""

    entry: Tensor
    """Of the observation, as windows show it; 0 where it follows none. (D,)"""
    slope: Tensor
    """0 where it follows none. (D,)"""
    offset: Tensor
    """(D,)"""
    left: Tensor
    """The standard deviation of what is left, at least `_LEAST` of the entry's own; 0 where it
    follows none. (D,)"""
    exact: Tensor
    """Whether nothing is left but rounding. (D,)"""

    @staticmethod
    def find(windows: Windows) -> Relative | None:
        """None where no entry follows one; only vectors of real numbers can."""
        states, actions = windows.observations, windows.actions
        vectors = all(x.ndim == 2 and x.is_floating_point() for x in (states, actions))
        if not vectors or not len(windows):
            return None
        n = states.shape[1]
        first = _at(windows, slice(0, 1))[0]  # against cancellation
        total, products = torch.zeros_like(first), first.new_zeros(len(first), len(first))
        two = torch.ones(len(first) - n, dtype=torch.bool)
        values = actions[windows.steps]
        low, high = values.min(0).values, values.max(0).values
        for begin in range(0, len(windows), STEPS_AT_ONCE):
            part = slice(begin, begin + STEPS_AT_ONCE)
            both = _at(windows, part) - first
            total += both.sum(0)
            products += both.T @ both
            two &= ((values[part] == low) | (values[part] == high)).all(0)
        mean = total / len(windows)
        shared = products / len(windows) - torch.outer(mean, mean)  # covariances
        told, wide = shared[:n, n:], shared.diagonal().clamp(min=0.0)  # (I, D), (I + D,)
        varies = wide > 1e-9 * (1 + first.square())
        known = varies[:n, None] & varies[n:]
        share = torch.where(known, told.square(), 0.0) / torch.where(
            known, wide[:n, None] * wide[n:], 1.0
        )  # of the variance that a line tells (I, D)
        best, entry = share.max(0)
        follows = (best >= FOLLOWS) & ~two
        if not bool(follows.any()):
            return None
        entry = torch.where(follows, entry, 0)
        at = torch.arange(len(entry))
        slope = torch.where(follows, told[entry, at], 0.0) / torch.where(follows, wide[entry], 1.0)
        centre = mean + first
        offset = torch.where(follows, centre[n:] - slope * centre[entry], 0.0)
        least, left = _LEAST * wide[n:].sqrt(), (wide[n:] * (1 - best)).clamp(min=0.0).sqrt()
        exact = follows & (left < least)
        left = torch.where(follows, torch.maximum(left, least), 0.0)
        return Relative(entry, slope, offset, left, exact)

    def of(self, windows: Windows) -> Tensor:
        """The flat actions of windows, told so. (S, D)"""
        found = windows.actions.clone()
        for row, step in zip(
            windows.rows.split(STEPS_AT_ONCE), windows.steps.split(STEPS_AT_ONCE), strict=True
        ):
            apart = found[step].double() - self.line(windows.observations[row])
            found[step] = torch.where(self.exact, 0.0, apart).to(found.dtype)
        return found

    def space(self, space: gym.spaces.Box) -> gym.spaces.Box:
        """Of actions told so: entries that follow have no limits."""
        follows = (self.slope != 0).numpy()
        low, high = np.where(follows, -np.inf, space.low), np.where(follows, np.inf, space.high)
        return gym.spaces.Box(low, high, dtype=space.dtype.type)

    def line(self, states: Tensor) -> Tensor:
        """What is taken off. (..., I) to (..., D)"""
        return states[..., self.entry].double() * self.slope + self.offset

    def tensors(self) -> dict[str, Tensor]:
        return dict(vars(self))

    @staticmethod
    def of_tensors(tensors: dict[str, Tensor]) -> Relative:
        return Relative(**tensors)


def tell_so(windows: Windows, space: gym.Space[Any]) -> gym.Space[Any]:
    """Tell the actions of windows so, where any follow; the space that they then have."""
    if not isinstance(space, gym.spaces.Box):
        return space  # rows of several parts hold counted entries, too
    relative = Relative.find(windows)
    if relative is None:
        return space
    windows.actions = relative.of(windows)
    return relative.space(space)


def _at(windows: Windows, part: slice) -> Tensor:
    """States beside actions. (n, I + D)"""
    states = windows.observations[windows.rows[part]].double()
    return torch.cat([states, windows.actions[windows.steps[part]].double()], 1)
