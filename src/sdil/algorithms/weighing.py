"""What learners that weigh noisy steps have in common: fields, data and a discriminator.

All train the policy network that BC trains, on the same splits and budget, and stop on the
likelihood of clean validation actions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.acting import suit
from sdil.demonstrations import Demonstrations, hold_out
from sdil.errors import InputError
from sdil.judges.step_networks import NetworkJudge, StepNetwork, StepScorer
from sdil.judging import NONE_LEFT, FittedJudge, check_judge
from sdil.limits import Count, CountOrNone, Positive, Weight
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.training import OnEpoch, Stages, State, mean_nll
from sdil.windows import Windows


@dataclass(frozen=True)
class WeighingLearner(ABC):
    """The hyper-parameters that all of them share, which are BC's."""

    look_back: CountOrNone = 0
    """Past (state, action) pairs seen beside the current state; 0: the current state alone."""
    hidden: Count = 64
    """Width of the hidden layers."""
    layers: Count = 2
    """Number of hidden layers."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights."""
    batch_size: Count = 256
    """Steps per update."""
    min_updates: CountOrNone = 400
    """Updates at the least; weights of fewer are never kept."""
    patience: Count = 200
    """Updates without a better clean validation likelihood after which training ends."""
    max_updates: Count = 4_000
    """Updates at the most."""

    name: ClassVar[str]
    reference: ClassVar[str]
    noisy_set: ClassVar[str] = "steps weighed"
    environment: ClassVar[str] = "never"
    judges_steps: ClassVar[bool] = True
    takes_judge: ClassVar[bool] = False
    takes_truth: ClassVar[bool] = False

    @abstractmethod
    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> PlainPolicy:
        """Train; the policy has a judge where there were noisy demonstrations."""

    def fit_judge(
        self,
        demos: Demonstrations,
        valid: Demonstrations | None,
        seed: int,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> FittedJudge | None:
        """Its judge alone; where that is trained before the policy, the policy is not."""
        return self.fit(demos, valid=valid, seed=seed, on_epoch=on_epoch, resume=resume).judge

    def judge(
        self, data: WeighedData, network: PlainNetwork, scorer: StepScorer, seed: int
    ) -> NetworkJudge | None:
        """What was found out about single steps; nothing where there were no noisy ones."""
        if not data.n_noisy:
            return None
        return NetworkJudge(
            data.demos.spaces,
            data.architecture,
            network,
            scorer,
            name=self.name,
            hyperparameters=asdict(self),
            seed=seed,
        )

    def policy(
        self, data: WeighedData, network: PlainNetwork, judge: FittedJudge | None
    ) -> PlainPolicy:
        """What was trained, as a policy."""
        policy = PlainPolicy(
            data.demos.spaces,
            data.architecture,
            network,
            judge=judge,
            learner=self.name,
            hyperparameters=asdict(self),
        )
        return suit(policy, data.demos)


@dataclass(frozen=True)
class InnerJudge:
    """The judge that a learner which weighs noisy steps has inside."""

    learner: WeighingLearner

    @property
    def name(self) -> str:
        return self.learner.name

    @property
    def reference(self) -> str:
        return self.learner.reference

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> FittedJudge:
        """Train as much of the learner as its judge needs."""
        check_judge(demos, self.learner, seed)
        judge = self.learner.fit_judge(demos, valid, seed, on_epoch, resume)
        if judge is None:
            raise InputError(NONE_LEFT)
        return judge


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
