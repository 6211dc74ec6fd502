"""What learners that weigh noisy steps have in common: fields, data and a discriminator.

All train the policy network that BC trains, on the same budget, and stop on the likelihood of clean
actions that they have not seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sdil.acting import suit
from sdil.algorithms.learner import check_chunk
from sdil.algorithms.trust import Trust
from sdil.demonstrations import Demonstrations, hold_out, leave_folds_out
from sdil.errors import InputError
from sdil.held_out import best_temperature, mean_nll, worse_than_usual
from sdil.judges.step_networks import NetworkJudge, StepNetwork, StepScorer
from sdil.judging import NONE_LEFT, FittedJudge, check_judge
from sdil.limits import Count, CountOrNone, Positive, Weight
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.states import State
from sdil.training import Epoch, OnEpoch, Stages
from sdil.windows import Windows

Fit = Callable[..., Any]
"""`fit` of a learner."""


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
    chunk: Count = 1
    """Actions that are predicted at once: that of now and those that follow in the episode."""
    act_on: Count = 1
    """As many of these are done before the policy looks again; at most `chunk`."""

    name: ClassVar[str]
    reference: ClassVar[str]
    noisy_set: ClassVar[str] = "steps weighed"
    environment: ClassVar[str] = "never"
    judges_steps: ClassVar[bool] = True
    takes_judge: ClassVar[bool] = False
    takes_truth: ClassVar[bool] = False
    real_actions: ClassVar[bool] = True

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
        self,
        data: WeighedData,
        network: PlainNetwork,
        judge: FittedJudge | None,
        *,
        trust: Trust | None = None,
    ) -> PlainPolicy:
        """What was trained, as a policy that is no surer than it should be."""
        told = trust is not None and data.valid is None
        temperature = trust.temperature if trust and told else data.temperature(network)
        network.soften(temperature)
        policy = PlainPolicy(
            data.demos.spaces,
            data.architecture,
            network,
            judge=judge,
            learner=self.name,
            hyperparameters=asdict(self),
        )
        policy.temperature = temperature
        if trust is not None and judge is not None:
            policy.trusted = trust.sentence
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

    @property
    def real_actions(self) -> bool:
        return self.learner.real_actions

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
    """Training steps, clean ones first, and how to tell when training is over.

    By the clean demonstrations of `valid`, where they are given. Without them nothing is held out:
    how long each phase trains is what was best, on average, where folds of the clean groups were
    left out. A single clean group serves as both, with a warning.
    """

    def __init__(
        self,
        demos: Demonstrations,
        valid: Demonstrations | None,
        learner: WeighingLearner,
        seed: int,
        *,
        lengths: Mapping[str, float] | None = None,
        fit: Fit | None = None,
    ) -> None:
        """`lengths` are what `lengths_across_folds` gives, where nobody will ask for it or it is
        known; `fit` trains the learner, where it needs more than demonstrations."""
        self.demos, self.valid = demos, None
        self._lengths: Mapping[str, float] = {}
        if valid is not None or demos.n_clean_groups < 2:
            self.demos, held_out = hold_out(demos, valid, seed=seed)
            self.valid = Windows(held_out, learner.look_back)
        elif lengths is not None:
            self._lengths = lengths
        else:
            self._lengths = lengths_across_folds(fit or learner.fit, demos, seed)
        self.windows = Windows(demos.all, learner.look_back)
        self.n_clean = demos.clean.n_steps
        self.n_noisy = len(self.windows) - self.n_clean
        check_chunk(learner)
        self.architecture = Architecture(
            learner.look_back,
            learner.hidden,
            learner.layers,
            chunk=learner.chunk,
            act_on=learner.act_on,
        )

    def until(
        self, network: PlainNetwork, phase: str = "clone", *, trust: Trust | None = None
    ) -> dict[str, Any]:
        """When a phase of `Stages` ends that trains this network; without validation as `trust`
        says, or what was best across folds."""
        if self.valid is None:
            updates = round(self._lengths[phase]) if trust is None else trust.updates
            return {"valid_loss": None, "updates": updates}
        held = self.valid
        clean = Windows(self.demos.clean, self.architecture.look_back)
        return {
            "valid_loss": lambda: mean_nll(network, network.head, held),
            "hopeless": lambda: worse_than_usual(network, network.head, clean, held),
        }

    def network(self) -> PlainNetwork:
        """A policy network that knows the statistics of the training steps."""
        network = PlainNetwork(self.demos.spaces, self.architecture)
        network.fit_to(self.windows)
        return network

    def temperature(self, network: PlainNetwork) -> float:
        """By which to divide the network's logits: it is too sure of itself."""
        if self.valid is None:
            return self._lengths["temperature"]
        return best_temperature(network, network.head, self.valid)

    def draw_clean(self, size: int, generator: torch.Generator) -> Tensor:
        """Numbers of clean steps, drawn with replacement. (size,)"""
        return torch.randint(self.n_clean, (size,), generator=generator)

    def nll(self, network: PlainNetwork, index: Tensor) -> Tensor:
        """`-log pi(a_t | s_t)` of these steps. (B,)"""
        return network.nll(self.windows, index)


_LEFT_OUT, _FOLDS = 2, 5  # so many of the folds are left out in turn


def lengths_across_folds(fit: Fit, demos: Demonstrations, seed: int) -> dict[str, float]:
    """After how many updates each phase is best on clean groups that are left out, on average; and
    the "temperature" with which the policy then is."""
    found: dict[str, list[float]] = {}
    for train, held in leave_folds_out(demos, folds=_LEFT_OUT, of=_FOLDS, seed=seed):
        best: dict[str, float] = {}

        def note(epoch: Epoch, best: dict[str, float] = best) -> None:
            if epoch.kept:
                best[epoch.phase] = epoch.updates

        valid = Demonstrations(held, (), demos.spaces)
        best["temperature"] = fit(train, valid=valid, seed=seed, on_epoch=note).temperature
        for phase, value in best.items():
            found.setdefault(phase, []).append(value)
    return {phase: sum(each) / len(each) for phase, each in found.items()}


def train_discriminator(
    stages: Stages,
    logit: StepNetwork,
    data: WeighedData,
    generator: torch.Generator,
    updates: int,
    *,
    penalty: float = 0.0,
) -> None:
    """Tell clean steps (1) from all training steps (0): `logit = log d^clean / d^all` at best.

    `penalty` is the weight of its gradient's distance from length 1, between clean and other steps
    (Gulrajani et al. 2017), which keeps it from being sure of what it has learned by heart.
    """

    def inputs(index: Tensor) -> Tensor:
        return logit.inputs(data.windows.at(index).state, data.windows.actions_at(index))

    def loss(index: Tensor) -> dict[str, Tensor]:
        clean, others = inputs(data.draw_clean(len(index), generator)), inputs(index)
        of_clean, of_others = logit.body(clean)[:, 0], logit.body(others)[:, 0]
        terms = {"discriminator": discriminator_loss(of_clean, of_others)}
        if penalty > 0:
            share = torch.rand(len(index), 1, generator=generator)
            between = (share * clean + (1 - share) * others).requires_grad_()
            (slope,) = torch.autograd.grad(logit.body(between).sum(), between, create_graph=True)
            terms["gradient_penalty"] = penalty * (slope.norm(dim=1) - 1).square().mean()
        return terms

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
