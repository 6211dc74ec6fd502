"""The environment of the demonstrations, as far as it can be looked at: walks in it, and pictures.

A task that has a table is walked in through it, and its recorded episodes can be drawn: the states
behind their observations are found in the table. Environments of ours whose observations show all
draw those (`draw`).
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.evaluation.rollout import check_spaces, episode_seeds
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.observations import pack_observations
from sdil.simulators import environment_maker, table_of
from sdil.spaces import Array, Spaces
from sdil.table import FloorPlan, Table, TableWalk
from sdil.trajectories import Trajectory

LONGEST_WALK = 100  # steps; a skill held fixed has no reason to end
_WALKS_STEPPED = 5  # per skill, where there is no table: stepping an environment takes long
_FRAME_SIZE = 192  # pixels at the most, either way
_COLOURS = 16


@dataclass(frozen=True, eq=False)
class Walk:
    """An episode with one skill held fixed."""

    skill: int
    trajectory: Trajectory
    states: Array | None = None
    """The number of each state in the table, if there is one. (T + 1,)"""
    frames: list[str] = field(default_factory=list)
    """Drawn while walking, where there is no table to draw from afterwards."""


class World:
    """An environment by its name: a task's, or a Gymnasium id."""

    def __init__(self, environment: str) -> None:
        env = environment_maker(environment)()
        can_draw = "rgb_array" in (env.metadata.get("render_modes") or ())
        if can_draw and env.spec is not None:
            env.close()
            env = gym.make(env.spec.id, render_mode="rgb_array", disable_env_checker=True)
        self.env: gym.Env[Any, Any] = env
        self.can_draw = can_draw and env.render_mode == "rgb_array"
        self.spaces = Spaces(env.observation_space, env.action_space)
        self.table: Table | None = table_of(env)
        self.plan: FloorPlan | None = _offered(env, "floor_plan")
        self.action_names: list[str] | None = _offered(env, "action_names")
        inner: Any = env.unwrapped
        if hasattr(inner, "tile_size"):  # MiniGrid: draw it small at once, the view not marked
            inner.tile_size, inner.highlight = max(8, _FRAME_SIZE // inner.width), False
        self._drawn: dict[int, str] = {}

    def close(self) -> None:
        self.env.close()

    def walk(
        self, policy: HierarchicalPolicy, skills: Array, *, per_skill: int, seed: int
    ) -> list[Walk]:
        """Episodes of `pi_low` with each of the `skills` held fixed, actions drawn as it says.

        Every skill has the same starts. Without a table there are fewer of them.
        """
        check_spaces(policy, self.spaces)
        rng = np.random.default_rng(seed)
        if self.table is not None:
            starts = [self.table.start_state(int(s)) for s in episode_seeds(seed, per_skill)]
            skill = np.repeat(skills, per_skill)
            at = np.tile(np.array(starts, np.int64), len(skills))
            return _walk_table(policy, self.table, at, skill, rng)
        seeds = episode_seeds(seed, min(per_skill, _WALKS_STEPPED))
        return [
            self._walk_environment(policy, int(k), int(s), rng, draw=s == seeds[0])
            for k in skills
            for s in seeds
        ]

    def clip(self, walk: Walk, frames: int) -> list[str]:
        """The beginning of a walk, as PNG data URIs."""
        if walk.states is None or not self.can_draw:
            return walk.frames[:frames]
        return [self._draw_state(int(s)) for s in walk.states[:frames]]

    def recorded(self, trajectory: Trajectory, frames: int) -> list[str]:
        """A recorded episode, a frame per step or `frames` of them; empty where it cannot be."""
        steps, n = len(trajectory), min(frames, len(trajectory))
        first_of_frame = -(-np.arange(n) * steps // n)  # the first step t with t * n // T = i
        draw: Callable[[Array], Array] | None = getattr(self.env.unwrapped, "draw", None)
        if self.can_draw and draw is not None:
            return [_encode(draw(seen)) for seen in trajectory.observations[first_of_frame]]
        states = self._states_of(trajectory) if self.can_draw else None
        if states is None:
            return []
        return [self._draw_state(int(s)) for s in states[first_of_frame]]

    def _walk_environment(
        self, policy: HierarchicalPolicy, skill: int, seed: int, rng: Any, *, draw: bool
    ) -> Walk:
        env, frames = self.env, []
        taken: list[int] = []
        fixed = np.array([skill])
        space = policy.spaces.observation
        seen = [pack_observations(space, env.reset(seed=seed)[0])]
        terminated = truncated = False
        while len(taken) < LONGEST_WALK and not (terminated or truncated):
            if draw and self.can_draw:
                frames.append(_encode(env.render()))
            taken.append(int(_draw(policy.probs_with_skill(seen[-1][None], fixed), rng)[0]))
            after, _, terminated, truncated, _ = env.step(taken[-1])
            seen.append(pack_observations(space, after).copy())
        trajectory = Trajectory(np.stack(seen), np.array(taken), terminated=terminated)
        return Walk(skill, trajectory, frames=frames)

    def _states_of(self, trajectory: Trajectory) -> Array | None:
        """The states behind a recorded episode: those under which every observation fits. (T,)"""
        if self.table is None:
            return None
        n = len(trajectory)
        found = self.table.follow(trajectory.observations[:n], trajectory.actions, np.array([n]))
        return found.states[found.path == 0] if len(found.episode) else None

    def _draw_state(self, number: int) -> str:
        if number not in self._drawn:
            assert self.table is not None
            env: Any = self.env.unwrapped
            env.set_state(self.table.states[number])
            self._drawn[number] = _encode(env.render())
        return self._drawn[number]


def _walk_table(
    policy: HierarchicalPolicy, table: Table, at: Array, skill: Array, rng: np.random.Generator
) -> list[Walk]:
    """All episodes abreast; those that are over drop out."""
    n, limit = len(at), min(table.horizon, LONGEST_WALK)
    states = np.empty((limit + 1, n), np.int64)
    actions = np.zeros((limit, n), np.int64)
    lengths, ended = np.full(n, limit), np.zeros(n, bool)
    running, walk = np.arange(n), TableWalk(table, at)
    states[0] = at
    for t in range(limit):
        probs = policy.probs_with_skill(walk.observation, skill[running])
        taken = actions[t, running] = _draw(probs, rng)
        _, over, _ = walk.step(taken)
        states[t + 1, running] = walk.at
        lengths[running[over]], ended[running[over]] = t + 1, True
        running = running[~over]
        walk.keep(~over)
        if not len(running):
            break
    walks = []
    for i, length in enumerate(lengths):
        path = states[: length + 1, i]
        seen = Trajectory(
            table.observe(path), actions[:length, i], terminated=bool(ended[i]), id=str(i)
        )
        walks.append(Walk(int(skill[i]), seen, path))
    return walks


def _draw(probs: Array, rng: np.random.Generator) -> Array:
    """An action from each row of `probs` (n, A). (n,)"""
    below = rng.random(len(probs))[:, None] < probs.cumsum(1)
    return np.where(below.any(1), below.argmax(1), probs.shape[1] - 1)


def _offered(env: gym.Env[Any, Any], name: str) -> Any:
    """What an environment of ours says of itself; None where it has nothing to say."""
    offer: Callable[[], Any] | None = getattr(env.unwrapped, name, None)
    return offer() if callable(offer) else None


def _encode(rgb: Any) -> str:
    """A small PNG as a data URI."""
    from PIL import Image

    image = Image.fromarray(np.asarray(rgb, np.uint8))
    scale = _FRAME_SIZE / max(image.size)
    if scale < 1:
        image = image.resize(
            (round(image.width * scale), round(image.height * scale)), Image.Resampling.BOX
        )
    file = io.BytesIO()
    image.quantize(_COLOURS).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
