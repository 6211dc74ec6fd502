"""Behaviour cloning by several weightings of the noisy steps, measured on clean groups left out.

All clones, one for each weighting and fold (two where folds are few), are small networks that train
side by side. Folds are whole groups of the clean set; noisy episodes of a group that is left out
are left out with it. Clones of one fold start from the same weights and draw by the same random
numbers whatever their weighting, so that what differs between them is the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.demonstrations import Demonstrations, split_groups
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.spaces import Array, require_vectors_and_discrete_actions
from sdil.training import seeded
from sdil.windows import STEPS_AT_ONCE, Windows, varying_inputs

Progress = Callable[[int, int], None]
MOST_FOLDS = 5
LOOKS = (25, 50, 75, 100, 150, 200, 250, 300, 400, 500, 600, *range(800, 2_001, 200))
"""After how many updates the clones are measured on the steps left out."""
SURE, GAIN, EPOCHS = 600, 0.005, 25
"""After so many updates training ends where the second half of them gained no weighting more NLL,
or where all steps were gone through so often."""
HIDDEN, BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 256, 1e-3, 5e-4


@dataclass(frozen=True, eq=False)
class Folds:
    """Which clean steps are left out together, and which noisy ones with them."""

    of_group: Array
    """The fold in which each of G clean groups is left out. (G,)"""
    group_of_step: Array
    """The group of each clean step. (clean steps,)"""
    noisy: Array
    """Which noisy steps each of K folds may learn from. (K, noisy steps)"""

    @staticmethod
    def deal(demos: Demonstrations, *, seed: int) -> Folds:
        """At most `MOST_FOLDS` folds; an episode without a group stands alone."""
        clean = demos.clean
        numbers: dict[object, int] = {}
        of_episode = np.array(
            [
                numbers.setdefault(i if group is None else group, len(numbers))
                for i, group in enumerate(clean.groups)
            ]
        )
        folds = min(MOST_FOLDS, len(numbers))
        parts = split_groups(clean.groups, (1.0,) * folds, seed=seed)
        of_group = np.zeros(len(numbers), np.int64)
        noisy = np.ones((folds, demos.noisy.n_steps), bool)
        for fold, part in enumerate(parts):
            of_group[of_episode[part]] = fold
            left_out = {clean.groups[i] for i in part} - {None}
            away = np.array([group in left_out for group in demos.noisy.groups], bool)
            noisy[fold] = ~np.repeat(away, demos.noisy.lengths)
        return Folds(of_group, np.repeat(of_episode, clean.lengths), noisy)

    @property
    def n_groups(self) -> int:
        return len(self.of_group)

    @property
    def of_clones(self) -> Array:
        """The fold of each clone of a weighting: there are several of each where folds are few."""
        return np.tile(np.arange(len(self)), max(1, round(MOST_FOLDS / len(self))))

    def __len__(self) -> int:
        return len(self.noisy)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """What clones by R weightings say of the clean steps that they have not seen."""

    nll: Array
    """Negative log-likelihood of the recorded actions, mean over each group's steps. (R, G)"""
    error: Array
    """The share of steps at which another action is the likeliest. (R, G)"""


def cross_fit(
    demos: Demonstrations,
    folds: Folds,
    weights: Array,
    *,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> CrossFitted:
    """Clone clean steps, which weigh 1, and noisy ones by `weights` (R, noisy steps).

    How many updates a clone gets is what was best on average in the other folds of its weighting:
    no group has a say in how it is measured itself. Two folds have too few others, and use both.
    Only the scale of the inputs, and when nobody gains any more, are told from all groups.
    """
    require_vectors_and_discrete_actions(demos.spaces, "behaviour cloning")
    assert isinstance(demos.spaces.action, gym.spaces.Discrete)
    everything = demos.all
    windows = Windows(everything, 0, varying_inputs(everything))
    index = torch.arange(len(windows))
    standardise = Standardise(windows.observations.shape[1])
    standardise.fit(windows)
    states, actions = standardise(windows.at(index).state), windows.actions_at(index).long()
    with seeded(seed) as generator:
        clones = _clones(folds, len(weights), states.shape[1], int(demos.spaces.action.n))
    drawn = _Draws(folds, weights, generator)
    held = _LeftOut(folds, len(weights))
    optimiser = torch.optim.Adam(
        clones.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
    )
    looks: list[Tensor] = []
    for before, after in pairwise((0, *LOOKS)):
        for batch in drawn.batches(after - before):  # (clones, BATCH)
            logits = clones(states[batch])
            loss = F.cross_entropy(logits.flatten(0, 1), actions[batch].flatten(), reduction="sum")
            optimiser.zero_grad()
            (loss / BATCH).backward()  # each clone's gradient is what it would be alone
            optimiser.step()
        looks.append(held.measure(clones, states, actions))
        if on_progress is not None:
            on_progress(after, LOOKS[-1])
        often = after * BATCH >= EPOCHS * len(windows)
        if after >= SURE and (often or _last_gain(looks) <= GAIN):
            break
    return _at_the_best(torch.stack(looks).numpy(), folds)


def _last_gain(looks: list[Tensor]) -> float:
    """What the second half of the updates has gained the weighting that gained most, in NLL."""
    nll = torch.stack(looks)[:, 0].mean(2)  # (looks, R)
    early = sum(updates <= LOOKS[len(looks) - 1] / 2 for updates in LOOKS)
    return float((nll[:early].min(0).values - nll.min(0).values).max())


def _clones(folds: Folds, rows: int, inputs: int, outputs: int) -> Ensemble:
    """Those of one weighting together, in the order of `of_clones`."""
    first = Ensemble(len(folds.of_clones), inputs, HIDDEN, outputs)
    clones = Ensemble(rows * len(first), inputs, HIDDEN, outputs)
    with torch.no_grad():
        for mine, same in zip(clones.parameters(), first.parameters(), strict=True):
            mine.copy_(same.repeat(rows, 1, 1))
    return clones


class _Draws:
    """Steps to learn from, drawn for each clone by what they weigh."""

    def __init__(self, folds: Folds, weights: Array, generator: torch.Generator) -> None:
        self._generator, self._folds = generator, folds
        self._ladders = []
        for of_row in weights:
            for fold, noisy in enumerate(folds.noisy):
                clean = folds.of_group[folds.group_of_step] != fold
                weight = np.concatenate([clean.astype(float), of_row * noisy])
                steps = np.flatnonzero(weight)
                ladder = torch.from_numpy(np.cumsum(weight[steps]))
                self._ladders.append((torch.from_numpy(steps), ladder))

    def batches(self, count: int) -> Tensor:
        """(count, clones, BATCH)"""
        of_clones, n_folds = self._folds.of_clones, len(self._folds)
        size = (len(of_clones), count, BATCH)
        luck = torch.rand(size, generator=self._generator, dtype=torch.float64)
        found = []
        for first in range(0, len(self._ladders), n_folds):  # of a weighting
            for fold, mine in zip(of_clones, luck, strict=True):
                steps, ladder = self._ladders[first + fold]
                at = torch.searchsorted(ladder, mine * ladder[-1], right=True)
                found.append(steps[at.clamp(max=len(steps) - 1)])
        return torch.stack(found, 1)


class _LeftOut:
    """The steps that clones are measured on."""

    def __init__(self, folds: Folds, rows: int) -> None:
        self._rows, self._folds = rows, folds
        of_step = folds.of_group[folds.group_of_step]
        longest = int(np.bincount(of_step).max())
        steps = torch.zeros(len(folds), longest, dtype=torch.int64)
        groups = torch.full_like(steps, folds.n_groups)  # none: only filled up
        for fold in range(len(folds)):
            mine = torch.from_numpy(np.flatnonzero(of_step == fold))
            steps[fold, : len(mine)] = mine
            groups[fold, : len(mine)] = torch.from_numpy(folds.group_of_step)[mine]
        self._steps, self._groups = steps[folds.of_clones], groups[folds.of_clones]
        self._sizes = torch.from_numpy(np.bincount(folds.group_of_step))

    @torch.no_grad()
    def measure(self, clones: Ensemble, states: Tensor, actions: Tensor) -> Tensor:
        """NLL and error of each group under the clones that have not seen it. (2, R, G)"""
        total = torch.zeros(2, len(clones), self._folds.n_groups + 1, dtype=torch.float64)
        at_once = max(1, STEPS_AT_ONCE // len(clones))
        for steps, groups in zip(
            self._steps.split(at_once, 1), self._groups.split(at_once, 1), strict=True
        ):
            steps, groups = steps.repeat(self._rows, 1), groups.repeat(self._rows, 1)
            logits, taken = clones(states[steps]), actions[steps]
            nll = F.cross_entropy(logits.movedim(2, 1), taken, reduction="none")  # (clones, n)
            wrong = logits.argmax(2) != taken
            total[0].scatter_add_(1, groups, nll.double())
            total[1].scatter_add_(1, groups, wrong.double())
        by_group = total.view(2, self._rows, -1, total.shape[2]).sum(2)[..., :-1]
        of_each = len(self._folds.of_clones) // len(self._folds)
        return by_group / self._sizes / of_each


def _at_the_best(looks: Array, folds: Folds) -> CrossFitted:
    """Each fold as it was when the others were at their best. `looks`: (looks, 2, R, G)"""
    chosen = np.empty(looks.shape[1:])
    for fold in range(len(folds)):
        mine = folds.of_group == fold
        others = ~mine if len(folds) > 2 else np.ones_like(mine)
        best = looks[:, 0][:, :, others].mean(2).argmin(0)  # (R,)
        for row, look in enumerate(best):
            chosen[:, row, mine] = looks[look][:, row, mine]
    return CrossFitted(chosen[0], chosen[1])
