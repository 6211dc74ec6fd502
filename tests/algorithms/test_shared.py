"""What learners of the same demonstrations share: found once, and nothing else changes."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import pytest
import torch

from sdil import SDIL, Demonstrations, Judge, ScoredBC
from sdil.algorithms import judged, trust
from sdil.algorithms.shared import Shared, once, sharing

QUICK = {"max_updates": 40, "min_updates": 20, "hidden": 8}
LEARNERS = ScoredBC(**QUICK), SDIL(**QUICK, discovery_epochs=1, discovery_min_updates=5)


@pytest.fixture
def calls(monkeypatch):
    """Counts judges that are fitted and ways that are tried; both take little time here."""
    counted = {"judge": 0, "ways": 0}

    def count(name, function):
        def counting(*args, **more):
            counted[name] += 1
            return function(*args, **more)

        return counting

    monkeypatch.setattr("sdil.networks.cross_fitting.LOOKS", (20, 40))
    monkeypatch.setattr(judged, "Judge", partial(Judge, signals="likelihood", clone_updates=20))
    monkeypatch.setattr(judged, "_fit", count("judge", judged._fit))
    monkeypatch.setattr(trust, "_choose", count("ways", trust._choose))
    return counted


def fit_both(demos, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a collapse
        return [learner.fit(demos, seed=seed) for learner in LEARNERS]


@pytest.mark.slow
def test_policies_are_the_same_and_the_judge_is_fitted_once(demos, calls):
    alone = fit_both(demos)
    assert calls == {"judge": 2, "ways": 2}
    shared = Shared()
    with sharing(shared):
        together = fit_both(demos)
    assert calls == {"judge": 3, "ways": 3}
    assert shared.spared > 0
    for one, other in zip(alone, together, strict=True):
        mine, theirs = one.tensors(), other.tensors()
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            torch.testing.assert_close(value, theirs[name], rtol=0, atol=0, equal_nan=True)
        assert one.trusted == other.trusted


@pytest.mark.slow
def test_other_demonstrations_and_another_seed_have_their_own(demos, calls):
    with sharing(Shared()):
        fit_both(demos)
        fit_both(demos, seed=1)
        assert calls == {"judge": 2, "ways": 2}
        fit_both(demos.take_clean(2, seed=0))
        assert calls["judge"] == 3


@pytest.mark.slow
def test_ways_are_tried_anew_by_networks_of_another_size(demos, calls):
    with sharing(Shared()):
        fit_both(demos)
        for other in ({"hidden": 4}, {"min_updates": 10}, {"max_updates": 30}):
            replace(LEARNERS[0], **other).fit(demos, seed=0)
    assert calls == {"judge": 1, "ways": 4}


@pytest.mark.slow
def test_another_validation_set_has_its_own(demos, calls):
    held = Demonstrations(list(demos.clean)[:3], (), demos.spaces)
    with sharing(Shared()):
        for valid in (None, held, held):
            LEARNERS[0].fit(demos, valid=valid, seed=0)
    assert calls == {"judge": 2, "ways": 2}


def test_nothing_is_kept_unless_somebody_says_so():
    found = iter(range(10))
    assert [once(lambda: "these", "what", lambda: next(found)) for _ in range(2)] == [0, 1]


def test_what_was_warned_of_is_warned_of_again():
    def find():
        warnings.warn("odd data", UserWarning, stacklevel=1)
        return 1

    with sharing(Shared()):
        for _ in range(2):
            with pytest.warns(UserWarning, match="odd data"):
                assert once(lambda: "these", "what", find) == 1


def test_only_the_last_demonstrations_are_remembered():
    found = iter(range(10))
    with sharing(Shared()):
        told = [once(lambda of=of: of, "what", lambda: next(found)) for of in "aaba"]
    assert told == [0, 0, 1, 2]
