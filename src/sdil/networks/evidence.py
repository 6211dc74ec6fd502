"""A step score from several signals: what each of them says of a step, and all of them together.

Goes past the paper, whose score is in `algorithms/optimality.py`; `algorithms/evidence.py` trains
the parts. No signal sees the truth, a reward or an environment:

- likelihood: how likely clones of the clean set find the action;
- progress: how much nearer the step, and those around it, bring us to the end of a clean
  demonstration, by a learned temporal distance;
- value: how good the action is among those seen in the same state, by planning in the graph of
  all recorded transitions towards the ends of clean demonstrations; the same distance prices ways
  that nobody recorded.

They fail in different places. Each is cut into bins, and a bin is worth a log-odds of "good".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.networks.encoders import Standardise
from sdil.scores import StepScores
from sdil.spaces import Array
from sdil.windows import Windows

SIGNALS = ("likelihood", "progress", "value")
N_BINS = 10
REACH = 2  # progress is looked at over so many steps to either side
SOFTNESS = 0.2  # of the minimum over waypoints, in lengths of a clean demonstration
_STEPS_AT_ONCE = 8_192
_PAIRS_AT_ONCE = 2**17


class Ensemble(nn.Module):
    """Several networks of one shape, run side by side."""

    def __init__(self, members: int, inputs: int, hidden: int, outputs: int) -> None:
        super().__init__()
        sizes = (inputs, hidden, hidden, outputs)
        self.weights = nn.ParameterList(
            (2 * torch.rand(members, a, b) - 1) / a**0.5 for a, b in pairwise(sizes)
        )
        self.biases = nn.ParameterList(torch.zeros(members, 1, b) for b in sizes[1:])

    def forward(self, inputs: Tensor) -> Tensor:
        """(members, B, inputs) to (members, B, outputs)."""
        return self.after_first(torch.baddbmm(self.biases[0], inputs, self.weights[0]))

    def after_first(self, hidden: Tensor) -> Tensor:
        """The rest, from what the first layer gives. (members, B, hidden)"""
        for weights, biases in zip(list(self.weights)[1:], list(self.biases)[1:], strict=True):
            hidden = torch.baddbmm(biases, F.leaky_relu(hidden, 0.1), weights)
        return hidden


@dataclass(frozen=True)
class Judgement:
    """What the evidence says of N steps."""

    optimality: Array
    """2 p - 1, p the estimated probability that the step is as good as an expert's. (N,)"""
    parts: dict[str, Array] = field(default_factory=dict)
    """The same by each signal alone. (N,)"""
    spread: Array | None = None
    """How far `optimality` moves when one signal is left out: standard deviation. (N,)"""

    def by_trajectory(self, split: Callable[[Array], Sequence[Array]]) -> list[StepScores]:
        """The same for each trajectory; `split` cuts arrays of all steps."""
        parts = {name: split(part) for name, part in self.parts.items()}
        spread = None if self.spread is None else split(self.spread)
        return [
            StepScores(
                optimality=optimality,
                parts={name: part[i] for name, part in parts.items()},
                spread=None if spread is None else spread[i],
            )
            for i, optimality in enumerate(split(self.optimality))
        ]


class Evidence(nn.Module):
    """Everything that is needed to judge steps, old and new ones."""

    waypoints: Tensor
    """States of clean demonstrations, standardised. (P, I)"""
    remaining: Tensor
    """How far each is from the end of its demonstration, in mean lengths of one. (P,)"""
    states: Tensor
    """The recorded states in which more than one action was seen. (U, I)"""
    advantage: Tensor
    """The value signal of each action there; NaN where it was never seen. (U, A)"""
    edges: Tensor
    """Where the bins of each signal meet. (signals, N_BINS - 1)"""
    log_odds: Tensor
    """What a bin is worth. (signals, N_BINS)"""
    prior: Tensor
    """The log-odds of a noisy step before anything is known of it. ()"""

    def __init__(
        self,
        sizes: tuple[int, int],
        *,
        members: int,
        hidden: int,
        waypoints: int = 0,
        states: int = 0,
    ) -> None:
        """`sizes` are the number of inputs and of actions."""
        super().__init__()
        n_inputs, n_actions = sizes
        self.standardise = Standardise(n_inputs)
        self.clones = Ensemble(members, n_inputs, hidden, n_actions)
        self.distance = Ensemble(members, 2 * n_inputs, hidden, 1)
        self.register_buffer("waypoints", torch.zeros(waypoints, n_inputs))
        self.register_buffer("remaining", torch.zeros(waypoints))
        self.register_buffer("states", torch.zeros(states, n_inputs))
        self.register_buffer("advantage", torch.zeros(states, n_actions))
        self.register_buffer("edges", torch.zeros(len(SIGNALS), N_BINS - 1))
        self.register_buffer("log_odds", torch.zeros(len(SIGNALS), N_BINS))
        self.register_buffer("prior", torch.zeros(()))

    @staticmethod
    def of_tensors(tensors: Mapping[str, Tensor]) -> Evidence:
        """The inverse of `state_dict`."""
        members, n_inputs, hidden = tensors["clones.weights.0"].shape
        evidence = Evidence(
            (n_inputs, tensors["advantage"].shape[1]),
            members=members,
            hidden=hidden,
            waypoints=len(tensors["waypoints"]),
            states=len(tensors["states"]),
        )
        evidence.load_state_dict(dict(tensors))
        return evidence

    @torch.no_grad()
    def judge(self, windows: Windows) -> Judgement:
        """Judge the steps of any trajectories."""
        told = torch.stack([getattr(self, name)(windows) for name in SIGNALS]).numpy()
        prior = float(self.prior)
        each = np.stack(
            [
                worth(told[i], self.edges[i].numpy(), self.log_odds[i].numpy())
                for i in range(len(SIGNALS))
            ]
        )  # (signals, N) log-odds
        used = [i for i in range(len(SIGNALS)) if self.log_odds[i].any()]
        total = prior + each.sum(0)
        without = np.stack([_probability(total - each[i]) for i in used] or [_probability(total)])
        return Judgement(
            optimality=2 * _probability(total) - 1,
            parts={SIGNALS[i]: 2 * _probability(prior + each[i]) - 1 for i in used},
            spread=2 * without.std(0),
        )

    @torch.no_grad()
    def likelihood(self, windows: Windows) -> Tensor:
        """`p(a_t | s_t)` under the clones of the clean set, their mean. (N,)"""
        members = len(self.clones.weights[0])
        parts = []
        for index in torch.arange(len(windows)).split(_STEPS_AT_ONCE):
            states = self.standardise(windows.at(index).state)
            probs = self.clones(states.expand(members, -1, -1)).softmax(2).mean(0)
            parts.append(probs.gather(1, windows.actions_at(index).long()[:, None])[:, 0])
        return torch.cat(parts).double()

    @torch.no_grad()
    def progress(self, windows: Windows) -> Tensor:
        """How much less is left to go after a step than before, over a few steps around it. (N,)

        NaN where the state after it is not known, and where there are no waypoints.
        """
        if not len(self.waypoints):
            return torch.full((len(windows),), torch.nan, dtype=torch.float64)
        exists, rows = windows.has_next, windows.rows
        used = torch.cat([rows, rows[exists] + 1]).unique()
        numbers = Numbering(windows.observations[used].numpy())  # states often come again
        to_go = self.to_go(windows.observations[used[numbers.first]])[numbers.of_rows]
        left = torch.zeros(len(windows.observations) + 1, dtype=torch.float64)
        left[used] = to_go.double()
        return _smooth(left[rows] - left[rows + 1], exists, windows.times)

    def to_go(self, states: Tensor) -> Tensor:
        """How far it is to the end of a clean demonstration, over the best of waypoints. (B,)"""
        split = self.standardise.mean.shape[0]
        first, bias = self.distance.weights[0], self.distance.biases[0]
        members, hidden = first.shape[0], first.shape[2]
        goal_part = torch.matmul(self.waypoints, first[:, split:])  # (E, P, H)
        at_once = max(1, _PAIRS_AT_ONCE // (members * len(self.waypoints)))
        parts = []
        for some in states.split(at_once):
            state_part = torch.matmul(self.standardise(some), first[:, :split]) + bias  # (E, B, H)
            both = (state_part[:, :, None] + goal_part[:, None]).view(members, -1, hidden)
            steps = self.distance.after_first(both).view(members, len(some), -1)
            whole = steps + self.remaining
            parts.append(-SOFTNESS * torch.logsumexp(-whole / SOFTNESS, 2).mean(0))
        return torch.cat(parts)

    def value(self, windows: Windows) -> Tensor:
        """The advantage of the action in the graph; 0 where there is nothing to compare. (N,)"""
        index = torch.arange(len(windows))
        known = Numbering(self.states.float().numpy())
        found = torch.from_numpy(known.of(windows.at(index).state.float().numpy()))
        advantage = torch.zeros(len(index), dtype=torch.float64)
        seen = found >= 0
        actions = windows.actions_at(index[seen]).long()
        advantage[seen] = self.advantage[found[seen], actions].double().nan_to_num(0.0)
        return advantage


class Numbering:
    """Distinct states by their bytes, numbered in the order of their first appearance."""

    def __init__(self, states: Array) -> None:
        self._numbers: dict[bytes, int] = {}
        rows = np.ascontiguousarray(states)
        found = [self._numbers.setdefault(row.tobytes(), len(self._numbers)) for row in rows]
        self.of_rows = torch.tensor(found, dtype=torch.int64)
        """The number of each state. (B,)"""
        self.first = torch.from_numpy(np.unique(found, return_index=True)[1])
        """Where each number first appears. (U,)"""

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, states: Array) -> Array:
        """The numbers of other states, -1 for unknown ones. (B,)"""
        rows = np.ascontiguousarray(states)
        return np.array([self._numbers.get(row.tobytes(), -1) for row in rows], np.int64)


def worth(signal: Array, edges: Array, log_odds: Array) -> Array:
    """The log-odds that each value stands for; 0 where it is NaN: nothing is known. (N,)"""
    found = log_odds[np.searchsorted(edges, signal, side="right")]
    return np.where(np.isnan(signal), 0.0, found)


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


def _probability(log_odds: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-log_odds))
