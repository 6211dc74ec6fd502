"""Many episodes abreast, for learners that practise: each begins anew by itself when it is over.

The environment's own reward is not told: a learner that imitates must not see it. Everything random
comes from one NumPy generator. A `TableSimulator` can be saved and goes on bit for bit; Gymnasium
environments cannot be saved, so a restored `GymSimulator` begins all its episodes anew, with
seeds that follow from the saved generator.
"""

from __future__ import annotations

import json
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from sdil.errors import InputError
from sdil.named import find_named, is_import_path
from sdil.nested import action_of, leaves_of, limits_of, shape_actions
from sdil.observations import is_packed, observation_type, pack_observations
from sdil.spaces import Array, Spaces
from sdil.table import Table, TableWalk

EnvironmentLike = str | Callable[[], "gym.Env[Any, Any]"] | Table

_N_STARTS = 4096  # of a table's episodes: drawn once and then reused, a call each is slow
_SEEN_AT_ONCE = 20_000  # states; the observations of a table up to this size are kept


@dataclass(frozen=True, eq=False)
class Moved:
    """What one step of n episodes led to."""

    after: Array
    """What is seen after the step, in the same episode. (n, *observation)"""
    terminated: Array
    """Whether the task itself ended the episode. (n,) booleans"""
    cut_off: Array
    """Whether the clock ended it, and nothing else. (n,) booleans"""
    observation: Array
    """What the next action answers: `after`, or the start of a new episode. (n, *observation)"""


class Simulator(ABC):
    """n episodes abreast in one environment."""

    spaces: Spaces
    n: int
    observation: Array
    """What is seen now. (n, *observation)"""

    @abstractmethod
    def step(self, actions: Array) -> Moved:
        """Take one action (n,) in each episode."""

    @abstractmethod
    def state(self) -> dict[str, Array]:
        """What `restore` needs."""

    @abstractmethod
    def restore(self, state: dict[str, Array]) -> Array:
        """Go on from a saved state; returns which episodes begin anew instead. (n,) booleans"""

    @abstractmethod
    def close(self) -> None:
        """Give back what the environments hold."""


class TableSimulator(Simulator):
    """Episodes in a table, by index arithmetic alone."""

    def __init__(self, table: Table, n: int, seed: int) -> None:
        self.table, self.spaces, self.n = table, table.spaces, n
        seeds, own = np.random.SeedSequence(seed).spawn(2)
        drawn = seeds.generate_state(_N_STARTS)
        self.starts = np.array([table.start_state(int(s)) for s in drawn], np.int64)
        self.rng = np.random.default_rng(own)
        self.walk = TableWalk(table, self.rng.choice(self.starts, n))
        self._seen: Array | None = None
        if len(table) <= _SEEN_AT_ONCE:
            self._seen = table.observe(np.arange(len(table)))
        self.observation = self._look(self.walk.at)

    def step(self, actions: Array) -> Moved:
        walk = self.walk
        _, terminated, _ = walk.step(actions)
        cut_off = ~terminated & walk.out_of_time
        after = self.observation = self._look(walk.at)
        over = np.flatnonzero(terminated | cut_off)
        if len(over):
            walk.begin(over, self.rng.choice(self.starts, len(over)))
            self.observation = after.copy()
            self.observation[over] = self._look(walk.at[over])
        return Moved(after, terminated, cut_off, self.observation)

    def state(self) -> dict[str, Array]:
        walk = self.walk
        return {"at": walk.at.copy(), "clock": walk.clock.copy(), "rng": _written(self.rng)}

    def restore(self, state: dict[str, Array]) -> Array:
        self.walk.at, self.walk.clock = state["at"].copy(), state["clock"].copy()
        self.rng = _read(state["rng"])
        self.observation = self._look(self.walk.at)
        return np.zeros(self.n, bool)

    def close(self) -> None:
        pass

    def _look(self, states: Array) -> Array:
        return self.table.observe(states) if self._seen is None else self._seen[states]


class GymSimulator(Simulator):
    """Episodes in Gymnasium environments, one after another in this process."""

    def __init__(self, envs: list[gym.Env[Any, Any]], seed: int) -> None:
        self.envs, self.n = envs, len(envs)
        self.spaces = Spaces(envs[0].observation_space, envs[0].action_space)
        self._packs = is_packed(self.spaces.observation)
        self._number = observation_type(self.spaces.observation)
        self.rng = np.random.default_rng(seed)
        self.observation = self._reset_all()

    def step(self, actions: Array) -> Moved:
        after, now = [], []
        done = shape_actions(self.spaces.action, actions)
        terminated, cut_off = np.zeros(self.n, bool), np.zeros(self.n, bool)
        for i, env in enumerate(self.envs):
            seen, _, terminated[i], truncated, _ = env.step(action_of(env.action_space, done, i))
            cut_off[i] = truncated and not terminated[i]
            seen = pack_observations(self.spaces.observation, seen) if self._packs else seen
            after.append(np.array(seen))  # a reset may reuse its memory
            now.append(self._reset(env) if terminated[i] or truncated else seen)
        self.observation = self._stack(now)
        return Moved(self._stack(after), terminated, cut_off, self.observation)

    def state(self) -> dict[str, Array]:
        return {"rng": _written(self.rng)}

    def restore(self, state: dict[str, Array]) -> Array:
        self.rng = _read(state["rng"])
        self.observation = self._reset_all()
        return np.ones(self.n, bool)

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _reset_all(self) -> Array:
        return self._stack([self._reset(env) for env in self.envs])

    def _reset(self, env: gym.Env[Any, Any]) -> Array:
        seen, _ = env.reset(seed=int(self.rng.integers(2**31)))
        return pack_observations(self.spaces.observation, seen)

    def _stack(self, seen: list[Array]) -> Array:
        return np.stack(seen).astype(self._number)


def simulator(environment: EnvironmentLike, n: int, seed: int, spaces: Spaces) -> Simulator:
    """n episodes of `environment`: a Table, a task's name, a Gymnasium id or a function.

    A task that has a table is run through it. `spaces` are the demonstrations': the environment's
    must be the same.
    """
    if isinstance(environment, Table):
        _require(spaces, environment.spaces)
        return TableSimulator(environment, n, seed)
    make = environment_maker(environment)
    env = make()
    _require(spaces, Spaces(env.observation_space, env.action_space))
    table = table_of(env) if isinstance(environment, str) else None
    if table is not None:
        env.close()
        return TableSimulator(table, n, seed)
    return GymSimulator([env] + [make() for _ in range(n - 1)], seed)


def table_of(env: gym.Env[Any, Any]) -> Table | None:
    """The table that an environment of ours offers, where it is small enough to have one."""
    offer = getattr(env.unwrapped, "table", None)
    table = offer() if callable(offer) else None
    return table if isinstance(table, Table) else None


def environment_maker(
    environment: str | Callable[[], gym.Env[Any, Any]],
) -> Callable[[], gym.Env[Any, Any]]:
    """What makes this environment: a task's name, a Gymnasium id, or already a function."""
    if not isinstance(environment, str):
        return environment
    if environment not in gym.registry and is_import_path(environment):
        return _own_maker(environment)
    ids = [i for i in (environment, f"sdil/{environment}-v0") if i in gym.registry]
    if not ids and ":" not in environment:
        raise InputError(_not_there(environment))
    name = ids[0] if ids else environment

    def make() -> gym.Env[Any, Any]:
        try:
            return gym.make(name, disable_env_checker=True)
        except (gym.error.Error, ImportError) as error:
            raise InputError(f"cannot make the environment {name!r}: {error}") from None

    return make


def _not_there(name: str) -> str:
    """Why there is no such environment: in Gymnasium's words where it knows of another version, or
    of a name that is alike."""
    alike = ""
    try:
        gym.spec(name)
    except (gym.error.DeprecatedEnv, gym.error.VersionNotFound) as error:
        return f"cannot make the environment {name!r}: {error}"
    except gym.error.NameNotFound as error:
        said = str(error)
        alike = f" ({said.rstrip('.')})" if "Did you mean" in said else ""
    except gym.error.Error:
        pass  # it is no id at all, or nothing of that namespace is there
    ours = ", ".join(sorted(i for i in gym.registry if i.startswith("sdil/")))
    return f"there is no task or Gymnasium environment {name!r}{alike}; ours are {ours}"


def _own_maker(name: str) -> Callable[[], gym.Env[Any, Any]]:
    """Of a task of the user's own, a class or a function that makes an environment; otherwise
    Gymnasium may know what is meant: `module:Id-v0` imports the module, which registers it."""
    try:
        found = find_named(name, "sdil.tasks")
    except InputError as error:
        raise InputError(f"cannot make the environment {name!r}: {error}") from None
    made = found() if isinstance(found, type) and not issubclass(found, gym.Env) else found
    environment = getattr(made, "environment", made)
    if isinstance(environment, str) and environment != name:
        return environment_maker(environment)
    if not callable(environment):
        raise InputError(f"{name} is no task and makes no environment")
    return environment


def is_ours(name: str) -> bool:
    """Whether this is one of our environments, by its id or its task's name."""
    ids = (name, f"sdil/{name}-v0")
    return any(i.startswith("sdil/") and i in gym.registry for i in ids)


def trusted_environment(named: Any, file: Path) -> str | None:
    """The environment that a file names, or None where it names none; raise unless it is ours.

    Gymnasium imports whatever module an id names, so an id that came with somebody's file would run
    their code. Any other environment is for the user to name.
    """
    if named is None:
        return None
    if isinstance(named, str) and is_ours(named):
        return named
    shown = shlex.quote(repr(named)[1:-1] if isinstance(named, str) else repr(named))
    raise InputError(
        f"{file} names the environment {named!r}, which is not one of ours; if you trust it, pass "
        f"--env {shown}"
    )


def different_space(ours: Spaces, theirs: Spaces) -> str | None:
    """Which of the two spaces differs in shape or number of actions, if one does."""
    for name in ("observation", "action"):
        a, b = getattr(ours, name), getattr(theirs, name)
        if a.shape != b.shape or getattr(a, "n", None) != getattr(b, "n", None):
            return name
        if not isinstance(a, gym.spaces.Box | gym.spaces.Discrete) and _parts(a) != _parts(b):
            return name
    return None


def _parts(space: gym.Space[Any]) -> list[tuple[str, Any, list[int] | None]]:
    """Names, shapes and numbers of choices of its parts; of counted ones the limits."""
    return [
        (
            leaf.name,
            leaf.space.shape,
            None
            if isinstance(leaf.space, gym.spaces.Box)
            else np.ravel(limits_of(leaf.space)).tolist(),
        )
        for leaf in leaves_of(space)
    ]


def _require(demonstrated: Spaces, offered: Spaces) -> None:
    name = different_space(demonstrated, offered)
    if name is not None:
        raise InputError(
            f"the demonstrations have {name} space {getattr(demonstrated, name)}, "
            f"but the environment has {getattr(offered, name)}"
        )


def _written(rng: np.random.Generator) -> Array:
    """The generator's state as bytes: its integers have 128 bits."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), np.uint8).copy()


def _read(written: Array) -> np.random.Generator:
    rng = np.random.default_rng()
    rng.bit_generator.state = json.loads(written.tobytes())
    return rng
