"""DoorKey (paper, appendix A): pick up the key, unlock the door, reach the goal.

MiniGrid's own DoorKey in 5x5, 6x6 and 8x8. The state is 151 numbers: the 7x7x3 egocentric view
(which shows what is carried), position (2), heading as (dx, dy).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from minigrid.core.grid import Grid
from minigrid.core.world_object import Door, Goal, Key
from minigrid.envs.doorkey import DoorKeyEnv

from sdil.table import Table
from sdil.tasks.grid import Blind, GridState, VectorGrid, tabulate
from sdil.tasks.task import Recipe, Task

OPEN, CLOSED, LOCKED = 0, 1, 2
CARRIED = -1
TABLE_SIZES = (5, 6)  # 540 and 7,254 states; 8x8 has 160,590, and is stepped in MiniGrid


class DoorKey(VectorGrid, DoorKeyEnv):  # type: ignore[misc]
    """MiniGrid's DoorKey; a state is (split, door y, door, key x, key y, agent x, y, heading)."""

    def __init__(self, size: int, **options: Any) -> None:
        DoorKeyEnv.__init__(self, size=size, **options)
        self.size = size
        self._rooms: dict[int, Grid] = {}
        self.use_vector_observations()

    def state(self) -> GridState:
        split, door_y = self._split, self._door_y
        door = self.grid.get(split, door_y)
        key = (CARRIED, CARRIED) if self.carrying else self._key.cur_pos
        return (
            split,
            door_y,
            OPEN if door.is_open else LOCKED if door.is_locked else CLOSED,
            int(key[0]),
            int(key[1]),
            int(self.agent_pos[0]),
            int(self.agent_pos[1]),
            int(self.agent_dir),
        )

    def set_state(self, state: GridState) -> None:
        split, door_y, door, key_x, key_y, x, y, heading = state
        self.grid = self._empty_rooms(split)
        self._split, self._door_y, self._key = split, door_y, Key("yellow")
        self.put_obj(Door("yellow", door == OPEN, door == LOCKED), split, door_y)
        if key_x == CARRIED:
            self.carrying = self._key
        else:
            self.carrying = None
            self.put_obj(self._key, key_x, key_y)
        self.agent_pos, self.agent_dir = (x, y), heading

    def start_state(self, seed: int) -> GridState:
        with Blind(self):
            self.reset(seed=seed)
        return self.state()

    def _gen_grid(self, width: int, height: int) -> None:
        DoorKeyEnv._gen_grid(self, width, height)
        for i, thing in enumerate(self.grid.grid):
            if isinstance(thing, Door):
                self._split, self._door_y = i % width, i // width
            elif isinstance(thing, Key):
                self._key = thing

    def _empty_rooms(self, split: int) -> Grid:
        """The walls and the goal; a fresh grid over wall objects that are never changed."""
        if split not in self._rooms:
            rooms = Grid(self.size, self.size)
            rooms.wall_rect(0, 0, self.size, self.size)
            rooms.set(self.size - 2, self.size - 2, Goal())
            rooms.vert_wall(split, 0)
            self._rooms[split] = rooms
        grid = Grid(self.size, self.size)
        grid.grid = list(self._rooms[split].grid)
        return grid

    def table(self) -> Table | None:
        """All states of 5x5 and 6x6; None for larger ones."""
        return table(self.size) if self.size in TABLE_SIZES else None


def start_states(size: int) -> Iterator[GridState]:
    """Every start that MiniGrid's DoorKey can draw: 48 / 816 for 5x5 / 6x6."""
    for split in range(2, size - 2):
        left = [(x, y) for x in range(1, split) for y in range(1, size - 1)]
        for door_y in range(1, size - 2):
            for agent in left:
                for key in left:
                    if key != agent:
                        for heading in range(4):
                            yield (split, door_y, LOCKED, *key, *agent, heading)


@cache
def table(size: int) -> Table:
    """DoorKey of this size as a table, made once."""
    return tabulate(DoorKey(size), start_states(size))


@cache
def layout_table(size: int, split: int, door_y: int) -> Table:
    """The part of the table with this wall and door, for sizes too large to see whole."""
    starts = [s for s in start_states(size) if s[:2] == (split, door_y)]
    return tabulate(DoorKey(size), starts, lazy=True)


def task(size: int) -> Task:
    """DoorKey of this size."""

    def table_of_seed(seed: int) -> Table:
        if size in TABLE_SIZES:
            return table(size)
        split, door_y = _any_door(size).start_state(seed)[:2]
        return layout_table(size, split, door_y)

    return Task(
        name=f"doorkey-{size}x{size}",
        environment=f"sdil/doorkey-{size}x{size}-v0",
        table=lambda: table(size) if size in TABLE_SIZES else None,
        table_of_seed=table_of_seed,
        actions=tuple(range(6)),  # all but `done`, which does nothing
        clean=Recipe("goal", random_steps=0.05, reward_above=0.92),
        noisy=Recipe("goal", random_steps=0.8, reward_above=0.30, reward_up_to=0.90),
        other_aims={},
    )


@cache
def _any_door(size: int) -> DoorKey:
    return DoorKey(size)


TASKS = {f"doorkey-{size}x{size}": task(size) for size in (5, 6, 8)}
