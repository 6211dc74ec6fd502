"""Maximum causal entropy inverse reinforcement learning (Ziebart 2010, chapters 9 and 10).

Find the reward under which the soft-optimal policy comes by each state as often as demonstrations
do, clean and noisy alike. `fit(demos, env=table)` plans exactly, in the task's `Table`. With any
other `env`, or none, it plans in a decision process estimated from the logged steps, whose states
are `n_clusters` clusters, and the policy says so: its learner is "mce-irl (offline)".

A table tells where episodes end. In FourRooms that is the goal alone, so an exact plan has only to
learn that time costs something, and few demonstrations do; a learner without the table has no such
help, and their figures should be read with this in mind. (For the same reason the reward starts
near 0: starting at a cost per step would solve FourRooms before the first demonstration is seen.)

Departures:
- The reward is a network on the standardised observation, as in `imitation`, not linear.
- First states are those of the demonstrations. With deterministic transitions, the occupancy
  measure matched here then gives exactly the gradient of the likelihood of the recorded actions;
  and where a demonstration breaks off, so does what it is compared with.
- Early stopping looks at the likelihood of clean validation actions.
- Different states of a table may look alike. A demonstration is followed along every path through
  the table that looks like it, and the paths share its weight.
- What is returned is the network every baseline uses, not a table: it can be saved, evaluated on
  any observation and compared like the others. It is trained by cross-entropy on the soft-optimal
  policy at the first moment, with the whole horizon ahead: on every observation of the table alike,
  since it may start anywhere, and offline on the logged ones.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.acting import suit
from sdil.algorithms.demonstrated_mdp import DemonstratedMDP, enumerate_mdp, estimate_mdp
from sdil.algorithms.learner import check
from sdil.algorithms.soft_planning import SoftPlan, occupancy, plan
from sdil.demonstrations import Demonstrations, hold_out
from sdil.errors import InputError
from sdil.limits import Count, CountOrNone, Positive, Weight
from sdil.networks.encoders import mlp
from sdil.networks.policies import Architecture, PlainNetwork, PlainPolicy
from sdil.simulators import environment_maker, table_of
from sdil.states import State, below, nest
from sdil.table import Table
from sdil.training import Budget, Convergence, OnEpoch, Optimisation, seeded, with_more
from sdil.windows import STEPS_AT_ONCE

REWARD, DISTIL = range(2)


@dataclass(frozen=True)
class MCEIRL:
    """Maximum causal entropy inverse reinforcement learning."""

    n_clusters: Count = 100
    """States of the estimated decision process; not used with a Table."""
    reward_learning_rate: Positive = 1e-2
    """Adam's step size for the reward."""
    reward_min_updates: CountOrNone = 100
    """Updates of the reward before early stopping may end its training."""
    reward_patience: Count = 60
    """Updates without a better clean validation likelihood after which its training ends."""
    reward_max_updates: Count = 400
    """Updates of the reward at the most; each plans once."""
    hidden: Count = 64
    """Width of the hidden layers of reward and policy."""
    layers: Count = 2
    """Number of hidden layers of each."""
    learning_rate: Positive = 1e-3
    """Adam's step size for the policy network."""
    weight_decay: Weight = 5e-4
    """L2 penalty on the weights of both."""
    batch_size: Count = 256
    """States per update of the policy network."""
    min_updates: CountOrNone = 400
    """Updates of the policy network before early stopping may end its training."""
    patience: Count = 200
    """Updates without coming closer to the soft-optimal policy after which its training ends."""
    max_updates: Count = 4_000
    """Updates of the policy network at the most."""

    name: ClassVar[str] = "mce-irl"
    reference: ClassVar[str] = "Ziebart 2010"
    noisy_set: ClassVar[str] = "imitated as if clean"
    environment: ClassVar[str] = "if given"
    judges_steps: ClassVar[bool] = False
    takes_judge: ClassVar[bool] = False
    takes_truth: ClassVar[bool] = False
    real_actions: ClassVar[bool] = False

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
        """Match clean and noisy visits alike; validation is clean.

        `env` is a Table, or an environment that offers one; then the plan is exact.
        """
        if not demos.spaces.listed:
            raise InputError(
                "mce-irl plans over a list of actions in a list of states, so it cannot learn "
                f"actions of {demos.spaces.action}; gail, airl and density-irl can"
            )
        check(demos, self, seed)
        if env is not None and not isinstance(env, Table):
            env = table_of(environment_maker(env)())
        train, held_out = hold_out(demos, valid, seed=seed)
        architecture = Architecture(look_back=0, hidden=self.hidden, layers=self.layers)
        with seeded(seed) as generator:
            network = PlainNetwork(demos.spaces, architecture)
            reward = mlp(network.features.size, self.hidden, self.layers, 1)
        standardise = network.features.standardise
        exact = isinstance(env, Table)
        mdp = (
            enumerate_mdp(env, train.all, held_out, standardise, demos.spaces)
            if isinstance(env, Table)
            else estimate_mdp(
                train.all,
                held_out,
                standardise,
                n_actions=demos.spaces.listed,
                n_clusters=self.n_clusters,
                seed=seed,
            )
        )
        begun = REWARD if resume is None else int(resume["phase"])
        own = None if resume is None else below(resume, "own")
        if begun == REWARD:
            report = with_more(on_epoch, lambda: _phase(REWARD))
            self._learn_reward(reward, mdp, generator, report, own)
        else:
            assert resume is not None
            reward.load_state_dict(below(resume, "reward"))
        found = {**_phase(DISTIL), **nest("reward", reward.state_dict())}
        with torch.no_grad():
            planned = _plan_with(reward(mdp.observations)[:, 0], mdp)
        self._distil(
            network,
            mdp,
            planned,
            generator,
            with_more(on_epoch, lambda: found),
            own if begun == DISTIL else None,
        )
        policy = PlainPolicy(
            demos.spaces,
            architecture,
            network,
            learner=self.name if exact else f"{self.name} (offline)",
            hyperparameters=asdict(self),
        )
        return suit(policy, train)

    def _learn_reward(
        self,
        reward: nn.Sequential,
        mdp: DemonstratedMDP,
        generator: torch.Generator,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> None:
        """Descend the dual of the maximum causal entropy problem (Ziebart's section 10.2)."""
        n_states, n_observations = mdp.dynamics.n_states, len(mdp.observations)
        n_steps = mdp.train.weights @ mdp.train.lengths
        demonstrated = mdp.train.visits(n_states)
        entering = mdp.train.entering(n_states, mdp.horizon)

        def loss(_: Tensor) -> dict[str, Tensor]:
            rewards = reward(mdp.observations)[:, 0]  # (O,)
            if not rewards.isfinite().all():
                return {"imitation": rewards.sum() * math.nan}
            planned = _plan_with(rewards, mdp)
            # E_pi[sum r] - E_demo[sum r], whose gradient is that of the dual,
            # sum of V where paths begin (less V where they stop) - sum of r along them.
            visits = occupancy(planned, entering)[:-1].sum(0)
            excess = np.bincount(mdp.observation_of, visits - demonstrated, n_observations)
            dual = (entering * planned.V).sum() - demonstrated @ planned.reward
            surrogate = rewards @ torch.from_numpy(excess).float() / n_steps
            return {"imitation": surrogate + (dual / n_steps - surrogate.detach())}

        def valid_loss() -> Tensor:
            with torch.no_grad():
                rewards = reward(mdp.observations)[:, 0]
            if not rewards.isfinite().all():
                return torch.tensor(math.nan)
            return torch.tensor(-mdp.valid.log_likelihood(_plan_with(rewards, mdp)))

        Convergence(
            "reward",
            Optimisation(
                {"reward": reward},
                learning_rate=self.reward_learning_rate,
                weight_decay=self.weight_decay,
                generator=generator,
            ),
            loss=loss,
            valid_loss=valid_loss,
            n_samples=1,  # all demonstrations at once
            batch_size=1,
            budget=Budget(self.reward_min_updates, self.reward_patience, self.reward_max_updates),
        ).run(on_epoch, resume)

    def _distil(
        self,
        network: PlainNetwork,
        mdp: DemonstratedMDP,
        planned: SoftPlan,
        generator: torch.Generator,
        on_epoch: OnEpoch | None,
        resume: State | None,
    ) -> None:
        """Train the policy network to do what the plan does, wherever it may look."""
        teacher = torch.from_numpy(mdp.policy(planned)).float()[torch.from_numpy(mdp.shown)]

        def loss(index: Tensor) -> dict[str, Tensor]:
            return {"distillation": F.cross_entropy(network(mdp.windows.at(index)), teacher[index])}

        def whole_loss() -> Tensor:
            with torch.no_grad():
                everything = torch.arange(len(teacher)).split(STEPS_AT_ONCE)
                parts = [loss(index)["distillation"] * len(index) for index in everything]
            return torch.stack(parts).sum() / len(teacher)

        Convergence(
            "distil",
            Optimisation(
                {"network": network},
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                generator=generator,
            ),
            loss=loss,
            valid_loss=whole_loss,
            watched="whole_distillation",
            n_samples=len(teacher),
            batch_size=self.batch_size,
            budget=Budget(self.min_updates, self.patience, self.max_updates),
        ).run(on_epoch, resume)


def _plan_with(rewards: Tensor, mdp: DemonstratedMDP) -> SoftPlan:
    """The plan for these rewards of observations (O,)."""
    per_state = rewards.detach().double().numpy()[mdp.observation_of]
    return plan(mdp.dynamics, per_state, mdp.horizon)


def _phase(number: int) -> State:
    return {"phase": torch.tensor(number)}
