"""A task: an environment, where its clean and noisy demonstrations come from, and the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, Protocol

import numpy as np

from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.spaces import Array
from sdil.table import Table, TableWalk
from sdil.tasks.experts import Expert, ExpertKind, agent, planner
from sdil.trajectories import Trajectory
from sdil.truth import Truth

NoiseKind = Literal["paper", "segments", "worst"]
Progress = Callable[[int, int], None]

SEGMENT_NAMES = ("good", "detour", "random")
_GOOD, _DETOUR, _RANDOM = range(3)
_TRIES_PER_EPISODE = 200


class Benchmark(Protocol):
    """What every task offers, however its demonstrations are made."""

    @property
    def name(self) -> str: ...

    @property
    def environment(self) -> str:
        """The Gymnasium id."""

    @property
    def table(self) -> Callable[[], Table | None]:
        """All states, where they are few enough and nothing is left to chance."""

    @property
    def noises(self) -> tuple[NoiseKind, ...]:
        """What can be wrong with its noisy set, the usual first."""

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
        """Demonstrations of this task, and for every step whether it was good."""
        ...


@dataclass(frozen=True)
class Recipe:
    """How one set of demonstrations is made: who acts, how carelessly, and what is kept."""

    aim: str
    """Where the expert heads to: "goal", or one of the task's other aims."""
    random_steps: float
    """The share of steps that are random."""
    reward_above: float = -np.inf
    """Only episodes that earn more than this are kept."""
    reward_up_to: float = np.inf
    """Only episodes that earn at most this are kept."""


@dataclass(frozen=True, eq=False)
class Task:
    """A task with a goal, planned in a table. `collect` also says what is true of the steps."""

    name: str
    environment: str
    """The Gymnasium id."""
    table: Callable[[], Table | None]
    """All states, where they are few enough."""
    table_of_seed: Callable[[int], Table]
    """The table, or the part of it, in which the episode with this seed takes place."""
    actions: tuple[int, ...]
    """What a random step chooses from."""
    clean: Recipe
    noisy: Recipe
    other_aims: dict[str, Callable[[Table], Array]]
    """Places other than the goal that a demonstrator may head to: target states. (S,)"""
    noises: tuple[NoiseKind, ...] = ("paper", "segments", "worst")
    shown: Callable[[Table], Table] = field(default=lambda table: table)
    """How demonstrations show a table, where they do not show what an expert sees in it."""
    agents: str | None = None
    """The task whose trained agents demonstrate, where it is not this one."""

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
        """Demonstrations of this task, and for every step whether it was good."""
        check_counts(clean, noisy)
        recipes = {
            "clean": _careless(self.clean, clean_random_steps),
            "noisy": _careless(self.noisy, noisy_random_steps),
        }
        made: dict[str, list[_Episode]] = {"clean": [], "noisy": []}
        for which, (name, count) in enumerate((("clean", clean), ("noisy", noisy))):
            interrupted = name == "noisy" and noise == "segments"
            draw = np.random.default_rng([seed, which])
            for i in range(count):
                episode = self._one(recipes[name], expert, interrupted, draw, f"{name}-{i}")
                if name == "noisy" and noise == "worst":
                    episode = self._worst(len(episode.good), draw, f"{name}-{i}")
                made[name].append(episode)
                if on_progress is not None:
                    on_progress(len(made["clean"]) + len(made["noisy"]), clean + noisy)
        first = made["clean"][0].shown
        demos = Demonstrations(
            clean=[e.trajectory for e in made["clean"]],
            noisy=[e.trajectory for e in made["noisy"]],
            spaces=first.spaces,
        )
        segments = [e.segments for e in made["noisy"]] if noise == "segments" else None
        return demos, Truth(
            clean_good=[e.good for e in made["clean"]],
            noisy_good=[e.good for e in made["noisy"]],
            noisy_segment=segments,
            segment_names=SEGMENT_NAMES if segments is not None else (),
        )

    def _one(
        self,
        recipe: Recipe,
        kind: ExpertKind,
        interrupted: bool,
        draw: np.random.Generator,
        name: str,
    ) -> _Episode:
        """Episodes until one meets the recipe."""
        for _ in range(_TRIES_PER_EPISODE):
            seed = int(draw.integers(2**31))
            table = self.table_of_seed(seed)
            aim = "goal" if interrupted else recipe.aim
            guide = _expert(self, table, kind, aim)
            rng = np.random.default_rng(draw.integers(2**63))
            walk = _Walk(table, table.start_state(seed), rng, self.actions)
            target = self.other_aims[aim](table) if aim != "goal" else np.zeros(len(table), bool)
            if interrupted:
                walk.with_interruptions(guide)
            else:
                walk.towards(guide, target, recipe.random_steps)
            reward = sum(walk.rewards)
            arrived = bool(target[walk.states[-1]]) if aim != "goal" else reward > 0
            fits = interrupted or recipe.reward_above < reward <= recipe.reward_up_to
            if walk.actions and arrived and fits:  # a start at the aim itself is no demonstration
                return walk.episode(name, self.shown(table))
        raise InputError(
            f"{self.name}: {_TRIES_PER_EPISODE} episodes in a row did not fit {recipe}; "
            "change the share of random steps"
        )

    def _worst(self, length: int, draw: np.random.Generator, name: str) -> _Episode:
        """An episode each step of which leads farthest from the goal."""
        seed = int(draw.integers(2**31))
        table = self.table_of_seed(seed)
        rng = np.random.default_rng(draw.integers(2**63))
        walk = _Walk(table, table.start_state(seed), rng, self.actions)
        while len(walk.actions) < length and not walk.over:
            at = walk.states[-1]
            away = np.where(table.end[at], -1.0, table.distance_to_goal[table.next_state[at]])
            farthest = max(away[action] for action in self.actions)
            walk.step(int(rng.choice([a for a in self.actions if away[a] == farthest])), _GOOD)
        return walk.episode(name, self.shown(table))


@cache
def _expert(task: Task, table: Table, kind: ExpertKind, aim: str) -> Expert:
    if kind == "ppo":
        return agent(table, f"{task.agents or task.name}-{aim}")
    return planner(table.good if aim == "goal" else table.closer_to(task.other_aims[aim](table)))


@dataclass(frozen=True)
class _Episode:
    shown: Table
    trajectory: Trajectory
    good: Array
    segments: Array


class _Walk:
    """One episode in the making."""

    def __init__(
        self, table: Table, start: int, rng: np.random.Generator, actions: tuple[int, ...]
    ) -> None:
        self.table, self.rng, self.random_actions = table, rng, actions
        self.walk = TableWalk(table, start)
        self.states = [start]
        self.actions: list[int] = []
        self.rewards: list[float] = []
        self.segments: list[int] = []
        self.ended = False

    @property
    def over(self) -> bool:
        return self.ended or bool(self.walk.out_of_time)

    def step(self, action: int, segment: int) -> None:
        earned, ended, _ = self.walk.step(action)
        self.ended = bool(ended)
        self.actions.append(action)
        self.rewards.append(float(earned))
        self.segments.append(segment)
        self.states.append(int(self.walk.at))

    def random_action(self) -> int:
        return int(self.rng.choice(self.random_actions))

    def towards(self, guide: Expert, target: Array, random_steps: float) -> None:
        """Follow the guide, now and then carelessly, until the task ends or `target` is reached."""
        while not self.over and not target[self.states[-1]]:
            careless = self.rng.random() < random_steps
            action = self.random_action() if careless else guide(self.states[-1], self.rng)
            self.step(action, _GOOD)

    def with_interruptions(self, guide: Expert) -> None:
        """Good stretches with one to three bad ones between them: detours or random steps."""
        for _ in range(int(self.rng.integers(1, 4))):
            self._stretch(guide, int(self.rng.integers(2, 8)), _GOOD)
            length = int(self.rng.integers(4, 11))
            if self.rng.random() < 0.5:
                elsewhere = np.zeros(len(self.table), bool)
                elsewhere[self._somewhere()] = True
                detour = planner(self.table.closer_to(elsewhere))
                self._stretch(detour, length, _DETOUR, until=elsewhere)
            else:
                self._stretch(lambda state, rng: self.random_action(), length, _RANDOM)
        self._stretch(guide, self.table.horizon, _GOOD)

    def _stretch(
        self, guide: Expert, length: int, segment: int, until: Array | None = None
    ) -> None:
        for _ in range(length):
            state = self.states[-1]
            if self.over or (until is not None and until[state]):
                return
            action = guide(state, self.rng)
            while segment != _GOOD and self.table.end[state, action]:
                action = self.random_action()  # a bad stretch does not stumble on the goal
            self.step(action, segment)

    def _somewhere(self) -> int:
        """A state, at random, that can be reached from here without ending the episode."""
        reachable = np.zeros(len(self.table), bool)
        edge = np.array([self.states[-1]])
        while len(edge):
            reachable[edge] = True
            after = self.table.next_state[edge][~self.table.end[edge]]
            edge = np.unique(after[~reachable[after]])
        return int(self.rng.choice(np.flatnonzero(reachable)))

    def episode(self, name: str, shown: Table) -> _Episode:
        states, actions = np.array(self.states), np.array(self.actions, np.int64)
        trajectory = Trajectory(
            observations=shown.observe(states),
            actions=actions,
            rewards=np.array(self.rewards),
            terminated=self.ended,
            id=name,
        )
        return _Episode(
            shown,
            trajectory,
            self.table.good[states[:-1], actions],
            np.array(self.segments, np.int8),
        )


def check_counts(clean: int, noisy: int) -> None:
    """Raise where these are not numbers of episodes to collect."""
    if clean < 1 or noisy < 0:
        raise InputError(f"collect at least 1 clean and 0 noisy episodes, not {clean}, {noisy}")


def check_share(share: float) -> float:
    """The same share of random steps; raise where it is none."""
    if not 0.0 <= share <= 1.0:
        raise InputError(f"a share of random steps lies between 0 and 1, not {share}")
    return share


def _careless(recipe: Recipe, share: float | None) -> Recipe:
    return recipe if share is None else replace(recipe, random_steps=check_share(share))
