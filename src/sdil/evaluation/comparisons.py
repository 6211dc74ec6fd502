"""What a few seeds can tell: means with intervals, and who is better, honestly.

Interquartile mean, probability of improvement and performance profiles are those of Agarwal et al.
("Deep reinforcement learning at the edge of the statistical precipice", NeurIPS 2021), and agree
with their package `rliable`. Runs of one seed saw the same demonstrations: differences are paired.

`scores` are arrays (runs, tasks).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sdil.errors import InputError
from sdil.spaces import Array

RESAMPLES = 2_000
Verdict = Literal["better", "worse", "cannot tell with this many seeds"]


@dataclass(frozen=True)
class Estimate:
    """A value and its 95% interval; none where a single run leaves none."""

    value: float
    low: float | None
    high: float | None


def mean_and_deviation(values: Array) -> tuple[float, float | None]:
    """Mean and standard deviation (n - 1) over runs. (n,)"""
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else None


def interquartile_mean(scores: Array) -> Array:
    """The mean of the middle half of all runs of all tasks. (..., runs, tasks) -> (...)"""
    ordered = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = int(0.25 * ordered.shape[-1])
    return np.asarray(ordered[..., cut : ordered.shape[-1] - cut].mean(-1))


def probability_of_improvement(ours: Array, theirs: Array) -> Array:
    """How likely a run of ours beats one of theirs, a draw counted half; mean over tasks.

    (..., runs, tasks) and (..., their runs, tasks) -> (...)
    """
    mine, other = ours[..., :, None, :], theirs[..., None, :, :]
    return np.asarray((mine > other).mean((-3, -2, -1)) + (mine == other).mean((-3, -2, -1)) / 2)


def performance_profile(scores: Array, thresholds: Array) -> Array:
    """The share of runs above each threshold, over all tasks.

    (..., runs, tasks) -> (..., len(thresholds))
    """
    return np.stack([(scores > threshold).mean((-2, -1)) for threshold in thresholds], -1)


def resampled(scores: Array, resamples: int = RESAMPLES, seed: int = 0) -> Array:
    """Which runs each stratified resample takes of each task. (resamples, runs, tasks)"""
    draw = np.random.default_rng(seed)
    return draw.integers(len(scores), size=(resamples, *scores.shape))


def bootstrap(
    statistic: Callable[..., Array], *scores: Array, resamples: int = RESAMPLES, seed: int = 0
) -> Estimate:
    """A statistic of one or more sets of scores, with its stratified bootstrap 95% interval.

    Runs are drawn anew within each task (and each set), as `rliable` does.
    """
    value = float(statistic(*scores))
    if min(len(s) for s in scores) < 2:
        return Estimate(value, None, None)
    again = (
        np.take_along_axis(s[None], resampled(s, resamples, seed + i), 1)
        for i, s in enumerate(scores)
    )
    low, high = np.percentile(statistic(*again), (2.5, 97.5))
    return Estimate(value, float(low), float(high))


def profile_band(
    scores: Array, thresholds: Array, *, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Array, Array, Array]:
    """A performance profile and its pointwise 95% band. (len(thresholds),) each"""
    again = np.take_along_axis(scores[None], resampled(scores, resamples, seed), 1)
    low, high = np.percentile(performance_profile(again, thresholds), (2.5, 97.5), axis=0)
    return performance_profile(scores, thresholds), low, high


def paired_difference(ours: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """Ours minus theirs, over the seeds that both have, with Student's 95% interval."""
    seeds = sorted(set(ours) & set(theirs))
    if not seeds:
        return None
    return mean_interval(np.array([ours[seed] - theirs[seed] for seed in seeds]))


@dataclass(frozen=True)
class Paired:
    """Two methods over the same seeds (or tasks, or groups)."""

    difference: Estimate
    """Ours minus theirs, mean over pairs, with Student's 95% interval."""
    verdict: Verdict
    """Of that interval: where it holds 0, nothing can be told."""
    pairs: int
    wins: int
    """Pairs in which ours is higher."""


def paired(
    ours: Mapping[int, float] | Sequence[float], theirs: Mapping[int, float] | Sequence[float]
) -> Paired:
    """Compare two methods pair by pair: the same seed gives the same demonstrations, so that its
    luck cancels. Give a figure per seed, as mappings or as sequences in the same order; higher is
    better. `sdil study` compares rows likewise."""
    if not isinstance(ours, Mapping) and not isinstance(theirs, Mapping):
        if len(ours) != len(theirs):
            raise InputError(f"{len(ours)} figures cannot be paired with {len(theirs)}")
        ours, theirs = dict(enumerate(ours)), dict(enumerate(theirs))
    if not isinstance(ours, Mapping) or not isinstance(theirs, Mapping):
        raise InputError("give two mappings from seeds to figures, or two sequences")
    difference = paired_difference(ours, theirs)
    if difference is None:
        raise InputError("the two have no seed in common, so there is nothing to pair")
    common = set(ours) & set(theirs)
    wins = sum(ours[seed] > theirs[seed] for seed in common)
    return Paired(difference, verdict(difference), len(common), wins)


def mean_interval(values: Array) -> Estimate:
    """A mean over independent values (n,), with Student's 95% interval."""
    mean, deviation = mean_and_deviation(values)
    if deviation is None:
        return Estimate(mean, None, None)
    from scipy.special import stdtrit  # `scipy.stats.t.ppf`, which takes a second to import

    reach = float(stdtrit(len(values) - 1, 0.975)) * deviation / math.sqrt(len(values))
    return Estimate(mean, mean - reach, mean + reach)


def verdict(difference: Estimate | None) -> Verdict:
    """What an interval of a difference says: where it holds 0, nothing."""
    if difference is None or difference.low is None or difference.high is None:
        return "cannot tell with this many seeds"
    if difference.low > 0:
        return "better"
    return "worse" if difference.high < 0 else "cannot tell with this many seeds"
