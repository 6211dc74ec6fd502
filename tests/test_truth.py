from __future__ import annotations

import numpy as np
import pytest

from sdil import Demonstrations, InputError
from sdil.truth import Truth

GOOD = [np.array([True, False]), np.array([True])]
NOISY = [np.array([True, False, False])]
SEGMENTS = [np.array([0, 0, 2])]
SKILLS = {
    "clean_skill": [np.array([0, 1]), np.array([2])],
    "noisy_skill": [np.array([2, 2, 0])],
    "skill_names": ("fetch", "carry", "place"),
}


@pytest.fixture
def pool(make_episode):
    clean = [make_episode(2, id="a"), make_episode(1, id="b")]
    return Demonstrations(clean, [make_episode(3)])


@pytest.mark.parametrize(
    ("truth", "named"),
    [
        (Truth(GOOD[:1], NOISY), "clean_good"),
        (Truth(GOOD[::-1], NOISY), "clean_good"),
        (Truth(GOOD, []), "noisy_good"),
        (Truth(GOOD, NOISY, [np.array([0, 0])]), "noisy_segment"),
        (Truth(GOOD, NOISY, **(SKILLS | {"clean_skill": [np.array([0])]})), "clean_skill"),
        (Truth(GOOD, NOISY, **(SKILLS | {"noisy_skill": []})), "noisy_skill"),
    ],
)
def test_labels_that_do_not_fit_are_named(truth, named, pool):
    Truth(GOOD, NOISY, SEGMENTS, **SKILLS).check_fits(pool)
    with pytest.raises(InputError, match=f"truth: {named} does not fit the trajectories"):
        truth.check_fits(pool)


def test_arrays_lie_end_to_end():
    arrays = Truth(GOOD, [np.ones(3)], SEGMENTS, ("good", "detour", "random")).to_arrays()
    assert arrays["clean_good"].tolist() == [True, False, True]
    assert arrays["noisy_good"].tolist() == [True, True, True]
    assert arrays["noisy_segment"].tolist() == [0, 0, 2]
    assert arrays["segment_names"].tolist() == ["good", "detour", "random"]
    assert {name: a.dtype.kind for name, a in arrays.items()} == {
        "clean_good": "b",
        "noisy_good": "b",
        "noisy_segment": "i",
        "segment_names": "U",
    }


@pytest.mark.parametrize("segments", [None, SEGMENTS])
@pytest.mark.parametrize("noisy", [[np.array([True, False, False])], []])
def test_to_arrays_and_from_arrays_are_inverse(noisy, segments):
    segments = segments and segments[: len(noisy)]
    names = () if segments is None else ("good", "detour", "random")
    truth = Truth(GOOD, noisy, segments, names)
    back = Truth.from_arrays(truth.to_arrays(), clean=[2, 1], noisy=[len(a) for a in noisy])
    for name in ("clean_good", "noisy_good", "noisy_segment"):
        given, found = getattr(truth, name), getattr(back, name)
        assert (given is None) == (found is None)
        assert [a.tolist() for a in given or []] == [a.tolist() for a in found or []]
    assert back.segment_names == names


def test_skills_are_kept_of_both_sets():
    arrays = Truth(GOOD, NOISY, **SKILLS).to_arrays()
    assert arrays["clean_skill"].tolist() == [0, 1, 2]
    back = Truth.from_arrays(arrays, clean=[2, 1], noisy=[3])
    assert [a.tolist() for a in back.clean_skill] == [[0, 1], [2]]
    assert [a.tolist() for a in back.noisy_skill] == [[2, 2, 0]]
    assert back.skill_names == SKILLS["skill_names"]
    without = Truth.from_arrays(Truth(GOOD, NOISY).to_arrays(), clean=[2, 1], noisy=[3])
    assert without.clean_skill is None
    assert without.noisy_skill is None


def test_labels_of_other_trajectories_are_refused():
    arrays = Truth(GOOD, NOISY).to_arrays()
    with pytest.raises(ValueError, match="3 labels for 4 steps"):
        Truth.from_arrays(arrays, clean=[2, 2], noisy=[3])


@pytest.mark.parametrize(
    ("truth", "message"),
    [
        (Truth(GOOD, [np.array([1, 0, np.nan])]), "noisy_good, episode '0', step 2: nan is not"),
        (Truth(GOOD, [np.array([1, 2, 0])]), "noisy_good, episode '0', step 1: 2 is not True"),
        (Truth([np.array(["yes", "no"]), GOOD[1]], NOISY), "clean_good is <U3, not numbers"),
        (Truth([np.ones((2, 3)), GOOD[1]], NOISY), "clean_good does not fit the trajectories"),
        (Truth(GOOD, NOISY, [np.array([0, 0, 200])]), "step 2: 200 is not a whole number"),
        (Truth(GOOD, NOISY, SEGMENTS, ("good", "bad")), "step 2: 2 is not .* from 0 to 1"),
        (
            Truth(GOOD, NOISY, **(SKILLS | {"skill_names": ("fetch", "carry")})),
            "clean_skill, episode 'b', step 0: 2 is not .* from 0 to 1",
        ),
    ],
)
def test_what_is_no_label_is_refused_where_it_is_written(truth, message, pool):
    with pytest.raises(InputError, match=message):
        truth.check_fits(pool)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noisy_good": np.array([1, 0, np.nan])}, "noisy_good, label 2: nan is not True or False"),
        ({"noisy_good": np.array(["a", "b", "c"])}, "noisy_good is <U1, not numbers"),
        ({"noisy_good": np.ones((3, 2))}, r"noisy_good holds \(3, 2\) labels for 3 steps"),
        ({"clean_good": np.array([0, 1, 7])}, "clean_good, label 2: 7 is not True or False"),
        (
            {"noisy_segment": np.array([0, 5, 0]), "segment_names": np.array(["good"])},
            "noisy_segment, label 1: 5 is not a whole number from 0 to 0",
        ),
    ],
)
def test_what_is_no_label_is_refused_where_it_is_read(wrong, message):
    arrays = Truth(GOOD, NOISY).to_arrays() | wrong
    with pytest.raises(InputError, match=message):
        Truth.from_arrays(arrays, clean=[2, 1], noisy=[3])


def test_labels_in_another_number_type_become_true_and_false():
    arrays = {name: a.astype(np.float64) for name, a in Truth(GOOD, NOISY).to_arrays().items()}
    read = Truth.from_arrays(arrays, clean=[2, 1], noisy=[3])
    assert read.clean_good[0].dtype == bool
    assert read.noisy_good[0].tolist() == [True, False, False]
