"""From windows to features, and the skill encoders `f_bi` and `f_uni` (paper, section 4.1)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from sdil.heads import ActionHead
from sdil.windows import STEPS_AT_ONCE, Window, Windows


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
        device = windows.observations.device
        total = torch.zeros(len(self.mean), dtype=torch.float64, device=device)
        square = torch.zeros_like(total)
        middle = windows.observations[windows.rows[0]].double()  # against cancellation
        for rows in windows.rows.to(device).split(STEPS_AT_ONCE):
            centred = windows.observations[rows].double() - middle
            total += centred.sum(0)
            square += centred.square().sum(0)
        mean = total / len(windows)
        variance = (square / len(windows) - mean.square()).clamp(min=0.0)
        spread = torch.where(variance > 1e-12, variance, 1.0).sqrt()
        self.mean.copy_(mean + middle)
        self.scale.copy_(1.0 / spread)

    def take(self, states: Tensor) -> None:
        """Take the statistics of these states. (n, size)"""
        spread = states.double().std(0, correction=0)
        self.mean.copy_(states.double().mean(0))
        self.scale.copy_(1.0 / torch.where(spread > 1e-6, spread, 1.0))

    def forward(self, states: Tensor) -> Tensor:
        return (states.to(self.mean.dtype) - self.mean).mul_(self.scale)

    def write(self, states: Tensor, exists: Tensor, out: Tensor) -> None:
        """The same into `out`, zero where `exists` is: the state is padding."""
        out.copy_(states).sub_(self.mean).mul_(self.scale).mul_(exists)


class WindowFeatures(nn.Module):
    """A window as one vector: `s_t`, then the past states, actions and mask, flattened.

    With `sees_next`, `s_{t+1}` and whether it exists come last.
    """

    def __init__(
        self, observation_size: int, head: ActionHead, look_back: int, *, sees_next: bool = False
    ) -> None:
        """`head` is the network's own: it says what is seen of an action."""
        super().__init__()
        self.observation_size = observation_size
        self.n_actions = head.encoded
        """Numbers that are seen of an action."""
        self._head = (head,)  # no part of this module: whoever owns it keeps it
        self.sees_next = sees_next
        self.size = observation_size + look_back * (observation_size + self.n_actions + 1)
        self.size += (observation_size + 1) if sees_next else 0
        self.standardise = Standardise(observation_size)

    def forward(self, window: Window, following: tuple[Tensor, Tensor] | None = None) -> Tensor:
        n, look_back = window.mask.shape
        observation, actions = self.observation_size, self.n_actions
        if not look_back and not self.sees_next:
            return self.standardise(window.state)
        out = self.standardise.mean.new_empty(n, self.size)  # filled in place: data, no gradient
        out[:, :observation] = self.standardise(window.state)
        if look_back:
            present = window.mask.to(out.dtype)[..., None]  # (n, M, 1)
            end = observation + look_back * (observation + actions + 1)
            past = out[:, observation:end].view(n, look_back, -1)
            self.standardise.write(window.past_states, present, past[..., :observation])
            past[..., observation:-1] = self.encode(window.past_actions) * present
            past[..., -1:] = present
        if self.sees_next:
            assert following is not None
            states, exists = following
            known = exists.to(out.dtype)[:, None]  # (n, 1)
            self.standardise.write(states, known, out[:, self.size - 1 - observation : -1])
            out[:, -1:] = known
        return out

    def encode(self, actions: Tensor) -> Tensor:
        """What is seen of actions. (..., n_actions)"""
        return self._head[0].encode(actions)


class RecordedFeatures:
    """What `WindowFeatures` makes of recorded steps, standardised once: a batch only copies rows.

    One row per state: the standardised state, its action encoded, and 1; a last row of zeros stands
    for all that does not exist.
    """

    def __init__(self, windows: Windows, features: WindowFeatures) -> None:
        self._state_size = size = features.observation_size
        self._sees_next = features.sees_next
        absent, mean = len(windows.observations), features.standardise.mean
        self._table = mean.new_zeros(absent + 1, size + features.n_actions + 1)
        states = self._table[:-1, :size].copy_(windows.observations)
        states.sub_(mean).mul_(features.standardise.scale)
        self._table[:-1, -1] = 1.0
        encoded = features.encode(windows.actions[windows.steps])
        self._table[windows.rows, size:-1] = encoded.to(self._table.dtype)
        back = torch.arange(windows.look_back, 0, -1, device=windows.rows.device)  # M .. 1
        past = torch.where(
            back <= windows.times[:, None], windows.rows[:, None] - back, absent
        )  # (N, M)
        following = torch.where(windows.has_next, windows.following, absent)  # (N,)
        parts = [windows.rows[:, None], past]
        self._rows = torch.cat([*parts, following[:, None]] if self._sees_next else parts, 1)

    def at(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """The features of these steps (B, F), and `s_t` beside `a_t` encoded (B, I + A)."""
        rows = self._rows.index_select(0, index)  # (B, W)
        found = self._table.index_select(0, rows.flatten()).view(*rows.shape, -1)  # (B, W, I+A+1)
        now, size = found[:, 0], self._state_size
        last = found.shape[1] - 1 if self._sees_next else found.shape[1]
        parts = [now[:, :size], found[:, 1:last].flatten(1)]
        if self._sees_next:
            parts += [found[:, last, :size], found[:, last, -1:]]
        return torch.cat(parts, 1), now[:, :-1]


class SkillEncoder(nn.Module):
    """A window, and for `f_bi` the true next state, to a skill embedding `z'_t`.

    `f_bi` and `f_uni` are two of these with nothing in common: a shared trunk would let the
    distillation teacher drift.
    """

    def __init__(
        self,
        observation_size: int,
        head: ActionHead,
        look_back: int,
        *,
        sees_next: bool,
        hidden: int,
        layers: int,
        skill_size: int,
    ) -> None:
        super().__init__()
        self.sees_next = sees_next
        self.features = WindowFeatures(observation_size, head, look_back, sees_next=sees_next)
        self.body = mlp(self.features.size, hidden, layers, skill_size)

    def forward(self, window: Window, following: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """`following` is (`s_{t+1}`, whether it exists), which only `f_bi` is given."""
        return self.body(self.features(window, following))  # (B, d_z)


def mlp(inputs: int, hidden: int, layers: int, outputs: int) -> nn.Sequential:
    """`layers` hidden layers of width `hidden` with LeakyReLU(0.1), and a linear output."""
    sizes = [inputs] + [hidden] * layers
    parts: list[nn.Module] = []
    for before, after in pairwise(sizes):
        parts += [nn.Linear(before, after), nn.LeakyReLU(0.1)]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], outputs))
