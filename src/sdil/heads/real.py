"""What heads over `Box` actions share: units of the data, limits, choices and angles."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from sdil.heads.head import ActionHead
from sdil.spaces import Array

FLOOR = 0.2
"""The least standard deviation of a Gaussian, in standard deviations of the data; chosen by
`benchmarks/mixture_floor.py` (docs/data.md)."""
HALF_LOG_TURN = 0.5 * math.log(2 * math.pi)
_DRAWS = 16
_MARGIN = 1.05  # means reach a little past what the data shows
_FULL_TURN = 1e-3  # how exactly the limits of a space must be those of an angle


class Real(ActionHead):
    """What heads over `Box` actions share: the scale of the data, and which entries are special."""

    mean: Tensor
    spread: Tensor
    low: Tensor
    """The lowest that the data shows, in units of its spread. (D,)"""
    high: Tensor
    is_choice: Tensor
    """Entries that take two values. (D,)"""
    is_angle: Tensor
    """Entries that wrap. (D,)"""
    values: Tensor
    """The lowest and the highest of each entry, exactly as recorded. (2, D)"""
    follows: Tensor
    """Entries that say where something should be, and follow where it is. (D,)"""
    fine: Tensor
    """The spread of what is left of those then, in that of the data; 1 of others. (D,)"""
    widened: Tensor
    """By which the spread is multiplied after training. ()"""

    def __init__(self, space: gym.spaces.Box, floor: float = FLOOR) -> None:
        """No Gaussian is narrower than `floor` standard deviations of the data."""
        super().__init__()
        self.shape, self.floor = space.shape, floor
        self.encoded = n = int(np.prod(space.shape))
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("spread", torch.ones(n))
        self.register_buffer("low", torch.full((n,), -1.0))
        self.register_buffer("high", torch.ones(n))
        self.register_buffer("is_choice", torch.zeros(n, dtype=torch.bool))
        self.register_buffer("is_angle", torch.from_numpy(_angles(space)))
        self.register_buffer("follows", torch.zeros(n, dtype=torch.bool))
        self.register_buffer("fine", torch.ones(n))
        self.register_buffer("widened", torch.ones(()))
        self.register_buffer("values", torch.zeros(2, n, dtype=torch.float64))
        self._limits = (
            torch.from_numpy(np.asarray(space.low, np.float64).ravel()),
            torch.from_numpy(np.asarray(space.high, np.float64).ravel()),
        )
        self._number = torch.from_numpy(np.zeros(0, space.dtype)).dtype
        self._notice()

    def _notice(self) -> None:
        """Remember what there is of each kind: a GPU that is asked each time waits."""
        self.leans, self.chooses = bool(self.follows.any()), bool(self.is_choice.any())

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *args: Any) -> None:
        # of before, when nothing followed anything
        state.setdefault(prefix + "follows", torch.zeros_like(self.follows))
        state.setdefault(prefix + "fine", torch.ones_like(self.fine))
        super()._load_from_state_dict(state, prefix, *args)
        self._notice()

    def fit(self, actions: Tensor) -> None:
        rows = actions.flatten(1).double()
        low, high = rows.min(0).values, rows.max(0).values
        two = ((rows == low) | (rows == high)).all(0) & (high > low)
        mean, spread = rows.mean(0), rows.std(0, correction=0)
        spread = torch.where(spread > 1e-9 * (1 + mean.abs()), spread, 1.0)
        spread = torch.where(self.is_angle, 1.0, spread)
        mean = torch.where(self.is_angle, 0.0, mean)
        self.is_choice.copy_(two & ~self.is_angle)
        self.values.copy_(torch.stack([low, high]))
        self.mean.copy_(mean)
        self.spread.copy_(spread)
        self.low.copy_((low - mean) / spread)
        self.high.copy_((high - mean) / spread)
        self._notice()

    def follow(self, left: Tensor) -> None:
        """Let entries whose spread would be `left` follow a line that a network gives (`lean`); 0
        where one does not. (D,)"""
        self.follows.copy_(left > 0)
        self.fine.copy_(torch.where(left > 0, left / self.spread, 1.0))
        self._notice()

    @abstractmethod
    def lean(self, outputs: Tensor, line: Tensor) -> Tensor:
        """Outputs whose means are told from a line, in units of the data. (..., D)"""

    def _leaning(self, line: Tensor) -> Tensor:
        """What is added to raw means. (..., D)"""
        return torch.where(self.follows, line / self.fine, 0.0)

    def encode(self, actions: Tensor) -> Tensor:
        """In units of the data."""
        flat = actions.flatten(actions.ndim - len(self.shape)) if self.shape else actions[..., None]
        return (flat.to(self.mean.dtype) - self.mean) / self.spread

    def soften(self, network: nn.Sequential, temperature: float) -> None:
        self.widened.mul_(temperature)

    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        return self.log_density(outputs, self.encode(actions).to(outputs.dtype), temperature)

    @abstractmethod
    def log_density(
        self, outputs: Tensor, units: Tensor, temperature: float | Tensor = 1.0
    ) -> Tensor:
        """The same of actions in units of the data. (..., D)"""

    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        taken = self.log_prob(outputs, actions)
        less = torch.zeros_like(taken)
        generator = torch.Generator().manual_seed(0)  # the same whatever else is drawn
        for _ in range(_DRAWS):
            noise = self.noise((), generator).to(outputs).expand(*outputs.shape[:-1], -1)
            drawn = self.pick(outputs, noise)  # the same luck for each, whoever is beside it
            likely = self.log_density(outputs, drawn)
            less += (likely < taken).to(less.dtype) + 0.5 * (likely == taken).to(less.dtype)
        return less / _DRAWS

    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        return self.decode(self._draw(outputs, generator, t))

    def _draw(self, outputs: Tensor, generator: torch.Generator | None, t: float = 1.0) -> Tensor:
        """In units of the data. (..., D)"""
        noise = self.noise(tuple(outputs.shape[:-1]), generator)
        return self.pick(outputs, noise.to(outputs), t)

    @abstractmethod
    def pick(self, outputs: Tensor, noise: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        """In units of the data. (..., D)"""

    @abstractmethod
    def best(self, outputs: Tensor) -> Tensor:
        """What is done greedily, in units of the data. (..., D)"""

    def mode(self, outputs: Tensor) -> Tensor:
        return self.decode(self.best(outputs))

    def usual(self, actions: Tensor) -> Tensor:
        return self.usual_in_units(self.encode(actions))

    @abstractmethod
    def usual_in_units(self, units: Tensor) -> Tensor:
        """The same of actions in units of the data. (size,)"""

    @property
    def log_uniform(self) -> float:
        wide = torch.where(self.is_angle, 2 * math.pi, self.high - self.low).clamp(min=self.floor)
        each = torch.where(self.is_choice, 2.0, wide).log()
        return -float(each.sum())

    def weigh(self, outputs: Tensor, picked: Tensor) -> tuple[Tensor, Tensor]:
        return self.log_density(outputs, picked), self.entropy(outputs)

    @abstractmethod
    def entropy(self, outputs: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        """(...)"""

    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return (self.apart(self.mode(outputs), actions).abs() / self.spread).mean(-1).double()

    def apart(self, actions: Tensor, others: Tensor) -> Tensor:
        return self.apart_in_units(self.encode(actions), self.encode(others)) * self.spread

    def square_distance(self, actions: Tensor, others: Tensor) -> Tensor:
        return self.apart_in_units(self.encode(actions), self.encode(others)).square().mean(-1)

    def decode(self, picked: Tensor) -> Tensor:
        """Actions within the space from what they are in units of the data."""
        found = (picked * self.spread + self.mean).double()
        turned = torch.remainder(found + math.pi, 2 * math.pi) - math.pi
        low, high = (limit.to(picked.device) for limit in self._limits)
        starts_at_0 = low > -1.0  # angles from 0 to 2 pi
        turned = torch.where(starts_at_0 & (turned < 0), turned + 2 * math.pi, turned)
        found = torch.where(self.is_angle, turned, found)
        chosen = torch.where(picked > (self.low + self.high) / 2, self.values[1], self.values[0])
        found = torch.where(self.is_choice, chosen, found)
        found = torch.minimum(torch.maximum(found, low), high)
        return found.to(self._number).view(*picked.shape[:-1], *self.shape)

    def apart_in_units(self, actions: Tensor, means: Tensor) -> Tensor:
        """How far actions are from means, both in units of the data, angles the short way round."""
        apart = actions - means
        turned = torch.remainder(apart + math.pi, 2 * math.pi) - math.pi
        return torch.where(self.is_angle, turned, apart)

    def _reach(self) -> tuple[Tensor, Tensor]:
        """The middle of what means may be, and how far from it they may be. (D,) each"""
        half = (self.high - self.low) / 2
        reach = torch.where(self.is_angle, math.pi, _MARGIN * half.clamp(min=self.floor))
        return torch.where(self.is_angle, 0.0, (self.low + self.high) / 2), reach

    def _within(self, raw: Tensor) -> Tensor:
        """Means within what the data shows."""
        middle, reach = self._reach()
        within = middle + reach * torch.tanh(raw)
        return torch.where(self.follows, raw * self.fine, within) if self.leans else within

    def _raw(self, means: Tensor) -> Tensor:
        """The inverse."""
        middle, reach = self._reach()
        raw = ((means - middle) / reach).clamp(-0.999, 0.999).atanh()
        return torch.where(self.follows, means / self.fine, raw) if self.leans else raw

    def _nearest_choice(self, units: Tensor) -> Tensor:
        """Entries that take two values take one of them."""
        middle = (self.low + self.high) / 2
        chosen = torch.where(units > middle, self.high, self.low)
        return torch.where(self.is_choice, chosen, units)


def _angles(space: gym.spaces.Box) -> Array:
    """Entries whose space is a full turn. (D,)"""
    low, high = (np.asarray(x, np.float64).ravel() for x in (space.low, space.high))
    whole = np.abs(high - low - 2 * np.pi) < _FULL_TURN
    begins = (np.abs(low) < _FULL_TURN) | (np.abs(low + np.pi) < _FULL_TURN)
    return np.asarray(whole & begins)
