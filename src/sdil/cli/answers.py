"""What a judge answers and what it does not, as commands print it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sdil.arguments import data_of_run, read_run
from sdil.choosing import GoodShareLike
from sdil.demonstrations import Demonstrations
from sdil.formats.data import is_source, with_choices
from sdil.formats.recognise import parse_address
from sdil.judging import FittedJudge
from sdil.policy import Policy


def fitted_of(judge: FittedJudge | Policy) -> FittedJudge | None:
    """The judge itself, or that of a policy."""
    return judge.judge if isinstance(judge, Policy) else judge


def unknown_of(judge: FittedJudge | Policy) -> Mapping[str, str]:
    """The questions that it does not answer, and why."""
    fitted = fitted_of(judge)
    return MappingProxyType({}) if fitted is None else fitted.unknown


def good_share_of(judge: FittedJudge | Policy) -> GoodShareLike | None:
    """The share of noisy steps that it takes for good; None where it does not say."""
    if "step" in unknown_of(judge):
        return None
    fitted = fitted_of(judge)
    return None if fitted is None else fitted.good_share


def good_share_for(
    run: Path, judge: FittedJudge | Policy, demos: Demonstrations
) -> GoodShareLike | None:
    """The same, unless it was estimated from other demonstrations than these."""
    if (run / "run.json").exists() and read_run(run).get("fingerprint") != demos.fingerprint():
        return None
    return good_share_of(judge)


def data_for(run: Path, data: str | None, clean: str | None = None) -> str:
    """The demonstrations that `--data` names, by default what the run was made of.

    Other people's data that is only named is read as it was for the run.
    """
    if data is None:
        return with_choices(data_of_run(run), clean=clean)
    given = parse_address(data)
    if not given.choices and is_source(data) and (run / "run.json").exists():
        made_of = data_of_run(run)
        if is_source(made_of) and _same_place(parse_address(made_of).location, given.location):
            return with_choices(made_of, clean=clean)
    return with_choices(data, clean=clean)


def _same_place(one: str, other: str) -> bool:
    return one == other or Path(one).resolve() == Path(other).resolve()


def answers_of(fitted: FittedJudge) -> dict[str, Any]:
    """JSON: signals, unknown, good_share (None where it does not say) and odd."""
    share = good_share_of(fitted)
    return {
        "signals": [asdict(signal) for signal in fitted.signals],
        "unknown": dict(fitted.unknown),
        "good_share": None
        if share is None
        else {"point": share.point, "low": share.low, "high": share.high},
        "odd": dict(fitted.odd),
    }
