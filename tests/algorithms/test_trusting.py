"""How far the noisy set is trusted, and for how long everything is trained on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sdil import BC, SDIL, Demonstrations, ScoredBC, Trajectory, load_policy
from sdil.algorithms.trust import (
    EXPONENTS,
    HELD,
    NOTHING,
    POOLING,
    Trust,
    _choose,
    find_trust,
    is_bearable,
    propose,
    smallest_exponent,
    trust_all,
)
from sdil.algorithms.weighing import lengths_across_folds
from sdil.judging import CrossJudged, FittedJudge, GoodShare
from sdil.skills.discovery import Discovery
from sdil.training import Epoch
from sdil.ways import Way

FIELDS = SimpleNamespace(look_back=0, hidden=32, min_updates=100, max_updates=400)


QUICK_SDIL = SDIL(
    max_updates=60, min_updates=20, discovery_epochs=1, discovery_min_updates=5, hidden=16
)


@pytest.fixture(autouse=True)
def looks(monkeypatch):
    monkeypatch.setattr("sdil.networks.cross_fitting.LOOKS", (50, 100, 200, 400))


class Told(FittedJudge):
    """Says of noisy steps what it is told."""

    kind, name, seed, signals, hyperparameters = "told", "told", 0, (), {}

    def __init__(self, good, share=None, cross_judged=None, unknown=()):
        self.good, self.good_share, self.cross_judged = good, share, cross_judged
        self.unknown = dict.fromkeys(unknown, "nothing is heard")

    def optimality(self, packed):
        clean = torch.ones(packed.n_steps - len(self.good), dtype=torch.float64)
        return torch.cat([clean, torch.from_numpy(2 * self.good - 1)])

    def judge(self, packed):
        raise NotImplementedError

    def tensors(self):
        return {}

    def configuration(self):
        return {}

    @classmethod
    def build(cls, spaces, configuration, tensors):
        raise NotImplementedError


def made(rng, n, wrong, name):
    """Right is 1 where the first entry is above the second in size; a share does the opposite."""
    episodes, good = [], []
    for i in range(n):
        x = rng.normal(size=(21, 4)).astype(np.float32)
        bad = rng.random(20) < wrong
        right = np.abs(x[:-1, 0]) > np.abs(x[:-1, 1])
        episodes.append(Trajectory(x, (right ^ bad).astype(np.int64), None, False, f"{name}{i}"))
        good.append(~bad)
    return episodes, np.concatenate(good)


def world(wrong, seed=0, clean=5):
    rng = np.random.default_rng(seed)
    noisy, good = made(rng, 60, wrong, "n")
    return Demonstrations(made(rng, clean, 0.0, "c")[0], noisy), good


def test_the_exponent_is_the_smallest_with_which_few_bad_steps_are_drawn():
    assert smallest_exponent(np.full(100, 0.9)) == 0.0
    assert smallest_exponent(np.full(100, 0.5)) is None  # none is surer than the others
    assert smallest_exponent(np.zeros(100)) is None
    told = np.repeat([0.9, 0.3], 50)
    chosen = smallest_exponent(told)
    assert 0 < chosen < 16
    for exponent in EXPONENTS:
        weights = told**exponent
        bad = (weights * (1 - told)).sum() / weights.sum()
        assert (bad <= 0.15) == (exponent >= chosen)


def test_what_noisy_steps_weigh():
    good = np.array([[0.5, 1.0, 0.0, 0.5], [0.0, 0.1, 0.0, 0.1]])
    assert not NOTHING.weigh(good, 10).any()
    np.testing.assert_array_equal(POOLING.weigh(good, 1), 1.0)
    np.testing.assert_array_equal(Way(2.0).weigh(good, 1), good**2)
    held = Way(1.0, 0.5).weigh(good, 2)  # together at most half of two clean steps
    np.testing.assert_allclose(held, [[0.25, 0.5, 0.0, 0.25], [0.0, 0.1, 0.0, 0.1]])
    assert not Way(1.0, 0.5).weigh(np.zeros((2, 4)), 2).any()
    assert [w.pools for w in (NOTHING, POOLING, Way(0.0, 1.0), Way(1.0))] == [False, True, 0, 0]


def test_ways_are_tried_at_the_weight_that_they_are_trained_with(monkeypatch):
    """A fold has fewer clean steps to hold noisy ones to."""
    tried = []
    monkeypatch.setattr(
        "sdil.algorithms.trust.cross_fit",
        lambda demos, folds, weights, **_: tried.append((folds, weights)) or 1 / 0,
    )
    demos, good = world(0.3, clean=2)
    with pytest.raises(ZeroDivisionError):
        find_trust(demos, Told(np.where(good, 0.9, 0.2)), None, FIELDS, seed=0)
    (folds, weights) = tried[0]
    held = (weights * folds.noisy).sum(2)  # (ways, folds)
    assert any(np.allclose(of_way, 0.5 * 20) for of_way in held)  # one episode of 20 steps is left


def test_what_a_judge_proposes():
    assert propose(np.full(100, 0.95), 10) == POOLING
    assert propose(np.repeat([0.9, 0.3], [90, 10]), 10) == Way(0.25)  # few are bad
    assert propose(np.repeat([0.9, 0.3], 50), 10) == HELD[0]  # steps must be sure
    assert propose(np.full(100, 0.5), 10) == NOTHING
    hardly_any = np.repeat([0.9, 0.1], [3, 97])
    assert smallest_exponent(hardly_any) == 4.0
    assert propose(hardly_any, 10) == Way(4.0, 0.5)  # of p a sixth of all would be bad
    doubtful = np.repeat([0.95, 0.4], [20, 80])  # of p 0.46 are bad
    assert smallest_exponent(doubtful) == 4.0
    assert propose(doubtful, 10) == HELD[1] == Way(1.0, 0.25)  # of half too many would be


@pytest.mark.parametrize(("low", "some"), [(0.0, False), (0.01, False), (0.45, True)])
def test_a_judge_that_thinks_that_perhaps_none_is_good_proposes_nothing(low, some):
    """Of a few steps it is sure by luck; there is one clean group, so nobody else is asked."""
    demos, good = world(0.5, clean=1)
    judge = Told(np.where(good, 0.999, 0.001), share=GoodShare(0.5, low, 0.6))
    trust = find_trust(demos, judge, None, FIELDS, seed=0)
    assert (trust.way != NOTHING) == some
    assert trust.weights.any() == some


@pytest.mark.parametrize(("high", "some"), [(0.2, False), (0.25, False), (0.3, True)])
def test_only_a_judge_that_is_sure_that_hardly_any_is_good_is_not_contradicted(high, some):
    """All noisy steps are good, and clean groups would say so."""
    demos, _ = world(0.0)
    judge = Told(np.full(demos.noisy.n_steps, 0.01), share=GoodShare(0.1, 0.0, high))
    trust = find_trust(demos, judge, None, FIELDS, seed=0)
    assert (trust.way != NOTHING) == some
    assert (len(trust.tried) > 1) == some


def test_held_ways_need_a_judge_that_expects_few_bad_steps():
    """Of all that are drawn, a third or a half of it noisy ones."""
    for at_most, drawn in ((0.5, 1 / 3), (1.0, 1 / 2)):
        for bad in (0.2, 0.3, 0.4):
            way = Way(1.0, at_most)
            assert is_bearable(way, np.full(1000, 1 - bad), 100) == (drawn * bad <= 0.12)
    assert is_bearable(Way(1.0), np.full(1000, 0.1), 100)  # clean groups will tell
    assert is_bearable(NOTHING, np.zeros(10), 1)


def test_what_is_not_held_back_must_teach_more_than_actions_dealt_anew(monkeypatch):
    """Clean groups prefer p^1, then pooling, then what is held; dealt anew p^1 is as good."""
    held = HELD[0]
    ways, asked = (NOTHING, held, Way(1.0), POOLING), []
    steady = np.array([0.0, 0.01, -0.01])
    nll = np.array([1.0, 0.9, 0.5, 0.7])[:, None] + steady
    found = SimpleNamespace(nll=nll, error=np.full((4, 3), 0.3))
    dealt = {Way(1.0): 0.5 + steady[::-1], POOLING: 1.5 + steady}
    wrong = {}

    def fit(_, tried, *__, dealt_anew, **___):
        assert dealt_anew
        asked.append(tried)
        error = wrong.get(tried[0], 0.3) + steady
        return SimpleNamespace(nll=dealt[tried[0]][None], error=error[None])

    monkeypatch.setattr("sdil.algorithms.trust._fit", fit)

    def choose(*, silent=False, speaks_for=True):
        told = {"silent": silent, "speaks_for": speaks_for}
        return ways[_choose((), ways, found, FIELDS, **told, seed=0)]

    assert choose() == POOLING
    assert asked == [(Way(1.0),), (POOLING,)]
    dealt[POOLING] = 0.69 + steady
    assert choose() == held  # 0.1 better than nothing, and nobody asks what it teaches
    dealt[held] = 0.9 + steady[::-1]
    assert choose(speaks_for=False) == NOTHING
    dealt[held] = 0.95 + steady
    assert choose(speaks_for=False) == held
    found.nll[1] = 0.96 + steady
    assert choose() == NOTHING  # nothing is clearly better any more
    assert choose(silent=True) == held
    wrong[POOLING] = 0.4  # it names more actions, and is no likelier
    assert choose() == NOTHING
    assert choose(silent=True) == POOLING
    dealt[Way(1.0)] = 0.6 + steady
    assert choose() == Way(1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "sharp"), [(0.0, 0.95), (0.5, 0.95), (1.0, 0.98)])
def test_trust_follows_the_data(wrong, sharp):
    demos, good = world(wrong)
    trust = find_trust(demos, Told(np.where(good, sharp, 1 - sharp)), None, FIELDS, seed=0)
    if wrong == 0:
        assert trust.way == POOLING
    elif wrong == 1:
        assert trust.way == NOTHING
    else:
        assert trust.way.exponent in (1, 4)
        assert trust.weights[good].sum() > 10 * trust.weights[~good].sum()
    tried = {way for way, _ in trust.tried}
    assert {NOTHING, POOLING, Way(1.0), trust.way} <= tried
    assert (HELD[0] in tried) == (wrong < 1)
    assert trust.weights.max() == (0.0 if wrong == 1 else pytest.approx(trust.weights[good].max()))
    assert 100 <= trust.updates <= 400


@pytest.mark.slow
def test_who_praises_a_bad_set_is_not_believed():
    """Clean groups that were left out have the last word."""
    demos, good = world(0.8)
    trust = find_trust(demos, Told(np.full(len(good), 0.99)), None, FIELDS, seed=0)
    assert trust.way == NOTHING
    assert not trust.weights.any()
    good_ones, good = world(0.0, clean=3)
    trust = find_trust(good_ones, Told(np.full(len(good), 0.4)), None, FIELDS, seed=0)
    assert trust.way != NOTHING  # and who damns a good one neither


@pytest.mark.slow
def test_where_the_judge_is_silent_it_is_all_or_nothing():
    for wrong, wanted in ((0.0, POOLING), (0.9, NOTHING)):
        demos, good = world(wrong, clean=3)
        silent = Told(np.full(len(good), 0.5), unknown=("step",))
        assert find_trust(demos, silent, None, FIELDS, seed=0).way == wanted


def test_the_lower_end_of_the_share_counts():
    """Of what a judge proposes; with one clean group nobody contradicts it."""
    demos, good = world(0.3, clean=1)
    told = np.where(good, 0.97, 0.2)
    sure, unsure = GoodShare(0.7, 0.7, 0.7), GoodShare(0.7, 0.2, 0.9)
    bold = find_trust(demos, Told(told, sure), None, FIELDS, seed=0)
    cautious = find_trust(demos, Told(told, unsure), None, FIELDS, seed=0)
    assert bold.weights.sum() > 0
    assert cautious.way == NOTHING


@pytest.mark.slow
def test_groups_that_are_left_out_are_not_seen_through_the_judge(monkeypatch):
    """What it says by folds is tried, where it was fitted to these very demonstrations."""
    demos, good = world(0.5)
    told = np.where(good, 0.95, 0.05)
    wrong_by_fold = np.tile(1 - told, (5, 1)).astype(np.float16)
    fold = np.arange(5)
    own = CrossJudged(wrong_by_fold, fold, demos.fingerprint(rewards=False))
    judge = Told(told, cross_judged=own)
    assert find_trust(demos, judge, None, FIELDS, seed=0).way == NOTHING
    judge.cross_judged = CrossJudged(wrong_by_fold, fold, "other demonstrations")
    assert find_trust(demos, judge, None, FIELDS, seed=0).way != NOTHING


@pytest.mark.slow
def test_steps_are_drawn_by_what_they_weigh():
    demos, good = world(0.5)
    trust = find_trust(demos, Told(np.where(good, 0.95, 0.05)), None, FIELDS, seed=0)
    drawn = trust.draw(demos.clean.n_steps, torch.Generator().manual_seed(0))(200_000)
    found = np.bincount(drawn.numpy(), minlength=demos.all.n_steps) / 200_000
    weights = np.append(np.ones(demos.clean.n_steps), trust.weights)
    np.testing.assert_allclose(found, weights / weights.sum(), atol=1e-3)


def test_validation_tells_instead_where_it_is_given():
    demos, good = world(0.5)
    valid, _ = world(0.0, seed=9)
    trust = find_trust(demos, Told(np.where(good, 0.95, 0.05)), valid, FIELDS, seed=0)
    assert trust.way != NOTHING
    assert trust_all(demos, valid, FIELDS, seed=0).updates is None


def test_one_clean_group_cannot_be_left_out():
    demos, good = world(0.5, clean=1)
    trust = find_trust(demos, Told(np.where(good, 0.95, 0.05)), None, FIELDS, seed=0)
    assert trust.updates is None
    assert trust.tried == ()


@pytest.mark.parametrize("learner", [BC(max_updates=40), ScoredBC(max_updates=40)])
def test_all_clean_steps_are_learned_from(learner):
    """Whoever is left out of training cannot change the scale of the inputs."""
    demos, good = world(0.3)
    judge = {} if learner.name == "bc" else {"judge": Told(good.astype(float), GoodShare(1, 1, 1))}
    if judge:
        judge["judge"].spaces = demos.spaces
    policy = learner.fit(demos, seed=0, **judge)
    rows = np.concatenate([t.observations[:-1] for t in [*demos.clean, *demos.noisy]])
    mean = policy.tensors()["features.standardise.mean"].numpy()
    np.testing.assert_allclose(mean, rows.mean(0), atol=1e-4)


def test_lengths_are_those_that_were_best_where_folds_were_left_out(monkeypatch):
    monkeypatch.setattr("sdil.algorithms.weighing._LEFT_OUT", 2)
    demos, _ = world(0.3)
    fitted = []

    def fit(train, *, valid, seed, on_epoch):
        fitted.append((len(train.clean), len(valid.clean)))
        for index, kept in ((1, True), (2, True), (3, False)):
            on_epoch(Epoch("clone", index, 9, {}, dict, kept=kept, updates=20 * index))
        return SimpleNamespace(temperature=1.0 + len(fitted))

    assert lengths_across_folds(fit, demos, 0) == {"clone": 40.0, "temperature": 2.5}
    assert fitted == [(4, 1), (4, 1)]


@pytest.mark.filterwarnings("ignore:discovery failed")
@pytest.mark.parametrize(
    ("learner", "alone"),
    [
        (ScoredBC(max_updates=60, min_updates=20), BC(max_updates=60, min_updates=20)),
        (QUICK_SDIL, QUICK_SDIL),
    ],
    ids=["scored-bc", "sdil"],
)
def test_with_nothing_to_trust_all_is_as_without_the_noisy_set(learner, alone):
    demos, good = world(1.0)
    judge = Told(np.where(good, 0.98, 0.02))
    judge.spaces = demos.spaces
    policy = learner.fit(demos, judge=judge, seed=1)
    assert policy.trusted == "none of the 1,200 noisy steps was imitated: they do not help"
    assert policy.judge is judge
    same = alone.fit(demos.clean_only(), seed=1)
    for name, tensor in same.tensors().items():
        torch.testing.assert_close(
            policy.tensors()[name], tensor, rtol=0, atol=0, equal_nan=True, msg=name
        )


def test_with_a_good_noisy_set_scored_bc_is_pooled_bc():
    demos, good = world(0.0)
    judge = Told(np.full(len(good), 0.98))
    judge.spaces = demos.spaces
    policy = ScoredBC(max_updates=60, min_updates=20).fit(demos, judge=judge, seed=1)
    assert policy.trusted == "all 1,200 noisy steps were imitated like clean ones"
    same = BC(max_updates=60, min_updates=20).fit(demos, seed=1)
    for name, tensor in same.tensors().items():
        assert torch.equal(policy.tensors()[name], tensor), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:discovery failed")
def test_history_is_seen_where_looking_back_helps(tmp_path):
    """Clean people do what they did before; the state tells nothing."""
    rng = np.random.default_rng(0)
    episodes = []
    for i in range(8):
        actions = np.repeat(rng.integers(2, size=10), 4)
        x = rng.normal(size=(41, 4)).astype(np.float32)
        episodes.append(Trajectory(x, actions, None, False, f"c{i}"))
    habit = Demonstrations(episodes, [])
    fields = SimpleNamespace(look_back=2, hidden=32, min_updates=100, max_updates=400)
    assert trust_all(habit, None, fields, seed=0).looking_back_helps
    assert not trust_all(world(0.0)[0], None, fields, seed=0).looking_back_helps
    learner = replace(QUICK_SDIL, look_back=2, max_updates=400, n_skills=2)
    policy = learner.fit(habit, seed=0)
    assert policy.configuration()["history"]
    assert "acting.of_embedding" in policy.tensors()
    policy.save(tmp_path / "kept")
    again = load_policy(tmp_path / "kept").probabilities(episodes)
    assert all(map(np.array_equal, policy.probabilities(episodes), again))
    blind = replace(learner, low_level="skill").fit(habit, seed=0)
    assert "acting.of_embedding" not in blind.tensors()


def test_real_valued_habits_are_predicted_and_not_acted_on():
    """The last action always tells much of the next one; who acts on that goes on as before."""
    rng = np.random.default_rng(0)
    episodes = [
        Trajectory(
            rng.normal(size=(41, 4)).astype(np.float32),
            np.repeat(rng.normal(size=(10, 1)), 4, axis=0).astype(np.float32),
            id=f"c{i}",
        )
        for i in range(6)
    ]
    habit = Demonstrations(episodes, [])
    assert not habit.spaces.listed
    fields = SimpleNamespace(look_back=2, hidden=32, min_updates=100, max_updates=200)
    assert trust_all(habit, None, fields, seed=0, always=True).looking_back_helps
    assert not trust_all(habit, None, fields, seed=0, always=False).looking_back_helps


@pytest.mark.filterwarnings("ignore:discovery failed")
def test_what_overfits_at_once_is_discovered_for_as_short(monkeypatch):
    short = Trust(POOLING, np.zeros(0), 50, 1.0, looking_back_helps=False, tried=())
    monkeypatch.setattr("sdil.algorithms.sdil.trust_all", lambda *_, **__: short)
    epochs = []
    learner = replace(QUICK_SDIL, min_updates=100, max_updates=400, discovery_min_updates=300)
    learner.fit(world(0.0)[0].clean_only(), seed=0, on_epoch=epochs.append)
    assert sum(epoch.phase == "discover" for epoch in epochs) == 50  # of one update each


def test_a_policy_says_how_far_it_has_trusted(tmp_path):
    demos, good = world(0.5)
    judge = Told(np.where(good, 0.95, 0.05))
    judge.spaces = demos.spaces
    policy = ScoredBC(max_updates=60, min_updates=20).fit(demos, judge=judge, seed=0)
    assert policy.trusted.startswith("1,200 noisy steps were imitated by p^")
    policy.judge = None
    policy.save(tmp_path / "kept")
    assert load_policy(tmp_path / "kept").trusted == policy.trusted
    told = ScoredBC(max_updates=60, min_updates=20, noisy_share=0.5)
    assert told.fit(demos, judge=judge, valid=demos, seed=0).trusted == ""


@pytest.mark.filterwarnings("ignore:discovery failed", "ignore:no clean step was paired")
def test_skills_are_discovered_on_what_is_trusted(monkeypatch):
    """What weighs nothing is not seen there; in the paper, and where all is pooled, all is."""
    demos, good = world(0.5)
    weights = good.astype(np.float64)
    drawn = []
    original = Discovery._batches

    def batches(self, n):
        drawn.append(torch.stack(original(self, n)))
        return list(drawn[-1])

    monkeypatch.setattr(Discovery, "_batches", batches)
    for exponent, settings, only_good in (
        (1.0, QUICK_SDIL, True),
        (1.0, replace(QUICK_SDIL, discovers_from="all"), False),
        (0.0, QUICK_SDIL, False),
    ):
        weighed = weights if exponent else weights + 1
        trust = Trust(Way(exponent), weighed, 20, 1.0, False, ())
        monkeypatch.setattr(SDIL, "_find_trust", lambda *_, found=trust: found)
        drawn.clear()
        judge = Told(np.full(len(good), 0.6))
        judge.spaces, judge.random_state = demos.spaces, None
        settings.fit(demos, judge=judge, seed=0)
        seen = torch.cat(drawn).flatten() - demos.clean.n_steps
        assert good[seen[seen >= 0].numpy()].all() == only_good
        assert (seen < 0).any()
