"""Data of several tasks: the task is an input like any other."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from sdil import BC, Demonstrations, InputError, TellTask, Trajectory, join_tasks
from sdil.several import tell_task


def towards(sign, seed, n=6):
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        x = rng.normal(size=(16, 2)).astype(np.float32)
        found.append(Trajectory(x, sign * x[:-1, :1], None, False, str(i), group=f"anna {i}"))
    return Demonstrations(found, found[:2])


@pytest.mark.slow
def test_the_task_is_appended_and_tells_what_to_do():
    tasks = {"push": towards(1.0, 0), "pull": towards(-1.0, 1)}
    demos = join_tasks(tasks)
    assert demos.spaces.observation.shape == (4,)
    assert demos.clean[0].observations[3].tolist()[2:] == [1.0, 0.0]
    assert demos.clean[6].observations[3].tolist()[2:] == [0.0, 1.0]
    assert demos.clean.ids[6] == "pull/0"
    assert demos.clean.groups[6] == "pull/anna 0"
    assert len(demos.noisy) == 4
    policy = BC(max_updates=400, min_updates=300).fit(demos.clean_only(), seed=0)
    seen = np.array([0.8, 0.0], np.float32)
    push, pull = (policy.predict(tell_task(seen, name, list(tasks)))[0] for name in tasks)
    assert push[0] > 0.2
    assert pull[0] < -0.2
    env = TellTask(gym.make("MountainCarContinuous-v0"), "pull", list(tasks))
    assert env.reset(seed=0)[0][2:].tolist() == [0.0, 1.0]
    assert env.observation_space.shape == (4,)


def test_what_does_not_go_together_is_said():
    wide = Demonstrations([Trajectory(np.zeros((4, 5)), np.zeros((3, 1)), None, False)])
    with pytest.raises(InputError, match="task 'wide' has observations"):
        join_tasks({"push": towards(1.0, 0), "wide": wide})
    with pytest.raises(InputError, match="there is no task 'lift'; there are push, pull"):
        tell_task(np.zeros(2), "lift", ["push", "pull"])
    with pytest.raises(InputError, match="there is no task"):
        join_tasks({})
