"""What learners and judges train with: batches, convergence, checkpoints. Nothing knows SDIL here.

Whatever trains speaks through `on_epoch`; whoever calls `fit` owns progress bars, files and Ctrl-C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from sdil.errors import InputError
from sdil.losses import Sums, refuse_divergence, total
from sdil.states import State, below, nest, on_cpu

_SHORTEST_EPOCH = 20  # updates; ten clean trajectories are a single batch


@dataclass(frozen=True)
class Epoch:
    """What is said after each epoch of training."""

    phase: str
    """The part of training this belongs to."""
    index: int
    """Epochs of this phase that are done."""
    total: int
    """Epochs of this phase at the most; early stopping may end it before."""
    losses: dict[str, float]
    """Mean loss terms over the epoch, and other figures worth keeping."""
    state: Callable[[], State]
    """Gives a checkpoint: pass it to `fit(..., resume=...)` to go on from here."""
    figures: dict[str, list[float]] = field(default_factory=dict)
    """Figures with several values, such as the usage of each skill."""
    kept: bool = True
    """Whether these are the best weights so far: the last such epoch gives what the phase keeps."""
    scores: Tensor | None = None
    """What is thought of each noisy training step by now, where there is an estimate. (N,)"""
    bad: Tensor | None = None
    """The noisy training steps that are taken for bad, by number, where any are asked for."""
    updates: int = 0
    """Updates of this phase that are done, where a phase is trained to convergence."""


OnEpoch = Callable[[Epoch], None]


def check_seed(seed: int) -> None:
    """Refuse a seed that NumPy would."""
    whole = isinstance(seed, int) and not isinstance(seed, bool)
    if not whole or not 0 <= seed < 2**32:
        raise InputError(f"a seed lies between 0 and 2^32 - 1, not {seed!r}")


@dataclass(frozen=True)
class Budget:
    """How long to train: until validation stops improving, counted in updates."""

    min_updates: int
    patience: int
    max_updates: int


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Initialise networks inside; batches come from the generator. torch's own state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield generator_of(seed)


def generator_of(seed: int) -> torch.Generator:
    """The random numbers that batches come from."""
    return torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))


class Optimisation:
    """Modules, one Adam over all their parameters, and the random numbers of training."""

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        *,
        learning_rate: float,
        weight_decay: float,
        generator: torch.Generator,
        without_decay: Sequence[str] = (),
    ) -> None:
        """`without_decay` names modules that weight decay leaves alone."""
        self.modules = modules
        self.generator = generator
        groups = [
            {
                "params": [p for p in module.parameters() if p.requires_grad],
                "weight_decay": 0.0 if name in without_decay else weight_decay,
            }
            for name, module in modules.items()
        ]
        on_gpu = any(p.is_cuda for module in modules.values() for p in module.parameters())
        self.optimiser = torch.optim.Adam(groups, lr=learning_rate, fused=True, capturable=on_gpu)
        self._parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        self.device = self._parameters[0].device if self._parameters else torch.device("cpu")
        """On which it computes; its generator is on the CPU, always."""

    def descend(self, loss: Tensor) -> None:
        """One update."""
        for parameter in self._parameters:  # `zero_grad`, without its hooks
            parameter.grad = None
        loss.backward()
        self.optimiser.step()

    def weights(self) -> State:
        """A copy of all parameters and buffers."""
        return {
            f"{name}.{key}": value.clone()
            for name, module in self.modules.items()
            for key, value in module.state_dict().items()
        }

    def load_weights(self, weights: State) -> None:
        for name, module in self.modules.items():
            module.load_state_dict(below(weights, name))

    def state(self) -> State:
        """Everything, flat, as tensors on the CPU."""
        moments = {
            f"optimiser.{i}.{key}": value.clone()
            for i, entry in self.optimiser.state_dict()["state"].items()
            for key, value in entry.items()
        }
        every = {**nest("now", self.weights()), **moments}
        return {**on_cpu(every), "generator": self.generator.get_state()}

    def restore(self, state: State) -> None:
        """Go back to what `state` gave."""
        try:
            self.load_weights(below(state, "now"))
        except RuntimeError as error:
            raise InputError(
                "what was interrupted trained other networks, so another version of sdil began it: "
                "begin anew"
            ) from error
        saved = self.optimiser.state_dict()
        numbers = {int(k.split(".")[1]) for k in state if k.startswith("optimiser.")}
        saved["state"] = {
            i: {k: v.clone() for k, v in below(state, f"optimiser.{i}").items()} for i in numbers
        }
        self.optimiser.load_state_dict(saved)
        self.generator.set_state(state["generator"])


class Convergence:
    """Trains modules on one loss until clean validation stops improving, then keeps the best.

    Weights of less than `min_updates` are never kept: the likelihood is often best after a few
    dozen updates, when a network is unsure of everything, and such a network acts badly. They are
    where later ones predict worse than whoever always names the commonest action. Without a
    `valid_loss` it trains for `max_updates` and keeps the last. An epoch is one pass over the
    data, or several where a pass is under 20 updates.
    """

    def __init__(
        self,
        phase: str,
        optimisation: Optimisation,
        *,
        loss: Callable[[Tensor], Mapping[str, Tensor]],
        valid_loss: Callable[[], Tensor] | None,
        n_samples: int,
        batch_size: int,
        budget: Budget,
        watched: str = "valid_nll",
        hopeless: Callable[[], bool] | None = None,
        first_counts: bool = False,
    ) -> None:
        """`loss` maps sample numbers (B,) to named terms; their sum is what is descended.

        `watched` is what reports call `valid_loss`, whose lowest value decides. `hopeless` says of
        the weights of now whether earlier ones are to be preferred. With `first_counts` the weights
        that it begins with may be kept.
        """
        self.phase = phase
        self.optimisation = optimisation
        self.loss = loss
        self.valid_loss = valid_loss
        self.n_samples = n_samples
        self.batch_size = batch_size
        self.budget = budget
        self.watched = watched
        self.hopeless = hopeless
        self.first_counts = first_counts and valid_loss is not None
        per_pass = math.ceil(n_samples / batch_size)
        self.passes = math.ceil(_SHORTEST_EPOCH / per_pass)
        self.updates_per_epoch = self.passes * per_pass
        self.epochs = 0
        self.updates = 0
        self.best_loss = math.inf
        self.best_update = 0
        self.best = optimisation.weights()
        self.early_loss, self.early = math.inf, State()
        """The best before `min_updates`, where they may count."""

    def run(self, on_epoch: OnEpoch | None = None, resume: State | None = None) -> None:
        """Train to convergence; `resume` is a state that `on_epoch` was given before."""
        if resume is not None:
            self._restore(resume)
        elif self.first_counts and self.valid_loss is not None:
            self.best_loss = float(self.valid_loss())
        total = math.ceil(self.budget.max_updates / self.updates_per_epoch)
        while not self._converged():
            losses = self._train_one_epoch()
            terms = dict(losses)
            if self.valid_loss is not None:
                terms[self.watched] = float(self.valid_loss())
            refuse_divergence(self.phase, terms)
            self.epochs += 1
            valid = terms.get(self.watched, -math.inf)
            trained = self.updates >= min(self.budget.min_updates, self.budget.max_updates)
            kept = self.valid_loss is None or (trained and valid < self.best_loss)
            if self.hopeless is not None and not trained and valid < self.early_loss:
                self.early_loss, self.early = valid, self.optimisation.weights()
            if kept:
                self.best_loss, self.best_update = valid, self.updates
                self.best = self.optimisation.weights()
            if on_epoch is not None:
                on_epoch(
                    Epoch(
                        self.phase,
                        self.epochs,
                        total,
                        terms,
                        self.state,
                        kept=kept,
                        updates=self.updates,
                    )
                )
        self.optimisation.load_weights(self.best)
        if self.hopeless is not None and self.early_loss < self.best_loss and self.hopeless():
            self.optimisation.load_weights(self.early)

    def state(self) -> State:
        """Everything, flat, as tensors."""
        counters = [self.epochs, self.updates, self.best_update, self.best_loss, self.early_loss]
        return {
            **self.optimisation.state(),
            **on_cpu(nest("best", self.best)),
            **on_cpu(nest("early", self.early)),
            "counters": torch.tensor(counters, dtype=torch.float64),
        }

    def _restore(self, state: State) -> None:
        self.optimisation.restore(state)
        self.best = {k: v.clone() for k, v in below(state, "best").items()}
        self.early = {k: v.clone() for k, v in below(state, "early").items()}
        epochs, updates, best_update, self.best_loss, self.early_loss = state["counters"].tolist()
        self.epochs, self.updates, self.best_update = int(epochs), int(updates), int(best_update)

    def _train_one_epoch(self) -> dict[str, float]:
        sums = Sums()
        for _ in range(self.passes):
            order = torch.randperm(self.n_samples, generator=self.optimisation.generator)
            order = order.to(self.optimisation.device)  # once a pass, not once a batch
            for index in order.split(self.batch_size):
                terms = self.loss(index)
                self.optimisation.descend(total(terms))
                sums.add(terms)
        self.updates += self.updates_per_epoch
        return sums.means()

    def _converged(self) -> bool:
        if self.updates >= self.budget.max_updates:
            return True
        waited = self.updates - self.best_update
        return self.updates >= self.budget.min_updates and waited >= self.budget.patience


class OptimiserFields(Protocol):
    """What everyone that trains a network has among its hyper-parameters."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def weight_decay(self) -> float: ...
    @property
    def batch_size(self) -> int: ...


@runtime_checkable
class BudgetFields(Protocol):
    """What those have that train until validation stops improving."""

    @property
    def min_updates(self) -> int: ...
    @property
    def patience(self) -> int: ...
    @property
    def max_updates(self) -> int: ...


class Stages:
    """Trainings to convergence, one after the other, that can be resumed in any of them."""

    def __init__(
        self,
        fields: OptimiserFields,
        generator: torch.Generator,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> None:
        self._fields, self._generator, self._on_epoch = fields, generator, on_epoch
        self._resume = resume
        self._begun = 0 if resume is None else int(resume["stage"])
        self._number = 0
        self._finished: State = {}

    def converge(
        self,
        phase: str,
        modules: Mapping[str, nn.Module],
        *,
        loss: Callable[[Tensor], Mapping[str, Tensor]],
        valid_loss: Callable[[], Tensor] | None,
        n_samples: int,
        updates: int | None = None,
        without_decay: Sequence[str] = (),
        hopeless: Callable[[], bool] | None = None,
    ) -> None:
        """Train `modules` as `Convergence` does, or restore them where that is done already.

        `updates` is how long to train where there is no `valid_loss`; `without_decay` names modules
        that weight decay leaves alone.
        """
        number, fields = self._number, self._fields
        if updates is not None:
            budget = Budget(updates, updates, updates)
        else:
            assert isinstance(fields, BudgetFields)
            budget = Budget(fields.min_updates, fields.patience, fields.max_updates)
        optimisation = Optimisation(
            modules,
            learning_rate=fields.learning_rate,
            weight_decay=fields.weight_decay,
            generator=self._generator,
            without_decay=without_decay,
        )
        if self._begun > number:
            assert self._resume is not None
            optimisation.load_weights(below(self._resume, f"finished.{number}"))
        else:
            before = {"stage": torch.tensor(number), **self._finished}
            Convergence(
                phase,
                optimisation,
                loss=loss,
                valid_loss=valid_loss,
                n_samples=n_samples,
                batch_size=fields.batch_size,
                budget=budget,
                hopeless=hopeless,
            ).run(
                with_more(self._on_epoch, lambda: before),
                below(self._resume, "own") if self._resume and self._begun == number else None,
            )
        self._finished |= nest(f"finished.{number}", on_cpu(optimisation.weights()))
        self._number += 1


def with_more(on_epoch: OnEpoch | None, more: Callable[[], State]) -> OnEpoch | None:
    """The same listener, told of states that hold `more` beside the phase's own, under "own."."""
    if on_epoch is None:
        return None
    return lambda epoch: on_epoch(
        replace(epoch, state=lambda: {**nest("own", epoch.state()), **more()})
    )
