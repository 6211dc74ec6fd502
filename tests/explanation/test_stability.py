from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sdil.explanation.stability import compare_runs, match_skills


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.permutations(range(6)))
def test_skills_that_only_changed_their_names_agree(skills, names):
    one = np.array(skills)
    other = np.array(names)[one]
    matched, agreement = match_skills(one, other)
    assert agreement == 1
    assert (matched[other] == one).all()
    found = compare_runs({"a": one, "b": other}, {"a": one * 1.0, "b": one * 2.0})
    assert found["agreement"][0][1] == pytest.approx(1)


def test_matching_by_hand():
    one = np.array([0, 0, 0, 1, 1, 2])
    other = np.array([1, 1, 0, 0, 0, 0])
    matched, agreement = match_skills(one, other)
    assert matched.tolist() == [1, 0]  # 1 with 0 (twice), 0 with 1 (twice); 2 has no partner
    assert agreement == pytest.approx(4 / 6)
    matched, _ = match_skills(other, one)
    assert matched.tolist() == [1, 0, -1]


def test_unrelated_skills_have_an_index_near_zero():
    rng = np.random.default_rng(0)
    skills = {name: rng.integers(0, 4, 5_000) for name in "ab"}
    scores = {"a": rng.normal(size=5_000), "b": np.zeros(5_000)}
    found = compare_runs(skills, scores)
    assert abs(found["agreement"][0][1]) < 0.01
    assert found["scores"][0][0] == pytest.approx(1)
    assert found["scores"][0][1] is None
    assert found["matched"][0] == [0, 1, 2, 3]
