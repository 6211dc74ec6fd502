"""What the demonstrators of clean episodes earn: a line in figures of rewards.

Exact, nobody acts: the share of episodes in each state is carried forward, step by step.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sdil.spaces import Array
from sdil.studies.grid import Study
from sdil.table import Table
from sdil.tasks import TASK_NAMES, get_task

_EPISODES, _STARTS = 20_000, 1_000  # a cell's episodes: added to its seed, and how many


def expert_rewards(study: Study) -> dict[str, float]:
    """By task, from the starts of the study's own episodes; not of tasks that must be run."""
    seeds = sorted({entry.cell.seed for entry in study.entries})
    found = {task: expert_reward(task, seeds) for task in study.tasks if task in TASK_NAMES}
    return {task: reward for task, reward in found.items() if reward is not None}


def expert_reward(name: str, seeds: Iterable[int]) -> float | None:
    """What the planner earns with the random steps of clean demonstrations; None if not known.

    Clean sets leave out its episodes that fail or are slow; here they count.
    """
    from sdil.evaluation.rollout import episode_seeds
    from sdil.tasks.task import Task

    if name == "sepsis":
        return _survival()
    task = get_task(name)
    if not isinstance(task, Task):
        return None
    table = task.table()
    if table is None:
        return None
    starts = [
        table.start_state(int(each))
        for seed in seeds
        for each in episode_seeds(_EPISODES + seed, _STARTS)
    ]
    by_chance = np.bincount(task.actions, minlength=table.next_state.shape[1]) / len(task.actions)
    planned = np.eye(len(by_chance))[np.argmax(table.good, 1)]  # as `planner` chooses
    careless = task.clean.random_steps
    return walk_exactly(table, (1 - careless) * planned + careless * by_chance, np.array(starts))


def walk_exactly(table: Table, action_probs: Array, starts: Array) -> float:
    """The mean reward of a policy (S, A) over episodes from these states (n,)."""
    share: Array = np.bincount(starts, minlength=len(table)) / len(starts)  # of episodes, by state
    earned = 0.0
    for step in range(1, table.horizon + 1):
        taken = share[:, None] * action_probs
        earned += float((taken * table.reward_at(table.reward, step)).sum())
        going_on = np.where(table.end, 0.0, taken)
        share = np.bincount(table.next_state.ravel(), going_on.ravel(), minlength=len(table))
    return earned


def _survival() -> float:
    """Of sepsis, where chance decides: the optimal policy with the random steps of clean ones."""
    from sdil.tasks.sepsis import TASK, sepsis_model

    model = sepsis_model()
    best = model.always(model.optimal_actions)
    probs = TASK.demonstrator(best, TASK.clean_random_steps, None)
    return float(model.arrivals(probs, model.visits(probs)) @ model.reward)
