"""The decision process that MCE IRL plans in, and the demonstrations as paths through it.

Exact where the task is a `Table`. Otherwise estimated from the logged steps: states are k-means
clusters of the standardised observations, transitions are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sdil.algorithms.soft_planning import (
    Deterministic,
    Dynamics,
    SoftPlan,
    Stochastic,
    occupancy,
    with_endings,
)
from sdil.clustering import fit_clusters
from sdil.errors import InputError
from sdil.networks.encoders import Standardise
from sdil.spaces import Array, Spaces
from sdil.table import Table
from sdil.trajectories import Trajectories, Trajectory
from sdil.windows import Windows, as_tensor

_NEVER_LOGGED = -np.log(100.0)  # such an action counts as a hundredth of one


@dataclass(frozen=True, eq=False)
class Paths:
    """Demonstrations as N steps, in P paths, through the S states of a decision process."""

    states: Array
    actions: Array
    times: Array
    path: Array
    """The path each step belongs to. (N,)"""
    weights: Array
    """Of each path: less than 1 where several of them look like one demonstration. (P,)"""
    lengths: Array
    """Steps of each path. (P,)"""
    after: Array
    """The state that the last step led to; S where the episode was over. (P,)"""

    def log_likelihood(self, plan: SoftPlan) -> float:
        """`log pi_t(a_t | s_t)`, mean over all steps."""
        total = 0.0
        times = np.minimum(self.times, plan.horizon - 1)
        weights = self.weights[self.path]
        for time in np.unique(times):
            now = times == time
            total += weights[now] @ plan.log_policy(time)[self.actions[now], self.states[now]]
        return float(total / weights.sum())

    def visits(self, n_states: int) -> Array:
        """How often each state was acted in. (S,)"""
        return np.bincount(self.states, self.weights[self.path], n_states)

    def entering(self, n_states: int, horizon: int) -> Array:
        """Paths that begin in each state at each time, less those that stop there. (H + 1, S)

        What a demonstration does not show, in its last state and after, is left out of the policy's
        visits too, so that like is compared with like.
        """
        entering = np.zeros((horizon + 1, n_states))
        begin = self.times == 0
        np.add.at(entering[0], self.states[begin], self.weights[self.path[begin]])
        stop = (self.after < n_states) & (self.lengths <= horizon)
        np.subtract.at(entering, (self.lengths[stop], self.after[stop]), self.weights[stop])
        return entering


@dataclass(frozen=True, eq=False)
class DemonstratedMDP:
    """A decision process with S states over O observations, and paths through it."""

    dynamics: Dynamics
    horizon: int
    observations: Tensor
    """What the reward is a function of, standardised. (O, observation)"""
    observation_of: Array
    """The observation of each state. (S,)"""
    choices: Array
    """Whether there is anything to choose in each state. (S,)"""
    train: Paths
    valid: Paths
    windows: Windows
    """What the policy network is trained on. N windows"""
    shown: Array
    """The observation that each window shows. (N,)"""

    def policy(self, plan: SoftPlan) -> Array:
        """The plan's policy at the first moment, for each observation. (O, A)

        States that look alike share one distribution, each weighted by how often the policy comes
        there from where demonstrations begin, or all alike where it never does.
        """
        begin = self.train.entering(self.dynamics.n_states, 0)[0].clip(min=0.0)
        visits = occupancy(plan, begin).sum(0)
        weight = np.where(self.choices, visits + 1e-9 * visits.sum(), 0.0)
        n = len(self.observations)
        weighted = weight * np.exp(plan.log_policy(0))  # (A, S)
        mixed = np.stack([np.bincount(self.observation_of, w, n) for w in weighted])
        return (mixed / mixed.sum(0)).T


def enumerate_mdp(
    table: Table, train: Trajectories, valid: Trajectories, standardise: Standardise, spaces: Spaces
) -> DemonstratedMDP:
    """The table itself; `standardise` is fitted on all that can be seen in it."""
    n_states, n_actions = table.next_state.shape
    seen, look = table.looks
    if seen.shape[1:] != spaces.observation.shape or n_actions != getattr(spaces.action, "n", None):
        raise InputError("the table and the demonstrations have different spaces")
    next_state, alike = with_endings(table.next_state, table.end)
    once = Trajectory(seen, np.zeros(len(seen), np.int64))
    windows = Windows(Trajectories.pack([once], spaces), 0)
    standardise.fit(windows)
    return DemonstratedMDP(
        dynamics=Deterministic(next_state),
        horizon=max(table.horizon, int(train.lengths.max())),
        observations=standardise(windows.observations),
        observation_of=look[alike],
        choices=np.arange(len(alike)) < n_states,
        train=_follow(train, table, next_state),
        valid=_follow(valid, table, next_state),
        windows=windows,
        shown=np.arange(len(seen)),
    )


def _follow(trajectories: Trajectories, table: Table, next_state: Array) -> Paths:
    """Every path through the table that looks like a demonstration, all alike likely."""
    observations = trajectories.observations[trajectories.rows()]
    actions = trajectories.actions[trajectories.steps()]
    first = np.cumsum(trajectories.lengths) - trajectories.lengths
    found = table.follow(observations, actions, trajectories.lengths)
    lost = np.flatnonzero(found.fits_until < trajectories.lengths)
    if len(lost):
        step = int(found.fits_until[lost[0]])
        known = table.look_of(observations[first[lost[0]] + step][None])[0] >= 0
        raise InputError(
            f"episode {trajectories.ids[lost[0]]!r}, step {step}: "
            + (
                "in the table the actions before it lead elsewhere"
                if known
                else "its state is not in the table"
            )
        )
    taken = actions[first[found.episode[found.path]] + found.times]
    lengths = trajectories.lengths[found.episode]  # (P,)
    last = np.flatnonzero(found.times == lengths[found.path] - 1)
    after = np.empty(len(lengths), np.int64)
    after[found.path[last]] = next_state[found.states[last], taken[last]]
    return Paths(
        states=found.states,
        actions=taken,
        times=found.times,
        path=found.path,
        weights=(1.0 / np.bincount(found.episode))[found.episode],
        lengths=lengths,
        after=after,
    )


def estimate_mdp(
    train: Trajectories,
    valid: Trajectories,
    standardise: Standardise,
    *,
    n_actions: int,
    n_clusters: int,
    seed: int,
) -> DemonstratedMDP:
    """A decision process over clusters of logged states; `standardise` is fitted on those.

    An episode that terminates is over. A pair of cluster and action that was never logged, or whose
    outcome never was, leads where the logged steps of its cluster lead (or nowhere, where that is
    not known either); choosing what was never logged costs log 100.
    """
    windows = Windows(train, 0)
    standardise.fit(windows)
    rows = torch.from_numpy(train.rows())
    clusters = fit_clusters(as_tensor(train.observations), rows, n_clusters, seed)

    def clusters_of(trajectories: Trajectories, rows: Array) -> Array:
        return clusters.labels(as_tensor(trajectories.observations), torch.from_numpy(rows)).numpy()

    labels, held_out = clusters_of(train, train.rows()), clusters_of(valid, valid.rows())
    final = np.full(len(train), -1)  # of what is seen last, where it is known
    final[train.has_final] = clusters_of(train, (train.first_row + train.lengths)[train.has_final])
    size = len(clusters.centres)
    actions = train.actions[train.steps()]
    ends = np.cumsum(train.lengths) - 1
    to = np.append(labels[1:], 0)
    to[ends] = np.where(train.terminated, size, final)
    known = to >= 0
    index = (labels * n_actions + actions) * (size + 1) + to
    counts = np.bincount(index[known], minlength=size * n_actions * (size + 1))
    counts = counts.reshape(size, n_actions, size + 1).astype(np.float64)
    anywhere = counts.sum(1)  # (K, K + 1)
    nowhere = anywhere.sum(1) == 0
    anywhere[nowhere, np.flatnonzero(nowhere)] = 1.0
    counts = np.where(counts.sum(2, keepdims=True) > 0, counts, anywhere[:, None])
    transition = counts / counts.sum(2, keepdims=True)
    logged = np.zeros((n_actions, size), bool)
    logged[actions, labels] = True
    return DemonstratedMDP(
        dynamics=Stochastic(transition[..., :size], np.where(logged, 0.0, _NEVER_LOGGED)),
        horizon=int(train.lengths.max()),
        observations=standardise(clusters.centres.float()),
        observation_of=np.arange(size),
        choices=np.ones(size, bool),
        train=_clustered_paths(train, labels, to[ends]),
        valid=_clustered_paths(valid, held_out, np.full(len(valid), size)),
        windows=windows,
        shown=labels,
    )


def _clustered_paths(trajectories: Trajectories, labels: Array, after: Array) -> Paths:
    """`after` is -1 where the data ends with the last step: its own cluster then has to do."""
    return Paths(
        states=labels,
        actions=trajectories.actions[trajectories.steps()],
        times=trajectories.times(),
        path=np.repeat(np.arange(len(trajectories)), trajectories.lengths),
        weights=np.ones(len(trajectories)),
        lengths=trajectories.lengths,
        after=np.where(after < 0, labels[np.cumsum(trajectories.lengths) - 1], after),
    )
