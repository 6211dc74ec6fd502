"""What GAIL, AIRL, ACIL and DensityIRL share: a reward from demonstrations, a policy from it.

Given an environment, the policy practises in it by PPO (see `ppo`) for `env_steps` steps, and what
comes out is the policy as it is then: nothing is selected, so nothing is held out either. Without
one, it is trained on the logged states with its own actions, stops by clean validation, and says
that it is "(offline)".

Of actions that cannot be listed the policy is a Gaussian in practice and a mixture offline; offline
a mean over its actions is one over some that are drawn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from sdil.acting import suit
from sdil.algorithms.learner import check
from sdil.algorithms.ppo import PPO, Reward, Settings, Steps, practise
from sdil.demonstrations import Demonstrations, hold_out
from sdil.errors import InputError
from sdil.heads import MODES, Considered
from sdil.held_out import mean_nll
from sdil.history import History
from sdil.limits import Count, CountOrNone, Discount, Positive, Share, Weight
from sdil.networks.encoders import mlp
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.networks.raters import ActionRater
from sdil.simulators import Simulator, simulator
from sdil.states import State
from sdil.training import Budget, Convergence, OnEpoch, Optimisation, seeded
from sdil.trajectories import Trajectories
from sdil.windows import Windows

_DRAWS = 8  # of actions that cannot be listed, in each state, where a policy learns offline

Losses = Callable[[Tensor], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Lesson:
    """What a reward is made from."""

    train: Demonstrations
    """What may be learned from."""
    windows: Windows
    """The part of it that is imitated."""
    network: PlainNetwork
    """The policy's network, standardised to the training set."""
    generator: torch.Generator
    """Random numbers for training."""

    @property
    def observation_size(self) -> int:
        """Numbers in an observation."""
        return self.network.features.observation_size

    def rater(self, hidden: int, layers: int) -> ActionRater:
        """A new network that rates an action in a state."""
        return ActionRater(self.observation_size, self.network.head, hidden, layers)

    def consider(self, outputs: Tensor) -> Considered:
        """What the policy might do by these outputs: all actions, or some that are drawn."""
        return self.network.head.consider(outputs, self.generator, _DRAWS)

    def states(self, windows: Windows, index: Tensor) -> Tensor:
        """The standardised `s_t` of these steps. (B, observation)"""
        return self.network.features.standardise(windows.observations[windows.rows[index]])

    def steps(self, trajectories: Trajectories) -> Steps:
        """All steps of which it is known what follows: a next state, or the end."""
        windows = Windows(trajectories, self.windows.look_back)
        last = trajectories.times() == np.repeat(trajectories.lengths, trajectories.lengths) - 1
        ended = last & np.repeat(trajectories.terminated, trajectories.lengths)
        known = torch.from_numpy(ended) | windows.has_next
        index = torch.where(known)[0]
        if not len(index):
            raise InputError("no demonstration tells what follows any of its steps")
        following, _ = windows.next_states_at(index)
        features = self.network.features(windows.at(index))
        return Steps(
            features=features,
            states=features[:, : self.observation_size],
            actions=windows.actions_at(index),
            next_states=self.network.features.standardise(following),
            ended=torch.from_numpy(ended)[index],
        )


@dataclass(frozen=True)
class RewardLearner(ABC):
    """A reward from demonstrations, and a policy that earns it."""

    look_back: CountOrNone = 0
    """Past (state, action) pairs the policy sees beside the current state."""
    hidden: Count = 64
    """Width of the hidden layers of every network."""
    layers: Count = 2
    """Number of hidden layers of every network."""
    learning_rate: Positive = 1e-3
    """Adam's step size."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights."""
    batch_size: Count = 256
    """Demonstrated steps per update."""
    env_steps: Count = 500_000
    """With an environment: steps of practice, rounded up to whole rounds."""
    n_envs: Count = 128
    """With an environment: episodes abreast."""
    round_steps: Count = 64
    """With an environment: steps of each episode per round."""
    gamma: Discount = 0.98
    """With an environment: the discount."""
    gae_lambda: Share = 0.95
    """With an environment: how far advantages trust what happened over the critic."""
    clip: Positive = 0.2
    """With an environment: how far PPO may move a probability per round, as a ratio."""
    entropy_weight: Weight = 0.01
    """With an environment: weight of the policy's entropy, against advantages of spread 1."""
    passes: Count = 4
    """With an environment: PPO's passes over each round."""
    parts: Count = 8
    """With an environment: PPO's batches per pass."""
    offline_entropy_weight: Weight = 0.1
    """Offline: weight of the policy's entropy, against rewards as they are."""
    min_updates: CountOrNone = 400
    """Offline: updates at the least; weights of fewer are never kept."""
    patience: Count = 200
    """Offline: updates without a better clean validation likelihood after which training ends."""
    max_updates: Count = 4_000
    """Offline: updates at the most."""

    name: ClassVar[str]
    reference: ClassVar[str]
    noisy_set: ClassVar[str] = "imitated as if clean"
    environment: ClassVar[str] = "if given"
    judges_steps: ClassVar[bool] = False
    takes_judge: ClassVar[bool] = False
    takes_truth: ClassVar[bool] = False
    real_actions: ClassVar[bool] = True

    @abstractmethod
    def reward(self, lesson: Lesson) -> Reward:
        """The reward that is practised for."""

    @abstractmethod
    def offline(self, lesson: Lesson) -> tuple[Mapping[str, nn.Module], Losses]:
        """What is trained beside the policy, and the loss terms of steps of `lesson.windows`."""

    def imitated(self, train: Demonstrations) -> Trajectories:
        """What the policy is to look like."""
        return train.all

    def fit(
        self,
        demos: Demonstrations,
        *,
        valid: Demonstrations | None = None,
        seed: int = 0,
        env: Any = None,
        on_epoch: OnEpoch | None = None,
        resume: State | None = None,
    ) -> PlainPolicy:
        """Learn a reward and a policy; `env` is a Table, a task, a Gymnasium id or a function."""
        check(demos, self, seed)
        modes = MODES if env is None else 1  # PPO has a Gaussian, whose entropy is known
        architecture = Architecture(self.look_back, self.hidden, self.layers, modes=modes)
        train, held_out = demos, None
        if env is None or valid is not None:
            train, held_out = hold_out(demos, valid, seed=seed)
        with seeded(seed) as generator:
            network = PlainNetwork(demos.spaces, architecture)
            network.fit_to(Windows(train.all, 0), leans=False)
            windows = Windows(self.imitated(train), self.look_back)
            lesson = Lesson(train, windows, network, generator)
            valid_windows = None if held_out is None else Windows(held_out, self.look_back)
            if env is None:
                assert valid_windows is not None
                self._train_offline(lesson, valid_windows, on_epoch, resume)
            else:
                episodes = simulator(env, self.n_envs, seed, demos.spaces)
                try:
                    self._practise(lesson, episodes, valid_windows, on_epoch, resume)
                finally:
                    episodes.close()
        policy = PlainPolicy(
            demos.spaces,
            architecture,
            network,
            learner=self.name if env is not None else f"{self.name} (offline)",
            hyperparameters=asdict(self),
        )
        return suit(policy, train)

    def optimisation(self, lesson: Lesson, modules: Mapping[str, nn.Module]) -> Optimisation:
        """Adam over these modules, as this learner has it."""
        return Optimisation(
            modules,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            generator=lesson.generator,
        )

    def _train_offline(
        self, lesson: Lesson, valid: Windows, on_epoch: OnEpoch | None, resume: State | None
    ) -> None:
        modules, losses = self.offline(lesson)
        Convergence(
            "offline",
            self.optimisation(lesson, {"network": lesson.network, **modules}),
            loss=losses,
            valid_loss=lambda: mean_nll(lesson.network, lesson.network.head, valid),
            n_samples=len(lesson.windows),
            batch_size=self.batch_size,
            budget=Budget(self.min_updates, self.patience, self.max_updates),
        ).run(on_epoch, resume)

    def _practise(
        self,
        lesson: Lesson,
        episodes: Simulator,
        valid: Windows | None,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> None:
        network = lesson.network
        critic = mlp(network.features.size, self.hidden, self.layers, 1)
        ppo = PPO(
            network,
            critic,
            self.optimisation(lesson, {"network": network, "critic": critic}),
            episodes,
            History.none(episodes.spaces, self.n_envs, self.look_back),
            Settings(
                n_steps=self.round_steps,
                gamma=self.gamma,
                gae_lambda=self.gae_lambda,
                clip=self.clip,
                entropy_weight=self.entropy_weight,
                passes=self.passes,
                parts=self.parts,
            ),
        )
        practise(
            ppo,
            self.reward(lesson),
            rounds=-(-self.env_steps // (self.n_envs * self.round_steps)),
            valid_loss=None if valid is None else lambda: mean_nll(network, network.head, valid),
            on_epoch=on_epoch,
            resume=resume,
        )
