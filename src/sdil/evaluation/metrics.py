"""How well a policy predicts recorded actions (paper, 5.1.3), whatever rules it acts by.

Classes that never occur in the recorded actions are left out of macro-F and of both AUROCs. The
paper's macro-F on FourRooms counts one that never occurs, so the two are not comparable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import f1_score, roc_auc_score

from sdil.policy import Policy
from sdil.spaces import Array
from sdil.trajectories import Trajectories
from sdil.windows import Windows


@dataclass(frozen=True)
class ActionMetrics:
    """Shares between 0 and 1; None where a measure is not defined."""

    accuracy: float
    macro_f: float
    """Mean F1 over the classes that occur."""
    macro_auroc: float | None
    """Mean one-vs-rest AUROC over the classes that occur; None where only one does."""
    micro_auroc: float | None
    """AUROC over all (step, occurring class) pairs pooled; None where only one class occurs."""
    steps: int
    absent_classes: tuple[int, ...]
    """Actions that never occur in the data, and so do not count."""


def predict_recorded(policy: Policy, trajectories: Trajectories) -> tuple[Array, Array]:
    """The probabilities of actions at every recorded step (N, A), and the actions taken (N,)."""
    windows = Windows(trajectories, policy.look_back)
    with torch.no_grad():
        probs = torch.cat([policy.action_probs(windows.at(part)) for part in windows.parts()])
    return probs.numpy(), windows.actions_at(torch.arange(len(windows))).numpy()


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
        steps=len(actions),
        absent_classes=absent,
    )
