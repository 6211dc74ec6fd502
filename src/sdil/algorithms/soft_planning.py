"""Maximum causal entropy in a finite Markov decision process (Ziebart 2010, chapter 9).

The soft Bellman recursion and the occupancy measure, undiscounted, over a finite horizon, in double
precision. Conventions are those of `imitation`'s `mce_partition_fh` and `mce_occupancy_measures`,
with two additions: an episode may be over before the horizon, after which there is nothing to earn
and nothing to choose (its value is 0, its mass is gone), and a reward may depend on the action.

Arrays over states and actions are (A, S) in here, actions first: sums over actions are then sums of
long rows, several times faster than many sums of seven numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from sdil.spaces import Array

_SETTLED = 1e-13  # relative change below which values no longer change from one time to the next
_NO_MASS = 1e-15


class Dynamics(Protocol):
    """Where actions lead. S states, A actions."""

    @property
    def n_states(self) -> int: ...

    def expected(self, values: Array) -> Array:
        """The mean of `values` (S,) after each action; 0 where the episode is over. (A, S)"""

    def flow(self, mass: Array) -> Array:
        """Where this mass on actions and states (A, S) goes. (S,)"""


class Stochastic:
    """Transition probabilities, dense."""

    def __init__(self, transition: Array) -> None:
        """`transition` is (S, A, S); what a row lacks to 1 is the chance that the episode ends."""
        self.n_states, self._n_actions, _ = transition.shape
        self._pairs = np.ascontiguousarray(transition.swapaxes(0, 1), np.float64).reshape(
            -1, self.n_states
        )  # (A * S, S)

    def expected(self, values: Array) -> Array:
        return np.asarray(self._pairs @ values).reshape(self._n_actions, self.n_states)

    def flow(self, mass: Array) -> Array:
        return np.asarray(mass.reshape(-1) @ self._pairs)


class Deterministic:
    """One next state per action, so that no matrix is needed."""

    def __init__(self, next_state: Array) -> None:
        """`next_state` is (S, A) integers; S itself, one past the last state, means: it is over."""
        self.n_states = len(next_state)
        self._to = np.ascontiguousarray(next_state.T, np.intp)  # (A, S)

    def expected(self, values: Array) -> Array:
        return np.append(values, 0.0)[self._to]

    def flow(self, mass: Array) -> Array:
        everywhere = np.bincount(self._to.ravel(), mass.ravel(), minlength=self.n_states + 1)
        return everywhere[:-1]


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
    """(A, S)"""
    V: Array
    """Soft values: `V[t, s]` with H - t steps to go; `V[H]` is 0. (H + 1, S)"""
    settled: int
    """Values, and so the policy, are the same at all times up to this one."""

    @property
    def horizon(self) -> int:
        return len(self.V) - 1

    def Q(self, time: int) -> Array:
        """Soft values of actions (Ziebart's equation 9.1). (A, S)"""
        return self.reward + self.dynamics.expected(self.V[time + 1])

    def policy(self, time: int) -> Array:
        """`pi_t(a | s)` (equation 9.3). (A, S)"""
        return self._first if time <= self.settled else np.exp(self.Q(time) - self.V[time])

    @cached_property
    def _first(self) -> Array:
        return np.exp(self.Q(0) - self.V[0])


def plan(dynamics: Dynamics, reward: Array, horizon: int) -> SoftPlan:
    """Equations 9.1 and 9.2, backwards in time; `reward` is (A, S), or (S,) for any action.

    Rewards do not depend on the time, so once values stop changing they never change again, and
    what is left of the horizon costs nothing.
    """
    reward = np.broadcast_to(reward, dynamics.expected(np.zeros(dynamics.n_states)).shape)
    V = np.zeros((horizon + 1, dynamics.n_states))
    settled = 0
    for time in reversed(range(horizon)):
        Q = reward + dynamics.expected(V[time + 1])
        top = Q.max(0)
        V[time] = top + np.log(np.exp(Q - top).sum(0))
        change = np.abs(V[time] - V[time + 1]).max()
        if change <= _SETTLED * max(1.0, np.abs(V[time]).max()):
            V[:time], settled = V[time], time
            break
    return SoftPlan(dynamics, reward, V, settled)


def occupancy(plan: SoftPlan, entering: Array) -> Array:
    """`D[t, s]`, the mass in each state at each time under the plan's policy. (H + 1, S)

    `entering` is the distribution of first states (S,), or what is added at each time (H + 1, S);
    a negative entry takes mass away.
    """
    D = np.zeros_like(plan.V)
    D[: 1 if entering.ndim == 1 else None] = entering
    last = int(np.flatnonzero(D.any(1)).max(initial=0))
    for time in range(plan.horizon):
        D[time + 1] += plan.dynamics.flow(D[time] * plan.policy(time))
        if time >= last and np.abs(D[time + 1]).sum() < _NO_MASS:
            break
    return D
