"""Actions that say where something should be are told as how far it is from there."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import sdil
from sdil.demonstrations import pack_given
from sdil.heads import Real
from sdil.judges.material import Material
from sdil.networks.policies import Architecture, PlainNetwork
from sdil.relative import Relative, tell_so
from sdil.windows import Windows


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


def find(demos: sdil.Demonstrations) -> Relative | None:
    return Relative.find(Windows(demos.all, 0))


@pytest.mark.parametrize("slope", [1.0, -0.02])
def test_the_line_is_found_and_taken_off(slope):
    demos = demonstrations(slope=slope)
    found = find(demos)
    assert found is not None
    assert found.entry.tolist() == [1, 0, 0]
    assert float(found.slope[0]) == pytest.approx(slope, rel=0.01)
    assert not found.slope[1:].any()
    assert not found.offset[1:].any()
    assert not found.left[1:].any()
    noisy = Windows(demos.noisy, 0)
    told, raw = found.of(noisy)[noisy.steps], noisy.actions[noisy.steps]
    hand = noisy.observations[noisy.rows, 1]
    left = raw[:, 0] - (float(found.slope[0]) * hand + float(found.offset[0]))
    torch.testing.assert_close(told[:, 0], left, atol=1e-4, rtol=0)
    torch.testing.assert_close(told[:, 1:], raw[:, 1:], atol=0, rtol=0)
    assert told[:, 0].std() < 0.05 * raw[:, 0].std()
    of_all = found.of(Windows(demos.all, 0))[:, 0]
    assert float(found.left[0]) == pytest.approx(float(of_all.std()), rel=0.01)


def test_what_follows_nothing_is_left_as_it_is():
    demos = demonstrations(bold=500.0)
    assert find(demos) is None


def test_a_choice_that_goes_with_an_input_is_no_place():
    rng = np.random.default_rng(0)
    state = rng.choice([0.0, 1.0], size=(51, 1)).astype(np.float32)
    one = sdil.Trajectory(observations=state, actions=state[:50])
    demos = sdil.Demonstrations(clean=[one], noisy=[one])
    assert find(demos) is None


def test_a_constant_entry_follows_nothing():
    one = reaching(0)
    still = np.full((len(one), 1), 3.0, np.float32)
    constant = sdil.Trajectory(observations=one.observations, actions=still)
    demos = sdil.Demonstrations(clean=[constant], noisy=[constant])
    assert find(demos) is None


def test_counted_actions_are_no_places():
    one = sdil.Trajectory(
        observations=np.arange(6, dtype=np.float32)[:, None], actions=np.array([0, 1, 0, 1, 1])
    )
    demos = sdil.Demonstrations(clean=[one], noisy=[one])
    assert find(demos) is None


def test_the_judge_does_not_care_whether_places_or_ways_were_recorded(tmp_path):
    """And what it saves says the same when it is read again."""
    judge = sdil.Judge(
        clone_updates=40, distance_updates=20, outcome_updates=20, hidden=16, batch_size=32
    )
    places = demonstrations()
    line = find(places)
    assert line is not None
    slope, offset = float(line.slope[0]), float(line.offset[0])

    def way(t: sdil.Trajectory) -> sdil.Trajectory:
        actions = t.actions.astype(float)
        actions[:, 0] -= slope * t.observations[:-1, 1] + offset
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


@pytest.mark.filterwarnings("ignore:discovery failed")
@pytest.mark.parametrize(
    "learner",
    [sdil.BC, *(pytest.param(x, marks=pytest.mark.slow) for x in (sdil.SDIL, sdil.ScoredBC))],
)
def test_learners_predict_places_as_well_as_ways(learner, tmp_path):
    """A wish of 0.3 is small beside places that are spread over 30: who must learn to copy the
    place first predicts it badly."""
    demos = demonstrations()
    quick = {"max_updates": 200, "min_updates": 100} if learner is not sdil.ScoredBC else {}
    policy = learner(**quick).fit(demos, seed=0)
    unseen = [reaching(i) for i in range(20, 24)]
    windows = Windows(pack_given(unseen, demos.spaces), policy.look_back)
    said = policy.distribution(windows.at(torch.arange(len(windows))))
    apart = said.apart(windows.actions[windows.steps])[:, 0].abs().mean()
    assert float(apart) < 1.0  # of the wish itself 0.24 cannot be known
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    for a, b in zip(policy.log_likelihood(unseen), again.log_likelihood(unseen), strict=True):
        np.testing.assert_array_equal(a, b)


def test_networks_of_before_that_followed_nothing_are_read():
    demos = demonstrations()
    architecture = Architecture(look_back=0, hidden=4, layers=1)
    network = PlainNetwork(demos.spaces, architecture)
    windows = Windows(demos.all, 0)
    network.fit_to(windows, leans=False)
    before = {k: v for k, v in network.state_dict().items() if not k.startswith("leaning.")}
    before = {k: v for k, v in before.items() if k not in ("head.follows", "head.fine")}
    again = PlainNetwork(demos.spaces, architecture)
    again.load_state_dict(before)
    index = torch.arange(20)
    assert torch.equal(network(windows.at(index)), again(windows.at(index)))


def test_what_follows_is_known_after_loading():
    demos = demonstrations()
    architecture = Architecture(look_back=0, hidden=4, layers=1)
    network, again = (PlainNetwork(demos.spaces, architecture) for _ in range(2))
    windows = Windows(demos.all, 0)
    network.fit_to(windows)
    assert isinstance(network.head, Real)
    assert network.head.leans
    again.load_state_dict(network.state_dict())
    index = torch.arange(20)
    assert torch.equal(network.nll(windows, index), again.nll(windows, index))


def test_a_run_of_before_goes_on_as_it_was():
    """Old weights predict whole places; a line must not be added to them."""
    demos = demonstrations()
    architecture = Architecture(look_back=0, hidden=4, layers=1)
    before, fitted = (PlainNetwork(demos.spaces, architecture) for _ in range(2))
    windows = Windows(demos.all, 0)
    before.fit_to(windows, leans=False)
    fitted.fit_to(windows)
    known = {k: v for k, v in before.state_dict().items() if not k.startswith("leaning.")}
    known = {k: v for k, v in known.items() if k not in ("head.follows", "head.fine")}
    fitted.load_state_dict(known)
    index = torch.arange(20)
    assert torch.equal(before.nll(windows, index), fitted.nll(windows, index))


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (2.0, 1.0)])
def test_who_copies_a_place_exactly_is_predicted_so(slope, offset):
    rng = np.random.default_rng(0)

    def copying() -> sdil.Trajectory:
        seen = rng.normal(size=(30, 2)).astype(np.float32) * 20
        done = np.stack([slope * seen[:29, 0] + offset, rng.normal(size=29)], 1)
        return sdil.Trajectory(observations=seen, actions=done.astype(np.float32))

    demos = sdil.Demonstrations(clean=[copying() for _ in range(4)], noisy=[])
    found = find(demos)
    assert found is not None
    assert found.exact.tolist() == [True, False]
    assert not found.of(Windows(demos.all, 0))[:, 0].any()
    policy = sdil.BC(max_updates=300, min_updates=300).fit(demos, seed=0)
    windows = Windows(demos.clean, 0)
    said = policy.distribution(windows.at(torch.arange(len(windows))))
    apart = said.apart(windows.actions[windows.steps])[:, 0].abs().max()
    assert float(apart) < 0.05  # of places that are spread over 20 and 40


def test_errors_of_ways_are_not_cut_to_the_limits_of_places():
    space = gym.spaces.Box(0.0, 512.0, (3,), np.float32)
    relative = find(demonstrations())
    assert relative is not None
    told = relative.space(space)
    assert (told.low.tolist(), told.high.tolist()) == ([-np.inf, 0, 0], [np.inf, 512, 512])


def test_actions_of_several_parts_are_left_as_they_are():
    """Counted entries lie among the real ones of a row, and may follow a state all the same."""
    rng = np.random.default_rng(0)
    space = gym.spaces.Dict(
        {"go": gym.spaces.Box(-1, 1, (1,), np.float32), "mode": gym.spaces.Discrete(5)}
    )

    def episode() -> sdil.Trajectory:
        mode = rng.integers(5, size=20)
        actions = {"go": rng.uniform(-1, 1, (20, 1)).astype(np.float32), "mode": mode}
        seen = np.stack([np.append(mode, 0), rng.normal(size=21)], 1).astype(np.float32)
        return sdil.Trajectory(seen, sdil.flatten_actions(space, actions))

    episodes = [episode() for _ in range(8)]
    spaces = sdil.Spaces(gym.spaces.Box(-np.inf, np.inf, (2,), np.float32), space)
    demos = sdil.Demonstrations(episodes[:4], episodes[4:], spaces)
    windows = Windows(demos.all, 0)
    assert tell_so(windows, space) is space
    assert torch.equal(windows.actions, Windows(demos.all, 0).actions)
    assert Material.of(demos, None, seed=0).relative is None
