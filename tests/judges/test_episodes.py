"""How well did this go: of stretches, and of those who are quick."""

from __future__ import annotations

import numpy as np
import pytest
from corridor import END, SPACES, corridor, fit, walk
from sklearn.metrics import roc_auc_score

import sdil
from sdil.heads import Categorical
from sdil.judges.episodes import REACH, over_stretches, rates_of, stretches
from sdil.windows import Windows


def times_of(lengths: list[int]) -> np.ndarray:
    return np.concatenate([np.arange(n) for n in lengths])


@pytest.mark.parametrize("wide", [False, True])
def test_the_mean_over_a_stretch_is_what_a_slow_loop_gives(wide):
    rng = np.random.default_rng(0)
    lengths = [1, 200, 17, 2 * REACH + 1, 1]
    times, n = times_of(lengths), sum(lengths)
    values = rng.normal(size=(n, 3) if wide else n)
    values[rng.random(values.shape) < 0.3] = np.nan
    values[50:130] = np.nan  # a stretch of which nothing is known
    first = np.flatnonzero(times == 0)
    slow = np.full_like(values, np.nan)
    for episode, length in zip(first, lengths, strict=True):
        for t in range(length):
            around = values[episode + max(0, t - REACH) : episode + min(length, t + REACH + 1)]
            known = ~np.isnan(around)
            total = np.where(known, around, 0.0).sum(0)
            slow[episode + t] = np.where(known.any(0), total / np.maximum(known.sum(0), 1), np.nan)
    assert np.isnan(slow).any()
    np.testing.assert_allclose(over_stretches(values, times), slow, atol=1e-10)


def test_every_episode_has_a_stretch_and_they_lie_apart():
    lengths = [1, 2, 7, 15, 16, 100]
    times = times_of(lengths)
    at = stretches(times)
    of_episode = np.repeat(np.arange(len(lengths)), lengths)
    counts = np.bincount(of_episode[at], minlength=len(lengths))
    assert counts.tolist() == [1, 1, 1, 1, 1, 7]
    assert set(np.diff(times[at & (of_episode == 5)])) == {15}


def test_rates_by_hand():
    demos = sdil.Demonstrations([walk(0, [1, 1, 0, 0], "a"), walk(3, [0], "b")], spaces=SPACES)
    rates = rates_of(Windows(demos.clean, 0), Categorical(5))
    np.testing.assert_allclose(rates[0], [0.5, 0, 0, 0, 0.5, 0.5, 0])
    np.testing.assert_allclose(rates[4], [0, 0, 0, 0, 1, 0, 0])


def person(rng, name: str, waits: float, episodes: int = 3) -> list[sdil.Trajectory]:
    """Goes to the end and back, and waits so often, give or take."""
    waits += rng.normal(0, 0.04)
    found = []
    for i in range(episodes):
        ways, at, way = [], 0, 1
        while len(ways) < 60:
            moves = int(rng.random() > waits)
            ways.append(way * moves)
            at += way * moves
            way = -way if at in (0, END) and moves else way
        found.append(walk(0, ways, f"{name}/{i}", group=name))
    return found


def people(rng, kind: str, count: int, waits: float) -> list[sdil.Trajectory]:
    return [t for i in range(count) for t in person(rng, f"{kind}{i}", waits)]


@pytest.mark.slow
@pytest.mark.parametrize("signals", ["pace", "doing", "pace+doing+likelihood+steps"])
def test_quick_people_are_told_from_slow_ones(signals):
    rng = np.random.default_rng(0)
    demos = sdil.Demonstrations(
        people(rng, "clean", 6, 0.15),
        people(rng, "quick", 4, 0.15) + people(rng, "slow", 12, 0.5),
        SPACES,
    )
    judge = fit(demos, signals=signals)
    assert "episode" not in judge.unknown
    scores = judge.score(demos.noisy)
    found = [s.quality.mean() for s in scores]
    quick = [str(t.group).startswith("quick") for t in demos.noisy]
    assert roc_auc_score(quick, found) > 0.95
    assert np.mean(np.array(found)[quick]) > 0 > np.mean(np.array(found)[np.invert(quick)])
    for score in scores:
        assert (np.abs(score.quality) <= 1).all()
        assert set(score.quality_parts) == set(judge.evidence.episodes.heard)
        assert score.how_well() == pytest.approx(score.quality.mean())


def test_where_clean_people_are_any_people_nobody_knows_who_is_quick():
    heard = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        everyone = [person(rng, f"p{i}", rng.uniform(0.1, 0.6)) for i in range(16)]
        demos = sdil.Demonstrations(
            [t for one in everyone[:5] for t in one],
            [t for one in everyone[5:] for t in one],
            SPACES,
        )
        judge = fit(demos, signals="pace+doing", outcome_updates=5)
        unknown = "episode" in judge.unknown
        heard += not unknown
        assert all((s.quality is None) == unknown for s in judge.score(demos.noisy))
    assert heard <= 3  # of two signals that are each heard in one of twenty


def test_a_stretch_of_which_nothing_is_known_is_neither_good_nor_bad():
    judge = fit(corridor(), signals="efficiency")
    assert judge.evidence.episodes.heard == ["efficiency"]
    (alone,) = judge.score([walk(3, [1], "alone")])
    slope, offset = judge.evidence.episodes.line.tolist()
    assert alone.quality[0] == pytest.approx(np.tanh(offset / 2))
    assert slope > 0
