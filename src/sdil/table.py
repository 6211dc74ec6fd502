"""A task small enough to write down: every state, and what each action does in it.

Planner, truth, exact inverse reinforcement learning and fast rollouts all read this one table.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from sdil.spaces import Array, Spaces


@dataclass(frozen=True, eq=False)
class Table:
    """S states and A actions, deterministic."""

    states: tuple[Hashable, ...]
    """What each state is, in the environment's own terms. S of them."""
    observe: Callable[[Array], Array]
    """What is seen in these states: (n,) state numbers to (n, *observation)."""
    next_state: Array
    """Where each action leads. (S, A) integers"""
    reward: Array
    """What each action earns at the first moment; `time_cost` takes its part later. (S, A)"""
    end: Array
    """Whether each action ends the episode. (S, A) booleans"""
    start_state: Callable[[int], int]
    """The state in which an episode with this seed begins, as the environment's reset has it."""
    horizon: int
    """Steps after which an episode is cut off."""
    time_cost: float
    """The k-th step earns `reward * (1 - time_cost * k / horizon)`."""
    spaces: Spaces

    def __len__(self) -> int:
        return len(self.next_state)

    def reward_at(self, reward: Array, step: Array | int) -> Array:
        """What `reward` is worth when it is earned by this step, counted from 1."""
        return reward * (1.0 - self.time_cost * (step / self.horizon))

    @cached_property
    def earns(self) -> Array:
        """Which actions reach the goal. (S, A) booleans"""
        return self.end & (self.reward > 0)

    @cached_property
    def distance_to_goal(self) -> Array:
        """The fewest steps in which each state can reach the goal; inf where none can. (S,)"""
        return self._distance(self.earns)

    @cached_property
    def good(self) -> Array:
        """The truth of a step: does it bring the agent closer to the goal? (S, A) booleans"""
        return self._closer(self.distance_to_goal, self.earns)

    def closer_to(self, target: Array) -> Array:
        """Which actions lead closer to the `target` states (S,), the episode going on. (S, A)"""
        arrives = ~self.end & target[self.next_state]
        distance = np.where(target, 0.0, self._distance(arrives))
        return self._closer(distance, arrives)

    def _closer(self, distance: Array, arrives: Array) -> Array:
        after = np.where(self.end, np.inf, distance[self.next_state])
        after[arrives] = 0.0
        return np.asarray(after < distance[:, None])

    def _distance(self, arrives: Array) -> Array:
        """The fewest steps until an action that `arrives` (S, A): breadth first, backwards."""
        from_state, action = np.nonzero(~self.end | arrives)
        arrived = len(self)  # one node more: where we want to be
        to = np.where(arrives[from_state, action], arrived, self.next_state[from_state, action])
        shape = (arrived + 1, arrived + 1)
        backwards = csr_array((np.ones(len(to)), (to, from_state)), shape)
        return dijkstra(backwards, unweighted=True, indices=arrived)[:arrived]


@dataclass(frozen=True, eq=False)
class FloorPlan:
    """The map of a task in which nothing but the agent moves, the same in every episode."""

    walls: Array
    """True for a wall. (rows, columns)"""
    column: int
    """The entry of an observation that says in which column the agent is."""
    row: int
    """The entry that says in which row."""

    def positions(self, observations: Array) -> Array:
        """Column and row of the agent in observations (n, size). (n, 2)"""
        return observations[:, [self.column, self.row]].astype(np.int16)
