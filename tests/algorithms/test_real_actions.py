"""Learners on actions that are real numbers."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sdil import (
    SDIL,
    Demonstrations,
    InputError,
    Judge,
    Trajectory,
    WithoutCircles,
    load_judge,
    load_policy,
)
from sdil.algorithms import LEARNERS
from sdil.evaluation.metrics import RealMetrics, measure_recorded
from sdil.explanation.explain import explain
from sdil.spaces import Spaces
from sdil.windows import Windows

REAL = sorted(  # those that practise are tried in test_real_rewards.py
    name for name, kind in LEARNERS.items() if kind.real_actions and kind.environment == "never"
)
AT_ONCE = ("bc", "sdil")
FEW = {"max_updates": 300, "min_updates": 200}
QUICK_JUDGE = Judge(clone_updates=200, distance_updates=60, outcome_updates=60)


def steered(rng, n, wrong, name):
    """Right is to steer by 0.5 against the first entry; bad steps go anywhere."""
    found, good = [], []
    for i in range(n):
        x = rng.normal(size=(21, 3)).astype(np.float32)
        bad = rng.random(20) < wrong
        right = np.column_stack([-0.5 * x[:-1, 0], np.sign(x[:-1, 1])])
        other = np.column_stack([rng.uniform(-1.5, 1.5, 20), rng.choice([-1.0, 1.0], 20)])
        actions = np.where(bad[:, None], other, right).astype(np.float32)
        found.append(Trajectory(x, actions, None, False, f"{name}{i}"))
        good.append(~bad)
    return found, good


@pytest.fixture(scope="module")
def world():
    rng = np.random.default_rng(0)
    noisy, good = steered(rng, 40, 0.5, "n")
    unseen = Demonstrations(steered(rng, 10, 0.0, "u")[0], [])
    return Demonstrations(steered(rng, 8, 0.0, "c")[0], noisy), good, unseen


@pytest.fixture(scope="module")
def judge(world):
    return QUICK_JUDGE.fit(world[0], seed=0)


def learn(name, world, judge=None, **fields):
    demos, good, _ = world
    learner = LEARNERS[name](**FEW, **fields)
    told = {"truth": good} if learner.takes_truth else {}
    told |= {"judge": judge} if learner.takes_judge else {}
    return learner.fit(demos, seed=0, **told)


@pytest.mark.parametrize(
    "name",
    [
        n if n in ("bc", "oracle", "sdil", "scored-bc") else pytest.param(n, marks=pytest.mark.slow)
        for n in REAL
    ],
)
@pytest.mark.filterwarnings("ignore:discovery failed", "ignore:no clean step was paired")
def test_it_learns_to_steer(name, world, judge, tmp_path):
    policy = learn(name, world, judge)
    found = measure_recorded(policy, world[2].clean)
    assert isinstance(found, RealMetrics)
    assert found.relative_error < 0.75 * found.mean_action_relative_error
    assert len(found.error) == 2
    policy.save(tmp_path / "kept")
    again = load_policy(tmp_path / "kept")
    observations = world[2].clean[0].observations
    actions, _ = policy.predict(observations)
    np.testing.assert_array_equal(again.predict(observations)[0], actions)
    assert actions.shape == (21, 2)
    assert actions.dtype == np.float32
    assert set(np.unique(actions[:, 1])) <= {-1.0, 1.0}  # it shuts the gripper, or opens it
    if policy.judge is not None and name != "demodice":
        told = np.concatenate([s.optimality for s in policy.score(world[0].noisy)])
        good = np.concatenate(world[1])
        assert told[good].mean() > told[~good].mean()


def test_a_mixture_beats_least_squares_where_there_are_two_ways():
    rng = np.random.default_rng(1)
    episodes = []
    for i in range(12):
        x = rng.normal(size=(21, 2)).astype(np.float32)
        side = rng.choice([-1.0, 1.0], (20, 1))
        actions = (side + 0.1 * rng.normal(size=(20, 1))).astype(np.float32)
        episodes.append(Trajectory(x, actions, None, False, str(i)))
    demos = Demonstrations(episodes[:8], [])
    unseen = Demonstrations(episodes[8:], [])
    nll = {}
    for head in ("mixture", "regression"):
        policy = LEARNERS["bc"](**FEW, head=head).fit(demos, seed=0)
        nll[head] = measure_recorded(policy, unseen.clean).nll
    assert nll["mixture"] < nll["regression"] - 0.3


def test_the_same_seed_gives_the_same_policy(world):
    once, again = learn("bc", world), learn("bc", world)
    for name, tensor in once.tensors().items():
        assert torch.equal(tensor, again.tensors()[name]), name


def test_drawn_actions_follow_torch_and_lie_about(world):
    policy = learn("bc", world)
    observation = np.zeros((200, 3), np.float32)
    torch.manual_seed(0)
    first, _ = policy.predict(observation, deterministic=False)
    torch.manual_seed(0)
    again, _ = policy.predict(observation, deterministic=False)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(first[:, 0])) > 100
    assert len(np.unique(policy.predict(observation)[0], axis=0)) == 1


def test_what_there_is_of_real_actions_is_said(world):
    demos, _, unseen = world
    policy = learn("bc", world)
    (first, *_) = policy.log_likelihood(unseen.clean)
    assert first.shape == (20,)
    with pytest.raises(InputError, match="they have a density, not a probability each"):
        policy.probabilities(unseen.clean)
    with pytest.raises(InputError, match="without-circles is a rule for counted actions"):
        policy.acting_by([WithoutCircles()])
    assert "real numbers" in policy.why_not["without-circles"]
    whole = [
        Trajectory(t.observations, np.zeros((len(t), 2), np.int64), None, False)
        for t in demos.clean
    ]

    spaces = Spaces(demos.spaces.observation, gym.spaces.Box(0, 3, (2,), np.int64))
    with pytest.raises(InputError, match="counted or real"):
        LEARNERS["bc"]().fit(Demonstrations(whole, [], spaces), seed=0)


def test_past_actions_are_seen_in_units_of_the_data(world):
    policy = learn("bc", world, look_back=2)
    windows = Windows(world[2].clean, 2)
    features = policy._network.features(windows.at(torch.tensor([5])))
    actions = windows.actions_at(torch.tensor([3, 4]))
    seen = features[0, 3:].view(2, 3 + 2 + 1)[:, 3:5]
    torch.testing.assert_close(seen, policy._network.head.encode(actions))


def test_the_judge_tells_bad_steps_and_says_the_same_when_loaded(world, judge, tmp_path):
    demos, good, _ = world
    heard = {s.name for s in judge.signals if s.heard and s.output == "step"}
    assert "likelihood" in heard
    told = np.concatenate([s.optimality for s in judge.score(demos.noisy)])
    assert roc_auc_score(np.concatenate(good), told) > 0.85
    judge.save(tmp_path / "judged")
    again = load_judge(tmp_path / "judged")
    np.testing.assert_array_equal(
        told, np.concatenate([s.optimality for s in again.score(demos.noisy)])
    )
    sound = np.concatenate([s.integrity for s in judge.score(demos.noisy)])
    assert ((sound >= 0) & (sound <= 1)).all()


def test_the_page_calls_actions_by_their_clusters(world, judge):
    record = explain(judge, world[0], about={"run": "this"})
    assert len(record.action_names) == 8
    assert all(name.startswith("(") for name in record.action_names)
    kinds = record.episodes.actions
    assert kinds.shape == (world[0].all.n_steps,)
    assert set(kinds.tolist()) == set(range(8))
    shut = [i for i, name in enumerate(record.action_names) if name.endswith(", -1)")]
    actions = world[0].all.actions[world[0].all.steps()]
    assert (actions[np.isin(kinds, shut), 1] == -1).all()


def test_signals_of_actions_dealt_out_anew_are_told_for_each(world, judge):
    """One action or several at once: the same."""
    demos = world[0]
    windows = judge._windows(demos.noisy)
    index = torch.arange(30)
    several = windows.actions_at(torch.arange(90)).view(30, 3, 2)
    for name in ("likelihood", "consensus", "progress", "efficiency"):
        together = judge.evidence.rate(name, windows, index, several)
        assert together.shape == (30, 3)
        alone = torch.cat(
            [judge.evidence.rate(name, windows, index, several[:, k : k + 1]) for k in range(3)], 1
        )
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:discovery failed", "ignore:no clean step was paired")
def test_the_papers_sdil_learns_too(world):
    demos, _, unseen = world
    short = {"discovery_epochs": 5, "discovery_min_updates": 300, **FEW}
    for preset in (SDIL.paper(), SDIL.released()):
        policy = replace(preset, **short).fit(demos, seed=0)
        found = measure_recorded(policy, unseen.clean)
        assert found.relative_error < found.mean_action_relative_error
        assert policy.skill_optimality.isfinite().all()


@pytest.mark.filterwarnings("ignore:discovery failed", "ignore:no clean step was paired")
def test_resuming_gives_the_same_bit_for_bit(world, judge):
    demos = world[0]
    learner = SDIL(
        max_updates=60, min_updates=20, discovery_epochs=1, discovery_min_updates=20, hidden=16
    )
    states = []
    whole = learner.fit(
        demos, judge=judge, seed=0, on_epoch=lambda epoch: states.append(epoch.state())
    )
    again = learner.fit(demos, judge=judge, seed=0, resume=states[len(states) // 2])
    for name, tensor in whole.tensors().items():
        torch.testing.assert_close(
            again.tensors()[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name
        )
