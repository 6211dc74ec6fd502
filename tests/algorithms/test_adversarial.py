from __future__ import annotations

import math
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load, save

import sdil
from sdil import ACIL, AIRL, GAIL, DensityIRL, InputError
from sdil.algorithms.acil import Cooperation
from sdil.algorithms.adversarial import (
    Adversary,
    StateActionDiscriminator,
    absorbed_share,
    judge_loss,
    offline_judge_loss,
    offline_policy_loss,
)
from sdil.algorithms.airl import ShapedDiscriminator
from sdil.algorithms.density_irl import Density
from sdil.algorithms.ppo import Rollout, Steps
from sdil.heads import Categorical, Considered
from sdil.networks.policies import Architecture, PlainNetwork
from sdil.networks.raters import ActionRater, taken
from sdil.training import Optimisation, seeded

FEW = {  # three rounds
    "env_steps": 3 * 16 * 20,
    "n_envs": 16,
    "round_steps": 20,
    "passes": 1,
    "parts": 2,
    "judge_updates": 2,
}
ALL = [GAIL, AIRL, ACIL, DensityIRL]


def brief(kind, **more):
    known = {k: v for k, v in FEW.items() if k in kind.__dataclass_fields__}
    return kind(**known, **more)


def steps_of(states, actions, ended=None) -> Steps:
    states = torch.as_tensor(states, dtype=torch.float32)
    ended = torch.zeros(len(states), dtype=torch.bool) if ended is None else torch.tensor(ended)
    return Steps(states, states, torch.as_tensor(actions), states, ended)


def two_actions() -> StateActionDiscriminator:
    return StateActionDiscriminator(ActionRater(1, Categorical(2), 8, 1))


def rollout_of(steps: Steps) -> Rollout:
    n = len(steps)
    return Rollout(
        steps,
        torch.zeros(1, n, dtype=torch.bool),
        steps.features[:0],
        steps.features,
        steps.actions,
    )


def test_the_judges_loss_by_hand():
    demonstrated = torch.tensor([0.0, 2.0], requires_grad=True)
    practised = torch.tensor([1.0], requires_grad=True)
    loss = judge_loss(demonstrated, practised, 0.2, 0.5)
    there = 0.8 * (math.log(2) + math.log(1 + math.exp(-2))) / 2
    assert loss.item() == pytest.approx(there + 0.5 * math.log(1 + math.e))
    loss.backward()
    assert (demonstrated.grad < 0).all()  # descending raises the logits of demonstrated steps
    assert (practised.grad > 0).all()


def test_the_absorbing_states_share_by_hand():
    """Two of four episodes' steps end; each then lies 1 / (1 - 0.9) = 10 moments there."""
    steps = steps_of(np.zeros((4, 1)), [0, 0, 0, 0], [True, False, True, False])
    assert absorbed_share(steps, 0.9) == pytest.approx(20 / 24)
    never = steps_of(np.zeros((4, 1)), [0, 0, 0, 0])
    assert absorbed_share(never, 0.9) == 0.001


def test_judge_and_absorbing_state_learn_the_ratio_of_occupancies():
    """One state, two actions: demonstrated 3 : 1, practised 1 : 3, ends in half or a quarter of
    the steps. With gamma 0.5 an end lies 2 moments: shares 1/2 and 1/3 absorbing."""
    state = [[1.0]] * 4
    demonstrated = steps_of(state, [0, 0, 0, 1], [True, False, True, False])
    practised = rollout_of(steps_of(state, [0, 1, 1, 1], [True, False, False, False]))
    with seeded(0) as generator:
        judge = two_actions()
    optimisation = Optimisation(
        {"judge": judge}, learning_rate=0.03, weight_decay=0.0, generator=generator
    )
    adversary = Adversary(
        judge, demonstrated, lambda x: x, optimisation, gamma=0.5, batch_size=256, updates=200
    )
    adversary.learn(practised)
    rewards, absorbing = adversary.rewards(practised)
    there, here = 1 / 2, 1 / 3  # absorbing shares
    expected = [
        math.log((1 - there) * 3 / 4 / ((1 - here) * 1 / 4)),
        math.log((1 - there) * 1 / 4 / ((1 - here) * 3 / 4)),
    ]
    assert rewards[:2].tolist() == pytest.approx(expected, abs=0.1)
    assert float(absorbing) == pytest.approx(math.log(there / here))


def test_acil_pays_less_for_what_bad_examples_do():
    """One state, two actions: clean ones take the first, noisy ones the second, the policy both.
    Noisy against clean and practised, the second action is 1 : 1/4, the first 0 : 3/4."""
    state = [[1.0]] * 4
    clean, noisy = steps_of(state, [0, 0, 0, 0]), steps_of(state, [1, 1, 1, 1])
    practised = rollout_of(steps_of(state, [0, 0, 1, 1]))
    settings = {"learning_rate": 0.03, "weight_decay": 0.0}
    with seeded(0) as generator:
        first, second = two_actions(), two_actions()
    adversary = Adversary(
        first,
        clean,
        F.softplus,
        Optimisation({"judge": first}, generator=generator, **settings),
        gamma=0.5,
        batch_size=64,
        updates=100,
    )
    own = Optimisation({"judge": second}, generator=generator, **settings)
    cooperation = Cooperation(adversary, second, noisy, lambda x: -2.0 * F.softplus(x), own)
    cooperation.learn(practised)
    together, absorbing = cooperation.rewards(practised)
    alone, absorbing_alone = adversary.rewards(practised)
    difference = together - alone
    assert float(difference[2]) == pytest.approx(-2 * math.log(1 + 4), abs=0.3)
    assert float(difference[0]) == pytest.approx(0.0, abs=0.2)
    assert float(absorbing - absorbing_alone) == pytest.approx(float(difference.mean()))


def test_airls_logit_by_hand_and_at_its_optimum(monkeypatch):
    """g + gamma h(s') - h(s) - log pi; where f is the demonstrator's log pi, D is 1/2 and the
    policy is paid nothing."""
    spaces = sdil.Spaces(gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(3))
    network = PlainNetwork(spaces, Architecture(0, 4, 1))
    judge = ShapedDiscriminator(network, 4, 1, gamma=0.9)
    states, following = torch.randn(5, 2), torch.randn(5, 2)
    actions = torch.tensor([0, 1, 2, 0, 1])
    ended = torch.tensor([False, True, False, False, True])
    steps = Steps(states, states, actions, following, ended)
    with torch.no_grad():
        log_pi = network.body(states).log_softmax(1)
        out = judge(steps)
        for i in range(5):
            after = 0.0 if ended[i] else 0.9 * float(judge.h(following[i]))
            f = (
                float(judge.g(states[i : i + 1], actions[i : i + 1]))
                + after
                - float(judge.h(states[i]))
            )
            assert float(out[i]) == pytest.approx(f - float(log_pi[i, actions[i]]), abs=1e-5)
        judge.g.body.load_state_dict(network.body.state_dict())  # log pi + a constant
        monkeypatch.setattr(
            judge.h, "forward", lambda states: network.body(states).logsumexp(1, keepdim=True)
        )
        judge.gamma = 0.0
        torch.testing.assert_close(judge(steps), torch.zeros(5), atol=1e-5, rtol=0)
    assert not [name for name, _ in judge.named_parameters() if "policy" in name]


def test_offline_losses_by_hand():
    logits = torch.tensor([[1.0, -1.0]], requires_grad=True)
    probs = torch.tensor([[0.25, 0.75]])
    loss = offline_judge_loss(logits[:, 1], logits, probs)
    soft = lambda x: math.log(1 + math.exp(x))  # noqa: E731
    assert loss.item() == pytest.approx(soft(1) + 0.25 * soft(1) + 0.75 * soft(-1))
    log_probs = probs.log().requires_grad_()
    listed = Considered(torch.arange(2)[None], log_probs, log_probs.exp(), drawn=False)
    rewards = torch.tensor([[2.0, 4.0]])
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    loss = offline_policy_loss(rewards, listed, 0.1)
    assert loss.item() == pytest.approx(-(0.5 + 3.0) - 0.1 * entropy)


def test_offline_gail_is_at_rest_where_the_policy_is_the_demonstrator():
    """The judge that cannot tell them apart has no gradient, and pays every action the same."""
    demonstrated = torch.tensor([0, 0, 0, 1])
    probs = torch.tensor([[0.75, 0.25]]).expand(4, 2)
    logits = torch.zeros(4, 2, requires_grad=True)
    offline_judge_loss(taken(logits, demonstrated), logits, probs).backward()
    torch.testing.assert_close(logits.grad.sum(0), torch.zeros(2))
    own = torch.zeros(4, 2, requires_grad=True)
    listed = Categorical(2).consider(own, torch.Generator(), 1)
    offline_policy_loss(F.softplus(logits), listed, 0.0).backward()
    torch.testing.assert_close(own.grad, torch.zeros(4, 2))


def test_densities_by_hand():
    """Two centres one apart, bandwidth 1, one input."""
    density = Density(
        torch.tensor([[0.0], [1.0]]),
        torch.tensor([0, 1]),
        Categorical(2),
        bandwidth=1.0,
        state_weight=0.25,
    )
    out = density.log_density(torch.tensor([[0.0], [3.0]]))
    other = math.exp(-1.0)
    for row, (near, far) in enumerate([(1.0, math.exp(-0.5)), (math.exp(-4.5), math.exp(-2.0))]):
        of_state = math.log((near + far) / 2)
        first = math.log((near + other * far) / 2)
        second = math.log((other * near + far) / 2)
        expected = [0.25 * of_state + 0.75 * first, 0.25 * of_state + 0.75 * second]
        assert out[row].tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("look_back", [0, 2])
def test_with_a_table_the_same_seed_gives_the_same_policy_and_resuming_too(kind, look_back, demos):
    table, learner = sdil.get_task("fourrooms").table(), brief(kind, look_back=look_back)
    kept, told = [], []
    before = torch.random.get_rng_state()
    whole = learner.fit(
        demos,
        env=table,
        on_epoch=lambda e: (
            told.append(e),
            kept.append(save(e.state())),
        ),
    )
    assert torch.equal(before, torch.random.get_rng_state())
    assert whole.learner == kind.name
    assert [(e.index, e.total) for e in told] == [(1, 3), (2, 3), (3, 3)]
    assert all(math.isfinite(v) for e in told for v in e.losses.values())
    resumed = learner.fit(demos, env=table, resume=load(kept[0]))
    other = learner.fit(demos, env=table, seed=1)
    for key, value in whole.tensors().items():
        assert torch.equal(value, resumed.tensors()[key])
    assert any(not torch.equal(v, other.tensors()[k]) for k, v in whole.tensors().items())


@pytest.mark.parametrize("kind", ALL)
def test_without_an_environment_the_policy_says_offline(kind, demos):
    policy = kind(max_updates=20, min_updates=1, patience=1).fit(demos)
    assert policy.learner == f"{kind.name} (offline)"


@pytest.mark.parametrize("kind", ALL)
def test_divergence_in_practice_is_said(kind, demos):
    with pytest.raises(InputError, match=r"training diverged .* lower learning_rate"):
        brief(kind, learning_rate=1e30).fit(demos, env="fourrooms")


def test_acil_without_noisy_demonstrations_is_gail(demos):
    clean = demos.clean_only()
    one = ACIL(**FEW).fit(clean, env="fourrooms").tensors()
    other = GAIL(**FEW).fit(clean, env="fourrooms").tensors()
    assert all(torch.equal(one[k], other[k]) for k in one)


def test_validation_is_reported_and_other_worlds_are_refused(demos):
    told = []
    GAIL(**FEW).fit(demos, valid=demos, env="fourrooms", on_epoch=told.append)
    assert all("valid_nll" in e.losses for e in told)
    with pytest.raises(InputError, match="observation space"):
        GAIL(**FEW).fit(demos, env="doorkey-5x5")
    with pytest.raises(InputError, match="gail: gamma must be"):
        GAIL(gamma=1.0).fit(demos)


def test_any_gymnasium_environment_will_do():
    """Resumed, its episodes begin anew, so only that it goes on is promised."""
    env = gym.make("CartPole-v1")
    rng, episodes = np.random.default_rng(0), []
    for seed in range(4):
        seen, actions = [env.reset(seed=seed)[0]], []
        for _ in range(6):
            actions.append(int(rng.integers(2)))
            seen.append(env.step(actions[-1])[0])
        episodes.append(sdil.Trajectory(np.stack(seen), np.array(actions), terminated=False))
    demos, kept = sdil.Demonstrations(clean=episodes), []
    learner = GAIL(**FEW, look_back=1)
    policy = learner.fit(demos, env="CartPole-v1", on_epoch=lambda e: kept.append(e.state()))
    assert policy.learner == "gail"
    again = learner.fit(demos, env=lambda: gym.make("CartPole-v1"))
    assert all(torch.equal(v, again.tensors()[k]) for k, v in policy.tensors().items())
    told = []
    learner.fit(demos, env="CartPole-v1", resume=kept[1], on_epoch=told.append)
    assert [e.index for e in told] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [GAIL, AIRL])
def test_adversaries_find_the_goal_from_clean_demonstrations(kind):
    """Two fifths of the default practice: from hardly ever to most of the time."""
    demos = sdil.get_task("fourrooms").collect(clean=100, noisy=0, seed=100)[0]
    learner = kind(env_steps=200_000)
    start = replace(learner, env_steps=1, n_envs=1, round_steps=1, learning_rate=1e-9)
    before = sdil.evaluate(start.fit(demos, env="fourrooms"), "fourrooms", episodes=200)
    after = sdil.evaluate(learner.fit(demos, env="fourrooms"), "fourrooms", episodes=200)
    assert before.reward_mean < 0.2
    assert after.reward_mean > 0.5
