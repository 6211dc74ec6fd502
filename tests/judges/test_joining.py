"""Several signals become one score."""

from __future__ import annotations

import numpy as np
import pytest
from corridor import corridor, fit
from scipy.optimize import isotonic_regression
from sklearn.metrics import roc_auc_score

import sdil
from sdil.judges import joining
from sdil.judges.joining import (
    _ASSUMED,
    _DRAWS,
    _ERRORS,
    _FEW_GROUPS,
    _LINES,
    N_BINS,
    GoodShare,
    bin_edges,
    bin_middles,
    estimate_good_share,
    how_far_apart,
    how_far_apart_beside,
    how_far_kin_apart,
    weigh_signals,
    worth,
)


def witnesses(seed: int = 1):
    """Good steps, and what a sharp, a fair and a random witness say of them: clean and noisy."""
    draw = np.random.default_rng(seed)
    good = np.concatenate([np.ones(400, bool), draw.random(4_000) < 0.5])
    told = [good * gap + draw.standard_normal(4_400) for gap in (2.5, 1.5, 0.0)]
    return good[400:], [t[:400] for t in told], [t[400:] for t in told]


def test_witnesses_are_weighed_by_how_they_agree():
    good, clean, noisy = witnesses()
    log_odds = weigh_signals(clean, noisy, 0.5)
    joined = sum(worth(s, bin_middles(s), o) for s, o in zip(noisy, log_odds, strict=True))
    assert roc_auc_score(good, joined) > max(roc_auc_score(good, s) for s in noisy)
    sharp, fair, coin = (np.ptp(odds) for odds in log_odds)
    assert min(sharp, fair) > 10 * coin
    for odds in log_odds:
        assert (np.diff(odds) > 0).all()  # more is never worse, and equals stay in order


def weighed_by_counting(clean, noisy, good_share):
    """What `weigh_signals` promises, bin by bin and step by step."""
    n = len(noisy[0])
    mean_rank = [0.0] * n
    for signal in noisy:
        values = sorted(v for v in signal if v == v)
        for i, v in enumerate(signal):
            if v == v:
                below, upto = np.searchsorted(values, v), np.searchsorted(values, v, "right")
                mean_rank[i] += ((below + upto) / 2) / len(values) - 0.5
    alike = [(sum(m < r for m in mean_rank), sum(m <= r for m in mean_rank)) for r in mean_rank]
    p = [0.05 + 0.9 * (below + upto + 1) / 2 / n for below, upto in alike]
    odds = [np.zeros(N_BINS) for _ in noisy]
    for _ in range(5):
        total = [np.log(good_share / (1 - good_share))] * n
        for k, (trusted, signal) in enumerate(zip(clean, noisy, strict=True)):
            edges = np.quantile([v for v in signal if v == v], np.arange(1, 10) / 10)
            bins = [int((edges <= v).sum()) if v == v else None for v in signal]
            of_trusted = [int((edges <= v).sum()) for v in trusted if v == v]
            seen = sum(b is not None for b in bins)
            share = np.array([bins.count(b) / seen for b in range(N_BINS)])
            good = 5 * share + 5 * np.array([of_trusted.count(b) for b in range(N_BINS)])
            bad = 5 * share
            for i, b in enumerate(bins):
                if b is not None:
                    good[b] += p[i]
                    bad[b] += 1 - p[i]
            ratio = np.log(good / good.sum()) - np.log(bad / bad.sum())
            odds[k] = 0.7 * isotonic_regression(ratio, weights=share).x + 1e-3 * np.arange(N_BINS)
            for i, b in enumerate(bins):
                total[i] += 0.0 if b is None else odds[k][b]
        p = [1 / (1 + np.exp(-t)) for t in total]
    return odds


@pytest.mark.parametrize("good_share", [0.3, 0.8])
def test_witnesses_are_weighed_as_counting_weighs_them(good_share):
    draw = np.random.default_rng(2)
    good = draw.random(120) < 0.5
    noisy = [good * gap + draw.normal(size=120) for gap in (2.0, 1.0)]
    clean = [gap + draw.normal(size=30) for gap in (2.0, 1.0)]
    noisy[1][::4], clean[1][:10] = np.nan, np.nan
    found = weigh_signals(clean, noisy, good_share)
    expected = weighed_by_counting(clean, noisy, good_share)
    for mine, plain in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, plain, atol=1e-9)


def test_a_signal_that_says_the_same_of_every_step_is_worth_the_same():
    signal = np.full(40, 2.0)
    (log_odds,) = weigh_signals([signal], [signal], 0.5)
    found = worth(np.array([2.0, -5.0, 7.0, np.nan]), bin_middles(signal), log_odds)
    assert found[0] == found[1] == found[2] == pytest.approx(log_odds.max())  # its bin is the last
    assert found[3] == 0


def test_clean_steps_that_are_all_alike_are_one_line():
    """Three quarters of the noisy ones are rated as they are, or higher."""
    noisy = np.repeat([-1.0, 0.0, 1.0, 2.0], 50)
    found = estimate_good_share(np.zeros(30), np.arange(30), noisy, np.arange(200), seed=0)
    assert found.point == pytest.approx(0.75)
    assert found.low < 0.75 < found.high < 1
    lower = estimate_good_share(np.zeros(30), np.arange(30), noisy - 5, np.arange(200), seed=0)
    assert (lower.point, lower.low) == (0, 0)


def test_a_signal_alone_keeps_its_order():
    signal = np.arange(100.0)
    (log_odds,) = weigh_signals([signal[60:]], [signal], 0.5)
    found = worth(signal, bin_middles(signal), log_odds)
    assert (np.diff(found) >= 0).all()
    assert found[0] < -0.5 < 0.5 < found[-1]


def test_more_good_steps_make_every_step_likelier_but_not_their_order():
    signal = np.random.default_rng(0).normal(size=1_000)
    low, high = (weigh_signals([signal + 1], [signal], share)[0] for share in (0.2, 0.8))
    assert (np.diff(low) > 0).all()
    assert (np.diff(high) > 0).all()
    assert GoodShare(0.2, 0.2, 0.2).odds[0] < 0 < GoodShare(0.8, 0.8, 0.8).odds[0]
    assert np.isfinite(GoodShare(0.0, 0.0, 1.0).odds).all()  # nothing is certain


def test_what_is_not_known_counts_for_nothing():
    good, clean, noisy = witnesses()
    half = np.where(np.arange(4_000) < 2_000, noisy[0], np.nan)
    (log_odds,) = weigh_signals(clean[:1], [half], 0.5)
    found = worth(half, bin_middles(half), log_odds)
    assert (found[2_000:] == 0).all()
    assert roc_auc_score(good[:2_000], found[:2_000]) > 0.9


def test_worth_is_straight_between_middles_and_goes_on_downwards_to_an_end():
    middles, log_odds = np.arange(10.0), np.linspace(-1, 1, N_BINS)
    slope = 2 / 9
    asked = np.array([0.5, -3.0, -500.0, 50.0, np.nan])
    expected = [-1 + slope / 2, -1 - 3 * slope, -4, 1, 0]  # three log-odds farther, at the most
    np.testing.assert_allclose(worth(asked, middles, log_odds), expected)
    values = np.linspace(-100, 100, 2_001)
    assert (np.diff(worth(values, middles, log_odds)) >= 0).all()
    middles[3:5] = np.nan  # bins that nobody is in are passed by
    assert worth(np.array([3.5]), middles, log_odds)[0] == pytest.approx(log_odds[[2, 5]].mean())
    assert (worth(values, np.full(10, np.nan), log_odds) == 0).all()


def test_middles_of_bins_by_hand():
    np.testing.assert_allclose(bin_middles(np.arange(100.0)), np.arange(4.5, 100, 10))
    assert np.isnan(bin_middles(np.array([np.nan, np.nan]))).all()
    alike = bin_middles(np.zeros(50))
    assert np.isfinite(alike).sum() == 1  # all are in one bin


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_how_many_are_good_lies_in_the_interval(share):
    for seed in range(5):
        draw = np.random.default_rng(seed)
        good = draw.random(3_000) < share
        clean, noisy = draw.normal(2, 1, 600), draw.normal(np.where(good, 2, -2), 1)
        found = estimate_good_share(
            clean, np.arange(600) // 30, noisy, np.arange(3_000) // 30, seed=seed
        )
        assert found.low <= share <= found.high
        assert found.low <= found.point <= found.high
        assert found.high - found.low < 0.45
        assert abs(found.point - share) < 0.1


def test_few_groups_are_less_sure_than_many():
    draw = np.random.default_rng(0)
    of_group = np.sort(draw.random(60))  # people differ, and so do those put together
    good = draw.random(3_000) < np.repeat(of_group, 50)
    clean, noisy = draw.normal(2, 1, 600), draw.normal(np.where(good, 2, -2), 1)

    def width(per_group: int) -> float:
        groups = np.arange(3_000) // 50 // per_group
        found = estimate_good_share(clean, np.arange(600) // 30, noisy, groups, seed=0)
        return found.high - found.low

    assert width(20) > width(1)


def test_the_share_of_good_ones_can_be_said():
    judge = fit(corridor(), signals="likelihood", good_share=0.3)
    assert judge.evidence.good_share.tolist() == [0.3, 0.3, 0.3]
    found = fit(corridor(), signals="likelihood").evidence.share()
    assert found.low < 0.58 < found.high  # that many go on towards the end


def test_the_share_of_good_steps_line_by_line():
    """The same by counting: steps above each line, the middle three, and groups drawn anew."""
    draw = np.random.default_rng(5)
    clean, noisy = draw.normal(1.0, 1.0, 60), draw.normal(0.0, 1.5, 240)
    of_clean, of_noisy = np.arange(60) // 5, np.arange(240) // 8
    found = estimate_good_share(clean, of_clean, noisy, of_noisy, seed=3)
    order = np.argsort(clean)

    def middle(weight: np.ndarray, of_others: np.ndarray) -> np.ndarray:
        told = []
        for line in _LINES:
            reached = np.cumsum(weight[order]) / weight.sum()
            edge = clean[order][np.flatnonzero(reached >= line)[0]]
            above = of_others[noisy >= edge].sum() / of_others.sum()
            told.append(above / (weight[clean >= edge].sum() / weight.sum()))
        return np.sort(np.clip(told, 0, 1))[2:5]

    rng, anew = np.random.default_rng([3, 7]), []
    for _ in range(_DRAWS):
        weights = [
            rng.multinomial(n, np.full(n, 1 / n))[of] + 1e-12
            for n, of in ((12, of_clean[order]), (30, of_noisy))
        ]
        of_each = np.empty(60)
        of_each[order] = weights[0]
        anew.append(middle(of_each, weights[1]).mean())
    here = middle(np.ones(60), np.ones(240))
    more = _ASSUMED + _ERRORS * (1 + _FEW_GROUPS / 12) * np.std(anew)
    assert found.point == pytest.approx(here.mean())
    assert found.low == pytest.approx(here.min() - more)
    assert found.high == pytest.approx(here.max() + more)


def test_bins_of_nothing():
    assert bin_edges(np.full(5, np.nan)).tolist() == [np.inf] * (N_BINS - 1)


def test_the_constants_of_joining_are_what_was_measured():
    """docs/score.md has figures by these."""
    assert (joining._ROUNDS, joining._TRUST, joining._ANCHOR, joining._FEW) == (5, 0.7, 5.0, 5.0)
    assert joining._LINES == (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6)
    assert (_ASSUMED, _ERRORS, _FEW_GROUPS, _DRAWS) == (0.05, 1.1, 8, 100)
    assert (joining._FARTHER, joining._STEEP) == (3.0, 1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_bins_by_counting(seed):
    rng = np.random.default_rng(seed)
    signal = rng.integers(0, 25, 60).astype(float)
    signal[::7] = np.nan
    known = signal[~np.isnan(signal)]
    edges = bin_edges(signal)
    np.testing.assert_allclose(edges, [np.quantile(known, k / 10) for k in range(1, 10)])
    number = [sum(v >= e for e in edges) for v in known]
    middles = bin_middles(signal)
    for b in range(10):
        mine = [v for v, k in zip(known, number, strict=True) if k == b]
        if mine:
            assert middles[b] == np.median(mine)
        else:
            assert np.isnan(middles[b])


@pytest.mark.parametrize("seed", range(4))
def test_worth_by_hand(seed):
    """Straight between the middles of bins; under the first by its line, three at the most."""
    rng = np.random.default_rng(seed)
    middles, log_odds = np.sort(rng.normal(size=10)), np.sort(rng.normal(size=10))
    middles[rng.integers(0, 10, 2)] = np.nan
    x, y = middles[~np.isnan(middles)], log_odds[~np.isnan(middles)]
    asked = np.array([*rng.normal(0, 3, 20), *x, -1e9, 1e9, np.nan])
    slope = (y[1] - y[0]) / (x[1] - x[0])
    for value, found in zip(asked, worth(asked, middles, log_odds), strict=True):
        if np.isnan(value):
            expected = 0.0
        elif value < x[0]:
            expected = y[0] - min(slope * (x[0] - value), 3.0)
        elif value >= x[-1]:
            expected = y[-1]
        else:
            i = np.searchsorted(x, value, "right") - 1
            expected = y[i] + (y[i + 1] - y[i]) * (value - x[i]) / (x[i + 1] - x[i])
        assert found == pytest.approx(expected)
    one = np.full(10, np.nan)
    one[4] = 2.0
    assert worth(np.array([-9.0, 2.0, 9.0]), one, log_odds).tolist() == [log_odds[4]] * 3


def test_ties_and_few_values_are_weighed_as_counting_weighs_them():
    """A signal of four values leaves bins empty."""
    draw = np.random.default_rng(4)
    noisy = [draw.integers(0, 4, 90).astype(float)]
    clean = [draw.integers(1, 4, 20).astype(float)]
    (found,) = weigh_signals(clean, noisy, 0.6)
    edges = bin_edges(noisy[0])
    used = sorted({int((edges <= v).sum()) for v in noisy[0]})
    empty = [b for b in range(10) if b not in used]
    assert empty[0] < used[0]
    assert (np.diff(found) > 0).all()
    for b in empty:  # worth nothing, but no more than one that is higher, and no less than a lower
        lower = [found[u] - 1e-3 * u for u in used if u < b]
        higher = [found[u] - 1e-3 * u for u in used if u > b]
        expected = min(max([0.0, *lower]), *higher, np.inf)
        assert found[b] == pytest.approx(expected + 1e-3 * b)


def test_the_surest_mistakes_are_no_better_than_mild_ones_where_bins_are_empty():
    """Half of the actions are surely wrong, and all as wrong as can be told by those who never saw
    the clean ones; the final networks tell them apart."""
    rng = np.random.default_rng(0)

    def episode(flips):
        seen = rng.normal(size=(31, 3)).astype(np.float32)
        actions = (seen[:-1, 0] > 0).astype(int)
        wrong = rng.random(30) < flips
        return sdil.Trajectory(seen, np.where(wrong, 1 - actions, actions), terminated=True), ~wrong

    clean, noisy = [episode(0.0) for _ in range(10)], [episode(0.5) for _ in range(40)]
    demos = sdil.Demonstrations([t for t, _ in clean], [t for t, _ in noisy])
    scores = sdil.Judge().fit(demos, seed=0).score(demos.noisy)
    good = np.concatenate([right for _, right in noisy])
    assert roc_auc_score(good, np.concatenate([s.optimality for s in scores])) > 0.98


@pytest.mark.parametrize("seed", range(3))
def test_shares_of_steps_that_are_alike_by_counting(seed):
    """Many equal values, and groups of all sizes: the point by counting."""
    rng = np.random.default_rng(seed)
    clean, noisy = rng.integers(0, 6, 40) * 1.0, rng.integers(-3, 6, 90) * 1.0
    found = estimate_good_share(
        clean, rng.integers(0, 5, 40), noisy, rng.integers(0, 9, 90), seed=seed
    )
    ordered, told = np.sort(clean), []
    for line in (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6):
        edge = ordered[next(i for i in range(40) if (i + 1) / 40 >= line - 1e-12)]
        told.append(min((noisy >= edge).mean() / (clean >= edge).mean(), 1.0))
    middle = sorted(told)[2:5]
    assert found.point == pytest.approx(np.mean(middle))
    assert found.low <= min(middle) - 0.05 + 1e-12 or found.low == 0
    assert found.high >= max(middle) + 0.05 - 1e-12 or found.high == 1
    again = estimate_good_share(clean, np.arange(40), noisy, np.arange(90), seed=seed)
    assert again.point == found.point  # groups are for the interval


def test_one_step_of_each_kind_is_enough():
    one = np.array([1.0])
    at = np.array([0])
    assert estimate_good_share(one, at, one, at, seed=0).point == 1.0
    assert estimate_good_share(one, at, one - 1, at, seed=0).point == 0.0


def test_what_witnesses_repeat_counts_once():
    one, other = np.random.default_rng(0).normal(size=(2, 5_000))
    assert how_far_apart(np.stack([one, one, one])) == pytest.approx(1 / 3)
    assert how_far_apart(np.stack([one, other])) == pytest.approx(1, abs=0.05)
    assert how_far_apart(np.stack([one, -0.5 * one])) == 1  # never more than was said
    assert how_far_apart(np.zeros((2, 3))) == how_far_apart(np.zeros((0, 3))) == 1
    # normal log-odds with a mean of half of their variance: the factor makes their sum right
    shared = 2 + 2 * one
    total = how_far_apart(np.stack([shared, shared])) * 2 * shared
    assert total.mean() == pytest.approx(total.var() / 2, rel=0.05)


def test_kin_that_repeat_one_another_count_once_and_leave_the_others_alone():
    one, other = np.random.default_rng(0).normal(size=(2, 5_000))
    kind = np.array([False, True, True])
    apart = how_far_kin_apart(kind, np.stack([one, other, other]))
    np.testing.assert_allclose(apart, [1, 1 / 2, 1 / 2])
    # however much those of another kind say the same
    np.testing.assert_allclose(how_far_kin_apart(kind, np.stack([one, one, one])), [1, 0.5, 0.5])
    assert how_far_kin_apart(np.zeros(2, bool), np.stack([one, other])) == pytest.approx(
        1, abs=0.05
    )
    assert how_far_kin_apart(np.zeros(0, bool), np.zeros((0, 3))).shape == (0,)


def both_sides(said):
    return said + np.roll(said, 1) + np.roll(said, -1)


def test_what_is_repeated_at_the_next_step_counts_once_too():
    one, other = np.random.default_rng(0).normal(size=(2, 5_000))
    lasting = np.repeat(one[::10], 10)  # it says the same for ten steps

    def apart(*said, join=both_sides):
        return how_far_apart_beside(np.stack(said), join, seed=0)

    assert apart(one, other) == pytest.approx(1, abs=0.05)
    assert apart(lasting) == pytest.approx(1 / 3, abs=0.05)
    assert apart(lasting, lasting) == pytest.approx(1 / 6, abs=0.05)
    # normal log-odds with a mean of half of their variance: the factor makes the whole right
    total = apart(0.5 + lasting) * 3 * (0.5 + lasting)
    assert total.mean() == pytest.approx(total.var() / 2, rel=0.15)
    # with nothing said of neighbours it is what signals repeat of one another
    for said in ((one, one), (one, other), (lasting, 0.3 * one + lasting)):
        alone = apart(*said, join=lambda total: total)
        assert alone == pytest.approx(how_far_apart(np.stack(said)), abs=0.03)
    assert apart(np.zeros(3)) == how_far_apart_beside(np.zeros((0, 3)), both_sides, seed=0) == 1


def test_of_counted_actions_everything_said_counts():
    assert float(fit(corridor()).evidence.trust) == 1
