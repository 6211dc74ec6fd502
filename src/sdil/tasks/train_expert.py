"""Trains the PPO agents that demonstrate the benchmark tasks. Needs Stable-Baselines3.

An agent walks the task's table, many episodes at once, which is much faster than stepping
MiniGrid. What is kept of it is the policy alone, as `sdil.tasks.experts` reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from safetensors.numpy import save
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sdil.errors import InputError
from sdil.evaluation.rollout import EpisodeOutcomes, rollout
from sdil.files import new_file
from sdil.spaces import Array
from sdil.table import Table, TableWalk
from sdil.tasks import get_task
from sdil.tasks.experts import action_probs
from sdil.tasks.task import Task

Progress = Callable[[int, int], None]
Weights = dict[str, Array]

STEPS = {
    "fourrooms": 1_000_000,
    "doorkey-5x5": 500_000,
    "doorkey-6x6": 1_000_000,
    "doorkey-8x8": 2_000_000,
}
"""Steps of training of the shipped agents."""

EPISODES = 1000  # that a trained agent is measured by

_N_ENVS = 64
_N_STARTS = 8192  # of each kind: where episodes begin is drawn once and then reused
_PPO = {
    "n_steps": 128,
    "batch_size": 1024,
    "n_epochs": 6,
    "learning_rate": 1e-3,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
    "policy_kwargs": {"net_arch": [64, 64]},  # tanh layers; the critic has its own
}


@dataclass(frozen=True, eq=False)
class TrainedAgent:
    """A trained agent and how well it does."""

    task: str
    aim: str
    steps: int
    seed: int
    weights: Weights
    """As `action_probs` reads them."""
    episodes: EpisodeOutcomes
    """What it does from the task's own starts, drawing its actions as in training."""

    @property
    def success_rate(self) -> float:
        assert self.episodes.successes is not None  # a table always tells
        return float(self.episodes.successes.mean())

    @property
    def mean_reward(self) -> float:
        return float(self.episodes.rewards.mean())

    @property
    def mean_length(self) -> float:
        return float(self.episodes.lengths.mean())

    def save(self, path: Path) -> None:
        """Write the weights, and where they come from, whole or not at all."""
        origin = {
            "task": self.task,
            "aim": self.aim,
            "steps": str(self.steps),
            "seed": str(self.seed),
            "mean_reward": f"{self.mean_reward:.4f}",
        }
        with new_file(path) as temporary:
            temporary.write_bytes(save(self.weights, origin))


class TableVecEnv(VecEnv):  # type: ignore[misc]  # Stable-Baselines3 is optional: unknown to mypy
    """Many episodes in one table, abreast; each begins anew by itself when it is over."""

    def __init__(
        self, table: Table, *, starts: Array, scale: Array, n_envs: int, seed: int
    ) -> None:
        """Episodes begin in a state drawn from `starts`; observations come times `scale`."""
        self.starts, self.scale = starts, scale
        self.rng = np.random.default_rng(seed)
        self.render_mode = None
        space = gym.spaces.Box(-np.inf, np.inf, scale.shape, np.float32)
        super().__init__(n_envs, space, table.spaces.action)
        self.walk = TableWalk(table, np.zeros(n_envs, np.int64))

    def reset(self) -> Array:
        self._begin(np.arange(self.num_envs))
        return self._look()

    def step_async(self, actions: Array) -> None:
        self.actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, Any]]]:
        rewards, ended, _ = self.walk.step(self.actions)
        over = ended | self.walk.out_of_time
        seen = self._look()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(over):
            infos[i] = {"terminal_observation": seen[i], "TimeLimit.truncated": not ended[i]}
        if over.any():
            self._begin(np.flatnonzero(over))
            seen = self._look()
        return seen, rewards.astype(np.float32), over, infos

    def _begin(self, episodes: Array) -> None:
        self.walk.begin(episodes, self.rng.choice(self.starts, len(episodes)))

    def _look(self) -> Array:
        return self.walk.observation * self.scale

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self, attr_name)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError  # abstract in VecEnv; PPO never calls it, nor the next

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kw: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


def train(
    task: str,
    aim: str = "goal",
    *,
    steps: int | None = None,
    seed: int = 0,
    on_progress: Progress | None = None,
) -> TrainedAgent:
    """A PPO agent that heads to the goal of a task, or to another of its aims.

    `steps` is rounded up to a multiple of 8,192, one round of PPO. Stable-Baselines3 seeds the
    global generators of Python, NumPy and torch.
    """
    steps = STEPS.get(task, 1) if steps is None else steps  # other tasks are refused below
    if steps < 1:
        raise InputError(f"train for at least 1 step, not {steps}")
    if not 0 <= seed < 2**32:
        raise InputError(f"a seed lies between 0 and 2**32 - 1, not {seed}")
    table = aimed_table(task, aim)
    scale = feature_scale(table)
    starts = training_starts(table, seed)
    env = TableVecEnv(table, starts=starts, scale=scale, n_envs=_N_ENVS, seed=seed)
    model = PPO("MlpPolicy", env, seed=seed, device="cpu", **_PPO)
    model.learn(steps, callback=_Report(steps, on_progress), log_interval=None)
    weights = copy_weights(model.policy, scale)
    episodes = rollout(_Sampler(weights, seed), table, episodes=EPISODES, seed=seed)
    return TrainedAgent(task, aim, int(model.num_timesteps), seed, weights, episodes)


def aimed_table(task: str, aim: str) -> Table:
    """The whole table of a task, in which reaching the aim is what pays.

    For an aim other than the goal, the goal itself still ends the episode but pays nothing.
    """
    chosen = get_task(task)
    if not isinstance(chosen, Task):
        raise InputError(f"no agent is trained for {task}: its best policy is computed")
    table = _whole_table(task)
    if aim == "goal":
        return table
    aims = chosen.other_aims
    if aim not in aims:
        raise InputError(f"{task} has no aim {aim!r}; it has {', '.join(['goal', *aims])}")
    arrives = ~table.end & aims[aim](table)[table.next_state]  # (S, A)
    return replace(table, reward=arrives.astype(float), end=table.end | arrives)


def _whole_table(task: str) -> Table:
    table = get_task(task).table()
    if table is not None:
        return table
    from sdil.tasks import doorkey

    return doorkey.table(int(task[-1]))  # about a minute for 8x8


def training_starts(table: Table, seed: int) -> Array:
    """Where training begins: half at the task's own starts, half anywhere.

    Beginning anywhere shows the agent rewards early on, and teaches it what to do where random
    steps may take it.
    """
    rng = np.random.default_rng(seed)
    own = [table.start_state(int(s)) for s in rng.integers(2**31, size=_N_STARTS)]
    anywhere = rng.choice(np.flatnonzero(np.isfinite(table.distance_to_goal)), _N_STARTS)
    return np.concatenate([own, anywhere])


def feature_scale(table: Table) -> Array:
    """What brings every feature into [-1, 1]."""
    largest = np.abs(table.observe(np.arange(len(table)))).max(0)
    return (1.0 / np.maximum(largest, 1.0)).astype(np.float32)


def copy_weights(policy: Any, scale: Array) -> Weights:
    """The actor of a Stable-Baselines3 policy, under the names that `action_probs` reads."""
    hidden = policy.mlp_extractor.policy_net  # linear, tanh, linear, tanh
    weights = {"scale": scale}
    for name, layer in (("0", hidden[0]), ("1", hidden[2]), ("out", policy.action_net)):
        weights[f"{name}.weight"] = layer.weight.detach().numpy().copy()
        weights[f"{name}.bias"] = layer.bias.detach().numpy().copy()
    return weights


class _Sampler:
    """The agent as it was trained to act: at random."""

    def __init__(self, weights: Weights, seed: int) -> None:
        self.weights, self.rng = weights, np.random.default_rng(seed)

    def predict(
        self,
        observation: Array,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, Any]:
        up_to = np.cumsum(action_probs(self.weights, observation), -1, dtype=np.float64)
        drawn = self.rng.random((len(observation), 1)) * up_to[:, -1:]
        return np.sum(drawn >= up_to, -1), None


class _Report(BaseCallback):  # type: ignore[misc]
    """Tells how far training is, once per round."""

    def __init__(self, steps: int, on_progress: Progress | None) -> None:
        super().__init__()
        self.steps, self.on_progress = steps, on_progress

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        if self.on_progress is not None:
            self.on_progress(min(self.num_timesteps, self.steps), self.steps)
