"""Who may learn from which steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corridor import SPACES, fit, quick, straight, walk

import sdil
from sdil.judges.material import EPOCH, FOLDS, Material, Pools


def people(clean: int = 7, noisy: int = 12, *, shared: int = 3) -> sdil.Demonstrations:
    """Two clean episodes of each of some people, one noisy one of each of others, and a noisy one
    of each of the first few clean people."""
    return sdil.Demonstrations(
        [straight(i, group=f"p{i // 2}") for i in range(2 * clean)],
        [walk(6, [1, -1, -1], f"n{i}", group=f"q{i}") for i in range(noisy)]
        + [walk(6, [-1, 1], f"s{i}", group=f"p{i}") for i in range(shared)],
        SPACES,
    )


@pytest.fixture(scope="module")
def material():
    return Material.of(people(), None, seed=0)


def test_a_group_is_in_one_fold_with_all_its_episodes(material):
    assert material.n_folds == FOLDS
    for group in np.unique(material.group):
        assert len(np.unique(material.fold[material.group == group])) == 1
    name = {n: i for i, n in enumerate(material.names)}
    for i in range(3):  # a noisy episode of a clean person is in that person's fold
        both = np.flatnonzero(material.group == name[f"p{i}"])
        assert both.min() < material.n_clean <= both.max()
    assert len(material.names) == 7 + 12


def test_every_fold_has_clean_groups_and_noisy_ones(material):
    clean = material.fold[: material.n_clean]
    groups = [len(np.unique(material.group[: material.n_clean][clean == k])) for k in range(FOLDS)]
    assert sorted(groups) == [1, 1, 1, 2, 2]
    assert set(material.fold[material.noisy]) == set(range(FOLDS))
    steps = torch.cat([material.of_fold(k) for k in range(FOLDS)]).sort().values
    assert steps.tolist() == list(range(material.n_train))


def test_episodes_of_nobody_are_groups_of_their_own_even_with_the_same_name():
    walks = [walk(6, [1, 1], name) for name in ("a", "b")]
    material = Material.of(sdil.Demonstrations(walks, walks), None, seed=0)
    assert material.names == ("clean:a", "clean:b", "noisy:a", "noisy:b")


@pytest.mark.parametrize("weighted", [False, True])
def test_networks_of_a_fold_never_draw_a_step_of_it(material, weighted):
    among = np.arange(material.n_train)
    weights = torch.arange(len(material.windows), dtype=torch.float64) if weighted else None
    drawn = material.learners(among, 2, weights).draw(4_000, torch.Generator().manual_seed(0))
    assert drawn.shape == (FOLDS + 2, 4_000)
    for k in range(FOLDS):
        allowed = np.flatnonzero(material.fold != k)
        wanted = set(allowed[allowed > 0] if weighted else allowed)
        assert set(drawn[k].tolist()) <= wanted
        assert len(set(drawn[k].tolist())) > 0.95 * len(wanted)
    assert set(drawn[-1].tolist()) >= set(range(20, material.n_train))


def test_steps_are_drawn_as_often_as_they_weigh():
    pools = Pools([torch.tensor([0, 2]), torch.tensor([1])], torch.tensor([1.0, 5.0, 3.0]))
    drawn = pools.draw(20_000, torch.Generator().manual_seed(0))
    assert (drawn[0] == 2).double().mean() == pytest.approx(0.75, abs=0.02)
    assert (drawn[1] == 1).all()
    with pytest.raises(sdil.InputError, match="nothing to learn from"):
        Pools([torch.tensor([0]), torch.tensor([], dtype=torch.int64)])


def test_with_validation_nothing_is_left_out():
    valid = sdil.Demonstrations([straight(i) for i in range(3)], spaces=SPACES)
    material = Material.of(people(), valid, seed=0)
    assert material.n_folds == 0
    among = np.arange(material.n_train)
    drawn = material.learners(among, 1).draw(20_000, torch.Generator().manual_seed(0))
    assert set(drawn[0].tolist()) == set(among)  # all of them, and of validation none
    assert len(material.reference) == valid.clean.n_steps
    assert material.reference[0] == material.n_train
    groups = material.group[material.reference]
    assert not set(groups) & set(material.group[: material.n_train])


def test_validation_of_other_spaces_is_refused(make_episode):
    with pytest.raises(sdil.InputError, match="different spaces"):
        quick().fit(people(), valid=sdil.Demonstrations([make_episode(4)]))


def test_of_one_clean_group_nothing_is_known():
    demos = sdil.Demonstrations(
        [straight(i, group="one") for i in range(6)],
        [walk(6, [1, -1, -1, 1], f"n{i}") for i in range(20)],
    )
    material = Material.of(demos, None, seed=0)
    assert material.n_folds == 0
    assert len(material.reference) == 0
    judge = fit(demos, clone_updates=20, distance_updates=20, outcome_updates=20)
    assert set(judge.unknown) == {"step", "episode"}
    assert not any(signal.heard for signal in judge.signals)
    scores = judge.score(demos.noisy)
    assert all((s.optimality == 0).all() and s.quality is None for s in scores)
    for by in ("segment", "episode"):
        with pytest.raises(sdil.InputError, match="unknown"):
            sdil.curate(demos, scores, by=by, keep_share=0.5, unknown=judge.unknown)


def in_box(actions=1, **more):
    rng = np.random.default_rng(0)
    seen = rng.normal(size=(6, 2))
    return sdil.Trajectory(seen, rng.normal(size=(5, actions)), **more)


def test_a_demonstration_is_as_long_as_what_its_pieces_were_cut_out_of():
    """Single steps that people call good say nothing of how long the way is."""
    noisy = [walk(6, [1, -1, 1, 1, 1][: 3 + i % 3], f"n{i}") for i in range(5)]
    labels = [sdil.Label("noisy", f"n{i}", 2, 2, "good") for i in range(4)]
    material = Material.of(sdil.clean_from_labels(noisy, labels, SPACES), None, seed=0)
    assert material.n_clean == 4
    assert material.unit == np.mean([len(t) for t in noisy[:4]]) > 1
    assert material.whole.tolist() == [4, 5, 6, 7, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(("clean", "noisy"), [(2, 0), (3, 1), (4, 7), (5, 6), (6, 4), (11, 3)])
@pytest.mark.parametrize("seed", [0, 3])
def test_groups_are_dealt_as_the_seed_deals_them(clean, noisy, seed):
    """Clean ones evenly into at most five folds, then the others into as many."""
    demos = sdil.Demonstrations(
        [straight(i, group=f"p{i}") for i in range(clean)],
        [walk(6, [1, -1, -1], f"n{i}", group=f"q{i}") for i in range(noisy)],
        SPACES,
    )
    material = Material.of(demos, None, seed=seed)
    n = min(5, clean)
    assert material.n_folds == n
    rng, fold = np.random.default_rng([seed, 19]), {}
    for groups in (range(clean), range(clean, clean + noisy)):
        for i, g in enumerate(rng.permutation(np.array(groups, int))):
            fold[int(g)] = i % n
    every = [*demos.clean, *demos.noisy]
    assert material.names == tuple(t.group for t in every)
    assert material.trajectory.tolist() == [i for i, t in enumerate(every) for _ in range(len(t))]
    assert material.group.tolist() == material.trajectory.tolist()
    assert material.fold.tolist() == [fold[g] for g in material.group.tolist()]
    assert material.n_clean == sum(len(t) for t in demos.clean)
    assert material.n_train == len(material.fold) == len(material.windows)
    assert material.noisy.tolist() == list(range(material.n_clean, material.n_train))
    assert material.reference.tolist() == list(range(material.n_clean))
    assert material.unit == pytest.approx(np.mean([len(t) for t in demos.clean]))
    assert material.whole.tolist() == list(range(clean + noisy))
    assert material.windows.look_back == 0
    for k in range(n):
        expected = [i for i, f in enumerate(material.fold.tolist()) if f == k]
        assert material.of_fold(k).tolist() == expected


def test_with_validation_noisy_groups_are_dealt_into_five():
    valid = sdil.Demonstrations([straight(i) for i in range(2)], spaces=SPACES)
    material = Material.of(people(clean=3, noisy=12, shared=0), valid, seed=0)
    fold = dict(zip(material.group.tolist(), material.fold.tolist(), strict=True))
    assert [fold[g] for g in range(3)] in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ]
    dealt = [fold[g] for g in range(3, len(fold))]  # noisy ones and those of validation
    assert sorted(dealt) == sorted(i % 5 for i in range(14))
    assert material.names[-2:] == tuple(f"valid:{t.id}" for t in valid.clean)
    assert material.n_train + valid.clean.n_steps == len(material.windows)
    steps = torch.cat([material.of_fold(k) for k in range(5)])
    assert len(steps) == material.n_train  # of validation none


def test_entries_that_never_vary_in_training_are_not_looked_at():
    seen = np.random.default_rng(0).normal(size=(6, 3))
    seen[:, 1] = 4.0
    other = np.arange(18.0).reshape(6, 3)
    demos = sdil.Demonstrations([sdil.Trajectory(seen, [0, 1, 0, 1, 0])], [])
    valid = sdil.Demonstrations([sdil.Trajectory(other, [0, 1, 0, 1, 0])], spaces=demos.spaces)
    material = Material.of(demos, valid, seed=0)
    assert material.inputs.tolist() == [0, 2]
    assert material.windows.observations.shape == (12, 2)
    assert material.relative is None
    np.testing.assert_array_equal(material.windows.observations[6:], other[:, [0, 2]])


def test_actions_that_are_places_are_told_as_ways_and_counted_ones_never():
    rng = np.random.default_rng(1)
    places = rng.normal(size=(201, 2)).cumsum(0)
    demos = sdil.Demonstrations([sdil.Trajectory(places, places[1:], id="a")])
    material = Material.of(demos, None, seed=0)
    assert material.relative is not None
    assert material.windows.actions.std() < 0.5 * places[1:].std()
    assert Material.of(people(), None, seed=0).relative is None
    away = sdil.Demonstrations([in_box(id="a")])
    plain = Material.of(away, None, seed=0)
    if plain.relative is None:
        np.testing.assert_array_equal(plain.windows.actions, away.clean.actions)


@pytest.mark.parametrize("folds", [None, 1, 2, 3])
@pytest.mark.parametrize("final", [0, 1, 3])
def test_who_leaves_out_which_folds(material, folds, final):
    among = np.arange(1, material.n_train, 2)
    count = FOLDS if folds is None else folds
    if folds == 1:
        with pytest.raises(sdil.InputError, match="nothing to learn from"):
            material.learners(among, final, folds=folds)
        return
    pools = material.learners(among, final, folds=folds)
    marks = torch.zeros(material.n_train, dtype=torch.bool)
    drawn = pools.draw(3_000, torch.Generator().manual_seed(0))
    assert len(drawn) == count + final
    for k, mine in enumerate(drawn):
        kept = [s for s in among.tolist() if k >= count or material.fold[s] % count != k]
        assert set(mine.tolist()) == set(kept)
    assert not pools.each_has(marks)
    marks[among] = True
    assert pools.each_has(marks)


def test_each_has_looks_at_the_steps_of_each_and_not_at_what_fills_up():
    pools = Pools([torch.tensor([1, 2, 3]), torch.tensor([4])])
    marked = torch.zeros(5, dtype=torch.bool)
    marked[[0, 1]] = True  # what fills up the shorter one has number 0
    assert not pools.each_has(marked)
    marked[4] = True
    assert pools.each_has(marked)
    marked[[0, 1]] = False
    assert not pools.each_has(marked)
    marked[3] = True
    assert pools.each_has(marked)


@pytest.mark.parametrize("weighted", [False, True])
def test_drawing_by_hand(weighted):
    steps = [torch.tensor([5, 6, 7]), torch.tensor([8, 9])]
    weights = torch.tensor([9.0] * 5 + [1.0, 2.0, 5.0, 0.0, 3.0]) if weighted else None
    found = Pools(steps, weights).draw(50, torch.Generator().manual_seed(4))
    generator = torch.Generator().manual_seed(4)
    if weighted:
        chance = torch.rand(2, 50, generator=generator, dtype=torch.float64)
        edges = [torch.tensor([1 / 8, 3 / 8, 1.0]), torch.tensor([0.0, 1.0])]
        at = [(c[:, None] > e).sum(1) for c, e in zip(chance, edges, strict=True)]
    else:
        chance = torch.rand(2, 50, generator=generator)
        at = [(chance[0] * 3).long(), (chance[1] * 2).long()]
    for mine, pool, places in zip(found, steps, at, strict=True):
        assert mine.tolist() == pool[places].tolist()
    assert set(found[1].tolist()) == ({9} if weighted else {8, 9})


def test_reports_and_folds_are_so_many():
    assert (FOLDS, EPOCH) == (5, 20)
