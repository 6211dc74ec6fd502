"""What is said of demonstrations: cut by trajectory, in segments, and how well a stretch went."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from sdil.scores import JudgedSteps, Segment, StepScores


def test_what_is_said_of_all_steps_is_cut_by_trajectory():
    probs = np.array([[0.2, 0.8], [0.9, 0.1], [0.4, 0.6], [0.7, 0.3]])
    judged = JudgedSteps(
        optimality=np.array([0.1, 0.2, 0.3, 0.4]),
        parts={"value": np.array([1.0, 2.0, 3.0, 4.0])},
        spread=np.array([0.5, 0.6, 0.7, 0.8]),
        skill_probs=probs,
        quality=np.array([-1.0, 0.0, 1.0, 0.5]),
        quality_parts={"pace": np.array([5.0, 6.0, 7.0, 8.0])},
        integrity=np.array([0.0, 0.25, 0.5, 1.0]),
    )
    first, second = judged.by_trajectory(lambda values: [values[:1], values[1:]])
    assert first.optimality.tolist() == [0.1]
    assert second.optimality.tolist() == [0.2, 0.3, 0.4]
    assert first.skill.tolist() == [1]
    assert second.skill.tolist() == [0, 1, 0]
    assert second.skill_probs.tolist() == probs[1:].tolist()
    assert {name: part.tolist() for name, part in second.parts.items()} == {"value": [2, 3, 4]}
    assert second.spread.tolist() == [0.6, 0.7, 0.8]
    assert second.quality.tolist() == [0.0, 1.0, 0.5]
    assert {n: part.tolist() for n, part in second.quality_parts.items()} == {"pace": [6, 7, 8]}
    assert second.integrity.tolist() == [0.25, 0.5, 1.0]


def test_what_nobody_said_stays_unsaid_for_each_trajectory():
    judged = JudgedSteps(optimality=np.zeros(3))
    found = judged.by_trajectory(lambda values: [values[:2], values[2:]])
    assert [len(s.optimality) for s in found] == [2, 1]
    for one in found:
        assert one.skill is one.skill_probs is one.spread is one.quality is one.integrity is None
        assert one.parts == one.quality_parts == {}


def test_segments_are_runs_of_a_skill_or_of_one_side_of_zero():
    score = np.array([0.5, 0.1, -0.5, 0.0, 0.2])
    bare = StepScores(score).segments()
    assert [(s.start, s.stop, s.skill) for s in bare] == [(0, 2, None), (2, 4, None), (4, 5, None)]
    assert [s.optimality for s in bare] == pytest.approx([0.3, -0.25, 0.2])
    by_skill = StepScores(score, np.array([3, 3, 3, 1, 1])).segments()
    assert [(s.start, s.stop, s.skill) for s in by_skill] == [(0, 3, 3), (3, 5, 1)]
    (one,) = StepScores(np.array([-0.2])).segments()
    assert one == Segment(0, 1, None, -0.2)
    with pytest.raises(FrozenInstanceError):
        one.stop = 2


def test_how_well_a_stretch_went_is_its_mean_quality_or_score():
    score, quality = np.array([0.0, 1.0, 2.0]), np.array([3.0, 5.0, 10.0])
    assert StepScores(score).how_well() == 1.0
    assert StepScores(score).how_well(1) == 1.5
    assert StepScores(score, quality=quality).how_well() == 6.0
    assert StepScores(score, quality=quality).how_well(0, 2) == 4.0


@pytest.mark.parametrize("kind", [StepScores, JudgedSteps])
def test_scores_do_not_change_and_are_compared_as_what_they_are(kind):
    one, other = kind(np.zeros(2)), kind(np.zeros(2))
    with pytest.raises(FrozenInstanceError):
        one.optimality = np.ones(2)
    assert one == one  # arrays have no single answer: the same object alone
    assert one != other
    assert len({one, other}) == 2
