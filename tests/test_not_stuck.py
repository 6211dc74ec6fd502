"""A small world of real numbers in which greedy clones get stuck, and the rule that gets them out.

A point is to go right, past a wall in the middle of its way. Demonstrations pass above it or below
it; who pushes straight into it stays where it is.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import sdil
from sdil import BC, Demonstrations, InputError, NotStuck, Trajectory
from sdil.acting import act_by, rule_of, suit


class Wall(gym.Env):
    """From (0, y) to x > 2; between x = 0.9 and 1.1 one cannot be nearer to the axis than 0.5."""

    observation_space = gym.spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = gym.spaces.Box(-0.3, 0.3, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = np.array([0.0, self.np_random.uniform(-0.05, 0.05)], np.float32)
        self.clock = 0
        return self.at.copy(), {}

    def step(self, action):
        after = np.clip(self.at + action, -9, 9).astype(np.float32)
        blocked = after[0] > 0.9 and self.at[0] < 1.1 and abs(after[1]) < 0.5
        self.at = self.at if blocked else after
        self.clock += 1
        there = bool(self.at[0] > 2)
        return self.at.copy(), float(there), there, self.clock >= 40, {"is_success": there}


def passing(n, seed, rests=0):
    """Demonstrations, half of them above the wall; some rest where they are for a while."""
    env, rng, found = Wall(), np.random.default_rng(seed), []
    for i in range(n):
        at, over = env.reset(seed=seed * 100 + i)[0], False
        seen, actions, side, resting = [at], [], 1.0 if i % 2 else -1.0, rests
        while not over:
            up = side * 0.25 if abs(at[1]) < 0.7 and at[0] < 1.1 else 0.0
            action = np.array([0.05 if up else 0.25, up]) + 0.02 * rng.normal(size=2)
            if len(actions) >= 3 and resting:
                action, resting = 1e-3 * rng.normal(size=2), resting - 1
            action = action.astype(np.float32).clip(-0.3, 0.3)
            at, _, ended, cut, _ = env.step(action)
            seen.append(at)
            actions.append(action)
            over = ended or cut
        found.append(Trajectory(np.stack(seen), np.stack(actions), None, ended, str(i)))
    return found


@pytest.fixture(scope="module")
def demos():
    return Demonstrations(passing(10, 0), [])


@pytest.fixture(scope="module")
def stubborn(demos):
    """A policy that pushes right wherever it is, with another way in mind that it never takes."""
    policy = BC(max_updates=20, min_updates=20).fit(demos, seed=0)
    network = policy._acting
    one = torch.zeros(5, 5, dtype=torch.float64)  # weight, two means, two spreads of each
    middle, reach = network.head._reach()

    def raw(action):
        units = network.head.encode(torch.tensor([action], dtype=torch.float32))
        return ((units - middle) / reach).clamp(-0.99, 0.99).atanh()[0]

    ways = [((0.3, 0.0), 0.0), ((0.0, 0.25), -0.5), ((0.0, -0.25), -0.5)]
    for k, (action, weight) in enumerate(ways):
        one[k, 0], one[k, 1:3] = weight, raw(action)
    one[3:, 0], one[:, 3:] = -20.0, -4.0
    for parameter in network.body.parameters():
        parameter.zero_()
    network.body[-1].bias.copy_(one.flatten())
    return suit(policy, demos)


def test_what_the_data_says_of_moving_and_staying(demos):
    policy = BC(max_updates=20, min_updates=20).fit(demos, seed=0)
    (rule,) = policy.offers
    steps = np.concatenate([np.diff(t.observations, axis=0) for t in demos.clean])
    assert rule.moves == pytest.approx(np.sqrt((steps.astype(float) ** 2).mean(0)).tolist())
    assert rule.stays == 0
    assert NotStuck.name not in policy.why_not
    assert policy.rules == ()  # greedy by default, like every learner but SDIL
    resting = BC(max_updates=20, min_updates=20).fit(
        Demonstrations(passing(10, 0, rests=20), []), seed=0
    )
    assert "stay near where they were" in resting.why_not[NotStuck.name]


def test_near_is_measured_against_how_far_the_data_moves():
    rule = NotStuck(moves=(1.0, 0.1, 0.0), near=0.5)
    here = torch.zeros(4, 3)
    there = torch.tensor([[0.4, 0.0, 9.0], [0.0, 0.04, 0.0], [0.0, 0.1, 0.0], [0.8, 0.0, 0.0]])
    assert rule.is_near(here, there).tolist() == [True, True, False, False]


def test_greedy_it_is_stuck_and_with_the_rule_it_passes(stubborn):
    greedy = sdil.evaluate(stubborn, Wall, episodes=10, acting="greedy")
    assert greedy.success_rate == 0.0
    moving = sdil.evaluate(stubborn, Wall, episodes=10, acting="not-stuck")
    assert moving.success_rate == 1.0
    alone = sdil.evaluate(stubborn, Wall, episodes=10, acting="not-stuck", n_envs=1)
    np.testing.assert_array_equal(alone.episodes.lengths, moving.episodes.lengths)


def test_the_rule_says_nothing_while_it_moves_and_is_saved(stubborn, demos, tmp_path):
    acting = act_by(stubborn, "not-stuck")
    state = bare = None
    for seen in demos.clean[0].observations[:6]:
        action, state = acting.predict(seen, state)
        greedy, bare = stubborn.predict(seen, bare)
        np.testing.assert_array_equal(action, greedy)
    other, _ = acting.predict(seen, state)  # the same state once more
    assert np.abs(other - greedy).max() > 0.1
    acting.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    assert again.rules == acting.rules
    assert again.offers == stubborn.offers
    assert rule_of(acting.rules[0].configuration()) == acting.rules[0]


def test_who_cannot_act_by_it_is_told(stubborn, demos):
    with pytest.raises(InputError, match="must know how far states move"):
        act_by(stubborn, NotStuck())
    counted = Demonstrations(
        [Trajectory(t.observations, np.zeros(len(t), np.int64), None, False) for t in demos.clean]
    )
    policy = BC(max_updates=20, min_updates=20).fit(counted, seed=0)
    with pytest.raises(InputError, match="not-stuck is a rule for actions that cannot be listed"):
        policy.acting_by([NotStuck(moves=(1.0, 1.0))])
    with pytest.raises(InputError, match="each a number, at least 0"):
        stubborn.acting_by([NotStuck(moves=(-1.0, 1.0))])
