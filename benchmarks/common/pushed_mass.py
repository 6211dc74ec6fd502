"""A mass that is pushed through rooms: states never come again, and the truth of every step is
exact. A made-up world to choose on, so that no task has to be looked at.

A square of four rooms with a door in each wall between two of them. An action is a push; what the
mass has of speed dies away, so that it would roll out at a point that each push moves by as much
as it is strong (`roll`). The way from there to the goal is the shortest past the posts of doors,
exactly. **A step is good if it takes at least half of the way off that the best push would.**

Noise of two kinds: `interrupted` episodes go to the goal, with detours, hesitation and tremor in
them; `aims` are episodes to other places, without a fault but that.
"""

from __future__ import annotations

from typing import Literal

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

import sdil
from sdil.spaces import Spaces

Floats = NDArray[np.float64]
Noise = Literal["interrupted", "aims"]

GOAL = np.array([0.82, 0.80])
_KEPT = 0.6  # of the speed, from one step to the next
_STRONG = 0.03  # how far the strongest push moves where the mass would roll out
_NEAR = 0.05  # of the goal: there
_LONGEST = 150
_DOOR = 0.11
_MIDDLES = (0.2, 0.7, 0.3, 0.75)  # of the doors: in x = 0.5 below and above, in y = 0.5
_OTHERS = 3  # entries of a state that wander about by themselves
_FAULTS = {"": (0.94, 1), "detour": (0.04, 14), "hesitation": (0.01, 10), "tremor": (0.01, 8)}
"""How often one begins, and how many steps it takes."""
_WAYS = np.stack([np.cos(t := np.arange(32) * np.pi / 16), np.sin(t)], 1)

SPACES = Spaces(
    gym.spaces.Box(-5.0, 5.0, (4 + _OTHERS,), np.float32),
    gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
)


def _walls() -> Floats:
    """(W, 2, 2)"""
    found = []
    for axis, (first, second) in ((0, _MIDDLES[:2]), (1, _MIDDLES[2:])):
        at = 0.0
        for middle in (first, second):
            found.append((axis, at, middle - _DOOR / 2))
            at = middle + _DOOR / 2
        found.append((axis, at, 1.0))
    ends = [[[0.5, a], [0.5, b]] if axis == 0 else [[a, 0.5], [b, 0.5]] for axis, a, b in found]
    return np.array(ends)


WALLS = _walls()


def _blocked(start: Floats, stop: Floats) -> NDArray[np.bool_]:
    """Whether a wall lies between points (..., 2)."""
    found = np.zeros(np.broadcast_shapes(start.shape, stop.shape)[:-1], bool)
    for a, b in WALLS:
        axis = 0 if a[0] == b[0] else 1
        here, there = start[..., axis] - a[axis], stop[..., axis] - a[axis]
        crosses = here * there < 0
        share = here / np.where(crosses, here - there, 1.0)
        other = start[..., 1 - axis] + share * (stop[..., 1 - axis] - start[..., 1 - axis])
        found |= crosses & (other > a[1 - axis]) & (other < b[1 - axis])
    return found


class Rooms:
    """The shortest ways to one goal."""

    def __init__(self, goal: Floats) -> None:
        self.goal = goal
        past = 1e-3  # beside a post, not in it
        posts = [
            p
            for a, b in WALLS
            for end in (a, b)
            if end.min() > 0 and end.max() < 1
            for p in (end + past * np.array(s) for s in ((1, 1), (1, -1), (-1, 1), (-1, -1)))
        ]
        self._nodes = np.array([goal, *posts])
        far = np.linalg.norm(self._nodes[:, None] - self._nodes, axis=2)
        far[_blocked(self._nodes[:, None], self._nodes[None])] = np.inf
        left = np.full(len(far), np.inf)
        left[0] = 0.0
        for _ in range(len(far)):
            left = np.minimum(left, (far + left).min(1))
        self._left = left

    def left(self, points: Floats) -> tuple[Floats, Floats]:
        """How long the way is from points (B, 2), and where it goes first. (B,), (B, 2)"""
        far = np.linalg.norm(points[:, None] - self._nodes, axis=2) + self._left
        far[_blocked(points[:, None], self._nodes[None])] = np.inf
        best = far.argmin(1)
        return far[np.arange(len(points)), best], self._nodes[best]


def _moved(points: Floats, by: Floats) -> Floats:
    """Walls stop what would cross them."""
    there = np.clip(points + by, 0.01, 0.99)
    return np.where(_blocked(points, there)[..., None], points, there)


def good_pushes(rooms: Rooms, roll: Floats, pushes: Floats) -> NDArray[np.bool_]:
    """Whether pushes (B, 2) are good where the mass would roll out at `roll` (B, 2)."""
    before = rooms.left(roll)[0]
    after = rooms.left(_moved(roll, _STRONG * pushes))[0]
    every = _moved(roll[:, None].repeat(len(_WAYS), 1), _STRONG * _WAYS)
    best = rooms.left(every.reshape(-1, 2))[0].reshape(len(roll), -1).min(1)
    return np.asarray(before - after >= 0.5 * (before - best))


def _limited(push: Floats) -> Floats:
    return push / max(1.0, float(np.linalg.norm(push)))


def _expert(rooms: Rooms, roll: Floats, pace: float, rng: np.random.Generator) -> Floats:
    """Towards where the way goes, some people faster than others, none of them straight."""
    left, first = rooms.left(roll[None])
    way = first[0] - roll
    way /= max(float(np.linalg.norm(way)), 1e-9) if left[0] > _STRONG else _STRONG
    turn = 0.4 * rng.normal()
    turned = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) @ way
    return _limited(pace * float(np.exp(0.15 * rng.normal())) * turned)


def _elsewhere(rng: np.random.Generator) -> Floats:
    while True:
        point = rng.uniform(0.08, 0.92, 2)
        if np.linalg.norm(point - GOAL) > 0.3 and np.abs(point - 0.5).min() > 0.04:
            return np.asarray(point)


def walk(
    rng: np.random.Generator, name: str, noise: Noise | None
) -> tuple[sdil.Trajectory, NDArray[np.bool_]]:
    """An episode, and which of its steps are good."""
    there = Rooms(GOAL)
    own = Rooms(_elsewhere(rng)) if noise == "aims" else there
    position, speed, pace = _elsewhere(rng), np.zeros(2), float(rng.uniform(0.8, 1.0))
    states, pushes, rolls = [], [], []
    fault, lasts, aim, ended = "", 0, own, False
    other = 0.4 * rng.normal(size=_OTHERS)
    for _ in range(_LONGEST):
        states.append(np.concatenate([position, speed, other]))
        other = 0.97 * other + 0.1 * rng.normal(size=_OTHERS)
        roll = _moved(position, speed / (1 - _KEPT))
        if noise == "interrupted" and lasts == 0:
            fault = str(
                rng.choice(["", "detour", "hesitation", "tremor"], p=[0.94, 0.04, 0.01, 0.01])
            )
            lasts = {"": 1, "detour": 14, "hesitation": 10, "tremor": 8}[fault]
            lasts = max(1, int(lasts * rng.uniform(0.6, 1.4)))
            aim = Rooms(_elsewhere(rng)) if fault == "detour" else own
        lasts = max(0, lasts - 1)
        push = _expert(aim, roll, pace, rng)
        if fault == "hesitation":
            push = 0.35 * push + 0.15 * rng.normal(size=2)
        elif fault == "tremor":
            push = _limited(push + 1.0 * rng.normal(size=2))
        pushes.append(push)
        rolls.append(roll)
        moved = _KEPT * speed + _STRONG * (1 - _KEPT) * push
        arrived = _moved(position, moved)
        speed = np.where(arrived == position + moved, moved, 0.0)
        position = arrived
        if np.linalg.norm(position - own.goal) < _NEAR:
            ended = True
            break
    states.append(np.concatenate([position, speed, other]))
    trajectory = sdil.Trajectory(
        np.array(states, np.float32), np.array(pushes, np.float32), None, ended, name
    )
    return trajectory, good_pushes(there, np.array(rolls), np.array(pushes))


def collect(
    clean: int, noisy: int, noise: Noise, seed: int
) -> tuple[sdil.Demonstrations, list[NDArray[np.bool_]]]:
    """Demonstrations, and which noisy steps are good."""
    rng = np.random.default_rng([seed, 77])
    good_ones = [walk(rng, f"c{i}", None)[0] for i in range(clean)]
    others, truth = zip(*(walk(rng, f"n{i}", noise) for i in range(noisy)), strict=True)
    return sdil.Demonstrations(good_ones, list(others), SPACES), list(truth)
