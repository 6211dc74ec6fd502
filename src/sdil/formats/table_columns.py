"""What the columns of a table are for, told by their names and by what never changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sdil.errors import InputError
from sdil.formats.source import OURS, Feature, Role

EPISODES = (
    *("episode", "episode_index", "episode_id", "episode_number", "ep", "ep_id", "traj", "traj_id"),
    *(
        "trajectory",
        "trajectory_id",
        "demo",
        "demo_id",
        "demonstration",
        "rollout",
        "run",
        "run_id",
    ),
    *("stay_id", "session", "session_id", "trial", "trial_id"),
)
TIMES = (
    *("step", "t", "time", "timestep", "time_step", "frame", "frame_index", "frame_id", "tick"),
    *("timestamp", "time_s", "seconds", "charttime", "index", "row"),
    *("time_ms", "time_us", "time_ns", "timestamp_ms", "timestamp_us", "timestamp_ns", "stamp"),
    *("unix_time", "unix time", "unixtime", "datetime", "sim_time", "wall_time", "ros_time"),
)
_COUNTED = re.compile(r"^(unnamed: \d+|__index_level_\d+__)$", re.IGNORECASE)  # pandas' row numbers
REWARDS = ("reward", "rewards", "next.reward", "r")
TERMINATIONS = ("terminated", "terminal", "terminals", "is_terminal", "terminations")
_ENDINGS = ("done", "dones", "next.done", "truncated", "timeout", "timeouts", "is_last", "is_first")
GROUPS = ("group", "operator", "operator_id", "patient", "patient_id", "subject_id", "subject")
_GROUPS_TOO = ("demonstrator", "user", "user_id", "collector", "person", "machine")
TASKS = ("task", "language_instruction", "instruction", "task_name", "task_index", "task_id")
_ACTION = re.compile(r"^(actions?|act|a|cmd|command|u)([_./\[\d -]|$)", re.IGNORECASE)
_OBSERVATION = re.compile(
    r"^(observations?|obs|states?|s|features?|feat|x|sensors?|q|qpos|qvel)([_./\[\d -]|$)",
    re.IGNORECASE,
)
_BARE = re.compile(r"^[sxq]([_./ -]+[a-z].*)?$", re.IGNORECASE)  # x, x_pos: beside y, not x_0
_NEXT = re.compile(r"^next[_./ -]?", re.IGNORECASE)
_NAMELESS = re.compile(r"^column\d+$")  # what DuckDB calls a column without a name
_NUMBERS = {
    "BOOLEAN": "bool",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INTEGER": "int32",
    "BIGINT": "int64",
    "UTINYINT": "uint8",
    "USMALLINT": "uint16",
    "UINTEGER": "uint32",
    "UBIGINT": "uint64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}
_LIST = re.compile(r"^(?P<of>[A-Z]+)\[\d*\]$")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    kind: str
    """DuckDB's type."""
    size: int | None = None
    """Of lists: how many numbers each has."""
    is_counted: bool = False
    """Whether it is of floats only because some cells are empty: all others are whole numbers."""

    @cached_property
    def number(self) -> str | None:
        """NumPy's type of its numbers, None for what is no number."""
        found = _LIST.match(self.kind)
        if found and self.size is None:
            return None
        if self.is_counted:
            return "int64"
        if self.kind.startswith("DECIMAL"):
            return "float64"
        return _NUMBERS.get(found["of"] if found else self.kind)

    @cached_property
    def is_list(self) -> bool:
        return bool(_LIST.match(self.kind))


def find_column(
    names: Sequence[str], asked: str | None, known: Sequence[str], where: str, flag: str
) -> str | None:
    """The column that was asked for, or the first of the known names that is there."""
    if asked is not None:
        if asked not in names:
            raise InputError(f"{where}: there is no column {asked!r}; there are {_some(names)}")
        return asked
    lower = {name.lower(): name for name in reversed(names)}
    return next((lower[name] for name in known if name in lower), None)


def find_named(names: Sequence[str], known: Sequence[str]) -> str | None:
    """The first of the known names that is there, in any case of letters."""
    return find_column(names, None, known, "", "")


def is_seen_or_done(name: str) -> bool:
    """Whether a column says by its name that it is of a step, or of the next one."""
    name = _NEXT.sub("", name)
    return bool(_ACTION.match(name) or _OBSERVATION.match(name))


def is_seen(name: str) -> bool:
    """Whether a column says by its name that it is an observation."""
    return bool(_OBSERVATION.match(name))


def is_done(column: Column) -> bool:
    """Whether a column is an action where nobody names others."""
    return _role(column, named=True, constant=False) == "action"


def find_group(names: Sequence[str]) -> str | None:
    """The column that says who demonstrated."""
    return find_named(names, (*GROUPS, *_GROUPS_TOO))


def make_features(
    columns: Sequence[Column], beside: Sequence[str | None], constant: Mapping[str, bool]
) -> tuple[Feature, ...]:
    """What each column is for. `beside` number episodes and steps; `constant` is the same within
    every episode."""
    rest = [c for c in columns if c.name not in beside]
    numbered = [c.name for c in columns if _NAMELESS.match(c.name)]
    nameless = numbered[0] if len(numbered) == 1 else None  # an empty name, as pandas' row numbers
    named = any(is_seen(c.name) and not _BARE.match(c.name) and c.number for c in rest)
    found = []
    for column in rest:
        shape = (column.size,) if column.is_list and column.size is not None else ()
        role = _role(column, named, constant.get(column.name, False))
        if column.name == nameless:
            role = "other"
        found.append(Feature(column.name, role, shape, column.number or "object"))
    return tuple(found)


def _role(column: Column, named: bool, constant: bool) -> Role:
    lower = column.name.lower()
    if column.number is None or lower.startswith(OURS) or _COUNTED.match(lower):
        return "other"
    if lower in REWARDS:
        return "reward"
    if lower in (*TERMINATIONS, *_ENDINGS, *GROUPS, *_GROUPS_TOO, *TASKS):
        return "other"
    if _ACTION.match(column.name):
        return "action"
    if _OBSERVATION.match(column.name):
        return "observation"
    return "other" if named or constant or lower in (*TIMES, *EPISODES) else "observation"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12])
    return shown + (f" and {len(names) - 12} more" if len(names) > 12 else "")
