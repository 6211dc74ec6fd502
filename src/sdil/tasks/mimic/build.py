"""From the tables of MIMIC-IV to a folder with three sets of demonstrations.

    demos/mimic/
      train/, valid/, test/   folders of demonstrations, as `sdil train --data --valid` take them
      quality.json            cohort flow, missingness, actions, outcome by SOFA
      preparation.json        features, bins, imputation and scaling, all fitted on train

Patients and stays carry running numbers; nothing in the folder leads back to MIMIC-IV's ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from sdil.demonstrations import Demonstrations, split_groups
from sdil.errors import InputError
from sdil.files import new_folder, write_json
from sdil.formats.folder import save_demonstrations, size_on_disk
from sdil.spaces import Array, Spaces
from sdil.tasks.mimic.cache import private
from sdil.tasks.mimic.cohort import cohort_flow
from sdil.tasks.mimic.episodes import StayEpisodes, load_episodes
from sdil.tasks.mimic.pipeline import Pipeline, Progress
from sdil.tasks.mimic.preparation import LEVELS, Preparation, fit_preparation
from sdil.tasks.mimic.quality import quality_report
from sdil.trajectories import Trajectory

Mortality = Literal["hospital", "90-day"]
PARTS = ("train", "valid", "test")
RATIOS = (3.0, 2.0, 5.0)
QUALITY = "quality.json"


@dataclass(frozen=True)
class Built:
    """What a build gives, before it is written."""

    parts: dict[str, Demonstrations]
    quality: dict[str, Any]
    preparation: Preparation


def build(
    pipeline: Pipeline,
    *,
    mortality: Mortality = "hospital",
    seed: int = 0,
    on_progress: Progress | None = None,
) -> Built:
    """Demonstrations of the cohort, split by patient, prepared on the training part."""
    episodes = load_episodes(pipeline, on_progress)
    died = episodes.died_in_hospital if mortality == "hospital" else episodes.died_within_days
    parts = assign_parts(episodes.subjects, died, seed)
    preparation = fit_preparation(episodes, parts == "train")
    observations = preparation.observe(episodes)
    given = ~episodes.is_first_state
    actions = preparation.actions(episodes.fluid[given], episodes.vasopressor[given])
    spaces = Spaces(
        gym.spaces.Box(-np.inf, np.inf, observations.shape[1:], np.float32),
        gym.spaces.Discrete(LEVELS * LEVELS),
    )
    trajectories = _trajectories(episodes, observations, actions, seed)
    in_use = parts[episodes.stay_of_state[given]] != "dropped"
    quality = quality_report(cohort_flow(pipeline), episodes, actions[in_use], died, parts)
    return Built(
        parts={
            part: Demonstrations(
                clean=[trajectories[i] for i in np.flatnonzero((parts == part) & ~died)],
                noisy=[trajectories[i] for i in np.flatnonzero((parts == part) & died)],
                spaces=spaces,
            )
            for part in PARTS
        },
        quality={**quality, "mortality": mortality, "seed": seed},
        preparation=preparation,
    )


def write(built: Built, out: Path, *, origin: dict[str, Any], overwrite: bool) -> None:
    """Write a build as a folder, whole or not at all; nobody but its owner may read it."""
    size = sum(size_on_disk(demos) for demos in built.parts.values())
    folder = new_folder(out.absolute(), overwrite=overwrite, marker=QUALITY, size=size)
    with private(), folder as temporary:
        for part, demos in built.parts.items():
            save_demonstrations(
                demos, temporary / part, task="mimic", origin={**origin, "part": part}
            )
        write_json(temporary / "preparation.json", built.preparation.to_json())
        write_json(temporary / QUALITY, built.quality)


def assign_parts(subjects: Array, died: Array, seed: int) -> Array:
    """train, valid, test or dropped for each stay, whole patients together. (N,)

    Survived stays are dealt 3:2:5. A death goes to training, unless its patient has been dealt to
    validation or test.
    """
    clean = np.flatnonzero(~died)
    if not len(clean):
        raise InputError("nobody in the cohort survived: there are no clean demonstrations")
    dealt = split_groups([str(s) for s in subjects[clean]], RATIOS, seed=seed)
    parts = np.full(len(subjects), "train", dtype="<U7")
    for part, members in zip(PARTS, dealt, strict=True):
        parts[clean[members]] = part
    held_out = np.isin(subjects, subjects[~died & (parts != "train")])
    parts[died & held_out] = "dropped"
    return parts


def _trajectories(
    episodes: StayEpisodes, observations: Array, actions: Array, seed: int
) -> list[Trajectory]:
    draw = np.random.default_rng([seed, 1])  # running numbers say nothing of MIMIC-IV's order
    patient = draw.permutation(int(episodes.subjects.max()) + 1)
    stay = draw.permutation(len(episodes.lengths))
    row = np.cumsum(episodes.lengths + 1) - (episodes.lengths + 1)
    step = np.cumsum(episodes.lengths) - episodes.lengths
    return [
        Trajectory(
            observations=observations[row[i] : row[i] + length + 1],
            actions=actions[step[i] : step[i] + length],
            terminated=False,  # the window ends, not the illness
            id=f"stay-{stay[i]}",
            group=f"patient-{patient[episodes.subjects[i]]}",
        )
        for i, length in enumerate(episodes.lengths)
    ]
