"""What learners that weigh noisy steps have in common: fields, data and a discriminator.

All train the policy network that BC trains, on the same splits and budget, and stop on the
likelihood of clean validation actions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.algorithms.learner import hold_out
from sdil.algorithms.training import Stages, mean_nll
from sdil.demonstrations import Demonstrations
from sdil.networks.judges import Judge, JudgingPolicy, StepNetwork
from sdil.networks.policies import Architecture, PlainNetwork
from sdil.windows import Windows


@dataclass(frozen=True)
class WeighingLearner:
    """The hyper-parameters that all of them share, which are BC's."""

    look_back: int = 0
    """Past (state, action) pairs seen beside the current state; 0: the current state alone."""
    hidden: int = 64
    """Width of the hidden layers."""
    layers: int = 2
    """Number of hidden layers."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    weight_decay: float = 5e-4
    """L2 penalty on the weights."""
    batch_size: int = 256
    """Steps per update."""
    min_updates: int = 400
    """Updates at the least; weights of fewer are never kept."""
    patience: int = 200
    """Updates without a better clean validation likelihood after which training ends."""
    max_updates: int = 4_000
    """Updates at the most."""

    name: ClassVar[str]
    reference: ClassVar[str]
    noisy_set: ClassVar[str] = "steps weighed"
    environment: ClassVar[str] = "never"
    judges_steps: ClassVar[bool] = True

    def policy(self, data: WeighedData, network: PlainNetwork, judge: Judge) -> JudgingPolicy:
        """What was trained, as a policy."""
        return JudgingPolicy(
            data.demos.spaces,
            data.architecture,
            network,
            judge,
            saw_noisy=data.n_noisy > 0,
            learner=self.name,
            hyperparameters=asdict(self),
        )


class WeighedData:
    """Training steps, clean ones first, and clean validation."""

    def __init__(
        self,
        demos: Demonstrations,
        valid: Demonstrations | None,
        learner: WeighingLearner,
        seed: int,
    ) -> None:
        train, held_out = hold_out(demos, valid, seed=seed)
        self.demos = train
        self.windows = Windows(train.all, learner.look_back)
        self.valid = Windows(held_out, learner.look_back)
        self.n_clean = train.clean.n_steps
        self.n_noisy = len(self.windows) - self.n_clean
        self.architecture = Architecture(learner.look_back, learner.hidden, learner.layers)

    def network(self) -> PlainNetwork:
        """A policy network that knows the statistics of the training steps."""
        network = PlainNetwork(self.demos.spaces, self.architecture)
        network.features.standardise.fit(self.windows)
        return network

    def draw_clean(self, size: int, generator: torch.Generator) -> Tensor:
        """Numbers of clean steps, drawn with replacement. (size,)"""
        return torch.randint(self.n_clean, (size,), generator=generator)

    def nll(self, network: PlainNetwork, index: Tensor) -> Tensor:
        """`-log pi(a_t | s_t)` of these steps. (B,)"""
        logits = network(self.windows.at(index))
        return F.cross_entropy(logits, self.windows.actions_at(index).long(), reduction="none")

    def valid_nll(self, network: PlainNetwork) -> Tensor:
        return mean_nll(network, self.valid)


def train_discriminator(
    stages: Stages,
    logit: StepNetwork,
    data: WeighedData,
    generator: torch.Generator,
    updates: int,
) -> None:
    """Tell clean steps (1) from all training steps (0): `logit = log d^clean / d^all` at best."""

    def of(index: Tensor) -> Tensor:
        return logit(data.windows.at(index).state, data.windows.actions_at(index))

    def loss(index: Tensor) -> dict[str, Tensor]:
        clean = of(data.draw_clean(len(index), generator))
        return {"discriminator": discriminator_loss(clean, of(index))}

    stages.converge(
        "discriminate",
        {"logit": logit},
        loss=loss,
        valid_loss=None,
        n_samples=len(data.windows),
        updates=updates,
    )


def discriminator_loss(clean: Tensor, others: Tensor) -> Tensor:
    """`E_clean[-log c] + E_others[-log(1 - c)]`, from logits."""
    return F.softplus(-clean).mean() + F.softplus(others).mean()
