"""A small world where states never come again: pushed from somewhere towards a place."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from sdil import Demonstrations, Trajectory
from sdil.spaces import Spaces

SPACES = Spaces(gym.spaces.Box(-9, 9, (2,), np.float32), gym.spaces.Box(-1, 1, (2,), np.float32))
SIZE = 0.1  # of a push


def pushed(rng, name, *, astray=0.0, towards=(1.0, 1.0), longest=60):
    """From somewhere towards a place; astray: a share of steps goes the other way, 5 at a time."""
    at, states, pushes, good = rng.uniform(-1, 0, 2), [], [], []
    goal, wrong = np.array(towards), 0
    for _ in range(longest):
        states.append(at.copy())
        wrong = max(0, wrong - 1) or (5 if rng.random() < astray / 5 else 0)
        way = (goal - at) / max(np.linalg.norm(goal - at), 1e-9)
        push = np.clip((-way if wrong else way) + 0.2 * rng.normal(size=2), -1, 1)
        pushes.append(push)
        good.append(not wrong)
        at = at + SIZE * push
        if np.linalg.norm(at - goal) < 0.1:
            break
    states.append(at)
    ended = bool(np.linalg.norm(at - goal) < 0.1)
    return (
        Trajectory(np.array(states, np.float32), np.array(pushes, np.float32), None, ended, name),
        np.array(good),
    )


def world(seed=0, clean=10, noisy=60, **more):
    rng = np.random.default_rng(seed)
    trusted = [pushed(rng, f"c{i}")[0] for i in range(clean)]
    others, good = zip(
        *(pushed(rng, f"n{i}", astray=0.4, **more) for i in range(noisy)), strict=True
    )
    return Demonstrations(trusted, list(others), SPACES), np.concatenate(good)
