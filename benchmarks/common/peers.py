"""Other libraries: an environment of its own for each, and what runs inside it.

Our side asks `environment` for the Python of a library and starts this file with it:

    python peers.py time NAME DATA.npz                 # `training_speed.py` does
    python peers.py learn NAME DATA.npz ACTIONS.npy    # `imitation_peers.py` does

`time` answers every line on standard input, a number of updates of behaviour cloning by NAME, with
the seconds they took; all that a library lets one set is set as in our own learner. `learn` trains
a learner of `imitation` on a task given as arrays, with the settings of its documentation and our
network sizes, and writes the greedy action of each state (1, S), or of each state at each time
(H, S) where the policy depends on time. Observations come standardised, as ours. This file imports
nothing of ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

FILE = Path(__file__)
ROOT = FILE.parents[2]
PACKAGES = {
    "imitation": ["imitation==1.0.1", "gymnasium==0.29.1", "stable-baselines3==2.2.1"],
    "d3rlpy": ["d3rlpy==2.8.1", "gymnasium==1.0.0"],
}
N_ENVS = 8
ROLLOUT = 256  # steps of each environment between two updates of the policy

Train = Callable[[int], float]
"""Trains a new learner for so many updates; how many seconds they took."""


def environment(name: str) -> Path:
    """The Python of `.venv-NAME`, which is made where it does not exist.

    PyTorch comes first and by its exact version: a looser requirement pulls the CUDA build.
    """
    packages = PACKAGES[name]
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if (folder / "installed").exists():
        return python
    print(f"installing {', '.join(packages)} into {folder} ...", flush=True)
    torch_itself = f"torch=={torch.__version__.partition('+')[0]}"
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet"]
    commands: list[list[str | Path]] = [
        [sys.executable, "-m", "venv", folder],
        [*pip, torch_itself, "setuptools<81"],
        [*pip, torch_itself, "setuptools<81", *packages],
    ]
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"installing it failed: {done.stderr.strip().splitlines()[-1:]}")
    (folder / "installed").touch()
    return python


def imitation(data: dict[str, Any], setting: dict[str, Any]) -> Train:
    """`imitation.algorithms.bc.BC`: batches by PyTorch's DataLoader, its own logger silenced."""
    from imitation.algorithms import bc
    from imitation.data.types import Transitions
    from imitation.util import logger
    from stable_baselines3.common.policies import ActorCriticPolicy

    observation = gym.spaces.Box(-np.inf, np.inf, data["observations"].shape[1:], np.float32)
    action = gym.spaces.Discrete(setting["n_actions"])
    demonstrations = Transitions(
        obs=data["observations"],
        acts=data["actions"],
        infos=np.full(len(data["actions"]), {}),
        next_obs=data["observations"],  # it wants them, and does not use them
        dones=data["ends"],
    )

    def train(updates: int) -> float:
        learner = bc.BC(
            observation_space=observation,
            action_space=action,
            rng=np.random.default_rng(setting["seed"]),
            policy=ActorCriticPolicy(
                observation,
                action,
                lambda _: setting["learning_rate"],
                net_arch={"pi": [setting["hidden"]] * 2, "vf": []},  # it has no use for values
                activation_fn=torch.nn.LeakyReLU,
            ),
            demonstrations=demonstrations,
            batch_size=setting["batch_size"],
            optimizer_kwargs={"lr": setting["learning_rate"], "fused": True},
            ent_weight=0.0,
            l2_weight=setting["weight_decay"],
            device="cpu",
            custom_logger=logger.configure(format_strs=[]),
        )
        began = time.perf_counter()
        learner.train(n_batches=updates, progress_bar=False)
        return time.perf_counter() - began

    return train


def d3rlpy(data: dict[str, Any], setting: dict[str, Any]) -> Train:
    """`d3rlpy.algos.DiscreteBC`: batches by its replay buffer, no progress bar, no files."""
    import d3rlpy
    from d3rlpy.logging import NoopAdapterFactory

    d3rlpy.logging.set_log_context()
    dataset = d3rlpy.dataset.MDPDataset(
        data["observations"],
        data["actions"][:, None],
        np.zeros(len(data["actions"]), np.float32),
        data["ends"].astype(np.float32),
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=setting["n_actions"],
    )
    n_samples = len(data["actions"])

    def train(updates: int) -> float:
        learner = d3rlpy.algos.DiscreteBCConfig(
            batch_size=setting["batch_size"],
            learning_rate=setting["learning_rate"],
            optim_factory=d3rlpy.optimizers.AdamFactory(weight_decay=setting["weight_decay"]),
            encoder_factory=d3rlpy.models.VectorEncoderFactory([setting["hidden"]] * 2),
            beta=0.0,
        ).create(device="cpu:0")
        learner.build_with_dataset(dataset)
        began = time.perf_counter()
        learner.fit(
            dataset,
            n_steps=updates,
            n_steps_per_epoch=min(updates, n_samples // setting["batch_size"]),
            logger_adapter=NoopAdapterFactory(),
            show_progress=False,
        )
        return time.perf_counter() - began

    return train


def answer_times(name: str, file: str) -> None:
    """Answer until standard input ends. What the library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with np.load(file) as arrays:
        data = {key: arrays[key] for key in ("observations", "actions", "ends")}
        setting = json.loads(str(arrays["setting"]))
    torch.manual_seed(setting["seed"])
    np.random.seed(setting["seed"])  # noqa: NPY002  # d3rlpy draws its batches with it
    train = {"imitation": imitation, "d3rlpy": d3rlpy}[name](data, setting)
    for line in sys.stdin:
        print(train(int(line)), file=answers, flush=True)


class TableEnv(gym.Env[Any, Any]):
    """The task: S states, A actions, deterministic. Its own reward is not shown to a learner."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        n_actions, size = data["next_state"].shape[1], data["observations"].shape[1]
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.action_space = gym.spaces.Discrete(n_actions)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.np_random.choice(self.data["starts"]))
        self.steps = 0
        return self.data["observations"][self.state], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ended = bool(self.data["end"][self.state, action])
        self.state = int(self.data["next_state"][self.state, action])
        self.steps += 1
        cut_off = not ended and self.steps >= int(self.data["horizon"])
        return self.data["observations"][self.state], 0.0, ended, cut_off, {}


def trajectories(data: dict[str, Any]) -> list[Any]:
    """The demonstrations as imitation's own."""
    from imitation.data.types import Trajectory

    states = np.split(data["demo_states"], np.cumsum(data["lengths"] + 1)[:-1])
    actions = np.split(data["demo_actions"], np.cumsum(data["lengths"])[:-1])
    return [
        Trajectory(obs=data["observations"][s], acts=a, infos=None, terminal=True)
        for s, a in zip(states, actions, strict=True)
    ]


def environments(data: dict[str, Any], setting: dict[str, Any]) -> Any:
    from stable_baselines3.common.vec_env import DummyVecEnv

    venv = DummyVecEnv([lambda: TableEnv(data)] * N_ENVS)
    venv.seed(setting["seed"])
    return venv


def ppo(venv: Any, setting: dict[str, Any], **more: Any) -> Any:
    from stable_baselines3 import PPO

    options = {
        "n_steps": ROLLOUT,
        "batch_size": 64,
        "ent_coef": 0.0,
        "learning_rate": 4e-4,
        "gamma": 0.95,
        "n_epochs": 5,
        "policy_kwargs": {"net_arch": [setting["hidden"]] * 2},
        "seed": setting["seed"],
        "device": "cpu",
    }
    return PPO("MlpPolicy", venv, **{**options, **more})


def bc(data: dict[str, Any], setting: dict[str, Any], folder: str) -> Any:
    from imitation.algorithms.bc import BC
    from imitation.data.rollout import flatten_trajectories
    from imitation.util import logger
    from stable_baselines3.common.policies import ActorCriticPolicy

    env = TableEnv(data)
    demonstrations = flatten_trajectories(trajectories(data))
    learner = BC(
        observation_space=env.observation_space,
        action_space=env.action_space,
        rng=np.random.default_rng(setting["seed"]),
        policy=ActorCriticPolicy(
            env.observation_space,
            env.action_space,
            lambda _: setting["learning_rate"],
            net_arch={"pi": [setting["hidden"]] * 2, "vf": []},
        ),
        demonstrations=demonstrations,
        batch_size=min(setting["batch_size"], len(demonstrations)),
        optimizer_kwargs={"lr": setting["learning_rate"]},
        device="cpu",
        custom_logger=logger.configure(folder, []),
    )
    learner.train(n_batches=setting["updates"], progress_bar=False)
    return learner.policy


def adversarial(data: dict[str, Any], setting: dict[str, Any], folder: str, name: str) -> Any:
    from imitation.algorithms.adversarial.airl import AIRL
    from imitation.algorithms.adversarial.gail import GAIL
    from imitation.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet
    from imitation.util import logger
    from imitation.util.networks import RunningNorm

    kind, network, updates, batch = {
        "gail": (GAIL, BasicRewardNet, 8, 1024),
        "airl": (AIRL, BasicShapedRewardNet, 16, 2048),
    }[name]
    venv = environments(data, setting)
    more = {"learning_rate": 5e-4, "clip_range": 0.1, "vf_coef": 0.1} if name == "airl" else {}
    learner = kind(
        demonstrations=trajectories(data),
        demo_batch_size=min(batch, len(data["demo_actions"])),
        gen_replay_buffer_capacity=512 if name == "gail" else 2048,
        n_disc_updates_per_round=updates,
        venv=venv,
        gen_algo=ppo(venv, setting, **more),
        reward_net=network(
            venv.observation_space, venv.action_space, normalize_input_layer=RunningNorm
        ),
        log_dir=folder,
        custom_logger=logger.configure(folder, []),
        allow_variable_horizon=True,
    )
    learner.train(max(setting["steps"], N_ENVS * ROLLOUT))
    return learner.policy


def density(data: dict[str, Any], setting: dict[str, Any], folder: str) -> Any:
    from imitation.algorithms.density import DensityAlgorithm
    from imitation.util import logger

    venv = environments(data, setting)
    learner = DensityAlgorithm(
        demonstrations=trajectories(data),
        venv=venv,
        rng=np.random.default_rng(setting["seed"]),
        rl_algo=ppo(venv, setting),
        custom_logger=logger.configure(folder, []),
        allow_variable_horizon=True,
    )
    learner.train()
    learner.train_policy(setting["steps"])
    return learner.policy


def mce_irl(data: dict[str, Any], setting: dict[str, Any], folder: str) -> Any:
    """Actions at each time (H, S). One state is added: where an episode is when it is over."""
    from imitation.algorithms.mce_irl import MCEIRL
    from imitation.rewards.reward_nets import BasicRewardNet
    from imitation.util import logger
    from seals.base_envs import TabularModelPOMDP

    n_states, n_actions = data["next_state"].shape
    horizon = int(data["horizon"])
    final = data["end"].all(1)
    to = np.where(final[:, None], n_states, data["next_state"])
    transition = np.zeros((n_states + 1, n_actions, n_states + 1))
    np.put_along_axis(transition[:n_states], to[..., None], 1.0, axis=2)
    transition[n_states, :, n_states] = 1.0
    size = data["observations"].shape[1]
    observations = np.zeros((n_states + 1, size + 1), np.float32)
    observations[:n_states, :size] = data["observations"]
    observations[n_states, size] = 1.0
    visits = np.bincount(data["demo_states"], minlength=n_states + 1).astype(float)
    visits[n_states] = len(data["lengths"]) * (horizon + 1) - visits.sum()
    starts = np.bincount(data["starts"], minlength=n_states + 1)
    env = TabularModelPOMDP(
        transition_matrix=transition,
        observation_matrix=observations,
        reward_matrix=np.zeros(n_states + 1),
        horizon=horizon,
        initial_state_dist=starts / starts.sum(),
    )
    learner = MCEIRL(
        visits / len(data["lengths"]),
        env,
        BasicRewardNet(
            env.observation_space,
            env.action_space,
            use_action=False,
            use_next_state=False,
            use_done=False,
            hid_sizes=[setting["hidden"]] * 2,
        ),
        np.random.default_rng(setting["seed"]),
        log_interval=None,
        custom_logger=logger.configure(folder, []),
    )
    learner.train(max_iter=setting["mce_updates"])
    return learner.policy.pi.argmax(2)[:, :n_states]


def learn(name: str, file: str, out: str) -> None:
    """Train a learner of `imitation` and write what it does in each state."""
    with np.load(file) as arrays:
        data = dict(arrays)
    setting = json.loads(str(data.pop("setting")))
    torch.manual_seed(setting["seed"])
    train: dict[str, Callable[[str], Any]] = {
        "bc": lambda folder: bc(data, setting, folder),
        "gail": lambda folder: adversarial(data, setting, folder, "gail"),
        "airl": lambda folder: adversarial(data, setting, folder, "airl"),
        "density-irl": lambda folder: density(data, setting, folder),
        "mce-irl": lambda folder: mce_irl(data, setting, folder),
    }
    with tempfile.TemporaryDirectory() as folder:
        policy = train[name](folder)
    if not isinstance(policy, np.ndarray):
        policy = policy.predict(data["observations"], deterministic=True)[0][None]
    np.save(out, policy)


def main() -> None:
    """`time` or `learn`, as the first argument says."""
    torch.set_num_threads(1)
    does: dict[str, Callable[..., None]] = {"time": answer_times, "learn": learn}
    does[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
