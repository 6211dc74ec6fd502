"""How well a policy predicts recorded actions (paper, 5.1.3), whatever rules it acts by.

Classes that never occur in the recorded actions are left out of macro-F and of both AUROCs. The
paper's macro-F on FourRooms counts one that never occurs, so the two are not comparable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from sdil.policy import Policy
from sdil.spaces import Array
from sdil.trajectories import Trajectories

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
