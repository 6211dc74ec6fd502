"""Did curating help? Demonstrations of which it is known."""

from __future__ import annotations

import importlib
import re
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import sdil
from conftest import episode
from sdil import Demonstrations, InputError, Trajectory
from sdil.evaluation.comparisons import Estimate
from sdil.evaluation.helped import (
    LABELS,
    WAYS,
    Row,
    _best_of_others,
    _best_way,
    _recommend,
    _tell,
    did_it_help,
    left_at_random,
)
from sdil.judging import CrossJudged
from sdil.networks.folds import Folds
from sdil.scores import StepScores
from sdil.ways import Way

HUMAN = Path(__file__).parents[3] / "shared" / "data" / "overcooked-human"


@pytest.fixture(autouse=True)
def long_enough(monkeypatch):
    """For what is learned here, and quickly."""
    for name, value in (("LOOKS", (50, 100, 200, 300)), ("HIDDEN", 32), ("BATCH", 64)):
        monkeypatch.setattr(f"sdil.networks.cross_fitting.{name}", value)


def follow(rng: np.random.Generator, name: str, flipped: bool = False) -> Trajectory:
    """Twelve steps that do what two numbers ask for, or the opposite."""
    seen = rng.normal(size=(13, 4)).astype(np.float32)
    right = (seen[:-1, 0] > 0) + 2 * (seen[:-1, 1] > 0)
    return Trajectory(seen, (3 - right) if flipped else right, id=name)


def some(*, clean: int = 10, good: int = 60, flipped: int = 0) -> Demonstrations:
    rng = np.random.default_rng(0)
    return Demonstrations(
        [follow(rng, f"clean {i}") for i in range(clean)],
        [follow(rng, f"noisy {i}", flipped=i < flipped) for i in range(good + flipped)],
    )


def scores(values: np.ndarray) -> list[StepScores]:
    return [StepScores(np.full(12, value)) for value in values]


ORACLE = np.where(np.arange(60) < 30, -0.8, 0.8)


@pytest.fixture(scope="module")
def mixed() -> Demonstrations:
    return some(good=30, flipped=30)


def rows_of(helped) -> dict[str, Row]:
    return {row.name: row for row in helped.rows}


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"by": "episode"}, {"by": "segment"}])
def test_leaving_out_what_is_wrong_helps(mixed, options):
    curated = sdil.curate(mixed, scores(ORACLE), keep_above=0.0, **options)
    helped = did_it_help(mixed, curated)
    rows = rows_of(helped)
    assert list(rows) == ["clean", "all", "curated", "weighted", "random"]
    assert helped.verdict == "helped"
    assert helped.sentence.startswith("it helped: BC on clean + curated predicts held-out clean")
    assert helped.recommended in ("curated", "weighted")
    assert rows["curated"].nll.value < rows["all"].nll.value - 0.3
    assert rows["curated"].error.value < rows["all"].error.value
    assert rows["curated"].minus_all.high < 0
    difference = rows["curated"].nll.value - rows["random"].nll.value
    assert rows["curated"].minus_random.value == pytest.approx(difference)
    assert rows["all"].minus_all is None
    assert rows["random"].minus_random is None
    assert (helped.groups, helped.folds, helped.seed) == (10, 10, 0)
    way = Way(helped.power, np.inf if helped.at_most is None else helped.at_most)
    assert way in WAYS
    steps = {name: row.noisy_steps for name, row in rows.items()}
    assert steps == {
        "clean": 0,
        "all": 720,
        "curated": 360,
        "weighted": pytest.approx(
            min(360 * (0.9**way.exponent + 0.1**way.exponent), way.at_most * 9 * 12)
        ),
        "random": pytest.approx(360, abs=12),
    }


def test_weights_are_compared_with_the_same_weights_elsewhere(mixed):
    helped = did_it_help(mixed, sdil.curate(mixed, scores(ORACLE), weights=True))
    assert list(rows_of(helped)) == ["clean", "all", "weighted", "random"]
    assert helped.verdict == "helped"
    assert "than with the same weights on other steps at random" in helped.sentence
    rows = rows_of(helped)
    assert rows["weighted"].nll.value < rows["random"].nll.value < rows["all"].nll.value


@pytest.mark.slow
def test_leaving_out_the_right_ones_does_not_help(mixed):
    helped = did_it_help(mixed, sdil.curate(mixed, scores(-ORACLE), by="episode", keep_above=0.0))
    assert helped.verdict == "did not help"
    assert "worse than on all" in helped.sentence
    assert (
        "; and BC on clean alone is surely better than on clean + curated (NLL" in helped.sentence
    )
    assert helped.recommended == "clean"


@pytest.mark.slow
def test_where_all_is_good_all_is_recommended():
    demos = some()
    rng = np.random.default_rng(1)
    luck = scores(rng.uniform(-1, 1, 60))
    helped = did_it_help(demos, sdil.curate(demos, luck, by="episode", keep_share=0.2))
    assert helped.recommended in ("all", "weighted")
    assert helped.verdict == "did not help"


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_scores_that_have_nothing_to_do_with_it_do_not_help(mixed, seed):
    """Every other episode is kept: as many of the wrong ones as of the right ones."""
    luck = scores(np.where(np.arange(60) % 2, 0.8, -0.8))
    helped = did_it_help(mixed, sdil.curate(mixed, luck, by="episode", keep_above=0.0), seed=seed)
    assert helped.verdict in ("did not help", "cannot tell")


@pytest.mark.slow
def test_it_follows_from_the_seed(mixed):
    curated = sdil.curate(mixed, scores(ORACLE), by="episode", keep_above=0.0)
    told = []
    first = did_it_help(mixed, curated, seed=3, on_progress=lambda *said: told.append(said))
    assert first == did_it_help(mixed, curated, seed=3)
    assert first != did_it_help(mixed, curated, seed=4)
    assert told == [(50, 300), (100, 300), (200, 300), (300, 300)]
    with pytest.raises(InputError, match="a seed lies between"):
        did_it_help(mixed, curated, seed=-1)


def test_what_cannot_be_measured_is_said(mixed):
    one = Demonstrations(mixed.clean[:1], mixed.noisy, mixed.spaces)
    helped = did_it_help(one, sdil.curate(one, scores(ORACLE), keep_above=0.0))
    assert helped.verdict == "not measured"
    assert helped.sentence.startswith("not measured: there is one clean group")
    assert helped.rows == ()
    assert helped.recommended is None
    clean = sdil.curate(mixed, scores(np.linspace(-1, 1, 10)), keep_above=0.0, which="clean")
    assert "what others are measured on" in did_it_help(mixed, clean).sentence
    curated = sdil.curate(mixed, scores(ORACLE), keep_above=0.0)
    with pytest.raises(InputError, match="as they were before"):
        did_it_help(curated.demos, curated)


def test_where_nothing_was_dropped_there_is_nothing_to_compare(mixed):
    helped = did_it_help(mixed, sdil.curate(mixed, scores(ORACLE), keep_above=-1))
    assert list(rows_of(helped)) == ["clean", "all", "weighted"]
    assert helped.verdict == "did not help"
    assert helped.sentence.startswith(
        "it did not help: nothing was dropped; and BC on clean alone is surely better than on "
        "clean + all noisy (NLL "
    )
    assert helped.recommended in ("clean", "weighted")


def test_weights_are_left_out_where_the_judge_does_not_tell_steps_apart(mixed):
    well = [StepScores(np.zeros(12), quality=np.full(12, value)) for value in ORACLE]
    unknown = {"step": "nothing is heard"}
    curated = sdil.curate(mixed, well, by="episode", keep_above=0.0, unknown=unknown)
    helped = did_it_help(mixed, curated)
    assert list(rows_of(helped)) == ["clean", "all", "curated", "random"]
    assert helped.recommended == "curated"


@pytest.mark.slow
def test_noisy_episodes_of_a_held_out_group_are_held_out_too():
    """Each group has a rule of its own: only its noisy episodes could tell it."""
    clean = [episode(4, seed=i, id=f"c{i}", group=f"g{i}") for i in range(3)]
    noisy = [episode(4, seed=i, id=f"n{i}", group=f"g{i}") for i in range(3)]  # the very same
    demos = Demonstrations(clean, noisy)
    curated = sdil.curate(
        demos,
        [StepScores(np.array([1.0, 1, -1, -1])) for _ in range(3)],
        keep_above=0.0,
    )
    rows = rows_of(did_it_help(demos, curated))
    assert rows["all"].noisy_steps == 8
    assert rows["curated"].noisy_steps == 4


@pytest.mark.parametrize("stretches", [[1] * 100, [10] * 10, [3, 7, 20, 30, 40]])
def test_as_much_is_left_out_at_random_in_whole_stretches(stretches):
    rng = np.random.default_rng(0)
    edges = np.cumsum([0, *stretches])
    lengths = set()
    for _ in range(20):
        left = left_at_random(np.array(stretches), 40, rng)
        parts = [left[a:b] for a, b in pairwise(edges)]
        assert all(part.all() or not part.any() for part in parts)
        lengths.add(int((~left).sum()))
    assert all(abs(length - 40) <= max(stretches) / 2 for length in lengths)
    assert len({left_at_random(np.array(stretches), 40, rng).tobytes() for _ in range(20)}) > 1


def estimate(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, low, high)


@pytest.mark.parametrize(
    ("against", "luck", "verdict", "words"),
    [
        ((-0.3, -0.1), (-0.2, -0.05), "helped", "better than on all .* and than with as much left"),
        ((0.1, 0.3), (-0.2, -0.1), "did not help", "worse than on all"),
        ((-0.3, -0.1), (0.1, 0.2), "did not help", "worse than with as much left out at random"),
        ((-0.005, 0.004), (-0.2, 0.1), "did not help", "no better than on all"),
        ((-0.3, -0.1), (-0.005, 0.2), "did not help", "no better than with as much left out"),
        ((-0.3, 0.1), (-0.2, -0.1), "cannot tell", "not surely better than on all .* holds 0"),
        ((-0.3, -0.1), (-0.2, 0.1), "cannot tell", "better than on all .*, but not surely than"),
    ],
)
def test_what_intervals_say(against, luck, verdict, words):
    row = Row(
        "curated", 1.0, estimate(0.6, 0.8), estimate(0, 1), estimate(*against), estimate(*luck)
    )
    everything = Row("all", 1.0, estimate(0.7, 1.1), estimate(0, 1), None, None)
    told, sentence = _tell({"all": everything, "curated": row}, "curated", None)
    assert told == verdict
    start = {"helped": "it helped: ", "did not help": "it did not help: "}
    assert sentence.startswith(start.get(verdict, "cannot tell: ") + f"BC on {LABELS['curated']}")
    assert re.search(words, sentence), sentence


@pytest.mark.parametrize(
    ("luck", "start", "link"),
    [
        ((-0.2, -0.05), "it helped: ", "; but "),
        ((0.1, 0.2), "it did not help: ", "; and "),
        ((-0.2, 0.1), "cannot tell: ", "; and "),
    ],
)
def test_where_clean_steps_alone_are_surely_better_it_is_said(luck, start, link):
    rows = {
        "clean": Row("clean", 0.0, estimate(0.0, 0.1), estimate(0, 1), None, None),
        "all": Row("all", 1.0, estimate(0.7, 1.1), estimate(0, 1), None, None),
        "curated": Row(
            "curated",
            1.0,
            estimate(0.05, 0.15),
            estimate(0, 1),
            estimate(-0.3, -0.1),
            estimate(*luck),
        ),
    }
    verdict, plain = _tell(rows, "curated", None)
    for unsure in (estimate(0.0, 0.1), estimate(-0.1, -0.05), Estimate(0.05, None, None)):
        assert _tell(rows, "curated", unsure) == (verdict, plain)
    told, sentence = _tell(rows, "curated", estimate(0.02, 0.08))
    assert told == verdict
    assert plain.startswith(start)
    assert sentence == (
        f"{plain}{link}BC on clean alone is surely better than on clean + curated "
        "(NLL 0.050, difference +0.050, +0.020 to +0.080)"
    )


@pytest.mark.slow
@pytest.mark.skipif(not HUMAN.exists(), reason="the recorded human play is not here")
@pytest.mark.parametrize("seed", range(2))
def test_single_steps_of_human_play_do_not_help(monkeypatch, seed):
    """Steps that change something, kept one by one: BC on them is worse than on everything."""
    for name, value in (("LOOKS", (50, 100, 200, 400, 600)), ("HIDDEN", 64), ("BATCH", 256)):
        monkeypatch.setattr(f"sdil.networks.cross_fitting.{name}", value)
    monkeypatch.syspath_prepend(str(HUMAN))
    measure = importlib.import_module("measure")
    clean, _, noisy = (
        [
            Trajectory(
                o[a : a + 101],
                act[a : a + 100],
                terminated=False,
                id=f"{name} {a}",
                group=measure.trial_of(name),
            )
            for name, o, act in part
            for a in range(0, len(act), 100)
        ]
        for part in measure.split(measure.load("cramped_room.npz"), seed)
    )
    sys.modules.pop("measure")
    demos = Demonstrations(clean, noisy)
    changed = [(np.abs(np.diff(t.observations[:, :9], axis=0)) > 0).any(1) for t in noisy]
    judged = [StepScores(np.where(c, 0.5, -0.5)) for c in changed]
    with pytest.warns(UserWarning, match="bends how often actions occur"):
        curated = sdil.curate(demos, judged, by="step", keep_above=0.0, min_length=1)
    helped = did_it_help(demos, curated, seed=seed)
    rows = rows_of(helped)
    assert helped.recommended in ("all", "weighted")
    assert rows["curated"].nll.value > rows[helped.recommended].nll.value + 0.2
    assert helped.verdict != "helped"


@pytest.mark.slow
def test_a_judge_is_tried_by_what_it_says_without_the_groups_left_out(mixed):
    """It praises the right steps once it has seen a group, and the wrong ones before."""
    before = np.repeat(np.where(ORACLE > 0, 0.1, 0.9), 12)
    own = CrossJudged(np.tile(before, (5, 1)), np.arange(10) % 5, mixed.fingerprint(rewards=False))
    rule = {"by": "segment", "keep_above": 0.0}
    flattered = rows_of(did_it_help(mixed, sdil.curate(mixed, scores(ORACLE), **rule)))
    fair = rows_of(did_it_help(mixed, sdil.curate(mixed, scores(ORACLE), **rule, cross_judged=own)))
    for name in ("curated", "weighted"):
        assert flattered[name].nll.value < flattered["all"].nll.value
        assert fair[name].nll.value > flattered[name].nll.value + 0.1
    assert fair["curated"].nll.value > fair["all"].nll.value


def test_weights_are_recommended_unless_another_row_is_surely_better():
    """Four groups; a gain counts that is larger than its standard error."""
    weighted = np.array([1.0, 1.2, 1.4, 1.6])
    steady, unsteady = weighted - 0.1, weighted - np.array([0.4, -0.2, 0.3, -0.1])
    assert _recommend({"clean": steady, "all": weighted + 1, "weighted": weighted}) == "clean"
    assert _recommend({"clean": unsteady, "all": weighted + 1, "weighted": weighted}) == "weighted"
    assert _recommend({"clean": unsteady, "all": weighted + 1}) == "clean"
    assert _recommend({"all": weighted, "curated": steady, "random": steady - 1}) == "curated"
    gain = np.array([0.02, 0.1, 0.04, 0.12])  # 0.07, and its mean errs by 0.0238
    rows = {"all": weighted, "weighted": weighted}
    assert _recommend(rows | {"curated": steady}) == "weighted"  # its borders had seen the groups
    assert _recommend(rows | {"clean": weighted - gain + 0.03}) == "clean"


def test_the_power_of_a_group_is_told_by_the_others():
    """Three folds of two groups each; the second weighting is best for the last fold alone."""
    folds = Folds(np.repeat(np.arange(3), 2), np.arange(6), np.ones((3, 1), bool))
    nll = np.repeat([[1.0, 1.0, 5.0], [2.0, 2.0, 1.0]], 2, 1)
    # others of fold 0: 3.0 against 1.5; of 1 the same; of 2: 1.0 against 2.0
    assert _best_of_others(nll, folds).tolist() == [1, 1, 1, 1, 0, 0]


def test_few_groups_choose_the_mildest_way_that_may_be_best():
    """Student's 95% for three groups is 2.92 errors: the second is better by 0.1, of which the mean
    errs by 0.1 or, in the other case, by 0.0289; the third is surely worse."""
    steady = np.array([[1.0, 1.0, 1.0], [0.85, 0.95, 0.9], [1.2, 1.2, 1.2]])
    unsteady = np.array([[1.0, 1.0, 1.0], [0.7, 1.0, 1.0], [1.2, 1.2, 1.2]])
    assert _best_way(unsteady, few=True) == 0
    assert _best_way(unsteady, few=False) == 1
    assert _best_way(unsteady[::-1], few=True) == 1
    assert _best_way(steady, few=True) == 1


def test_weights_may_be_held_to_a_part_of_what_clean_steps_weigh(mixed):
    """30 episodes of twelve steps weigh 0.9 each, 30 weigh 0.1: 360 in all, beside 120 clean."""
    held = sdil.curate(mixed, scores(ORACLE), weights=True, at_most=0.5)
    assert np.concatenate(held.weights).sum() == pytest.approx(60)
    np.testing.assert_allclose(held.weights[-1], 0.9 / 6)
    np.testing.assert_allclose(held.weights[0], 0.1 / 6)
    few = sdil.curate(mixed, scores(ORACLE), weights=True, at_most=3.5)
    np.testing.assert_allclose(few.weights[-1], 0.9)  # they weigh no more as they are
    helped = did_it_help(mixed, held)
    assert (helped.power, helped.at_most) == (1.0, 0.5)
    for name in ("weighted", "random"):  # half of nine of ten groups
        assert rows_of(helped)[name].noisy_steps == pytest.approx(54)
    only = sdil.curate(mixed, scores(ORACLE), keep_above=0.0, weights=True, at_most=0.5)
    assert np.concatenate(only.weights).sum() == pytest.approx(60)  # of those that are chosen
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(InputError, match="at_most must be above 0"):
            sdil.curate(mixed, scores(ORACLE), weights=True, at_most=wrong)
    of_clean = {"weights": True, "which": "clean"}
    for given, other in ((scores(ORACLE), {"keep_above": 0.0}), (scores(np.ones(10)), of_clean)):
        with pytest.raises(InputError, match="at_most goes with weights of the noisy set"):
            sdil.curate(mixed, given, at_most=0.5, **other)


def test_what_is_too_short_is_tried_by_nobody(mixed):
    """Every third step is good: alone it is no run of two, whoever judges."""
    alone = np.where(np.arange(12) % 3 == 0, 0.8, -0.8)
    of_steps = [StepScores(np.full(12, 0.8)), *(StepScores(alone) for _ in range(59))]
    before = (1 + np.concatenate([s.optimality for s in of_steps])) / 2
    own = CrossJudged(np.tile(before, (5, 1)), np.arange(10) % 5, mixed.fingerprint(rewards=False))
    curated = sdil.curate(mixed, of_steps, by="segment", keep_above=0.0, cross_judged=own)
    assert sum(int(mask.sum()) for mask in curated.kept) == 12
    np.testing.assert_array_equal(
        curated.by_fold.kept, np.tile(np.concatenate(curated.kept), (5, 1))
    )


def test_a_power_sharpens_the_weights(mixed):
    plain, sharp = (sdil.curate(mixed, scores(ORACLE), weights=True, power=p) for p in (1.0, 3.0))
    np.testing.assert_allclose(sharp.weights[0], plain.weights[0] ** 3)
    assert did_it_help(mixed, sharp).power == 3.0
    with pytest.raises(InputError, match="power must be above 0"):
        sdil.curate(mixed, scores(ORACLE), weights=True, power=0.0)
