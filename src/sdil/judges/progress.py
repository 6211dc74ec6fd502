"""The signal "progress": how much nearer a step brings us to the end of a clean demonstration.

By a temporal distance that is learned from clean and noisy demonstrations alike: a noisy one is a
good demonstration of how to reach what it reached. Blind where demonstrations have no end worth
reaching, such as those that a clock cuts.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from sdil.judges.ensemble import MEMBERS, Ensemble
from sdil.networks.encoders import Standardise
from sdil.training import Stages
from sdil.windows import DistinctStates, Windows

REACH = 2  # it is looked at over so many steps to either side
SOFTNESS = 0.2  # of the minimum over waypoints, in lengths of a clean demonstration
WAYPOINTS = 64
_EXPECTILE = 0.1  # low: the shortest of the ways that were seen counts
_PAIRS_AT_ONCE = 2**17


class Progress(nn.Module):
    """A temporal distance, and states of clean demonstrations to measure it to."""

    waypoints: Tensor
    """States of clean demonstrations, standardised. (P, I)"""
    remaining: Tensor
    """How far each is from the end of its demonstration, in mean lengths of one. (P,)"""

    def __init__(self, members: int, n_inputs: int, hidden: int, waypoints: int) -> None:
        super().__init__()
        self.distance = Ensemble(members, 2 * n_inputs, hidden, 1)
        self.register_buffer("waypoints", torch.zeros(waypoints, n_inputs))
        self.register_buffer("remaining", torch.zeros(waypoints))

    def forward(self, windows: Windows, standardise: Standardise) -> Tensor:
        """How much less is left to go after a step than before, over a few steps around it. (N,)

        NaN where the state after it is not known, and where there are no waypoints.
        """
        if not len(self.waypoints):
            return torch.full((len(windows),), torch.nan, dtype=torch.float64)
        exists, rows = windows.has_next, windows.rows
        used = torch.cat([rows, rows[exists] + 1]).unique()
        states = DistinctStates(windows.observations[used].numpy())  # they often come again
        to_go = self.to_go(windows.observations[used[states.first]], standardise)[states.of_rows]
        left = torch.zeros(len(windows.observations) + 1, dtype=torch.float64)
        left[used] = to_go.double()
        return _smooth(left[rows] - left[rows + 1], exists, windows.times)

    def to_go(self, states: Tensor, standardise: Standardise) -> Tensor:
        """How far it is to the end of a clean demonstration, over the best of waypoints. (B,)"""
        split = standardise.mean.shape[0]
        first, bias = self.distance.weights[0], self.distance.biases[0]
        members, hidden = first.shape[0], first.shape[2]
        goal_part = torch.matmul(self.waypoints, first[:, split:])  # (E, P, H)
        at_once = max(1, _PAIRS_AT_ONCE // (members * len(self.waypoints)))
        parts = []
        for some in states.split(at_once):
            state_part = torch.matmul(standardise(some), first[:, :split]) + bias  # (E, B, H)
            both = (state_part[:, :, None] + goal_part[:, None]).view(members, -1, hidden)
            steps = self.distance.after_first(both).view(members, len(some), -1)
            whole = steps + self.remaining
            parts.append(-SOFTNESS * torch.logsumexp(-whole / SOFTNESS, 2).mean(0))
        return torch.cat(parts)

    def learn(
        self,
        windows: Windows,
        n_clean: int,
        standardise: Standardise,
        last_of: Tensor,
        unit: float,
        stages: Stages,
        generator: torch.Generator,
        *,
        batch_size: int,
        updates: int,
    ) -> None:
        """Low-expectile regression on (state, later state of the same episode) -> steps between.

        `last_of` is the number of the last step of each step's episode, `unit` the mean length of a
        clean demonstration.
        """
        each = max(1, batch_size // 2)
        size = MEMBERS * each
        of_clean = size // 4
        farthest = last_of - torch.arange(len(windows)) + windows.has_next[last_of].long()  # (N,)
        begun = torch.where(farthest > 0)[0]
        begun_clean = begun[begun < n_clean]

        def loss(_: Tensor) -> dict[str, Tensor]:
            def draw(among: Tensor, count: int) -> Tensor:
                return among[torch.randint(len(among), (count,), generator=generator)]

            step = torch.cat([draw(begun, size - of_clean), draw(begun_clean, of_clean)])
            step = step[torch.randperm(size, generator=generator)]
            ahead = 1 + (torch.rand(size, generator=generator) * farthest[step]).long()
            rows = windows.rows[step]
            pair = torch.cat(
                [
                    standardise(windows.observations[rows]),
                    standardise(windows.observations[rows + ahead]),
                ],
                1,
            )
            found = self.distance(pair.view(MEMBERS, each, -1)).flatten()
            excess = ahead / unit - found
            weight = torch.where(excess < 0, 1 - _EXPECTILE, _EXPECTILE)
            return {"distance": (weight * excess.square()).mean()}

        stages.converge(
            "measure distances",
            {"distance": self.distance},
            loss=loss,
            valid_loss=None,
            n_samples=len(windows),
            updates=updates,
            without_decay=("distance",),
        )


def _smooth(values: Tensor, exists: Tensor, times: Tensor) -> Tensor:
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
