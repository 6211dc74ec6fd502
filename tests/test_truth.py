from __future__ import annotations

import numpy as np
import pytest

from sdil import Demonstrations, InputError
from sdil.truth import Truth

GOOD = [np.array([True, False]), np.array([True])]
SEGMENTS = [np.array([0, 0, 2])]


@pytest.fixture
def pool(make_episode):
    clean = [make_episode(2, id="a"), make_episode(1, id="b")]
    return Demonstrations(clean, [make_episode(3)])


@pytest.mark.parametrize(
    ("truth", "named"),
    [
        (Truth(GOOD[:1], SEGMENTS), "clean_good"),
        (Truth(GOOD[::-1], SEGMENTS), "clean_good"),
        (Truth(GOOD, []), "noisy_good"),
        (Truth(GOOD, SEGMENTS, [np.array([0, 0])]), "noisy_segment"),
    ],
)
def test_labels_that_do_not_fit_are_named(truth, named, pool):
    Truth(GOOD, SEGMENTS, SEGMENTS).check_fits(pool)
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


def test_labels_of_other_trajectories_are_refused():
    arrays = Truth(GOOD, SEGMENTS).to_arrays()
    with pytest.raises(ValueError, match="3 labels for 4 steps"):
        Truth.from_arrays(arrays, clean=[2, 2], noisy=[3])
