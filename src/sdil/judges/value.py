"""The signal "value": how good the action is among those that were recorded in the same state.

By planning in the graph of all recorded transitions towards the ends of clean demonstrations; the
temporal distance of `progress.py` prices ways that nobody recorded. Blind to actions that were not
recorded, and where states never come again, and silent where no clean demonstration ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from sdil.spaces import Array
from sdil.windows import DistinctStates, Windows

_LEAST_VALUE = float(np.exp(-10.0))  # as far away as ten demonstrations are long: too far to tell
# Ways that nobody recorded are longer than they seem, by half a demonstration: not all of them are
# there, and `to_go`, a soft minimum, lies under the shortest.
_DETOUR = 0.5
_PRICES = (1.0, 2.0)  # and so much dearer: the signal is the mean over planning with either


class Value(nn.Module):
    """What planning says of actions, in states where there is something to compare."""

    states: Tensor
    """The recorded states in which more than one action was seen. (U, I)"""
    advantage: Tensor
    """The value signal of each action there; NaN where it was never seen. (U, A)"""

    def __init__(self, states: Tensor, advantage: Tensor) -> None:
        super().__init__()
        self.register_buffer("states", states)
        self.register_buffer("advantage", advantage)

    def forward(self, states: Tensor) -> Tensor:
        """The advantage of each action in the graph; 0 where there is nothing to compare. (B, A)"""
        found = torch.from_numpy(self._known.of(states.float().numpy()))
        nothing = self.advantage.new_zeros(1, self.advantage.shape[1])
        return torch.cat([self.advantage.nan_to_num(0.0), nothing])[found]  # -1 is the last row

    @cached_property
    def _known(self) -> DistinctStates:
        return DistinctStates(self.states.float().numpy())

    def advice(self, worth: Callable[[Array], Array]) -> Callable[[Tensor], Tensor]:
        """States (B, I) to the log-odds of "good" of each action (B, A); `worth` maps the signal to
        them. 0 where the state was not recorded with several actions, and for an action that was
        not recorded there: neither better nor worse than the others.
        """
        known = self._known
        nothing = torch.zeros(1, self.advantage.shape[1], dtype=torch.float64)
        said = torch.from_numpy(worth(self.advantage.nan_to_num(0.0).numpy())).double()
        rows = torch.cat([said, nothing])  # the last row: a state not recorded
        return lambda states: rows[torch.from_numpy(known.of(states.float().numpy()))]


@dataclass(frozen=True, eq=False)
class RecordedGraph:
    """All recorded transitions, as a graph of distinct states."""

    states: Tensor
    """(U, I)"""
    before: Array
    """Of each transition, the number of the state it leaves. (E,)"""
    actions: Array
    after: Array
    n_actions: int

    @staticmethod
    def of(windows: Windows, n_steps: int, n_actions: int) -> RecordedGraph:
        """Of the first `n_steps` steps."""
        index = torch.arange(n_steps)
        following, exists = windows.next_states_at(index)
        rows = torch.cat([windows.at(index).state, following]).float()
        distinct = DistinctStates(rows.numpy())
        before, after = distinct.of_rows.view(2, -1).numpy()
        known = exists.numpy()
        return RecordedGraph(
            rows[distinct.first],
            before[known],
            windows.actions_at(index).long().numpy()[known],
            after[known],
            n_actions,
        )

    def numbers_after(self, windows: Windows, steps: Array) -> Array:
        """The numbers of the states after these steps."""
        following, _ = windows.next_states_at(torch.from_numpy(steps))
        return np.unique(self._distinct.of(following.float().numpy()))

    @cached_property
    def _distinct(self) -> DistinctStates:
        return DistinctStates(self.states.numpy())

    @property
    def several(self) -> Array:
        """Numbers of the states in which several actions were seen; there they can be compared."""
        seen = np.zeros((len(self.states), self.n_actions), bool)
        seen[self.before, self.actions] = True
        return np.flatnonzero(seen.sum(1) > 1)

    def advantage(
        self, ends: Array, to_go: Callable[[Tensor], Tensor] | None, unit: float
    ) -> Array:
        """The value signal of each state and action that was seen, NaN elsewhere. (U, A)

        `ends` are numbers of the states in which clean demonstrations end. `to_go` knows how far
        each state seems to be from an end by ways that nobody recorded; without it only recorded
        ones count. `unit` is the mean length of a clean demonstration.
        """
        steps = self.before, self.actions, self.after, ends
        shape, discount = (len(self.states), self.n_actions), float(np.exp(-1.0 / unit))
        if to_go is None:
            return plan(*steps, shape, discount)
        away = (to_go(self.states).double().numpy() + _DETOUR).clip(min=0.0)
        planned = [plan(*steps, shape, discount, np.exp(-price * away)) for price in _PRICES]
        return np.mean(planned, 0)


def plan(
    states: Array,
    actions: Array,
    next_states: Array,
    ends: Array,
    shape: tuple[int, int],
    discount: float,
    otherwise: Array | None = None,
) -> Array:
    """The value signal of each state and action that was seen, NaN elsewhere. (U, A)

    Values are those of the empirical decision process with reward 1 at the ends of clean
    demonstrations: `Q(s, a)` is the mean over recorded outcomes; `V` the best seen action's, or
    what a state is worth `otherwise` (U,), by ways that were not recorded. The signal is `log Q`
    less its mean over the actions seen in the state, rounded, so that equals are equal.
    """
    n_states, n_actions = shape
    pair = states * n_actions + actions
    count = np.bincount(pair, minlength=n_states * n_actions)
    seen = count.reshape(shape) > 0
    at_end = np.zeros(n_states, bool)
    at_end[ends] = True
    least = np.zeros(n_states) if otherwise is None else otherwise
    value = np.where(at_end, 1.0, least)
    for _ in range(1_000):
        total = np.bincount(pair, discount * value[next_states], n_states * n_actions)
        q = (total / np.maximum(count, 1)).reshape(shape)
        better = np.where(at_end, 1.0, np.maximum(least, np.where(seen, q, 0.0).max(1)))
        if np.abs(better - value).max() < 1e-9:
            break
        value = better
    log_q = np.where(seen, np.log(np.maximum(q, _LEAST_VALUE)), 0.0)
    mean = log_q.sum(1) / np.maximum(seen.sum(1), 1)
    return np.where(seen, (log_q - mean[:, None]).round(6) + 0.0, np.nan)
