"""The head of real-valued actions that a mixture must beat: least squares."""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor

from sdil.heads.real import FLOOR, HALF_LOG_TURN, Real


class Regression(Real):
    """Least squares: one Gaussian for each entry, as wide as the data."""

    def __init__(self, space: gym.spaces.Box, floor: float = FLOOR) -> None:
        super().__init__(space, floor)
        self.size = self.encoded

    def lean(self, outputs: Tensor, line: Tensor) -> Tensor:
        return outputs + self._leaning(line)

    def log_density(
        self, outputs: Tensor, units: Tensor, temperature: float | Tensor = 1.0
    ) -> Tensor:
        spread = self._wide(temperature)
        apart = self.apart_in_units(units, self._within(outputs)) / spread
        return (-0.5 * apart.square() - spread.log() - HALF_LOG_TURN).sum(-1)

    def best(self, outputs: Tensor) -> Tensor:
        return self._nearest_choice(self._within(outputs))

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        return torch.randn((*shape, self.encoded), generator=generator)

    def pick(self, outputs: Tensor, noise: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        return self._nearest_choice(self._within(outputs) + self._wide(temperature) * noise)

    def entropy(self, outputs: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
        each = self._wide(temperature).log() + HALF_LOG_TURN + 0.5
        return each.to(outputs.dtype).expand(outputs.shape).sum(-1)

    def usual_in_units(self, units: Tensor) -> Tensor:
        return self._raw(units.mean(0))

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        """The mean: least squares knows no more."""
        return (log_weights.exp()[..., None] * outputs).sum(-2)

    def _wide(self, temperature: float | Tensor) -> Tensor:
        wide = self.widened * temperature
        return wide * self.fine if self.leans else wide
