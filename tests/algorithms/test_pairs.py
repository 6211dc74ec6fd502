from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sdil.algorithms.pairs import by_cluster, by_embedding, draw_pairs, passes_filter

CLEAN = torch.tensor([True, True, False, False, False, False])


def test_candidates_by_embedding_are_the_nearest_and_the_farthest():
    embeddings = torch.tensor([[0.0], [1.0], [3.0], [7.0], [15.0]])
    found = by_embedding(embeddings, nearest=2, farthest=2)
    assert [sorted(row) for row in found.near.tolist()] == [[1, 2], [0, 2], [0, 1], [1, 2], [2, 3]]
    assert [sorted(row) for row in found.far.tolist()] == [[3, 4], [3, 4], [3, 4], [0, 4], [0, 1]]


@given(size=st.integers(2, 60), seed=st.integers(0, 200))
def test_sorting_by_distance_agrees_with_torch_and_never_takes_itself(size, seed):
    generator = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(size, 4, generator=generator)
    k = max(1, size // 3)
    found = by_embedding(embeddings, nearest=k, farthest=k)
    distance = torch.cdist(embeddings, embeddings)
    own = torch.arange(size)[:, None]
    assert not (found.near == own).any()
    assert not (found.far == own).any()
    distance.fill_diagonal_(torch.inf)
    nearest = distance.topk(k, 1, largest=False).values.max(1).values
    assert (distance.gather(1, found.near).max(1).values <= nearest * (1 + 1e-3)).all()
    distance.fill_diagonal_(-torch.inf)
    farthest = distance.topk(k, 1).values.min(1).values
    assert (distance.gather(1, found.far).min(1).values >= farthest * (1 - 1e-3)).all()


def test_identical_embeddings_still_give_everyone_a_partner_other_than_itself():
    found = by_embedding(torch.zeros(8, 3), nearest=3, farthest=3)
    own = torch.arange(8)[:, None]
    assert not (found.near == own).any()
    assert not (found.far == own).any()


def test_candidates_by_cluster():
    found = by_cluster(torch.tensor([0, 0, 1, 1, 1, 2]))
    near = [found.near[i][found.near_exists[i]].tolist() for i in range(6)]
    far = [found.far[i][found.far_exists[i]].tolist() for i in range(6)]
    assert near == [[1], [0], [3, 4], [2, 4], [2, 3], []]
    assert far[0] == [2, 3, 4, 5]
    assert far[5] == [0, 1, 2, 3, 4]


def test_the_two_meanings_of_epsilon():
    scores = torch.tensor([1.0, 0.5, 0.05, -0.05, -0.5])
    everyone = torch.arange(5).expand(5, -1)
    opposed = passes_filter(scores, everyone, 0.1, "opposed")
    assert opposed[0].tolist() == [True, True, True, True, False]  # good: all but the bad one
    assert opposed[2].all()  # unknown: all
    assert opposed[4].tolist() == [False, False, True, True, True]
    difference = passes_filter(scores, everyone, 0.1, "difference")
    assert difference[0].tolist() == [True, False, False, False, False]
    assert difference[2].tolist() == [False, False, True, True, False]
    assert torch.equal(opposed, opposed.T)


def draw(clusters, passes=None, n=4000):
    """Many draws for each step of a small batch."""
    generator = torch.Generator().manual_seed(0)
    candidates = by_cluster(clusters)
    return draw_pairs(
        candidates,
        passes,
        CLEAN,
        torch.rand(len(clusters), n, generator=generator),
        torch.rand(len(clusters), n, generator=generator),
    )


def test_partners_are_drawn_uniformly_from_what_exists():
    pairs = draw(torch.tensor([0, 0, 0, 0, 1, 1]))
    assert pairs.positives[:, 0].tolist() == list(range(6))  # itself first
    drawn = pairs.positives[0, 1:].bincount(minlength=6) / 4000
    assert drawn[[0, 4, 5]].tolist() == [0, 0, 0]
    assert drawn[1:4].tolist() == pytest.approx([1 / 3] * 3, abs=0.03)
    assert pairs.negatives[0].bincount(minlength=6)[4:].sum() == 4000
    assert pairs.has_negatives.all()


def test_where_nothing_survives_a_step_is_its_own_only_positive():
    passes = torch.zeros(6, 6).bool()
    pairs = draw(torch.zeros(6).long(), passes)
    assert (pairs.positives == torch.arange(6)[:, None]).all()
    assert not pairs.has_negatives.any()  # one cluster: nobody is far
    assert pairs.n_survived == 0
    assert pairs.n_mixed_survived == 0


def test_survival_is_counted_overall_and_among_mixed_pairs():
    scores = torch.tensor([1.0, 1.0, 0.9, -0.9, 0.0, 0.0])
    candidates = by_cluster(torch.zeros(6).long())
    passes = passes_filter(scores, candidates.near, 0.1, "opposed")
    pairs = draw_pairs(candidates, passes, CLEAN, torch.rand(6, 1), torch.rand(6, 1))
    # 30 ordered pairs; steps 0, 1, 2 are good and 3 is bad: 6 of them are dropped
    assert (pairs.n_survived, pairs.n_candidates) == (24, 30)
    # 16 of them mix clean and noisy; those of 0, 1 with 3 are dropped
    assert (pairs.n_mixed_survived, pairs.n_mixed) == (12, 16)
