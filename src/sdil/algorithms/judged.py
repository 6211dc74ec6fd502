"""What learners have in common that use a judge: where it comes from, and a draw by its scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor

from sdil.algorithms.shared import once
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.judges.fitted import EvidenceJudge
from sdil.judges.judge import Judge
from sdil.judging import FittedJudge
from sdil.states import State, below, nest
from sdil.training import OnEpoch, with_more

UNUSED = (
    "a judge is given that would not be asked: there are no noisy demonstrations, or "
    'score="pu" lets skills judge'
)


def given_or_own(
    judge: FittedJudge | None,
    demos: Demonstrations,
    valid: Demonstrations | None,
    seed: int,
    on_epoch: OnEpoch | None,
    resume: State | None,
) -> tuple[FittedJudge, OnEpoch | None, State | None]:
    """The judge that is given, or our own, fitted now; and the listener and the state to resume
    from of what comes after it.
    """
    if judge is not None:
        if judge.spaces != demos.spaces:
            raise InputError(
                f"the judge was fitted to demonstrations with other spaces: {judge.spaces}, "
                f"not {demos.spaces}"
            )
        return judge, on_epoch, resume
    own, rest = Judge(), None
    found = {} if resume is None else below(resume, "judge")
    fitted: FittedJudge
    if found:  # it was fitted before the interruption
        fitted = EvidenceJudge.build(demos.spaces, {}, found)
        fitted.hyperparameters, fitted.seed = asdict(own), seed
        assert resume is not None
        rest = below(resume, "own")
    elif resume is not None:
        fitted = _fit(own, demos, valid, seed, on_epoch, resume)
    else:
        of = partial(fingerprints, demos, valid)
        fitted = once(of, (own, seed), lambda: _fit(own, demos, valid, seed, on_epoch))
    return fitted, with_more(on_epoch, lambda: nest("judge", fitted.tensors())), rest


def fingerprints(demos: Demonstrations, valid: Demonstrations | None) -> tuple[str, str]:
    """What tells what a judge is fitted to from anything else."""
    return demos.fingerprint(), "" if valid is None else valid.fingerprint()


def _fit(
    own: Judge,
    demos: Demonstrations,
    valid: Demonstrations | None,
    seed: int,
    on_epoch: OnEpoch | None,
    resume: State | None = None,
) -> FittedJudge:
    with warnings.catch_warnings():  # the learner itself says what there is to say of the data
        warnings.filterwarnings("ignore", "one clean trajectory")
        return own.fit(demos, valid=valid, seed=seed, on_epoch=on_epoch, resume=resume)


def draw_after(judge: FittedJudge | None, seed: int, generator: torch.Generator) -> None:
    """Draw on where a judge of the same seed ended, so that one that is made beforehand and the
    learner's own give the same policy."""
    if judge is not None and judge.seed == seed and judge.random_state is not None:
        generator.set_state(judge.random_state)


def draw_share(
    share: float, judge: FittedJudge, demos: Demonstrations, generator: torch.Generator
) -> Callable[[int], Tensor]:
    """Draws numbers of steps, clean ones first: a fixed share of them noisy ones by their score."""
    n_clean = demos.clean.n_steps
    likelihood = judge.likelihood(demos.all)
    also = None if likelihood is None else likelihood[n_clean:]
    by_score = draw_by_score(judge.optimality(demos.all)[n_clean:], also, generator)

    def draw(count: int) -> Tensor:
        n_noisy = round(share * count)
        clean = torch.randint(n_clean, (count - n_noisy,), generator=generator)
        return torch.cat([clean, n_clean + by_score(n_noisy)])

    return draw


def draw_by_weight(
    weights: Tensor, n_clean: int, generator: torch.Generator
) -> Callable[[int], Tensor]:
    """Draws numbers of steps, clean ones first, which weigh 1; `weights` are of noisy ones."""
    ladder = torch.cat([torch.ones(n_clean, dtype=torch.float64), weights.double()]).cumsum(0)

    def draw(count: int) -> Tensor:
        luck = torch.rand(count, dtype=torch.float64, generator=generator) * ladder[-1]
        return torch.searchsorted(ladder, luck, right=True).clamp(max=len(ladder) - 1)

    return draw


def draw_by_score(
    scores: Tensor, likelihood: Tensor | None, generator: torch.Generator
) -> Callable[[int], Tensor]:
    """Draws noisy steps with weight p^2 + l, where p is the probability that a step is good. (N,)

    Doubtful steps are drawn seldom, not never: where no step is surely good, a doubtful one still
    says more of what to do there than nothing. l is the likelihood `p(a_t | s_t)` under clones of
    the clean set, once more and by itself: it keeps the policy near what clean demonstrations would
    do wherever a noisy one went, so that a few steps trusted by mistake do not decide there alone.
    """
    weights = ((1.0 + scores.double()) / 2.0).clamp(min=1e-3).square()
    reached = (weights if likelihood is None else weights + likelihood).cumsum(0)
    reached = reached / reached[-1]

    def draw(count: int) -> Tensor:
        drawn = torch.rand(count, dtype=torch.float64, generator=generator)
        return torch.searchsorted(reached, drawn).clamp(max=len(reached) - 1)

    return draw
