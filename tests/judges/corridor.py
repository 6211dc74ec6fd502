"""A corridor with a corner, to walk in: right, then up. Small enough to know the answer."""

from __future__ import annotations

from collections.abc import Sequence

import gymnasium as gym
import numpy as np

import sdil
from sdil.judges.fitted import EvidenceJudge
from sdil.spaces import Spaces

RIGHT, UP, LEFT, DOWN, STAY = range(5)
CORNER, END = 6, 12
SPACES = Spaces(gym.spaces.Box(0, END, (2,), np.float32), gym.spaces.Discrete(5))


def walk(start: int, ways: Sequence[int], name: str, **more) -> sdil.Trajectory:
    """From a cell of 0 to END: 1 goes on towards the end, -1 goes back, 0 stays."""
    cells, actions = [start], []
    for way in ways:
        at = cells[-1]
        onward, back = RIGHT if at < CORNER else UP, DOWN if at > CORNER else LEFT
        actions.append({1: onward, -1: back, 0: STAY}[int(way)])
        cells.append(int(np.clip(at + way, 0, END)))
    at = np.array(cells)
    seen = np.stack([np.minimum(at, CORNER), np.maximum(at - CORNER, 0)], 1).astype(np.float32)
    return sdil.Trajectory(seen, np.array(actions), id=name, **more)


def straight(i: int, *, ended: bool = True, **more) -> sdil.Trajectory:
    """Straight to the end, from one of five cells."""
    return walk(i % 5, [1] * (END - i % 5), f"c{i}", terminated=ended, **more)


def corridor(clean: int = 8, *, ended: bool = True) -> sdil.Demonstrations:
    """Clean walks go straight to the end; noisy ones turn at random."""
    draw = np.random.default_rng(0)
    noisy = []
    for i in range(60):
        ways = np.repeat(draw.choice([-1, 1], 4), draw.integers(2, 5, 4))
        noisy.append(walk(int(draw.integers(3, 10)), ways, f"n{i}"))
    return sdil.Demonstrations([straight(i, ended=ended) for i in range(clean)], noisy, SPACES)


def goes_on(demos: sdil.Demonstrations) -> np.ndarray:
    """Whether each noisy step is good."""
    return np.isin(np.concatenate([t.actions for t in demos.noisy]), (RIGHT, UP))


def quick(**fields) -> sdil.Judge:
    """A judge that is trained for long enough to know the corridor."""
    few = {"clone_updates": 150, "distance_updates": 300, "outcome_updates": 150}
    return sdil.Judge(**{**few, **fields})


def fit(demos: sdil.Demonstrations, *, seed: int = 0, **fields) -> EvidenceJudge:
    return quick(**fields).fit(demos, seed=seed)
