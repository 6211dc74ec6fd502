"""Whom to hear: how often chance is, and whether what is real is."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom, norm, rankdata, ttest_1samp, wilcoxon

from sdil.judges.hearing import (
    AGREES,
    APART,
    EPISODE_LEVEL,
    MANY,
    NOTHING,
    OF_TIME,
    PLENTY,
    RATHER,
    UNANCHORED,
    UNHARMED,
    Ground,
    _dealt_anew,
    _spared,
    agreement_with_others,
    chance_of_gain,
    of_gains,
    of_groups,
    of_steps,
    separation,
    standing,
    step_level,
    without_kin,
)

TRIES = 300


def at_most(level: float) -> int:
    """Of so many tries; more would be a wonder if the level were kept."""
    return int(binom.ppf(0.999, TRIES, level))


def at_random(rng, groups: int, steps: int, *, shift: float = 0.0):
    """A table of one who knows nothing, or, shifted, something; people have their own ways, so
    that what is said of a group's steps goes together."""
    n = groups * steps
    group = np.repeat(np.arange(groups), steps)
    actions = rng.integers(4, size=n)
    table = rng.normal(size=(n, 4))
    table[np.arange(n), actions] += rng.normal(shift, 1, groups)[group]
    return table, actions, np.arange(n) // 10, group


@pytest.mark.parametrize("groups", [3, 5, 12])
def test_chance_is_heard_as_seldom_as_promised_by_steps(groups):
    rng = np.random.default_rng(0)
    level = step_level("value", groups)
    heard = sum(of_steps(*at_random(rng, groups, 40)).heard(level) for _ in range(TRIES))
    assert heard <= at_most(level)


@pytest.mark.parametrize(("clean", "noisy"), [(3, 9), (6, 30)])
def test_chance_is_heard_as_seldom_as_promised_by_groups(clean, noisy):
    rng = np.random.default_rng(0)
    heard = 0
    for _ in range(TRIES):
        a, b = rng.normal(size=clean), rng.normal(size=noisy)
        heard += of_groups(a, np.arange(clean), b, np.arange(noisy)).heard(EPISODE_LEVEL)
    assert heard <= at_most(EPISODE_LEVEL)


def test_many_steps_of_few_groups_are_few():
    rng = np.random.default_rng(1)
    table, actions, trajectory, group = at_random(rng, 2, 2_000, shift=0.0)
    table[np.arange(4_000), actions] += np.where(group == 0, 3.0, -1.0)  # one in favour
    assert not of_steps(table, actions, trajectory, group).heard(step_level("value", 2))
    values, of = rng.normal(size=6_000), np.repeat(np.arange(6), 1_000)
    values[of < 2] += 1.0  # far beyond chance by steps; by groups one in fifteen
    ground = of_groups(values[of < 2], of[of < 2], values[of >= 2], of[of >= 2])
    assert ground.figure == 1.0
    assert ground.chance == pytest.approx(1 / 15, abs=0.02)
    assert not ground.heard(EPISODE_LEVEL)


def test_what_is_real_is_heard():
    rng = np.random.default_rng(2)
    ground = of_steps(*at_random(rng, 8, 40, shift=2.0))
    assert ground.heard(step_level("value", 8))
    assert ground.figure > 0.8
    assert ground.groups == 8
    a, b = rng.normal(2.0, 1, 6), rng.normal(size=20)
    assert of_groups(a, np.arange(6), b, np.arange(20)).heard(EPISODE_LEVEL)
    assert not of_groups(-a, np.arange(6), -b, np.arange(20)).heard(EPISODE_LEVEL)


@pytest.mark.parametrize("clean", [4, 10])
def test_one_bad_group_among_clean_ones_silences_nobody(clean):
    rng = np.random.default_rng(3)
    a, b = rng.normal(2.5, 0.5, clean), rng.normal(size=12)
    a[0] = -9.0
    ground = of_groups(a, np.arange(clean), b, np.arange(12))
    assert ground.heard(EPISODE_LEVEL)
    a[1:4] = -9.0  # several do
    assert not of_groups(a[:4], np.arange(4), b, np.arange(12)).heard(EPISODE_LEVEL)


def stand(told, clean):
    """Where groups of one step each stand, the first `clean` of them clean ones."""
    n = len(next(iter(told.values())))
    return standing(told, np.arange(clean), np.arange(clean, n), np.arange(n))


@pytest.mark.parametrize("clean", [3, 4, 12])
def test_chance_has_one_try_however_many_signals_there_are(clean):
    rng = np.random.default_rng(6)
    out = 0
    for _ in range(TRIES):
        shared = rng.normal(size=clean + 12)  # signals go together
        told = {str(i): shared + rng.normal(size=clean + 12) for i in range(5)}
        out += stand(told, clean).chance < EPISODE_LEVEL
    assert 0 < out <= at_most(EPISODE_LEVEL)


def test_several_weak_signals_together_set_clean_groups_apart():
    rng = np.random.default_rng(7)
    n = 3 + 12
    alone = together = 0
    for _ in range(100):
        told = {str(i): rng.normal(size=n) + 1.2 * (np.arange(n) < 3) for i in range(5)}
        together += stand(told, 3).chance < EPISODE_LEVEL
        one = told["0"]
        alone += of_groups(one[:3], np.arange(3), one[3:], np.arange(n - 3)).heard(EPISODE_LEVEL)
    assert together > 90 > 70 > alone


def test_a_bad_clean_group_is_odd_and_silences_nobody():
    rng = np.random.default_rng(8)
    told = {str(i): rng.normal(size=16) + 3.0 * (np.arange(16) < 4) for i in range(4)}
    good = stand(told, 4)
    assert good.chance < EPISODE_LEVEL
    assert not len(good.odd)
    for signal in told.values():
        signal[2] = -2.0
    found = stand(told, 4)
    assert found.chance < EPISODE_LEVEL
    assert found.odd.tolist() == [2]
    assert not len(stand({k: v[1:] for k, v in told.items()}, 3).odd)  # one of three: no telling
    told["silent"] = np.full(16, np.nan)
    told["of some"] = np.where(np.arange(16) % 2, np.nan, told["0"])
    assert stand(told, 4).odd.tolist() == [2]


def test_without_two_sides_nobody_stands_out():
    assert stand({"a": np.arange(4.0)}, 4).chance == 1.0
    assert stand({"a": np.ones(8)}, 4).chance == 1.0
    assert stand({"a": np.full(8, np.nan)}, 4).chance == 1.0


def test_dealing_out_anew_is_the_mean_over_all_permutations():
    rng = np.random.default_rng(4)
    table = rng.normal(size=(9, 3))
    actions = np.array([0, 1, 2, 1, 0, 0, 2, 2, 1])
    trajectory = np.array([0, 0, 0, 0, 1, 1, 1, 2, 2])
    group = np.array([0, 0, 0, 0, 0, 0, 0, 1, 1])
    gains = np.zeros(9)
    for t in range(3):
        mine = np.flatnonzero(trajectory == t)
        dealt = [table[mine, list(p)] for p in permutations(actions[mine])]
        gains[mine] = table[mine, actions[mine]] - np.mean(dealt, 0)
    by_group = [gains[group == g].mean() for g in range(2)]
    ground = of_steps(table, actions, trajectory, group)
    assert ground.figure == np.mean(np.array(by_group) > 0)
    assert ground.chance == pytest.approx(chance_of_gain(gains, group), abs=1e-12)
    assert 0 < ground.chance < 1


def test_what_is_dealt_may_come_from_elsewhere():
    """A single step has nothing to deal out: it goes by what its whole episode did."""
    table = np.array([[3.0, 1.0, 0.0], [0.0, 2.0, 4.0], [1.0, 0.0, 5.0]])
    actions, trajectory, group = np.array([0, 1, 1]), np.array([0, 1, 1]), np.array([0, 1, 1])
    assert of_steps(table, actions, trajectory, group).chance == 1.0  # each against itself
    dealt = np.array([[1.0, 1.0, 2.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    ground = of_steps(table, actions, trajectory, group, dealt)
    assert ground == of_gains(np.array([3.0 - 1.0, 0.0, 0.0]), group)
    none = np.zeros((3, 3))
    assert of_steps(table, actions, trajectory, group, none) == of_steps(
        table, actions, trajectory, group
    )


def test_frequent_actions_are_no_knowledge():
    """Whoever likes the same action everywhere does not know where it is right."""
    rng = np.random.default_rng(5)
    _, actions, trajectory, group = at_random(rng, 8, 40)
    actions = np.where(rng.random(320) < 0.8, 0, actions)
    table = np.tile([5.0, 0.0, 0.0, 0.0], (320, 1))
    ground = of_steps(table, actions, trajectory, group)
    assert not ground.heard(step_level("value", 8))


def test_where_nothing_is_said_nothing_is_heard():
    silent = np.full((6, 2), np.nan)
    at = np.arange(6)
    assert of_steps(silent, at % 2, at // 3, at // 3) == NOTHING
    assert of_groups(silent[:3, 0], at[:3], np.ones(3), at[:3]) == NOTHING
    assert of_groups(np.ones(3), at[:3], np.ones(3), at[:3]) == NOTHING  # all alike
    assert not NOTHING.heard(1.0)


def test_what_is_not_known_of_some_actions_is_left_out():
    table = np.array([[2.0, np.nan], [2.0, 1.0], [0.0, 3.0]])
    ground = of_steps(table, np.array([0, 0, 1]), np.zeros(3, int), np.arange(3))
    assert ground.figure == pytest.approx(2 / 3)  # gains 0, 1/3 and 2


def test_the_area_by_hand():
    assert separation(np.array([1.0, 3.0, np.nan]), np.array([0.0, 2.0])) == 0.75
    assert separation(np.array([np.nan]), np.array([0.0])) == 0.5


def test_agreement_is_with_the_others_not_with_oneself():
    told = {"a": np.arange(20.0), "b": np.arange(20.0) ** 3, "c": -np.arange(20.0)}
    assert agreement_with_others("a", {n: told[n] for n in "ab"}) == pytest.approx(1.0)
    assert agreement_with_others("c", told) == pytest.approx(-1.0)
    assert agreement_with_others("a", {"a": told["a"], "z": np.ones(20)}) == 0.0
    assert agreement_with_others("a", {"a": np.full(20, np.nan), "b": told["b"]}) == 0.0


def test_the_rule_of_hearing_is_what_it_is():
    """Heard under the level and not at it; few groups, a higher level, but not without an aim."""
    groups = (2, 7, 8, 19, 20)
    assert [step_level("likelihood", n) for n in groups] == [0.25, 0.25, 0.10, 0.10, 0.02]
    beside = [step_level("value", n, beside=True) for n in groups]
    assert beside == [0.5, 0.5, 0.10, 0.10, 0.02]
    for others in (False, True):
        levels = [step_level("efficiency", n, beside=others) for n in (2, 8, 20)]
        assert levels == [0.10, 0.10, 0.02]
    assert Ground(1.0, 0.0999, 9).heard(0.10)
    assert not Ground(1.0, 0.10, 9).heard(0.10)
    assert not Ground(1.0, 0.2, 9).heard(0.10)
    assert (EPISODE_LEVEL, RATHER, APART, AGREES) == (0.05, 0.5, 0.6, 0.25)
    assert (MANY, PLENTY) == (8, 20)


def test_nothing_to_go_by_is_chance():
    """No groups, one group, and groups that gain nothing."""
    assert NOTHING.chance == 1.0
    assert chance_of_gain(np.array([3.0]), np.array([0])) == 1.0
    assert chance_of_gain(np.zeros(6), np.arange(6)) == 1.0


def test_signals_of_time_are_not_held_against_each_other():
    told = {n: np.zeros(3) for n in ("likelihood", "progress", "value", "efficiency")}
    assert set(without_kin("value", told)) == {"value", "likelihood"}
    assert set(without_kin("likelihood", told)) == set(told)
    alone = {n: np.zeros(3) for n in ("progress", "value")}
    assert set(without_kin("value", alone)) == {"progress", "value"}


def test_an_action_that_nothing_is_said_of_counts_for_nothing():
    """Steps of one trajectory did 0, 0 and 1; of 1 something is said at the last step alone."""
    table = np.array([[1.0, np.nan], [3.0, np.nan], [2.0, 5.0]])
    trajectory, group = np.zeros(3, int), np.array([0, 1, 2])
    ground = of_steps(table, np.array([0, 0, 1]), trajectory, group)
    # dealt out anew: 1 and 3 as they are; at the last step 2/3 of 2 and 1/3 of 5, so 3, against 5
    assert ground == of_gains(np.array([0.0, 0.0, 2.0]), group)


def test_how_seldom_groups_stand_so_high_is_counted():
    """Of all ways to deal five groups into two and three, the clean two stand highest in one."""
    told = {"value": np.array([3.0, 4.0, 0.0, 1.0, 2.0])}
    group = np.arange(5)
    found = standing(told, np.arange(2), np.arange(2, 5), group)
    dealt = _dealt_anew(5, 2)
    as_high = sum(sorted(one) == [0, 1] for one in dealt.tolist())
    assert found.chance == (1 + as_high) / (1 + len(dealt))
    assert 0.05 < found.chance < 0.15  # one of ten


def test_gains_that_are_all_alike_are_sure_one_way_or_the_other():
    group = np.arange(3)
    assert of_gains(np.full(3, 0.5), group).chance == 0
    assert of_gains(np.full(3, -0.5), group).chance == 1
    assert of_gains(np.zeros(3), group).chance == 1


def test_of_clean_groups_a_tenth_may_be_bad_from_four_on_one():
    assert [_spared(n) for n in (1, 3, 4, 10, 11, 20, 21)] == [0, 0, 1, 1, 2, 2, 3]


def mean_of_each(values, group):
    """By group, in the order of their names; none of those of which nothing is known."""
    found = []
    for g in sorted(set(group.tolist())):
        mine = [
            v for v, h in zip(values.tolist(), group.tolist(), strict=True) if h == g and v == v
        ]
        if mine:
            found.append(sum(mine) / len(mine))
    return np.array(found)


def area(clean, noisy):
    pairs = [(a > b) + (a == b) / 2 for a in clean for b in noisy]
    return sum(pairs) / len(pairs)


@pytest.mark.parametrize("seed", range(6))
def test_grounds_by_counting_over_groups_of_all_sizes(seed):
    """Groups of one to six steps; of every fourth step nothing is said, of one group nothing."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(9), rng.integers(1, 7, 9))
    values = rng.integers(-3, 4, len(group)).astype(float)
    values[::4] = np.nan
    values[group == 5] = np.nan
    gains = mean_of_each(values, group)
    found = of_gains(values, group)
    assert found.figure == pytest.approx((gains > 0).mean())
    assert found.groups == len(gains)
    assert found.chance == pytest.approx(wilcoxon(gains, alternative="greater").pvalue)
    few = group < 3
    some = mean_of_each(values[few], group[few])
    if len(some) > 1 and np.ptp(some) > 0:
        expected = ttest_1samp(some, 0.0, alternative="greater").pvalue
        assert chance_of_gain(values[few], group[few]) == pytest.approx(expected)
    clean = group < 4
    a, b = (mean_of_each(values[s], group[s]) for s in (clean, ~clean))
    ground = of_groups(values[clean], group[clean], values[~clean], group[~clean])
    assert ground.figure == pytest.approx(area(a, b))
    assert ground.groups == len(a)
    ranks = np.array(
        [np.mean([i for i, v in enumerate(sorted([*a, *b])) if v == x]) for x in [*a, *b]]
    )
    spared = _spared(len(a))
    mine = np.sort(ranks[: len(a)])[spared:].sum()
    dealt = [np.sort(ranks[list(d)])[spared:].sum() for d in _dealt_anew(len(ranks), len(a))]
    as_high = sum(d >= mine - 1e-9 for d in dealt)
    assert ground.chance == pytest.approx((1 + as_high) / 4_001)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_from_five_groups_on_ranks_are_tested(n):
    gains = np.array([0.3, -0.1, 0.2, 0.5, 0.4, -0.2])[:n]
    ranked = wilcoxon(gains, alternative="greater").pvalue
    by_mean = ttest_1samp(gains, 0.0, alternative="greater").pvalue
    assert ranked != pytest.approx(by_mean)
    found = chance_of_gain(gains, np.arange(n))
    assert found == pytest.approx(ranked if n >= 5 else by_mean)


@pytest.mark.parametrize("seed", range(4))
def test_areas_and_agreement_by_counting(seed):
    rng = np.random.default_rng(seed)
    clean, noisy = rng.integers(0, 4, 7).astype(float), rng.integers(0, 4, 5).astype(float)
    assert separation(clean, noisy) == pytest.approx(area(clean, noisy))
    holes = np.concatenate([clean, [np.nan]]), np.concatenate([[np.nan], noisy])
    assert separation(*holes) == pytest.approx(area(clean, noisy))
    assert separation(clean, holes[1][:1]) == separation(holes[0][-1:], noisy) == 0.5
    told = {name: rng.normal(size=12) for name in "abc"}
    told["b"][:4] = np.nan
    told["a"][2] = np.nan

    def placed(signal):
        known = signal[~np.isnan(signal)]
        return np.array([0.5 if v != v else (known <= v).sum() / len(known) for v in signal])

    others = placed(told["b"]) + placed(told["c"])
    expected = np.corrcoef(placed(told["a"]), rankdata(others))[0, 1]
    assert agreement_with_others("a", told) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_clean", [3, 5, 11])
def test_standing_by_counting(seed, n_clean):
    """Normal scores of each signal's ranks over groups of several steps, added up."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, n_clean + 9)
    group = np.repeat(np.arange(n_clean + 9), sizes)
    steps = rng.permutation(len(group))  # in no order
    group = group[steps]
    clean, noisy = np.flatnonzero(group < n_clean), np.flatnonzero(group >= n_clean)
    told = {k: rng.normal(size=len(group)) + (group < n_clean) for k in "ab"}
    told["b"][group == 1] = np.nan
    told["b"][group == n_clean + 2] = np.nan
    told["same"] = np.ones(len(group))
    total = np.zeros(n_clean + 9)
    for signal in told.values():
        means = np.array([signal[group == g].mean() for g in range(n_clean + 9)])
        known = ~np.isnan(means)
        scores = norm.ppf(rankdata(means[known]) / (known.sum() + 1))
        if np.ptp(scores):
            total[known] += scores / scores.std()
    found = standing(told, clean, noisy, group)
    spared = _spared(n_clean)
    mine = np.sort(total[:n_clean])[spared:].sum()
    dealt = np.sort(total[_dealt_anew(n_clean + 9, n_clean)], -1)[:, spared:].sum(-1)
    assert found.chance == pytest.approx((1 + (dealt >= mine - 1e-9).sum()) / 4_001)
    low = np.argsort(total[:n_clean])[:spared]
    others = np.delete(total[:n_clean], low)
    odd = [g for g in low if total[g] < np.quantile(total[n_clean:], 0.25)]
    if area(others, total[n_clean:]) < 0.8:
        odd = []
    assert found.odd.tolist() == odd


def test_an_odd_group_lies_under_a_quarter_of_the_noisy_ones_and_the_others_far_above():
    """Eight noisy groups at 0 .. 7, of which a quarter lies under 1.75."""

    def odd(*clean):
        return stand({"a": np.array([*clean, *range(8)], float)}, len(clean)).odd.tolist()

    assert odd(10, 1.5, 11, 12) == [1]
    assert odd(10, 2.5, 11, 12) == []  # not so low
    assert odd(10, 11, 1.5) == []  # of three none may be
    assert odd(5.5, 1.5, 6.5, 7.5) == [1]  # area of the others (6 + 7 + 8) / 24
    assert odd(4.5, 1.5, 6.5, 7.5) == [1]  # 20 of 24
    assert odd(3.5, 1.5, 6.5, 7.5) == []  # 19 of 24, under 0.8


def test_signals_that_are_all_silent_or_of_one_side_stand_nowhere():
    nothing = standing({}, np.arange(2), np.arange(2, 5), np.arange(5))
    assert (nothing.chance, nothing.odd.tolist()) == (1.0, [])
    one_side = standing({"a": np.arange(5.0)}, np.arange(0), np.arange(5), np.arange(5))
    assert (one_side.chance, one_side.odd.tolist()) == (1.0, [])
    assert of_gains(np.array([np.nan]), np.array([0])) == NOTHING
    assert np.isnan(NOTHING.figure)
    assert NOTHING.groups == 0
    assert of_groups(np.zeros(0), np.zeros(0, int), np.ones(2), np.arange(2)) == NOTHING
    assert of_groups(np.ones(2), np.arange(2), np.zeros(0), np.zeros(0, int)) == NOTHING


def test_what_may_be_said_against_whom():
    told = {n: np.zeros(3) for n in ("progress", "value", "likelihood", "consensus")}
    assert list(without_kin("progress", told)) == ["progress", "likelihood", "consensus"]
    assert list(without_kin("consensus", told)) == list(told)
    assert list(without_kin("value", {"value": told["value"]})) == ["value"]
    assert (OF_TIME, UNANCHORED, UNHARMED) == (
        ("progress", "value", "efficiency"),
        ("efficiency",),
        0.5,
    )
