"""Reward learners on actions that are real numbers, with a simulator and without."""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from reaching import Reaching, demonstrate, reaching_demos

import sdil
from sdil import ACIL, AIRL, GAIL, MCEIRL, Demonstrations, DensityIRL, InputError
from sdil.algorithms.adversarial import offline_policy_loss
from sdil.algorithms.density_irl import Density
from sdil.evaluation.metrics import measure_recorded
from sdil.heads import Considered, Mixture, make_head
from sdil.networks.raters import ActionRater

SOME = [  # the others share their code
    GAIL,
    pytest.param(AIRL, marks=pytest.mark.slow),
    pytest.param(ACIL, marks=pytest.mark.slow),
    pytest.param(DensityIRL, marks=pytest.mark.slow),
]
FEW = {
    "env_steps": 3 * 8 * 10,
    "n_envs": 8,
    "round_steps": 10,
    "passes": 1,
    "parts": 2,
    "judge_updates": 2,
}


def brief(kind, **more):
    return kind(**{k: v for k, v in FEW.items() if k in kind.__dataclass_fields__}, **more)


@pytest.fixture(scope="module")
def demos():
    return reaching_demos()


@pytest.mark.parametrize("kind", SOME)
def test_practice_follows_from_the_seed_and_goes_on_when_resumed(kind, demos, tmp_path):
    kept, told = [], []
    learner = brief(kind, look_back=1)
    before = torch.random.get_rng_state()
    first = learner.fit(
        demos, env=Reaching, on_epoch=lambda e: (told.append(e), kept.append(e.state()))
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert first.learner == kind.name
    assert [e.index for e in told] == [1, 2, 3]
    assert all(math.isfinite(v) for e in told for v in e.losses.values())
    again, other = (learner.fit(demos, env=Reaching, seed=s) for s in (0, 1))
    assert all(torch.equal(v, again.tensors()[k]) for k, v in first.tensors().items())
    assert any(not torch.equal(v, other.tensors()[k]) for k, v in first.tensors().items())
    more = []
    learner.fit(demos, env=Reaching, resume=kept[1], on_epoch=more.append)
    assert [e.index for e in more] == [3]
    first.save(tmp_path)
    seen = demos.clean[0].observations
    actions = first.predict(seen)[0]
    np.testing.assert_array_equal(sdil.load_policy(tmp_path).predict(seen)[0], actions)
    assert all(Reaching.action_space.contains(a) for a in actions)


@pytest.mark.parametrize("kind", SOME)
def test_offline_it_learns_to_steer(kind, demos):
    policy = kind(min_updates=150, max_updates=150).fit(demos, seed=0)
    assert policy.learner == f"{kind.name} (offline)"
    unseen = Demonstrations(demonstrate(6, 50), [])
    found = measure_recorded(policy, unseen.clean)
    assert found.relative_error < 0.7 * found.mean_action_relative_error


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GAIL, AIRL, DensityIRL])
def test_practice_brings_it_to_the_middle(kind):
    demos = reaching_demos(clean=20, noisy=0)
    learner = kind(env_steps=20_000, n_envs=32, round_steps=40)
    after = sdil.evaluate(learner.fit(demos, env=Reaching), Reaching, episodes=100)
    untrained = kind(env_steps=1, n_envs=1, round_steps=1, learning_rate=1e-9)
    before = sdil.evaluate(untrained.fit(demos, env=Reaching), Reaching, episodes=100)
    assert before.success_rate < 0.3
    assert after.success_rate > 0.6, after


def test_mce_irl_says_why_it_cannot(demos):
    with pytest.raises(InputError, match="mce-irl plans over a list of actions"):
        MCEIRL().fit(demos)


def test_the_gradient_of_drawn_actions_is_that_of_the_mean():
    """One Gaussian, a reward that is the action itself: the mean reward rises by 1 per unit of the
    mean, and what is the same for all actions changes nothing."""
    head = Mixture(gym.spaces.Box(-9.0, 9.0, (1,), np.float32), modes=1)
    outputs = torch.tensor([[0.0, 0.3, 0.2]], requires_grad=True)
    rows = outputs.expand(4_000, -1)
    own = head.consider(rows, torch.Generator().manual_seed(0), 16)
    assert own.drawn
    assert own.actions.shape == (4_000, 16, 1)
    offline_policy_loss(own.actions[..., 0] + 100.0, own, 0.0).backward()
    slope = 1.05 * (1 - math.tanh(0.3) ** 2)  # of the mean by the raw output
    assert float(outputs.grad[0, 1]) == pytest.approx(-slope, abs=0.02)
    assert float(outputs.grad[0, 0]) == pytest.approx(0.0, abs=1e-6)


def test_drawn_rewards_by_hand():
    log_probs = torch.zeros(1, 2, requires_grad=True)
    own = Considered(torch.zeros(1, 2, 1), log_probs, log_probs.exp() / 2, drawn=True)
    offline_policy_loss(torch.tensor([[1.0, 3.0]]), own, 0.0).backward()
    # each against the other: -(1 - 3) / 2 and -(3 - 1) / 2
    assert log_probs.grad.tolist() == [[1.0, -1.0]]


def test_densities_of_real_actions_by_hand():
    head = make_head(gym.spaces.Box(-9.0, 9.0, (2,), np.float32))
    density = Density(
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([[0.0, 0.0], [1.0, 3.0]]),
        head,
        bandwidth=1.0,
        state_weight=0.25,
    )
    found = density.of(torch.tensor([[0.0]]), torch.tensor([[[0.0, 0.0], [1.0, 1.0]]]))
    of_state = math.log((1 + math.exp(-0.5)) / 2)
    first = math.log((1 + math.exp(-0.5 - 0.5 * 5.0)) / 2)  # mean square 5 from the second
    second = math.log((math.exp(-0.5 * 1.0) + math.exp(-0.5 - 0.5 * 2.0)) / 2)
    expected = [0.25 * of_state + 0.75 * first, 0.25 * of_state + 0.75 * second]
    assert found[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_one_action_or_several_are_rated_alike():
    for space in (gym.spaces.Discrete(3), gym.spaces.Box(-1.0, 1.0, (2,), np.float32)):
        head = make_head(space)
        rater = ActionRater(2, head, 8, 1)
        states, outputs = torch.randn(5, 2), torch.randn(5, head.size)
        own = head.consider(outputs, torch.Generator().manual_seed(0), 4)
        each = rater.each(states, own.actions)
        for k in range(each.shape[1]):
            torch.testing.assert_close(rater(states, own.actions[:, k]), each[:, k])
        one, others = rater.both(states, own.actions[:, 1], own.actions)
        torch.testing.assert_close(one, each[:, 1])
        torch.testing.assert_close(others, each)
