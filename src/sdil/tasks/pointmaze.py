"""PointMaze: OGBench's pointmaze-medium (Park et al. 2025), a disc pushed through a maze.

The action is a push (2,), each part in [-1, 1]; off walls the place after it is exactly
`place + 0.2 action`. Seen are the place and the goal, (x, y, goal x, goal y). An episode has one of
two goals, starts in any other free cell and ends within 1.0 of the goal; that earns
`1 - 0.9 * steps / 300`, as in MiniGrid, and after 300 steps it is over. The simulator is OGBench's
own (`sdil[control]`); where episodes start and end is drawn here, from the seed, which OGBench's
`reset` does not heed. How it is demonstrated is in `pointmaze_people.py`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.spaces import Array, Spaces
from sdil.tasks.maze import Maze

STEP = 0.2  # how far a full push goes along each axis
GOAL_RADIUS = 1.0
MAX_STEPS = 300
TIME_COST = 0.9
GOALS = ((6, 6), (1, 6))  # rows and columns
OTHER_GOALS = (*GOALS, (4, 2), (6, 1), (1, 1))  # with those of OGBench's other tasks
_JITTER = 1.0  # how far from a cell's centre an episode may start, along each axis: OGBench's
_PIXELS = 24  # of a cell, when drawn


@cache
def maze() -> Maze:
    """The medium maze, as OGBench has it."""
    world = _simulator()
    first = world.ij_to_xy((0, 0))
    return Maze(
        walls=np.asarray(world.maze_map) == 1,
        unit=float(world.ij_to_xy((0, 1))[0] - first[0]),
        origin=(float(first[0]), float(first[1])),
        radius=float(world.model.geom("pointbody").size[0]),
    )


@cache
def _simulator() -> Any:
    """One MuJoCo world for all: where the disc is, is set before every step."""
    try:
        from ogbench.locomaze.maze import make_maze_env
    except ImportError as error:
        raise InputError(
            f'pointmaze needs OGBench and MuJoCo: pip install "sdil[control]" ({error})'
        ) from None
    world = make_maze_env("point", "maze", maze_type="medium", render_mode=None)
    Path(world.fullpath).unlink(missing_ok=True)  # it writes its maze to a file and forgets it
    return world


def push(place: Array, action: Array) -> Array:
    """Where the disc is after one step, by MuJoCo and nothing else. (2,), (2,) to (2,)"""
    world = _simulator()
    world.data.qpos[:], world.data.qacc_warmstart[:] = place, 0.0
    return world.step(np.clip(np.asarray(action, np.float64), -1.0, 1.0))[0]


def push_all(places: Array, actions: Array) -> Array:
    """The same of many discs; MuJoCo is asked where they touch a wall. (n, 2), (n, 2) to (n, 2)"""
    after = places + STEP * np.clip(actions.astype(np.float64), -1.0, 1.0)
    for i in np.flatnonzero(~maze().clear(after)):
        after[i] = push(places[i], actions[i])
    return after


def spaces() -> Spaces:
    """Those of the task."""
    return Spaces(
        gym.spaces.Box(-np.inf, np.inf, (4,), np.float32),
        gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    )


def draw_episode(rng: np.random.Generator) -> tuple[Array, Array]:
    """Where an episode starts, and its goal. (2,) each"""
    plan = maze()
    goal = GOALS[int(rng.integers(len(GOALS)))]
    starts = [cell for cell in plan.free_cells if cell != goal]
    cell = starts[int(rng.integers(len(starts)))]
    return plan.centre(*cell) + rng.uniform(-_JITTER, _JITTER, 2), plan.centre(*goal)


def reward_at(step: int) -> float:
    """What reaching the goal with this step earns."""
    return 1.0 - TIME_COST * step / MAX_STEPS


class PointMaze(gym.Env[Array, Array]):
    """One disc and its goal."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012  # Gymnasium's form

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        maze()
        self.observation_space, self.action_space = spaces().observation, spaces().action
        self.place, self.goal, self.steps = np.zeros(2), np.zeros(2), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.goal = draw_episode(self.np_random)
        self.steps = 0
        return self._observe(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        self.place = push(self.place, action)
        self.steps += 1
        arrived = bool(np.linalg.norm(self.place - self.goal) <= GOAL_RADIUS)
        over = not arrived and self.steps >= MAX_STEPS
        info = {"is_success": arrived} if arrived or over else {}
        return self._observe(), reward_at(self.steps) if arrived else 0.0, arrived, over, info

    def render(self) -> Array:
        return self.draw(self._observe())

    def _observe(self) -> Array:
        return np.concatenate([self.place, self.goal]).astype(np.float32)

    @staticmethod
    def draw(observation: Array) -> Array:
        """What is seen, drawn from above. (height, width, 3)"""
        plan = maze()
        picture = np.full((*plan.walls.shape, 3), 245, np.uint8)
        picture[plan.walls] = 70
        picture = picture.repeat(_PIXELS, 0).repeat(_PIXELS, 1)
        rows, columns = np.indices(picture.shape[:2])
        for place, radius, colour in (
            (observation[2:], GOAL_RADIUS, (90, 180, 100)),
            (observation[:2], plan.radius, (40, 90, 200)),
        ):
            x, y = ((np.asarray(place) - plan.origin) / plan.unit + 0.5) * _PIXELS
            near = (columns - x) ** 2 + (rows - y) ** 2 <= (radius / plan.unit * _PIXELS) ** 2
            picture[near] = colour
        return picture
