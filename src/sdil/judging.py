"""What a judge is: demonstrations in, scores of steps and segments out, with no policy.

A judge is a frozen dataclass of hyper-parameters; `fit` looks at a clean and a noisy set and
returns a `FittedJudge`, which answers `score(trajectories)`, says what it listened to and why, and
is saved and loaded like a policy. Judges themselves are in `judges/`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, Self

import torch
from torch import Tensor

from sdil.cores import computing_on, steadily
from sdil.demonstrations import Demonstrations, check_demonstrations, pack_given
from sdil.errors import InputError
from sdil.files import refuse_missing
from sdil.limits import check_fields
from sdil.saved import (
    BuildEncoder,
    NeedsFeaturesError,
    Saved,
    damaged,
    read_saved,
    split_sight,
    write_saved,
)
from sdil.scores import JudgedSteps, StepScores
from sdil.spaces import (
    Array,
    Spaces,
    require_vectors,
    require_vectors_and_discrete_actions,
)
from sdil.states import State
from sdil.training import OnEpoch, check_seed
from sdil.trajectories import Trajectories, Trajectory

FORMAT_VERSION = 1
JUDGE = "judge"  # the stem of its files
_STEPS = 32_768  # that are scored together: arrays of many more leave the processor's cache
NONE_LEFT = (
    "every noisy demonstration is of a group that is held out for validation, so none is left to "
    "judge from; pass `valid`, or give more groups"
)


@dataclass(frozen=True)
class Signal:
    """Something that a judge could listen to, and whether it did."""

    name: str
    heard: bool
    why: str
    """In a sentence."""
    output: Literal["step", "episode"] = "step"
    """The question that it helps to answer: is this action right here, or how well did this go."""


@dataclass(frozen=True)
class GoodShare:
    """The share of noisy steps that are good, and between which it lies."""

    point: float
    low: float
    high: float

    @property
    def partial(self) -> float:
        """`point`, but neither none nor all."""
        return _partial(self.point)

    @property
    def odds(self) -> tuple[float, float, float]:
        """Log-odds of `point`, `low` and `high`, none of them certain."""
        point, low, high = (_partial(p) for p in (self.point, self.low, self.high))
        return math.log(point / (1 - point)), math.log(low / (1 - low)), math.log(high / (1 - high))


def _partial(share: float) -> float:
    return min(max(share, 0.02), 0.98)


@dataclass(frozen=True, eq=False)
class CrossJudged:
    """What those make of the noisy steps who never saw some of the clean groups: what is learned by
    it can be tried on these groups fairly."""

    good: Array
    """How probably each noisy step is good, by those that never saw a fold. (K, noisy steps)"""
    fold: Array
    """The fold of each clean episode. (clean episodes,)"""
    fingerprint: str
    """Of the demonstrations, rewards apart."""
    clean: Array | None = None
    """How probably each clean step is good, by those that never saw its group. (clean steps,)"""


class JudgesSteps(Protocol):
    """Anything that judges: a fitted judge, or a policy that has one."""

    spaces: Spaces

    def score(self, trajectories: Sequence[Trajectory]) -> list[StepScores]: ...


class FittedJudge(Saved):
    """What `judge.fit` returns."""

    name: str
    """Of the judge that it is."""
    seed: int
    """It was fitted with."""
    random_state: Tensor | None = None
    """Where the random numbers of its training ended: a learner that goes on with the same seed
    draws from there, so that a judge made beforehand and its own give the same policy."""
    unknown: Mapping[str, str] = MappingProxyType({})
    """The questions ("step", "episode") that it does not answer, because nothing is heard there,
    and why, in a sentence. Where "step" is among them every `optimality` is 0; where "episode" is,
    `quality` is None."""
    good_share: GoodShare | None = None
    """How many noisy steps are good, by those that estimate it."""
    odd: Mapping[str, str] = MappingProxyType({})
    """Clean groups (or episodes) that look odd among the clean ones, and why."""
    cautious: bool = False
    """Whether it abstains where nothing separates clean from noisy beyond chance."""
    cross_judged: CrossJudged | None = None
    """Of those that have it: the noisy steps of its own demonstrations, by folds of the clean."""

    def __repr__(self) -> str:
        heard = [s.name for s in self.signals if s.heard and s.output == "step"]
        share = self.good_share
        told = "" if share is None else f"; {share.point:.0%} of the noisy steps are good"
        between = "" if share is None else f" ({share.low:.0%} to {share.high:.0%})"
        return (
            f"Judgement by {self.name}: hears {', '.join(heard) or 'nothing'} for steps"
            f"{told}{between}\n  {self.spaces}"
        )

    @property
    @abstractmethod
    def signals(self) -> tuple[Signal, ...]:
        """What it could listen to, and what of it is heard."""

    @abstractmethod
    def judge(self, packed: Trajectories) -> JudgedSteps:
        """What it says of all steps of these trajectories, one after the other."""

    @steadily
    def score(
        self, trajectories: Sequence[Trajectory], *, device: str | None = None
    ) -> list[StepScores]:
        """How good each step of any trajectories is. Pictures are encoded on the `device`: "cpu",
        "cuda" or "auto"."""
        if not len(trajectories):
            return []
        blocks, found = pack_given(trajectories, self.spaces).blocks(_STEPS), []
        for some in blocks:
            with computing_on(device):
                seen = self.seen(some)
            found += self.judge(seen).by_trajectory(some.split_steps)
        return found

    def optimality(self, packed: Trajectories) -> Tensor:
        """The score of each step, by networks in the precision that learners train with. (N,)"""
        return torch.from_numpy(self.judge(packed).optimality)

    def known_by(self, fingerprint: str) -> Self:
        """The same judge, whose demonstrations have this fingerprint where it is used: what works
        on vectors is fitted to those that an encoder made of raw ones."""
        other = copy(self)
        if other.cross_judged is not None:
            other.cross_judged = replace(other.cross_judged, fingerprint=fingerprint)
        return other

    def likelihood(self, packed: Trajectories) -> Tensor | None:
        """`p(a_t | s_t)` under clones of the clean set, where it has any. (N,)"""
        return None

    def advice(self) -> Callable[[Tensor], Tensor] | None:
        """What it says of each action in a state: observations (B, ...) to log-odds of "good"
        (B, A), 0 where it knows nothing. None where it knows nothing anywhere."""
        return None

    def save(self, folder: str | Path) -> None:
        """Write `judge.safetensors` and `judge.json` into a folder."""
        self.write(Path(folder))

    def write(self, folder: Path, *, over: bool = False) -> None:
        """The same; `over` one that is there already."""
        about, tensors = self.sight()
        write_saved(
            folder,
            JUDGE,
            {**self.about(), **about},
            {**self.tensors(), **tensors},
            version=FORMAT_VERSION,
            over=over,
        )

    def about(self) -> dict[str, Any]:
        """All of it that is not a tensor, its encoder apart."""
        return {
            "kind": self.kind,
            "judge": self.name,
            "hyperparameters": self.hyperparameters,
            "seed": self.seed,
            "spaces": self.inner_spaces.to_json(),
            "configuration": self.configuration(),
        }


class AnyJudge(Protocol):
    """A frozen dataclass of hyper-parameters that turns demonstrations into a fitted judge."""

    @property
    def name(self) -> str: ...
    @property
    def reference(self) -> str: ...

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> FittedJudge: ...


def check_judge(demos: Demonstrations, judge: Any, seed: int) -> None:
    """Refuse what cannot be judged from: data, hyper-parameters or seed."""
    check_demonstrations(demos, judge.name)
    real = getattr(judge, "real_actions", False)
    (require_vectors if real else require_vectors_and_discrete_actions)(demos.spaces, judge.name)
    check_fields(judge, judge.name)
    check_seed(seed)
    if not len(demos.noisy):
        raise InputError(
            "there are no noisy demonstrations, so there is nothing to tell from the clean ones; "
            "give a clean and a noisy set"
        )


def rebuild_judge(
    about: dict[str, Any], tensors: dict[str, Tensor], kinds: dict[str, type[FittedJudge]]
) -> FittedJudge:
    """The inverse of `about` and `tensors`; `kinds` maps saved names to classes."""
    spaces = Spaces.from_json(about["spaces"])
    tensors = dict(tensors)
    judge = kinds[about["kind"]].build(spaces, about["configuration"], tensors)
    judge.name, judge.seed = str(about["judge"]), int(about["seed"])
    judge.hyperparameters = dict(about["hyperparameters"])
    return judge


def read_judge(
    folder: str | Path, kinds: dict[str, type[FittedJudge]], encoder: BuildEncoder
) -> FittedJudge:
    """Build the judge saved in `folder`."""
    folder = Path(folder)
    refuse_missing(folder, "`sdil judge` makes a judgement")
    what = "a finished judgement (or it was interrupted)"
    about, tensors = read_saved(folder, JUDGE, version=FORMAT_VERSION, what=what)
    try:
        sight, own = split_sight(about, tensors, encoder)
        judge = rebuild_judge(about, own, kinds)
        return judge if sight is None else judge.seeing_by(*sight)
    except NeedsFeaturesError as error:
        raise InputError(f"{folder}: {error}") from None
    except Exception as error:  # torch and dictionaries each have their own
        raise InputError(damaged(folder, JUDGE, error)) from None
