"""The records of the cohort as arrays: states with their gaps, treatments, outcomes.

A state is what was known at the beginning of a step: means of the four hours before it, then values
held for as long as features.csv allows. Nothing measured during a step is in its state, so an
action never shows in the state it is chosen in.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdil.errors import InputError
from sdil.formats.sql import quoted_text
from sdil.spaces import Array
from sdil.tasks.mimic.definitions import features, windows
from sdil.tasks.mimic.pipeline import Pipeline, Progress
from sdil.tasks.mimic.sources import EXPECTED

_STATIC = ("age", "female", "weight", "charlson")


@dataclass(frozen=True)
class StayEpisodes:
    """N stays with their steps end to end: S steps and R = S + N states, by stay id."""

    subjects: Array
    """Which patient, as a number from 0 on. (N,)"""
    died_in_hospital: Array
    """(N,) bool"""
    died_within_days: Array
    """Within the days of windows.csv. (N,) bool"""
    highest_sofa: Array
    """In the hours around onset that SOFA counts in. (N,)"""
    lengths: Array
    """Steps of each stay. (N,)"""
    states: Array
    """In their own units, NaN where nothing is known. (R, features)"""
    measured: Array
    """Was it measured in the four hours before? (R, features) bool"""
    fluid: Array
    """Tonicity-adjusted mL in the four hours before each state. (R,)"""
    vasopressor: Array
    """Highest rate in the four hours before each state, mcg/kg/min of norepinephrine. (R,)"""

    @property
    def stay_of_state(self) -> Array:
        """(R,)"""
        return np.repeat(np.arange(len(self.lengths)), self.lengths + 1)

    @property
    def is_first_state(self) -> Array:
        """(R,) bool"""
        first = np.zeros(len(self.states), bool)
        first[np.cumsum(self.lengths + 1) - (self.lengths + 1)] = True
        return first


def load_episodes(pipeline: Pipeline, on_progress: Progress | None = None) -> StayEpisodes:
    """Run what is not computed yet, and read the cohort's records."""
    pipeline.run(["states", "treatments", "patients_of_steps"], on_progress)
    who = pipeline.fetch("SELECT * FROM patients_of_steps ORDER BY stay_id", "patients_of_steps")
    stays = np.asarray(who["stay_id"])
    if not len(stays):
        raise InputError(
            "the cohort is empty: no ICU stay with sepsis has a whole 4-hour step around onset; "
            f"`sdil mimic cohort` says why stays are left out ({EXPECTED})"
        )
    first, last = np.asarray(who["first_step"]), np.asarray(who["last_state"])
    filled, measured = _states(pipeline, stays)
    steps = windows()["step"]
    back = max(f.hold_hours for f in features()) // steps
    names = [f.name for f in features()]
    # the states of each stay from its first to its last, end to end
    row = np.repeat(np.arange(len(stays)), last - first + 1)
    begins = np.cumsum(last - first + 1) - (last - first + 1)
    state = np.arange(len(row)) - begins[row] + first[row]
    states, measured = filled[row, state + back], measured[row, state + back]
    for name in _STATIC:
        column = names.index(name)
        values = np.ma.filled(np.ma.asarray(who[name]).astype(float), np.nan)
        limits = features()[column]
        values[(values < limits.low) | (values > limits.high)] = np.nan
        states[:, column] = values[row]
        measured[:, column] = np.isfinite(values[row])
    fluid, vasopressor = _treatments(pipeline, len(row))
    column = names.index("fluid_4h")  # known for certain: what is not charted was not given
    states[:, column] = np.minimum(fluid, features()[column].high)
    measured[:, column] = True
    _, subjects = np.unique(np.asarray(who["subject_id"]), return_inverse=True)
    return StayEpisodes(
        subjects=subjects,
        died_in_hospital=np.asarray(who["died_in_hospital"], bool),
        died_within_days=np.asarray(who["died_within_days"], bool),
        highest_sofa=np.asarray(who["highest_sofa"]),
        lengths=last - first,
        states=states,
        measured=measured,
        fluid=fluid,
        vasopressor=vasopressor,
    )


def _states(pipeline: Pipeline, stays: Array) -> tuple[Array, Array]:
    """Measured values on the whole grid, then held. (N, states, features) twice"""
    spans = windows()
    step = spans["step"]
    back = max(f.hold_hours for f in features()) // step
    count = back + (spans["steps_before"] + spans["steps_after"]) // step + 1
    order = {f.name: i for i, f in enumerate(features())}
    names = ", ".join(map(quoted_text, order))
    found = pipeline.fetch(  # names become numbers there: millions of strings would not fit here
        f"SELECT stay_id, state, CAST(list_position([{names}], variable) - 1 AS SMALLINT) AS at, "
        "CAST(value AS FLOAT) AS value FROM states",
        "states",
    )
    values = np.full((len(stays), count, len(order)), np.nan, np.float32)
    rows = np.searchsorted(stays, np.asarray(found["stay_id"]))
    values[rows, np.asarray(found["state"]) + back, np.asarray(found["at"])] = found["value"]
    measured = np.isfinite(values)
    for column, feature in enumerate(features()):
        hold = feature.hold_hours // step
        age = np.full(len(stays), hold + 1)  # states since the value was measured
        for t in range(count):
            age = np.where(measured[:, t, column], 0, age + 1)
            held = (age > 0) & (age <= hold)
            if t:
                values[held, t, column] = values[held, t - 1, column]
    return values, measured


def _treatments(pipeline: Pipeline, expected: int) -> tuple[Array, Array]:
    """What was given in the step before each state: the first one of a stay precedes its steps."""
    found = pipeline.fetch(
        "SELECT fluid, vasopressor FROM treatments ORDER BY stay_id, step", "treatments"
    )
    fluid, vasopressor = (np.asarray(found[name], float) for name in ("fluid", "vasopressor"))
    assert len(fluid) == expected
    return fluid, vasopressor
