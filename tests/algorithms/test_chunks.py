"""Learners that predict several actions at once, and act on them before they look again."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from reaching import Reaching, reaching_demos

import sdil
from sdil import BC, Demonstrations, InputError, Trajectory
from sdil.algorithms import LEARNERS
from sdil.algorithms.reuse import Reuse
from sdil.evaluation.metrics import measure_recorded
from sdil.windows import Windows

FEW = {"max_updates": 200, "min_updates": 150}


def counting(n=8, length=9):
    """What to do next is told by what was seen: the action is the state modulo 3."""
    found = []
    for i in range(n):
        x = (i + np.arange(length + 1)) % 3
        seen = np.eye(3, dtype=np.float32)[x]
        found.append(Trajectory(seen, x[:-1], None, False, str(i)))
    return Demonstrations(found)


@pytest.fixture(scope="module")
def policy():
    return BC(**FEW, chunk=4, act_on=3).fit(counting(), seed=0)


def test_actions_ahead_end_with_the_episode():
    windows = Windows(counting(2, 4).clean, 0)
    actions, exists = windows.actions_ahead(torch.tensor([0, 2, 3, 4]), 3)
    assert actions.tolist() == [[0, 1, 2], [2, 0, 2], [0, 0, 0], [1, 2, 0]]
    assert exists.tolist() == [
        [True, True, True],
        [True, True, False],
        [True, False, False],
        [True, True, True],
    ]


def test_the_loss_is_the_mean_over_what_the_episode_still_has(policy):
    network, windows = policy._network, Windows(counting(2, 4).clean, 0)
    index = torch.tensor([1, 3])
    found = network.nll(windows, index)
    outputs = network.ahead(windows.at(index)).log_softmax(-1)
    first = -(outputs[0, 0, 1] + outputs[0, 1, 2] + outputs[0, 2, 0]) / 3
    torch.testing.assert_close(found, torch.stack([first, -outputs[1, 0, 0]]))
    torch.testing.assert_close(network.nll(windows, index, "mean"), found.mean())


def test_it_does_what_it_planned_and_looks_again(policy, tmp_path):
    eye = np.eye(3, dtype=np.float32)
    actions, state = [], None
    for _ in range(7):  # it is always shown the same: what it does is planned
        action, state = policy.predict(eye[1], state)
        actions.append(int(action))
    assert actions == [1, 2, 0, 1, 2, 0, 1]
    # an episode that begins anew forgets the plan, another goes on with its own
    both, state = policy.predict(eye[[0, 2]])
    both, state = policy.predict(eye[[0, 0]], state, np.array([True, False]))
    assert both.tolist() == [0, 0]
    both, state = policy.predict(eye[[0, 0]], state.keep(np.array([1, 0])))
    assert both.tolist() == [1, 1]
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    assert again.act_on == 3
    assert int(again.predict(eye[1], again.predict(eye[1])[1])[0]) == 2
    other = BC(max_updates=20, min_updates=20, chunk=2, act_on=2).fit(counting(2), seed=0)
    with pytest.raises(InputError, match="`state` must be what predict returned"):
        other.predict(eye[0], policy.predict(eye[0])[1])


def test_measures_are_of_the_first_action(policy):
    demos = counting()
    assert (
        sdil.action_metrics(
            np.concatenate(policy.probabilities(demos.clean)),
            np.concatenate([t.actions for t in demos.clean]),
        ).accuracy
        == 1.0
    )


def test_rules_that_decide_at_every_step_are_refused(policy):
    assert "several predictions" in policy.why_not["without-circles"]
    with pytest.raises(InputError, match="looks only every 3 steps"):
        policy.acting_by([sdil.WithoutCircles()])
    drawn = policy.acting_by([sdil.Sample()])
    assert int(drawn.predict(np.eye(3, dtype=np.float32)[0])[0]) in range(3)
    with pytest.raises(InputError, match="act_on is 3, but only 2 actions"):
        BC(chunk=2, act_on=3).fit(counting(), seed=0)
    with pytest.raises(InputError, match="act_on is 3, but only 2 actions"):
        sdil.DWBC(chunk=2, act_on=3).fit(counting(), seed=0)


def test_real_numbers_ahead():
    demos = reaching_demos(clean=10, noisy=0)
    policy = BC(**FEW, chunk=4, act_on=2).fit(demos, seed=0)
    assert policy.why_not["not-stuck"].startswith("it acts on several")
    found = measure_recorded(policy, demos.clean)
    assert found.relative_error < 0.6 * found.mean_action_relative_error
    assert sdil.evaluate(policy, Reaching, episodes=20).success_rate > 0.6


@pytest.mark.parametrize(
    "name",
    [
        "oracle",
        "weighted-bc",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("scored-bc", "cail", "isw-bc", "dwbc")),
    ],
)
def test_those_that_weigh_can_too(name):
    demos = reaching_demos(clean=4, noisy=4)
    learner = LEARNERS[name](max_updates=40, min_updates=20, chunk=3, act_on=2)
    told = {"truth": [np.ones(len(t), bool) for t in demos.noisy]} if learner.takes_truth else {}
    if learner.takes_judge:
        told["judge"] = sdil.Judge(clone_updates=30, distance_updates=30, outcome_updates=30).fit(
            demos, seed=0
        )
    policy = learner.fit(demos, seed=0, **told)
    assert policy.act_on == 2
    first, state = policy.predict(demos.clean[0].observations[0])
    second, _ = policy.predict(demos.clean[0].observations[0], state)
    assert not np.array_equal(first, second)


SKILLS = sdil.SDIL(
    n_skills=3,
    look_back=2,
    hidden=32,
    batch_size=64,
    discovery_epochs=2,
    discovery_min_updates=60,
    pu_interval=2,
    score="pu",
    min_updates=150,
    max_updates=200,
    acting="greedy",
    chunk=4,
    act_on=3,
)


def counting_twice():
    return Demonstrations(counting().clean, counting(4).clean)


@pytest.fixture(scope="module")
def by_skills():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a collapse
        return SKILLS.fit(counting_twice(), seed=0)


def test_skills_plan_what_follows_too(by_skills, tmp_path):
    eye = np.eye(3, dtype=np.float32)
    actions, state = [], None
    for _ in range(7):
        action, state = by_skills.predict(eye[1], state)
        actions.append(int(action))
    assert actions[:3] == [1, 2, 0]
    assert by_skills.act_on == 3
    by_skills.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    windows = Windows(counting().clean, 2)
    seen = windows.at(torch.arange(9))
    plan = by_skills.plan(seen).outputs
    assert plan.shape == (9, 3, 3)
    assert torch.equal(plan[:, 0], by_skills.distribution(seen).outputs)
    assert torch.equal(again.plan(seen).outputs, plan)


def test_what_follows_costs_what_the_episode_still_has(by_skills):
    model, windows = by_skills._models["acting"], Windows(counting(2, 4).clean, 2)
    index = torch.tensor([1, 2, 3])
    reuse = SimpleNamespace(model=model, steps=SimpleNamespace(windows=windows), settings=SKILLS)
    found = Reuse._imitate_ahead(reuse, index)
    ahead = model.plan(windows.at(index), "mixture").log_softmax(-1)
    # step 1 of episode 0 does 1, then 2 and 0; step 2 does 2, then 0; nothing follows step 3
    expected = -(ahead[0, 1, 2] + ahead[0, 2, 0] + ahead[1, 1, 0]) / 3
    torch.testing.assert_close(found, expected)
    assert Reuse._imitate_ahead(reuse, torch.tensor([3])).item() == 0.0


@pytest.mark.parametrize("predicts", ["mixture", "likeliest", "mean"])
def test_a_plan_is_by_the_skills_as_the_action_of_now_is(by_skills, predicts):
    model, windows = by_skills._models["acting"], Windows(counting(2, 4).clean, 2)
    window = windows.at(torch.arange(5))
    found = model.plan(window, predicts)
    assert found.shape == (5, 4, 3)
    log_probs, prototypes = model.log_probs(window), model.g.prototypes
    ahead = partial(model.pi_ahead, window.state, seen=model.seen_of(model.encoder(window)))
    each = torch.stack([ahead(z.expand(5, -1)) for z in prototypes], 1)
    if predicts == "mixture":
        probs = (log_probs.exp()[..., None, None] * each.softmax(-1)).sum(1)
    elif predicts == "likeliest":
        probs = each[torch.arange(5), log_probs.argmax(1)].softmax(-1)
    else:
        probs = ahead(log_probs.exp() @ prototypes).softmax(-1)
    torch.testing.assert_close(found[:, 1:].softmax(-1), probs)


@pytest.mark.slow
def test_skills_that_plan_go_on_after_an_interruption_as_if_there_had_been_none():
    states = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def keep(epoch):
            if epoch.phase == "refine":
                states.append({name: value.clone() for name, value in epoch.state().items()})

        whole = SKILLS.fit(counting_twice(), seed=0, on_epoch=keep)
        again = SKILLS.fit(counting_twice(), seed=0, resume=states[0])
    assert len(states) > 1
    for name, value in whole.tensors().items():
        assert torch.equal(value, again.tensors()[name]), name


@pytest.mark.slow
def test_skills_plan_real_numbers(usual_judge):
    demos = reaching_demos(clean=10, noisy=6)
    learner = replace(SKILLS, chunk=4, act_on=2, min_updates=300, max_updates=400)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        policy = learner.fit(demos, seed=0)
    found = measure_recorded(policy, demos.clean)
    assert found.relative_error < 0.6 * found.mean_action_relative_error
    assert sdil.evaluate(policy, Reaching, episodes=20).success_rate > 0.6
