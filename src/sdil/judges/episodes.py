"""How well did this go? The second answer, of stretches and whole episodes.

Good people do not differ at each step; they are quicker. So each signal is looked at over
some dozens of steps around each step, and heard where clean groups stand above noisy ones and it
says so too (`hearing.py`). The answer is the plain sum of those that are heard, each in its own
standard deviations, and is 0 where a stretch is as likely among clean ones as among noisy ones.

The signal "pace" is told here: how often each action is taken and each feature changes, and by
regression which of these rates clean groups have and noisy ones have not. It knows who is
good, and nothing of single steps. Of real numbers it looks at what practitioners look at: how large
actions are and how far things move (idling), how much an action differs from the one before (jerk),
and how often it is the most that is ever done (saturation).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from sdil.heads import ActionHead, counts_actions
from sdil.judges.hearing import EPISODE_LEVEL, RATHER, Ground, of_groups, standing
from sdil.judges.material import FOLDS, Material
from sdil.spaces import Array
from sdil.windows import Windows

REACH = 30  # steps to either side that belong to the stretch around a step
_APART = 15  # steps between the stretches that something is fitted to
_STEEPEST = 2.0  # log-odds per standard deviation of noisy stretches: their order must stay visible
_AT_LIMIT = 0.01  # of what the data shows: so near to its ends an action is the most that is done
_PENALTY = 0.3  # on the weights of pace: there are more rates than people


class Pace(nn.Module):
    """A linear regression on rates."""

    mean: Tensor
    scale: Tensor
    weights: Tensor
    bias: Tensor

    def __init__(self, n_rates: int) -> None:
        super().__init__()
        for name in ("mean", "scale", "weights"):
            self.register_buffer(name, torch.zeros(n_rates, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros((), dtype=torch.float64))

    def forward(self, rates: Array) -> Array:
        """How much rather clean than noisy. (B,)"""
        scaled = (rates - self.mean.numpy()) * self.scale.numpy()
        return np.asarray(scaled @ self.weights.numpy() + self.bias.numpy())

    def learn(self, rates: Array, is_clean: Array) -> None:
        """Regression on clean (1) or noisy (-1), as much weight on either; in closed form."""
        mean, spread = rates.mean(0), rates.std(0)
        scale = np.where(spread > 1e-9, 1 / np.maximum(spread, 1e-9), 0.0)
        weight = np.where(is_clean, 0.5 / is_clean.sum(), 0.5 / (~is_clean).sum())
        x = np.column_stack([(rates - mean) * scale, np.ones(len(rates))])
        penalty = np.diag(np.append(np.full(rates.shape[1], _PENALTY), 0.0))
        weighed = x * weight[:, None]
        found = np.linalg.solve(x.T @ weighed + penalty, weighed.T @ np.where(is_clean, 1.0, -1.0))
        for name, value in (("mean", mean), ("scale", scale), ("weights", found[:-1])):
            getattr(self, name).copy_(torch.from_numpy(value))
        self.bias.fill_(float(found[-1]))


def cross_fit_pace(material: Material, head: ActionHead, odd: Array) -> tuple[Pace, Array]:
    """Pace that has seen all but the `odd` groups, and what those say of each step (N,) that never
    saw its group."""
    rates = rates_of(material.windows, head)
    at = stretches(material.windows.times.numpy())
    is_clean = np.arange(len(rates)) < material.n_clean
    learns = at & (np.arange(len(rates)) < material.n_train)
    learns &= ~(is_clean & np.isin(material.group, odd))
    pace = Pace(rates.shape[1])
    pace.learn(rates[learns], is_clean[learns])
    told = pace(rates)
    for k in range(material.n_folds or FOLDS):
        mine = material.fold == k
        if not material.n_folds:  # validation is nobody's, and clean ones need no judging
            mine &= ~is_clean & (np.arange(len(rates)) < material.n_train)
        seen = learns & ~mine
        if mine.any() and 0 < is_clean[seen].sum() < seen.sum():
            without = Pace(rates.shape[1])
            without.learn(rates[seen], is_clean[seen])
            told[mine] = without(rates[mine])
    return pace, told


class Episodes(nn.Module):
    """What is heard of whole stretches, and what it amounts to."""

    mean: Tensor
    """Of each signal over noisy stretches; NaN where it is not heard. (S,)"""
    scale: Tensor
    line: Tensor
    """Slope and intercept: from the sum to log-odds of "clean". (2,)"""
    chance: Tensor
    """How often chance alone sets clean groups as far above noisy ones, by all signals. ()"""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names = names
        self.register_buffer("mean", torch.full((len(names),), torch.nan, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(len(names), dtype=torch.float64))
        self.register_buffer("line", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("chance", torch.ones((), dtype=torch.float64))

    @property
    def heard(self) -> list[str]:
        known = (~self.mean.isnan()).tolist()
        return [name for name, is_known in zip(self.names, known, strict=True) if is_known]

    def learn(
        self, told: Mapping[str, Array], material: Material
    ) -> tuple[dict[str, Ground], Array]:
        """How each signal fares, and the clean groups that look odd.

        `told` are the signals (N,) by networks that never saw a step's group.
        """
        from sklearn.linear_model import LogisticRegression

        clean, noisy = material.reference, material.noisy
        grounds = {
            name: of_groups(
                signal[clean], material.group[clean], signal[noisy], material.group[noisy]
            )
            for name, signal in told.items()
        }
        stand = standing(told, clean, noisy, material.group)
        self.chance.fill_(stand.chance)
        out = stand.chance < EPISODE_LEVEL
        heard = [n for n in self.names if out and n in told and grounds[n].heard(RATHER)]
        times = material.windows.times.numpy()
        at = stretches(times)
        around = {name: over_stretches(told[name], times) for name in heard}
        for name in heard:
            values = around[name][noisy]
            i = self.names.index(name)
            self.mean[i] = float(np.nanmean(values))
            self.scale[i] = 1.0 / max(float(np.nanstd(values)), 1e-9)
        if heard:
            total = self._sum(around)
            some = np.concatenate([clean[at[clean]], noisy[at[noisy]]])
            model = LogisticRegression(class_weight="balanced")
            model.fit(total[some, None], np.isin(some, clean))
            slope, offset = max(float(model.coef_[0, 0]), 1e-3), float(model.intercept_[0])
            gentle = min(slope, _STEEPEST / max(float(np.std(total[noisy])), 1e-9))
            self.line[0], self.line[1] = gentle, offset * gentle / slope  # 0 stays where it is
        return grounds, stand.odd if heard else stand.odd[:0]

    def forward(self, told: Mapping[str, Array], times: Array) -> tuple[Array, dict[str, Array]]:
        """How well it goes around each step (N,), and the same by each signal alone."""
        around = {name: over_stretches(told[name], times) for name in self.heard}
        slope, offset = self.line.tolist()
        alone = {
            name: np.tanh((slope * len(around) * self._standard(name, around[name]) + offset) / 2)
            for name in around
        }
        return np.tanh((slope * self._sum(around) + offset) / 2), alone

    def _sum(self, around: Mapping[str, Array]) -> Array:
        total = sum(self._standard(name, values) for name, values in around.items())
        return np.asarray(total)

    def _standard(self, name: str, values: Array) -> Array:
        i = self.names.index(name)
        return np.nan_to_num((values - float(self.mean[i])) * float(self.scale[i]))


def stretches(times: Array) -> Array:
    """Steps around which stretches are looked at where something is fitted: apart, and one at the
    least of each episode. (N,) booleans"""
    first = np.flatnonzero(times == 0)
    lengths = np.diff(np.append(first, len(times)))
    middle = np.repeat(np.minimum(lengths // 2, _APART // 2), lengths)
    return np.asarray(times % _APART == middle)


def over_stretches(values: Array, times: Array) -> Array:
    """The mean over the stretch around each step, of what is known; NaN where nothing is.

    (N,) or (N, R), of one episode after the other.
    """
    if values.ndim == 2:  # one after the other: together they take several times their memory
        return np.stack([over_stretches(column, times) for column in values.T], 1)
    first = np.flatnonzero(times == 0)
    lengths = np.diff(np.append(first, len(times)))
    begin = np.repeat(first, lengths)
    place = np.arange(len(times))
    start = np.maximum(begin, place - REACH)
    stop = np.minimum(begin + np.repeat(lengths, lengths), place + REACH + 1)
    known = ~np.isnan(values)
    sums = np.concatenate([np.zeros_like(values[:1]), np.cumsum(np.where(known, values, 0.0), 0)])
    counts = np.concatenate([np.zeros_like(values[:1]), np.cumsum(known, 0)])
    count = counts[stop] - counts[start]
    return np.where(count > 0, (sums[stop] - sums[start]) / np.maximum(count, 1), np.nan)


def count_rates(head: ActionHead, n_inputs: int) -> int:
    """How many rates `rates_of` looks at."""
    return n_inputs + head.encoded * (1 if counts_actions(head) else 3)


def rates_of(windows: Windows, head: ActionHead) -> Array:
    """How often each action is taken and each feature changes around each step. (N, A + I)

    Of real numbers how much of each entry there is, how much that differs from the step before, how
    often it is the lowest or the highest recorded, and how far each feature moves. (N, 3 A + I)
    """
    parts = []
    for index in windows.parts():
        following, exists = windows.next_states_at(index)
        actions = windows.actions_at(index)
        if counts_actions(head):
            changed = (following != windows.at(index).state).double()
            taken = head.used(actions).double()
        else:
            changed = (following.double() - windows.at(index).state.double()).abs()
            taken = _habits(windows, index, head)
        changed[~exists] = torch.nan
        parts.append(torch.cat([taken, changed], 1))
    return np.nan_to_num(over_stretches(torch.cat(parts).numpy(), windows.times.numpy()))


def _habits(windows: Windows, index: Tensor, head: ActionHead) -> Tensor:
    """Of each entry of an action that is a real number: how much, jerk, saturation. (B, 3 A)"""
    now = head.encode(windows.actions_at(index))
    jerk = (now - head.encode(windows.actions_at((index - 1).clamp(min=0)))).abs()
    jerk[windows.times[index] == 0] = torch.nan
    low, high = (getattr(head, name, now.new_full((1,), torch.nan)) for name in ("low", "high"))
    most = (now <= low + _AT_LIMIT * (high - low)) | (now >= high - _AT_LIMIT * (high - low))
    return torch.cat([head.used(windows.actions_at(index)), jerk, most.to(now.dtype)], 1).double()
