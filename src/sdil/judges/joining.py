"""Several signals of steps become one score: what each is worth, and how many steps are good.

The signals are witnesses that see the same hidden fact, "this step is good", each in its own way
(Dawid and Skene 1979): expectation-maximisation finds how far each can be trusted from how they
agree with one another, and clean steps, which are known to be good, count among the good ones.

How many noisy steps are good cannot be found without an assumption. Ours: *good noisy steps are
rated like clean ones, and hardly any bad one is rated above a line that most clean ones are above.*
Then the share of noisy steps above the line, over the share of clean ones above it, is the share of
good ones. It is read off at seven lines, and the middle three of the seven answers count: low lines
let bad steps pass, high ones rest on few clean steps. The interval holds these three, what groups
drawn anew would give, and a little for what is assumed. Where the lines disagree, it is wide.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdil.judging import GoodShare
from sdil.spaces import Array

N_BINS = 10
_ROUNDS = 5
_TRUST = 0.7  # witnesses are not independent: what one adds to the others counts for less
_ANCHOR = 5.0  # a clean step counts as so many noisy ones
_FEW = 5.0  # as if so many more steps of each kind had been seen
_LINES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)  # shares of clean steps under the lines
_MIDDLE = slice(2, -2)  # of what they give, in order
_ASSUMED = 0.05  # by how much the share may be off for what is assumed
_ERRORS, _FEW_GROUPS = 1.1, 8  # standard errors over groups drawn anew; as n + 8 to n of n groups
_DRAWS = 100
_DEALT = 8  # times that what is said is dealt out anew
_FARTHER = 3.0  # log-odds that the lowest line goes on for
_STEEP = 1e-3  # by which a higher bin is worth more where the data sees no difference


def weigh_signals(clean: list[Array], noisy: list[Array], good_share: float) -> list[Array]:
    """The log-odds of "good" that each of ten bins of each signal is worth.

    Bins hold equal numbers of noisy steps (N,). Expectation-maximisation over the noisy steps,
    begun at the mean of their ranks; clean steps (R,) are good. Within a signal more is never
    worse.
    """
    from scipy.stats import rankdata
    from sklearn.isotonic import IsotonicRegression

    edges = [bin_edges(signal) for signal in noisy]
    good_bins = [_bins(signal, cuts) for signal, cuts in zip(clean, edges, strict=True)]
    bins = [_bins(signal, cuts) for signal, cuts in zip(noisy, edges, strict=True)]
    n = len(noisy[0])
    ranks = np.zeros(n)
    for signal in noisy:
        tells = ~np.isnan(signal)
        ranks[tells] += (rankdata(signal[tells]) - 0.5) / max(tells.sum(), 1) - 0.5
    prior = np.log(good_share / (1 - good_share))
    p = 0.05 + 0.9 * rankdata(ranks) / n
    log_odds = [np.zeros(N_BINS) for _ in noisy]
    for _ in range(_ROUNDS):
        total = np.full(n, prior)
        for i, (of_clean, of_noisy) in enumerate(zip(good_bins, bins, strict=True)):
            tells = of_noisy >= 0
            share = np.bincount(of_noisy[tells], minlength=N_BINS) / max(tells.sum(), 1)
            good = np.bincount(of_noisy[tells], p[tells], N_BINS) + _FEW * share
            good += _ANCHOR * np.bincount(of_clean[of_clean >= 0], minlength=N_BINS)
            bad = np.bincount(of_noisy[tells], (1 - p)[tells], N_BINS) + _FEW * share
            used = share > 0
            ratio = np.log(good[used] / good.sum()) - np.log(bad[used] / bad.sum())
            found = np.zeros(N_BINS)
            found[used] = IsotonicRegression().fit_transform(
                np.flatnonzero(used), ratio, sample_weight=share[used]
            )
            found[~used] = _between_neighbours(found, used)
            log_odds[i] = _TRUST * found + _STEEP * np.arange(N_BINS)
            total += np.where(tells, log_odds[i][of_noisy], 0.0)
        p = 1.0 / (1.0 + np.exp(-total))
    return log_odds


def _between_neighbours(found: Array, used: Array) -> Array:
    """What empty bins are worth: nothing, as far as those that are `used` beside them allow. Where
    values are alike here, those that other networks tell later need not be."""
    at_least = np.maximum.accumulate(np.where(used, found, -np.inf))
    at_most = np.minimum.accumulate(np.where(used, found, np.inf)[::-1])[::-1]
    return np.asarray(np.clip(0.0, at_least[~used], at_most[~used]))


def how_far_apart(said: Array) -> float:
    """How much the sum of what S signals say counts, by the log-odds (S, N) that they give steps
    which are known to be good: 1 where no two of them vary together there, 1/S where all say the
    same.

    Witnesses that see the fact each by itself agree on such steps no more than by chance; what
    they repeat was counted as often as it was said. Of normal log-odds it is the factor that
    makes their sum right.
    """
    together = float(said.sum(0).var()) if said.size else 0.0
    return min(1.0, float(said.var(1).sum()) / together) if together > 0 else 1.0


def how_far_kin_apart(kind: Array, said: Array) -> Array:
    """The same for each of S signals among those of its `kind` (S,) alone: two of a kind would
    otherwise outvote one that sees the fact by itself. (S,)"""
    found = np.ones(len(kind))
    for one in np.unique(kind):
        found[kind == one] = how_far_apart(said[kind == one])
    return found


def how_far_apart_beside(said: Array, join: Callable[[Array], Array], *, seed: int) -> float:
    """The same where `join` adds to the sum (N,) what is said of the steps beside each: signals
    repeat one another, and what they say of a step they repeat at the next.

    What the whole would vary by if nothing were repeated is found by dealing out anew, among these
    steps, what each signal says.
    """
    together = float(join(said.sum(0)).var()) if said.size else 0.0
    if together <= 0:
        return 1.0
    rng = np.random.default_rng([seed, 31])
    apart = [join(np.sum([rng.permutation(each) for each in said], 0)).var() for _ in range(_DEALT)]
    return min(1.0, float(np.mean(apart)) / together)


def bin_edges(signal: Array) -> Array:
    """Where bins with equal numbers of steps meet. (N_BINS - 1,)"""
    known = signal[~np.isnan(signal)]
    if not len(known):
        return np.full(N_BINS - 1, np.inf)
    return np.asarray(np.quantile(known, np.arange(1, N_BINS) / N_BINS))


def bin_middles(signal: Array) -> Array:
    """The median of the values in each bin; NaN in an empty one. (N_BINS,)"""
    bins = _bins(signal, bin_edges(signal))
    return np.array(
        [np.median(signal[bins == b]) if (bins == b).any() else np.nan for b in range(N_BINS)]
    )


def worth(signal: Array, middles: Array, log_odds: Array) -> Array:
    """The log-odds that each value stands for, straight lines between the middles of bins; 0 where
    it is NaN: nothing is known. (N,)

    The lowest line goes on, so that what is far worse than the least tenth of noisy steps is rated
    so; upwards there is no telling.
    """
    used = ~np.isnan(middles)
    if not used.any():
        return np.zeros(len(signal))
    x, y = middles[used], log_odds[used]
    found = np.interp(signal, x, y)
    if len(x) > 1:
        slope = (y[1] - y[0]) / max(x[1] - x[0], 1e-9)
        lower = np.maximum((x[0] - signal) * slope, 0.0)
        found = found - np.minimum(np.nan_to_num(lower), _FARTHER)
    return np.where(np.isnan(signal), 0.0, found)


def estimate_good_share(
    clean: Array, clean_group: Array, noisy: Array, noisy_group: Array, *, seed: int
) -> GoodShare:
    """From joined log-odds of clean and of noisy steps, and which groups they are of."""
    order = np.argsort(clean, kind="stable")
    ranked = clean[order]
    _, of_clean = np.unique(clean_group[order], return_inverse=True)
    _, of_noisy = np.unique(noisy_group, return_inverse=True)
    rng = np.random.default_rng([seed, 7])
    above = len(ranked) - np.searchsorted(ranked, noisy, side="right")
    sorted_noisy = np.argsort(above, kind="stable")  # highest first

    def shares(clean_weight: Array, noisy_weight: Array) -> Array:
        reached = np.cumsum(clean_weight) / clean_weight.sum()
        of_noisy_reached = np.cumsum(noisy_weight[sorted_noisy]) / noisy_weight.sum()
        found = []
        for line in _LINES:
            at = min(int(np.searchsorted(reached, line)), len(ranked) - 1)
            at = int(np.searchsorted(ranked, ranked[at]))  # the first of those that are alike
            # noisy steps that are not under this clean one
            count = int(np.searchsorted(above[sorted_noisy], len(ranked) - at, side="left"))
            higher = of_noisy_reached[count - 1] if count else 0.0
            found.append(higher / max(1.0 - (reached[at - 1] if at else 0.0), 1e-9))
        return np.sort(np.clip(found, 0.0, 1.0))[_MIDDLE]

    def drawn(of: Array) -> Array:
        n = int(of.max()) + 1
        return rng.multinomial(n, np.full(n, 1 / n))[of] + 1e-12

    found = shares(np.ones(len(ranked)), np.ones(len(noisy)))
    anew = np.array([shares(drawn(of_clean), drawn(of_noisy)).mean() for _ in range(_DRAWS)])
    n_clean = int(of_clean.max()) + 1  # few of them, drawn anew, differ too little
    more = _ASSUMED + _ERRORS * (1 + _FEW_GROUPS / n_clean) * float(anew.std())
    low, high = np.clip([found.min() - more, found.max() + more], 0.0, 1.0).tolist()
    return GoodShare(float(found.mean()), low, high)


def _bins(signal: Array, edges: Array) -> Array:
    """-1 where nothing is known. (N,)"""
    return np.where(np.isnan(signal), -1, np.searchsorted(edges, signal, side="right"))
