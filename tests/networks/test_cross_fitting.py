"""Clones that train side by side, and the clean groups that they are measured on."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
import torch

from conftest import episode
from sdil import Demonstrations, InputError, Trajectory
from sdil.heads import Categorical
from sdil.networks import cross_fitting
from sdil.networks.cross_fitting import CrossFitted, _deal_noisy, _last_gain, cross_fit
from sdil.networks.folds import Folds


@pytest.fixture
def grouped() -> Demonstrations:
    """Clean groups of two, one and one episodes, one of which stands alone; four noisy ones."""
    clean = [
        episode(3, seed=0, id="p", group="x"),
        episode(2, seed=1, id="q", group="y"),
        episode(4, seed=2, id="r", group="x"),
        episode(5, seed=3, id="s"),
    ]
    noisy = [
        episode(2, seed=4, id="a", group="y"),
        episode(3, seed=5, id="b"),
        episode(1, seed=6, id="c", group="x"),
        episode(4, seed=7, id="d", group="elsewhere"),
    ]
    return Demonstrations(clean, noisy)


def test_groups_are_left_out_whole_and_their_noisy_episodes_with_them(grouped):
    folds = Folds.deal(grouped, seed=0)
    assert len(folds) == folds.n_groups == 3
    assert folds.group_of_step.tolist() == [0] * 3 + [1] * 2 + [0] * 4 + [2] * 5
    assert sorted(folds.of_group) == [0, 1, 2]
    of_x, of_y, alone = folds.of_group
    assert folds.noisy[of_y].tolist() == [False] * 2 + [True] * 8
    assert folds.noisy[of_x].tolist() == [True] * 5 + [False] + [True] * 4
    assert folds.noisy[alone].all()


def test_no_more_than_five_folds():
    many = Demonstrations([episode(2, seed=i, id=f"e{i}") for i in range(13)], [episode(2)])
    folds = Folds.deal(many, seed=3)
    assert folds.n_groups == 13
    assert sorted(np.bincount(folds.of_group)) == [2, 2, 3, 3, 3]
    assert not np.array_equal(folds.of_group, Folds.deal(many, seed=4).of_group)


def test_steps_are_drawn_by_what_they_weigh(grouped):
    folds = Folds.deal(grouped, seed=0)
    noisy = np.array([1.0, 0.5, 0, 0, 0.25, 1, 0, 0, 1, 1])
    weights = np.stack([np.zeros(10), noisy])
    of_clones = folds.of_clones(5)
    assert of_clones.tolist() == [0, 1, 2, 0, 1, 2]  # few folds: two clones of each
    draws = cross_fitting._Draws(folds, weights, of_clones, torch.Generator().manual_seed(0))
    found = draws.batches(200, np.arange(2))  # (200, members, BATCH)
    assert found.shape == (200, 12, cross_fitting.BATCH)
    for row in range(2):
        for clone, fold in enumerate(of_clones):
            clean = folds.of_group[folds.group_of_step] != fold
            expected = np.concatenate([clean, weights[row] * folds.noisy[fold]])
            counts = np.bincount(found[:, row * 6 + clone].flatten(), minlength=24)
            assert not counts[expected == 0].any()
            np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), atol=0.01)
    again = cross_fitting._Draws(folds, weights, of_clones, torch.Generator().manual_seed(0))
    assert torch.equal(again.batches(200, np.array([1])), found[:, 6:])


def test_clones_are_measured_on_the_groups_they_have_not_seen(grouped):
    folds, rows = Folds.deal(grouped, seed=0), 2
    of_clones = folds.of_clones(5)
    clones = cross_fitting._clones(len(of_clones), rows, 3, 64, 4)
    with torch.no_grad():
        clones.weights[2] += torch.randn(12, 64, 4)  # the rows differ
    states, actions = torch.randn(24, 3), torch.randint(4, (24,))
    held = cross_fitting._LeftOut(folds, rows, of_clones, Categorical(4))
    (measured,) = held.measure(clones, lambda steps: states[steps], actions, np.arange(rows))
    second = clones.only(range(6, 12))
    (of_second,) = held.measure(second, lambda steps: states[steps], actions, np.array([1]))
    assert of_second[:, 0].isinf().all()
    torch.testing.assert_close(of_second[:, 1], measured[:, 1])
    logits = clones(states.expand(12, -1, -1)).log_softmax(2).detach()
    for row in range(rows):
        for group, fold in enumerate(folds.of_group):
            steps = np.flatnonzero(folds.group_of_step == group)
            mine = logits[[row * 6 + int(fold), row * 6 + 3 + int(fold)]][:, steps]
            nll = -mine[:, np.arange(len(steps)), actions[steps]].mean()
            error = (mine.argmax(2) != actions[steps]).double().mean()
            assert measured[0, row, group] == pytest.approx(float(nll), rel=1e-5)
            assert measured[1, row, group] == pytest.approx(float(error))


def test_how_long_to_train_is_what_was_best_elsewhere():
    """Groups 0, 1, 2 are a fold each; group 3 is with 0. By hand, for one weighting."""
    folds = Folds(np.array([0, 1, 2, 0]), np.arange(4), np.ones((3, 1), bool))
    nll = np.array([[9.0, 1, 5, 9], [1, 5, 4, 9], [5, 9, 1, 0]])  # (looks, groups)
    # without fold 0: 3, 4.5, 5; without 1: 7.7, 4.7, 2; without 2: 6.3, 5, 4.7
    looks = np.stack([nll, nll / 10], 1)[:, :, None]
    found = cross_fitting._at_the_best(looks, np.ones((len(looks), 2)), folds, 0, (9.0, 1.0))
    assert found.nll.tolist() == [[9, 9, 1, 9]]
    assert found.error.tolist() == [[0.9, 0.9, 0.1, 0.9]]
    two = Folds(np.array([0, 1, 1, 0]), np.arange(4), np.ones((2, 1), bool))
    of_all = cross_fitting._at_the_best(looks, np.ones((len(looks), 2)), two, 0, (9.0, 1.0))
    assert of_all.nll.tolist() == [[5, 9, 1, 0]]  # all: the last


def test_folds_in_halves():
    """Six groups in two folds are four folds then; a fold of one group cannot be halved."""
    noisy = np.array([[True, False], [False, True]])
    folds = Folds(np.array([0, 1, 0, 1, 0, 1]), np.arange(6), noisy)
    halved = folds.halved()
    assert halved.of_group.tolist() == [0, 2, 1, 3, 1, 3]
    assert (halved.of_group // 2 == folds.of_group).all()
    assert halved.noisy.tolist() == noisy.repeat(2, 0).tolist()
    one = Folds(np.array([0, 1, 1]), np.arange(3), noisy)
    assert one.halved() is one


def test_measured_exactly_as_long_as_was_found(grouped, monkeypatch):
    """Nothing is chosen by the groups left out: what was found elsewhere is what is measured."""
    monkeypatch.setattr(cross_fitting, "LOOKS", (10, 20, 40))
    weights = np.stack([np.zeros(10), np.ones(10)])
    folds = Folds.deal(grouped, seed=0)
    every = {
        n: cross_fit(grouped, folds, weights, at_least=n, at_most=n, temperatures=(2.0,))
        for n in (10, 40)
    }
    told = cross_fitting.CrossFitted(
        np.zeros((2, 0)), np.zeros((2, 0)), np.array([10, 40]), np.array([2.0, 2.0])
    )
    found = cross_fit(grouped, folds, weights, exactly=told)
    np.testing.assert_allclose(found.nll[0], every[10].nll[0])
    np.testing.assert_allclose(found.nll[1], every[40].nll[1])
    assert found.updates.tolist() == [10, 40]


def test_short_trainings_count_only_where_longer_ones_are_hopeless():
    """One weighting, two folds of a group each; three lengths by two temperatures."""
    folds = Folds(np.array([0, 1]), np.arange(2), np.ones((2, 1), bool))
    each = np.array([(n, t) for n in (10, 100, 200) for t in (1.0, 2.0)])
    nll = np.array([[1.0, 1], [2, 2], [5, 5], [3, 3], [6, 6], [4, 4]])
    error = np.full_like(nll, 0.5)
    tried = np.stack([nll, error], 1)[:, :, None]

    def found(at_least: int, usual: tuple[float, float]) -> tuple[int, float]:
        best = cross_fitting._at_the_best(tried, each, folds, at_least, usual)
        return int(best.updates[0]), float(best.temperature[0])

    assert found(0, (9.0, 0.9)) == (10, 1.0)
    assert found(100, (9.0, 0.9)) == (100, 2.0)
    assert found(100, (2.5, 0.6)) == (100, 2.0)  # less likely than usual, but oftener right
    assert found(100, (2.5, 0.4)) == (10, 1.0)
    assert found(1_000, (9.0, 0.9)) == (1_000, 2.0)  # as nobody did here


def fit(demos: Demonstrations, weights: list[np.ndarray], seed: int = 0) -> CrossFitted:
    return cross_fit(demos, Folds.deal(demos, seed=0), np.stack(weights), seed=seed)


def test_a_clone_is_what_it_would_be_alone(grouped):
    some, others = np.ones(10), np.linspace(0, 1, 10)
    both, alone = fit(grouped, [some, others]), fit(grouped, [others])
    np.testing.assert_allclose(both.nll[1], alone.nll[0], rtol=1e-4)
    same = fit(grouped, [others, others])
    np.testing.assert_array_equal(same.nll[0], same.nll[1])
    assert abs(both.nll[0] - both.nll[1]).max() > 1e-3


def test_actions_dealt_anew_teach_how_often_and_not_where(monkeypatch):
    """Noisy steps do what the sign of a number asks for, as clean ones do."""
    rng = np.random.default_rng(0)

    def follow(name):
        seen = rng.normal(size=(21, 2)).astype(np.float32)
        return Trajectory(seen, (seen[:-1, 0] > 0).astype(np.int64), id=name)

    demos = Demonstrations(
        [follow(f"c{i}") for i in range(4)], [follow(f"n{i}") for i in range(40)]
    )
    folds = Folds.deal(demos, seed=0)
    monkeypatch.setattr(cross_fitting, "LOOKS", (300,))
    options = {"weights": np.ones((1, 800)), "hidden": 16, "seed": 0}
    as_done = cross_fit(demos, folds, **options).nll.mean()
    anew = cross_fit(demos, folds, dealt_anew=True, **options).nll.mean()
    assert as_done < 0.2
    assert anew > 0.5  # log 2 is 0.69, and the clean steps of the other groups say a little
    assert anew == cross_fit(demos, folds, dealt_anew=True, **options).nll.mean()


def test_noisy_steps_of_a_batch_change_places_and_clean_ones_stay():
    batch = torch.tensor([[0, 7, 3, 9, 8, 2], [7, 7, 5, 6, 1, 0], [0, 1, 2, 3, 4, 4]])
    luck = torch.Generator().manual_seed(0)
    dealt = torch.stack([_deal_noisy(batch, 5, luck) for _ in range(200)])
    assert (dealt[:, batch < 5] == batch[batch < 5]).all()
    assert (dealt.sort(2).values == batch.sort(1).values).all()
    assert {tuple(x) for x in dealt[:, 0, [1, 3, 4]].tolist()} == set(permutations((7, 9, 8)))


def test_it_follows_from_the_seed(grouped):
    first, again, other = (fit(grouped, [np.ones(10)], seed=seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.nll, again.nll)
    assert not np.array_equal(first.nll, other.nll)


@pytest.mark.parametrize(("gain", "last"), [(0.005, 100), (-1, 400)])
def test_it_ends_when_nobody_gains(grouped, monkeypatch, gain, last):
    """Random actions: the longer they are learned, the worse."""
    for name, value in (("SURE", 100), ("GAIN", gain), ("LOOKS", (25, 50, 100, 200, 400))):
        monkeypatch.setattr(cross_fitting, name, value)
    told = []
    weights = np.ones((1, 10))
    folds = Folds.deal(grouped, seed=0)
    cross_fit(grouped, folds, weights, on_progress=lambda *said: told.append(said))
    assert told[-1] == (last, 400)
    assert told[:2] == [(25, 400), (50, 400)]


def test_who_asks_for_the_best_gets_the_same_of_those_that_are_near(grouped, monkeypatch):
    """Weightings that are far behind are left as they are; the others do not notice."""
    for name, value in (("SURE", 50), ("GAIN", -1), ("LOOKS", (25, 50, 100, 200))):
        monkeypatch.setattr(cross_fitting, name, value)
    folds, weights = Folds.deal(grouped, seed=0), np.stack([np.zeros(10), np.ones(10)])
    left, leave = [], cross_fitting._leave_behind
    monkeypatch.setattr(
        cross_fitting, "_leave_behind", lambda *given: left.append(given[2]) or leave(*given)
    )
    near = torch.tensor([False, True])
    monkeypatch.setattr(cross_fitting, "_not_far_behind", lambda looks: near)
    whole = cross_fit(grouped, folds, weights)
    assert not left
    best = cross_fit(grouped, folds, weights, for_the_best=True)
    assert [kept.tolist() for kept in left] == [[6, 7, 8, 9, 10, 11]]
    np.testing.assert_allclose(best.nll[1], whole.nll[1], rtol=1e-5)
    assert np.isfinite(best.nll).all()
    assert best.updates[0] <= 50


def test_who_is_far_behind_does_not_keep_the_others():
    def looked_at(*nll):  # (temperatures, 2, R, G)
        return torch.tensor(nll, dtype=torch.float64)[None, None, :, None].expand(1, 2, -1, 3)

    lengths = [100, 200, 400]
    looks = [looked_at(0.5, 0.9), looked_at(0.4, 0.8), looked_at(0.39, 0.6)]
    assert _last_gain(looks, lengths) == pytest.approx(0.01)  # 0.2 of who is 0.21 behind
    looks[2] = looked_at(0.39, 0.48)
    assert _last_gain(looks, lengths) == pytest.approx(0.32)


def test_only_vectors():
    seen = Trajectory(np.zeros((4, 2, 2), np.float32), np.zeros(3, np.int64))
    demos = Demonstrations([seen, Trajectory(seen.observations, seen.actions)], [seen])
    with pytest.raises(InputError, match="behaviour cloning needs vector observations"):
        fit(demos, [np.ones(3)])
