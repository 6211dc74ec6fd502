"""A task small enough to write down: every state, and what each action does in it.

Planner, truth, exact inverse reinforcement learning and fast rollouts all read this one table, and
`TableWalk` is how anyone walks in it.
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

    @cached_property
    def looks(self) -> tuple[Array, Array]:
        """What can be seen, each once (L, *observation), and which of it each state shows (S,)."""
        every = self.observe(np.arange(len(self))) + 0.0  # -0 is 0
        seen, look = np.unique(every, axis=0, return_inverse=True)
        return seen, look.reshape(-1)

    def look_of(self, observations: Array) -> Array:
        """Which of `looks` these observations are; -1 where no state shows them. (n,)"""
        rows = observations.astype(self.looks[0].dtype) + 0.0
        return np.array([self._number_of_look.get(row.tobytes(), -1) for row in rows], np.int64)

    @cached_property
    def _number_of_look(self) -> dict[bytes, int]:
        return {row.tobytes(): i for i, row in enumerate(self.looks[0])}

    def follow(self, observations: Array, actions: Array, lengths: Array) -> Followed:
        """Every path through the table that looks like one of E recorded episodes.

        `observations` (N, *observation) and `actions` (N,) are those of their steps, one episode
        after the other, `lengths` (E,) how many steps each has. Several states may look alike, and
        where a path begins determines it: each state that looks like the first one is tried.
        """
        seen, look = self.looks
        shown = self.look_of(observations)  # (N,)
        first = np.cumsum(lengths) - lengths  # (E,)
        by_look = np.argsort(look, kind="stable")
        bounds = np.searchsorted(look[by_look], np.arange(len(seen) + 1))
        begins = [by_look[bounds[o] : bounds[o + 1]] for o in shown[first]]  # of -1 none
        episode = np.repeat(np.arange(len(lengths)), [len(b) for b in begins])  # (P,)
        state = np.concatenate(begins)
        fits, over = np.ones(len(state), bool), np.zeros(len(state), bool)
        fits_until = np.zeros(len(lengths), np.int64)
        walked: list[tuple[Array, Array]] = []  # at each time: which paths, in which states
        for time in range(int(lengths.max())):
            going = np.flatnonzero(fits & (lengths[episode] > time))
            step = first[episode[going]] + time
            alike = ~over[going] & (look[state[going]] == shown[step])
            fits[going] = alike
            going, step = going[alike], step[alike]
            at = state[going]
            walked.append((going, at))
            fits_until[episode[going]] = time + 1
            here = at, actions[step]
            state[going], over[going] = self.next_state[here], self.end[here]
        path = np.concatenate([going for going, _ in walked])
        times = np.repeat(np.arange(len(walked)), [len(going) for going, _ in walked])
        states = np.concatenate([at for _, at in walked])
        kept = fits[path]  # not those that left their episode later on
        return Followed(
            episode=episode[fits],
            path=(np.cumsum(fits) - 1)[path[kept]],
            times=times[kept],
            states=states[kept],
            fits_until=fits_until,
        )

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


class TableWalk:
    """Episodes in a table, abreast: in which state each is, and how many steps it has taken.

    One that is over either drops out (`keep`) or begins anew (`begin`); nothing does so by itself.
    """

    def __init__(self, table: Table, states: Array | int) -> None:
        """An episode from each of the `states` (n,), or a single one from one state."""
        self.table = table
        self.at: Array = np.array(states, np.int64)
        """The state that each episode is in. (n,)"""
        self.clock: Array = np.zeros(self.at.shape, np.int64)
        """The steps that each has taken. (n,)"""

    def __len__(self) -> int:
        return len(self.at)

    @property
    def observation(self) -> Array:
        """What is seen now. (n, *observation)"""
        return self.table.observe(self.at)

    @property
    def out_of_time(self) -> Array:
        """Which episodes have taken as many steps as there may be. (n,) booleans"""
        return self.clock >= self.table.horizon

    def step(self, actions: Array | int) -> tuple[Array, Array, Array]:
        """Take an action (n,) in each episode.

        Returns what it earns, whether the task ends the episode, and whether at its goal. (n,) each
        """
        here = self.at, actions
        full, ended = self.table.reward[here], self.table.end[here]
        self.at = self.table.next_state[here].astype(np.int64)
        self.clock = self.clock + 1
        return self.table.reward_at(full, self.clock), ended, ended & (full > 0)

    def keep(self, episodes: Array) -> None:
        """Go on with these alone: their numbers, or booleans (n,)."""
        self.at, self.clock = self.at[episodes], self.clock[episodes]

    def begin(self, episodes: Array, states: Array) -> None:
        """Begin these (m,) anew, in these states (m,)."""
        self.at[episodes], self.clock[episodes] = states, 0


@dataclass(frozen=True, eq=False)
class Followed:
    """The P paths through a table that look like recorded episodes, in M steps altogether."""

    episode: Array
    """Which of the E episodes each path looks like. (P,)"""
    path: Array
    """The path of each step; steps are in the order of time. (M,)"""
    times: Array
    """The time of each step, from 0. (M,)"""
    states: Array
    """The state before each step. (M,)"""
    fits_until: Array
    """The first step of each episode that no path looks like; its length where one always does.
    (E,)"""


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
