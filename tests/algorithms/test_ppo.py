from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import sdil
from sdil import Spaces
from sdil.algorithms.ppo import PPO, Rollout, Settings, Steps, advantages, practise
from sdil.history import History
from sdil.networks.encoders import mlp
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.simulators import simulator
from sdil.table import Table
from sdil.training import Optimisation, seeded

GAMMA, LAMBDA = 0.9, 0.5


def ring(length: int = 12) -> Table:
    """A ring of states; action 1 goes on, 0 goes back, 2 stays; on from the last one ends."""
    here = np.arange(length)
    end = np.zeros((length, 3), bool)
    end[-1, 1] = True
    return Table(
        states=tuple(range(length)),
        observe=lambda states: np.eye(length, dtype=np.float32)[states],
        next_state=np.stack([(here - 1) % length, (here + 1) % length, here], 1),
        reward=end.astype(float),
        end=end,
        start_state=lambda seed: seed % length,
        horizon=40,
        time_cost=0.9,
        spaces=Spaces(gym.spaces.Box(0, 1, (length,), np.float32), gym.spaces.Discrete(3)),
    )


class EndPays:
    """The true reward: 1 for the step that ends an episode."""

    def learn(self, rollout):
        return {}

    def rewards(self, rollout):
        return rollout.steps.ended.float(), torch.tensor(0.0)

    def state(self):
        return {}

    def restore(self, state):
        pass


def make_ppo(table: Table, *, look_back: int = 0, seed: int = 0, n_steps: int = 32) -> PPO:
    with seeded(seed) as generator:
        network = PlainNetwork(table.spaces, Architecture(look_back, 32, 1))
        critic = mlp(network.features.size, 32, 1, 1)
    optimisation = Optimisation(
        {"network": network, "critic": critic},
        learning_rate=3e-3,
        weight_decay=0.0,
        generator=generator,
    )
    episodes = simulator(table, 32, seed, table.spaces)
    return PPO(
        network,
        critic,
        optimisation,
        episodes,
        History.none(table.spaces, 32, look_back),
        Settings(n_steps, GAMMA, 0.95, 0.2, 0.01, 4, 4),
    )


def test_advantages_by_hand():
    """Three steps of one episode, then the end, then one step of another."""
    rewards = torch.tensor([[1.0], [0.0], [2.0], [4.0]])
    values = torch.tensor([[0.5], [1.0], [0.2], [0.3]])
    next_values = torch.tensor([[1.0], [0.2], [0.7], [0.6]])  # 0.7: the absorbing state's
    over = torch.tensor([[False], [False], [True], [False]])
    errors = [
        0.1 * 1 + 0.9 * 1.0 - 0.5,
        0.1 * 0 + 0.9 * 0.2 - 1.0,
        0.1 * 2 + 0.9 * 0.7 - 0.2,
        0.1 * 4 + 0.9 * 0.6 - 0.3,
    ]
    third = errors[2]  # nothing comes over from the next episode
    second = errors[1] + GAMMA * LAMBDA * third
    first = errors[0] + GAMMA * LAMBDA * second
    out = advantages(rewards, values, next_values, over, GAMMA, LAMBDA)
    assert out[:, 0].tolist() == pytest.approx([first, second, third, errors[3]])


def test_what_follows_an_end_is_worth_the_absorbing_reward_and_a_time_out_what_the_critic_says():
    ppo = make_ppo(ring(4), n_steps=2)
    features = torch.eye(4)
    steps = Steps(
        features, features, torch.zeros(4, dtype=torch.int64), features,
        ended=torch.tensor([True, False, False, False]),
    )  # fmt: skip
    cut_off = torch.tensor([[False, True], [False, False]])  # two steps of two episodes
    rollout = Rollout(
        steps, cut_off, after_cut=features[3:], last=features[:2], picked=steps.actions
    )
    with torch.no_grad():
        critic = ppo.values(features)
        out = ppo.next_values(rollout, critic, torch.tensor(7.0))
    assert out[0].tolist() == pytest.approx([7.0, float(critic[3])])
    assert out[1].tolist() == pytest.approx(critic[:2].tolist())


def test_the_absorbing_state_is_worth_its_reward_for_ever():
    """(1 - gamma) (r + gamma r + gamma^2 r + ...) = r: staying in a state that pays as much is
    worth the same, so that ending is neither a reward nor a punishment in itself."""
    forever = (1 - GAMMA) * sum(GAMMA**k * 0.4 for k in range(2000))
    assert forever == pytest.approx(0.4)
    same = torch.full((1, 1), 0.4)
    for over in (True, False):
        out = advantages(same, same, same, torch.tensor([[over]]), GAMMA, LAMBDA)
        assert float(out) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("look_back", [0, 2])
def test_practice_on_the_true_reward_finds_the_way(look_back):
    table, told = ring(), []
    ppo = make_ppo(table, look_back=look_back)
    practise(ppo, EndPays(), rounds=30, valid_loss=None, on_epoch=told.append, resume=None)
    assert [e.index for e in told] == list(range(1, 31))
    assert told[-1].losses["ended_per_step"] > 4 * told[0].losses["ended_per_step"]
    policy = PlainPolicy(table.spaces, Architecture(look_back, 32, 1), ppo.network)
    result = sdil.evaluate(policy, table, episodes=50)
    assert result.success_rate == 1.0
    assert result.length_mean < 8  # the way round is 6.5 steps on average


def test_what_is_practised_is_what_happened():
    """States, actions and next states of a rollout follow the table; time-outs are marked."""
    table = ring()
    ppo = make_ppo(table, n_steps=50)
    rollout = ppo.rollout()
    steps = rollout.steps
    states, actions = steps.states.argmax(1).numpy(), steps.actions.numpy()
    np.testing.assert_array_equal(
        table.next_state[states, actions], steps.next_states.argmax(1).numpy()
    )
    np.testing.assert_array_equal(table.end[states, actions], steps.ended.numpy())
    assert len(rollout.after_cut) == int(rollout.cut_off.sum()) > 0
    over = (steps.ended.view(50, 32) | rollout.cut_off)[:-1]
    following = torch.from_numpy(states).view(50, 32)[1:]
    goes_on = torch.from_numpy(table.next_state[states, actions]).view(50, 32)[:-1]
    assert torch.equal(following[~over], goes_on[~over])
    frequencies = np.bincount(actions, minlength=3) / len(actions)
    probs = ppo.network.body(steps.features).softmax(1).mean(0).detach().numpy()
    np.testing.assert_allclose(frequencies, probs, atol=0.05)
