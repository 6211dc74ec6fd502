"""Are skills found where there are some, do they agree across seeds, and do they earn anything?

    python benchmarks/skills.py                        # for docs/skills.md
    python benchmarks/skills.py --seeds 120 121 122    # development seeds, for choosing
    python benchmarks/skills.py --earning              # discovery alone: minutes

On the task errands (`tasks/errands.py`), whose truth says which sub-skill each step is. First,
skills are discovered, without a judge or a policy, and compared with the truth on demonstrations
that nobody learned from. Then policies are trained, those of one seed on the same demonstrations
and with the same judge; of SDIL's it is also told how well `f_uni`, which acts and sees nothing
ahead, knows the sub-skill.
"""

from __future__ import annotations

import sys
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
from sdil.demonstrations import Demonstrations, pack_given
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.policy import Policy
from sdil.skills.stretches import lasting_inputs
from sdil.spaces import Array, Spaces
from sdil.tasks.errands import table
from sdil.tasks.errands_people import AIMLESS
from sdil.trajectories import Trajectory
from sdil.windows import Windows

WAYS = ("greedy", "without-circles")
UNSEEN = 70_000  # the seed of the demonstrations that skills are compared on
N_TRUE = AIMLESS + 1
AHEAD = {
    "states": 0,
    "states 5 steps ahead": 5,
    "states 10 steps ahead": 10,
    "ends of stretches": -1,
}
"""What plain k-means is given, as many clusters as there are sub-skills."""
BLIND = f"stretches, {N_TRUE}, hand not seen"
EARNING = (
    *("BC, clean", "BC, pooled", "scored BC", "scored BC, 5 steps back"),
    *("SDIL, steps, 1", "SDIL, steps, 8"),
    *(f"SDIL, stretches, {k}" for k in (2, 4, 7, 8, 16)),
)
HAND = 6  # the entry of an observation that says whether the hand is full


def find_skills(
    kinds: Sequence[str], clean: int, noisy: int, unseen: int, seed: int
) -> list[dict[str, Any]]:
    """Skills of one seed, discovered in different ways: "stretches, 7" are seven of stretches."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of skills that collapse: the table says it
    demos, _ = sdil.get_task("errands").collect(clean=clean, noisy=noisy, seed=seed)
    recorded, true = _unseen(unseen)
    named = true != AIMLESS
    rows = []
    for kind in (*AHEAD, *kinds, BLIND):
        told = _told(kind, demos, recorded, seed)
        row = {
            "seed": seed,
            "kind": kind,
            "truth": _rand(true, told),
            "named": _rand(true[named], told[named]),
            "skills": told.tolist(),
        }
        if kind == "states":
            seen = np.concatenate([each.observations[: len(each)] for each in recorded])
            row["single"] = max(_rand(true, column.astype(int)) for column in seen.T)
        rows.append(row)
    return rows


def _unseen(count: int) -> tuple[list[Trajectory], Array]:
    """The same for all: demonstrations, and the sub-skill of each of their steps."""
    task = sdil.get_task("errands")
    demos, truth = task.collect(clean=max(1, count // 10), noisy=count, seed=UNSEEN)
    assert truth.clean_skill is not None
    assert truth.noisy_skill is not None
    true = np.concatenate([*truth.clean_skill, *truth.noisy_skill])
    return [*demos.clean, *demos.noisy], true


def _told(kind: str, demos: Demonstrations, recorded: list[Trajectory], seed: int) -> Array:
    """The skill of each recorded step. (N,)"""
    if kind in AHEAD:
        given, asked = (_ahead(some, AHEAD[kind]) for some in (demos.all, recorded))
        middle, spread = given.mean(0), np.maximum(given.std(0), 1e-6)
        means = KMeans(N_TRUE, n_init=3, random_state=seed).fit((given - middle) / spread)
        found: Array = means.predict((asked - middle) / spread)
        return found
    way, count = kind.split(", ")[:2]
    if kind == BLIND:
        demos = Demonstrations(_without_hand(demos.clean), _without_hand(demos.noisy))
        recorded = _without_hand(recorded)
    judge = sdil.PU(skills_from=way, n_skills=int(count)).fit(demos, seed=seed)  # type: ignore[arg-type]
    return np.concatenate([scores.skill for scores in judge.score(recorded)])


def _ahead(episodes: Any, steps: int) -> Array:
    """The states so many steps ahead, or the episode's last; -1: in which stretches end. (N, 13)"""
    if steps >= 0:
        ahead = [e.observations[np.minimum(np.arange(len(e)) + steps, len(e))] for e in episodes]
        return np.concatenate(ahead)
    windows = Windows(pack_given(list(episodes), table().spaces), 0)
    ends = windows.until_change(lasting_inputs(windows))
    return ends.next_states_at(torch.arange(len(windows)))[0].numpy()


def _without_hand(episodes: Any) -> list[Trajectory]:
    return [
        Trajectory(np.delete(e.observations, HAND, 1), e.actions, e.rewards, e.terminated, e.id)
        for e in episodes
    ]


def earn(
    names: Sequence[str], clean: int, noisy: int, unseen: int, episodes: int, seed: int
) -> list[dict[str, Any]]:
    """Policies of one seed."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    demos, _ = sdil.get_task("errands").collect(clean=clean, noisy=noisy, seed=seed)
    recorded, true = _unseen(unseen)
    judge = sdil.Judge().fit(demos, seed=seed)
    rows = []
    for name in names:
        learner = _learner(name)
        given = demos.clean_only() if name == "BC, clean" else demos
        more = {"judge": judge} if learner.takes_judge else {}
        policy: Policy = learner.fit(given, seed=seed, **more)
        row: dict[str, Any] = {"seed": seed, "learner": name}
        for way in WAYS:
            ran = sdil.evaluate(policy, "errands", seed=seed, episodes=episodes, acting=way)
            row[way] = 100 * ran.reward_mean
        if isinstance(policy, HierarchicalPolicy):
            row["believed"] = _rand(true, _believed(policy, recorded, demos.spaces))
        print(row, file=sys.stderr, flush=True)
        rows.append(row)
    return rows


def _learner(name: str) -> Any:
    if name.startswith("scored BC"):
        return sdil.ScoredBC(look_back=5 if "back" in name else 0)
    if name.startswith("BC"):
        return sdil.BC()
    _, kind, count = name.split(", ")
    return sdil.SDIL(skills_from=kind, n_skills=int(count))  # type: ignore[arg-type]


def _believed(policy: HierarchicalPolicy, recorded: list[Trajectory], spaces: Spaces) -> Array:
    """The likeliest skill of each step by `f_uni`. (N,)"""
    windows = Windows(pack_given(recorded, spaces), policy.look_back, policy.inputs)
    found: Array = policy._acting.selection_of_all(windows).argmax(1).numpy()
    return found


def _rand(one: Array, other: Array) -> float:
    return float(adjusted_rand_score(one, other))


def main(
    clean: int = 10,
    noisy: int = 300,
    steps: tuple[int, ...] = (7,),
    stretches: tuple[int, ...] = (2, 4, 6, 7, 8, 16),
    earning: tuple[str, ...] = EARNING,
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
        steps: Numbers of skills of single steps, as in the paper, that are discovered.
        stretches: Numbers of skills of stretches that are.
        earning: Learners whose reward is measured, such as "SDIL, stretches, 7".
        seeds: 120 and more are for development.
        unseen: Noisy demonstrations, and a tenth as many clean ones, that skills are compared on.
        episodes: For the reward.
        workers: Processes.
        json: Save everything to this file.
    """
    about = begin(clean=clean, noisy=noisy, seeds=list(seeds), unseen=unseen, episodes=episodes)
    sizes = clean, noisy, unseen
    kinds = [*(f"steps, {k}" for k in steps), *(f"stretches, {k}" for k in stretches)]
    cells = measure_all(find_skills, [(kinds, *sizes, seed) for seed in seeds], workers)
    found = [row for some in cells for row in some]
    targets = _tell_found(found, [*AHEAD, *kinds, BLIND])
    earned = []
    if earning:
        asked = [(earning, *sizes, episodes, seed) for seed in seeds]
        earned = [row for some in measure_all(earn, asked, workers) for row in some]
        _tell_earned(earned, earning)
    for row in found:
        row.pop("skills")
    finish(about, [*found, *earned], targets, json)


def _tell_found(rows: list[dict[str, Any]], kinds: Sequence[str]) -> list[Target]:
    lines, targets = [], []
    for kind in kinds:
        mine = [row for row in rows if row["kind"] == kind]
        pairs = [_rand(a["skills"], b["skills"]) for a, b in combinations(mine, 2)]
        across = float(np.mean(pairs or [1.0]))
        truth = float(np.mean([row["truth"] for row in mine]))
        least = min(row["truth"] for row in mine)
        named = np.mean([row["named"] for row in mine])
        lines.append((kind, f"{truth:.2f}", f"{least:.2f}", f"{named:.2f}", f"{across:.2f}"))
        if kind == f"stretches, {N_TRUE}":
            targets = [
                Target(f"{kind}: Rand index against the truth", truth, at_least=0.6),
                Target(f"{kind}: Rand index across seeds", across, at_least=0.5),
            ]
    titles = ("skills", "Rand, truth", "lowest", "aimless steps apart", "across seeds")
    print(markdown(titles, lines))
    single = np.mean([row["single"] for row in rows if "single" in row])
    print(f"the single input that tells most: {single:.2f}\n", flush=True)
    return targets


def _tell_earned(rows: list[dict[str, Any]], names: Sequence[str]) -> None:
    of = {name: [row for row in rows if row["learner"] == name] for name in names}
    base = np.array([row[WAYS[1]] for row in of.get("scored BC", of[names[0]])])
    lines = []
    for name in names:
        means = (f"{np.mean([row[way] for row in of[name]]):.1f}" for way in WAYS)
        ahead = paired_interval(np.array([row[WAYS[1]] for row in of[name]]) - base)
        believed = [row["believed"] for row in of[name] if "believed" in row]
        lines.append((name, *means, ahead, f"{np.mean(believed):.2f}" if believed else ""))
    against = "against scored BC, without circles"
    print(markdown(("learner", *WAYS, against, "Rand, what acts"), lines))


if __name__ == "__main__":
    tyro.cli(main)
