"""The head of real-valued actions: Gaussians side by side."""

from __future__ import annotations

import math

import gymnasium as gym
import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.heads.head import by_luck, draw_normal_and_uniform, take
from sdil.heads.real import FLOOR, HALF_LOG_TURN, Real

MODES = 5


class Mixture(Real):
    """Gaussians side by side; of each a weight, and for each entry a mean and a spread, or for an
    entry that takes two values how probable the higher one is."""

    def __init__(self, space: gym.spaces.Box, modes: int = MODES, floor: float = FLOOR) -> None:
        super().__init__(space, floor)
        self.size = modes * (1 + 2 * self.encoded)

    def _parts(self, outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-weights (..., M), raw means or logits (..., M, D), log of the spread (..., M, D)."""
        each = outputs.unflatten(-1, (-1, 1 + 2 * self.encoded))
        weights = each[..., 0].log_softmax(-1)
        raw, spread = each[..., 1:].split(self.encoded, -1)
        wide = (self.floor + F.softplus(spread)) * self.widened
        return weights, raw, (wide * self.fine if self.leans else wide).log()

    def lean(self, outputs: Tensor, line: Tensor) -> Tensor:
        each = outputs.unflatten(-1, (-1, 1 + 2 * self.encoded))
        added = F.pad(self._leaning(line), (1, self.encoded))  # beside weights and spreads
        return (each + added[..., None, :]).flatten(-2)

    def log_density(
        self, outputs: Tensor, units: Tensor, temperature: float | Tensor = 1.0
    ) -> Tensor:
        weights, raw, log_spread = self._parts(outputs)
        log_spread = log_spread + _log(temperature)
        at = units[..., None, :]
        apart = self.apart_in_units(at, self._within(raw)) / log_spread.exp()
        each = -0.5 * apart.square() - log_spread - HALF_LOG_TURN
        if self.chooses:
            sure = raw / (self.widened * temperature)
            is_high = at > (self.low + self.high) / 2
            each = torch.where(
                self.is_choice, F.logsigmoid(torch.where(is_high, sure, -sure)), each
            )
        return (weights + each.sum(-1)).logsumexp(-1)

    def best(self, outputs: Tensor) -> Tensor:
        """The middle of the Gaussian whose middle is the likeliest."""
        means = self._means(outputs)
        likely = self.log_density(outputs[..., None, :], means)  # (..., M)
        return take(means, likely.argmax(-1))

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        return draw_normal_and_uniform(shape, self.encoded, self.encoded + 1, generator)

    def pick(self, outputs: Tensor, noise: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        weights, raw, log_spread = self._parts(outputs)
        normal, luck, which = noise.split([self.encoded, self.encoded, 1], -1)
        mode = by_luck(weights, which[..., 0])
        chosen, spread = take(raw, mode), take(log_spread, mode).exp()
        value = self._within(chosen) + temperature * spread * normal
        often = torch.sigmoid(chosen / (self.widened * temperature))
        picked = torch.where(luck < often, self.high, self.low)
        return torch.where(self.is_choice, picked.to(value.dtype), value)

    def entropy(self, outputs: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        weights, raw, log_spread = self._parts(outputs)
        log_spread = log_spread + _log(temperature)
        sure = raw / (self.widened * temperature)
        of_choice = F.softplus(sure) - sure * torch.sigmoid(sure)
        each = torch.where(self.is_choice, of_choice, log_spread + HALF_LOG_TURN + 0.5).sum(-1)
        return (weights.exp() * (each - weights)).sum(-1)

    def _means(self, outputs: Tensor) -> Tensor:
        """(..., M, D), of a choice the likelier value."""
        _, raw, _ = self._parts(outputs)
        chosen = torch.where(raw > 0, self.high, self.low).to(raw.dtype)
        return torch.where(self.is_choice, chosen, self._within(raw))

    def usual_in_units(self, units: Tensor) -> Tensor:
        """One Gaussian, or for entries that take two values how often each is taken."""
        raw, middle = self._raw(units.mean(0)), (self.low + self.high) / 2
        often = (((units > middle).float().sum(0) + 1.0) / (len(units) + 2.0)).logit()
        wide = (units.std(0, correction=0) / self.fine - self.floor).clamp(min=1e-3)
        spread = wide + torch.log(-torch.expm1(-wide))
        one = torch.cat([raw.new_zeros(1), torch.where(self.is_choice, often, raw), spread])
        each = one.repeat(self.size // len(one), 1)
        each[1:, 0] = -30.0  # the others have no weight
        return each.flatten()

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        each = outputs.unflatten(-1, (-1, 1 + 2 * self.encoded)).clone()  # (..., K, M, 1 + 2 D)
        each[..., 0] = each[..., 0].log_softmax(-1) + log_weights[..., None]
        return each.flatten(-3)


def _log(temperature: float | Tensor) -> float | Tensor:
    return temperature.log() if isinstance(temperature, Tensor) else math.log(temperature)
