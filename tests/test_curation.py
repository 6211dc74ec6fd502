"""Which steps are kept, and what becomes of them."""

from __future__ import annotations

import warnings
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdil
from conftest import episode
from sdil import Demonstrations, InputError
from sdil.curation import NothingKeptError
from sdil.judges.joining import GoodShare
from sdil.judging import CrossJudged
from sdil.scores import StepScores
from sdil.segmentation import segments_of


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


def stretch_lengths(by, scores):
    """Of the steps that are kept or dropped together, in order."""
    if by == "step":
        return [1] * sum(len(s.optimality) for s in scores)
    if by == "episode":
        return [len(s.optimality) for s in scores]
    return [part.stop - part.start for s in scores for part in segments_of(s)]


def chosen_by_hand(by, scores, above, share):
    """Which steps a rule chooses, one stretch after the other. One list for all episodes."""
    of_steps = [
        v
        for s in scores
        for v in (s.quality if by == "episode" and s.quality is not None else s.optimality)
    ]
    lengths = stretch_lengths(by, scores)
    means, at = [], 0
    for n in lengths:
        means.append(sum(of_steps[at : at + n]) / n)
        at += n
    if above is not None:
        taken = [m >= above for m in means]
    else:
        wanted, taken, got = round(share * sum(lengths)), [False] * len(means), 0
        for i in sorted(range(len(means)), key=lambda i: -means[i]):
            taken[i] = True
            got += lengths[i]
            if got >= wanted:
                break
    return [t for t, n in zip(taken, lengths, strict=True) for _ in range(n)]


@settings(max_examples=150)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    values=st.lists(st.sampled_from([-1, -0.75, -0.25, 0, 0.5, 1]), min_size=24, max_size=24),
    by=st.sampled_from(["segment", "episode", "step"]),
    rule=st.one_of(
        st.tuples(st.sampled_from([-1, -0.25, 0.0, 0.5, 1]), st.none()),
        st.tuples(st.none(), st.sampled_from([0.01, 0.25, 0.5, 0.9, 1])),
    ),
    min_length=st.integers(1, 3),
    which=st.sampled_from(["noisy", "clean"]),
    told=st.booleans(),
    power=st.sampled_from([None, 0.5, 1.0, 2.0]),
)
def test_every_rule_is_what_counting_says(
    lengths, values, by, rule, min_length, which, told, power
):
    """Multiples of a quarter, so that sums are exact."""
    mine = [episode(n, seed=i, id=f"n{i}", terminated=True) for i, n in enumerate(lengths)]
    other = [episode(2, seed=9, id="other")]
    demos = Demonstrations(*((other, mine) if which == "noisy" else (mine, other)))
    taken = iter(values)
    scores = [
        StepScores(
            np.array([next(taken) for _ in range(n)], float),
            quality=np.full(n, values[-1 - i]) if told else None,
        )
        for i, n in enumerate(lengths)
    ]
    above, share = rule
    options = {"by": by, "keep_above": above, "keep_share": share, "min_length": min_length}
    asked = [s.quality if told and by == "episode" else s.optimality for s in scores]
    needed = [s.optimality for s in scores] if power else asked
    weighed = {} if power is None else {"weights": True, "power": power}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it bends how often actions occur
        if not any(v.any() for v in asked) or not any(v.any() for v in needed):
            with pytest.raises(InputError, match="the scores say nothing"):
                sdil.curate(demos, scores, which=which, **options, **weighed)
            return
        steps = iter(chosen_by_hand(by, scores, above, share))
        masks = [[next(steps) for _ in range(n)] for n in lengths]
        runs = []
        for at, mask in enumerate(masks):
            start = 0
            for good, run in groupby(mask):
                stop = start + len(list(run))
                if good and (stop - start >= min_length or stop - start == len(mask)):
                    runs.append((at, start, stop))
                start = stop
        if not runs and power is None:
            with pytest.raises(NothingKeptError, match=f"nothing of the {which} set would be kept"):
                sdil.curate(demos, scores, which=which, **options)
            return
        curated = sdil.curate(demos, scores, which=which, **options, **weighed)
    assert curated.stretches.tolist() == stretch_lengths(by, scores)
    assert (curated.which, curated.why_all, curated.by_fold) == (which, None, None)
    weighing = [(1 + s.optimality) / 2 for s in scores]
    if any(s.optimality.any() for s in scores):
        assert [w.tolist() for w in curated.weighing] == [w.tolist() for w in weighing]
    else:
        assert curated.weighing is None
    if power is not None:
        assert curated.demos is demos
        assert (curated.by, curated.power, curated.too_short) == ("weights", power, 0)
        assert [m.tolist() for m in curated.kept] == masks
        for found, w, mask in zip(curated.weights, weighing, masks, strict=True):
            np.testing.assert_allclose(found, np.array(mask) * w**power)
        assert [(p.at, p.start, p.stop) for p in curated.pieces] == [
            (i, 0, n) for i, n in enumerate(lengths)
        ]
        assert [p.id for p in curated.pieces] == [t.id for t in mine]
        return
    assert (curated.by, curated.power) == (by, 1.0)
    assert [(p.at, p.start, p.stop) for p in curated.pieces] == runs
    kept = [[False] * n for n in lengths]
    for (at, start, stop), piece, made in zip(
        runs, curated.pieces, getattr(curated.demos, which), strict=True
    ):
        kept[at][start:stop] = [True] * (stop - start)
        whole = stop - start == lengths[at]
        assert piece.id == made.id == (f"n{at}" if whole else f"n{at}[{start}:{stop}]")
        assert piece.source == f"n{at}"
        assert piece.optimality == scores[at].optimality[start:stop].mean()
        assert piece.how_well == scores[at].how_well(start, stop)
        assert made.terminated == (stop == lengths[at])
        assert made.actions.tolist() == mine[at].actions[start:stop].tolist()
    assert [m.tolist() for m in curated.kept] == kept
    assert [w.tolist() for w in curated.weights] == [[float(k) for k in m] for m in kept]
    assert curated.too_short == sum(map(sum, masks)) - sum(map(sum, kept))
    assert getattr(curated.demos, "clean" if which == "noisy" else "noisy")[0] == other[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep_above": -1.01}, r"keep_above lies in \[-1, 1\] as scores do, not -1\.01"),
        ({"keep_above": 1.01}, r"keep_above lies in \[-1, 1\]"),
        ({"keep_share": 1.01}, r"keep_share lies in \(0, 1\], not 1\.01"),
        ({"keep_share": -0.5}, r"keep_share lies in \(0, 1\]"),
        ({"keep_share": float("nan")}, r"keep_share lies in \(0, 1\]"),
        ({"weights": True, "power": 0}, "power must be above 0, not 0"),
        ({"weights": True, "power": -1}, "power must be above 0, not -1"),
        ({"weights": True, "power": float("inf")}, "power must be above 0, not inf"),
        ({"weights": True, "power": float("nan")}, "power must be above 0, not nan"),
        ({"weights": True, "min_length": 0}, "min_length must be at least 1, not 0"),
        ({"weights": True, "by": "steps"}, "not 'steps'"),
        ({"weights": True, "keep_above": 0, "keep_share": 1}, "give one of"),
        ({"keep_above": 0.0, "selection": {}}, "give one of"),
        ({"keep_share": 0.5, "selection": {}}, "give one of"),
        ({"selection": []}, "its format should be"),
        ({"selection": {}}, "its format should be"),
    ],
)
def test_other_things_that_cannot_be_done_are_said(three, options, message):
    with pytest.raises(InputError, match=message):
        sdil.curate(three, SCORES, **options)


def test_scores_on_the_edge_are_scores(three):
    edge = scored([1, -1, 1, -1, 1], [1, 1, 1, 1], [-1])
    with pytest.warns(UserWarning, match="bends") as caught:
        curated = sdil.curate(three, edge, by="step", keep_above=1, min_length=1)
    assert [str(w.filename) for w in caught] == [__file__]  # it points to who asked
    assert [m.tolist() for m in curated.kept] == [[1, 0, 1, 0, 1], [1] * 4, [0]]
    for wrong in (1.0001, -1.0001):
        with pytest.raises(InputError, match="episode 'c', step 0: the score is"):
            sdil.curate(three, [*edge[:2], *scored([wrong])], keep_above=0)
    with pytest.raises(InputError, match="do not fit the noisy set"):
        sdil.curate(three, edge[:2], keep_above=0)
    with pytest.raises(InputError, match="do not fit the noisy set"):
        sdil.curate(three, [*edge[:2], *scored([1, 1])], keep_above=0)


@pytest.mark.parametrize(
    ("low", "high", "all_kept"), [(0.75, 1.0, True), (0.7499, 1.0, False), (0.75, 0.9999, False)]
)
def test_where_a_set_may_be_all_good_begins(three, low, high, all_kept):
    share = GoodShare(0.9, low, high)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        curated = sdil.curate(three, SCORES, keep_above=0.3, good_share=share)
    assert (curated.why_all is not None) is all_kept
    assert [str(w.filename) for w in caught] == [__file__] * all_kept
    assert (curated.demos == three) is all_kept


def test_whoever_is_kept_whole_was_not_chosen_by_steps(three):
    own = CrossJudged(
        np.full((1, 10), 0.9, np.float16), np.array([0]), three.fingerprint(rewards=False)
    )
    maybe = GoodShare(0.97, 0.84, 1.0)
    with pytest.warns(UserWarning, match="nothing is dropped"):
        found = sdil.curate(three, SCORES, keep_above=0.3, good_share=maybe, cross_judged=own)
    assert found.by_fold.kept is None
    clean = sdil.curate(three, scored([1, 1, -1]), keep_above=0, which="clean", cross_judged=own)
    assert clean.by_fold is None
    chosen = sdil.curate(three, SCORES, selection=selection(three, ("a", 0, 2)), cross_judged=own)
    assert chosen.by_fold.kept is None
    assert chosen.by_fold.weighing.dtype == np.float64


def test_without_a_fold_each_stretch_is_held_against_the_rule(three):
    """By the mean over the stretch, in [-1, 1] as scores are."""
    good = np.array([[0.6, 0.6, 0.9, 0.4, 0.4, 0.2, 0.5, 0.3, 0.9, 0.5]])
    own = CrossJudged(good, np.array([0]), three.fingerprint(rewards=False))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for above in (-0.5, 0.0, 0.1, 0.5):
            options = {"by": "step", "keep_above": above, "min_length": 1}
            found = sdil.curate(three, SCORES, cross_judged=own, **options).by_fold
            np.testing.assert_array_equal(found.kept, 2 * good - 1 >= above)
    # segments: a[0:2] a[2] a[3:5], b[0] b[1:3] b[3], c; means 0.2, 0.8, -0.2, -0.6, -0.2, 0.8, 0
    for rule in ({"keep_above": 0.1}, {"keep_share": 0.4}):
        for shortest, alone in ((1, 1), (2, 0)):  # b[3] is a run of one step
            options = {**rule, "min_length": shortest, "cross_judged": own}
            kept = sdil.curate(three, SCORES, **options).by_fold.kept
            assert kept.tolist() == [[1, 1, 1, 0, 0, 0, 0, 0, alone, 0]]


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ({"start": True}, "steps True to 2 do not lie"),
        ({"stop": True}, "steps 0 to True do not lie"),
        ({"stop": 5.0}, "steps 0 to 5.0 do not lie"),
        ({"start": "0"}, "steps 0 to 2 do not lie"),
        ({"stop": 6}, "steps 0 to 6 do not lie"),
        ({"start": 3}, "steps 3 to 2 do not lie"),
        ({"start": None}, "do not lie"),
        ({"set": "clean"}, "segment 0: it is of the clean set, but the noisy one is curated"),
        ({"episode": "trusted"}, "the noisy set has no episode 'trusted'"),
    ],
)
def test_every_field_of_a_segment_is_checked(three, segment, message):
    one = {"set": "noisy", "episode": "a", "start": 0, "stop": 2}
    assert sdil.curate(three, SCORES, selection=selection(three, segments=[one])).pieces
    whole = selection(three, segments=[one | {"stop": 5}])
    assert sdil.curate(three, SCORES, selection=whole).demos.noisy.ids == ("a",)
    with pytest.raises(InputError, match=message):
        sdil.curate(three, SCORES, selection=selection(three, segments=[one | segment]))
    for key in one:
        fewer = {k: v for k, v in one.items() if k != key}
        with pytest.raises(InputError, match="segment 1: it needs set, episode, start and stop"):
            sdil.curate(three, SCORES, selection=selection(three, segments=[one, fewer]))


def test_segments_that_touch_do_not_overlap(three):
    chosen = selection(three, ("a", 2, 4), ("a", 0, 2), ("c", 0, 1))
    curated = sdil.curate(three, SCORES, selection=chosen, weights=True)
    assert [m.tolist() for m in curated.kept] == [[1, 1, 1, 1, 0], [0] * 4, [1]]
    assert curated.stretches.tolist() == [4, 1, 4, 1]
    np.testing.assert_allclose(curated.weights[2], [0.25])
    nothing = selection(three)
    with pytest.raises(NothingKeptError, match=r"^nothing of the noisy set would be kept$"):
        sdil.curate(three, SCORES, selection=nothing)
    own = {
        **selection(three),
        "segments": [{"set": "clean", "episode": "trusted", "start": 0, "stop": 2}],
    }
    clean = sdil.curate(three, scored([0, 0, 0]), selection=own, which="clean")
    assert clean.demos.clean.ids == ("trusted[0:2]",)
    assert clean.weighing is None


def test_how_far_off_it_was_is_said_of_every_kind(three):
    low = [StepScores(s.optimality / 2) for s in SCORES]
    with pytest.raises(NothingKeptError, match=r"the highest score of an? episode is 0\.090$"):
        sdil.curate(three, low, by="episode", keep_above=0.9)
    with (
        pytest.warns(UserWarning, match="bends"),
        pytest.raises(NothingKeptError, match=r"the highest score of a step is 0\.500$"),
    ):
        sdil.curate(three, low, by="step", keep_above=0.9)
    alone = scored([-1, -1, 1, 1, -1], [1, -1, -1, -1], [-1])
    message = "3 steps are chosen, but no 3 of them in a row; lower min_length"
    with pytest.raises(NothingKeptError, match=message):
        sdil.curate(three, alone, keep_above=0.9, min_length=3)


def test_a_share_of_steps_is_rounded_to_whole_ones(three):
    """Of ten steps 0.24 are two and 0.26 three; of equals the first come first."""
    values = scored([0.9, 0.8, 0.7, 0.6, 0.5], [0.5, 0.5, 0.5, 0.5], [0.5])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for share, count in ((0.01, 1), (0.24, 2), (0.26, 3), (0.55, 6), (0.6, 6), (1, 10)):
            found = sdil.curate(three, values, by="step", keep_share=share, min_length=1)
            kept = np.concatenate(found.kept)
            assert np.flatnonzero(kept).tolist() == list(range(count))


@pytest.mark.parametrize("weights", [False, True])
def test_only_what_is_asked_must_be_answered(three, weights):
    """Weights ask about steps, whatever the rule asks; a selection alone asks nothing."""
    silent = [StepScores(np.zeros(n), quality=np.full(n, 0.3)) for n in (5, 4, 1)]
    if weights:
        with pytest.raises(InputError, match="the scores say nothing"):
            sdil.curate(three, silent, by="episode", keep_above=0, weights=True)
    else:
        assert sdil.curate(three, silent, by="episode", keep_above=0).demos == three
    unknown = {"step": "who knows", "episode": "nobody"}
    only_steps = {"step": "who knows"}
    with pytest.raises(InputError, match=r"the judge does not answer this: nobody$"):
        sdil.curate(three, SCORES, by="episode", keep_above=0, unknown=unknown)
    with pytest.raises(InputError, match=r"who knows$"):
        sdil.curate(three, SCORES, by="episode", keep_above=0, unknown=only_steps, weights=True)
    assert (
        sdil.curate(
            three, SCORES, by="step", keep_above=0, unknown={"episode": "x"}, weights=True
        ).weights[0][0]
        == 1
    )
