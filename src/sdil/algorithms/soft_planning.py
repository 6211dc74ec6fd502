"""Maximum causal entropy in a finite Markov decision process (Ziebart 2010, chapter 9).

The soft Bellman recursion and the occupancy measure, undiscounted, over a finite horizon, in double
precision. Conventions are those of `imitation`'s `mce_partition_fh` and `mce_occupancy_measures`,
with one addition: an episode may be over before the horizon. After that there is nothing to earn
and nothing to choose: its value is 0 and its mass is gone.

Arrays over states and actions are (A, S) in here, actions first: sums over actions are then sums of
long rows, several times faster than many sums of seven numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from sdil.spaces import Array

_SETTLED = 1e-13  # relative change below which values no longer change from one time to the next
_NO_MASS = 1e-15
_UNDERFLOWS = 1e-200


class Dynamics(Protocol):
    """Where actions lead. S states, A actions; `values` (S,) are those of the next states."""

    n_states: int

    def action_values(self, values: Array) -> Array:
        """The mean of `values` after each action; 0 where the episode is over. (A, S)"""

    def soft_maximum(self, values: Array) -> Array:
        """`log sum_a exp` of the action values. (S,)"""

    def advance(self, mass: Array, values: Array) -> Array:
        """Where mass (S,) goes when actions are drawn from the softmax of their values. (S,)"""


class Stochastic:
    """Transition probabilities, dense."""

    def __init__(self, transition: Array, bonus: Array | float = 0.0) -> None:
        """`transition` is (S, A, S); what a row lacks to 1 is the chance that the episode ends.

        `bonus` (A, S) is a reward of actions that is known beforehand.
        """
        self.n_states, self._n_actions, _ = transition.shape
        pairs = np.ascontiguousarray(transition.swapaxes(0, 1), np.float64)  # (A, S, S)
        self._pairs = pairs.reshape(-1, self.n_states)
        self._bonus = bonus

    def action_values(self, values: Array) -> Array:
        means = np.asarray(self._pairs @ values).reshape(self._n_actions, self.n_states)
        return means + self._bonus

    def soft_maximum(self, values: Array) -> Array:
        return _log_sum_exp(self.action_values(values))

    def advance(self, mass: Array, values: Array) -> Array:
        Q = self.action_values(values)
        return np.asarray((mass * np.exp(Q - _log_sum_exp(Q))).reshape(-1) @ self._pairs)


class Deterministic:
    """One next state per action.

    `exp V` is then linear in `exp V` of the next states, with a sparse matrix that counts the
    actions from state to state, so S exponentials do instead of S * A. Where all the exponentials
    that a state needs are too small for that, it is done the long way, in that state alone.
    """

    def __init__(self, next_state: Array) -> None:
        """`next_state` is (S, A) integers; S itself, one past the last state, means: it is over."""
        self.n_states, n_actions = next_state.shape
        self._to = np.ascontiguousarray(next_state.T, np.intp)  # (A, S)
        ones = np.ones(next_state.size)
        start = np.arange(0, next_state.size + 1, n_actions)
        shape = (self.n_states, self.n_states + 1)
        self._actions = csr_array((ones, next_state.ravel().astype(np.intp), start), shape)
        self._actions.sum_duplicates()
        self._backwards = self._actions.T.tocsr()

    def action_values(self, values: Array) -> Array:
        return np.append(values, 0.0)[self._to]

    def soft_maximum(self, values: Array) -> Array:
        _, top, totals, low = self._exponentials(values)
        totals[low] = 1.0
        soft = top + np.log(totals)
        if len(low):
            soft[low] = _log_sum_exp(self.action_values(values)[:, low])
        return soft

    def advance(self, mass: Array, values: Array) -> Array:
        exponentials, _, totals, low = self._exponentials(values)
        totals[low] = np.inf  # these states send nothing here, but below
        arrived = np.asarray(exponentials * (self._backwards @ (mass / totals)))
        if len(low):
            Q = self.action_values(values)[:, low]
            flow = mass[low] * np.exp(Q - _log_sum_exp(Q))
            to = self._to[:, low].ravel()
            arrived += np.bincount(to, flow.ravel(), minlength=self.n_states + 1)
        return arrived[:-1]

    def _exponentials(self, values: Array) -> tuple[Array, float, Array, Array]:
        """exp(values - top) (S + 1,), top, its sum over actions (S,), and where that underflows."""
        everything = np.append(values, 0.0)
        top = float(everything.max())
        exponentials = np.exp(everything - top)
        totals = np.asarray(self._actions @ exponentials)
        return exponentials, top, totals, np.flatnonzero(totals < _UNDERFLOWS)


def with_endings(next_state: Array, end: Array) -> tuple[Array, Array]:
    """Give every state in which an episode can end a copy that is seen once, and then it is over.

    Both are (S, A). Returns `next_state` (S + F, A) as `Deterministic` takes it, and the state that
    each of the S + F states looks like.
    """
    n_states = len(next_state)
    last = np.unique(next_state[end])  # (F,)
    to = np.where(end, n_states + np.searchsorted(last, next_state), next_state)
    over = np.full((len(last), next_state.shape[1]), n_states + len(last))
    return np.concatenate([to, over]), np.concatenate([np.arange(n_states), last])


@dataclass(frozen=True, eq=False)
class SoftPlan:
    """What the soft Bellman recursion finds."""

    dynamics: Dynamics
    reward: Array
    """(S,)"""
    V: Array
    """Soft values: `V[t, s]` with H - t steps to go; `V[H]` is 0. (H + 1, S)"""

    @property
    def horizon(self) -> int:
        return len(self.V) - 1

    def action_values(self, time: int) -> Array:
        """Q, soft values of actions (Ziebart's equation 9.1). (A, S)"""
        return self.reward + self.dynamics.action_values(self.V[time + 1])

    def log_policy(self, time: int) -> Array:
        """`log pi_t(a | s)` (equation 9.3). (A, S)"""
        return self.action_values(time) - self.V[time]


def plan(dynamics: Dynamics, reward: Array, horizon: int) -> SoftPlan:
    """Equations 9.1 and 9.2, backwards in time.

    Rewards do not depend on the time, so once values stop changing they never change again, and
    what is left of the horizon costs nothing.
    """
    V = np.zeros((horizon + 1, dynamics.n_states))
    for time in reversed(range(horizon)):
        V[time] = reward + dynamics.soft_maximum(V[time + 1])
        change = np.abs(V[time] - V[time + 1]).max()
        if change <= _SETTLED * max(1.0, np.abs(V[time]).max()):
            V[:time] = V[time]
            break
    return SoftPlan(dynamics, reward, V)


def occupancy(plan: SoftPlan, entering: Array) -> Array:
    """`D[t, s]`, the mass in each state at each time under the plan's policy. (H + 1, S)

    `entering` is the distribution of first states (S,), or what is added at each time (H + 1, S);
    a negative entry takes mass away.
    """
    D = np.zeros_like(plan.V)
    D[: 1 if entering.ndim == 1 else None] = entering
    last = int(np.flatnonzero(D.any(1)).max(initial=0))
    for time in range(plan.horizon):
        D[time + 1] += plan.dynamics.advance(D[time], plan.V[time + 1])
        if time >= last and np.abs(D[time + 1]).sum() < _NO_MASS:
            break
    return D


def _log_sum_exp(Q: Array) -> Array:
    """Over actions, the first axis."""
    top = Q.max(0)
    return np.asarray(top + np.log(np.exp(Q - top).sum(0)))
