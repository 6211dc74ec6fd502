"""Several signals become one score: whom to hear, and what each is worth.

The signals are joined as witnesses that see the same hidden fact, "this step is good", each in its
own way (Dawid and Skene 1979): expectation-maximisation finds how far each can be trusted from how
they agree with one another. A signal that does not even rate held-out clean steps above noisy ones
is not heard. What cannot be found from such data is how many noisy steps are good: `good_share` is
assumed.
"""

from __future__ import annotations

import numpy as np

from sdil.spaces import Array

N_BINS = 10
_ROUNDS = 5  # more of them fade what only two signals agree on
_TRUST = 0.7  # witnesses are not independent: what one adds to the others counts for less
_STANDARD_ERRORS = 2.0  # by which a signal must rate clean steps above noisy ones to be heard


def separation(clean: Array, noisy: Array) -> tuple[float, float]:
    """How well a signal rates clean steps above noisy ones: the area under the ROC curve, and the
    area beyond which it is no chance (Mann and Whitney). NaN where one of them has no steps.
    """
    from scipy.stats import rankdata

    a, b = clean[~np.isnan(clean)], noisy[~np.isnan(noisy)]
    if not len(a) or not len(b):
        return np.nan, np.nan
    ranks = rankdata(np.concatenate([a, b]))[: len(a)]
    area = (ranks.mean() - (len(a) + 1) / 2) / len(b)
    error = np.sqrt((len(a) + len(b) + 1) / (12 * len(a) * len(b)))
    return float(area), float(0.5 + _STANDARD_ERRORS * error)


def weigh_signals(signals: list[Array], good_share: float) -> tuple[list[Array], list[Array]]:
    """Bins of each signal, and the log-odds of "good" that each bin is worth.

    Expectation-maximisation over the noisy steps (N,), begun at the mean of their ranks. Within a
    signal more is never worse. A signal that is alone has nobody to agree with: its ranks decide.
    """
    from scipy.stats import rankdata
    from sklearn.isotonic import IsotonicRegression

    n = len(signals[0])
    edges, bins = [], []
    ranks = np.zeros(n)
    for signal in signals:
        known = ~np.isnan(signal)
        cuts = np.quantile(signal[known], np.arange(1, N_BINS) / N_BINS) if known.any() else None
        edges.append(np.full(N_BINS - 1, np.inf) if cuts is None else cuts)
        bins.append(np.where(known, np.searchsorted(edges[-1], signal, side="right"), -1))
        ranks[known] += (rankdata(signal[known]) - 0.5) / known.sum() - 0.5
    prior = np.log(good_share / (1 - good_share))
    p = 0.05 + 0.9 * rankdata(ranks) / n
    log_odds = [np.zeros(N_BINS) for _ in signals]
    for _ in range(_ROUNDS if len(signals) > 1 else 1):
        total = np.full(n, prior)
        for i, signal_bins in enumerate(bins):
            known = signal_bins >= 0
            share = np.bincount(signal_bins[known], minlength=N_BINS) / max(known.sum(), 1)
            few = 5.0 * share  # as if five more steps of each kind had been seen
            good = np.bincount(signal_bins[known], p[known], N_BINS) + few
            bad = np.bincount(signal_bins[known], 1 - p[known], N_BINS) + few
            used = share > 0
            ratio = np.log(good[used] / good.sum()) - np.log(bad[used] / bad.sum())
            found = np.zeros(N_BINS)
            found[used] = IsotonicRegression().fit_transform(
                np.flatnonzero(used), ratio, sample_weight=share[used]
            )
            log_odds[i] = _TRUST * found
            total += np.where(known, log_odds[i][signal_bins], 0.0)
        p = 1.0 / (1.0 + np.exp(-total))
    return edges, log_odds


def worth(signal: Array, edges: Array, log_odds: Array) -> Array:
    """The log-odds that each value stands for; 0 where it is NaN: nothing is known. (N,)"""
    found = log_odds[np.searchsorted(edges, signal, side="right")]
    return np.where(np.isnan(signal), 0.0, found)
