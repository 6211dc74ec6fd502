"""Whoever knows nothing of the state: what any policy should beat.

`majority` always does the commonest action and predicts each as often as it occurs; `uniform` does
anything. A policy that is worse than either has learned nothing that is of use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from sdil.evaluation.metrics import mean_nll
from sdil.policy import Policy
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories
from sdil.windows import Window

MAJORITY, UNIFORM = "majority action", "uniform"


class Blind(Policy):
    """Counted actions with the same probabilities in every state."""

    kind = "blind"
    look_back = 0

    def __init__(self, spaces: Spaces, probs: Array, name: str) -> None:
        self.spaces, self.learner, self.hyperparameters = spaces, name, {}
        self._probs = torch.from_numpy(np.asarray(probs, np.float64))

    def action_probs(self, window: Window) -> Tensor:
        return self._probs.expand(len(window), -1)

    def tensors(self) -> dict[str, Tensor]:
        return {"probs": self._probs}

    def configuration(self) -> dict[str, Any]:
        return {"name": self.learner}

    @classmethod
    def build(
        cls, spaces: Spaces, configuration: dict[str, Any], tensors: dict[str, Tensor]
    ) -> Blind:
        return cls(spaces, tensors["probs"].numpy(), configuration["name"])


@dataclass(frozen=True)
class Floor:
    """How well recorded actions are predicted by one who does not look."""

    name: str
    accuracy: float
    nll: float


def blind_policies(spaces: Spaces, seen: Trajectories | None) -> list[Blind]:
    """Those who do not look, of counted actions: the majority by the steps `seen`, and anything."""
    if not isinstance(spaces.action, gym.spaces.Discrete):
        return []
    n = int(spaces.action.n)
    found = [Blind(spaces, np.full(n, 1 / n), UNIFORM)]
    if seen is not None and len(seen):
        counts = np.bincount(seen.actions[seen.steps()], minlength=n)
        found.insert(0, Blind(spaces, counts / counts.sum(), MAJORITY))
    return found


def floors_on(trajectories: Trajectories, policies: list[Blind]) -> list[Floor]:
    """How well each predicts these steps."""
    actions = trajectories.actions[trajectories.steps()]
    found = []
    for policy in policies:
        (probs,) = policy.tensors().values()
        told = np.broadcast_to(probs.numpy(), (len(actions), len(probs)))
        guessed = int(probs.argmax())
        accuracy = float((actions == guessed).mean())
        if policy.learner == UNIFORM:
            accuracy = 1 / len(probs)
        found.append(Floor(policy.learner, accuracy, mean_nll(told, actions)))
    return found


def worse_than_blind(policy: Policy, seen: Trajectories, asked: Trajectories) -> str | None:
    """A warning where a policy predicts `asked` steps worse than one who does not look; `seen` are
    those whose commonest action the majority does. None where it does not, or nobody can say."""
    blind = blind_policies(policy.spaces, seen)
    if not blind or not len(asked):
        return None
    own = -float(np.concatenate(policy.log_likelihood(asked)).clip(min=np.log(1e-12)).mean())
    under = [floor for floor in floors_on(asked, blind) if own > floor.nll + 1e-6]
    if not under:
        return None
    best = min(under, key=lambda floor: floor.nll)
    return (
        f"the policy predicts clean steps worse than one who does not look at the state: "
        f"{own:.2f} nats per step, {best.name} {best.nll:.2f}. Give more clean demonstrations, "
        "or lower learning_rate"
    )
