"""The head of actions with several parts: choices beside choices, and beside real numbers.

Parts that are chosen apart from one another could not say "left and open, or right and shut". So
ways of acting lie side by side as in `Mixture`: in each of them every counted entry is a choice of
its own and every real one a Gaussian, and which of them acts is drawn once for all.

Actions are rows of numbers (see `nested`): of counted entries their number, of real ones the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from sdil.heads.counted import Categorical
from sdil.heads.head import ActionHead, by_luck, take
from sdil.heads.mixture import MODES, Mixture
from sdil.heads.real import FLOOR, Real
from sdil.heads.regression import Regression
from sdil.nested import Leaf, has_parts, leaves_of, limits_of, row_space

_DRAWS = 16


class _Choice(nn.Module):
    """One counted entry, in a column that holds its number, from 0."""

    def __init__(self, n: int, column: int, start: int) -> None:
        super().__init__()
        self.head = Categorical(n)
        self.size = self.encoded = n
        self.width = self.luck = 1
        self.column, self.start = column, start

    def fit(self, rows: Tensor) -> None:
        pass

    def to_units(self, rows: Tensor) -> Tensor:
        return rows - self.start

    def to_rows(self, units: Tensor) -> Tensor:
        return units.double() + self.start

    def features(self, units: Tensor) -> Tensor:
        return self.head.encode(units[..., 0].clamp(0, self.size - 1))  # 0 pads what is not there

    def log_density(self, outputs: Tensor, units: Tensor, t: Tensor) -> Tensor:
        shape = torch.broadcast_shapes(outputs.shape[:-1], units.shape[:-1])
        log_probs = (outputs / t).log_softmax(-1).expand(*shape, -1)
        return log_probs.gather(-1, units.long().expand(*shape, 1))[..., 0]

    def best(self, outputs: Tensor) -> Tensor:
        return outputs.argmax(-1, keepdim=True).to(outputs)

    def draw(self, outputs: Tensor, luck: Tensor, t: Tensor) -> Tensor:
        return by_luck(outputs / t, luck[..., 0])[..., None].to(outputs)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return torch.rand((*shape, 1), generator=generator)

    def entropy(self, outputs: Tensor, t: Tensor) -> Tensor:
        log_probs = (outputs / t).log_softmax(-1)
        return -(log_probs.exp() * log_probs).sum(-1)

    def usual(self, units: Tensor) -> Tensor:
        return self.head.usual(units[:, 0])

    def apart(self, units: Tensor, others: Tensor) -> Tensor:
        return (units != others).to(units.dtype)

    def square(self, units: Tensor, others: Tensor) -> Tensor:
        return 2.0 * self.apart(units, others)

    @property
    def spread(self) -> Tensor:
        return torch.ones(1)

    @property
    def log_uniform(self) -> float:
        return self.head.log_uniform


class _Numbers(nn.Module):
    """A `Box`, in as many columns as it has entries, by one Gaussian."""

    def __init__(
        self, space: gym.spaces.Box, column: int, *, regression: bool, floor: float
    ) -> None:
        super().__init__()
        flat = gym.spaces.Box(space.low.ravel(), space.high.ravel(), dtype=space.dtype.type)
        self.head: Real = (
            Regression(flat, floor) if regression else Mixture(flat, modes=1, floor=floor)
        )
        self.size = self.head.size
        self.width = self.encoded = self.head.encoded
        self.luck = self.head.noise((), torch.Generator()).shape[-1]  # nobody else's is drawn from
        self.column = column

    def fit(self, rows: Tensor) -> None:
        self.head.fit(rows)

    def to_units(self, rows: Tensor) -> Tensor:
        return self.head.encode(rows)

    def to_rows(self, units: Tensor) -> Tensor:
        return self.head.decode(units).double()

    def features(self, units: Tensor) -> Tensor:
        return units

    def log_density(self, outputs: Tensor, units: Tensor, t: Tensor) -> Tensor:
        return self.head.log_density(outputs, units, t)

    def best(self, outputs: Tensor) -> Tensor:
        return self.head.best(outputs)

    def draw(self, outputs: Tensor, luck: Tensor, t: Tensor) -> Tensor:
        return self.head.pick(outputs, luck, t)

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None) -> Tensor:
        return self.head.noise(shape, generator)

    def entropy(self, outputs: Tensor, t: Tensor) -> Tensor:
        return self.head.entropy(outputs, t)

    def usual(self, units: Tensor) -> Tensor:
        return self.head.usual_in_units(units)

    def apart(self, units: Tensor, others: Tensor) -> Tensor:
        return self.head.apart_in_units(units, others)

    def square(self, units: Tensor, others: Tensor) -> Tensor:
        return self.apart(units, others).square()

    @property
    def spread(self) -> Tensor:
        return self.head.spread

    @property
    def log_uniform(self) -> float:
        return self.head.log_uniform


class Composite(ActionHead):
    """Ways of acting side by side; of each a weight, and the outputs of every part."""

    widened: Tensor
    """The temperature that was found after training. ()"""

    def __init__(
        self,
        space: gym.Space[Any],
        modes: int = MODES,
        *,
        regression: bool = False,
        floor: float = FLOOR,
    ) -> None:
        super().__init__()
        self.shape = space.shape if not has_parts(space) else row_space(space).shape
        assert self.shape is not None
        number = row_space(space).dtype if has_parts(space) else space.dtype
        self._number = torch.from_numpy(np.zeros(0, number)).dtype
        self.parts = nn.ModuleList(
            part for leaf in leaves_of(space) for part in _parts_of(leaf, regression, floor)
        )
        self._one = 1 + sum(part.size for part in self._each())
        self.size = (1 if regression else modes) * self._one
        self.encoded = sum(part.encoded for part in self._each())
        self.width = sum(part.width for part in self._each())
        self.register_buffer("widened", torch.ones(()))

    def fit(self, actions: Tensor) -> None:
        rows = actions.flatten(1)
        for part in self._each():
            part.fit(rows[:, part.column : part.column + part.width])

    def log_prob(self, outputs: Tensor, actions: Tensor, temperature: float = 1.0) -> Tensor:
        units = self._units(actions).to(outputs)
        return self._log_density(outputs, units, temperature)

    def error(self, outputs: Tensor, actions: Tensor) -> Tensor:
        apart = self.apart(self.mode(outputs), actions).abs()
        return (apart / torch.cat([part.spread for part in self._each()])).mean(-1).double()

    def apart(self, actions: Tensor, others: Tensor) -> Tensor:
        pairs = zip(self._cut(self._units(actions)), self._cut(self._units(others)), strict=True)
        return torch.cat(
            [
                part.apart(*pair) * part.spread
                for part, pair in zip(self._each(), pairs, strict=True)
            ],
            -1,
        )

    def square_distance(self, actions: Tensor, others: Tensor) -> Tensor:
        pairs = zip(self._cut(self._units(actions)), self._cut(self._units(others)), strict=True)
        each = [part.square(*pair) for part, pair in zip(self._each(), pairs, strict=True)]
        return torch.cat(each, -1).mean(-1)

    def usual(self, actions: Tensor) -> Tensor:
        units = self._cut(self._units(actions))
        one = [part.usual(u) for part, u in zip(self._each(), units, strict=True)]
        each = torch.cat([one[0].new_zeros(1), *one]).repeat(self.size // self._one, 1)
        each[1:, 0] = -30.0  # the others have no weight
        return each.flatten()

    def mode(self, outputs: Tensor) -> Tensor:
        """The best of the way of acting whose best is the likeliest."""
        _, each = self._split(outputs)
        best = torch.cat([part.best(o) for part, o in zip(self._each(), each, strict=True)], -1)
        likely = self._log_density(outputs[..., None, :], best)  # (..., M)
        return self.decode(take(best, likely.argmax(-1)))

    def sample(
        self, outputs: Tensor, generator: torch.Generator | None = None, t: float = 1.0
    ) -> Tensor:
        noise = self.noise(tuple(outputs.shape[:-1]), generator).to(outputs)
        return self.decode(self._pick(outputs, noise, t))

    def noise(self, shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
        which = torch.rand((*shape, 1), generator=generator)
        return torch.cat([which, *(part.noise(shape, generator) for part in self._each())], -1)

    def pick(self, outputs: Tensor, noise: Tensor) -> Tensor:
        return self._pick(outputs, noise, 1.0)

    def decode(self, picked: Tensor) -> Tensor:
        cut = self._cut(picked)
        rows = torch.cat([p.to_rows(u) for p, u in zip(self._each(), cut, strict=True)], -1)
        return rows.to(self._number).view(*picked.shape[:-1], *(self.shape or ()))

    def weigh(self, outputs: Tensor, picked: Tensor) -> tuple[Tensor, Tensor]:
        weights, each = self._split(outputs)
        parts = zip(self._each(), each, strict=True)
        inside = torch.stack([part.entropy(o, self.widened) for part, o in parts]).sum(0)
        entropy = (weights.exp() * (inside - weights)).sum(-1)
        return self._log_density(outputs, picked), entropy

    def encode(self, actions: Tensor) -> Tensor:
        cut = self._cut(self._units(actions))
        found = [part.features(u) for part, u in zip(self._each(), cut, strict=True)]
        return torch.cat([each.to(self.widened.dtype) for each in found], -1)

    def mix(self, log_weights: Tensor, outputs: Tensor) -> Tensor:
        each = outputs.unflatten(-1, (-1, self._one)).clone()  # (..., K, M, one)
        each[..., 0] = each[..., 0].log_softmax(-1) + log_weights[..., None]
        return each.flatten(-3)

    def plausibility(self, outputs: Tensor, actions: Tensor) -> Tensor:
        taken = self.log_prob(outputs, actions)
        less = torch.zeros_like(taken)
        generator = torch.Generator().manual_seed(0)  # the same whatever else is drawn
        for _ in range(_DRAWS):
            noise = self.noise((), generator).to(outputs).expand(*outputs.shape[:-1], -1)
            likely = self._log_density(outputs, self.pick(outputs, noise))
            less += (likely < taken).to(less.dtype) + 0.5 * (likely == taken).to(less.dtype)
        return less / _DRAWS

    @property
    def log_uniform(self) -> float:
        return sum(part.log_uniform for part in self._each())

    def soften(self, network: nn.Sequential, temperature: float) -> None:
        self.widened.mul_(temperature)

    def _each(self) -> Iterator[_Choice | _Numbers]:
        for part in self.parts:
            assert isinstance(part, _Choice | _Numbers)
            yield part

    def _split(self, outputs: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Log-weights (..., M), and of each part its outputs (..., M, size)."""
        each = outputs.unflatten(-1, (-1, self._one))
        weights, *parts = each.split([1, *(part.size for part in self._each())], -1)
        return weights[..., 0].log_softmax(-1), tuple(parts)

    def _cut(self, units: Tensor) -> tuple[Tensor, ...]:
        """Of each part its columns."""
        return units.split([part.width for part in self._each()], -1)

    def _units(self, actions: Tensor) -> Tensor:
        """(..., width): counted entries from 0, real ones in units of the data."""
        rows = actions.flatten(actions.ndim - len(self.shape or ()))
        cut = rows.to(self.widened.dtype).split([part.width for part in self._each()], -1)
        return torch.cat([part.to_units(r) for part, r in zip(self._each(), cut, strict=True)], -1)

    def _log_density(self, outputs: Tensor, units: Tensor, temperature: float = 1.0) -> Tensor:
        weights, each = self._split(outputs)
        at = self._cut(units[..., None, :])
        t = self.widened * temperature
        total = weights
        for part, of_part, here in zip(self._each(), each, at, strict=True):
            total = total + part.log_density(of_part, here, t)
        return total.logsumexp(-1)

    def _pick(self, outputs: Tensor, noise: Tensor, temperature: float) -> Tensor:
        weights, each = self._split(outputs)
        which, *luck = noise.split([1, *(part.luck for part in self._each())], -1)
        acting = by_luck(weights, which[..., 0])
        t = self.widened * temperature
        return torch.cat(
            [
                part.draw(take(of_part, acting), chance, t)
                for part, of_part, chance in zip(self._each(), each, luck, strict=True)
            ],
            -1,
        )


def _parts_of(leaf: Leaf, regression: bool, floor: float) -> Iterator[_Choice | _Numbers]:
    if isinstance(leaf.space, gym.spaces.Box):
        yield _Numbers(leaf.space, leaf.first, regression=regression, floor=floor)
        return
    low, high = (np.ravel(limit) for limit in limits_of(leaf.space))
    for at, (lowest, highest) in enumerate(zip(low, high, strict=True)):
        yield _Choice(int(highest - lowest) + 1, leaf.first + at, int(lowest))
