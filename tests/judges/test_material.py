"""Who may learn from which steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from corridor import SPACES, fit, quick, straight, walk

import sdil
from sdil.judges.material import FOLDS, Material, Pools


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
