from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sdil
from sdil.skills.pairs import (
    _draw,
    by_cluster,
    by_distance,
    draw_pairs,
    find_pairs,
    passes_filter,
)
from sdil.skills.pairs_on_device import find_pairs_on_device

CLEAN = np.array([True, True, False, False, False, False])


def test_candidates_by_embedding_are_the_nearest_and_the_farthest():
    embeddings = np.array([[0.0], [1.0], [3.0], [7.0], [15.0]])
    found = by_distance(embeddings, nearest=2, farthest=2)
    assert [sorted(row) for row in found.near.tolist()] == [[1, 2], [0, 2], [0, 1], [1, 2], [2, 3]]
    assert [sorted(row) for row in found.far.tolist()] == [[3, 4], [3, 4], [3, 4], [0, 4], [0, 1]]


@given(size=st.integers(2, 60), seed=st.integers(0, 200))
def test_sorting_by_distance_agrees_with_torch_and_never_takes_itself(size, seed):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(size, 4, generator=generator)
    k = max(1, size // 3)
    found = by_distance(embeddings.numpy(), nearest=k, farthest=k)
    near, far = torch.from_numpy(found.near).long(), torch.from_numpy(found.far).long()
    distance = torch.cdist(embeddings, embeddings)
    own = torch.arange(size)[:, None]
    assert not (near == own).any()
    assert not (far == own).any()
    distance.fill_diagonal_(torch.inf)
    nearest = distance.topk(k, 1, largest=False).values.max(1).values
    assert (distance.gather(1, near).max(1).values <= nearest * (1 + 1e-3)).all()
    distance.fill_diagonal_(-torch.inf)
    farthest = distance.topk(k, 1).values.min(1).values
    assert (distance.gather(1, far).min(1).values >= farthest * (1 - 1e-3)).all()


def test_identical_embeddings_still_give_everyone_a_partner_other_than_itself():
    found = by_distance(np.zeros((8, 3)), nearest=3, farthest=3)
    own = np.arange(8)[:, None]
    assert not (found.near == own).any()
    assert not (found.far == own).any()


def test_candidates_by_cluster():
    found = by_cluster(np.array([0, 0, 1, 1, 1, 2]))
    near = [found.near[0][found.near_exists[i]].tolist() for i in range(6)]
    far = [found.far[0][found.far_exists[i]].tolist() for i in range(6)]
    assert near == [[1], [0], [3, 4], [2, 4], [2, 3], []]
    assert far[0] == [2, 3, 4, 5]
    assert far[5] == [0, 1, 2, 3, 4]


def test_the_two_meanings_of_epsilon():
    scores = np.array([1.0, 0.5, 0.05, -0.05, -0.5])
    everyone = np.arange(5)[None]
    opposed = passes_filter(scores, everyone, 0.1, "opposed")
    assert opposed[0].tolist() == [True, True, True, True, False]  # good: all but the bad one
    assert opposed[2].all()  # unknown: all
    assert opposed[4].tolist() == [False, False, True, True, True]
    difference = passes_filter(scores, everyone, 0.1, "difference")
    assert difference[0].tolist() == [True, False, False, False, False]
    assert difference[2].tolist() == [False, False, True, True, False]
    assert (opposed == opposed.T).all()


def draw(clusters, passes=None, n=4000):
    """Many draws for each step of a small batch."""
    random = np.random.default_rng(0).random((2, len(clusters), n), np.float32)
    return draw_pairs(by_cluster(clusters), passes, CLEAN, *random)


def test_partners_are_drawn_uniformly_from_what_exists():
    pairs = draw(np.array([0, 0, 0, 0, 1, 1]))
    assert pairs.partners[:, 0].tolist() == list(range(6))  # itself first
    drawn = pairs.partners[0, 1:4001].bincount(minlength=6) / 4000
    assert drawn[[0, 4, 5]].tolist() == [0, 0, 0]
    assert drawn[1:4].tolist() == pytest.approx([1 / 3] * 3, abs=0.03)
    assert pairs.partners[0, 4001:].bincount(minlength=6)[4:].sum() == 4000
    assert pairs.weights[:, :4001].sum(1).tolist() == pytest.approx([1] * 6)
    assert pairs.weights[:, 4001:].sum(1).tolist() == pytest.approx([1] * 6)


def test_where_nothing_survives_a_step_is_its_own_only_positive():
    pairs = draw(np.zeros(6, int), np.zeros((6, 6), bool))
    assert (pairs.partners[:, :4001] == torch.arange(6)[:, None]).all()
    assert (pairs.weights[:, 4001:] == 0).all()  # one cluster: nobody is far
    assert pairs.counts.tolist() == [30, 0, 16, 0]


def test_survival_is_counted_overall_and_among_mixed_pairs():
    scores = np.array([1.0, 1.0, 0.9, -0.9, 0.0, 0.0])
    random = np.zeros((6, 1)), np.zeros((6, 1))
    candidates = by_cluster(np.zeros(6, int))
    passes = passes_filter(scores, candidates.near, 0.1, "opposed")
    pairs = draw_pairs(candidates, passes, CLEAN, *random)
    # 30 ordered pairs; steps 0, 1, 2 are good and 3 is bad: 6 of them are dropped
    # 16 of them mix clean and noisy; those of 0, 1 with 3 are dropped
    assert pairs.counts.tolist() == [30, 24, 16, 12]
    # in two clusters, 0-2-3 and 1-4-5, 12 pairs; 0 and 2 with 3 are dropped; 8 mix, 2 of them 0-3
    candidates = by_cluster(np.array([0, 1, 0, 0, 1, 1]))
    passes = passes_filter(scores, candidates.near, 0.1, "opposed")
    assert draw_pairs(candidates, passes, CLEAN, *random).counts.tolist() == [12, 8, 8, 6]


def test_steps_without_candidates_do_not_shift_the_draws_of_others():
    exists = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0], [0, 0, 0]], bool)
    near = np.array([[4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]])
    random = np.array([[0.0, 0.49, 0.5, 1 - 2**-24]], np.float32).repeat(4, 0)
    drawn, has_any = _draw(near, exists, random)
    assert has_any.tolist() == [True, False, True, False]
    assert drawn[0].tolist() == [4, 4, 6, 6]
    assert drawn[2].tolist() == [11] * 4


@given(width=st.integers(1, 300))
def test_the_largest_random_number_draws_the_last_candidate(width):
    largest = np.full((1, 1), 1 - 2**-24, np.float32)
    candidates = np.arange(width)[None]
    assert _draw(candidates, None, largest)[0].item() == width - 1
    assert _draw(candidates, np.ones((1, width), bool), largest)[0].item() == width - 1


@pytest.mark.parametrize("by_embedding", [True, False])
def test_partners_respect_source_and_filter(by_embedding):
    generator = torch.Generator().manual_seed(0)
    size, settings = 64, sdil.SDIL(nearest=1 / 8, farthest=1 / 2)
    z = torch.randn(size, 3, generator=generator)
    clusters = torch.randint(4, (size,), generator=generator)
    scores = torch.rand(size, generator=generator) * 2 - 1
    pairs = find_pairs(
        z,
        clusters,
        scores,
        scores > 0.9,
        torch.rand(size, 3, generator=generator),
        torch.rand(size, 6, generator=generator),
        settings,
        by_embedding=by_embedding,
    )
    distance = torch.cdist(z, z)
    order = distance.argsort(1)
    for t in range(size):
        near, far = pairs.partners[t, 1:4], pairs.partners[t, 4:]
        if by_embedding:
            assert torch.isin(near, order[t, :9]).all()
            assert torch.isin(far, order[t, 32:]).all()
        else:
            assert (clusters[near] == clusters[t]).all()
            assert (clusters[far] != clusters[t]).all()
        opposed = (scores[near] * scores[t] < 0) & (scores[near].abs() > settings.epsilon)
        assert not (opposed & (scores[t].abs() > settings.epsilon)).any()
    others = (pairs.partners[:, 1:4] != torch.arange(size)[:, None]).float().mean()
    assert others > 0.9  # here nearly every step has candidates that pass
    assert len(pairs.partners[:, 1:4].unique()) > size / 2
    assert len(pairs.partners[:, 4:].unique()) > size / 2
    assert pairs.signs.tolist() == [-1] * 4 + [1] * 6


@pytest.mark.parametrize("by_embedding", [True, False])
def test_a_step_alone_in_its_batch_has_only_itself(by_embedding):
    one = torch.zeros(1).long()
    random = torch.rand(1, 3), torch.rand(1, 6)
    pairs = find_pairs(
        torch.zeros(1, 4), one, None, one.bool(), *random, sdil.SDIL(), by_embedding=by_embedding
    )
    assert pairs.partners[0, :4].tolist() == [0] * 4
    assert pairs.weights[0].tolist() == [0.25] * 4 + [0] * 6
    assert pairs.counts.tolist() == [0] * 4


def test_distances_are_those_of_the_precision_that_is_given():
    """Far from the origin, single precision would lose what tells neighbours apart."""
    z = torch.randn(64, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1000
    found = by_distance(z.numpy(), nearest=8, farthest=8)
    nearest = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist").argsort(1)[:, 1:9]
    hit = [len(set(a.tolist()) & set(b)) for a, b in zip(nearest, found.near.tolist(), strict=True)]
    assert np.mean(hit) > 7.9


@pytest.mark.parametrize("form", ["opposed", "difference"])
@pytest.mark.parametrize("by_embedding", [True, False])
@pytest.mark.parametrize("scored", [True, False])
def test_the_partners_of_a_gpu_are_those_of_the_cpu(form, by_embedding, scored):
    """The same code runs on any device; distances are whole numbers, so that none are equal."""
    generator = torch.Generator().manual_seed(3)
    size = 24
    settings = sdil.SDIL(positive_filter=form, epsilon=0.2)
    given = (
        torch.randperm(1000, generator=generator)[:size, None].float(),
        torch.randint(4, (size,), generator=generator),
        torch.rand(size, generator=generator) * 2 - 1 if scored else None,
        torch.rand(size, generator=generator) < 0.4,
        torch.rand(size, 3, generator=generator),
        torch.rand(size, 5, generator=generator),
        settings,
    )
    usual = find_pairs(*given, by_embedding=by_embedding)
    there = find_pairs_on_device(*given, by_embedding=by_embedding)
    for a, b in zip(usual, there, strict=True):
        torch.testing.assert_close(a, b, check_dtype=False)


def test_who_has_no_partner_on_a_gpu_has_none_on_the_cpu_either():
    alone = torch.tensor([0, 1, 1])
    given = (torch.zeros(3, 2), alone, None, torch.tensor([True, False, False]))
    luck = torch.tensor([[0.5], [0.5], [0.5]])
    usual = find_pairs(*given, luck, luck, sdil.SDIL(), by_embedding=False)
    there = find_pairs_on_device(*given, luck, luck, sdil.SDIL(), by_embedding=False)
    assert usual.partners[0, 1] == there.partners[0, 1] == 0
    torch.testing.assert_close(usual.weights, there.weights)
    assert usual.counts.tolist() == there.counts.tolist()
