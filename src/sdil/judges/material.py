"""What a judge is fitted to: the steps of both sets, and who may learn from which of them.

Clean demonstrations are few, so none is held out. Groups (people, patients, trials; an episode
without one is its own) are dealt into folds, and each fold has networks that never saw it: they
judge its steps, clean and noisy alike, where anything is decided. The final networks see all.
With validation demonstrations there is nothing to deal: the final networks judge those.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.labels import whole_episodes
from sdil.relative import Relative
from sdil.spaces import Array
from sdil.trajectories import Trajectories
from sdil.windows import Windows, varying_inputs

FOLDS = 5
EPOCH = 20  # updates between two reports of a training


@dataclass(frozen=True, eq=False)
class Material:
    """The steps of the clean set, of the noisy set and of validation, in this order."""

    windows: Windows
    inputs: Tensor
    """The entries of an observation that vary: the others are not looked at."""
    relative: Relative | None
    """How actions are told that say where something should be."""
    n_clean: int
    n_train: int
    """Clean and noisy steps together."""
    trajectory: Array
    """The number of each step's trajectory. (N,)"""
    group: Array
    """The number of each step's group. (N,)"""
    fold: Array
    """The fold of each step; its networks never saw the step's group. (N,)"""
    n_folds: int
    """Folds that clean groups are dealt into; 0 where validation is given, or where there is one
    clean group alone. Noisy groups are always dealt into `FOLDS`, or as many."""
    names: tuple[str, ...]
    """Of the groups."""
    whole: Array
    """Of each trajectory, the number of the one it was cut out of, or its own. (trajectories,)"""

    @staticmethod
    def of(demos: Demonstrations, valid: Demonstrations | None, *, seed: int) -> Material:
        """Deal the groups into folds, the clean ones evenly."""
        train = demos.all
        both = train if valid is None else _together(demos, valid)
        inputs = varying_inputs(train)
        names = [
            g
            if g is not None
            else f"{'clean' if i < len(demos.clean) else 'noisy'}:{name}"
            if i < len(train)
            else f"valid:{name}"
            for i, (name, g) in enumerate(zip(both.ids, both.groups, strict=True))
        ]
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
        group = np.array([number[name] for name in names])
        clean = np.unique(group[: len(demos.clean)])
        n_folds = 0 if valid is not None or len(clean) < 2 else min(FOLDS, len(clean))
        fold = np.zeros(len(number), np.int64)
        rng = np.random.default_rng([seed, 19])
        others = np.setdiff1d(np.arange(len(number)), clean)
        for groups in (clean, others):
            fold[rng.permutation(groups)] = np.arange(len(groups)) % (n_folds or FOLDS)
        steps = np.repeat(np.arange(len(both)), both.lengths)
        whole = np.arange(len(both))
        for piece, episode in whole_episodes(demos).items():
            whole[piece] = len(demos.clean) + episode
        real = isinstance(demos.spaces.action, gym.spaces.Box)
        relative = Relative.find(Windows(train, 0, inputs)) if real else None
        return Material(
            windows=windows_of(both, inputs, relative),
            inputs=inputs,
            relative=relative,
            n_clean=demos.clean.n_steps,
            n_train=train.n_steps,
            trajectory=steps,
            group=group[steps],
            fold=fold[group[steps]],
            n_folds=n_folds,
            names=tuple(number),
            whole=whole,
        )

    @cached_property
    def reference(self) -> Array:
        """Clean steps that are judged by networks that never saw their group. (R,)"""
        if self.n_folds:
            return np.arange(self.n_clean)
        return np.arange(self.n_train, len(self.windows))

    @cached_property
    def noisy(self) -> Array:
        return np.arange(self.n_clean, self.n_train)

    @cached_property
    def unit(self) -> float:
        """The mean length of a clean demonstration, or of the episodes that clean ones were cut
        out of."""
        clean = self.whole[np.unique(self.trajectory[: self.n_clean])]
        return float(np.bincount(self.trajectory)[clean].mean())

    def of_fold(self, fold: int) -> Tensor:
        """The training steps of a fold."""
        return torch.from_numpy(np.flatnonzero(self.fold[: self.n_train] == fold))

    def taken_in_whole(
        self, trajectory: Array, actions: Array, acts: Array, n_actions: int
    ) -> Array | None:
        """How often each counted action was taken in the trajectories that those of R steps
        (R,) were cut out of, where it acted; 0 of what is whole. `actions` and `acts` are of all
        steps (N,). None: all are whole. (R, n_actions)"""
        whole = self.whole
        if (whole == np.arange(len(whole))).all():
            return None
        counts = np.zeros((len(whole), n_actions))
        cut = np.isin(self.trajectory, whole[whole != np.arange(len(whole))]) & acts
        np.add.at(counts, (self.trajectory[cut], actions[cut]), 1.0)
        is_piece = whole[trajectory] != trajectory
        return np.where(is_piece[:, None], counts[whole[trajectory]], 0.0)

    def deal(self, steps: Array, count: int, rng: np.random.Generator) -> Array:
        """Steps whose actions are dealt out at these clean ones, half of them clean and half noisy:
        where motion is steady, the actions of the same trajectory are all alike. (R, count)"""
        half = (len(steps), count // 2)
        sides = [among[rng.integers(len(among), size=half)] for among in (steps, self.noisy)]
        return np.concatenate(sides, 1)

    def learners(
        self,
        among: Array,
        final: int,
        weights: Tensor | None = None,
        folds: int | None = None,
    ) -> Pools:
        """The steps that each network may learn from: one per fold, then `final` that see all.

        `weights` (N,) say how often each is drawn. With fewer `folds` a network leaves out several
        of them: fold k is left out by network k modulo `folds`.
        """
        count = self.n_folds if folds is None else folds
        left_out = self.fold[among] % max(count, 1)
        each = [among[left_out != k] for k in range(count)] + [among] * final
        return Pools([torch.from_numpy(pool) for pool in each], weights)


class Pools:
    """The steps that each of several networks may learn from."""

    def __init__(self, pools: list[Tensor], weights: Tensor | None = None) -> None:
        """`weights` (N,) of all steps say how often each is drawn; without them all are alike."""
        self._sizes = torch.tensor([len(pool) for pool in pools])
        if not bool(self._sizes.all()):
            raise InputError("a fold has nothing to learn from; give more demonstrations")
        self._last = self._sizes[:, None] - 1
        width = int(self._sizes.max())
        self._steps = torch.stack(
            [torch.nn.functional.pad(pool, (0, width - len(pool))) for pool in pools]
        )
        self._reached: Tensor | None = None
        if weights is not None:
            each = weights.double()[self._steps]
            each[torch.arange(width) >= self._sizes[:, None]] = 0.0
            self._reached = each.cumsum(1) / each.sum(1, keepdim=True)

    def each_has(self, which: Tensor) -> bool:
        """Whether each network may learn from one of the steps that `which` (N,) marks."""
        there = which[self._steps] & (torch.arange(self._steps.shape[1]) <= self._last)
        return bool(there.any(1).all())

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(members, count)"""
        if self._reached is None:
            drawn = torch.rand(len(self._sizes), count, generator=generator)
            at = (drawn * self._sizes[:, None]).long()
        else:
            drawn = torch.rand(len(self._sizes), count, generator=generator, dtype=torch.float64)
            at = torch.searchsorted(self._reached, drawn)
        return self._steps.gather(1, at.minimum(self._last))


def windows_of(packed: Trajectories, inputs: Tensor, relative: Relative | None) -> Windows:
    """Steps as the judge sees them."""
    windows = Windows(packed, 0, inputs)
    if relative is not None:
        windows.actions = relative.of(windows)
    return windows


def _together(demos: Demonstrations, valid: Demonstrations) -> Trajectories:
    if valid.spaces != demos.spaces:
        raise InputError("validation and training demonstrations have different spaces")
    every = [*demos.clean, *demos.noisy, *valid.clean]
    return Trajectories.pack(every, demos.spaces)
