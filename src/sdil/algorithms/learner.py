"""What a learner is, and what it refuses to train on."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from sdil.demonstrations import Demonstrations, check_demonstrations
from sdil.errors import InputError
from sdil.limits import check_fields
from sdil.observations import is_vector
from sdil.policy import Policy
from sdil.spaces import (
    require_known_actions,
    require_vectors,
    require_vectors_and_discrete_actions,
)
from sdil.states import State
from sdil.training import OnEpoch, check_seed


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
    takes_judge: ClassVar[bool]
    """Whether `fit` takes a fitted `judge`."""
    takes_truth: ClassVar[bool]
    """Whether `fit` takes the `truth` about every noisy step: a limit, not a competitor."""
    real_actions: ClassVar[bool]
    """Whether it learns actions that are real numbers, not only counted ones."""

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


class Chunked(Protocol):
    """What learners have that can predict several actions at once."""

    name: ClassVar[str]

    @property
    def chunk(self) -> int: ...
    @property
    def act_on(self) -> int: ...


def check_chunk(learner: Chunked) -> None:
    """Refuse to do more actions than are predicted."""
    if learner.act_on > learner.chunk:
        raise InputError(
            f"{learner.name}: act_on is {learner.act_on}, but only {learner.chunk} actions are "
            "predicted at once; raise chunk"
        )


def trains_eyes(learner: Any, demos: Demonstrations) -> bool:
    """Whether a learner trains convolutions of its own on these demonstrations."""
    return getattr(learner, "images", "features") == "trained" and not is_vector(
        demos.spaces.observation
    )


def check(demos: Demonstrations, learner: Learner, seed: int) -> None:
    """Refuse what cannot be trained: data, hyper-parameters or seed."""
    check_demonstrations(demos, learner.name)
    require = require_vectors if learner.real_actions else require_vectors_and_discrete_actions
    if trains_eyes(learner, demos):
        require = require_known_actions
    require(demos.spaces, learner.name)
    check_fields(learner, learner.name)
    check_seed(seed)
