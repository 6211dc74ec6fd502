"""Proximal policy optimisation (Schulman et al. 2017) on a learned reward, on the plain network.

Clipped objective, generalised advantages, entropy bonus, one Adam over policy and critic, a step
size that falls to nothing. Rewards, values and advantages are times `1 - gamma`, so that a value is
a mean reward. Values are not clipped, nor are gradients.

How an episode ends must not give the answer away. As in Kostrikov et al. 2019 (DAC), an episode
that the task ends goes on for ever in one absorbing state, in which nothing can be done. Its value
is known, so that it is never learned: its reward, for ever. An episode that the clock cuts off
goes on in the state it was left in, by the critic's word.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdil.history import History
from sdil.losses import Sums, refuse_divergence, total
from sdil.networks.policies import PlainNetwork
from sdil.simulators import Simulator
from sdil.states import State, below, nest
from sdil.training import Epoch, OnEpoch, Optimisation


@dataclass(frozen=True)
class Steps:
    """B steps, demonstrated or practised."""

    features: Tensor
    """What the policy sees. (B, features)"""
    states: Tensor
    """`s_t`, standardised. (B, observation)"""
    actions: Tensor
    """`a_t`. (B, *action)"""
    next_states: Tensor
    """`s_{t+1}`, standardised. (B, observation)"""
    ended: Tensor
    """Whether the task ended the episode here: what follows is the absorbing state. (B,)"""

    def __len__(self) -> int:
        return len(self.actions)

    def at(self, index: Tensor) -> Steps:
        """These steps alone."""
        return Steps(
            self.features.index_select(0, index),
            self.states.index_select(0, index),
            self.actions.index_select(0, index),
            self.next_states.index_select(0, index),
            self.ended.index_select(0, index),
        )


@dataclass(frozen=True)
class Rollout:
    """T steps of n episodes abreast."""

    steps: Steps
    """All of them, the episodes abreast at one time side by side. T * n"""
    cut_off: Tensor
    """Where the clock ended the episode. (T, n)"""
    after_cut: Tensor
    """What the policy would have seen next where it did, in that order. (number cut, features)"""
    last: Tensor
    """What it sees next. (n, features)"""
    picked: Tensor
    """What was drawn in each step, before it was brought into the space: of real numbers what the
    policy's likelihood is of. (T * n, any)"""


class Reward(Protocol):
    """What practice is for; it may itself learn from what the policy does."""

    def learn(self, rollout: Rollout) -> dict[str, float]:
        """Before the policy does; returns figures worth keeping."""

    def rewards(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """The reward of every step (T * n,), and of a moment in the absorbing state ()."""

    def state(self) -> State:
        """What `restore` needs."""

    def restore(self, state: State) -> None:
        """Go back to what `state` gave."""


@dataclass(frozen=True)
class Settings:
    """How PPO goes about it."""

    n_steps: int
    """T: steps of each episode per round."""
    gamma: float
    """Discount."""
    gae_lambda: float
    """How far advantages trust what happened over what the critic expected."""
    clip: float
    """How far an action's probability may move per round, as a ratio."""
    entropy_weight: float
    """Weight of the policy's entropy."""
    passes: int
    """Passes over what was practised, per round."""
    parts: int
    """Batches per pass."""


def advantages(
    rewards: Tensor,
    values: Tensor,
    next_values: Tensor,
    over: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Generalised advantage estimates, all (T, n).

    `next_values` is the value of what follows each step: the next state's, the absorbing state's,
    or that of the state in which the clock stopped; `over` says where the next row is another
    episode. Times `1 - gamma` like the values.
    """
    errors = (1.0 - gamma) * rewards + gamma * next_values - values
    goes_on = gamma * gae_lambda * (~over).to(errors.dtype)
    out = torch.empty_like(errors)
    running = torch.zeros_like(errors[0])
    for t in range(len(errors) - 1, -1, -1):
        running = errors[t] + goes_on[t] * running
        out[t] = running
    return out


class PPO:
    """A policy and a critic that practise in a simulator."""

    def __init__(
        self,
        network: PlainNetwork,
        critic: nn.Module,
        optimisation: Optimisation,
        simulator: Simulator,
        history: History,
        settings: Settings,
    ) -> None:
        """`critic` maps features to (B, 1); `optimisation` holds both modules."""
        self.network, self.critic, self.optimisation = network, critic, optimisation
        self.simulator, self.history, self.settings = simulator, history, settings
        self.learning_rates = [g["lr"] for g in optimisation.optimiser.param_groups]

    def rollout(self) -> Rollout:
        """Act for T steps, drawing actions from the policy."""
        simulator, network = self.simulator, self.network
        features, picked, actions, after, ended, cut_off, after_cut = [], [], [], [], [], [], []
        head = network.head
        shape = (self.settings.n_steps, simulator.n)
        noise = head.noise(shape, self.optimisation.generator)
        with torch.no_grad():
            for t in range(self.settings.n_steps):
                seen = torch.from_numpy(simulator.observation)
                now = network.features(self.history.window(seen))
                drawn = head.pick(network.body(now), noise[t])
                chosen = head.decode(drawn)
                moved = simulator.step(chosen.numpy())
                self.history = self.history.after(seen, chosen)
                if moved.cut_off.any():
                    which = np.flatnonzero(moved.cut_off)
                    left = self.history.keep(which).window(torch.from_numpy(moved.after[which]))
                    after_cut.append(network.features(left))
                over = torch.from_numpy(moved.terminated | moved.cut_off)
                self.history = self.history.restarted(over)
                features.append(now)
                picked.append(drawn)
                actions.append(chosen)
                after.append(torch.from_numpy(moved.after))
                ended.append(torch.from_numpy(moved.terminated))
                cut_off.append(torch.from_numpy(moved.cut_off))
            last = network.features(self.history.window(torch.from_numpy(simulator.observation)))
            flat = torch.cat(features)
            steps = Steps(
                features=flat,
                states=flat[:, : network.features.observation_size],
                actions=torch.cat(actions),
                next_states=network.features.standardise(torch.cat(after)),
                ended=torch.cat(ended),
            )
        cut = torch.cat(after_cut) if after_cut else last[:0]
        return Rollout(steps, torch.stack(cut_off), cut, last, torch.cat(picked))

    def improve(
        self, rollout: Rollout, rewards: Tensor, absorbing_reward: Tensor
    ) -> dict[str, float]:
        """Some passes over the rollout; returns the mean loss terms."""
        settings, steps, generator = self.settings, rollout.steps, self.optimisation.generator
        with torch.no_grad():
            values = self.values(steps.features)
            next_values = self.next_values(rollout, values, absorbing_reward)
            ended = steps.ended.view_as(rollout.cut_off)
            advantage = advantages(
                rewards.view_as(next_values),
                values.view_as(next_values),
                next_values,
                ended | rollout.cut_off,
                settings.gamma,
                settings.gae_lambda,
            ).flatten()
            aims = values + advantage
            advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
            before, _ = self._weigh(steps.features, rollout.picked)
        sums = Sums()
        size = -(-len(steps) // settings.parts)
        for _ in range(settings.passes):
            for index in torch.randperm(len(steps), generator=generator).split(size):
                features = steps.features.index_select(0, index)
                taken, entropy = self._weigh(features, rollout.picked.index_select(0, index))
                terms = self._losses(
                    entropy, taken - before[index], advantage[index], features, aims[index]
                )
                self.optimisation.descend(total(terms))
                sums.add(terms)
        return sums.means()

    def values(self, features: Tensor) -> Tensor:
        """The critic's word. (B,)"""
        value: Tensor = self.critic(features)[:, 0]
        return value

    def next_values(self, rollout: Rollout, values: Tensor, absorbing_reward: Tensor) -> Tensor:
        """The value of what follows each step. (T, n)"""
        rows = values.view_as(rollout.cut_off)
        following = torch.cat([rows[1:], self.values(rollout.last)[None]])
        following[rollout.cut_off] = self.values(rollout.after_cut)
        # (1 - gamma) * sum_k gamma^k r = r
        return torch.where(rollout.steps.ended.view_as(rows), absorbing_reward, following)

    def slow_down(self, left: float) -> None:
        """Step sizes for when this share of practice is left."""
        for group, rate in zip(
            self.optimisation.optimiser.param_groups, self.learning_rates, strict=True
        ):
            group["lr"] = rate * left

    def state(self) -> State:
        """Everything, flat, as tensors."""
        saved = {k: torch.from_numpy(v) for k, v in self.simulator.state().items()}
        past = {"states": self.history.states, "actions": self.history.actions}
        return {
            **self.optimisation.state(),
            **nest("simulator", saved),
            **nest("history", {**past, "ages": self.history.ages}),
        }

    def restore(self, state: State) -> None:
        """Go back to what `state` gave."""
        self.optimisation.restore(state)
        self.history = History(**below(state, "history"))
        saved = {k: v.numpy() for k, v in below(state, "simulator").items()}
        begins = self.simulator.restore(saved)
        self.history = self.history.restarted(torch.from_numpy(begins))

    def _weigh(self, features: Tensor, picked: Tensor) -> tuple[Tensor, Tensor]:
        """How likely the policy finds what was drawn, and its entropy. (B,) each"""
        return self.network.head.weigh(self.network.body(features), picked)

    def _losses(
        self, entropy: Tensor, moved: Tensor, advantage: Tensor, features: Tensor, aims: Tensor
    ) -> dict[str, Tensor]:
        """`entropy` is the policy's in each state (B,); `moved` the log of the
        ratio of the new to the old probability (B,)."""
        ratio = moved.exp()
        bounded = ratio.clamp(1.0 - self.settings.clip, 1.0 + self.settings.clip)
        return {
            "policy": -torch.minimum(ratio * advantage, bounded * advantage).mean(),
            "entropy": -self.settings.entropy_weight * entropy.mean(),
            "critic": F.mse_loss(self.values(features), aims),
        }


def practise(
    ppo: PPO,
    reward: Reward,
    *,
    rounds: int,
    valid_loss: Callable[[], Tensor] | None,
    on_epoch: OnEpoch | None,
    resume: State | None,
) -> None:
    """Round by round: act, let the reward learn, improve. `valid_loss` is only reported."""
    done = 0
    if resume is not None:
        ppo.restore(below(resume, "ppo"))
        reward.restore(below(resume, "reward"))
        done = int(resume["rounds"])

    def state() -> State:
        return {
            **nest("ppo", ppo.state()),
            **nest("reward", reward.state()),
            "rounds": torch.tensor(done),
        }

    while done < rounds:
        ppo.slow_down(1.0 - done / rounds)
        rollout = ppo.rollout()
        learned = reward.learn(rollout)
        rewards, absorbing_reward = reward.rewards(rollout)
        losses = {**learned, **ppo.improve(rollout, rewards, absorbing_reward)}
        losses["reward"] = float(rewards.mean())
        losses["ended_per_step"] = float(rollout.steps.ended.float().mean())
        if valid_loss is not None:
            losses["valid_nll"] = float(valid_loss())
        refuse_divergence("practice", losses)
        done += 1
        if on_epoch is not None:
            on_epoch(Epoch("practice", done, rounds, losses, state))
