"""A judge that is told: what labels change, what they do not, and what it asks for."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from corridor import corridor, fit, goes_on
from sklearn.metrics import roc_auc_score

import sdil
from sdil.errors import InputError
from sdil.judges.neighbours import told_by_neighbours
from sdil.judges.telling import judge_again
from sdil.judging import CrossJudged
from sdil.labels import Label


@pytest.fixture(scope="module")
def demos():
    return corridor()


@pytest.fixture(scope="module")
def judge(demos):
    return fit(demos)


@pytest.mark.parametrize("already", [1.0, 0.5, 0.25])
def test_what_is_repeated_counts_once_in_what_was_judged_by_folds(already):
    """Labels that change nothing: log-odds count by a half, however far they were held back."""
    said = np.array([[-4.0, -1.0, 0.0, 1.0, 4.0]])
    judged = CrossJudged(1 / (1 + np.exp(-already * said)), np.zeros(1, int), "these")
    even = SimpleNamespace(odds=(0.0, 0.0, 0.0))
    gathered = SimpleNamespace(
        seen=None, share=even, idling=np.zeros(2), acts=np.ones(5, bool), n_clean=0
    )
    gathered.looks = SimpleNamespace(trust=0.5)
    evidence = SimpleNamespace(
        lessons=lambda _: (np.zeros(5), np.ones(5)),
        share=lambda: even,
        idling=torch.zeros(2),
        trust=torch.tensor(already),
    )
    told = judge_again(judged, gathered, evidence).good.astype(float)
    np.testing.assert_allclose(np.log(told / (1 - told)), 0.5 * said, atol=0.01)


def scores(judge, demos):
    return np.concatenate([s.optimality for s in judge.score(demos.noisy)])


def truth_of(demos, questions, *, turned=()):
    """What a person who knows the truth says of spans; of some the opposite."""
    each = np.split(goes_on(demos), np.cumsum(demos.noisy.lengths)[:-1])
    good = dict(zip(demos.noisy.ids, each, strict=True))
    found = []
    for i, q in enumerate(questions):
        share = good[q.episode][q.first_step : q.last_step + 1].mean()
        said = "good" if share > 0.75 else "bad" if share < 0.25 else "unsure"
        if i in turned:
            said = {"good": "bad", "bad": "good", "unsure": "unsure"}[said]
        found.append(q.answer(said))
    return found


def test_without_labels_and_with_unsure_ones_nothing_changes(judge, demos):
    unsure = [Label("noisy", "n0", 0, 3, "unsure")]
    for labels in ([], unsure):
        again = judge.tell(labels)
        np.testing.assert_array_equal(scores(again, demos), scores(judge, demos))
        assert again.good_share == judge.good_share
    assert judge.tell(unsure).labels == {"good": 0, "bad": 0, "unsure": 1}


def test_labels_teach_and_no_network_is_trained_again(judge, demos):
    labels = truth_of(demos, judge.ask(demos, 12))
    told = judge.tell(labels)
    before, after, good = scores(judge, demos), scores(told, demos), goes_on(demos)

    def loss(score):
        return -np.log(np.clip(np.where(good, 1 + score, 1 - score) / 2, 1e-3, 1)).mean()

    assert loss(after) < loss(before)
    state, now = judge.evidence.state_dict(), told.evidence.state_dict()
    changed = {k for k in state if not torch.equal(state[k].nan_to_num(), now[k].nan_to_num())}
    assert changed
    assert changed <= {"good_share", "idling"}
    assert {k for k in now if k not in state} == {k for k in now if k.startswith("lessons.")}
    assert judge.cross_judged.good.shape == told.cross_judged.good.shape
    back = told.tell([])  # it begins from what it thought before
    np.testing.assert_array_equal(scores(back, demos), before)


def test_people_who_call_everything_bad_lower_the_share(judge, demos):
    bad = [q.answer("bad") for q in judge.ask(demos, 12)]
    good = [q.answer("good") for q in judge.ask(demos, 12)]
    low, high = judge.tell(bad).good_share, judge.tell(good).good_share
    assert low.point < judge.good_share.point < high.point
    assert low.low <= low.point <= low.high


def test_one_wrong_answer_costs_little(judge, demos):
    asked = judge.ask(demos, 12)
    right = judge.tell(truth_of(demos, asked))
    wrong = judge.tell(truth_of(demos, asked, turned=(3,)))
    good = goes_on(demos)
    best, turned = (roc_auc_score(good, scores(j, demos)) for j in (right, wrong))
    assert turned > best - 0.05  # by order; where 0 lies moves by more


def test_a_told_judge_is_saved_and_loaded(judge, demos, tmp_path):
    told = judge.tell(truth_of(demos, judge.ask(demos, 6)))
    told.save(tmp_path)
    loaded = sdil.load_judge(tmp_path)
    np.testing.assert_array_equal(scores(loaded, demos), scores(told, demos))
    assert loaded.labels == told.labels
    np.testing.assert_array_equal(scores(loaded.tell([]), demos), scores(judge, demos))


def test_it_asks_for_spans_that_differ_and_not_twice(judge, demos):
    asked = judge.ask(demos, 10)
    assert len(asked) == len({(q.episode, q.first_step) for q in asked}) == 10
    lengths = dict(zip(demos.noisy.ids, demos.noisy.lengths.tolist(), strict=True))
    assert all(0 <= q.first_step <= q.last_step < lengths[q.episode] for q in asked)
    assert all("steps look like it" in q.why for q in asked)
    more = judge.ask(demos, 10, [q.answer("good") for q in asked])
    known = {(q.episode, s) for q in asked for s in range(q.first_step, q.last_step + 1)}
    assert not known & {(q.episode, q.first_step) for q in more}
    assert judge.ask(demos, 10_000)  # no more than there are


def test_labels_of_others_are_refused(judge):
    with pytest.raises(InputError, match="there is no noisy episode 'x'"):
        judge.tell([Label("noisy", "x", 0, 0, "good")])


def test_labels_of_many_steps_are_a_few_examples(judge, demos):
    length = int(demos.noisy.lengths.max())
    name = demos.noisy.ids[int(demos.noisy.lengths.argmax())]
    found = judge.gathered.posterior([Label("noisy", name, 0, length - 1, "bad")])
    assert len(found.examples) == min(8, length)
    assert judge.gathered.posterior([Label("noisy", name, 0, 0, "unsure")]) is None


def test_steps_like_a_labelled_one_follow_it(judge, demos):
    """Two noisy steps with the same state and action are one to the judge."""
    where = np.concatenate([t.observations[: len(t)] for t in demos.noisy])
    acts = np.concatenate([t.actions for t in demos.noisy])
    at = int(np.flatnonzero(acts != 4)[0])
    same = (where == where[at]).all(1) & (acts == acts[at])
    seen = judge.gathered.seen.at(judge.gathered.n_clean + np.flatnonzero(same))
    first = np.cumsum(demos.noisy.lengths) - demos.noisy.lengths
    episode = int(np.searchsorted(first, at, side="right")) - 1
    step = at - int(first[episode])
    assert same.sum() > 1
    found = {}
    for said, way in (("good", 1), ("bad", -1)):
        told = judge.tell([Label("noisy", demos.noisy.ids[episode], step, step, said)])
        moved, counts = told.evidence.lessons(seen)
        assert (way * moved > 0).all()
        assert max(np.ptp(moved), np.ptp(counts)) < 1e-3
        found[said] = scores(told, demos)[same]
    assert (found["good"] > found["bad"]).all()


def test_a_label_speaks_of_the_steps_beside_it(judge, demos):
    """What neighbours say includes what they were labelled: by so much that labels teach."""
    chained = type(judge).build(judge.inner_spaces, {}, judge.tensors())
    chained.evidence.persistence.fill_(0.3)
    name = demos.noisy.ids[0]
    label = [Label("noisy", name, 2, 2, "good")]
    told = chained.tell(label)
    alone = type(judge).build(judge.inner_spaces, {}, told.tensors())
    for evidence in (alone.evidence, alone._double):
        evidence.persistence.zero_()
    one = demos.noisy[:1]
    with_them, without = (j.score(one)[0].optimality for j in (told, alone))
    odds = np.log((1 + without) / (1 - without))
    prior = told.good_share.odds[0]
    beside = told_by_neighbours(odds - prior, np.zeros(len(odds)), told.good_share.point, 0.3)
    expected = odds + beside
    np.testing.assert_allclose(with_them, 2 / (1 + np.exp(-expected)) - 1, atol=1e-6)


def test_told_judges_of_before_score_as_they_did(judge, demos):
    """They kept no word on what labels leave open, and neighbours knew nothing of labels; signals
    were weighed as they are."""
    told = judge.tell(truth_of(demos, judge.ask(demos, 6)))
    later = ("closes", "examples_apart", "looks.parting", "looks.trust")
    gone = {f"lessons.{name}" for name in later}
    kept = {k: v for k, v in told.tensors().items() if k not in gone}
    assert gone <= set(told.tensors())
    shift = torch.tensor(0.25, dtype=torch.float64)
    old = type(judge).build(judge.inner_spaces, {}, {**kept, "lessons.shift": shift})
    looks, windows = old.evidence.lessons.looks, old._windows(demos.noisy)
    seen = old.evidence.look(looks, windows, torch.arange(len(windows)))
    np.testing.assert_array_equal(seen.apart, seen.ranks.clip(-1, 1))
    assert float(looks.trust) == 1.0
    change = old.evidence.lessons(seen)[0]
    before = np.log((1 + scores(judge, demos)) / (1 - scores(judge, demos)))
    moved = told.good_share.odds[0] - judge.good_share.odds[0] + change + 0.25
    expected = 2 / (1 + np.exp(-(before + moved))) - 1
    np.testing.assert_allclose(scores(old, demos), expected, atol=2e-3)


def test_what_signals_repeat_counts_once_when_labels_come(judge, demos):
    """Where signals say the same the judge begins from less sure odds, and labels reach them."""
    gathered = judge.gathered
    trust = float(gathered.looks.trust)
    assert 0 < trust < 1
    windows = judge._windows(demos.noisy)
    every, evidence = torch.arange(len(windows)), judge.evidence
    each = [evidence.worth(n, evidence.tell(n, windows, every).numpy()) for n in evidence.weighed]
    acts = gathered.acts[gathered.n_clean :]
    wanted = gathered.share.odds[0] + trust * np.sum(each, 0)
    found = gathered.seen.odds[gathered.n_clean :]
    np.testing.assert_allclose(found[acts], wanted[acts], atol=1e-3)


def test_a_judge_that_heard_nothing_can_be_taught(demos):
    judge = fit(demos, signals="efficiency", clone_updates=1, outcome_updates=1)
    labels = truth_of(demos, judge.ask(demos, 12))
    told = judge.tell(labels)
    assert "step" not in told.unknown
    assert told.good_share is not None
    assert roc_auc_score(goes_on(demos), scores(told, demos)) > 0.6


def test_first_questions_are_single_steps_and_ends(demos):
    ended = [replace(t, terminated=i % 2 == 0) for i, t in enumerate(demos.noisy)]
    asked = sdil.first_questions(ended, 20)
    assert asked == sdil.first_questions(ended, 20)
    assert len({(q.episode, q.first_step) for q in asked}) == len(asked) == 20
    by_name = {t.id: t for t in ended}
    last = [q.first_step == len(by_name[q.episode]) - 1 for q in asked]
    assert last == [True] * 5 + [False] * 15
    assert all(by_name[q.episode].terminated for q in asked[:5])
    assert all(q.first_step == q.last_step for q in asked)
    assert {int(by_name[q.episode].actions[q.first_step]) for q in asked[5:]} == {0, 1, 2, 3}
    steps = sum(len(t) for t in ended)
    assert sum(q.stands_for for q in asked[5:]) == pytest.approx(steps, abs=10)


def test_first_questions_where_nothing_varies_or_all_ends():
    def one(name, ended):
        return sdil.Trajectory(np.zeros((2, 2), np.float32), np.array([0]), None, ended, id=name)

    assert [q.episode for q in sdil.first_questions([one("a", False)], 4)] == ["a"]
    asked = sdil.first_questions([one(f"e{i}", True) for i in range(6)], 8)
    assert len({q.episode for q in asked}) == len(asked) == 2  # ends alone, each once
    camera = {"camera": np.zeros((3, 4, 4, 1), np.uint8), "arm": np.ones((3, 2), np.float32)}
    filmed = [sdil.Trajectory(camera, np.array([0, 1]), None, False, id=name) for name in "xy"]
    seen = sdil.Demonstrations(filmed[:1], filmed[1:])
    assert {q.first_step for q in sdil.first_questions(list(seen.noisy), 4)} == {0, 1}  # by actions


def test_first_questions_of_few_steps_and_of_none_that_ended():
    def episode(*cells: float) -> sdil.Trajectory:
        seen = np.array([*cells, 0.0])[:, None]
        return sdil.Trajectory(seen, np.zeros(len(cells), int), None, False)

    asked = sdil.first_questions([episode(0, 0, 9), episode(9, 0)], 20)
    where = [(q.episode, q.first_step) for q in asked]
    assert len(where) == 2  # no more than there are different ones
    assert {(0, 0, 9)[t] if e == "0" else (9, 0)[t] for e, t in where} == {0, 9}
    assert sorted(q.stands_for for q in asked) == [2, 3]
    assert sdil.first_questions([], 20) == sdil.first_questions([episode(1)], 0) == []


def test_labels_alone_make_a_judge(demos):
    """No clean set: the first answers make one, and the judge asks on."""
    noisy = [replace(t, terminated=False) for t in demos.noisy]
    labels = truth_of(demos, sdil.first_questions(noisy, 12))
    own = sdil.clean_from_labels(noisy, labels, demos.spaces)
    judge = fit(own)
    assert {len(t) for t in own.clean} == {1}
    assert judge.evidence.heard  # single steps are held against what their episodes did
    labels += truth_of(demos, judge.ask(own, 12, labels))
    assert roc_auc_score(goes_on(demos), scores(judge.tell(labels), own)) > 0.85


def test_judges_of_before_are_told_nothing(judge, demos, tmp_path):
    gathered = {k: v for k, v in judge.tensors().items() if k.startswith("gathered.seen")}
    own = {k: v for k, v in judge.tensors().items() if k not in gathered}
    old = type(judge).build(judge.inner_spaces, {}, own)
    with pytest.raises(InputError, match="judge anew"):
        old.tell([])
    with pytest.raises(InputError, match="judge anew"):
        old.ask(demos, 3)
