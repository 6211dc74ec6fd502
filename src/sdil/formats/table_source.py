"""An opened table: its columns, episodes and features, and the rows of one episode at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from sdil.errors import InputError
from sdil.formats.picking import pick, split_names
from sdil.formats.source import Episode, Feature, Recorded, Source
from sdil.formats.sql import quoted_name
from sdil.formats.table_columns import (
    REWARDS,
    TASKS,
    TERMINATIONS,
    Column,
    find_group,
    find_named,
    make_features,
)
from sdil.formats.table_ends import Following, find_next, numbers_or_nan, refuse_halves, say_ends
from sdil.formats.table_episodes import (
    FILE,
    ROW,
    Opened,
    count_ends,
    count_paid,
    find_episodes,
    whole_numbers,
)
from sdil.formats.table_places import clear_sql
from sdil.formats.table_times import find_odd_times
from sdil.spaces import Array

_BLOCK = 65_536  # rows that are fetched at once
ONE_FILE_EACH = "one file each"
"""What is said in the place of the column of episodes where there is none."""


@dataclass(frozen=True)
class TableSource:
    """An opened table, its rows in order."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    odd: tuple[str, ...]
    """Gaps and duplicates of time."""
    ends: tuple[str, ...]
    """What is known of how episodes end, in sentences."""
    following: Mapping[str, str]
    """The column with the next observation of each feature that has one."""
    _opened: Opened
    _edges: Array
    _actions: tuple[str, ...]
    """The columns of what is done."""
    _closing: Array
    """Whether the last row of an episode is no step, but its last observation. (E,)"""
    _wrong: Mapping[str, str]
    """What refuses an episode, by its name."""
    _block: dict[str, Any] = field(default_factory=dict, repr=False)
    format: str = "table"

    @property
    def table(self) -> str | None:
        """Which of a database was asked for."""
        return self._opened.table

    def acted_by(self, actions: Sequence[str]) -> TableSource:
        """The same table, if these are its actions."""
        return self if set(actions) == set(self._actions) else tell(self._opened, actions)

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These columns of one episode; whole-number times are its frames."""
        episode, columns = self.episodes[index], self._opened.columns
        if episode.id in self._wrong:
            raise InputError(self._wrong[episode.id])
        reward, ended = self.reward, self.termination
        following = {n: self.following[n] for n in features if n in self.following}
        extra = [n for n in (reward, ended, self._opened.time, *following.values()) if n]
        values = self._rows(index, [*features, *extra])

        def of_steps(name: str) -> Array:
            return self._checked(values, name, index, episode.steps)

        plain = self._block["plain"]  # the others are looked at, episode by episode
        found = {}
        for name in features:
            stop = episode.steps if name in self._actions else None
            seen = values[name][:stop]
            found[name] = seen if name in plain else self._checked(values, name, index, stop)
        rewards = None if reward is None else of_steps(reward)
        last = ended is not None and bool(of_steps(ended)[-1])
        if ended is not None and self._closing[index]:
            told = values[ended][-1]
            last = last or (not (np.ma.is_masked(told) or told != told) and bool(told))
        frames = None
        time = self._opened.time
        if time is not None and (columns[time].number or "f")[0] in "iu":
            frames = of_steps(time).astype(np.int64)
        if following:
            self._follow(found, values, index, following)
        return Recorded(found, last, rewards, frames)

    @property
    def episode_is_file(self) -> bool:
        """Whether no column numbers the episodes, but each file is one."""
        return self.about["episode_column"] == ONE_FILE_EACH

    def rows_of(self, index: int) -> Array:
        """Where each row of an episode stands in the table as it is stored, from 1. A last row
        without an action is one of them. (T,) or (T+1,)"""
        return np.asarray(self._rows(index, [])[ROW])

    @cached_property
    def uses(self) -> dict[str, str]:
        """What columns are for that are neither seen, done nor earned."""
        found = dict.fromkeys(self.episodes[0].columns, "column of episodes")
        for name, what in (
            (find_group(list(found)), "group"),
            (find_named(list(found), TASKS), "task"),
        ):
            if name is not None:
                found[name] = what
        if self.termination is not None:
            found[self.termination] = "end of episode"
        return found | dict.fromkeys(self.following.values(), "next observation")

    @cached_property
    def reward(self) -> str | None:
        """The column of rewards."""
        return find_number(self._opened.columns, REWARDS)

    @cached_property
    def termination(self) -> str | None:
        """The column that says whether the task itself ended an episode."""
        return find_number(self._opened.columns, TERMINATIONS)

    def _follow(
        self,
        found: dict[str, Array],
        values: Mapping[str, Array],
        index: int,
        following: Mapping[str, str],
    ) -> None:
        """Compare columns of next observations with the rows that follow, and append the last."""
        episode, opened = self.episodes[index], self._opened
        steps = episode.steps
        where = f"{self.location}: episode {episode.id!r}"
        called = np.arange(steps) if opened.time is None else values[opened.time][:steps]
        last = {}
        for name, column in following.items():
            after = numbers_or_nan(values[column][:steps], opened.columns[column])
            pair = Following(name, opened.columns[column], where, called)
            pair.check(found[name], after)
            if len(found[name]) == steps:  # or its last row says it
                last[name] = pair, after[-1]
        known = {pair.column.name: not np.isnan(after).any() for pair, after in last.values()}
        refuse_halves(known, where, int(values[ROW][steps - 1]))
        if all(known.values()):
            for name, (pair, after) in last.items():
                found[name] = pair.append(found[name], after)

    def _rows(self, index: int, names: Sequence[str]) -> Mapping[str, Array]:
        first, last = int(self._edges[index]), int(self._edges[index + 1])
        wanted = list(dict.fromkeys([*names, ROW]))
        held, opened = self._block, self._opened
        if not (
            held
            and held["first"] <= first
            and last <= held["last"]
            and set(wanted) <= set(held["values"])
        ):
            begin, stop = first, max(last, min(int(self._edges[-1]), first + _BLOCK))
            columns = ", ".join(_fetched(opened.columns.get(n), n) for n in wanted)
            query = f"SELECT {columns} FROM steps"  # as they were put in
            if opened.whole:
                begin, stop = 0, int(self._edges[-1])
            else:
                query += f" WHERE {opened.place} > {begin} AND {opened.place} <= {stop}"
            with clear_sql(f"{self.location}: episode {self.episodes[index].id}"):
                got = opened.connection.execute(query).fetchnumpy()
            held.clear()
            plain = {
                n
                for n, column in opened.columns.items()
                if n in got and not (column.is_list or isinstance(got[n], np.ma.MaskedArray))
            }
            held.update(first=begin, last=stop, values=got, plain=plain)
        within = slice(first - held["first"], last - held["first"])
        return {n: held["values"][n][within] for n in wanted}

    def _checked(
        self, values: Mapping[str, Array], name: str, index: int, stop: int | None = None
    ) -> Array:
        """A column up to a row, without gaps in it, as numbers."""
        array, where = values[name][:stop], f"{self.location}: episode {self.episodes[index].id!r}"
        if isinstance(array, np.ma.MaskedArray):
            if np.ma.getmaskarray(array).any():
                at = int(np.argmax(np.ma.getmaskarray(array)))
                hint = "leave the column out, or fill it"
                if name in self._actions:
                    hint += "; a last row whose actions are all empty is the last observation"
                raise InputError(
                    f"{where}, row {int(values[ROW][at])}, column {name}: it is empty; {hint}"
                )
            array = np.asarray(array.data)
        column = self._opened.columns[name]
        return _stacked(array, column, values[ROW], where) if column.is_list else array


def choose_actions(source: Source, choices: Mapping[str, str]) -> Source:
    """A source, told which of its features are actions: of a table steps follow from that."""
    if not isinstance(source, TableSource) or "actions" not in choices:
        return source
    try:
        actions = pick(source, split_names(choices["actions"]), "action").features
    except InputError:  # whoever reads it will say so
        return source
    return cast(Source, source.acted_by(actions))


def tell(opened: Opened, actions: Sequence[str]) -> TableSource:
    """What the episodes and the features are, if these columns are what is done."""
    done = [opened.columns[name] for name in actions]
    with clear_sql(opened.where):
        found = find_episodes(opened, done)
        if found.closing.any():
            counted = whole_numbers(opened, done)
            known = {**opened.columns, **{c.name: c for c in counted}}
            opened = replace(opened, columns=known)
        order, columns = opened.time, opened.columns
        odd, repeated = find_odd_times(
            opened.connection, order, found.edges, found.episodes, opened.where
        )
        features = make_features(list(columns.values()), (opened.by, order), found.constant)
        following = find_next(features)
        termination = find_number(columns, TERMINATIONS)
        paid = count_paid(opened, done, find_number(columns, REWARDS)) if found.closing.any() else 0
        by_column, ended = count_ends(
            opened, done, [columns[n] for n in following.values()], termination
        )
    if paid:
        odd.append(
            f"{opened.where}: {paid} last rows without an action have a reward, which no step "
            "gets: it belongs into the row of the action that earned it"
        )
    beside = set(following.values())
    features = tuple(replace(f, role="other") if f.name in beside else f for f in features)
    by = ONE_FILE_EACH if opened.by == FILE else opened.by
    return TableSource(
        location=opened.location,
        features=features,
        episodes=found.episodes,
        about={"episode_column": by, "time_column": order},
        odd=tuple(odd),
        ends=say_ends(
            features,
            following,
            len(found.episodes),
            int(found.closing.sum()),
            by_column,
            None if termination is None else (termination, ended),
        ),
        following=following,
        _opened=opened,
        _edges=found.edges,
        _actions=tuple(actions),
        _closing=found.closing,
        _wrong={**found.wrong, **repeated},
    )


def find_number(columns: Mapping[str, Column], known: Sequence[str]) -> str | None:
    """The first of the known names that a column of numbers has."""
    return find_named([name for name, column in columns.items() if column.number], known)


def _fetched(column: Column | None, name: str) -> str:
    """How a column is asked for: decimals as floats, counted ones as whole numbers."""
    key = quoted_name(name)
    if column is not None and column.is_counted:
        return f"TRY_CAST({key} AS BIGINT) AS {key}"
    decimal = column is not None and column.kind.startswith("DECIMAL")
    return f"{key}::DOUBLE AS {key}" if decimal else key


def _stacked(lists: Array, column: Column, rows: Array, where: str) -> Array:
    number = np.dtype(column.number or "float64")
    out = np.empty((len(lists), column.size or 0), number)
    for i, values in enumerate(lists):
        if values is None or np.ma.is_masked(values):
            raise InputError(f"{where}, row {int(rows[i])}, column {column.name}: it is empty")
        out[i] = values
    return out
