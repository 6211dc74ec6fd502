"""Where an episode of a table ended: the observation after its last action, if the table has it.

A table may give it twice over: in columns beside the observations (`next_obs_0` beside `obs_0`, as
exports of transitions have them), or in a last row of the episode whose actions are empty. Such
columns must say of every step what the next row says, or they are something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sdil.errors import InputError
from sdil.formats.source import Feature
from sdil.formats.sql import quoted_name
from sdil.formats.table_columns import Column, is_seen
from sdil.spaces import Array

_FIRST = re.compile(r"next[_./ -]?(.+)")  # next_obs_0
_WITHIN = re.compile(r"(.+?)[_./ -]next((?:[_./ \[\d-].*)?)")  # obs_next_0, obs_0_next
_EPS = float(np.finfo(np.float32).eps)
_MOST_NAMED = 4


def find_next(features: Sequence[Feature]) -> dict[str, str]:
    """The column with the next observation of each feature that has one, by the feature's name.

    Where columns say by their names that they are observations, one with `next` before it is
    enough; else, and for `next` in other places, every observation must have its own.
    """
    seen = {f.name.lower(): f for f in features if f.role == "observation"}
    every: dict[str, str] = {}
    sure: dict[str, str] = {}
    for feature in features:
        if feature.role not in ("observation", "other") or feature.dtype_kind not in "biuf":
            continue
        name = feature.name.lower()
        first, within = _FIRST.fullmatch(name), _WITHIN.fullmatch(name)
        before = first[1] if first else within[1] + within[2] if within else ""
        now = seen.get(before)
        if now is None or now.shape != feature.shape or now.name in every:
            continue
        every[now.name] = feature.name
        if first and feature.role == "other" and is_seen(now.name):
            sure[now.name] = feature.name
    rest = {f.name for f in seen.values()} - set(every.values())
    return every if every and rest == set(every) else sure


def is_given(column: Column) -> str:
    """SQL: whether a cell holds anything; an empty one is null, NaN, or a list of nothing else."""
    key = quoted_name(column.name)
    if column.is_list:
        return f"coalesce(NOT isnan(list_min({key}::DOUBLE[])), false)"
    if column.kind in ("FLOAT", "DOUBLE"):
        return f"coalesce(NOT isnan({key}), false)"
    return f"({key} IS NOT NULL)"


def numbers_or_nan(array: Array, column: Column) -> Array:
    """A column as floats, NaN where it is empty. (rows, entries)"""
    if not column.is_list:
        if isinstance(array, np.ma.MaskedArray):
            array = np.ma.filled(array.astype(np.float64), np.nan)
        return np.asarray(array, np.float64).reshape(-1, 1)
    out = np.full((len(array), column.size or 0), np.nan)
    for i, values in enumerate(array):
        if values is not None and not np.ma.is_masked(values) and len(values):
            out[i] = numbers_or_nan(values, Column(column.name, "DOUBLE"))[:, 0]
    return out


@dataclass(frozen=True)
class Following:
    """A column that says what is seen next, beside what is seen."""

    now: str
    column: Column
    where: str
    """File and episode."""
    steps: Array
    """What a step is called, in errors. (T,)"""

    def check(self, seen: Array, after: Array) -> None:
        """Refuse where it differs by more than float32 rounds from what the next row says.

        `seen`: what each row saw (rows, ...); `after`: what this column says of each step, NaN
        where nothing (T, entries). One of no row needs to be given but the last.
        """
        told = after[: len(seen) - 1]
        known = seen[1:].reshape(len(seen) - 1, after.shape[1]).astype(np.float64)
        both = ~np.isnan(told) & ~np.isnan(known)
        scale = max(np.abs(told[both]).max(initial=0), np.abs(known[both]).max(initial=0))
        with np.errstate(invalid="ignore"):
            wrong = both & ~((told == known) | (np.abs(told - known) <= _EPS * scale))
        if wrong.any():
            row, entry = (int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"{self.where}, step {self.steps[row]}, column {self.column.name}: "
                f"{told[row, entry]:g}, but {self.now} of the row after it is "
                f"{known[row, entry]:g}: rows are missing or in another order (--time names the "
                "column that orders them), or it is no next observation and needs another name"
            )

    def append(self, seen: Array, last: Array) -> Array:
        """What was seen, and where the episode ended: `last`, of its last step. (T+1, ...)"""
        after = last.reshape(1, *seen.shape[1:])
        if seen.dtype.kind == "f":
            after = after.astype(seen.dtype)
        return np.concatenate([seen, after])


def refuse_halves(known: Mapping[str, bool], where: str, row: int) -> None:
    """Raise where of the columns of an episode's last observation some are empty and some not."""
    if any(known.values()) and not all(known.values()):
        empty = next(name for name, given in known.items() if not given)
        given = next(name for name, given in known.items() if given)
        raise InputError(
            f"{where}, row {row}, column {empty}: it is empty, and {given} is not; give the last "
            "observation whole, or not at all"
        )


def say_ends(
    features: Sequence[Feature],
    following: Mapping[str, str],
    episodes: int,
    by_row: int,
    by_column: int,
    ended: tuple[str, int] | None,
) -> tuple[str, ...]:
    """What was found of how episodes end, in sentences.

    `by_row`, `by_column`: of how many episodes the last observation is known by a row without an
    action, by columns. `ended`: the column that says which the task itself ended, and how many.
    """
    seen = [f.name for f in features if f.role == "observation"]
    without = [name for name in seen if name not in following]
    columns = _list(list(following.values()))
    ways = ["a last row without an action"] * bool(by_row)
    ways += [columns] * bool(by_column and not without)
    known = by_row + (0 if without else by_column)
    if known:
        said = f"last observation: known of {known} of {episodes} episodes, by {' or '.join(ways)}"
    elif by_column:
        give = "gives" if len(following) == 1 else "give"
        said = (
            f"last observation: unknown: {columns} {give} it, but {without[0]} has no such column"
        )
    else:
        said = "last observation: unknown; a last row without an action would give it, or columns"
        said += f" such as next_{seen[0]}" if seen else " with next_ before their names"
    if ended is None:
        return (said, "ended by the task: unknown; a column `terminated` would say so")
    return (said, f"ended by the task: {ended[1]} of {episodes} episodes, as {ended[0]} says")


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more
