"""A policy in an environment, a table or a Markov model, many episodes at once.

Every episode has a seed of its own, so the result does not depend on how many run side by side. In
a Markov model a policy that sees only the state needs no episodes: what it earns is computed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
import torch

from sdil.acting import DEFAULT, GREEDY, act_by
from sdil.cores import computing_on, steadily
from sdil.errors import InputError
from sdil.evaluation.statistics import wilson_interval
from sdil.markov import MarkovModel, ModelWalk
from sdil.nested import action_of
from sdil.observations import is_packed, nest_parts, pack_observations, unpack_observations
from sdil.policy import Policy, Rule
from sdil.simulators import EnvironmentLike as Steppable
from sdil.simulators import different_space, environment_maker, table_of
from sdil.spaces import Array, Spaces
from sdil.table import Table, TableWalk

Factory = Callable[[], "gym.Env[Any, Any]"]
EnvironmentLike = Steppable | MarkovModel
Progress = Callable[[int, int], None]

EPISODES = 1_000
EPISODES_IN_A_MODEL = 10_000  # chance decides there, and returns lie close together


class Predictor(Protocol):
    """Anything that acts like a Stable-Baselines3 policy.

    Of `Dict` observations one that is not ours is given what Stable-Baselines3 gives: a dictionary,
    nested as the space is, whose parts have a leading axis.
    """

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Array | None = None,
        deterministic: bool = True,
    ) -> tuple[Array, Any]: ...


@dataclass(frozen=True, eq=False)
class EpisodeOutcomes:
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
    """A summary of episodes; `episodes` keeps them all. Where `exact`, there were none."""

    reward_mean: float
    reward_std: float
    reward_sem: float
    """Standard error of the mean."""
    success_rate: float | None
    success_interval: tuple[float, float] | None
    """Wilson's 95% interval; where `exact`, the rate itself twice."""
    length_mean: float
    n_episodes: int
    """How many episodes were run; 0 where `exact`."""
    seed: int
    episodes: EpisodeOutcomes = field(repr=False)
    exact: bool = False
    """True where everything was computed from the transition probabilities, nothing sampled."""


@steadily
def evaluate(
    policy: Predictor,
    environment: EnvironmentLike,
    *,
    episodes: int | None = None,
    seed: int = 0,
    n_envs: int = 64,
    acting: str | Rule | Sequence[Rule] = DEFAULT,
    success: Callable[[float, int], bool] | None = None,
    on_progress: Progress | None = None,
    device: str | None = None,
) -> Evaluation:
    """What `policy` earns, acting as it does by default or in the way that is asked for.

    `acting` is "default", "greedy" (the likeliest action), "sampled" (drawn: the result follows
    from `seed` and `n_envs`), "without-circles", "value", or rules of `sdil.acting`.

    `environment` is a task's name ("fourrooms"), a Gymnasium id, a function that makes an
    environment, a Table or a MarkovModel. A task that has a table or a model is run through it.

    Without a number of episodes, a policy that sees only the state when it acts is evaluated
    exactly in a model, others on 10,000 episodes there and on 1,000 elsewhere.

    `success` says of an episode's sum of rewards and its length whether it succeeded, such as
    `lambda reward, length: reward > 0.5 and length < 100`; without it the environment does, by
    `info["is_success"]` at the end. Pictures are encoded on the `device`: "cpu", "cuda", "auto".
    """
    with computing_on(device):
        return _evaluate(policy, environment, episodes, seed, n_envs, acting, success, on_progress)


def _evaluate(
    policy: Predictor,
    environment: EnvironmentLike,
    episodes: int | None,
    seed: int,
    n_envs: int,
    acting: str | Rule | Sequence[Rule],
    success: Callable[[float, int], bool] | None,
    on_progress: Progress | None,
) -> Evaluation:
    policy = _acting_by(policy, acting)
    place = _place(environment)
    exact = success is None and episodes is None and sees_only_the_state(policy)
    if exact and isinstance(place, MarkovModel):
        check_spaces(policy, place.spaces)
        return _exactly(policy, place, seed)
    if episodes is None:
        episodes = EPISODES_IN_A_MODEL if isinstance(place, MarkovModel) else EPISODES
    ran = rollout(
        policy, place, episodes=episodes, seed=seed, n_envs=n_envs, on_progress=on_progress
    )
    if success is not None:
        each = zip(ran.rewards.tolist(), ran.lengths.tolist(), strict=True)
        ran = replace(ran, successes=np.array([bool(success(r, n)) for r, n in each], bool))
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
) -> EpisodeOutcomes:
    """The episodes themselves; see `evaluate`."""
    if episodes < 1 or n_envs < 1:
        raise InputError("evaluation needs at least one episode and one environment")
    seeds = episode_seeds(seed, episodes)
    place = _place(environment)
    if isinstance(place, Table | MarkovModel):
        check_spaces(policy, place.spaces)
    with _drawing_from(seed):
        if isinstance(place, Table):
            return _through_table(policy, place, seeds, on_progress)
        if isinstance(place, MarkovModel):
            return _through_model(policy, place, seeds, on_progress)
        envs = [place() for _ in range(min(n_envs, episodes))]
        try:
            check_spaces(policy, Spaces(envs[0].observation_space, envs[0].action_space))
            return _through_environments(policy, envs, seeds, on_progress)
        finally:
            for each in envs:
                each.close()


@contextmanager
def _drawing_from(seed: int) -> Iterator[None]:
    """What a policy draws inside follows from the seed; torch's own state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def sees_only_the_state(policy: object) -> bool:
    """Whether a policy's action follows from the current state alone, as far as it tells us."""
    if isinstance(policy, Policy):
        return policy.remembers == 0
    return getattr(policy, "look_back", None) == 0


def _acting_by(policy: Predictor, acting: str | Rule | Sequence[Rule]) -> Predictor:
    """The policy in this way of acting; one that is not ours knows no other than its own."""
    if isinstance(policy, Policy):
        chosen = act_by(policy, acting)
        for rule in chosen.rules:
            if rule.name in policy.why_not and rule not in policy.rules:
                warnings.warn(
                    f"acting {rule.name}: {policy.why_not[rule.name]}, so it may change nothing, "
                    "or for the worse",
                    stacklevel=3,
                )
        return chosen
    if acting not in (DEFAULT, GREEDY):
        raise InputError(f"only policies of sdil can act by rules; {type(policy).__name__} cannot")
    return policy


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
            f"it was made for the {name} space {getattr(wanted, name)}, "
            f"but here that is {getattr(offered, name)}"
        )


def _place(environment: EnvironmentLike) -> Factory | Table | MarkovModel:
    """Where episodes take place; of a named environment its table or model, where it has one."""
    if not isinstance(environment, str):
        return environment
    make = environment_maker(environment)
    env = make()
    table, model = table_of(env), getattr(env.unwrapped, "model", None)
    env.close()
    if table is not None:
        return table
    return model if isinstance(model, MarkovModel) else make


def _through_environments(
    policy: Predictor, envs: list[gym.Env[Any, Any]], seeds: Array, on_progress: Progress | None
) -> EpisodeOutcomes:
    """Each environment takes the next episode that nobody has begun, until none is left."""
    total = len(seeds)
    rewards, lengths = np.zeros(total), np.zeros(total, np.int64)
    successes: list[bool | None] = [None] * total
    running = list(range(len(envs)))  # the episode that each environment is in
    begun, done = len(envs), 0
    wanted = getattr(policy, "spaces", None)
    ours = isinstance(wanted, Spaces)
    space = wanted.observation if isinstance(wanted, Spaces) else envs[0].observation_space
    packs = is_packed(space)  # of a `Dict` the batch has a row of bytes per environment
    first = [env.reset(seed=int(seeds[i]))[0] for i, env in enumerate(envs)]
    batch = pack_observations(space, first) if packs else np.stack(first)
    starts = np.ones(len(envs), bool)
    state: Any = None
    while done < total:
        given = batch if ours or not packs else nest_parts(space, unpack_observations(space, batch))
        actions, state = policy.predict(given, state, starts, deterministic=True)
        starts[:] = False
        idle = []
        for slot, env in enumerate(envs):
            episode = running[slot]
            observation, reward, terminated, truncated, info = env.step(
                action_of(env.action_space, actions, slot)
            )
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
            batch[slot] = pack_observations(space, observation) if packs else observation
        if idle and done < total:
            keep = np.setdiff1d(np.arange(len(envs)), idle)
            envs, running = [envs[i] for i in keep], [running[i] for i in keep]
            batch, starts, state = batch[keep], starts[keep], _keep(state, keep)
    known = all(s is not None for s in successes)
    return EpisodeOutcomes(seeds, rewards, lengths, np.array(successes, bool) if known else None)


def _through_table(
    policy: Predictor, table: Table, seeds: Array, on_progress: Progress | None
) -> EpisodeOutcomes:
    starts = np.array([table.start_state(int(seed)) for seed in seeds])
    return _abreast(policy, TableWalk(table, starts), table.horizon, seeds, on_progress)


def _through_model(
    policy: Predictor, model: MarkovModel, seeds: Array, on_progress: Progress | None
) -> EpisodeOutcomes:
    """Each episode has the draws that an environment with its seed makes."""
    return _abreast(policy, ModelWalk(model, seeds), model.horizon, seeds, on_progress)


def _abreast(
    policy: Predictor,
    walk: TableWalk | ModelWalk,
    horizon: int,
    seeds: Array,
    on_progress: Progress | None,
) -> EpisodeOutcomes:
    """All episodes at once; those that are over drop out."""
    total = len(seeds)
    rewards, lengths = np.zeros(total), np.zeros(total, np.int64)
    successes = np.zeros(total, bool)
    episode = np.arange(total)  # those still running
    state: Any = None
    for step in range(1, horizon + 1):
        starts = np.full(len(episode), step == 1)
        actions, state = policy.predict(walk.observation, state, starts, deterministic=True)
        earned, ended, won = walk.step(actions)
        rewards[episode] += earned
        lengths[episode] = step
        successes[episode] = won
        if ended.any():
            keep = np.flatnonzero(~ended)
            walk.keep(keep)
            episode, state = episode[keep], _keep(state, keep)
        if on_progress is not None:
            on_progress(total - len(episode), total)
        if not len(episode):
            break
    return EpisodeOutcomes(seeds, rewards, lengths, successes)


def _exactly(policy: Predictor, model: MarkovModel, seed: int) -> Evaluation:
    """What a policy that sees only the state earns, by solving the chain that it induces."""
    if isinstance(policy, Policy) and policy.draws:
        action_probs = policy.probs_of_acting(model.observations)
    else:
        starts = np.ones(len(model), bool)
        actions, _ = policy.predict(model.observations, None, starts, deterministic=True)
        action_probs = model.always(actions)
    visits = model.visits(action_probs)  # (S,)
    arrivals = model.arrivals(action_probs, visits)  # (S,), how likely it is to end in each state
    mean = float(arrivals @ model.reward)
    won = float(arrivals @ (model.reward > 0))
    none = np.empty(0)
    return Evaluation(
        reward_mean=mean,
        reward_std=max(float(arrivals @ model.reward**2) - mean**2, 0.0) ** 0.5,
        reward_sem=0.0,
        success_rate=won,
        success_interval=(won, won),
        length_mean=float(visits.sum()),
        n_episodes=0,
        seed=seed,
        episodes=EpisodeOutcomes(
            none.astype(np.int64), none, none.astype(np.int64), none.astype(bool)
        ),
        exact=True,
    )


def _keep(state: Any, slots: Array) -> Any:
    """The part of a policy's state that belongs to these episodes."""
    if state is None:
        return None
    if isinstance(state, tuple):  # Stable-Baselines3's recurrent states: (layers, episodes, size)
        return tuple(part[:, slots] for part in state)
    return state.keep(slots)
