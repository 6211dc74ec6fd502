"""Skills from stretches of several steps: what is about to change, and where. Not in the paper.

A single step shows little of what it is for: a step to the right is the same on the way to the cup
and to the oven, and the next state, all that `f_bi` sees of the future in the paper, says no more
than the action. Some entries of an observation change seldom, and then last: whether a gripper is
closed, a door open. A stretch is the steps up to such a change, that one with it, or up to the
episode's end. Its end is told by what changes there, and by where: the entries that change all the
time, such as the place of a hand. Stretches with like ends are clustered (k-means), once and before
anything is learned; discovery then learns to name the cluster of the stretch that a step lies in.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sdil.errors import InputError
from sdil.windows import Windows

SOON = 3  # steps
MOST_SOON = 0.15  # of an entry that lasts, at most this share of changes is followed by one so soon
MOVING = 0.25  # an entry that changes with at least this share of the steps tells where
WHAT = 3.0  # how much what changes weighs beside where
_TRIES = 10


def lasting_inputs(windows: Windows) -> Tensor:
    """The entries of an observation that change now and then, and then last. (L,)"""
    lasts = []
    for changed in _changes(windows).T:
        steps = torch.where(changed)[0]
        gap, time = steps.diff(), windows.times[steps[1:]]
        soon = (gap <= SOON) & (gap <= time)  # in the same episode
        lasts.append(len(steps) > 0 and int(soon.sum()) <= MOST_SOON * len(steps))
    found = torch.where(torch.tensor(lasts))[0]
    if not len(found):
        raise InputError(
            'skills_from="stretches" needs entries of the observation that change seldom and then '
            'last, such as whether a gripper is closed; here there are none: use "steps"'
        )
    return found


def cluster_stretches(windows: Windows, lasting: Tensor, n_clusters: int, seed: int) -> Tensor:
    """The cluster of the stretch that each step lies in, by what changes at its end. (N,)"""
    from sklearn.cluster import KMeans  # takes a second and 90 MB to import
    from threadpoolctl import threadpool_limits

    ends, stretch = windows.stretch_ends(lasting).unique(return_inverse=True)
    moving = torch.where(_changes(windows).double().mean(0) >= MOVING)[0]
    rows = windows.rows[ends]
    before = windows.observations[rows].double()
    after = windows.observations[torch.where(windows.has_next[ends], rows + 1, rows)].double()
    what = _standardise((after - before)[:, lasting])
    told = torch.cat([WHAT * what, _standardise(before[:, moving])], 1).numpy()
    n_clusters = min(n_clusters, len(torch.from_numpy(told).unique(dim=0)))
    with threadpool_limits(1):  # several threads would add up in the order they happen to arrive
        labels = KMeans(n_clusters, n_init=_TRIES, random_state=seed).fit_predict(told)
    return torch.from_numpy(labels).long()[stretch]


def _changes(windows: Windows) -> Tensor:
    """Which entries change with each step. (N, I)"""
    after = torch.where(windows.has_next, windows.rows + 1, windows.rows)
    return windows.observations[after] != windows.observations[windows.rows]


def _standardise(values: Tensor) -> Tensor:
    spread = values.std(0, correction=0)
    return (values - values.mean(0)) / torch.where(spread > 1e-6, spread, 1.0)
