"""What commands say first: whether the scores mean anything on these demonstrations."""

from __future__ import annotations

from pathlib import Path

from sdil.algorithms import make_judge
from sdil.arguments import read_run
from sdil.cli.answers import fitted_of
from sdil.cli.console import print_wrapped, progress
from sdil.demonstrations import Demonstrations, split_groups
from sdil.errors import InputError
from sdil.judges.health import Health, health_of, in_halves
from sdil.judging import FittedJudge
from sdil.moved import as_now
from sdil.policy import Policy
from sdil.spaces import Array

WHAT_TO_DO = (
    "Give more clean demonstrations or groups of them, try another judge, or keep everything; "
    "--keep-share and --selection are orders and are taken as they are"
)


def health_for(
    run: Path,
    judge: FittedJudge | Policy,
    demos: Demonstrations,
    *,
    threshold: float = 0.0,
    may_refit: bool = False,
) -> Health:
    """`may_refit`: a judge that held no clean steps out is fitted anew, without each half."""
    fitted = fitted_of(judge)
    assert fitted is not None
    about = read_run(run) if (run / "run.json").exists() else None
    same = about is None or about["fingerprint"] == demos.fingerprint()
    held_some_out = isinstance(judge, FittedJudge) and fitted.name == "pu"
    valid_given = about is not None and about["valid"] is not None

    def refit(demos: Demonstrations) -> tuple[list[Array], list[FittedJudge]]:
        if held_some_out and not valid_given:  # by this split: there is nothing to fit anew
            return [split_groups(demos.clean.groups, (4.0, 1.0), seed=fitted.seed)[1]], [fitted]
        halves, found = in_halves(demos, fitted.seed), []
        with progress("judging clean groups unseen") as update:
            for number, (_, fewer) in enumerate(halves):
                update(number, len(halves))
                judge = make_judge(fitted.name, **as_now(fitted.hyperparameters))
                found.append(judge.fit(fewer, seed=fitted.seed))
        return [held for held, _ in halves], found

    free = held_some_out and not valid_given
    return health_of(
        fitted,
        demos,
        fitted_to_these=same,
        threshold=threshold,
        refit=refit if free or may_refit else None,
    )


def print_health(health: Health) -> None:
    """Before anything else."""
    for sentence in health.sentences:
        print_wrapped(sentence)


def refuse_unhealthy(health: Health) -> None:
    """A threshold that rests on nothing is refused."""
    if not health.bears_a_threshold:
        raise InputError(f"{health.sentences[0]}. Nothing was written. {WHAT_TO_DO}")
