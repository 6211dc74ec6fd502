"""FourRooms (paper, appendix A): cross a maze of four rooms to a goal that never moves.

19x19, gaps at (9,5) (9,14) (6,9) (15,9), goal at (13,16), random start and heading, 100 steps. The
state is 153 numbers: the 7x7x3 egocentric view, goal (2), position (2), heading as (dx, dy).
Noisy demonstrations head to (13,5) instead, seen with the goal and its tile where they always are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from gymnasium.utils.seeding import np_random
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Goal, Wall

from sdil.spaces import Array
from sdil.table import FloorPlan, Table
from sdil.tasks.grid import GridState, VectorGrid, tabulate
from sdil.tasks.task import Recipe, Task

SIZE = 19
GAPS = ((9, 5), (9, 14), (6, 9), (15, 9))
GOAL = (13, 16)
DECOY = (13, 5)
MAX_STEPS = 100


class FourRooms(VectorGrid):
    """MiniGrid's FourRooms with gaps and goal that never move."""

    def __init__(self, **options: Any) -> None:
        self.layout = _layout()  # nothing in it ever changes
        super().__init__(
            mission_space=MissionSpace(mission_func=lambda: "reach the goal"),
            width=SIZE,
            height=SIZE,
            max_steps=MAX_STEPS,
            **options,
        )
        self.use_vector_observations()

    def extra_features(self) -> tuple[float, ...]:
        return (float(GOAL[0]), float(GOAL[1]))

    def _gen_grid(self, width: int, height: int) -> None:
        self.grid = self.layout
        self.mission = "reach the goal"
        starts = start_states()
        self.set_state(starts[int(self.np_random.integers(len(starts)))])

    def state(self) -> GridState:
        return (int(self.agent_pos[0]), int(self.agent_pos[1]), int(self.agent_dir))

    def set_state(self, state: GridState) -> None:
        self.grid = self.layout
        self.carrying = None
        self.agent_pos, self.agent_dir = (state[0], state[1]), state[2]

    def start_state(self, seed: int) -> GridState:
        starts = start_states()
        return starts[int(np_random(seed)[0].integers(len(starts)))]

    @staticmethod
    def table() -> Table:
        """All 1,040 states."""
        return table()

    @staticmethod
    def floor_plan() -> FloorPlan:
        """The four rooms."""
        walls = [isinstance(thing, Wall) for thing in _layout().grid]
        return FloorPlan(np.array(walls).reshape(SIZE, SIZE), column=149, row=150)


@cache
def start_states() -> tuple[GridState, ...]:
    """Every free cell but the goal, in each of the four headings."""
    grid = _layout()
    return tuple(
        (x, y, heading)
        for x in range(SIZE)
        for y in range(SIZE)
        for heading in range(4)
        if grid.get(x, y) is None
    )


@cache
def table() -> Table:
    """FourRooms as a table, made once."""
    return tabulate(FourRooms(), start_states())


def decoy_states(table: Table) -> Array:
    """Where noisy demonstrators head to. (S,)"""
    return np.array([state[:2] == DECOY for state in table.states])  # type: ignore[index]


TASK = Task(
    name="fourrooms",
    environment="sdil/fourrooms-v0",
    table=table,
    table_of_seed=lambda seed: table(),
    actions=(0, 1, 2),  # left, right, forward: no other does anything here
    clean=Recipe("goal", random_steps=0.05, reward_above=0.0),
    noisy=Recipe("decoy", random_steps=0.05),
    other_aims={"decoy": decoy_states},
)


def _layout() -> Grid:
    grid = Grid(SIZE, SIZE)
    grid.wall_rect(0, 0, SIZE, SIZE)
    grid.vert_wall(SIZE // 2, 0)
    grid.horz_wall(0, SIZE // 2)
    for gap in GAPS:
        grid.set(*gap, None)
    grid.set(*GOAL, Goal())
    return grid
