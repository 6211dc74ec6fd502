"""What stands between a network and actions: its outputs as a distribution over an action space.

Nobody else asks what kind of action there is. A head says how many outputs a network needs, how
likely they make an action (`log_prob`), what they would do (`mode`, `sample`), and what other
networks see of an action (`encode`).

- `Categorical`, for `Discrete` actions: outputs are logits.
- `Mixture`, for `Box` actions: Gaussians side by side, in units of the data's spread. Their means
  stay within what the data shows, their spread above a floor: a density that may grow without bound
  says more of how often a number was repeated than of what to do. An entry that takes two values
  in the data (a gripper that opens or shuts) is a choice between them, one whose space is a full
  turn (-pi to pi, or 0 to 2 pi) is an angle, and wraps.
- `Regression`, for `Box` actions: one Gaussian of a fixed spread, which is least squares.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.errors import InputError
from sdil.spaces import Array

Reduction = Literal["none", "mean", "sum"]
MODES = 5
FLOOR = 0.1
"""The least standard deviation of a Gaussian, in standard deviations of the data."""
_DRAWS = 16
_MARGIN = 1.05  # means reach a little past what the data shows
_HALF_LOG_TURN = 0.5 * math.log(2 * math.pi)
_FULL_TURN = 1e-3  # how exactly the limits of a space must be those of an angle


class ActionHead(nn.Module):
    """A distribution over the actions of a space, from the outputs of a network."""

    size: int
    """Outputs that a network needs."""
    encoded: int
    """Numbers that other networks see of an action."""

    def fit(self, actions: Tensor) -> None:
        """Take the scale from recorded actions (N, *action)."""

    @abstractmethod
    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        """Of actions (..., *action) by outputs (..., size); of real numbers the density of what
        they are in units of the data. With a higher temperature they are less sure of the same.
        (...)"""

    def nll(
        self, outputs: Tensor, actions: Tensor, reduction: Reduction = "none", t: float = 1.0
    ) -> Tensor:
        """The negative of it, or the mean or the sum; `t` is the temperature."""
        each = -self.log_prob(outputs, actions, t)
        if reduction == "none":
            return each
        return each.mean() if reduction == "mean" else each.sum()

    @abstractmethod
    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """How far the mode is from actions: 1 where it is another one of counted ones, of real
        numbers the mean over their entries, in units of the data. (...)"""

    @abstractmethod
    def usual(self, actions: Tensor) -> Tensor:
        """Outputs that say how often these actions (N, *action) are taken, whatever the state.
        (size,)"""

    @abstractmethod
    def mode(self, outputs: Tensor) -> Tensor:
        """What is done greedily. (..., *action)"""

    @abstractmethod
    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        """Draw; `t` is the temperature. (..., *action)"""

    @abstractmethod
    def encode(self, actions: Tensor) -> Tensor:
        """(..., encoded), in single precision."""

    def used(self, actions: Tensor) -> Tensor:
        """How much of each kind of action there is: which one, or how much of each entry.
        (..., encoded)"""
        return self.encode(actions).abs()

    @abstractmethod
    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        """The outputs of a mixture of K distributions (..., K, size), as probable as the weights
        (..., K) say; a head understands more of them than its size, too. (..., any)"""

    @abstractmethod
    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """How well actions go with the outputs, from 0 to 1: the probability of counted ones; of
        real numbers, whose densities compare badly across states, how often one would do something
        less likely. (...)"""

    @property
    @abstractmethod
    def log_uniform(self) -> float:
        """`log_prob` of any action if all that the data shows were alike."""

    @abstractmethod
    def soften(self, network: nn.Sequential, temperature: float) -> None:
        """Make a network whose outputs these are less sure of the same, for good."""


class Categorical(ActionHead):
    """Outputs are logits."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.size = self.encoded = n

    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        return -self.nll(outputs, actions, t=temperature)

    def nll(
        self, outputs: Tensor, actions: Tensor, reduction: Reduction = "none", t: float = 1.0
    ) -> Tensor:
        softer = outputs if t == 1.0 else outputs / t
        found = F.cross_entropy(
            softer.flatten(0, -2), actions.long().flatten(), reduction=reduction
        )
        return found.view(actions.shape) if reduction == "none" else found

    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return (outputs.argmax(-1) != actions).double()

    def usual(self, actions: Tensor) -> Tensor:
        count = actions.long().bincount(minlength=self.size)
        return ((count + 1.0) / (len(actions) + self.size)).log()

    def mode(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1)

    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        probs = (outputs / t).softmax(-1).flatten(0, -2)
        return torch.multinomial(probs, 1, generator=generator).view(outputs.shape[:-1])

    def encode(self, actions: Tensor) -> Tensor:
        return F.one_hot(actions.long(), self.encoded).float()

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        return (log_weights[..., None] + outputs.log_softmax(-1)).logsumexp(-2)

    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return outputs.log_softmax(-1).gather(-1, actions.long()[..., None])[..., 0].exp()

    @property
    def log_uniform(self) -> float:
        return -math.log(self.size)

    @torch.no_grad()
    def soften(self, network: nn.Sequential, temperature: float) -> None:
        last = network[-1]
        assert isinstance(last, nn.Linear)
        last.weight.div_(temperature)
        last.bias.div_(temperature)


class _Real(ActionHead):
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
    widened: Tensor
    """By which the spread is multiplied after training. ()"""

    def __init__(self, space: gym.spaces.Box) -> None:
        super().__init__()
        self.shape = space.shape
        self.encoded = n = int(np.prod(space.shape))
        self.register_buffer("mean", torch.zeros(n))
        self.register_buffer("spread", torch.ones(n))
        self.register_buffer("low", torch.full((n,), -1.0))
        self.register_buffer("high", torch.ones(n))
        self.register_buffer("is_choice", torch.zeros(n, dtype=torch.bool))
        self.register_buffer("is_angle", torch.from_numpy(_angles(space)))
        self.register_buffer("widened", torch.ones(()))
        self.register_buffer("values", torch.zeros(2, n, dtype=torch.float64))
        self._limits = (
            torch.from_numpy(np.asarray(space.low, np.float64).ravel()),
            torch.from_numpy(np.asarray(space.high, np.float64).ravel()),
        )
        self._number = torch.from_numpy(np.zeros(0, space.dtype)).dtype

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

    def encode(self, actions: Tensor) -> Tensor:
        """In units of the data."""
        flat = actions.flatten(actions.ndim - len(self.shape)) if self.shape else actions[..., None]
        return (flat.to(self.mean.dtype) - self.mean) / self.spread

    def soften(self, network: nn.Sequential, temperature: float) -> None:
        self.widened.mul_(temperature)

    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        return self._log_density(outputs, self.encode(actions).to(outputs.dtype), temperature)

    @abstractmethod
    def _log_density(self, outputs: Tensor, units: Tensor, temperature: float = 1.0) -> Tensor:
        """The same of actions in units of the data. (..., D)"""

    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        taken = self.log_prob(outputs, actions)
        less = torch.zeros_like(taken)
        for drawn in self._draws(outputs, _DRAWS):
            likely = self._log_density(outputs, drawn)
            less += (likely < taken).to(less.dtype) + 0.5 * (likely == taken).to(less.dtype)
        return less / _DRAWS

    def _draws(self, outputs: Tensor, count: int) -> Iterator[Tensor]:
        """The same random numbers whenever it is asked, whatever else is drawn."""
        generator = torch.Generator().manual_seed(0)
        rows = outputs.flatten(0, -2)
        for _ in range(count):
            yield self._draw(rows, generator).view(*outputs.shape[:-1], -1)

    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        return self._decode(self._draw(outputs, generator, t))

    @abstractmethod
    def _draw(self, outputs: Tensor, generator: torch.Generator | None, t: float = 1.0) -> Tensor:
        """In units of the data. (..., D)"""

    @property
    def log_uniform(self) -> float:
        wide = torch.where(self.is_angle, 2 * math.pi, self.high - self.low).clamp(min=FLOOR)
        each = torch.where(self.is_choice, 2.0, wide).log()
        return -float(each.sum())

    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        return (self.apart(self.mode(outputs), actions).abs() / self.spread).mean(-1).double()

    def apart(self, actions: Tensor, others: Tensor) -> Tensor:
        """How far actions are from others, in the data's own units, angles the short way round.
        (..., D)"""
        return self._apart(self.encode(actions), self.encode(others)) * self.spread

    def _decode(self, units: Tensor) -> Tensor:
        """Actions within the space from what they are in units of the data."""
        found = (units * self.spread + self.mean).double()
        turned = torch.remainder(found + math.pi, 2 * math.pi) - math.pi
        low, high = self._limits
        starts_at_0 = low > -1.0  # angles from 0 to 2 pi
        turned = torch.where(starts_at_0 & (turned < 0), turned + 2 * math.pi, turned)
        found = torch.where(self.is_angle, turned, found)
        chosen = torch.where(units > (self.low + self.high) / 2, self.values[1], self.values[0])
        found = torch.where(self.is_choice, chosen, found)
        found = torch.minimum(torch.maximum(found, low), high)
        return found.to(self._number).view(*units.shape[:-1], *self.shape)

    def _apart(self, actions: Tensor, means: Tensor) -> Tensor:
        """How far actions are from means, angles the short way round."""
        apart = actions - means
        turned = torch.remainder(apart + math.pi, 2 * math.pi) - math.pi
        return torch.where(self.is_angle, turned, apart)

    def _reach(self) -> tuple[Tensor, Tensor]:
        """The middle of what means may be, and how far from it they may be. (D,) each"""
        half = (self.high - self.low) / 2
        reach = torch.where(self.is_angle, math.pi, _MARGIN * half.clamp(min=FLOOR))
        return torch.where(self.is_angle, 0.0, (self.low + self.high) / 2), reach

    def _within(self, raw: Tensor) -> Tensor:
        """Means within what the data shows."""
        middle, reach = self._reach()
        return middle + reach * torch.tanh(raw)

    def _raw(self, means: Tensor) -> Tensor:
        """The inverse."""
        middle, reach = self._reach()
        return ((means - middle) / reach).clamp(-0.999, 0.999).atanh()

    def _nearest_choice(self, units: Tensor) -> Tensor:
        """Entries that take two values take one of them."""
        middle = (self.low + self.high) / 2
        chosen = torch.where(units > middle, self.high, self.low)
        return torch.where(self.is_choice, chosen, units)


class Mixture(_Real):
    """Gaussians side by side; of each a weight, and for each entry a mean and a spread, or for an
    entry that takes two values how probable the higher one is."""

    def __init__(self, space: gym.spaces.Box, modes: int = MODES) -> None:
        super().__init__(space)
        self.size = modes * (1 + 2 * self.encoded)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights (..., M), raw means or logits (..., M, D), log of the spread (..., M, D)."""
        each = outputs.unflatten(-1, (-1, 1 + 2 * self.encoded))
        weights = each[..., 0].log_softmax(-1)
        raw, spread = each[..., 1:].split(self.encoded, -1)
        return weights, raw, ((FLOOR + F.softplus(spread)) * self.widened).log()

    def _log_density(self, outputs: Tensor, units: Tensor, temperature: float = 1.0) -> Tensor:
        weights, raw, log_spread = self._parts(outputs)
        log_spread = log_spread + math.log(temperature)
        at = units[..., None, :]
        apart = self._apart(at, self._within(raw)) / log_spread.exp()
        each = -0.5 * apart.square() - log_spread - _HALF_LOG_TURN
        if bool(self.is_choice.any()):
            sure = raw / (self.widened * temperature)
            is_high = at > (self.low + self.high) / 2
            each = torch.where(
                self.is_choice, F.logsigmoid(torch.where(is_high, sure, -sure)), each
            )
        return (weights + each.sum(-1)).logsumexp(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        """The middle of the Gaussian whose middle is the likeliest."""
        means = self._means(outputs)
        likely = self._log_density(outputs[..., None, :], means)  # (..., M)
        return self._decode(_take(means, likely.argmax(-1)))

    def _draw(self, outputs: Tensor, generator: torch.Generator | None, t: float = 1.0) -> Tensor:
        weights, raw, log_spread = self._parts(outputs)
        flat = weights.exp().flatten(0, -2)
        mode = torch.multinomial(flat, 1, generator=generator).view(weights.shape[:-1])
        chosen, spread = _take(raw, mode), _take(log_spread, mode).exp()
        noise = torch.randn(chosen.shape, generator=generator, dtype=chosen.dtype)
        luck = torch.rand(chosen.shape, generator=generator, dtype=chosen.dtype)
        value = self._within(chosen) + t * spread * noise
        often = torch.sigmoid(chosen / (self.widened * t))
        picked = torch.where(luck < often, self.high, self.low)
        return torch.where(self.is_choice, picked.to(value.dtype), value)

    def _means(self, outputs: Tensor) -> Tensor:
        """(..., M, D), of a choice the likelier value."""
        _, raw, _ = self._parts(outputs)
        chosen = torch.where(raw > 0, self.high, self.low).to(raw.dtype)
        return torch.where(self.is_choice, chosen, self._within(raw))

    def usual(self, actions: Tensor) -> Tensor:
        """One Gaussian, or for entries that take two values how often each is taken."""
        units = self.encode(actions)
        raw, middle = self._raw(units.mean(0)), (self.low + self.high) / 2
        often = (((units > middle).float().sum(0) + 1.0) / (len(units) + 2.0)).logit()
        wide = (units.std(0, correction=0) - FLOOR).clamp(min=1e-3)
        spread = wide + torch.log(-torch.expm1(-wide))
        one = torch.cat([torch.zeros(1), torch.where(self.is_choice, often, raw), spread])
        each = one.repeat(self.size // len(one), 1)
        each[1:, 0] = -30.0  # the others have no weight
        return each.flatten()

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        each = outputs.unflatten(-1, (-1, 1 + 2 * self.encoded)).clone()  # (..., K, M, 1 + 2 D)
        each[..., 0] = each[..., 0].log_softmax(-1) + log_weights[..., None]
        return each.flatten(-3)


class Regression(_Real):
    """Least squares: one Gaussian for each entry, as wide as the data."""

    def __init__(self, space: gym.spaces.Box) -> None:
        super().__init__(space)
        self.size = self.encoded

    def _log_density(self, outputs: Tensor, units: Tensor, temperature: float = 1.0) -> Tensor:
        spread = self.widened * temperature
        apart = self._apart(units, self._within(outputs)) / spread
        return (-0.5 * apart.square() - spread.log() - _HALF_LOG_TURN).sum(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        return self._decode(self._nearest_choice(self._within(outputs)))

    def _draw(self, outputs: Tensor, generator: torch.Generator | None, t: float = 1.0) -> Tensor:
        noise = torch.randn(outputs.shape, generator=generator, dtype=outputs.dtype)
        return self._nearest_choice(self._within(outputs) + t * self.widened * noise)

    def usual(self, actions: Tensor) -> Tensor:
        return self._raw(self.encode(actions).mean(0))

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        """The mean: least squares knows no more."""
        return (log_weights.exp()[..., None] * outputs).sum(-2)


@dataclass(frozen=True)
class Distribution:
    """What a policy would do in B windows."""

    head: ActionHead
    outputs: Tensor

    def log_prob(self, actions: Tensor) -> Tensor:
        """Of actions (B, *action); of real numbers the density of what they are in units of the
        training data. (B,)"""
        return self.head.log_prob(self.outputs, actions)

    def mode(self) -> Tensor:
        """What is done greedily. (B, *action)"""
        return self.head.mode(self.outputs)

    def apart(self, actions: Tensor) -> Tensor:
        """How far what is done greedily is from actions of real numbers, in their units. (B, D)"""
        assert isinstance(self.head, _Real)
        return self.head.apart(self.mode(), actions)

    def sample(self, generator: torch.Generator | None = None, t: float = 1.0) -> Tensor:
        """Drawn, without a generator by torch's own; `t` is the temperature. (B, *action)"""
        return self.head.sample(self.outputs, generator, t)


def make_head(space: gym.Space[Any], *, regression: bool = False) -> ActionHead:
    """The head for a space of actions."""
    if isinstance(space, gym.spaces.Discrete):
        return Categorical(int(space.n))
    if isinstance(space, gym.spaces.Box):
        return Regression(space) if regression else Mixture(space)
    raise InputError(f"actions are Discrete or Box, not {space}")


def counts_actions(head: ActionHead) -> bool:
    """Whether there is a list of actions, each with a probability of its own."""
    return isinstance(head, Categorical)


def _take(each: Tensor, which: Tensor) -> Tensor:
    """Of M vectors (..., M, D) the one that is asked for (...). (..., D)"""
    index = which[..., None, None].expand(*which.shape, 1, each.shape[-1])
    return each.gather(-2, index).squeeze(-2)


def _angles(space: gym.spaces.Box) -> Array:
    """Entries whose space is a full turn. (D,)"""
    low, high = (np.asarray(x, np.float64).ravel() for x in (space.low, space.high))
    whole = np.abs(high - low - 2 * np.pi) < _FULL_TURN
    begins = (np.abs(low) < _FULL_TURN) | (np.abs(low + np.pi) < _FULL_TURN)
    return np.asarray(whole & begins)
