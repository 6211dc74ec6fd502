"""Behaviour cloning by other libraries, each in an environment of its own.

`training_speed.py` starts it as `python peers.py NAME DATA.npz`. It answers every line on standard
input, a number of updates, with the seconds they took. It imports nothing of ours, and everything
that a library lets one set is set as in our own learner.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Train = Callable[[int], float]
"""Trains a new learner for so many updates; how many seconds they took."""


def imitation(data: dict[str, Any], setting: dict[str, Any]) -> Train:
    """`imitation.algorithms.bc.BC`: batches by PyTorch's DataLoader, its own logger silenced."""
    import gymnasium as gym
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


def main() -> None:
    """Answer until standard input ends. What the library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    name, file = sys.argv[1:]
    torch.set_num_threads(1)
    with np.load(file) as arrays:
        data = {key: arrays[key] for key in ("observations", "actions", "ends")}
        setting = json.loads(str(arrays["setting"]))
    torch.manual_seed(setting["seed"])
    np.random.seed(setting["seed"])  # noqa: NPY002  # d3rlpy draws its batches with it
    train = {"imitation": imitation, "d3rlpy": d3rlpy}[name](data, setting)
    for line in sys.stdin:
        print(train(int(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
