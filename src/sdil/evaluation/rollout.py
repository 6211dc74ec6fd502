"""A policy in an environment or a table, many episodes at once.

Every episode has a seed of its own, so the result does not depend on how many run side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.evaluation.statistics import wilson_interval
from sdil.simulators import EnvironmentLike, different_space, environment_maker, table_of
from sdil.spaces import Array, Spaces
from sdil.table import Table

Progress = Callable[[int, int], None]


class Predictor(Protocol):
    """Anything that acts like a Stable-Baselines3 policy."""

    def predict(
        self,
        observation: Array,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, Any]: ...


@dataclass(frozen=True, eq=False)
class Episodes:
    """What happened, episode by episode, in the order of their seeds."""

    seeds: Array
    rewards: Array
    """The sum of rewards of each episode. (n,)"""
    lengths: Array
    """Steps of each episode. (n,)"""
    successes: Array | None
    """Whether each reached its goal; None where the environment does not tell. (n,)"""


@dataclass(frozen=True)
class Evaluation:
    """A summary of episodes; `episodes` keeps them all."""

    reward_mean: float
    reward_std: float
    reward_sem: float
    """Standard error of the mean."""
    success_rate: float | None
    success_interval: tuple[float, float] | None
    """Wilson's 95% interval."""
    length_mean: float
    n_episodes: int
    seed: int
    episodes: Episodes


def evaluate(
    policy: Predictor,
    environment: EnvironmentLike,
    *,
    episodes: int = 1000,
    seed: int = 0,
    n_envs: int = 64,
    on_progress: Progress | None = None,
) -> Evaluation:
    """Run `policy` for many seeded episodes.

    `environment` is a task's name ("fourrooms"), a Gymnasium id, a function that makes an
    environment, or a Table. A task that has a table is run through it.
    """
    ran = rollout(
        policy, environment, episodes=episodes, seed=seed, n_envs=n_envs, on_progress=on_progress
    )
    n = len(ran.rewards)
    won = None if ran.successes is None else int(ran.successes.sum())
    spread = float(ran.rewards.std(ddof=1)) if n > 1 else 0.0
    return Evaluation(
        reward_mean=float(ran.rewards.mean()),
        reward_std=spread,
        reward_sem=spread / n**0.5,
        success_rate=None if won is None else won / n,
        success_interval=None if won is None else wilson_interval(won, n),
        length_mean=float(ran.lengths.mean()),
        n_episodes=n,
        seed=seed,
        episodes=ran,
    )


def rollout(
    policy: Predictor,
    environment: EnvironmentLike,
    *,
    episodes: int,
    seed: int,
    n_envs: int = 64,
    on_progress: Progress | None = None,
) -> Episodes:
    """The episodes themselves; see `evaluate`."""
    if episodes < 1 or n_envs < 1:
        raise InputError("evaluation needs at least one episode and one environment")
    seeds = episode_seeds(seed, episodes)
    if isinstance(environment, Table):
        return _through_table(policy, environment, seeds, on_progress)
    make = environment_maker(environment)
    env = make()
    table = table_of(env) if isinstance(environment, str) else None
    check_spaces(policy, Spaces(env.observation_space, env.action_space))
    if table is not None:
        return _through_table(policy, table, seeds, on_progress)
    envs = [env] + [make() for _ in range(min(n_envs, episodes) - 1)]
    try:
        return _through_environments(policy, envs, seeds, on_progress)
    finally:
        for each in envs:
            each.close()


def episode_seeds(seed: int, episodes: int) -> Array:
    """The seed of each episode; the first n are the same however many are asked for."""
    return np.random.SeedSequence(seed).generate_state(episodes).astype(np.int64)


def check_spaces(policy: object, offered: Spaces) -> None:
    """Raise where a policy was trained for other spaces than the environment's."""
    wanted = getattr(policy, "spaces", None)
    if not isinstance(wanted, Spaces):
        return  # not one of ours: it must know for itself
    name = different_space(wanted, offered)
    if name is not None:
        raise InputError(
            f"the policy was trained with {name} space {getattr(wanted, name)}, "
            f"but the environment has {getattr(offered, name)}"
        )


def _through_environments(
    policy: Predictor, envs: list[gym.Env[Any, Any]], seeds: Array, on_progress: Progress | None
) -> Episodes:
    """Each environment takes the next episode that nobody has begun, until none is left."""
    total = len(seeds)
    rewards, lengths = np.zeros(total), np.zeros(total, np.int64)
    successes: list[bool | None] = [None] * total
    running = list(range(len(envs)))  # the episode that each environment is in
    begun, done = len(envs), 0
    batch = np.stack([env.reset(seed=int(seeds[i]))[0] for i, env in enumerate(envs)])
    starts = np.ones(len(envs), bool)
    state: Any = None
    while done < total:
        actions, state = policy.predict(batch, state, starts, deterministic=True)
        starts[:] = False
        idle = []
        for slot, env in enumerate(envs):
            episode = running[slot]
            observation, reward, terminated, truncated, info = env.step(actions[slot])
            rewards[episode] += float(reward)
            lengths[episode] += 1
            if terminated or truncated:
                successes[episode] = info.get("is_success")
                done += 1
                if begun < total:
                    observation, _ = env.reset(seed=int(seeds[begun]))
                    running[slot], starts[slot] = begun, True
                    begun += 1
                else:
                    idle.append(slot)
                if on_progress is not None:
                    on_progress(done, total)
            batch[slot] = observation
        if idle and done < total:
            keep = np.setdiff1d(np.arange(len(envs)), idle)
            envs, running = [envs[i] for i in keep], [running[i] for i in keep]
            batch, starts, state = batch[keep], starts[keep], _keep(state, keep)
    known = all(s is not None for s in successes)
    return Episodes(seeds, rewards, lengths, np.array(successes, bool) if known else None)


def _through_table(
    policy: Predictor, table: Table, seeds: Array, on_progress: Progress | None
) -> Episodes:
    """All episodes abreast; those that are over drop out."""
    total = len(seeds)
    rewards, lengths = np.zeros(total), np.full(total, table.horizon)
    successes = np.zeros(total, bool)
    episode = np.arange(total)  # those still running
    at = np.array([table.start_state(int(seed)) for seed in seeds])
    state: Any = None
    for step in range(1, table.horizon + 1):
        starts = np.full(len(at), step == 1)
        actions, state = policy.predict(table.observe(at), state, starts, deterministic=True)
        rewards[episode] += table.reward_at(table.reward[at, actions], step)
        ended = table.end[at, actions]
        lengths[episode[ended]] = step
        successes[episode[ended]] = table.reward[at[ended], actions[ended]] > 0
        at = table.next_state[at, actions]
        if ended.any():
            keep = np.flatnonzero(~ended)
            at, episode, state = at[keep], episode[keep], _keep(state, keep)
        if on_progress is not None:
            on_progress(total - len(at), total)
        if not len(at):
            break
    return Episodes(seeds, rewards, lengths, successes)


def _keep(state: Any, slots: Array) -> Any:
    """The part of a policy's state that belongs to these episodes."""
    if state is None:
        return None
    if isinstance(state, tuple):  # Stable-Baselines3's recurrent states: (layers, episodes, size)
        return tuple(part[:, slots] for part in state)
    return state.keep(slots)
