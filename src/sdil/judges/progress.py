"""The signal "progress": how much nearer a step brings us to the end of a clean demonstration.

By the temporal distance of `distance.py`. Blind where demonstrations have no end worth reaching,
and so silent where no clean one ended: a clock that cuts them off is no end.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from sdil.judges.distance import FAR
from sdil.judges.material import Material
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import Ensemble
from sdil.windows import DistinctStates, Windows

REACH = 2  # it is looked at over so many steps to either side
SOFTNESS = 0.2  # of the minimum over waypoints, in lengths of a clean demonstration
WAYPOINTS = 64
_PAIRS_AT_ONCE = 2**17


class Progress(nn.Module):
    """States of clean demonstrations that ended, to measure the way to."""

    waypoints: Tensor
    """Standardised. (P, I)"""
    remaining: Tensor
    """How far each is from the end of its demonstration, in mean lengths of one. (P,)"""

    def __init__(self, waypoints: Tensor, remaining: Tensor) -> None:
        super().__init__()
        self.register_buffer("waypoints", waypoints)
        self.register_buffer("remaining", remaining)

    @staticmethod
    def towards(
        material: Material, standardise: Standardise, without: int | None, seed: int
    ) -> Progress:
        """Some states of clean demonstrations, of the fold `without` none."""
        windows, index = material.windows, np.arange(material.n_clean)
        ended = windows.ended.numpy() & windows.has_next.numpy()
        last = np.cumsum(np.bincount(material.trajectory)) - 1
        last_of = last[material.trajectory[index]]
        there = ended[last_of] & windows.has_next.numpy()[index]
        if without is not None:
            there &= material.fold[index] != without
        chosen = np.random.default_rng([seed, 12]).permutation(index[there])[:WAYPOINTS]
        following, _ = windows.next_states_at(torch.from_numpy(chosen))
        left = (last_of[chosen] - chosen) / material.unit
        return Progress(standardise(following), torch.from_numpy(left).float())

    def forward(
        self, windows: Windows, index: Tensor, distance: Ensemble, standardise: Standardise
    ) -> Tensor:
        """How much less is left to go after a step than before, over a few steps around it. (B,)

        NaN where the state after it is not known, and where there are no waypoints. `index` holds
        whole episodes.
        """
        if not len(self.waypoints):
            return torch.full((len(index),), torch.nan, dtype=torch.float64)
        exists, rows = windows.has_next[index], windows.rows[index]
        used = torch.cat([rows, rows[exists] + 1]).unique()
        states = DistinctStates(windows.observations[used].numpy())  # they often come again
        distinct = windows.observations[used[states.first]]
        to_go = self.to_go(distinct, distance, standardise)[states.of_rows]
        left = torch.zeros(len(windows.observations) + 1, dtype=torch.float64)
        left[used] = to_go.double()
        return smooth_gains(left[rows] - left[rows + 1], exists, windows.times[index])

    def to_go(self, states: Tensor, distance: Ensemble, standardise: Standardise) -> Tensor:
        """How far it is to the end of a clean demonstration, over the best of waypoints. (B,)"""
        split = standardise.mean.shape[0]
        first, bias = distance.weights[0], distance.biases[0]
        members, hidden = first.shape[0], first.shape[2]
        goal_part = torch.matmul(self.waypoints, first[:, split:])  # (E, P, H)
        at_once = max(1, _PAIRS_AT_ONCE // (members * len(self.waypoints)))
        parts = []
        for some in states.split(at_once):
            state_part = torch.matmul(standardise(some), first[:, :split]) + bias  # (E, B, H)
            both = (state_part[:, :, None] + goal_part[:, None]).view(members, -1, hidden)
            steps = distance.after_first(both)[..., FAR].view(members, len(some), -1)
            whole = steps + self.remaining
            parts.append(-SOFTNESS * torch.logsumexp(-whole / SOFTNESS, 2).mean(0))
        return torch.cat(parts)


def smooth_gains(values: Tensor, exists: Tensor, times: Tensor) -> Tensor:
    """A weighted mean with the steps around, half the weight for each step away. (N,)"""
    total = torch.where(exists, values, 0.0)
    weight = exists.to(values.dtype)
    sums, weights = total.clone(), weight.clone()
    for far in range(1, REACH + 1):
        if len(values) <= far:
            break
        same = (times[far:] >= far).to(values.dtype) * 0.5**far  # of the same episode
        sums[far:] += same * total[:-far]
        weights[far:] += same * weight[:-far]
        sums[:-far] += same * total[far:]
        weights[:-far] += same * weight[far:]
    return torch.where(weights > 0, sums / weights, torch.nan)
