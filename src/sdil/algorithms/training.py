"""What every learner trains with: batches, convergence, checkpoints. Nothing here knows SDIL.

A learner speaks through `on_epoch`; whoever calls `fit` owns progress bars, files and Ctrl-C.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.demonstrations import Demonstrations, split_groups
from sdil.errors import InputError
from sdil.policy import Policy, require_vectors_and_discrete_actions
from sdil.trajectories import Trajectories
from sdil.windows import Window, Windows

State = dict[str, Tensor]
"""All that training needs to go on from here: weights, optimiser, random state, counters."""

_SHORTEST_EPOCH = 20  # updates; ten clean trajectories are a single batch
_STEPS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Epoch:
    """What a learner says after each epoch."""

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


OnEpoch = Callable[[Epoch], None]


class Learner(Protocol):
    """A frozen dataclass of hyper-parameters that turns demonstrations into a policy."""

    name: ClassVar[str]
    reference: ClassVar[str]
    noisy_set: ClassVar[str]
    """What it does with the noisy set, in a few words."""
    environment: ClassVar[str]
    """Whether it rolls out in an environment: "never", or "if given"."""

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> Policy: ...


@dataclass(frozen=True)
class Budget:
    """How long to train: until validation stops improving, counted in updates."""

    min_updates: int
    patience: int
    max_updates: int


def hold_out(
    demos: Demonstrations, valid: Demonstrations | None, *, seed: int
) -> tuple[Demonstrations, Trajectories]:
    """Training demonstrations and clean validation trajectories.

    Without `valid`, a fifth of the clean trajectories (whole groups) is held out, at least one, and
    noisy trajectories of held-out groups are left out; a single clean trajectory serves as both,
    with a warning.
    """
    if valid is not None:
        if valid.spaces != demos.spaces:
            raise InputError("validation and training demonstrations have different spaces")
        return demos, valid.clean
    groups = demos.clean.groups
    if len({i if g is None else g for i, g in enumerate(groups)}) == 1:
        warnings.warn(
            "one clean trajectory (or group) serves for training and for validation; "
            "early stopping cannot see overfitting. Give more, or pass `valid`.",
            stacklevel=3,
        )
        return demos, demos.clean
    train, held = split_groups(groups, (4.0, 1.0), seed=seed)
    held_out = {groups[i] for i in held} - {None}
    noisy = [i for i, group in enumerate(demos.noisy.groups) if group not in held_out]
    kept = Demonstrations(demos.clean.subset(train), demos.noisy.subset(noisy), demos.spaces)
    return kept, demos.clean.subset(held)


def check(demos: Demonstrations, learner: Learner, seed: int) -> None:
    """Refuse what cannot be trained: data, hyper-parameters or seed."""
    require_vectors_and_discrete_actions(demos.spaces, learner.name)
    check_fields(learner)
    if not 0 <= seed < 2**32:
        raise InputError(f"a seed lies between 0 and 2^32 - 1, not {seed}")


def check_fields(learner: Learner) -> None:
    """Refuse hyper-parameters that make no sense, by name."""
    for name, value in vars(learner).items():
        for names, holds, text in _LIMITS:
            if name in names and not holds(value):
                raise InputError(f"{learner.name}: {name} must be {text}, not {value}")


_COUNTS = {
    "hidden",
    "layers",
    "batch_size",
    "patience",
    "max_updates",
    "n_skills",
    "skill_size",
    "n_clusters",
    "negatives",
    "pu_interval",
    "discovery_epochs",
    "env_steps",
    "n_envs",
    "round_steps",
    "passes",
    "parts",
    "judge_updates",
    "n_centres",
}
_NOT_NEGATIVE = {
    "look_back",
    "positives",
    "min_updates",
    "discovery_min_updates",
    "weight_decay",
    "mi_weight",
    "usage_weight",
    "adv_weight",
    "epsilon",
    "zeta_step",
    "entropy_weight",
    "offline_entropy_weight",
    "cooperation",
}
_POSITIVE = {"learning_rate", "temperature", "delta", "clip", "bandwidth"}
_SHARES = {"clean_share", "nearest", "farthest", "negative_share", "gae_lambda", "state_weight"}
_LIMITS: tuple[tuple[set[str], Callable[[float], bool], str], ...] = (
    (_COUNTS, lambda value: value >= 1, "at least 1"),
    (_NOT_NEGATIVE, lambda value: 0 <= value < math.inf, "0 or more"),
    (_POSITIVE, lambda value: 0 < value < math.inf, "above 0"),
    (_SHARES, lambda value: 0 <= value <= 1, "between 0 and 1"),
    ({"gamma"}, lambda value: 0 <= value < 1, "0 or more and under 1"),
)


def refuse_divergence(phase: str, figures: Mapping[str, float]) -> None:
    """Raise where a loss is no longer a number."""
    for name, value in figures.items():
        if not math.isfinite(value):
            raise InputError(f"{phase}: training diverged ({name} is {value}); lower learning_rate")


@contextmanager
def seeded(seed: int) -> Iterator[torch.Generator]:
    """Initialise networks inside; batches come from the generator. torch's own state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield torch.Generator().manual_seed(int(np.random.SeedSequence(seed).generate_state(1)[0]))


def mean_nll(logits: Callable[[Window], Tensor], windows: Windows) -> Tensor:
    """The negative log-likelihood of the recorded actions, mean over all steps."""
    total = torch.zeros((), dtype=torch.float64)
    with torch.no_grad():
        for index in torch.arange(len(windows)).split(_STEPS_AT_ONCE):
            actions = windows.actions_at(index)
            total += F.cross_entropy(logits(windows.at(index)), actions, reduction="sum")
    return total / len(windows)


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
        self.optimiser = torch.optim.Adam(groups, lr=learning_rate, fused=True)

    def descend(self, loss: Tensor) -> None:
        """One update."""
        self.optimiser.zero_grad(set_to_none=True)
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
        """Everything, flat, as tensors."""
        moments = {
            f"optimiser.{i}.{key}": value.clone()
            for i, entry in self.optimiser.state_dict()["state"].items()
            for key, value in entry.items()
        }
        return {**nest("now", self.weights()), **moments, "generator": self.generator.get_state()}

    def restore(self, state: State) -> None:
        """Go back to what `state` gave."""
        self.load_weights(below(state, "now"))
        saved = self.optimiser.state_dict()
        numbers = {int(k.split(".")[1]) for k in state if k.startswith("optimiser.")}
        saved["state"] = {
            i: {k: v.clone() for k, v in below(state, f"optimiser.{i}").items()} for i in numbers
        }
        self.optimiser.load_state_dict(saved)
        self.generator.set_state(state["generator"])


class Convergence:
    """Trains modules on one loss until clean validation stops improving, then keeps the best.

    An epoch is one pass over the data, or several where a pass is under 20 updates.
    """

    def __init__(
        self,
        phase: str,
        optimisation: Optimisation,
        *,
        loss: Callable[[Tensor], Mapping[str, Tensor]],
        valid_loss: Callable[[], Tensor],
        n_samples: int,
        batch_size: int,
        budget: Budget,
    ) -> None:
        """`loss` maps sample numbers (B,) to named terms; their sum is what is descended."""
        self.phase = phase
        self.optimisation = optimisation
        self.loss = loss
        self.valid_loss = valid_loss
        self.n_samples = n_samples
        self.batch_size = batch_size
        self.budget = budget
        per_pass = math.ceil(n_samples / batch_size)
        self.passes = math.ceil(_SHORTEST_EPOCH / per_pass)
        self.updates_per_epoch = self.passes * per_pass
        self.epochs = 0
        self.updates = 0
        self.best_loss = math.inf
        self.best_update = 0
        self.best = optimisation.weights()

    def run(self, on_epoch: OnEpoch | None = None, resume: State | None = None) -> None:
        """Train to convergence; `resume` is a state that `on_epoch` was given before."""
        if resume is not None:
            self._restore(resume)
        total = math.ceil(self.budget.max_updates / self.updates_per_epoch)
        while not self._converged():
            losses = self._train_one_epoch()
            terms = {**losses, "valid_nll": float(self.valid_loss())}
            refuse_divergence(self.phase, terms)
            valid = terms["valid_nll"]
            self.epochs += 1
            if valid < self.best_loss:
                self.best_loss, self.best_update = valid, self.updates
                self.best = self.optimisation.weights()
            if on_epoch is not None:
                on_epoch(Epoch(self.phase, self.epochs, total, terms, self.state))
        self.optimisation.load_weights(self.best)

    def state(self) -> State:
        """Everything, flat, as tensors."""
        counters = [self.epochs, self.updates, self.best_update, self.best_loss]
        return {
            **self.optimisation.state(),
            **nest("best", self.best),
            "counters": torch.tensor(counters, dtype=torch.float64),
        }

    def _restore(self, state: State) -> None:
        self.optimisation.restore(state)
        self.best = {k: v.clone() for k, v in below(state, "best").items()}
        epochs, updates, best_update, self.best_loss = state["counters"].tolist()
        self.epochs, self.updates, self.best_update = int(epochs), int(updates), int(best_update)

    def _train_one_epoch(self) -> dict[str, float]:
        sums = Sums()
        for _ in range(self.passes):
            order = torch.randperm(self.n_samples, generator=self.optimisation.generator)
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


def total(terms: Mapping[str, Tensor]) -> Tensor:
    """The sum of all terms."""
    first, *others = terms.values()
    return sum(others, start=first)


class Sums:
    """Running sums of named figures; nothing leaves the device before `means`."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def add(self, terms: Mapping[str, Tensor]) -> None:
        for name, term in terms.items():
            value = term.detach()
            self._sums[name] = self._sums[name] + value if name in self._sums else value.clone()
        self._count += 1

    def means(self) -> dict[str, float]:
        return {name: float(value) / self._count for name, value in self._sums.items()}


def with_more(on_epoch: OnEpoch | None, more: Callable[[], State]) -> OnEpoch | None:
    """The same listener, told of states that hold `more` beside the phase's own, under "own."."""
    if on_epoch is None:
        return None
    return lambda epoch: on_epoch(
        replace(epoch, state=lambda: {**nest("own", epoch.state()), **more()})
    )


def nest(prefix: str, state: State) -> State:
    """The same entries under `prefix.`."""
    return {f"{prefix}.{key}": value for key, value in state.items()}


def below(state: State, prefix: str) -> State:
    """The entries under `prefix.`, without it."""
    return {k[len(prefix) + 1 :]: v for k, v in state.items() if k.startswith(prefix + ".")}
