"""What is fitted on the training part: levels of treatment, imputation, scaling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdil.spaces import Array
from sdil.tasks.mimic.definitions import features
from sdil.tasks.mimic.episodes import StayEpisodes

LEVELS = 5
PREVIOUS = ("previous_fluid_level", "previous_vasopressor_level")


def action_names() -> list[str]:
    """Of the 25 actions: 0 is nothing, 1 to 4 the quarters of what is given."""
    return [
        f"fluids {fluid}, vasopressors {vasopressor}"
        for fluid in range(LEVELS)
        for vasopressor in range(LEVELS)
    ]


def observation_names() -> list[str]:
    """Of the entries of an observation, in their order."""
    return [*(feature.name for feature in features()), *PREVIOUS]


@dataclass(frozen=True)
class Preparation:
    """Numbers fitted on the training part, in the order of the features."""

    medians: Array
    """What stands for a missing value, in its own unit. (features,)"""
    means: Array
    """Of the values after imputation, and after log(1 + value) where a feature says so."""
    deviations: Array
    """Likewise; 1 where a feature never changes."""
    fluid_edges: Array
    """Quartiles of the fluid of steps with any: levels 1 to 4 lie between them. (3,)"""
    vasopressor_edges: Array
    """Likewise."""

    def levels(self, fluid: Array, vasopressor: Array) -> tuple[Array, Array]:
        """0 where nothing was given, else 1 to 4."""
        return _level(fluid, self.fluid_edges), _level(vasopressor, self.vasopressor_edges)

    def actions(self, fluid: Array, vasopressor: Array) -> Array:
        """5 x level of fluid + level of vasopressor. (steps,)"""
        fluids, vasopressors = self.levels(fluid, vasopressor)
        return LEVELS * fluids + vasopressors

    def observe(self, episodes: StayEpisodes) -> Array:
        """What learners see: imputed, scaled, the previous action last. (R, features + 2)"""
        scaled = (_spread(self._impute(episodes.states)) - self.means) / self.deviations
        previous = self.levels(episodes.fluid, episodes.vasopressor)
        columns = [scaled, *(level[:, None] / (LEVELS - 1) for level in previous)]
        return np.concatenate(columns, axis=1).astype(np.float32)

    def _impute(self, states: Array) -> Array:
        return np.where(np.isnan(states), self.medians, states)

    def to_json(self) -> dict[str, Any]:
        """For people who want the units back."""
        return {
            "features": [
                {
                    "name": feature.name,
                    "unit": feature.unit,
                    "median": float(median),
                    "log": feature.log,
                    "mean": float(mean),
                    "deviation": float(deviation),
                }
                for feature, median, mean, deviation in zip(
                    features(), self.medians, self.means, self.deviations, strict=True
                )
            ]
            + [{"name": name, "unit": "level / 4"} for name in PREVIOUS],
            "fluid_edges_ml_per_4h": self.fluid_edges.tolist(),
            "vasopressor_edges_mcg_per_kg_per_min": self.vasopressor_edges.tolist(),
            "action": "5 x fluid level + vasopressor level",
        }


def fit_preparation(episodes: StayEpisodes, training: Array) -> Preparation:
    """Fit on the stays marked in `training` (N,) and on nothing else."""
    of_training = training[episodes.stay_of_state]
    given = of_training & ~episodes.is_first_state  # what precedes a stay's steps is no step of it
    states = episodes.states[of_training].astype(float)
    medians = np.array(
        [
            np.median(column[~np.isnan(column)]) if (~np.isnan(column)).any() else 0.0
            for column in states.T
        ]
    )
    spread = _spread(np.where(np.isnan(states), medians, states))
    deviations = spread.std(axis=0)
    return Preparation(
        medians=medians,
        means=spread.mean(axis=0),
        deviations=np.where(deviations > 1e-8, deviations, 1.0),
        fluid_edges=_quartiles(episodes.fluid[given]),
        vasopressor_edges=_quartiles(episodes.vasopressor[given]),
    )


def _spread(states: Array) -> Array:
    logged = np.array([f.log for f in features()])
    return np.where(logged, np.log1p(np.where(logged, states, 0.0)), states)


def _quartiles(amounts: Array) -> Array:
    some = amounts[amounts > 0]
    return np.quantile(some, (0.25, 0.5, 0.75)) if len(some) else np.zeros(3)


def _level(amounts: Array, edges: Array) -> Array:
    return np.where(amounts > 0, 1 + np.searchsorted(edges, amounts, side="left"), 0)
