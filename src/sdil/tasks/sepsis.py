"""Sepsis, simulated: ICU-Sepsis (Choudhary, Gupta and Thomas 2024), estimated from MIMIC-III.

713 states of a patient, each seen as 47 standardised features, and death, survival and what lies
beyond; 25 actions, 5 levels of fluid and 5 of vasopressor; reward 1 for survival. The numbers are
those of the package `icu-sepsis` 2.0.1 (MIT; `data/NOTICE-icu-sepsis.txt`), whose code is not used.
As in the package's default, an inadmissible action, one taken too seldom to be estimated, does what
the admissible ones of the state do on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from scipy.sparse import csr_array

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.markov import MarkovModel, Walk
from sdil.spaces import Array, Spaces
from sdil.tasks.experts import ExpertKind
from sdil.tasks.task import NoiseKind, Progress, check_counts, check_share
from sdil.trajectories import Trajectory
from sdil.truth import Truth

DATA = Path(__file__).parent / "data" / "icu_sepsis.npz"
DEATH, SURVIVAL, BEYOND = 713, 714, 715
MAX_STEPS = 500  # the package's; under the slowest policy one episode in 5 billion gets there
GOOD_ABOVE = -0.01
FURTHEST = 15.0  # no feature lies further from 0 than 13.7


@cache
def sepsis_model() -> MarkovModel:
    """The whole simulator, read once."""
    with np.load(DATA) as numbers:
        admissible: Array = numbers["admissible"]  # (S, A)
        estimated = csr_array(
            (
                numbers["probabilities"],
                numbers["next_states"].astype(np.int32),
                numbers["row_starts"].astype(np.int32),
            ),
            shape=(int(admissible.sum()), len(admissible)),
        )
        start, features = numbers["start"], numbers["features"]
    at_the_end = np.zeros(len(admissible), bool)
    at_the_end[[DEATH, SURVIVAL, BEYOND]] = True
    reward = np.zeros(len(admissible))
    reward[SURVIVAL] = 1.0
    return MarkovModel(
        transition=_fill_in(estimated, admissible),
        reward=reward,
        end=at_the_end,
        start=start,
        admissible=admissible,
        observations=features,
        horizon=MAX_STEPS,
        spaces=Spaces(
            gym.spaces.Box(-FURTHEST, FURTHEST, features.shape[1:], np.float32),
            gym.spaces.Discrete(admissible.shape[1]),
        ),
    )


@cache
def clinicians() -> Array:
    """What clinicians did: how likely each action is in each state. (S, A)

    A share of it, 12% of the steps, falls on inadmissible actions. The three states in which an
    episode has ended have no policy: rows of zeros.
    """
    with np.load(DATA) as numbers:
        return numbers["clinicians"]


def _fill_in(estimated: csr_array, admissible: Array) -> csr_array:
    """The rows of all actions, (S * A, S), from those of the admissible ones in their order."""
    n_actions = admissible.shape[1]
    state, action = np.nonzero(admissible)
    number = np.arange(len(state))
    lone = (np.ones(len(state)), (state * n_actions + action, number))
    shape = (admissible.size, len(state))
    missing_state, missing_action = np.nonzero(~admissible)
    count = admissible.sum(1)
    repeats = count[missing_state]
    first = np.cumsum(count) - count  # where a state's rows begin in `estimated`
    within = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    filled = np.repeat(missing_state * n_actions + missing_action, repeats)
    averaged = np.repeat(first[missing_state], repeats) + within
    means = (np.repeat(1.0 / repeats, repeats), (filled, averaged))
    rows = (csr_array(lone, shape) + csr_array(means, shape)) @ estimated
    rows.sort_indices()  # a draw finds its state by this order
    return rows


class Sepsis(gym.Env[Array, np.int64]):
    """One simulated patient. `model` holds the exact probabilities of everything."""

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own form

    def __init__(self) -> None:
        self.model = sepsis_model()
        self.observation_space = self.model.spaces.observation
        self.action_space = self.model.spaces.action
        self.state = BEYOND
        self.steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = int(self.model.start_states(self._draw())[0])
        self.steps = 0
        return self._observe(), self._tell()

    def step(self, action: np.int64) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(np.int64(action)):
            raise InputError(f"an action of {self.action_space} is needed, not {action!r}")
        if self.model.end[self.state]:
            raise InputError("the episode has ended, or has not begun: call reset")
        after = self.model.next_states(np.array([self.state]), np.array([action]), self._draw())
        self.state = int(after[0])
        self.steps += 1
        reward = float(self.model.reward[self.state])
        terminated = bool(self.model.end[self.state])
        truncated = not terminated and self.steps >= self.model.horizon
        info = self._tell()
        if terminated or truncated:
            info["is_success"] = reward > 0
        return self._observe(), reward, terminated, truncated, info

    def _draw(self) -> Array:
        return np.array([self.np_random.random()])

    def _observe(self) -> Array:
        return self.model.observations[self.state].copy()

    def _tell(self) -> dict[str, Any]:
        return {
            "state": self.state,
            "admissible_actions": np.flatnonzero(self.model.admissible[self.state]),
        }


@dataclass(frozen=True)
class SepsisTask:
    """Clean: the optimal policy, a little careless. Noisy: the clinicians' policy."""

    name: str = "sepsis"
    environment: str = "sdil/sepsis-v0"
    clean_random_steps: float = 0.05
    """The share of clean steps that are random admissible ones."""
    noisy_random_steps: float = 0.0
    """The share of noisy steps that are."""
    noises: tuple[NoiseKind, ...] = ("paper",)

    def table(self) -> None:
        """There is none: what a step does is left to chance. See `sepsis_model`."""

    def collect(
        self,
        *,
        clean: int,
        noisy: int,
        seed: int,
        expert: ExpertKind = "planner",
        noise: NoiseKind = "paper",
        clean_random_steps: float | None = None,
        noisy_random_steps: float | None = None,
        on_progress: Progress | None = None,
    ) -> tuple[Demonstrations, Truth]:
        """Demonstrations of this task, and for every step whether it was good.

        The planner is value iteration. Episodes are kept whether the patient survives or not.
        """
        check_counts(clean, noisy)
        if expert != "planner":
            raise InputError(f"sepsis has no {expert} agent; its planner is exact")
        if noise != "paper":
            raise InputError(f"sepsis has no noise {noise!r}; its noisy set is the clinicians'")
        model = sepsis_model()
        policies = {
            "clean": self.demonstrator(
                model.always(model.optimal_actions), self.clean_random_steps, clean_random_steps
            ),
            "noisy": self.demonstrator(clinicians(), self.noisy_random_steps, noisy_random_steps),
        }
        made: dict[str, list[Walk]] = {"clean": [], "noisy": []}
        for which, (name, count) in enumerate((("clean", clean), ("noisy", noisy))):
            # a stream per episode: the first ones are the same however many are asked for
            seeds = np.random.default_rng([seed, which]).integers(2**63, size=count)
            if count:
                made[name] = model.walk(policies[name], seeds)
            if on_progress is not None:
                on_progress(len(made["clean"]) + len(made["noisy"]), clean + noisy)
        demos = Demonstrations(
            clean=_trajectories(model, made["clean"], "clean"),
            noisy=_trajectories(model, made["noisy"], "noisy"),
            spaces=model.spaces,
        )
        good = model.advantage > GOOD_ABOVE  # (S, A)
        return demos, Truth(
            clean_good=[good[walk.states[:-1], walk.actions] for walk in made["clean"]],
            noisy_good=[good[walk.states[:-1], walk.actions] for walk in made["noisy"]],
        )

    def demonstrator(self, action_probs: Array, usual: float, asked: float | None) -> Array:
        """A policy (S, A), with a share of its steps random: the one asked for, or the usual."""
        share = usual if asked is None else check_share(asked)
        return (1 - share) * action_probs + share * sepsis_model().at_random


def _trajectories(model: MarkovModel, walks: list[Walk], name: str) -> list[Trajectory]:
    return [
        Trajectory(
            observations=model.observations[walk.states],
            actions=walk.actions,
            rewards=model.reward[walk.states[1:]],
            terminated=walk.ended,
            id=f"{name}-{i}",
        )
        for i, walk in enumerate(walks)
    ]


TASK = SepsisTask()
