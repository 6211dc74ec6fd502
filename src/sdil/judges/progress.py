"""The signal "progress": how much nearer a step brings us to the end of a clean demonstration.

By the temporal distance of `distance.py`. Blind where demonstrations have no end worth reaching,
and so silent where no clean one ended: a clock that cuts them off is no end.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.judges.distance import FAR
from sdil.judges.material import Material
from sdil.networks.encoders import Standardise
from sdil.networks.ensemble import LEAK, Ensemble
from sdil.windows import STEPS_IN_CACHE, DistinctStates, Windows

REACH = 2  # it is looked at over so many steps to either side
SOFTNESS = 0.2  # of the minimum over waypoints, in lengths of a clean demonstration
WAYPOINTS = 64
_STATES = 32  # whose pairs with all waypoints fit into the cache of a processor


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
        split, number = standardise.mean.shape[0], standardise.mean.dtype
        first, bias = distance.weights[0], distance.biases[0]
        goal_part = torch.matmul(self.waypoints.to(first.dtype), first[:, split:])  # (E, P, H)
        pairs = _Pairs(distance, goal_part, as_trained=number == first.dtype)
        to_go = torch.empty(len(states), dtype=number)
        for begin in range(0, len(states), STEPS_IN_CACHE):
            some = standardise(states[begin : begin + STEPS_IN_CACHE]).to(first.dtype)
            state_part = torch.matmul(some, first[:, :split]) + bias  # (E, B, H)
            whole = pairs.steps_between(state_part).to(number) + self.remaining
            soft = -SOFTNESS * torch.logsumexp(-whole / SOFTNESS, 2).mean(0)
            to_go[begin : begin + len(some)] = soft
        return to_go


class _Pairs:
    """Pairs of states and waypoints through the layers of a distance after the first.

    Nearly all the work of scoring. Block by block into the same memory, which stays in the
    processor's cache: fresh memory costs more than the arithmetic.
    """

    def __init__(self, distance: Ensemble, goal_part: Tensor, *, as_trained: bool) -> None:
        """`goal_part` is what the first layer makes of waypoints (E, P, H). `as_trained`: the last
        layer rounds as it does in training, so that equal runs stay equal; it is slower."""
        self._goals, self._as_trained = goal_part, as_trained
        self._hidden, self._last = list(distance.weights)[1:]
        self._hidden_bias, self._last_bias = list(distance.biases)[1:]
        members, n_goals, width = goal_part.shape
        memory = goal_part.new_empty(2, members, _STATES * n_goals, width)
        self._before, self._after = memory

    def steps_between(self, state_part: Tensor) -> Tensor:
        """From each state (E, B, H) to each waypoint, in lengths of a demonstration. (E, B, P)"""
        members, n_states, _ = state_part.shape
        found = state_part.new_empty(members, n_states, self._goals.shape[1])
        for begin in range(0, n_states, _STATES):
            some = state_part[:, begin : begin + _STATES]
            shape = members, some.shape[1], *self._goals.shape[1:]
            before, after = (x[:, : shape[1] * shape[2]] for x in (self._before, self._after))
            torch.add(some[:, :, None], self._goals[:, None], out=before.view(shape))
            F.leaky_relu_(before, LEAK)
            torch.baddbmm(self._hidden_bias, before, self._hidden, out=after)
            F.leaky_relu_(after, LEAK)
            if self._as_trained:
                last = torch.baddbmm(self._last_bias, after, self._last)[..., FAR]
            else:
                each = [x @ w for x, w in zip(after, self._last[..., FAR], strict=True)]
                last = torch.stack(each) + self._last_bias[..., FAR]
            found[:, begin : begin + _STATES] = last.reshape(shape[:3])
        return found


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
