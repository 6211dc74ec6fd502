"""What those usually do whose steps look right: one way to act, that a few hardly move."""

from __future__ import annotations

from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
import torch
from corridor import corridor, fit
from pushed import SPACES, pushed, world
from sklearn.metrics import roc_auc_score

from sdil import Demonstrations, Judge, Label, Trajectory, load_judge
from sdil.heads import make_head
from sdil.judges.evidence import STEP_SIGNALS
from sdil.judges.material import Pools
from sdil.judges.typical import Typical, learn_typical
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.spaces import Spaces
from sdil.training import Stages
from sdil.windows import Windows

QUICK = {"clone_updates": 120, "distance_updates": 600, "outcome_updates": 150}


def test_how_near_an_action_is_by_hand():
    typical = Typical(Ensemble(2, 1, 4, 2), 2)
    states = torch.zeros(3, 1)
    usual = typical.networks(states).mean(0)[:, None]
    typical.scale_as(np.array([[0.5, 0.0], [-0.5, 0.0], [0.0, 2.0], [0.0, -2.0]]))
    # variances of 1/8 and 2, and a thousandth
    np.testing.assert_allclose(
        typical.precision, np.diag([1 / 0.126, 1 / 2.001]), rtol=1e-5, atol=1e-7
    )
    off = torch.tensor([[0.0, 0.0], [0.5, 0.0], [0.5, 2.0]])
    with torch.no_grad():
        near = typical.of(states, usual + off)
    squares = [0, 0.25 / 0.126 / 2, (0.25 / 0.126 + 4 / 2.001) / 2]
    np.testing.assert_allclose(near, np.tile(-np.log1p(squares), (3, 1)), rtol=1e-4, atol=1e-6)


def test_the_many_decide_and_those_far_off_hardly_move_it():
    rng = np.random.default_rng(0)
    actions = np.where(rng.random((400, 1)) < 0.7, 0.2, -0.9) + 0.02 * rng.normal(size=(400, 2))
    spaces = Spaces(gym.spaces.Box(-1, 1, (1,)), gym.spaces.Box(-1, 1, (2,)))
    one = Trajectory(rng.uniform(-1, 1, (401, 1)), actions, id="one")
    windows = Windows(Demonstrations([one], [], spaces).clean, 0)
    head, standardise = make_head(spaces.action), Standardise(1)
    standardise.fit(windows)
    head.fit(windows.actions_at(torch.arange(400)))
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    networks = Ensemble(1, 1, 32, head.encoded)
    learn_typical(
        networks,
        head,
        windows,
        standardise,
        (Pools([torch.arange(400)]),),
        Stages(Judge(), generator, None, None),
        generator,
        batch_size=128,
        updates=300,
    )
    with torch.no_grad():
        found = networks(standardise(windows.at(torch.arange(400)).state))[0].mean(0)
    many = head.encode(torch.tensor([[0.2, 0.2]]))[0]
    mean = head.encode(torch.tensor(actions.mean(0)[None]).float())[0]
    assert (found - many).norm() < 0.15 * (mean - many).norm()


@pytest.fixture(scope="module")
def judged():
    demos, good = world(seed=1)
    return Judge(**QUICK).fit(demos, seed=0), demos, good


def test_it_is_heard_where_there_is_one_way_and_it_knows_good_steps(judged):
    judge, demos, good = judged
    assert {"consensus", "typical"} <= set(judge.evidence.heard)
    alone = np.concatenate([s.parts["typical"] for s in judge.score(demos.noisy)])
    assert roc_auc_score(good, alone) > 0.95


def test_it_is_the_same_after_saving(judged, tmp_path):
    judge, demos, _ = judged
    judge.save(tmp_path / "kept")
    again = load_judge(tmp_path / "kept")
    for a, b in zip(judge.score(demos.noisy), again.score(demos.noisy), strict=True):
        np.testing.assert_array_equal(a.optimality, b.optimality)


def test_it_is_looked_at_when_people_label_steps(judged):
    judge, demos, good = judged
    labels, first = [], 0
    for t in demos.noisy[:20]:
        for step in (3, len(t) // 2):
            label = "good" if good[first + step] else "bad"
            labels.append(Label("noisy", t.id, step, step, label))
        first += len(t)
    told = judge.tell(labels)
    looks = told.evidence.lessons.looks
    assert STEP_SIGNALS.index("typical") in looks.which.tolist()
    said = np.concatenate([s.optimality for s in told.score(demos.noisy)])
    assert roc_auc_score(good, said) > 0.9


@pytest.mark.slow
def test_a_judge_that_is_interrupted_while_it_learns_what_is_usual_goes_on_as_if_it_had_not(judged):
    judge, demos, _ = judged
    stopped = []

    def stop(epoch):
        if epoch.phase == "learn what is usual":
            stopped.append(epoch.state())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Judge(**QUICK).fit(demos, seed=0, on_epoch=stop)
    again = Judge(**QUICK).fit(demos, seed=0, resume=stopped[0])
    tensors = judge.tensors()
    assert tensors.keys() == again.tensors().keys()
    for name, tensor in again.tensors().items():
        assert torch.equal(tensor, tensors[name]) or tensor.isnan().any(), name


@pytest.mark.slow
def test_judges_that_were_saved_without_it_score_as_they_did(judged):
    demos = judged[1]
    judge = Judge(signals="likelihood+consensus+value", **QUICK).fit(demos, seed=0)
    rows = ("middles", "log_odds", "step_grounds", "strangers")
    tensors = {k: v[:-1] if k in rows else v for k, v in judge.tensors().items()}
    before = type(judge).build(judge.inner_spaces, judge.configuration(), tensors)
    for a, b in zip(judge.score(demos.noisy), before.score(demos.noisy), strict=True):
        np.testing.assert_array_equal(a.optimality, b.optimality)


@pytest.mark.slow
def test_where_there_are_two_ways_the_mean_of_them_is_none():
    """They swerve to one side or to the other: nobody does what is in the middle."""
    rng = np.random.default_rng(0)
    turned = [np.array([[c, -s], [s, c]]) for c, s in ((0.3, 0.95), (0.3, -0.95))]

    def swerves(t):
        actions = 0.7 * np.stack([turned[rng.integers(2)] @ a for a in t.actions])
        return Trajectory(t.observations, actions.astype(np.float32), None, t.terminated, t.id)

    clean = [swerves(pushed(rng, f"c{i}")[0]) for i in range(10)]
    noisy = [swerves(pushed(rng, f"n{i}", astray=0.4)[0]) for i in range(60)]
    judge = Judge(**QUICK).fit(Demonstrations(clean, noisy, SPACES), seed=0)
    (said,) = (s for s in judge.signals if s.name == "typical")
    assert not said.heard
    assert said.why


@pytest.mark.slow
def test_without_a_signal_of_time_there_is_nothing_to_hold_it_against(judged):
    signals = "likelihood+consensus+typical"
    judge = Judge(signals=signals, **QUICK).fit(judged[1], seed=0)
    (said,) = (s for s in judge.signals if s.name == "typical")
    assert not said.heard
    assert "nobody is heard who knows how long things took" in said.why


def in_several_parts(demos):
    """The same where pushes are to a side or to none, in either direction."""
    space = gym.spaces.MultiDiscrete([3, 3])

    def cut(t):
        return replace(t, actions=np.round(t.actions + 1).astype(np.int64))

    spaces = Spaces(demos.spaces.observation, space)
    return Demonstrations([*map(cut, demos.clean)], [*map(cut, demos.noisy)], spaces)


@pytest.mark.parametrize(
    "make",
    [
        corridor,
        pytest.param(lambda: in_several_parts(world(noisy=30)[0]), marks=pytest.mark.slow),
    ],
)
def test_of_counted_actions_it_is_not_asked(make):
    judge = fit(make())
    (said,) = (s for s in judge.signals if s.name == "typical")
    assert not said.heard
    assert "real numbers" in said.why
