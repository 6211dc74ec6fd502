"""k-means of states, the same on every machine with the same seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sdil.spaces import Array
from sdil.windows import STEPS_AT_ONCE

_FITTED_AT_MOST = 50_000  # states; where there are more, a seeded sample


@dataclass(frozen=True, eq=False)
class Clusters:
    """K clusters of standardised states."""

    mean: Tensor
    """What is subtracted from each feature. (d,) float64"""
    scale: Tensor
    """And what it is then divided by. (d,) float64"""
    means: Any
    """scikit-learn's KMeans, fitted."""

    def labels(self, observations: Tensor, rows: Tensor) -> Tensor:
        """The cluster of each of these rows (n,) of `observations` (N, d). (n,) integers"""
        from threadpoolctl import threadpool_limits

        found = [torch.empty(0, dtype=torch.int64)]
        with threadpool_limits(1):
            for part in rows.split(STEPS_AT_ONCE):
                states = (observations[part].double() - self.mean) / self.scale
                if len(states):
                    found.append(torch.from_numpy(self.means.predict(states.numpy())).long())
        return torch.cat(found)

    @property
    def centres(self) -> Tensor:
        """The middle of each cluster, in the units of the observations. (K, d) float64"""
        return torch.from_numpy(self.means.cluster_centers_) * self.scale + self.mean


def fit_clusters(observations: Tensor, rows: Tensor, n_clusters: int, seed: int) -> Clusters:
    """k-means of these rows (n,) of `observations` (N, d), each feature standardised.

    Fitted on a seeded sample where there are many, and with one thread: several would add up in the
    order they happen to arrive. A constant feature keeps its scale. There are fewer clusters where
    there are fewer different states.
    """
    from sklearn.cluster import KMeans  # takes a second and 90 MB to import
    from threadpoolctl import threadpool_limits

    if len(rows) > _FITTED_AT_MOST:
        shuffled = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
        rows = rows[shuffled[:_FITTED_AT_MOST]]
    states = observations[rows].double()
    mean, spread = states.mean(0), states.std(0, correction=0)
    scale = torch.where(spread > 1e-6, spread, 1.0)
    sample = ((states - mean) / scale).numpy()
    means = KMeans(_different(sample, n_clusters), n_init=1, random_state=seed)
    with threadpool_limits(1):
        means.fit(sample)
    return Clusters(mean, scale, means)


def _different(states: Array, enough: int) -> int:
    """How many of the states (n, d) differ, counted no further than `enough`."""
    seen: set[bytes] = set()
    for state in states + 0.0:  # -0 is 0
        seen.add(np.ascontiguousarray(state).tobytes())
        if len(seen) == enough:
            break
    return len(seen)
