"""What a learner is, what it says while it trains, and what it refuses to train on.

A learner speaks through `on_epoch`; whoever calls `fit` owns progress bars, files and Ctrl-C.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torch import Tensor

from sdil.demonstrations import Demonstrations, split_groups
from sdil.errors import InputError
from sdil.policy import Policy, require_vectors_and_discrete_actions
from sdil.trajectories import Trajectories

State = dict[str, Tensor]
"""All that training needs to go on from here: weights, optimiser, random state, counters."""


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
    kept: bool = True
    """Whether these are the best weights so far: the last such epoch gives what the phase keeps."""


OnEpoch = Callable[[Epoch], None]


class Learner(Protocol):
    """A frozen dataclass of hyper-parameters that turns demonstrations into a policy."""

    name: ClassVar[str]
    reference: ClassVar[str]
    noisy_set: ClassVar[str]
    """What it does with the noisy set, in a few words."""
    environment: ClassVar[str]
    """Whether it rolls out in an environment: "never", or "if given"."""
    judges_steps: ClassVar[bool]
    """Whether its policy answers `score(trajectories)`."""

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
    "reward_patience",
    "reward_max_updates",
    "n_skills",
    "skill_size",
    "n_clusters",
    "negatives",
    "pu_interval",
    "discovery_epochs",
    "discriminator_updates",
    "expertise_size",
    "env_steps",
    "n_envs",
    "round_steps",
    "passes",
    "parts",
    "judge_updates",
    "n_centres",
    "clone_updates",
    "distance_updates",
}
_NOT_NEGATIVE = {
    "look_back",
    "positives",
    "min_updates",
    "reward_min_updates",
    "discovery_min_updates",
    "weight_decay",
    "mi_weight",
    "usage_weight",
    "adv_weight",
    "epsilon",
    "zeta_step",
    "alpha",
    "threshold",
    "power",
    "entropy_weight",
    "offline_entropy_weight",
    "cooperation",
}
_POSITIVE = {
    "learning_rate",
    "reward_learning_rate",
    "temperature",
    "delta",
    "largest",
    "inner_rate",
    "clip",
    "bandwidth",
}
_SHARES = {
    "clean_share",
    "nearest",
    "farthest",
    "negative_share",
    "eta",
    "least",
    "most",
    "gae_lambda",
    "state_weight",
    "noisy_share",
}
_LIMITS: tuple[tuple[set[str], Callable[[float], bool], str], ...] = (
    (_COUNTS, lambda value: value >= 1, "at least 1"),
    (_NOT_NEGATIVE, lambda value: 0 <= value < math.inf, "0 or more"),
    (_POSITIVE, lambda value: 0 < value < math.inf, "above 0"),
    (_SHARES, lambda value: 0 <= value <= 1, "between 0 and 1"),
    ({"good_share"}, lambda value: 0 < value < 1, "above 0 and under 1"),
    ({"gamma"}, lambda value: 0 <= value < 1, "0 or more and under 1"),
)
