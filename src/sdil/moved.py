"""Fields that learners no longer have, and where what they did is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sdil.errors import InputError

_THE_JUDGES = (
    "it belongs to the judge. From Python: judge = sdil.Judge({name}=...).fit(demos), then "
    "fit(demos, judge=judge); on the command line: sdil judge --{option} ..., then sdil train "
    '... --judge FOLDER; in a study: judge = "evidence", judge_fields = {{ {name} = ... }}'
)
_ACTING = (
    "how a policy acts is no matter of its learner. From Python: policy.acting_by([{rule}]), or "
    'sdil.evaluate(policy, ..., acting="{way}"); on the command line: sdil evaluate shows each way '
    "of acting, and --acting {way} measures that one alone"
)
_JUDGING = {
    name: _THE_JUDGES.format(name=name, option=name.replace("_", "-"))
    for name in ("signals", "good_share", "clone_updates", "distance_updates")
}
MOVED: dict[str, dict[str, str]] = {
    "scored-bc": _JUDGING,
    "sdil": {
        **_JUDGING,
        "memory": _ACTING.format(rule="sdil.WithoutCircles(memory=...)", way="without-circles"),
        "value_weight": _ACTING.format(rule="sdil.ListenToValue(weight=...)", way="value"),
    },
}
"""By learner and field."""
_GONE = {"score_by_likelihood": False}
"""Fields that files of before note, and what they must have been: `scored` is more than that."""


def refuse_moved(learner: str, given: Iterable[str]) -> None:
    """Refuse fields that have another place now, and say which."""
    for name in given:
        if name in MOVED.get(learner, {}):
            raise InputError(f"{learner} has no field {name!r} any more: {MOVED[learner][name]}")


def as_now(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as a file of before notes them, without those that are gone."""
    for name, default in _GONE.items():
        if fields.get(name, default) != default:
            raise InputError(f"made by an earlier version, with {name}; begin anew")
    return {name: value for name, value in fields.items() if name not in _GONE}
