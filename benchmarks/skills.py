"""Are skills found where there are some, do they agree across seeds, and do they earn anything?

    python benchmarks/skills.py                                  # for docs/skills.md
    python benchmarks/skills.py --seeds 120 121 122              # development seeds, for choosing

On the task errands (`tasks/errands.py`), whose truth says which sub-skill each step is. Every
learner of a seed is given the same demonstrations and, where it takes one, the same judge. Skills
are compared with the truth on demonstrations that no learner saw: those of `f_bi`, which looks
ahead, and those that `f_uni`, which acts, believes in.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import sdil
from common.report import Target, begin, finish, markdown, measure_all, paired_interval
from sdil.demonstrations import pack_given
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.policy import Policy
from sdil.spaces import Array
from sdil.tasks.errands_people import AIMLESS
from sdil.trajectories import Trajectory
from sdil.windows import Windows

WAYS = ("greedy", "without-circles")
UNSEEN = 70_000  # added to the seed of demonstrations that skills are compared on
NAIVE = "k-means of states"


def make(name: str) -> Any:
    """The learner of a row: "SDIL, stretches, 7" has seven skills."""
    if name == "scored BC":
        return sdil.ScoredBC()
    if name.startswith("BC"):
        return sdil.BC()
    _, kind, count = name.split(", ")
    return sdil.SDIL(skills_from=kind, n_skills=int(count))  # type: ignore[arg-type]


def run_cell(
    names: Sequence[str], clean: int, noisy: int, unseen: int, episodes: int, seed: int
) -> list[dict[str, Any]]:
    """All learners on one seed."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of skills that collapse: the table says it
    task = sdil.get_task("errands")
    demos, _ = task.collect(clean=clean, noisy=noisy, seed=seed)
    seen, truth = task.collect(clean=unseen // 10, noisy=unseen, seed=UNSEEN)  # the same for all
    recorded = [*seen.clean, *seen.noisy]
    assert truth.clean_skill is not None
    assert truth.noisy_skill is not None
    true = np.concatenate([*truth.clean_skill, *truth.noisy_skill])
    judge = sdil.Judge().fit(demos, seed=seed)
    rows = [_naive(demos, recorded, true, seed)]
    for name in names:
        learner = make(name)
        given = demos.clean_only() if name == "BC, clean" else demos
        more = {"judge": judge} if learner.takes_judge else {}
        policy: Policy = learner.fit(given, seed=seed, **more)
        row: dict[str, Any] = {"seed": seed, "learner": name}
        for way in WAYS:
            ran = sdil.evaluate(policy, "errands", seed=seed, episodes=episodes, acting=way)
            row[way] = 100 * ran.reward_mean
        if isinstance(policy, HierarchicalPolicy):
            told = np.concatenate([scores.skill for scores in policy.score(recorded)])
            row |= _agreement(true, told) | {"believed": _rand(true, _believed(policy, recorded))}
        rows.append(row)
    return rows


def _naive(demos: Any, recorded: list[Trajectory], true: Array, seed: int) -> dict[str, Any]:
    """Clusters of single states, as many as there are sub-skills."""
    states = np.concatenate(
        [each.observations[: len(each)] for each in [*demos.clean, *demos.noisy]]
    )
    middle, spread = states.mean(0), np.maximum(states.std(0), 1e-6)
    means = KMeans(AIMLESS + 1, n_init=10, random_state=seed).fit((states - middle) / spread)
    asked = np.concatenate([each.observations[: len(each)] for each in recorded])
    told = means.predict((asked - middle) / spread)
    single = max(_rand(true, column.astype(int)) for column in asked.T)
    return {"seed": seed, "learner": NAIVE, "single": single} | _agreement(true, told)


def _believed(policy: HierarchicalPolicy, recorded: list[Trajectory]) -> Array:
    """The likeliest skill of each step by `f_uni`, which sees nothing ahead. (N,)"""
    windows = Windows(pack_given(recorded, policy.spaces), policy.look_back, policy.inputs)
    found: Array = policy._acting.selection_of_all(windows).argmax(1).numpy()
    return found


def _agreement(true: Array, told: Array) -> dict[str, Any]:
    named = true != AIMLESS
    return {
        "truth": _rand(true, told),
        "named": _rand(true[named], told[named]),
        "skills": told.tolist(),
    }


def _rand(one: Array, other: Array) -> float:
    return float(adjusted_rand_score(one, other))


def main(
    clean: int = 10,
    noisy: int = 300,
    steps: tuple[int, ...] = (1, 7, 8),
    stretches: tuple[int, ...] = (2, 4, 7, 8, 16),
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    unseen: int = 100,
    episodes: int = 500,
    workers: int = 1,
    json: Path | None = None,
) -> None:
    """Measure, and print Markdown tables.

    Args:
        clean: Clean demonstrations.
        noisy: Noisy ones.
        steps: Numbers of skills of single steps, as in the paper.
        stretches: Numbers of skills of stretches.
        seeds: 120 and more are for development.
        unseen: Noisy demonstrations, and a tenth as many clean ones, that skills are compared on.
        episodes: For the reward.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(clean=clean, noisy=noisy, seeds=list(seeds), unseen=unseen, episodes=episodes)
    names = [
        *("BC, clean", "BC, pooled", "scored BC"),
        *(f"SDIL, steps, {k}" for k in steps),
        *(f"SDIL, stretches, {k}" for k in stretches),
    ]
    asked = [(names, clean, noisy, unseen, episodes, seed) for seed in seeds]
    cells = [row for some in measure_all(run_cell, asked, workers) for row in some]
    of = {name: [row for row in cells if row["learner"] == name] for name in (NAIVE, *names)}
    across = {name: _across(rows) for name, rows in of.items() if "skills" in rows[0]}
    found = [
        (
            name,
            *(_mean(of[name], what) for what in ("truth", "named")),
            f"{value:.2f}",
            _mean(of[name], "believed"),
        )
        for name, value in across.items()
    ]
    titles = ("skills", "Rand, truth", "without aimless", "across seeds", "by what acts")
    print(markdown(titles, found))
    print(f"the best single input: {_mean(of[NAIVE], 'single')}\n")
    base = np.array([row[WAYS[1]] for row in of["scored BC"]])
    earned = [
        (
            name,
            *(f"{np.mean([r[way] for r in of[name]]):.1f}" for way in WAYS),
            paired_interval(np.array([r[WAYS[1]] for r in of[name]]) - base),
        )
        for name in names
    ]
    print(markdown(("learner", *WAYS, "against scored BC, without circles"), earned))
    targets = []
    best = f"SDIL, stretches, {AIMLESS + 1}"
    if best in across:
        rand = float(np.mean([row["truth"] for row in of[best]]))
        targets.append(Target(f"{best}: Rand index against the truth", rand, at_least=0.6))
        if len(seeds) > 1:
            targets.append(Target(f"{best}: across seeds", across[best], at_least=0.5))
    for row in cells:
        row.pop("skills", None)
    finish(about, cells, targets, json)


def _across(rows: list[dict[str, Any]]) -> float:
    """The mean over pairs of seeds; 1 where there is a single one."""
    pairs = combinations([row["skills"] for row in rows], 2)
    return float(np.mean([_rand(np.array(a), np.array(b)) for a, b in pairs] or [1.0]))


def _mean(rows: list[dict[str, Any]], what: str) -> str:
    return f"{np.mean([row[what] for row in rows]):.2f}" if what in rows[0] else ""


if __name__ == "__main__":
    tyro.cli(main)
