"""Data of several tasks: which task it is becomes an input like any other.

One number per task is appended to every observation, 1 for the task at hand and 0 for the others.
Learners and judges need no more than that; a policy that acts is told the task in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array, Spaces
from sdil.trajectories import Trajectories, Trajectory


def join_tasks(tasks: Mapping[str, Demonstrations]) -> Demonstrations:
    """The demonstrations of several tasks as one data set, each observation with its task.

    Observations of all are vectors of one length, and actions are of one space. Episodes are called
    "TASK/ID" and groups "TASK/GROUP", so that none are taken for one another.
    """
    names = list(tasks)
    if not names:
        raise InputError("there is no task: give a dictionary of names and demonstrations")
    first = tasks[names[0]].spaces
    for name, demos in tasks.items():
        box = demos.spaces.observation
        if not isinstance(box, gym.spaces.Box) or len(box.shape) != 1:
            raise InputError(f"task {name!r}: its observations are {box}, not vectors")
        if box.shape != first.observation.shape or demos.spaces.action != first.action:
            raise InputError(
                f"task {name!r} has observations {box} and actions {demos.spaces.action}, but task "
                f"{names[0]!r} has {first.observation} and {first.action}: give all of them the "
                "same spaces"
            )
    clean, noisy = (
        [t for name, demos in tasks.items() for t in _told(getattr(demos, which), name, names)]
        for which in ("clean", "noisy")
    )
    return Demonstrations(clean, noisy, Spaces(_observation([*tasks.values()]), first.action))


def tell_task(observations: Array, task: str, tasks: Sequence[str]) -> Array:
    """Observations (..., size) with the task appended: (..., size + number of tasks)."""
    if task not in tasks:
        raise InputError(f"there is no task {task!r}; there are {', '.join(tasks)}")
    seen = np.asarray(observations)
    told = np.zeros((*seen.shape[:-1], len(tasks)), seen.dtype)
    told[..., list(tasks).index(task)] = 1
    return np.concatenate([seen, told], -1)


class TellTask(gym.ObservationWrapper[Array, Any, Array]):
    """An environment of one of several tasks, whose observations say which."""

    def __init__(self, env: gym.Env[Array, Any], task: str, tasks: Sequence[str]) -> None:
        super().__init__(env)
        self.task, self.tasks = task, tuple(tasks)
        assert isinstance(env.observation_space, gym.spaces.Box)
        self.observation_space = _widened([env.observation_space], len(self.tasks))

    def observation(self, observation: Array) -> Array:
        return tell_task(observation, self.task, self.tasks)


def _told(trajectories: Trajectories, name: str, names: Sequence[str]) -> list[Trajectory]:
    return [
        Trajectory(
            tell_task(t.observations, name, names),
            t.actions,
            t.rewards,
            t.terminated,
            f"{name}/{t.id}",
            None if t.group is None else f"{name}/{t.group}",
        )
        for t in trajectories
    ]


def _observation(tasks: Sequence[Demonstrations]) -> gym.spaces.Box:
    boxes = [demos.spaces.observation for demos in tasks]
    return _widened([box for box in boxes if isinstance(box, gym.spaces.Box)], len(tasks))


def _widened(boxes: Sequence[gym.spaces.Box], n: int) -> gym.spaces.Box:
    """The smallest box around all of them, and n numbers from 0 to 1 more."""
    low = np.min([box.low for box in boxes], 0)
    high = np.max([box.high for box in boxes], 0)
    number = np.result_type(*(box.dtype for box in boxes))
    return gym.spaces.Box(
        np.append(low, np.zeros(n)).astype(number),
        np.append(high, np.ones(n)).astype(number),
        dtype=number.type,
    )
