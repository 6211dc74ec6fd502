"""Whom to hear: two grounds, and both count groups, never steps.

- The step output hears a signal that rates the actions of clean groups it never saw above the same
  actions dealt out anew within their trajectory: whoever cannot tell those knows nothing of steps.
  Real numbers are held against those of other steps, half of them noisy.
- The episode output asks first, of all signals together, whether clean groups that they never saw
  stand above noisy ones: one test, so that chance has one try. If they do, it hears each signal
  that rather says so itself. Good people do not differ at each step; they are quicker, and that
  shows over a whole trial.

Thousands of steps of one person are one person: a test over steps hears chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sdil.spaces import Array

EPISODE_LEVEL = 0.05
"""How often chance alone may be heard for episodes; for steps see `step_level`."""
RATHER = 0.5
"""Where clean groups stand out, or of few groups where another signal of steps is heard, signals
are heard that do better than chance does at its median."""
MANY, PLENTY = 8, 20
"""Clean groups from which on a test has some power, and from which on it has much."""
UNHARMED = 0.5
"""Consensus on real actions is heard where it rather predicts clean groups better than worse."""
UNANCHORED = ("efficiency",)
"""Step signals that know nothing of what clean demonstrations aim at."""
OF_TIME = ("progress", "value", "efficiency")
"""Signals that of real actions are all learned from how long things took: that they agree with each
other says nothing for any of them."""
APART, AGREES = 0.6, 0.25
"""Areas and rank correlations from which on a signal of steps is taken to be about the same."""
_MAY_HOLD_A_BAD_ONE = 4  # clean groups
_LOW, _FAR_APART = 0.25, 0.8  # an odd one is among this share of noisy ones; the others' area
_DEALT = 4_000  # times that groups are dealt out anew
_RANKED = 5  # groups from which on ranks are tested: under it no order of them is rare enough


def step_level(name: str, groups: int, *, beside: bool = False) -> float:
    """How often chance alone may be heard for steps.

    Of few groups hardly any order is rare, and there a signal that is refused wrongly costs more
    than one that is heard wrongly: what it is worth is weighed anyway. So `beside` one that passed
    it is enough to do better than chance does at its median. Not so without an aim. Of plenty, what
    knows anything of steps is not near the edge of chance.
    """
    if groups >= PLENTY:
        return 0.02
    if groups >= MANY or name in UNANCHORED:
        return 0.10
    return RATHER if beside else 0.25


@dataclass(frozen=True)
class Ground:
    """How a signal fares on the ground of an output."""

    figure: float
    """Of the step output: the share of clean groups whose own actions it rates higher. Of the
    episode output: the area under the ROC curve, clean against noisy groups. NaN: not to be had."""
    chance: float
    """How often chance alone gives as much."""
    groups: int
    """Clean groups that were looked at."""

    def heard(self, level: float) -> bool:
        return self.chance < level


NOTHING = Ground(np.nan, 1.0, 0)


def of_steps(
    table: Array, actions: Array, trajectory: Array, group: Array, dealt: Array | None = None
) -> Ground:
    """`table` (R, A) is what the signal says of every action at R clean steps; NaN: nothing.

    Over all ways to deal the actions of a trajectory out anew, a step has each of them as often as
    it occurs there: the mean needs no drawing. `dealt` (R, A) says how often where it is not among
    these steps that one should count; 0 throughout where it is.
    """
    known = ~np.isnan(table[np.arange(len(actions)), actions])
    if not known.any():
        return NOTHING
    table, actions, trajectory, group = (x[known] for x in (table, actions, trajectory, group))
    _, place = np.unique(trajectory, return_inverse=True)
    taken = np.zeros((place.max() + 1, table.shape[1]))
    np.add.at(taken, (place, actions), 1.0)
    taken = taken[place]
    if dealt is not None:
        taken = np.where(dealt[known].any(1, keepdims=True), dealt[known], taken)
    share = taken / taken.sum(1, keepdims=True)
    filled = np.where(np.isnan(table), 0.0, table)
    told = (share * ~np.isnan(table)).sum(1)
    anew = (share * filled).sum(1) / np.maximum(told, 1e-9)
    return of_gains(table[np.arange(len(actions)), actions] - anew, group)


def above_dealt(own: Array, dealt: Array) -> Array:
    """The share of dealt actions (R, D) that own ones (R,) stand above, less that which they stand
    under: densities of single steps are too far apart for means to be fair. (R,)"""
    return np.asarray(np.sign(own[:, None] - dealt).mean(1))


def of_gains(gain: Array, group: Array) -> Ground:
    """By how much a signal rates own actions above those dealt out anew; NaN: it says nothing."""
    known = ~np.isnan(gain)
    if not known.any():
        return NOTHING
    gains = _by_group(gain[known], group[known])
    return Ground(float((gains > 0).mean()), _chance(gains), len(gains))


def separation(clean: Array, noisy: Array) -> float:
    """The area under the ROC curve of clean steps against noisy ones; 0.5 where there are none."""
    from scipy.stats import rankdata

    a, b = clean[~np.isnan(clean)], noisy[~np.isnan(noisy)]
    if not len(a) or not len(b):
        return 0.5
    ranks = rankdata(np.concatenate([a, b]))[: len(a)]
    return float((ranks.mean() - (len(a) + 1) / 2) / len(b))


def without_kin(name: str, told: Mapping[str, Array]) -> dict[str, Array]:
    """What a signal can be held against, beside itself: others that are not learned from the same;
    all where there are no such."""
    mine = {n: t for n, t in told.items() if n == name or n not in OF_TIME or name not in OF_TIME}
    return mine if len(mine) > 1 else dict(told)


def agreement_with_others(name: str, told: Mapping[str, Array]) -> float:
    """The rank correlation of a signal with the sum of the others' ranks. All are (N,)."""
    from scipy.stats import rankdata

    def ranks(signal: Array) -> Array:
        known = ~np.isnan(signal)
        placed = np.full(len(signal), 0.5)
        placed[known] = rankdata(signal[known]) / max(int(known.sum()), 1)
        return placed

    others = np.sum([ranks(signal) for other, signal in told.items() if other != name], 0)
    mine, theirs = ranks(told[name]), rankdata(others)
    if np.ptp(mine) == 0 or np.ptp(theirs) == 0:
        return 0.0
    return float(np.corrcoef(mine, theirs)[0, 1])


def chance_of_gain(gain: Array, group: Array) -> float:
    """How often chance alone makes the gains of steps as large, over groups."""
    return _chance(_by_group(gain, group))


def of_groups(clean: Array, clean_group: Array, noisy: Array, noisy_group: Array) -> Ground:
    """By the mean of a signal over each group; NaN: it says nothing of a step.

    By ranks, and without the lowest tenth of the clean groups, from four of them on at least one:
    a clean set may hold a bad demonstration. What chance gives is found by dealing out the groups
    anew, with the same liberty.
    """
    from scipy.stats import rankdata

    a, b = _by_group(clean, clean_group), _by_group(noisy, noisy_group)
    if not len(a) or not len(b) or np.ptp(np.concatenate([a, b])) == 0:
        return NOTHING
    ranks = rankdata(np.concatenate([a, b]))
    return Ground(
        separation(ranks[: len(a)], ranks[len(a) :]), _chance_of_sum(ranks, len(a)), len(a)
    )


@dataclass(frozen=True)
class Standing:
    """Where groups stand by several signals together."""

    chance: float
    """How often chance alone sets as many groups as far above the others."""
    odd: Array
    """The numbers of clean groups that stand among the lowest noisy ones while the other clean ones
    stand far above: at most a tenth of them, from four on one."""


def standing(told: Mapping[str, Array], clean: Array, noisy: Array, group: Array) -> Standing:
    """By the sum of the signals' normal scores, on the same terms as `of_groups`.

    `told` are signals of all steps and `group` their groups, `clean` and `noisy` the steps to look
    at; a signal that says nothing of a group puts it in the middle.
    """
    from scipy.stats import norm, rankdata

    who, n = np.unique(group[clean]), len(np.unique(group[clean]))
    sides = [(steps, np.unique(group[steps], return_inverse=True)[1]) for steps in (clean, noisy)]
    total = np.zeros(sum(int(place.max(initial=-1)) + 1 for _, place in sides))
    for signal in told.values():
        means = np.concatenate([_means(signal[steps], place) for steps, place in sides])
        known = ~np.isnan(means)
        scores = norm.ppf(rankdata(means[known]) / (known.sum() + 1))
        if known.any() and np.ptp(scores) > 0:
            total[known] += scores / scores.std()
    if not n or n == len(total) or np.ptp(total) == 0:
        return Standing(1.0, who[:0])
    lowest = np.argsort(total[:n])[: _spared(n)]
    others = np.delete(total[:n], lowest)
    low = lowest[total[lowest] < np.quantile(total[n:], _LOW)]
    far = separation(others, total[n:]) >= _FAR_APART
    return Standing(_chance_of_sum(total, n), who[low] if far else who[:0])


def _spared(n_clean: int) -> int:
    """How many of the clean groups may be bad ones."""
    return 0 if n_clean < _MAY_HOLD_A_BAD_ONE else -(-n_clean // 10)


def _chance_of_sum(values: Array, n_clean: int) -> float:
    """How often groups that are dealt out anew have as large a sum as the first `n_clean`."""
    spared = _spared(n_clean)

    def sums(of_clean: Array) -> Array:
        return np.sort(of_clean, -1)[..., spared:].sum(-1)

    anew = sums(values[_dealt_anew(len(values), n_clean)])
    return float((1 + int((anew >= sums(values[:n_clean]) - 1e-9).sum())) / (1 + _DEALT))


@lru_cache(maxsize=4)
def _dealt_anew(groups: int, clean: int) -> Array:
    """Which of the groups are clean ones where they are dealt out anew. (_DEALT, clean)"""
    rng = np.random.default_rng(0)
    return np.stack([rng.permutation(groups)[:clean] for _ in range(_DEALT)])


def _by_group(values: Array, group: Array) -> Array:
    """The mean of each group of which anything is known."""
    means = _means(values, np.unique(group, return_inverse=True)[1])
    return means[~np.isnan(means)]


def _means(values: Array, place: Array) -> Array:
    """The mean of each place; NaN where nothing is known."""
    known = ~np.isnan(values)
    n = int(place.max(initial=-1)) + 1
    counts = np.bincount(place[known], minlength=n)
    sums = np.bincount(place[known], values[known], minlength=n)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _chance(gains: Array) -> float:
    """That gains of groups are above 0 by chance: by their ranks, or with few by their mean."""
    from scipy.stats import ttest_1samp, wilcoxon

    if len(gains) < 2 or not gains.any():
        return 1.0
    if len(gains) >= _RANKED:
        return float(wilcoxon(gains, alternative="greater").pvalue)
    if np.ptp(gains) == 0:
        return 0.0 if gains[0] > 0 else 1.0
    return float(ttest_1samp(gains, 0.0, alternative="greater").pvalue)
