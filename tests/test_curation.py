"""Which steps are kept, and what becomes of them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdil
from conftest import episode
from sdil import Demonstrations, InputError
from sdil.judges.joining import GoodShare
from sdil.judging import CrossJudged
from sdil.scores import StepScores


def scored(*rows: list[float]) -> list[StepScores]:
    return [StepScores(np.array(row, float)) for row in rows]


@pytest.fixture
def three() -> Demonstrations:
    """Noisy: five steps that the task ended, four that were cut off, one."""
    noisy = [
        episode(5, seed=1, id="a", group="x"),
        episode(4, seed=2, id="b", group="y", terminated=False),
        episode(1, seed=3, id="c", group="y"),
    ]
    return Demonstrations([episode(3, seed=0, id="trusted")], noisy)


SCORES = scored([1, 0.5, -1, 0.2, 0.2], [-1, 0.9, 0.8, -1], [-0.5])


def test_runs_of_good_steps_become_episodes(three):
    curated = sdil.curate(three, SCORES, keep_above=0.0)
    noisy = curated.demos.noisy
    assert noisy.ids == ("a[0:2]", "a[3:5]", "b[1:3]")
    assert noisy.groups == ("x", "x", "y")
    assert curated.demos.clean == three.clean
    assert [t.terminated for t in noisy] == [False, True, False]
    whole = three.noisy[0]
    for cut, start, stop in ((noisy[0], 0, 2), (noisy[1], 3, 5)):
        assert cut.has_final_observation
        np.testing.assert_array_equal(cut.observations, whole.observations[start : stop + 1])
        np.testing.assert_array_equal(cut.actions, whole.actions[start:stop])
        np.testing.assert_array_equal(cut.rewards, whole.rewards[start:stop])
    assert [(p.source, p.start, p.stop) for p in curated.pieces] == [
        ("a", 0, 2),
        ("a", 3, 5),
        ("b", 1, 3),
    ]
    assert [p.optimality for p in curated.pieces] == pytest.approx([0.75, 0.2, 0.85])
    assert [m.tolist() for m in curated.kept] == [[1, 1, 0, 1, 1], [0, 1, 1, 0], [0]]


def test_a_last_observation_that_was_never_known_stays_unknown():
    """A piece from the middle knows what came next; one from the end does not."""
    whole = episode(4, seed=1, id="a")
    short = sdil.Trajectory(whole.observations[:4], whole.actions, id="a")
    demos = Demonstrations([episode(3)], [short])
    noisy = sdil.curate(demos, scored([1, 1, -1, 1]), keep_above=0.0, min_length=1).demos.noisy
    assert [t.has_final_observation for t in noisy] == [True, False]
    assert [t.rewards for t in noisy] == [None, None]


def test_a_threshold_that_all_reach_changes_nothing(three):
    """Not even an episode shorter than the shortest run: whole ones stay."""
    curated = sdil.curate(three, SCORES, keep_above=-1, min_length=3)
    assert curated.demos == three
    assert curated.demos.fingerprint() == three.fingerprint()


def test_short_runs_are_dropped_and_do_not_count_as_kept(three):
    curated = sdil.curate(three, SCORES, keep_above=0.5, min_length=2)
    assert curated.demos.noisy.ids == ("a[0:2]", "b[1:3]")
    assert sum(m.sum() for m in curated.kept) == curated.demos.noisy.n_steps == 4
    with pytest.warns(UserWarning, match="bends how often actions occur"):
        single = sdil.curate(three, SCORES, by="step", keep_above=1.0, min_length=1)
    assert single.demos.noisy.ids == ("a[0:1]",)


def test_a_segment_is_kept_or_dropped_whole(three):
    """By the mean of its steps, whatever single ones of them score."""
    parts = [StepScores(s.optimality, parts={"one": s.optimality}) for s in SCORES]
    curated = sdil.curate(three, parts, keep_above=0.1, min_length=1)
    # jumps of the score: a is cut before and after its bad step, b likewise
    assert [m.tolist() for m in curated.kept] == [[1, 1, 0, 1, 1], [0, 1, 1, 0], [0]]
    assert curated.stretches.tolist() == [2, 1, 2, 1, 2, 1, 1]
    mixed = scored([0.9, -0.2, 0.9, 0.9, 0.9], [-1, -1, -1, 0.9], [-1])
    mixed = [StepScores(s.optimality, parts={"one": s.optimality}) for s in mixed]
    curated = sdil.curate(three, mixed, keep_above=0.5, min_length=1)
    assert [m.tolist() for m in curated.kept] == [[1, 1, 1, 1, 1], [0, 0, 0, 1], [0]]
    assert curated.by == "segment"
    assert curated.stretches.tolist() == [5, 3, 1, 1]


def test_episodes_are_kept_by_how_well_they_went(three):
    """By `quality` where a judge has it, whatever single steps score; else by the mean score."""
    told = [
        StepScores(s.optimality, quality=np.full(len(s.optimality), well))
        for s, well in zip(SCORES, (-0.5, 0.1, 0.6), strict=True)
    ]
    curated = sdil.curate(three, told, by="episode", keep_above=0.1)
    assert curated.demos.noisy.ids == ("b", "c")
    assert [p.how_well for p in curated.pieces] == pytest.approx([0.1, 0.6])
    assert curated.stretches.tolist() == [5, 4, 1]
    curated = sdil.curate(three, SCORES, by="episode", keep_above=0.0)
    assert curated.demos.noisy.ids == ("a",)  # means 0.18, -0.075, -0.5
    assert curated.pieces[0].how_well == curated.pieces[0].optimality == pytest.approx(0.18)


@pytest.mark.parametrize(
    ("share", "kept"),
    [(0.05, "a"), (0.5, "a"), (0.6, "ab"), (0.9, "ab"), (0.96, "abc"), (1, "abc")],
)
def test_a_share_of_episodes_counts_their_steps(three, share, kept):
    """The best, until they hold that share of the ten steps; one at the least."""
    curated = sdil.curate(three, SCORES, by="episode", keep_share=share)
    assert curated.demos.noisy.ids == tuple(kept)


def test_a_share_of_segments_counts_their_steps(three):
    curated = sdil.curate(three, SCORES, keep_share=0.3)
    # b[1:3] has 0.85, a[0:2] 0.75: two steps are too few, four reach it
    assert curated.demos.noisy.ids == ("a[0:2]", "b[1:3]")


def test_what_the_judge_does_not_answer_is_refused(three):
    step, episode = {"step": "nothing is heard of steps"}, {"episode": "too few episodes"}
    silent = [StepScores(np.zeros(n), quality=np.full(n, 0.3)) for n in (5, 4, 1)]
    for options in ({"by": "segment", "keep_above": 0.0}, {"by": "step", "keep_share": 0.5}):
        with pytest.raises(InputError, match='nothing is heard of steps; by="episode" asks'):
            sdil.curate(three, silent, unknown=step, **options)
    with pytest.raises(InputError, match=r"nothing is heard of steps$"):
        sdil.curate(three, silent, unknown=step, weights=True)
    with pytest.raises(InputError, match=r"nothing is heard of steps$"):
        sdil.curate(three, silent, unknown=step | episode, keep_above=0.0)
    curated = sdil.curate(three, silent, by="episode", keep_above=0.0, unknown=step)
    assert curated.demos == three
    assert curated.weighing is None
    with pytest.raises(InputError, match='too few episodes; by="segment" asks'):
        sdil.curate(three, SCORES, by="episode", keep_above=0.0, unknown=episode)
    assert sdil.curate(three, SCORES, keep_above=0.0, unknown=episode).weighing is not None
    chosen = selection(three, ("a", 0, 2))  # somebody else has judged
    curated = sdil.curate(three, silent, selection=chosen, unknown=step | episode)
    assert curated.demos.noisy.ids == ("a[0:2]",)
    assert curated.by == "selection"
    assert curated.stretches.tolist() == [2, 3, 4, 1]


def test_scores_that_say_nothing_are_refused(three):
    nothing = scored([0] * 5, [0] * 4, [0])
    for options in ({"keep_above": 0.0}, {"by": "episode", "keep_share": 0.5}, {"weights": True}):
        with pytest.raises(InputError, match="the scores say nothing: all of them are 0"):
            sdil.curate(three, nothing, **options)


def test_scores_are_compared_in_their_own_precision(three):
    """As the report's page does: 0.7 keeps a score stored as 0.7 in 32 bits."""
    stored = [StepScores(np.full(n, 0.7, np.float32)) for n in (5, 4, 1)]
    assert sdil.curate(three, stored, keep_above=0.7).demos == three


def test_a_share_keeps_the_highest_scored(three):
    curated = sdil.curate(three, SCORES, keep_share=0.4, min_length=1)
    assert [m.tolist() for m in curated.kept] == [[1, 1, 0, 0, 0], [0, 1, 1, 0], [0]]
    assert sdil.curate(three, SCORES, keep_share=1.0).demos == three


def test_weights_leave_the_data_as_it_is(three):
    curated = sdil.curate(three, SCORES, weights=True)
    assert curated.demos is three
    assert curated.weights[0].tolist() == pytest.approx([1, 0.75, 0, 0.6, 0.6])
    assert curated.take([np.arange(5), np.arange(4), np.arange(1)])[1].tolist() == [0, 1, 2, 3]
    assert curated.by == "weights"
    chosen = sdil.curate(three, SCORES, keep_above=0.5, weights=True)
    assert chosen.weights[0].tolist() == pytest.approx([1, 0.75, 0, 0, 0])
    assert chosen.weighing[0].tolist() == pytest.approx([1, 0.75, 0, 0.6, 0.6])


def test_what_is_known_of_steps_is_cut_likewise(three):
    curated = sdil.curate(three, SCORES, keep_above=0.0)
    told = curated.take([np.arange(5), np.arange(4) + 10, np.arange(1)])
    assert [t.tolist() for t in told] == [[0, 1], [3, 4], [11, 12]]


def test_the_clean_set_can_be_curated_too(three):
    curated = sdil.curate(three, scored([1, 1, -1]), keep_above=0.0, which="clean")
    assert curated.demos.clean.ids == ("trusted[0:2]",)
    assert curated.demos.noisy == three.noisy


def selection(demos: Demonstrations, *segments: tuple[str, int, int], **other: object) -> dict:
    return {
        "format": "sdil-selection",
        "version": 1,
        "fingerprint": demos.fingerprint(),
        "threshold": 0.1,
        "segments": [
            {"set": "noisy", "episode": name, "start": a, "stop": b} for name, a, b in segments
        ],
        **other,
    }


def test_a_selection_is_taken_as_it_is(three):
    chosen = selection(three, ("b", 0, 1), ("a", 1, 4))
    curated = sdil.curate(three, SCORES, selection=chosen)
    assert curated.demos.noisy.ids == ("a[1:4]", "b[0:1]")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "its format should be 'sdil-selection'"),
        ({"version": 2}, "version 2 is not the one"),
        ({"fingerprint": "0"}, "made for other demonstrations"),
        ({"segments": None}, "no list of segments"),
        ({"segments": [{"set": "noisy"}]}, "segment 0: it needs set, episode"),
        ({"segments": [7]}, "segment 0: it needs set, episode"),
    ],
)
def test_a_selection_that_does_not_fit_is_refused(three, change, message):
    with pytest.raises(InputError, match=message):
        sdil.curate(three, SCORES, selection=selection(three, ("a", 0, 2), **change))


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([("nobody", 0, 1)], "no episode 'nobody'"),
        ([("a", 0, 6)], "steps 0 to 6 do not lie in episode 'a', which has 5"),
        ([("a", -1, 2)], "steps -1 to 2 do not lie"),
        ([("a", 2, 2)], "steps 2 to 2 do not lie"),
        ([("a", 0.5, 2)], "steps 0.5 to 2 do not lie"),
        ([("a", 0, 3), ("a", 2, 5)], "segment 1: it overlaps another"),
    ],
)
def test_segments_must_lie_in_their_episodes(three, segments, message):
    with pytest.raises(InputError, match=message):
        sdil.curate(three, SCORES, selection=selection(three, *segments))


def test_segments_of_the_other_set_are_refused(three):
    with pytest.raises(InputError, match="of the noisy set, but the clean one"):
        sdil.curate(
            three,
            scored([1, 1, 1]),
            selection=selection(three, ("a", 0, 2)),
            which="clean",
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give one of"),
        ({"keep_above": 0.0, "keep_share": 0.5}, "give one of"),
        ({"keep_above": 1.5}, r"keep_above lies in \[-1, 1\]"),
        ({"keep_above": float("nan")}, r"keep_above lies in \[-1, 1\]"),
        ({"keep_share": 0.0}, r"keep_share lies in \(0, 1\]"),
        ({"keep_above": 0.0, "min_length": 0}, "min_length must be at least 1"),
        ({"keep_above": 0.0, "by": "luck"}, "by is segment, episode or step, not 'luck'"),
        ({"keep_above": 0.0, "which": "clean"}, "scores do not fit the clean set"),
    ],
)
def test_what_cannot_be_done_is_said(three, options, message):
    with pytest.raises(InputError, match=message):
        sdil.curate(three, SCORES, **options)


def test_nothing_kept_is_an_error_that_says_how_far_off_it_was(three):
    low = [StepScores(s.optimality / 2) for s in SCORES]
    with pytest.raises(InputError, match=r"nothing .* would be kept; .* a segment is 0\.425"):
        sdil.curate(three, low, keep_above=0.9)
    alone = scored([-1, -1, 1, -1, -1], [-1] * 4, [-1])
    with pytest.raises(InputError, match="1 steps are chosen, but no 2 of them in a row"):
        sdil.curate(three, alone, keep_above=0.95)
    with pytest.raises(InputError, match="no noisy episodes to curate"):
        sdil.curate(three.clean_only(), [], keep_above=0.0)


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    threshold=st.floats(-1, 1),
)
def test_kept_steps_are_exactly_those_above_the_threshold(lengths, seed, threshold):
    rng = np.random.default_rng(seed)
    noisy = [episode(n, seed=i, id=f"n{i}") for i, n in enumerate(lengths)]
    demos = Demonstrations([episode(2)], noisy)
    scores = scored(*[rng.uniform(-1, 1, n).tolist() for n in lengths])
    above = [s.optimality >= threshold for s in scores]
    options = {"by": "step", "keep_above": threshold, "min_length": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it bends how often actions occur
        if not any(mask.any() for mask in above):
            with pytest.raises(InputError, match="nothing"):
                sdil.curate(demos, scores, **options)
            return
        curated = sdil.curate(demos, scores, **options)
    for mask, expected in zip(curated.kept, above, strict=True):
        np.testing.assert_array_equal(mask, expected)
    actions = [a for t, mask in zip(demos.noisy, above, strict=True) for a in t.actions[mask]]
    assert [a for t in curated.demos.noisy for a in t.actions] == actions


@pytest.mark.parametrize("options", [{"keep_above": 0.0}, {"keep_share": 0.5}, {"weights": True}])
@pytest.mark.parametrize("wrong", [5, -1.01, np.nan, np.inf])
def test_scores_that_are_none_are_refused_by_name(three, wrong, options):
    scores = scored([1, 0.5, -1, 0.2, 0.2], [-1, 0.9, wrong, wrong], [-0.5])
    with pytest.raises(InputError, match=r"noisy set, episode 'b', step 2: the score is"):
        sdil.curate(three, scores, **options)
    well = [
        StepScores(s.optimality, quality=w.optimality) for s, w in zip(SCORES, scores, strict=True)
    ]
    with pytest.raises(InputError, match=r"noisy set, episode 'b', step 2: the score is"):
        sdil.curate(three, well, **options)


@pytest.mark.parametrize("by", ["segment", "episode", "step"])
def test_a_set_that_may_be_all_good_is_kept_whole(three, by):
    maybe = GoodShare(0.97, 0.84, 1.0)
    said = r"good one \(97% good, 84% to 100%\): nothing is dropped"
    with pytest.warns(UserWarning, match=said) as caught:
        curated = sdil.curate(three, SCORES, by=by, keep_above=0.3, good_share=maybe)
    assert len(caught) == 1  # and not that single steps bend
    assert curated.demos == three
    assert all(mask.all() for mask in curated.kept)
    assert "nothing is dropped" in curated.why_all
    with pytest.raises(InputError, match="keep_above lies in"):
        sdil.curate(three, SCORES, by=by, keep_above=3.0, good_share=maybe)


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        ({"keep_above": 0.3}, GoodShare(0.9, 0.7, 1.0)),
        ({"keep_above": 0.3}, GoodShare(0.9, 0.8, 0.99)),
        ({"keep_above": 0.3}, None),
        ({"keep_share": 0.3}, GoodShare(0.97, 0.84, 1.0)),
    ],
)
def test_otherwise_what_is_under_the_threshold_is_dropped(three, rule, share):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curated = sdil.curate(three, SCORES, **rule, good_share=share)
    assert curated.demos.noisy.n_steps < three.noisy.n_steps
    assert curated.why_all is None


def test_the_share_is_of_the_noisy_set_alone(three):
    scores = scored([1, 1, -1])
    maybe = GoodShare(0.97, 0.84, 1.0)
    curated = sdil.curate(three, scores, keep_above=0.0, which="clean", good_share=maybe)
    assert curated.demos.clean.n_steps == 2


def test_what_would_have_been_chosen_without_having_seen_a_fold(three):
    good = np.array([[0.9] * 5 + [0.1] * 5, [0.1] * 5 + [0.9] * 5], np.float16)
    own = CrossJudged(good, np.array([0]), three.fingerprint(rewards=False))
    by_fold = sdil.curate(three, SCORES, by="segment", keep_above=0.0, cross_judged=own).by_fold
    assert by_fold.fold.tolist() == [0]
    np.testing.assert_array_equal(by_fold.weighing, good.astype(float))
    assert by_fold.kept.tolist() == (good > 0.5).tolist()
    half = sdil.curate(three, SCORES, by="segment", keep_share=0.5, cross_judged=own).by_fold
    assert half.kept.sum(1).tolist() == [5, 5]
    assert (
        sdil.curate(three, SCORES, by="episode", keep_above=0, cross_judged=own).by_fold.kept
        is None
    )
    assert sdil.curate(three, SCORES, weights=True, cross_judged=own).by_fold.kept is None
    other = CrossJudged(good, np.array([0]), "of other demonstrations")
    assert sdil.curate(three, SCORES, keep_above=0.0, cross_judged=other).by_fold is None
