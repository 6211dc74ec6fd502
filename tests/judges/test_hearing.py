"""Whom to hear: how often chance is, and whether what is real is."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binom

from sdil.judges.hearing import (
    AGREES,
    APART,
    EPISODE_LEVEL,
    MANY,
    NOTHING,
    PLENTY,
    RATHER,
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
