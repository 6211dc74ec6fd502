"""MiniGrid environments as vectors, with states that can be read, set and enumerated."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from minigrid.core.constants import DIR_TO_VEC
from minigrid.minigrid_env import MiniGridEnv

from sdil.spaces import Array, Spaces
from sdil.table import Table

GridState = tuple[int, ...]
_ACTION_NAMES = {
    "left": "turn left",
    "right": "turn right",
    "forward": "forward",
    "pickup": "pick up",
    "drop": "drop",
    "toggle": "toggle",
    "done": "done",
}
TIME_COST = 0.9  # MiniGrid: reward = 1 - 0.9 * steps / max_steps


class VectorGrid(MiniGridEnv):  # type: ignore[misc]  # MiniGrid has no type information
    """A MiniGrid task seen as one vector: the 7x7x3 view, what the task adds, position, heading."""

    def use_vector_observations(self) -> None:
        """Call at the end of `__init__`, once the grid's size is known."""
        size = 7 * 7 * 3 + len(self.extra_features()) + 4
        self.observation_space = gym.spaces.Box(-1.0, 255.0, (size,), np.float32)

    def extra_features(self) -> tuple[float, ...]:
        """What the task tells beside the view."""
        return ()

    def action_names(self) -> list[str]:
        """What each action does, for people."""
        return [_ACTION_NAMES[action.name] for action in self.actions]

    def gen_obs(self) -> Array:
        grid, visible = self.gen_obs_grid()
        observation = np.empty(self.observation_space.shape, np.float32)
        observation[:147] = grid.encode(visible).ravel()
        observation[147:] = (*self.extra_features(), *self.agent_pos, *DIR_TO_VEC[self.agent_dir])
        return observation

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            info = {"is_success": reward > 0}
        return observation, float(reward), terminated, truncated, info

    def state(self) -> GridState:
        """The whole state but for the clock; `set_state` takes it back."""
        raise NotImplementedError

    def set_state(self, state: GridState) -> None:
        raise NotImplementedError

    def start_state(self, seed: int) -> GridState:
        """The state that `reset(seed=seed)` leads to, without drawing what is seen in it."""
        raise NotImplementedError


class Blind:
    """While it lasts, an environment moves without looking: seeing is what takes the time."""

    def __init__(self, env: VectorGrid) -> None:
        self.env = env

    def __enter__(self) -> None:
        self.env.gen_obs = lambda: np.empty(0)  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        del self.env.gen_obs


def enumerate_states(
    env: VectorGrid, starts: Iterable[GridState]
) -> tuple[dict[GridState, int], Array, Array, Array]:
    """Every state reachable from `starts`, found by stepping MiniGrid itself.

    Returns their numbers, and next state, reward (before the clock takes its part) and end for
    each state and action. A state in which an episode has ended leads to itself.
    """
    numbers: dict[GridState, int] = {}
    queue: deque[GridState] = deque()
    final: set[GridState] = set()

    def number(state: GridState) -> int:
        if state not in numbers:
            numbers[state] = len(numbers)
            queue.append(state)
        return numbers[state]

    for start in starts:
        number(start)
    n_actions = int(env.action_space.n)
    next_state, reward, end = [], [], []
    with Blind(env):
        while queue:
            state = queue.popleft()
            if state in final:
                next_state += [numbers[state]] * n_actions
                reward += [0.0] * n_actions
                end += [True] * n_actions
                continue
            for action in range(n_actions):
                env.set_state(state)
                env.step_count = 0
                _, earned, terminated, _, _ = env.step(action)
                if terminated:
                    final.add(env.state())
                next_state.append(number(env.state()))
                reward.append(float(earned > 0))
                end.append(terminated)
    shape = (len(numbers), n_actions)
    return (
        numbers,
        np.array(next_state, np.int32).reshape(shape),
        np.array(reward).reshape(shape),
        np.array(end, bool).reshape(shape),
    )


def tabulate(env: VectorGrid, starts: Iterable[GridState], *, lazy: bool = False) -> Table:
    """The environment as a table; `lazy` looks at a state only when it is asked for."""
    numbers, next_state, reward, end = enumerate_states(env, starts)
    states = tuple(numbers)
    return Table(
        states=states,
        observe=_look_when_asked(env, states) if lazy else _look_once(env, states),
        next_state=next_state,
        reward=reward,
        end=end,
        start_state=lambda seed: numbers[env.start_state(seed)],
        horizon=env.max_steps,
        time_cost=TIME_COST,
        spaces=Spaces(env.observation_space, env.action_space),
    )


def _look(env: VectorGrid, state: GridState) -> Array:
    env.set_state(state)
    return env.gen_obs()


def _look_once(env: VectorGrid, states: tuple[GridState, ...]) -> Callable[[Array], Array]:
    seen = np.stack([_look(env, state) for state in states])
    return lambda numbers: seen[numbers]


def _look_when_asked(env: VectorGrid, states: tuple[GridState, ...]) -> Callable[[Array], Array]:
    look = cache(lambda number: _look(env, states[number]))
    return lambda numbers: np.stack([look(int(number)) for number in numbers])
