"""k-means of states: standardised, seeded, on a sample where there are many."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from sdil import clustering
from sdil.clustering import fit_clusters


def states(n: int = 200) -> torch.Tensor:
    """Random states, the second feature a thousand times as wide, the third constant."""
    drawn = torch.randn(n, 3, generator=torch.Generator().manual_seed(0))
    return drawn * torch.tensor([1.0, 1000.0, 0.0]) + 5.0


def test_two_heaps_by_hand():
    observations = torch.tensor([[0.0, 7], [1.0, 7], [100.0, 7], [101.0, 7], [9e9, 7]])
    rows = torch.tensor([0, 1, 2, 3])  # the last one is none of ours
    clusters = fit_clusters(observations, rows, 2, seed=0)
    first, second, third, fourth = clusters.labels(observations, rows).tolist()
    assert first == second != third == fourth
    centres = clusters.centres[[first, third]].numpy()
    np.testing.assert_allclose(centres, [[0.5, 7], [100.5, 7]])


def test_labels_are_those_of_scikit_learn_on_standardised_states():
    observations, rows = states(), torch.arange(20, 200)
    x = observations[rows].double().numpy()
    spread = x.std(0)
    x = (x - x.mean(0)) / np.where(spread > 1e-6, spread, 1.0)
    expected = KMeans(5, n_init=1, random_state=3).fit(x).predict(x)
    found = fit_clusters(observations, rows, 5, seed=3).labels(observations, rows)
    assert found.dtype == torch.int64
    assert found.tolist() == expected.tolist()


def test_many_states_are_sampled_by_the_seed(monkeypatch):
    monkeypatch.setattr(clustering, "_FITTED_AT_MOST", 50)
    observations, rows = states(), torch.arange(200)
    first, again, other = (fit_clusters(observations, rows, 4, seed=s) for s in (1, 1, 2))
    assert torch.equal(first.centres, again.centres)
    assert torch.equal(first.labels(observations, rows), again.labels(observations, rows))
    assert not torch.equal(first.mean, other.mean)
    drawn = torch.randperm(200, generator=torch.Generator().manual_seed(1))[:50]
    assert torch.equal(first.mean, observations[drawn].double().mean(0))


def test_all_states_have_a_label_however_many_at_once(monkeypatch):
    observations, rows = states(), torch.arange(200)
    clusters = fit_clusters(observations, rows, 4, seed=0)
    whole = clusters.labels(observations, rows)
    monkeypatch.setattr(clustering, "STEPS_AT_ONCE", 7)
    assert torch.equal(clusters.labels(observations, rows), whole)
    assert clusters.labels(observations, rows[:0]).tolist() == []


@pytest.mark.parametrize(("distinct", "n_clusters", "expected"), [(3, 8, 3), (8, 3, 3), (1, 2, 1)])
def test_there_are_no_more_clusters_than_different_states(distinct, n_clusters, expected):
    observations = torch.arange(distinct, dtype=torch.float32)[:, None].repeat(4, 1)
    clusters = fit_clusters(observations, torch.arange(len(observations)), n_clusters, seed=0)
    assert len(clusters.centres) == expected
