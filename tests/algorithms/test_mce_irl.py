"""MCE IRL. Soft values, policies and occupancy are compared with `imitation`'s own.

Its numbers, on random tabular problems, are in `mce_reference.npz`, which
`tools/mce_reference.py` makes with imitation 1.0.1; they are not made here.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

import sdil
from sdil import MCEIRL, Demonstrations, InputError, Spaces, Trajectory
from sdil.algorithms.soft_planning import Deterministic, Stochastic, occupancy, plan, with_endings
from sdil.table import Table

REFERENCE = np.load(Path(__file__).parent / "mce_reference.npz")
PROBLEMS = sorted({name.rpartition(".")[0] for name in REFERENCE})
QUICK = MCEIRL(reward_min_updates=20, reward_max_updates=40, min_updates=100, max_updates=200)


def solved(dynamics, reward, start, horizon):
    found = plan(dynamics, reward, horizon)
    D = occupancy(found, start)
    times = range(horizon)
    return {
        "V": found.V[:-1],
        "Q": np.stack([found.action_values(t).T for t in times]),
        "pi": np.stack([np.exp(found.log_policy(t)).T for t in times]),
        "D": D,
        "D_sum": D.sum(0),
    }


@pytest.mark.parametrize("problem", PROBLEMS)
def test_it_agrees_with_imitation(problem):
    transition, reward, start = (
        REFERENCE[f"{problem}.{k}"] for k in ("transition", "reward", "start")
    )
    horizon = len(REFERENCE[f"{problem}.V"])
    kinds = [Stochastic(transition)]
    if problem.endswith(".deterministic"):
        kinds.append(Deterministic(transition.argmax(2)))
    for dynamics in kinds:
        for name, value in solved(dynamics, reward, start, horizon).items():
            expected = REFERENCE[f"{problem}.{name}"]
            assert value.shape == expected.shape
            np.testing.assert_allclose(value, expected, rtol=0, atol=1e-6, err_msg=name)


def test_a_chain_by_hand():
    """Two states in a row; one action stays, the other goes on, and from the second it ends."""
    next_state, alike = with_endings(np.array([[0, 1], [1, 1]]), np.array([[0, 0], [0, 1]], bool))
    np.testing.assert_array_equal(next_state, [[0, 1], [1, 2], [3, 3]])
    np.testing.assert_array_equal(alike, [0, 1, 1])
    found = plan(Deterministic(next_state), np.array([-1.0, -2.0, 0.5]), 2)
    two = np.log(2.0)
    np.testing.assert_allclose(found.V[1], [-1 + two, -2 + two, 0.5 + two])
    stay, go = -2 + two, -3 + two  # Q of the first state at time 0
    np.testing.assert_allclose(found.action_values(0)[:, 0], [stay, go])
    np.testing.assert_allclose(found.V[0, 0], np.logaddexp(stay, go))
    goes = np.exp(go) / (np.exp(stay) + np.exp(go))
    np.testing.assert_allclose(found.V[0, 2], 0.5 + two)  # after it, nothing is left
    D = occupancy(found, np.array([1.0, 0.0, 0.0]))
    np.testing.assert_allclose(D[1], [1 - goes, goes, 0])
    np.testing.assert_allclose(D[2], [(1 - goes) / 2, (1 - goes) / 2 + goes / 2, goes / 2])


def test_values_too_far_apart_for_exponentials():
    """A corridor whose steps cost 100 each: exp(V) of most states is zero in floating point."""
    n = 30
    forward = np.minimum(np.arange(n) + 1, n)  # the last state ends
    next_state = np.stack([np.arange(n), forward], 1)
    dense = np.zeros((n, 2, n + 1))
    dense[np.arange(n)[:, None], [0, 1], next_state] = 1.0
    reward, start = np.full(n, -100.0), np.eye(n)[0]
    quick, slow = (
        plan(dynamics, reward, 60)
        for dynamics in (Deterministic(next_state), Stochastic(dense[..., :n]))
    )
    np.testing.assert_allclose(quick.V, slow.V, rtol=1e-12)
    np.testing.assert_allclose(occupancy(quick, start), occupancy(slow, start), atol=1e-12)
    assert occupancy(quick, start)[5].sum() == pytest.approx(1.0)


def test_values_settle_and_leave_nothing_out():
    """A horizon far beyond the point where nothing changes any more."""
    next_state = np.array([[0, 1], [1, 2]])
    dynamics, reward = Deterministic(next_state), np.array([-2.0, -3.0])
    V = np.zeros(2)
    for _ in range(400):
        V = reward + dynamics.soft_maximum(V)
    np.testing.assert_allclose(plan(dynamics, reward, 400).V[0], V, rtol=1e-12)


def tiny_table(observations):
    """Three states in a row; action 1 goes on, and from the last it ends; action 0 stays."""
    return Table(
        states=(0, 1, 2),
        observe=lambda numbers: observations[numbers],
        next_state=np.array([[0, 1], [1, 2], [2, 2]]),
        reward=np.zeros((3, 2)),
        end=np.array([[0, 0], [0, 0], [0, 1]], bool),
        start_state=lambda seed: 0,
        horizon=10,
        time_cost=0.0,
        spaces=Spaces(gym.spaces.Box(-9, 9, (2,), np.float32), gym.spaces.Discrete(2)),
    )


def walk(table, states, actions, **more):
    return Trajectory(table.observe(np.array(states)), np.array(actions), **more)


DIFFERENT = np.array([[0, 0], [1, 0], [0, 1]], np.float32)


def test_a_state_missing_in_the_table_is_named():
    table = tiny_table(DIFFERENT)
    good = walk(table, [0, 1, 2, 2], [1, 1, 1], id="good")
    seen = DIFFERENT[[0, 1, 2, 2]].copy()
    seen[1] = [7, 7]
    odd = Trajectory(seen, np.array([1, 1, 1]), id="odd")
    with pytest.raises(InputError, match="episode 'odd', step 1: its state is not in the table"):
        QUICK.fit(Demonstrations([good, odd], spaces=table.spaces), env=table, valid=one(good))
    jump = walk(table, [0, 2, 2], [1, 1], id="jump")
    with pytest.raises(InputError, match=r"episode 'jump', step 1: in the table .* lead elsewhere"):
        QUICK.fit(Demonstrations([jump], spaces=table.spaces), env=table, valid=one(good))
    wide = Demonstrations([Trajectory(np.zeros((2, 3), np.float32), np.array([0]))] * 2)
    with pytest.raises(InputError, match="different spaces"):
        QUICK.fit(wide, env=table)


def one(trajectory):
    spaces = Spaces(gym.spaces.Box(-9, 9, (2,), np.float32), gym.spaces.Discrete(2))
    return Demonstrations([trajectory], spaces=spaces)


def test_states_that_look_alike():
    """The first two states look alike; a path that must have begun in one of them is found."""
    from sdil.algorithms.demonstrated_mdp import enumerate_mdp
    from sdil.networks.encoders import Standardise

    table = tiny_table(np.array([[0, 0], [0, 0], [0, 1]], np.float32))
    clear = one(walk(table, [0, 1, 2, 2], [1, 1, 1])).clean
    unclear = one(walk(table, [0, 0], [0])).clean  # without the final state: either of two
    mdp = enumerate_mdp(table, clear, unclear, Standardise(2), table.spaces)
    np.testing.assert_array_equal(mdp.train.states, [0, 1, 2])
    np.testing.assert_array_equal(mdp.train.weights, [1.0])
    np.testing.assert_array_equal(mdp.train.after, [3])  # the copy of the last state
    np.testing.assert_array_equal(mdp.valid.states, [0, 1])
    np.testing.assert_array_equal(mdp.valid.weights, [0.5, 0.5])
    probs = mdp.policy(plan(mdp.dynamics, np.full(4, -2.0), mdp.horizon))
    np.testing.assert_allclose(probs.sum(1), 1.0)
    assert probs.shape == (2, 2)
    assert (probs[:, 1] > 0.5).all()


def test_the_gradient_is_that_of_the_likelihood(demos):
    """With known transitions the dual is the negative log-likelihood; check by differences."""
    from sdil.algorithms.demonstrated_mdp import enumerate_mdp
    from sdil.networks.encoders import Standardise

    table = sdil.get_task("fourrooms").table()
    mdp = enumerate_mdp(table, demos.all, demos.clean, Standardise(153), demos.spaces)
    n = mdp.dynamics.n_states
    reward = np.random.default_rng(0).normal(size=n) - 3.0
    entering, visits = mdp.train.entering(n, mdp.horizon), mdp.train.visits(n)

    def dual(reward):
        return (entering * plan(mdp.dynamics, reward, mdp.horizon).V).sum() - visits @ reward

    found = plan(mdp.dynamics, reward, mdp.horizon)
    nll = -mdp.train.log_likelihood(found) * demos.all.n_steps
    assert dual(reward) == pytest.approx(nll, rel=1e-9)
    gradient = occupancy(found, entering)[:-1].sum(0) - visits
    for state in (int(np.argmax(visits)), n - 1, 17):
        step = np.eye(n)[state] * 1e-4
        slope = (dual(reward + step) - dual(reward - step)) / 2e-4
        assert gradient[state] == pytest.approx(slope, abs=1e-4)


def test_the_order_of_trajectories_changes_nothing(demos):
    table = sdil.get_task("fourrooms").table()
    valid = demos.clean_only()
    order = np.random.default_rng(0).permutation(len(demos.clean))
    turned = Demonstrations(
        clean=[demos.clean[int(i)] for i in order],
        noisy=list(demos.noisy)[::-1],
        spaces=demos.spaces,
    )
    first, other = (QUICK.fit(d, valid=valid, env=table) for d in (demos, turned))
    assert first.tensors().keys() == other.tensors().keys()
    for name, value in first.tensors().items():
        torch.testing.assert_close(value, other.tensors()[name], rtol=1e-5, atol=1e-6)


def test_resuming_with_a_table_in_either_phase(demos):
    table = sdil.get_task("fourrooms").table()
    states, epochs = [], []

    def keep(epoch):
        epochs.append(epoch)
        states.append({k: v.clone() for k, v in epoch.state().items()})

    whole = QUICK.fit(demos, env=table, on_epoch=keep).tensors()
    assert {e.phase for e in epochs} == {"reward", "distil"}
    for i in (0, [e.phase for e in epochs].index("distil") + 1):
        resumed = QUICK.fit(demos, env=table, resume=states[i]).tensors()
        assert all(torch.equal(whole[k], resumed[k]) for k in whole)


def test_a_reward_that_diverges_is_said(demos):
    learner = replace(QUICK, reward_learning_rate=1e30)
    for env in (None, sdil.get_task("fourrooms").table()):
        with pytest.raises(InputError, match=r"reward: training diverged .* lower learning_rate"):
            learner.fit(demos, env=env)


def test_it_says_when_it_worked_from_the_log_alone(demos):
    assert QUICK.fit(demos, env=None).learner == "mce-irl (offline)"
    assert QUICK.fit(demos, env="CartPole-v1").learner == "mce-irl (offline)"  # it has no table
    assert QUICK.fit(demos, env="fourrooms").learner == "mce-irl"
    table = sdil.get_task("fourrooms").table()
    assert QUICK.fit(demos, env=table).learner == "mce-irl"


@pytest.mark.slow
def test_it_learns_to_cross_the_rooms():
    task = sdil.get_task("fourrooms")
    demos, _ = task.collect(clean=100, noisy=0, seed=0)
    policy = MCEIRL().fit(demos, env=task.table(), seed=0)
    assert sdil.evaluate(policy, "fourrooms", episodes=300).reward_mean > 0.82
