"""Actions that say where something should be are told as how far it is from there."""

from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil.relative import Relative


def reaching(seed: int, *, bold: float = 0.3, slope: float = 1.0, n: int = 60) -> sdil.Trajectory:
    """A hand that is sent somewhere near where it is; beside it a gripper, and noise."""
    rng = np.random.default_rng(seed)
    hand = np.cumsum(rng.normal(size=n + 1)) * 5 + 100
    observations = np.stack([rng.normal(size=n + 1), hand, rng.normal(size=n + 1)], 1)
    wish = rng.normal(size=n) * bold
    sent = slope * (hand[:n] + wish) + 7.0
    actions = np.stack([sent, (rng.random(n) < 0.5).astype(float), rng.normal(size=n)], 1)
    return sdil.Trajectory(
        observations=observations.astype(np.float32), actions=actions.astype(np.float32)
    )


def demonstrations(**more) -> sdil.Demonstrations:
    return sdil.Demonstrations(
        clean=[reaching(i, **more) for i in range(4)],
        noisy=[reaching(i, **more) for i in range(10, 14)],
    )


@pytest.mark.parametrize("slope", [1.0, -0.02])
def test_the_line_is_found_and_taken_off(slope):
    demos = demonstrations(slope=slope)
    found = Relative.find(demos.all, demos.spaces)
    assert found is not None
    assert found.entry.tolist() == [1, -1, -1]
    assert found.slope[0] == pytest.approx(slope, rel=0.01)
    assert (found.slope[1:] == 0).all()
    assert (found.offset[1:] == 0).all()
    told = found.of(demos.noisy).numpy()[demos.noisy.steps()]
    raw = demos.noisy.actions[demos.noisy.steps()]
    left = raw[:, 0] - (
        found.slope[0] * demos.noisy.observations[demos.noisy.rows(), 1] + found.offset[0]
    )
    np.testing.assert_allclose(told[:, 0], left, atol=1e-4)
    np.testing.assert_array_equal(told[:, 1:], raw[:, 1:])
    assert told[:, 0].std() < 0.05 * raw[:, 0].std()


def test_what_follows_nothing_is_left_as_it_is():
    demos = demonstrations(bold=500.0)
    assert Relative.find(demos.all, demos.spaces) is None


def test_a_choice_that_goes_with_an_input_is_no_place():
    rng = np.random.default_rng(0)
    state = rng.choice([0.0, 1.0], size=(51, 1)).astype(np.float32)
    one = sdil.Trajectory(observations=state, actions=state[:50])
    demos = sdil.Demonstrations(clean=[one], noisy=[one])
    assert Relative.find(demos.all, demos.spaces) is None


def test_a_constant_entry_follows_nothing():
    one = reaching(0)
    still = np.full((len(one), 1), 3.0, np.float32)
    constant = sdil.Trajectory(observations=one.observations, actions=still)
    demos = sdil.Demonstrations(clean=[constant], noisy=[constant])
    assert Relative.find(demos.all, demos.spaces) is None


def test_counted_actions_are_no_places():
    one = sdil.Trajectory(
        observations=np.arange(6, dtype=np.float32)[:, None], actions=np.array([0, 1, 0, 1, 1])
    )
    demos = sdil.Demonstrations(clean=[one], noisy=[one])
    assert Relative.find(demos.all, demos.spaces) is None


def test_the_judge_does_not_care_whether_places_or_ways_were_recorded(tmp_path):
    """And what it saves says the same when it is read again."""
    judge = sdil.Judge(
        clone_updates=40, distance_updates=20, outcome_updates=20, hidden=16, batch_size=32
    )
    places = demonstrations()

    def way(t: sdil.Trajectory) -> sdil.Trajectory:
        line = Relative.find(places.all, places.spaces)
        assert line is not None
        actions = t.actions.astype(float)
        actions[:, 0] -= line.slope[0] * t.observations[:-1, 1] + line.offset[0]
        return sdil.Trajectory(observations=t.observations, actions=actions.astype(np.float32))

    ways = sdil.Demonstrations(
        clean=[way(t) for t in places.clean], noisy=[way(t) for t in places.noisy]
    )
    one, other = (judge.fit(d, seed=1) for d in (places, ways))
    for a, b in zip(one.score(places.noisy), other.score(ways.noisy), strict=True):
        np.testing.assert_allclose(a.optimality, b.optimality, atol=1e-3)
    one.save(tmp_path)
    again = sdil.load_judge(tmp_path)
    for a, b in zip(one.score(places.noisy), again.score(places.noisy), strict=True):
        np.testing.assert_array_equal(a.optimality, b.optimality)
