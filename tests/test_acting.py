"""Rules of acting, over policies made by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sdil
from sdil import Demonstrations, InputError, ListenToValue, Sample, Trajectory, WithoutCircles
from sdil.acting import act_by, describe_acting, prefer_untried, rule_of, suit
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.windows import Window


def episodes(states, actions, n=3):
    observations = np.array(states, np.float32)[:, None].repeat(2, 1)
    return [Trajectory(observations, np.array(actions), id=str(i)) for i in range(n)]


@pytest.fixture
def policy():
    """Random weights; it sees two numbers and has three actions."""
    demos = Demonstrations(episodes([0, 1, 2, 3], [0, 1, 2]))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PlainNetwork(demos.spaces, Architecture(0, 8, 1))
    return PlainPolicy(demos.spaces, Architecture(0, 8, 1), network, learner="by hand")


class Adviser:
    """A judge that says of every state that action 2 is good."""

    def advice(self):
        return lambda states: torch.tensor([[0.0, 0.0, 3.0]]).double().repeat(len(states), 1)


def test_untried_actions_are_preferred_by_hand():
    state = torch.zeros(1, 1)
    past = torch.tensor([[[0.0], [0.0], [5.0], [0.0]]])
    window = Window(
        state,
        past,
        torch.tensor([[0, 0, 1, 1]]),
        torch.tensor([[True, True, True, False]]),  # the last one does not exist
    )
    probs = prefer_untried(torch.tensor([[0.9, 0.06, 0.04]]), window)
    expected = torch.tensor([[0.9e-12, 0.06, 0.04]]) / (0.1 + 0.9e-12)
    torch.testing.assert_close(probs, expected)  # action 0 was tried twice here, 1 elsewhere


def test_it_tries_everything_before_it_repeats_and_forgets_what_is_long_ago(policy):
    seen = np.array([1.0, 1.0], np.float32)

    def six_actions(acting):
        state, actions = None, []
        for _ in range(6):
            action, state = acting.predict(seen, state)
            actions.append(int(action))
        return actions, state

    acting = policy.acting_by([WithoutCircles(memory=9)])
    actions, state = six_actions(acting)
    assert sorted(actions[:3]) == sorted(actions[3:]) == [0, 1, 2]
    short, _ = six_actions(policy.acting_by([WithoutCircles(memory=1)]))
    assert short == actions[:2] * 3  # the likeliest two in turns
    elsewhere, _ = acting.predict(np.array([9.0, 9.0], np.float32), state)
    assert elsewhere == policy.predict(np.array([9.0, 9.0], np.float32))[0]


def test_a_state_of_other_rules_is_refused(policy):
    seen = np.zeros(2, np.float32)
    _, state = policy.predict(seen)
    with pytest.raises(InputError, match="by the same rules of acting"):
        policy.acting_by([WithoutCircles()]).predict(seen, state)


def test_listening_adds_log_odds_to_log_probabilities(policy):
    policy.judge = Adviser()
    rule = ListenToValue(weight=2.0)
    probs = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    window = Window(torch.zeros(1, 2), torch.zeros(1, 0, 2), torch.zeros(1, 0), torch.zeros(1, 0))
    odds = np.array([0.5, 0.25, 0.25 * np.exp(6.0)])
    np.testing.assert_allclose(rule(probs, window, policy)[0], odds / odds.sum())
    strong = policy.acting_by([ListenToValue(weight=100.0)])
    assert (strong.predict(np.random.default_rng(0).normal(size=(20, 2)))[0] == 2).all()


def test_listening_needs_somebody_to_listen_to(policy):
    with pytest.raises(InputError, match="cannot act by it"):
        act_by(policy, "value")
    with pytest.raises(InputError, match="there is no way of acting 'nope'"):
        act_by(policy, "nope")
    with pytest.raises(InputError, match="without-circles: memory must be"):
        act_by(policy, [WithoutCircles(memory=0)])
    with pytest.raises(InputError, match="without-circles: memory must be"):
        policy.acting_by([WithoutCircles(memory=-3)])


def test_a_rule_of_ones_own_will_do(policy):
    class Stubborn:
        name, look_back, draws = "stubborn", 0, False

        def __call__(self, probs, window, policy):
            return torch.eye(3)[[1] * len(probs)]

    acting = act_by(policy, [Stubborn()])
    assert (acting.predict(np.zeros((5, 2), np.float32))[0] == 1).all()


def test_a_rule_that_was_tampered_with_is_refused(policy, tmp_path):
    policy.acting_by([WithoutCircles(3)]).save(tmp_path)
    file = tmp_path / "policy.json"
    file.write_text(file.read_text().replace('"memory": 3', '"memory": -3'))
    with pytest.raises(InputError, match="memory must be"):
        sdil.load_policy(tmp_path)


def test_sampling_draws_as_often_as_the_policy_says(policy):
    seen = np.tile(np.array([[0.3, -0.2]], np.float32), (4_000, 1))
    wanted = policy.acting_by([Sample()]).probs_of_acting(seen[:1])[0]
    with torch.random.fork_rng():
        torch.manual_seed(1)
        drawn, _ = policy.acting_by([Sample()]).predict(seen)
        cold, _ = policy.acting_by([Sample(temperature=1e-6)]).predict(seen)
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4_000, wanted, atol=0.03)
    assert (cold == policy.predict(seen)[0]).all()


@pytest.mark.parametrize(
    ("states", "actions", "reason"),
    [
        ([0, 0, 0, 0], [1, 1, 1], "repeat what they did"),  # and they are right to
        ([0, 1, 2, 3], [1, 1, 1], "no state comes again"),
        ([0, 1, 0, 2], [0, 1, 1], None),  # back in a state, something else is done
        ([0.0, 1.0, -0.0, 2.0], [0, 1, 1], None),  # minus zero is zero
    ],
)
def test_what_speaks_for_avoiding_circles(policy, states, actions, reason):
    suited = suit(policy, Demonstrations(episodes(states, actions)), greedy=False)
    if reason is None:
        assert suited.rules == (WithoutCircles(),)
        assert "without-circles" not in suited.why_not
    else:
        assert suited.rules == ()
        assert reason in suited.why_not["without-circles"]
    assert suit(policy, Demonstrations(episodes(states, actions))).rules == ()


def test_noisy_demonstrations_that_repeat_do_not_count(policy):
    clean, noisy = episodes([0, 1, 0, 2], [0, 1, 1]), episodes([0, 0, 0, 0], [1, 1, 1], n=30)
    demos = Demonstrations(clean, noisy)
    assert suit(policy, demos, greedy=False).rules == (WithoutCircles(),)


def test_an_episode_does_not_come_back_to_another_ones_states(policy):
    alike = Demonstrations(episodes([0], [], n=0) + episodes([0, 1], [1], n=9))
    assert "no state comes again" in suit(policy, alike).why_not["without-circles"]


def test_a_judge_that_advises_is_listened_to(policy):
    policy.judge = Adviser()
    suited = suit(policy, Demonstrations(episodes([0, 1, 2], [1, 1])), greedy=False)
    assert suited.rules == (ListenToValue(),)
    assert describe_acting(suited) == "value"
    assert describe_acting(act_by(suited, "greedy")) == "greedy"
    assert act_by(suited, "default") is suited


@pytest.mark.parametrize("rule", [WithoutCircles(3), ListenToValue(0.5), Sample(2.0)])
def test_a_rule_survives_saving(rule):
    assert rule_of(rule.configuration()) == rule


def test_a_rule_that_is_not_called_for_says_so_once(demos):
    bc = sdil.BC(max_updates=20, min_updates=20).fit(demos, seed=0)
    why = {"without-circles": "no state comes again in its demonstrations"}
    with pytest.warns(UserWarning, match="acting without-circles: no state comes again"):
        sdil.evaluate(
            bc.acting_by((), why), "fourrooms", episodes=3, seed=0, acting="without-circles"
        )


def test_ways_of_acting_are_measured_apart_and_the_same_twice(demos):
    policy = sdil.BC(max_updates=200, min_updates=200).fit(demos, seed=0)
    ran = {
        way: sdil.evaluate(policy, "fourrooms", episodes=60, seed=0, acting=way)
        for way in ("default", "greedy", "sampled", "without-circles")
    }
    assert ran["default"].reward_mean == ran["greedy"].reward_mean
    assert ran["without-circles"].length_mean < ran["greedy"].length_mean
    before = torch.random.get_rng_state()
    again = sdil.evaluate(policy, "fourrooms", episodes=60, seed=0, acting="sampled")
    np.testing.assert_array_equal(again.episodes.rewards, ran["sampled"].episodes.rewards)
    assert again.reward_mean != ran["greedy"].reward_mean
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_policy_that_is_not_ours_has_its_own_way(demos):
    class Stubborn:
        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            return np.zeros(len(observation), np.int64), None

    assert sdil.evaluate(Stubborn(), "fourrooms", episodes=2).n_episodes == 2
    with pytest.raises(InputError, match="only policies of sdil can act by rules"):
        sdil.evaluate(Stubborn(), "fourrooms", episodes=2, acting="sampled")


def test_sampling_is_exact_in_a_model():
    demos, _ = sdil.get_task("sepsis").collect(clean=20, noisy=0, seed=0)
    policy = sdil.BC(max_updates=100, min_updates=100).fit(demos, seed=0)
    exact = sdil.evaluate(policy, "sepsis", acting="sampled")
    sampled = sdil.evaluate(policy, "sepsis", acting="sampled", episodes=4_000, seed=1)
    assert exact.exact
    assert sampled.reward_mean == pytest.approx(exact.reward_mean, abs=4 * sampled.reward_sem)
    assert exact.reward_mean != sdil.evaluate(policy, "sepsis", acting="greedy").reward_mean
