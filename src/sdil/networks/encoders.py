"""From windows to features: standardisation, the window as one vector, and the MLP."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.windows import Window, Windows

_STEPS_AT_ONCE = 16_384


class Standardise(nn.Module):
    """Subtract the mean and divide by the spread of the training set; kept with the model."""

    mean: Tensor
    scale: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("scale", torch.ones(size))

    def fit(self, windows: Windows) -> None:
        """Take the statistics of every state in `windows`. A constant feature keeps its scale."""
        total = torch.zeros(len(self.mean), dtype=torch.float64)
        square = torch.zeros_like(total)
        middle = windows.observations[windows.rows[0]].double()  # against cancellation
        for rows in windows.rows.split(_STEPS_AT_ONCE):
            centred = windows.observations[rows].double() - middle
            total += centred.sum(0)
            square += centred.square().sum(0)
        mean = total / len(windows)
        variance = (square / len(windows) - mean.square()).clamp(min=0.0)
        spread = torch.where(variance > 1e-12, variance, 1.0).sqrt()
        self.mean.copy_(mean + middle)
        self.scale.copy_(1.0 / spread)

    def forward(self, states: Tensor) -> Tensor:
        return (states.to(self.mean.dtype) - self.mean) * self.scale


class WindowFeatures(nn.Module):
    """A window as one vector: `s_t`, then the past states, actions and mask, flattened."""

    def __init__(self, observation_size: int, n_actions: int, look_back: int) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.size = observation_size + look_back * (observation_size + n_actions + 1)
        self.standardise = Standardise(observation_size)

    def forward(self, window: Window) -> Tensor:
        state = self.standardise(window.state)  # (B, observation)
        if window.mask.shape[1] == 0:
            return state
        present = window.mask.to(state.dtype)[..., None]  # (B, M, 1)
        past = torch.cat(
            [
                self.standardise(window.past_states) * present,
                F.one_hot(window.past_actions.long(), self.n_actions).to(state.dtype) * present,
                present,
            ],
            2,
        )  # (B, M, observation + actions + 1)
        return torch.cat([state, past.flatten(1)], 1)


def mlp(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """`layers` hidden layers of width `hidden` with LeakyReLU(0.1), and a linear output."""
    sizes = [inputs] + [hidden] * layers
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.LeakyReLU(0.1)]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], outputs))
