"""A task small enough to write down in which chance has a say: a finite Markov decision process.

The counterpart of `Table` for transitions that are not certain. Planner, truth, exact evaluation,
the environment and fast rollouts all read this one model. Returns are not discounted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gymnasium.utils.seeding import np_random
from scipy.sparse import csr_array

from sdil.errors import InputError
from sdil.spaces import Array, Spaces

_TOLERANCE = 1e-12
_MAX_SWEEPS = 100_000
_DRAWS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class MarkovModel:
    """S states and A actions. What a policy does is `action_probs` (S, A) throughout."""

    transition: csr_array
    """How likely each state is to follow. (S * A, S), state s and action a in row s * A + a"""
    reward: Array
    """What arriving in each state pays; only states that end the episode pay. (S,)"""
    end: Array
    """The states in which an episode ends. (S,) booleans"""
    start: Array
    """How likely an episode is to begin in each state. (S,)"""
    admissible: Array
    """Which actions a planner or a random step may choose. (S, A) booleans"""
    observations: Array
    """What is seen in each state. (S, *observation)"""
    horizon: int
    """Steps after which an episode is cut off. What is computed exactly knows no such limit."""
    spaces: Spaces

    def __post_init__(self) -> None:
        n_states, n_actions = self.admissible.shape
        if self.transition.shape != (n_states * n_actions, n_states):
            raise InputError(
                f"{n_states} states and {n_actions} actions need transitions of shape "
                f"({n_states * n_actions}, {n_states}), not {self.transition.shape}"
            )
        likely = np.append(self.transition.sum(1), self.start.sum())
        if np.abs(likely - 1).max() > 1e-9 or self.transition.data.min() < 0:
            raise InputError(
                "the probabilities of what follows a step, or of starts, do not add up"
            )
        if (self.reward[~self.end] != 0).any() or (self.start[self.end] > 0).any():
            raise InputError("only states that end an episode pay, and none begins in them")
        if not self.admissible.any(1).all():
            raise InputError("each state needs an admissible action")

    def __len__(self) -> int:
        return len(self.admissible)

    @property
    def n_actions(self) -> int:
        return int(self.admissible.shape[1])

    def action_values(self, values: Array) -> Array:
        """What each action is worth where the states that follow are worth `values` (S,). (S, A)"""
        worth = self.reward + np.where(self.end, 0.0, values)
        return np.asarray(self.transition @ worth).reshape(self.admissible.shape)

    @cached_property
    def optimal_values(self) -> Array:
        """What each state is worth to the best policy, by value iteration. (S,)"""
        values = np.zeros(len(self))
        for _ in range(_MAX_SWEEPS):
            allowed = np.where(self.admissible, self.action_values(values), -np.inf)
            better = np.where(self.end, 0.0, allowed.max(1))
            if np.abs(better - values).max() < _TOLERANCE:
                return better
            values = better
        raise InputError(f"value iteration did not settle in {_MAX_SWEEPS} sweeps")

    @cached_property
    def advantage(self) -> Array:
        """What each action loses against the best one, by the optimal value; 0 is best. (S, A)"""
        return self.action_values(self.optimal_values) - self.optimal_values[:, None]

    @cached_property
    def optimal_actions(self) -> Array:
        """The best admissible action of each state, the first where several are. (S,)"""
        allowed = np.where(self.admissible, self.advantage, -np.inf)
        best = allowed >= allowed.max(1, keepdims=True) - 10 * _TOLERANCE  # equal but for rounding
        return np.argmax(best, 1)

    def always(self, actions: Array) -> Array:
        """The policy that takes these actions (S,). (S, A)"""
        return np.eye(self.n_actions)[actions]

    @property
    def at_random(self) -> Array:
        """The policy that takes each admissible action as often. (S, A)"""
        return self.admissible / self.admissible.sum(1, keepdims=True)

    def visits(self, action_probs: Array) -> Array:
        """How often an episode is expected to visit each state before it ends. (S,)

        Exact: the solution of `visits = start + visits @ chain`, without a limit of time.
        """
        chain, going = self._chain(action_probs), ~self.end
        visits = np.zeros(len(self))
        try:
            visits[going] = np.linalg.solve((np.eye(going.sum()) - chain).T, self.start[going])
        except np.linalg.LinAlgError:
            raise InputError("under this policy an episode may never end") from None
        return visits

    def arrivals(self, action_probs: Array, visits: Array) -> Array:
        """How likely an episode with these `visits` is to end in each state. (S,)"""
        steps = (visits[:, None] * action_probs).ravel()  # (S * A,)
        return np.where(self.end, steps @ self.transition, 0.0)

    def _chain(self, action_probs: Array) -> Array:
        """From each state that goes on to each such state under a policy. (G, G)"""
        state, action = np.nonzero(action_probs)
        row = state * self.n_actions + action
        shape = (len(self), self.transition.shape[0])
        choice = csr_array((action_probs[state, action], (state, row)), shape)
        going = np.flatnonzero(~self.end)
        chain: Array = (choice @ self.transition).toarray()
        return chain[np.ix_(going, going)]

    def start_states(self, draws: Array) -> Array:
        """The states in which episodes begin, for draws (n,) uniform in [0, 1). (n,)"""
        ladder = np.cumsum(self.start)
        found = np.searchsorted(ladder, draws, side="right")
        return np.minimum(found, np.flatnonzero(self.start)[-1])  # in case rounding left a gap

    def next_states(self, states: Array, actions: Array, draws: Array) -> Array:
        """What follows these steps, for draws uniform in [0, 1). All four are (n,)."""
        rows = np.asarray(states, np.int64) * self.n_actions + actions
        found = np.searchsorted(self._ladder, rows + draws, side="right")
        first, last = self.transition.indptr[rows], self.transition.indptr[rows + 1] - 1
        return np.asarray(self.transition.indices[np.clip(found, first, last)])

    @cached_property
    def _ladder(self) -> Array:
        """For each stored probability its row's number plus the sum up to it: sorted throughout."""
        total = np.cumsum(self.transition.data)
        first = self.transition.indptr[:-1]
        before = np.concatenate([[0.0], total])[first]
        lengths = np.diff(self.transition.indptr)
        return total + np.repeat(np.arange(len(first)) - before, lengths)

    def walk(self, action_probs: Array, seeds: Sequence[int] | Array) -> list[Walk]:
        """An episode of this policy for each seed, all abreast."""
        walk = ModelWalk(self, seeds)
        ladder = np.cumsum(action_probs, 1)  # (S, A)
        steps = []
        for _ in range(self.horizon):
            episode, before = walk.episode, walk.at
            steps_up = ladder[before]  # (n, A)
            top = steps_up[:, -1]
            height = np.minimum(walk.draw() * top, np.nextafter(top, 0.0))
            actions = (steps_up <= height[:, None]).sum(1)
            _, ended, _ = walk.step(actions)
            steps.append((episode, before, actions, walk.at))
            walk.keep(~ended)
            if not len(walk):
                break
        whose, left, chosen, arrived = (np.concatenate(part) for part in zip(*steps, strict=True))
        order = np.argsort(whose, kind="stable")  # by episode, and within each by time
        cuts = np.cumsum(np.bincount(whose, minlength=len(seeds)))[:-1]
        return [
            Walk(np.append(b, a[-1]), c, bool(self.end[a[-1]]))
            for b, c, a in zip(
                *(np.split(part[order], cuts) for part in (left, chosen, arrived)), strict=True
            )
        ]


@dataclass(frozen=True, eq=False)
class Walk:
    """One episode."""

    states: Array
    """(T+1,)"""
    actions: Array
    """(T,)"""
    ended: bool
    """True where it came to an end, False where it was cut off."""


class ModelWalk:
    """Episodes in a model, abreast, one for each seed; those that are over drop out (`keep`)."""

    def __init__(self, model: MarkovModel, seeds: Sequence[int] | Array) -> None:
        self.model, self._draws = model, Draws(seeds)
        self.episode: Array = np.arange(len(seeds))
        """Which of the episodes are still running. (n,)"""
        self.at: Array = model.start_states(self.draw())
        """The state that each of them is in. (n,)"""

    def __len__(self) -> int:
        return len(self.episode)

    @property
    def observation(self) -> Array:
        """What is seen now. (n, *observation)"""
        return self.model.observations[self.at]

    def draw(self) -> Array:
        """The next uniform number in [0, 1) of each episode. (n,)"""
        return self._draws.take(self.episode)

    def step(self, actions: Array) -> tuple[Array, Array, Array]:
        """Take an action (n,) in each episode.

        Returns what it earns, whether the task ends the episode, and whether at its goal. (n,) each
        """
        self.at = self.model.next_states(self.at, actions, self.draw())
        earned = self.model.reward[self.at]
        return earned, self.model.end[self.at], earned > 0  # only an end pays

    def keep(self, episodes: Array) -> None:
        """Go on with these alone: their places among those running, or booleans (n,)."""
        self.episode, self.at = self.episode[episodes], self.at[episodes]


class Draws:
    """Uniform numbers in [0, 1), a stream for each episode's seed.

    They are the numbers that `env.np_random.random()` gives after `env.reset(seed=...)`, so that
    episodes run abreast are the same as in an environment. All of them must go at one pace.
    """

    def __init__(self, seeds: Sequence[int] | Array) -> None:
        self._streams = [np_random(int(seed))[0] for seed in seeds]
        self._block = np.empty((len(self._streams), _DRAWS_AT_ONCE))
        self._used = _DRAWS_AT_ONCE

    def take(self, episodes: Array) -> Array:
        """The next number of each of these episodes; those left out have ended for good."""
        if self._used == _DRAWS_AT_ONCE:
            for episode in episodes:
                self._block[episode] = self._streams[episode].random(_DRAWS_AT_ONCE)
            self._used = 0
        self._used += 1
        return self._block[episodes, self._used - 1]
