"""Demonstrations of any size, made straight into flat arrays: a walk to a goal, 50 steps each.

Observations are 32 numbers: of a continuous world (where one is, twice rotated and trembling), or
of a discrete one (columns and rows one-hot, so that states come again). A tenth of the episodes is
clean; half of the noisy ones are as good, the others lose their way for a stretch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

FEATURES, STEPS, SIDE = 32, 50, 16
MOVES = np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])


def walk(steps: int, *, discrete: bool, seed: int = 0) -> Any:
    """Demonstrations of so many steps, to a multiple of 50."""
    import gymnasium as gym

    from sdil.demonstrations import Demonstrations
    from sdil.spaces import Spaces
    from sdil.trajectories import Trajectories

    rng = np.random.default_rng(seed)
    episodes = max(20, steps // STEPS)
    clean = max(10, episodes // 10)
    lost = (np.arange(episodes) >= clean) & (rng.random(episodes) < 0.5)
    lost_from = rng.integers(5, 30, episodes)
    place = rng.integers(0, SIDE // 2, (episodes, 2)).astype(float)
    goal = np.array([SIDE - 1, SIDE - 1])
    places, actions = [place.copy()], []
    for t in range(STEPS):
        astray = lost & (t >= lost_from) & (t < lost_from + 15)
        towards = goal - place
        wanted = np.where(rng.random(episodes) * towards.sum(1) < towards[:, 0], 0, 2)
        chance = rng.random(episodes) < np.where(astray, 0.9, 0.1)
        action = np.where(chance, rng.integers(0, 4, episodes), wanted)
        moved = place + MOVES[action] * (rng.random((episodes, 1)) < 0.6)
        place = moved.clip(0, SIDE - 1)
        actions.append(action)
        places.append(place.copy())
    path = np.stack(places, 1)  # (E, 51, 2)
    if discrete:
        cells = path.astype(np.int64)
        one_hot = np.eye(SIDE, dtype=np.float32)
        observations = np.concatenate([one_hot[cells[..., 0]], one_hot[cells[..., 1]]], 2)
    else:
        turned = (path @ rng.normal(size=(2, FEATURES)) / SIDE).astype(np.float32)
        observations = turned + rng.normal(0, 0.05, turned.shape).astype(np.float32)
    first = np.arange(episodes)
    box = gym.spaces.Box(-np.inf, np.inf, (FEATURES,), np.float32)
    everything = Trajectories(
        observations=observations.reshape(-1, FEATURES),
        actions=np.stack(actions, 1).reshape(-1).astype(np.int64),
        rewards=np.zeros(episodes * STEPS),
        first_row=first * (STEPS + 1),
        first_step=first * STEPS,
        lengths=np.full(episodes, STEPS),
        has_final=np.ones(episodes, bool),
        has_rewards=np.ones(episodes, bool),
        terminated=np.asarray((path[:, -1] >= SIDE - 2).all(1)),
        ids=tuple(map(str, range(episodes))),
        groups=(None,) * episodes,
    )
    spaces = Spaces(box, gym.spaces.Discrete(4))
    return Demonstrations(everything[:clean], everything[clean:], spaces)
