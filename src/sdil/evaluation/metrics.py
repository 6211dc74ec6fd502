"""How well a policy predicts recorded actions (paper, 5.1.3), whatever rules it acts by.

Classes that never occur in the recorded actions are left out of macro-F and of both AUROCs. The
paper's macro-F on FourRooms counts one that never occurs, so the two are not comparable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import f1_score, roc_auc_score

from sdil.nested import column_names, counted_columns
from sdil.policy import Policy
from sdil.spaces import Array
from sdil.trajectories import Trajectories
from sdil.windows import Windows

LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True)
class ActionMetrics:
    """Shares between 0 and 1, but for `nll`; None where a measure is not defined."""

    accuracy: float
    macro_f: float
    """Mean F1 over the classes that occur."""
    macro_auroc: float | None
    """Mean one-vs-rest AUROC over the classes that occur; None where only one does."""
    micro_auroc: float | None
    """AUROC over all (step, occurring class) pairs pooled; None where only one class occurs."""
    nll: float
    """Mean negative log-likelihood per step, in nats; no action counts as less likely than 1e-12"""
    steps: int
    absent_classes: tuple[int, ...]
    """Actions that never occur in the data, and so do not count."""


@dataclass(frozen=True)
class RealMetrics:
    """Of actions that are real numbers, or have several entries.

    A counted entry (of `MultiDiscrete`, or of a part of a `Dict`) is wrong by 1 where it is another
    one, in its own units and relatively; the mean action has what is commonest there.
    """

    nll: float
    """Mean negative log-density per step, in nats, of actions in standard deviations of the
    training data."""
    error: tuple[float, ...]
    """Mean distance of what is done greedily from each entry of the recorded action, in the data's
    own units."""
    relative_error: float
    """The same in standard deviations of the recorded entry, mean over entries that vary."""
    mean_action_error: tuple[float, ...]
    """`error` of whoever always does the mean of the recorded actions: better than that should be
    easy."""
    mean_action_relative_error: float
    steps: int
    entries: tuple[str, ...] = ()
    """What each entry is called."""


def measure_recorded(policy: Policy, trajectories: Trajectories) -> ActionMetrics | RealMetrics:
    """How well a policy predicts recorded actions: those that are counted, or real numbers."""
    if policy.spaces.listed:
        return action_metrics(*predict_recorded(policy, trajectories))
    windows = Windows(policy.seen(trajectories), policy.look_back)
    taken = trajectories.actions[trajectories.steps()].reshape(len(windows), -1).astype(float)
    nll, apart = [], []
    with torch.no_grad():
        for part in windows.parts():
            found, actions = policy.distribution(windows.at(part)), windows.actions_at(part)
            nll.append(-found.log_prob(actions))
            apart.append(found.apart(actions).abs().double())
    error = torch.cat(apart).numpy().mean(0)
    counted = counted_columns(policy.spaces.action)
    of_mean = np.abs(taken - taken.mean(0)).mean(0)
    of_mean[counted] = [_share_of_others(taken[:, i]) for i in np.flatnonzero(counted)]
    varies = taken.std(0) > 0
    spread = np.where(counted, 1.0, taken.std(0))
    return RealMetrics(
        nll=float(torch.cat(nll).mean()),
        error=tuple(error.tolist()),
        relative_error=float((error[varies] / spread[varies]).mean()) if varies.any() else 0.0,
        mean_action_error=tuple(of_mean.tolist()),
        mean_action_relative_error=(
            float((of_mean[varies] / spread[varies]).mean()) if varies.any() else 0.0
        ),
        steps=len(taken),
        entries=tuple(column_names(policy.spaces.action)),
    )


def _share_of_others(column: Array) -> float:
    """How often a counted entry is not what it is most often."""
    return 1.0 - float(np.unique(column, return_counts=True)[1].max()) / len(column)


def predict_recorded(policy: Policy, trajectories: Trajectories) -> tuple[Array, Array]:
    """The probabilities of actions at every recorded step (N, A), and the actions taken (N,)."""
    probs = np.concatenate(policy.probabilities(trajectories))
    return probs, trajectories.actions[trajectories.steps()]


def mean_nll(probs: Array, actions: Array) -> float:
    """The negative log-likelihood of `actions` (N,) under `probs` (N, A), mean over steps.

    Probabilities under `LEAST_PROBABILITY` count as that: one impossible step costs 27.6, not all.
    """
    taken = probs[np.arange(len(actions)), actions]
    return float(-np.log(np.maximum(taken, LEAST_PROBABILITY)).mean())


def action_metrics(probs: Array, actions: Array) -> ActionMetrics:
    """Compare `probs` (N, A) with the `actions` (N,) that were taken."""
    n_classes = probs.shape[1]
    occurring = np.unique(actions)
    absent = tuple(int(c) for c in np.setdiff1d(np.arange(n_classes), occurring))
    predicted = probs.argmax(1)
    several = len(occurring) > 1
    hits = actions[:, None] == occurring  # (N, classes that occur)
    scores = probs[:, occurring]
    return ActionMetrics(
        accuracy=float(np.mean(predicted == actions)),
        macro_f=float(
            f1_score(actions, predicted, labels=occurring, average="macro", zero_division=0.0)
        ),
        macro_auroc=float(roc_auc_score(hits, scores, average="macro")) if several else None,
        micro_auroc=float(roc_auc_score(hits, scores, average="micro")) if several else None,
        nll=mean_nll(probs, actions),
        steps=len(actions),
        absent_classes=absent,
    )
