"""Errands: the cup on the table, the bread in the oven, the heat on, in whichever order.

Two rooms, 13x8, a door between them that is closed at first and, lower down, a passage that never
is. The cup stands on one of three shelves in the left room and belongs on the table in the right
one; the bread lies in one of two cupboards on the right and belongs in the oven on the left; the
switch of the oven is on the right. Shelf, cupboard and start are drawn. Five actions: four moves,
and `use`, which does what can be done from where the agent stands: take, put down, open, switch on.
One hand, 150 steps. Both things can be put on the table as well as into the oven, and be taken
again. The state is 13 numbers: the places of agent, cup and bread (what is carried is where the
agent is), whether the hand is full, the door open and the heat on, and whether up, down, left and
right are blocked. No number says what is carried, or what the agent is about to do.
"""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.utils.seeding import np_random

from sdil.errors import InputError
from sdil.spaces import Array, Spaces
from sdil.table import FloorPlan, Table

PLAN = (
    "#############",
    "#.....#.....#",
    "#.....#.....#",
    "#.....D.....#",
    "#.....#.....#",
    "#.....#.....#",
    "#...........#",
    "#############",
)
WALLS = np.array([[cell == "#" for cell in line] for line in PLAN])
DOOR = (6, 3)
SHELVES = ((1, 1), (4, 1), (1, 4))
CUPBOARDS = ((11, 5), (8, 1))
TABLE, OVEN, SWITCH = (11, 1), (2, 6), (8, 5)
MAX_STEPS = 150
TIME_COST = 0.9  # as in MiniGrid: reward = 1 - 0.9 * steps / max_steps

HELD, ON_TABLE, IN_OVEN = 3, 4, 5  # where a thing is; a smaller number is its shelf or cupboard
MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))
ACTION_NAMES = ["up", "down", "left", "right", "use"]
USE = 4
TILE = 14  # pixels


class State(NamedTuple):
    """All but the clock."""

    x: int
    y: int
    cup: int
    """0 to 2: its shelf; HELD, ON_TABLE or IN_OVEN."""
    bread: int
    """0 or 1: its cupboard; HELD, ON_TABLE or IN_OVEN."""
    door: int
    """1: open."""
    heat: int
    """1: on."""

    @property
    def full(self) -> bool:
        """Whether something is carried."""
        return HELD in (self.cup, self.bread)

    @property
    def cup_at(self) -> tuple[int, int]:
        return (*SHELVES, (self.x, self.y), TABLE, OVEN)[self.cup]

    @property
    def bread_at(self) -> tuple[int, int]:
        at = {HELD: (self.x, self.y), ON_TABLE: TABLE, IN_OVEN: OVEN}
        return at.get(self.bread) or CUPBOARDS[self.bread]

    @property
    def done(self) -> bool:
        """The cup is on the table, the bread in the oven, and the heat on."""
        return (self.cup, self.bread, self.heat) == (ON_TABLE, IN_OVEN, 1)


def step(state: State, action: int) -> State:
    """Where an action leads."""
    if action != USE:
        x, y = state.x + MOVES[action][0], state.y + MOVES[action][1]
        return state if _blocked(x, y, state.door) else state._replace(x=x, y=y)
    here = state.x, state.y
    if not state.door and abs(state.x - DOOR[0]) + abs(state.y - DOOR[1]) == 1:
        return state._replace(door=1)
    if here == SWITCH:
        return state._replace(heat=1)
    if state.full:
        put = {TABLE: ON_TABLE, OVEN: IN_OVEN}.get(here)
        if put is None:
            return state
        return state._replace(cup=put) if state.cup == HELD else state._replace(bread=put)
    cup, bread = here == state.cup_at, here == state.bread_at
    if cup and bread:  # what does not belong there is taken first
        cup = here == OVEN
        bread = not cup
    if cup:
        return state._replace(cup=HELD)
    return state._replace(bread=HELD) if bread else state


def observe(state: State) -> Array:
    """What is seen. (13,)"""
    sides = [_blocked(state.x + dx, state.y + dy, state.door) for dx, dy in MOVES]
    numbers = (*state[:2], *state.cup_at, *state.bread_at, state.full, *state[4:], *sides)
    return np.array(numbers, np.float32)


class Errands(gym.Env[Array, np.int64]):
    """The two rooms."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # Gymnasium's form

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(0.0, 12.0, (13,), np.float32)
        self.action_space = gym.spaces.Discrete(len(ACTION_NAMES))
        self._state = start_states()[0]
        self._steps: int | None = None  # None: the episode is over, or has not begun

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = start_states()[int(self.np_random.integers(len(start_states())))]
        self._steps = 0
        return observe(self._state), {}

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(np.int64(action)):
            raise InputError(f"an action of {self.action_space} is needed, not {action!r}")
        if self._steps is None:
            raise InputError("the episode has ended, or has not begun: call reset")
        self._state = step(self._state, int(action))
        self._steps += 1
        terminated = self._state.done
        truncated = not terminated and self._steps >= MAX_STEPS
        reward = 1.0 - TIME_COST * (self._steps / MAX_STEPS) if terminated else 0.0
        info = {}
        if terminated or truncated:
            info, self._steps = {"is_success": terminated}, None
        return observe(self._state), reward, terminated, truncated, info

    def set_state(self, state: State) -> None:
        """Go there, to draw it."""
        self._state = state

    def render(self) -> Array:
        return self.draw(observe(self._state))

    @staticmethod
    def draw(observation: Array) -> Array:
        """What an observation shows, from above. (height, width, 3) bytes"""
        x, y, *things = (int(number) for number in observation[:6])
        door, heat = observation[7:9] > 0
        picture = np.where(WALLS[..., None], 90, 245).astype(np.uint8).repeat(3, 2)
        for place in SHELVES:
            picture[place[1], place[0]] = (215, 205, 190)
        for place in CUPBOARDS:
            picture[place[1], place[0]] = (190, 170, 140)
        picture[TABLE[1], TABLE[0]] = (170, 205, 170)
        picture[OVEN[1], OVEN[0]] = (235, 120, 100) if heat else (225, 190, 180)
        picture[SWITCH[1], SWITCH[0]] = (235, 120, 100) if heat else (205, 205, 225)
        picture[DOOR[1], DOOR[0]] = (245, 245, 245) if door else (150, 105, 60)
        picture = picture.repeat(TILE, 0).repeat(TILE, 1)
        _mark(picture, (x, y), 2, (40, 110, 120))
        _mark(picture, (things[0], things[1]), 5, (90, 120, 230))
        _mark(picture, (things[2], things[3]), 5, (250, 190, 60))
        return picture

    @staticmethod
    def action_names() -> list[str]:
        """What each action does, for people."""
        return ACTION_NAMES

    @staticmethod
    def table() -> Table:
        """All states."""
        return table()

    @staticmethod
    def floor_plan() -> FloorPlan:
        """The two rooms; the door is drawn open."""
        return FloorPlan(WALLS, column=0, row=1)


@cache
def start_states() -> tuple[State, ...]:
    """Every cell, shelf and cupboard: 366, with the door closed and the heat off."""
    return tuple(
        State(x, y, cup, bread, 0, 0)
        for y, x in np.argwhere(~WALLS).tolist()
        if (x, y) != DOOR
        for cup in range(len(SHELVES))
        for bread in range(len(CUPBOARDS))
    )


@cache
def table() -> Table:
    """Errands as a table, made once."""
    numbers: dict[State, int] = {state: i for i, state in enumerate(start_states())}
    queue, next_state, end = deque(numbers), [], []
    while queue:
        state = queue.popleft()
        for action in range(len(ACTION_NAMES)):
            after = state if state.done else step(state, action)
            if after not in numbers:
                numbers[after] = len(numbers)
                queue.append(after)
            next_state.append(numbers[after])
            end.append(after.done)
    states = tuple(numbers)
    over = np.array([state.done for state in states])
    ends = np.array(end).reshape(len(states), -1)
    seen = np.stack([observe(state) for state in states])
    env = Errands()
    return Table(
        states=states,
        observe=lambda which: seen[which],
        next_state=np.array(next_state, np.int32).reshape(ends.shape),
        reward=(ends & ~over[:, None]).astype(float),
        end=ends,
        start_state=lambda seed: int(np_random(seed)[0].integers(len(start_states()))),
        horizon=MAX_STEPS,
        time_cost=TIME_COST,
        spaces=Spaces(env.observation_space, env.action_space),
    )


def _blocked(x: int, y: int, door: int) -> bool:
    return bool(WALLS[y, x]) or ((x, y) == DOOR and not door)


def _mark(picture: Array, place: tuple[int, int], margin: int, colour: tuple[int, ...]) -> None:
    """A square on a cell."""
    rows, columns = (slice(c * TILE + margin, (c + 1) * TILE - margin) for c in place[::-1])
    picture[rows, columns] = colour
