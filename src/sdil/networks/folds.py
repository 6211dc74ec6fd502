"""Folds of the clean set, to be left out in turn.

They are whole groups; noisy episodes of a group that is left out are left out with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdil.demonstrations import Demonstrations, split_groups
from sdil.spaces import Array

MOST_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Folds:
    """Which clean steps are left out together, and which noisy ones with them."""

    of_group: Array
    """The fold in which each of G clean groups is left out; K or more: in none. (G,)"""
    group_of_step: Array
    """The group of each clean step. (clean steps,)"""
    noisy: Array
    """Which noisy steps each of K folds may learn from. (K, noisy steps)"""

    @staticmethod
    def deal(demos: Demonstrations, *, seed: int) -> Folds:
        """At most `MOST_FOLDS` folds; an episode without a group stands alone."""
        groups = demos.clean.groups
        n_folds = min(MOST_FOLDS, demos.n_clean_groups)
        fold = np.zeros(len(groups), np.int64)
        for k, part in enumerate(split_groups(groups, (1.0,) * n_folds, seed=seed)):
            fold[part] = k
        return Folds.of_episodes(demos, fold)

    @staticmethod
    def of_episodes(demos: Demonstrations, fold: Array) -> Folds:
        """By the fold of each clean episode, the same within a group. (clean episodes,)"""
        groups = demos.clean.groups
        numbers: dict[object, int] = {}
        group_of = np.array(
            [
                numbers.setdefault(i if group is None else group, len(numbers))
                for i, group in enumerate(groups)
            ]
        )
        of_group = np.zeros(len(numbers), np.int64)
        of_group[group_of] = fold
        noisy = np.ones((int(fold.max()) + 1, demos.noisy.n_steps), bool)
        for k, allowed in enumerate(noisy):
            left_out = {groups[i] for i in np.flatnonzero(fold == k)} - {None}
            away = np.array([group in left_out for group in demos.noisy.groups], bool)
            allowed[:] = ~np.repeat(away, demos.noisy.lengths)
        return Folds(of_group, np.repeat(group_of, demos.clean.lengths), noisy)

    def halved(self) -> Folds:
        """The groups of each fold in two folds, where all have two: clones that leave out fewer
        learn more like those that leave out none. What is told by fold goes for both halves."""
        of_group = 2 * self.of_group
        for fold in range(len(self)):
            mine = np.flatnonzero(self.of_group == fold)
            if len(mine) < 2:
                return self
            of_group[mine[len(mine) // 2 :]] += 1
        return Folds(of_group, self.group_of_step, np.repeat(self.noisy, 2, 0))

    @staticmethod
    def leave_out(demos: Demonstrations, last: int) -> Folds:
        """One fold, of the last clean episodes: all others are always learned from."""
        n = len(demos.clean)
        of_group = np.where(np.arange(n) < n - last, 1, 0)
        steps = np.repeat(np.arange(n), demos.clean.lengths)
        return Folds(of_group, steps, np.ones((1, demos.noisy.n_steps), bool))

    @property
    def n_groups(self) -> int:
        return len(self.of_group)

    @property
    def left_out(self) -> Array:
        """The groups that are left out at some time. (G,) booleans"""
        return self.of_group < len(self)

    def of_clones(self, about: int) -> Array:
        """The fold of each clone of a weighting, `about` so many: several where folds are few."""
        return np.tile(np.arange(len(self)), max(1, round(about / len(self))))

    def __len__(self) -> int:
        return len(self.noisy)
