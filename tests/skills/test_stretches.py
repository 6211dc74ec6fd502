from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import adjusted_rand_score

import sdil
from sdil import PU, SDIL, Demonstrations, InputError, Trajectory, load_policy
from sdil.algorithms import load_judge
from sdil.explanation.explain import explain
from sdil.skills.stretches import MOVING, cluster_stretches, lasting_inputs
from sdil.windows import Windows

SHORT = SDIL(
    skills_from="stretches",
    score="pu",
    noisy_share=0.0,
    n_skills=6,
    discovery_epochs=1,
    discovery_min_updates=300,
    min_updates=20,
    patience=20,
    max_updates=20,
)


def recorded(*columns):
    """An episode whose observations are these columns."""
    seen = np.array(columns, np.float32).T
    return Trajectory(seen, np.zeros(len(seen) - 1, int))


def windows_of(*episodes):
    return Windows(Demonstrations([*episodes]).clean, 0)


PLACE = [0, 1, 2, 3, 4, 3, 2, 1, 0, 1]
HAND = [0, 0, 0, 0, 0, 1, 1, 1, 1, 0]  # closes with step 4 and opens with step 8
BLINK = [0, 1, 0, 0, 0, 0, 1, 0, 0, 0]
STILL = [7] * 10


def test_what_lasts_is_what_does_not_change_again_soon():
    windows = windows_of(recorded(PLACE, HAND, BLINK, STILL))
    assert lasting_inputs(windows).tolist() == [1]


def test_changes_of_two_episodes_are_not_near_each_other():
    """The hand closes with the last step of the one and with the first of the other."""
    closing, opening = [0, 0, 0, 1], [1, 0, 0, 0]
    windows = windows_of(recorded([0, 1, 2, 3], closing), recorded([0, 1, 2, 3], opening))
    assert lasting_inputs(windows).tolist() == [1]


def test_where_nothing_lasts_it_is_said():
    with pytest.raises(InputError, match='use "steps"'):
        lasting_inputs(windows_of(recorded(PLACE, BLINK)))


def test_clusters_are_of_stretches_by_what_changes_and_where():
    near = recorded([0, 1, 2, 3, 4], [0, 0, 0, 0, 1])  # closes at 3
    far = recorded([9, 8, 7, 6, 7], [1, 1, 1, 1, 0])  # opens at 6
    windows = windows_of(near, far, near, far)
    what = cluster_stretches(windows, torch.tensor([1]), 2, seed=0).reshape(4, 4)
    assert (what == what[:, :1]).all()  # one to a stretch
    assert what[:, 0].tolist() in ([0, 1, 0, 1], [1, 0, 1, 0])
    many = cluster_stretches(windows, torch.tensor([1]), 8, seed=0)
    assert len(many.unique()) == 2  # no more than there are different ends


def test_where_counts_only_what_moves():
    """A number that says where, but changes seldom, does not split stretches that end alike."""
    assert 0 < MOVING < 1
    rooms = [recorded([0, 1, 2, 3, 4], [0, 0, 0, 0, 1], [room] * 5) for room in (0, 1)]
    labels = cluster_stretches(windows_of(*rooms), torch.tensor([1]), 2, seed=0)
    assert len(labels.unique()) == 1


@pytest.fixture(scope="module")
def errands():
    return sdil.get_task("errands").collect(clean=6, noisy=40, seed=130)


@pytest.fixture(scope="module")
def policy(errands):
    return SHORT.fit(errands[0], seed=0)


def told(judge, demos):
    return np.concatenate([scores.skill for scores in judge.score(demos.noisy)])


def test_discovery_finds_the_sub_skills_of_errands(policy, errands):
    demos, truth = errands
    true = np.concatenate(truth.noisy_skill)
    few = {"n_skills": 6, "discovery_epochs": 1, "discovery_min_updates": 300}
    steps = PU(**few).fit(demos, seed=0)
    found = adjusted_rand_score(true, told(policy, demos))
    assert found > 0.4
    assert found > adjusted_rand_score(true, told(steps, demos)) + 0.2


def test_the_end_of_a_stretch_cannot_change_an_action(policy, errands):
    """What acts sees nothing of what is ahead."""
    one = errands[0].clean[0]
    still = np.array(one.observations)
    still[6:] = still[5]  # from step 5 on nothing changes any more
    first = torch.arange(6)
    probs, skills = [], []
    for seen in (one.observations, still):
        each = Trajectory(seen, one.actions)
        windows = Windows(Demonstrations([each], spaces=policy.spaces).clean, policy.look_back)
        probs.append(policy.action_probs(windows.at(first)))
        skills.append(policy.score([each])[0].skill_probs[:6])
    assert torch.equal(*probs)
    assert not np.allclose(*skills)  # but discovery does


@pytest.mark.slow
def test_it_is_saved_with_what_lasts(policy, errands, tmp_path):
    policy.save(tmp_path / "policy")
    again = load_policy(tmp_path / "policy")
    assert again.lasting.tolist() == policy.lasting.tolist()
    np.testing.assert_array_equal(told(again, errands[0]), told(policy, errands[0]))


@pytest.mark.slow
def test_the_papers_judge_can_have_it_too(errands, tmp_path):
    judge = PU(
        skills_from="stretches", n_skills=6, discovery_epochs=1, discovery_min_updates=300
    ).fit(errands[0], seed=0)
    judge.save(tmp_path / "judge")
    again = load_judge(tmp_path / "judge")
    np.testing.assert_array_equal(told(again, errands[0]), told(judge, errands[0]))


def test_nothing_has_it_unless_asked():
    assert {each.skills_from for each in (SDIL(), SDIL.paper(), SDIL.released(), PU())} == {"steps"}
    assert SDIL.presets()["stretches"] == SDIL(skills_from="stretches")


@pytest.mark.slow
def test_the_page_shows_the_rooms_and_the_skills(policy, errands):
    demos, truth = errands
    record = explain(policy, demos, about={}, environment="sdil/errands-v0", truth=truth)
    assert record.episodes.positions is not None  # drawn on the floor plan
    assert record.episodes.positions[0].tolist() == demos.clean[0].observations[0, :2].tolist()
    assert record.skills is not None
