"""FourRooms and DoorKey seen from above, as pictures: the same episodes, and the same truth.

Everything that decides the right action is there: walls, goal, door (locked, closed or open), key,
and the agent as a triangle that points where it heads, with a mark in it where it carries the key.
A picture is put together from tiles by their numbers, so that tens of thousands are drawn in a
second; MiniGrid's own renderer is not used. (height, width, 3) uint8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from minigrid.core.world_object import Goal, Wall

from sdil.spaces import Array, Spaces
from sdil.table import Table
from sdil.tasks import doorkey, fourrooms
from sdil.tasks.grid import VectorGrid
from sdil.tasks.task import Task

FOURROOMS_TILE = 4
"""Pixels of a cell: 76 x 76."""
DOORKEY_TILE = 8
"""40 x 40, 48 x 48 and 64 x 64."""

_FLOOR, _WALL, _GOAL, _KEY, _LOCKED, _CLOSED, _OPEN = range(7)
_AGENT = 7  # then 8 for each ground that it may stand on: 4 headings, and with the key 4 more
_GROUNDS = (_FLOOR, _GOAL, _OPEN)
_DOORS = {doorkey.OPEN: _OPEN, doorkey.CLOSED: _CLOSED, doorkey.LOCKED: _LOCKED}

_BLACK, _GREY, _GREEN = (18, 18, 22), (118, 118, 124), (64, 170, 92)
_YELLOW, _RED = (240, 200, 40), (222, 62, 52)


@cache
def _tiles(pixels: int) -> Array:
    """Every tile, a row of pixels as one item of bytes. (tiles, pixels)"""
    at = (np.arange(pixels) + 0.5) / pixels
    x, y = at[None, :], at[:, None]  # in parts of the tile

    def filled(colour: tuple[int, ...]) -> Array:
        return np.full((pixels, pixels, 3), colour, np.uint8)

    floor, goal = filled(_BLACK), filled(_GREEN)
    edge = (np.minimum(x, y) < 0.15) | (np.maximum(x, y) > 0.85)
    key = filled(_BLACK)
    bow = (x - 0.5) ** 2 + (y - 0.3) ** 2 < 0.05
    shaft, bit = (abs(x - 0.5) < 0.1) & (y > 0.3) & (y < 0.9), (x > 0.5) & (x < 0.8) & (y > 0.75)
    key[bow | shaft | (bit & (y < 0.9))] = _YELLOW
    locked = filled(tuple(c // 2 for c in _YELLOW))
    locked[edge] = _YELLOW
    closed = filled(_BLACK)
    closed[edge | ((abs(x - 0.7) < 0.1) & (abs(y - 0.5) < 0.1))] = _YELLOW
    opened = filled(_BLACK)
    opened[np.broadcast_to(y < 0.2, (pixels, pixels))] = _YELLOW
    made = [floor, filled(_GREY), goal, key, locked, closed, opened]
    points_right = abs(y - 0.5) <= 0.45 * (1 - x)
    carried = points_right & (x < 0.45) & (abs(y - 0.5) < 0.2)
    for ground in _GROUNDS:
        for carries in (False, True):
            for turns in range(4):  # right, down, left, up
                tile = made[ground].copy()
                tile[np.rot90(points_right, -turns)] = _RED
                if carries:
                    tile[np.rot90(carried, -turns)] = _YELLOW
                made.append(tile)
    rows: Array = np.stack(made).reshape(len(made), pixels, pixels * 3).view(f"V{pixels * 3}")
    return rows[..., 0]


def paint(numbers: Array, pixels: int) -> Array:
    """Pictures of grids whose tiles have these numbers. (n, h, w) to (n, h pixels, w pixels, 3)"""
    tiles = _tiles(pixels)
    n, height, width = numbers.shape
    rows = np.empty((n, height, pixels, width), tiles.dtype)
    for row in range(pixels):
        rows[:, :, row] = tiles[numbers, row]
    return rows.view(np.uint8).reshape(n, height * pixels, width * pixels, 3)


def _put_agent(numbers: Array, x: Array, y: Array, heading: Array, carries: Array | int) -> None:
    """Put the agent of each of n grids (n, h, w) where it stands, on whatever is there."""
    each = np.arange(len(numbers))
    ground = np.searchsorted(_GROUNDS, numbers[each, y, x])
    numbers[each, y, x] = _AGENT + 8 * ground + 4 * carries + heading


@cache
def _four_rooms() -> Array:
    things = fourrooms.FourRooms().layout.grid
    numbers = [
        _WALL if isinstance(t, Wall) else _GOAL if isinstance(t, Goal) else 0 for t in things
    ]
    return np.array(numbers, np.int8).reshape(fourrooms.SIZE, fourrooms.SIZE)


def draw_fourrooms(states: Array) -> Array:
    """Pictures of states (x, y, heading). (n, 3) to (n, 76, 76, 3)"""
    numbers = np.repeat(_four_rooms()[None], len(states), 0)
    x, y, heading = states.T
    _put_agent(numbers, x, y, heading, 0)
    return paint(numbers, FOURROOMS_TILE)


def draw_doorkey(states: Array, size: int) -> Array:
    """Pictures of states, see `DoorKey`. (n, 8) to (n, height, width, 3)"""
    split, door_y, door, key_x, key_y, x, y, heading = states.T
    each = np.arange(len(states))
    numbers = np.zeros((len(states), size, size), np.int8)
    numbers[:, [0, -1]] = numbers[:, :, [0, -1]] = _WALL
    numbers[each, :, split] = _WALL
    numbers[:, size - 2, size - 2] = _GOAL
    numbers[each, door_y, split] = np.array([_DOORS[i] for i in range(len(_DOORS))])[door]
    lies = key_x != doorkey.CARRIED
    numbers[each[lies], key_y[lies], key_x[lies]] = _KEY
    _put_agent(numbers, x, y, heading, ~lies)
    return paint(numbers, DOORKEY_TILE)


class Pictured(VectorGrid):
    """A task of MiniGrid whose observations are pictures; stands before the task's own class."""

    tile = FOURROOMS_TILE

    def use_vector_observations(self) -> None:
        shape = (self.height * self.tile, self.width * self.tile, 3)
        space: Any = gym.spaces.Box(0, 255, shape, np.uint8)
        self.observation_space = space

    def gen_obs(self) -> Array:
        picture: Array = self.draw_states(np.array([self.state()]))[0]
        return picture

    def draw_states(self, states: Array) -> Array:
        """Pictures of n states. (n, height, width, 3)"""
        raise NotImplementedError


class FourRoomsImages(Pictured, fourrooms.FourRooms):
    """FourRooms from above."""

    def draw_states(self, states: Array) -> Array:
        return draw_fourrooms(states)

    @staticmethod
    def floor_plan() -> None:  # type: ignore[override]
        """None: the map is in the picture, and no entry of it says where the agent is."""

    @staticmethod
    def table() -> Table:
        """All 1,040 states."""
        return _fourrooms_table(fourrooms.table())


class DoorKeyImages(Pictured, doorkey.DoorKey):
    """DoorKey from above."""

    tile = DOORKEY_TILE

    def draw_states(self, states: Array) -> Array:
        return draw_doorkey(states, self.size)

    def table(self) -> Table | None:
        """All states of 5x5 and 6x6; None for larger ones."""
        vectors = super().table()
        return None if vectors is None else _doorkey_table(vectors, self.size)


def _seen_as(table: Table, draw: Callable[[Array], Array]) -> Table:
    """The same table, its states seen as `draw` (n, k) shows them."""
    states = np.array(table.states)
    shape = draw(states[:1]).shape[1:]
    space = gym.spaces.Box(0, 255, shape, np.uint8)
    return replace(
        table,
        observe=lambda numbers: draw(states[numbers]),
        spaces=Spaces(space, table.spaces.action),
    )


@cache
def _fourrooms_table(vectors: Table) -> Table:
    return _seen_as(vectors, draw_fourrooms)


@cache
def _doorkey_table(vectors: Table, size: int) -> Table:
    return _seen_as(vectors, lambda states: draw_doorkey(states, size))


def _task(vectors: Task, as_pictures: Callable[[Table], Table]) -> Task:
    """The same task, its demonstrations seen from above; an expert sees what it always did."""

    def table() -> Table | None:
        known = vectors.table()
        return None if known is None else as_pictures(known)

    name = f"{vectors.name}-images"
    return replace(
        vectors,
        name=name,
        environment=f"sdil/{name}-v0",
        table=table,
        shown=as_pictures,
        agents=vectors.name,
    )


def _doorkey_task(size: int) -> Task:
    def as_pictures(table: Table) -> Table:
        return _doorkey_table(table, size)

    return _task(doorkey.TASKS[f"doorkey-{size}x{size}"], as_pictures)


TASKS: dict[str, Any] = {
    task.name: task
    for task in (_task(fourrooms.TASK, _fourrooms_table), *(_doorkey_task(n) for n in (5, 6, 8)))
}
