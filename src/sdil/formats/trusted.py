"""Which episodes of a source are trusted: what `--clean` takes, and what it came to in a sentence.

better              a filter key, a group (operator), a task or the name of an episode; several
                    with commas between them, `tag:`, `group:`, `task:`, `id:` where it is not clear
0-29,40             numbers of episodes
shortest 40         also longest, top 20% by return, bottom 5 by COLUMN
success and steps < 300     a condition in SQL on the columns of the episodes
names.txt           a file with a name in each line
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.source import Episode, Source
from sdil.formats.sql import quoted_name

_RANGES = re.compile(r"^\s*\d+(\s*-\s*\d+)?(\s*,\s*\d+(\s*-\s*\d+)?)*\s*$")
_ENDS = re.compile(
    r"^\s*(?P<end>top|best|bottom|worst|lowest|highest|shortest|longest)\s+"
    r"(?P<count>\d+(?:\.\d+)?)\s*(?P<share>%?)(?:\s+by\s+(?P<column>.+?))?\s*$",
    re.IGNORECASE,
)
_LAST_NUMBER = re.compile(r"(\d+)$")
_KINDS = ("tag", "group", "task", "id")
_OWN_COLUMNS = ("id", "number", "steps", "group", "task", "tags")
_NO_RETURN = re.compile(r"column \"return\" not found", re.IGNORECASE)
_MOST_SHOWN = 12


@dataclass(frozen=True)
class Chosen:
    """Episodes, by their position in the source, and why these."""

    positions: tuple[int, ...]
    sentence: str
    """How they were chosen: `those with the filter key better`."""


def choose(
    source: Source, text: str | Sequence[str | int], *, among: Sequence[int] | None = None
) -> Chosen:
    """The episodes that a user names, in the source's order; ranks count `among` these alone."""
    if not isinstance(text, str):
        text = ",".join(map(str, text))
    said = text.strip()
    if not said:
        raise InputError(f"{source.location}: which episodes? {offer(source)}")
    ranked = range(len(source.episodes)) if among is None else among
    for way in (_by_file, _by_number, partial(_by_rank, among=ranked), _by_name):
        found = way(source, said)
        if found is not None:
            break
    else:
        found = _by_condition(source, said)
    if not found.positions:
        raise InputError(f"{source.location}: no episode is among {found.sentence}")
    return found


def offer(source: Source) -> str:
    """What `--clean` could take here, in a sentence."""
    parts = []
    for label, values in (
        ("filter keys", {tag for e in source.episodes for tag in e.tags}),
        ("groups", {e.group for e in source.episodes if e.group is not None}),
        ("tasks", {e.task for e in source.episodes if e.task is not None}),
        ("columns of episodes", {*columns_of(source), "steps"}),
    ):
        if values:
            names = sorted(map(str, values))
            more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
            parts.append(f"{label} {', '.join(names[:_MOST_SHOWN])}{more}")
    if source.episodes:
        first, last = source.episodes[0].id, source.episodes[-1].id
        parts.append(f"episodes {first} to {last}" if first != last else f"episode {first}")
    return "There are " + "; ".join(parts)


def columns_of(source: Source) -> list[str]:
    """The names of what is known of whole episodes."""
    return list(dict.fromkeys(name for e in source.episodes for name in e.columns))


def numbers_of(episodes: Sequence[Episode]) -> list[int]:
    """The number of each episode: the one that its name ends in, else its position."""
    found = [_LAST_NUMBER.search(e.id) for e in episodes]
    numbers = [int(match[1]) for match in found if match]
    return numbers if len(set(numbers)) == len(episodes) else list(range(len(episodes)))


def _by_file(source: Source, text: str) -> Chosen | None:
    path = Path(text)
    try:
        if not path.is_file():
            return None
        content = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise InputError(f"{path}: it is no file of names: it is not text") from None
        return None  # no name of a file at all
    names = _names_in(path, content)
    known = {e.id: i for i, e in enumerate(source.episodes)}
    by_number = {str(n): i for i, n in enumerate(numbers_of(source.episodes))}
    for line, name in enumerate(names, 1):
        if name not in known and name not in by_number:
            raise InputError(
                f"{path}, name {line}: {source.location} has no episode {name!r}; {_ids(source)}"
            )
    found = {known.get(name, by_number.get(name, 0)) for name in names}
    return Chosen(tuple(sorted(found)), f"the {len(found)} named in {path}")


def _names_in(path: Path, content: str) -> list[str]:
    if path.suffix.lower() == ".json":
        try:
            value = json.loads(content)
        except ValueError as error:
            raise InputError(f"{path}: cannot be read as JSON ({error})") from None
        if not isinstance(value, list) or not all(isinstance(v, str | int) for v in value):
            raise InputError(f"{path}: it is not a list of names")
        return [str(v) for v in value]
    lines = [line.split(",")[0].strip() for line in content.splitlines()]
    named = [line for line in lines if line and not line.startswith("#")]
    return named[1:] if named and named[0].lower() in ("episode", "id", "name") else named


def _by_number(source: Source, text: str) -> Chosen | None:
    if not _RANGES.match(text):
        return None
    numbers = {n: i for i, n in enumerate(numbers_of(source.episodes))}
    found: set[int] = set()
    for piece in text.split(","):
        first, _, last = piece.partition("-")
        low, high = int(first), int(last or first)
        inside = [i for n, i in numbers.items() if low <= n <= high]
        if not inside or low < min(numbers) or high > max(numbers):
            raise InputError(
                f"{source.location}: there is no episode {piece.strip()}; {_ids(source)}"
            )
        found.update(inside)
    one = len(found) == 1
    return Chosen(tuple(sorted(found)), f"episode{'' if one else 's'} {text}")


def _by_rank(source: Source, text: str, *, among: Sequence[int]) -> Chosen | None:
    match = _ENDS.match(text)
    if not match:
        return None
    end, column = match["end"].lower(), match["column"]
    if end in ("shortest", "longest"):
        column = column or "steps"
    elif column is None:
        raise InputError(f"{text!r}: by what? Say `{text} by return`, `by steps` or by a column")
    places = np.asarray(among, np.int64)
    values = values_of(source, column)[places]
    total, count = len(values), float(match["count"])
    if match["share"]:
        if not 0 < count <= 100:
            raise InputError(f"{text!r}: a share lies above 0% and up to 100%")
        many = max(1, round(total * count / 100))
    else:
        many = ceil(count)
    if not 1 <= many <= total:
        raise InputError(f"{text!r}: there are {total} episodes in {source.location}")
    low_first = end in ("bottom", "worst", "lowest", "shortest")
    order = np.argsort(values if low_first else -values, kind="stable")[:many]
    edge = values[order[-1]]
    alike = int((values == edge).sum())
    taken = int((values[order] == edge).sum())
    by_chance = alike - taken > many  # more are left out that are as good as those taken
    ties = f"; {alike} are level there, the first {taken} are taken" if by_chance else ""
    word = "at most" if low_first else "at least"
    ends = "lowest" if low_first else "highest"
    return Chosen(
        tuple(sorted(places[order].tolist())),
        f"the {many} of {total} with the {ends} {column} ({word} {edge:g}{ties})",
    )


def values_of(source: Source, column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A number for each episode: a column of it, its length, or its return."""
    name = column.strip().strip('"`')
    if name in ("steps", "length") and name not in columns_of(source):
        return np.array([e.steps for e in source.episodes], float)
    if name == "return" and name not in columns_of(source):
        return _returns(source)
    raw = [e.columns.get(name) for e in source.episodes]
    try:
        values = np.array([np.nan if v is None else float(v) for v in raw])
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if np.isnan(values).any() or not len(values):
        known = ", ".join(dict.fromkeys(["steps", "return", *columns_of(source)]))
        raise InputError(
            f"{source.location}: {name!r} is no number that every episode has; there are {known}"
        )
    return values


def _returns(source: Source) -> np.ndarray[Any, np.dtype[np.float64]]:
    found = []
    for i, episode in enumerate(source.episodes):
        rewards = source.read(i, []).rewards
        if rewards is None:
            raise InputError(
                f"{source.location}: episode {episode.id!r} has no rewards, so that its return is "
                "not known"
            )
        found.append(float(np.sum(rewards)))
    return np.array(found)


def _by_name(source: Source, text: str) -> Chosen | None:
    whole = _with_name(source, text)
    if whole is not None:
        return whole
    parts = [_with_name(source, name.strip()) for name in text.split(",") if name.strip()]
    if not parts or any(part is None for part in parts):
        return None
    chosen = [part for part in parts if part is not None]
    positions = sorted({i for part in chosen for i in part.positions})
    return Chosen(tuple(positions), " and ".join(part.sentence for part in chosen))


def _with_name(source: Source, text: str) -> Chosen | None:
    kind, colon, rest = text.partition(":")
    kinds = (kind,) if colon and kind in _KINDS else _KINDS
    name = rest.strip() if len(kinds) == 1 else text
    holders: dict[str, Callable[[Episode], bool]] = {
        "tag": lambda e: name in e.tags,
        "group": lambda e: e.group == name,
        "task": lambda e: e.task == name,
        "id": lambda e: e.id == name,
    }
    words = {"tag": "those with the filter key", "group": "those of the group"}
    words |= {"task": "those of the task", "id": "episode"}
    found = {k: tuple(i for i, e in enumerate(source.episodes) if holders[k](e)) for k in kinds}
    some = {k: positions for k, positions in found.items() if positions}
    if len(set(some.values())) > 1:
        raise InputError(
            f"{source.location}: {name!r} is a {' and a '.join(some)}; say which, as "
            f"{next(iter(some))}:{name}"
        )
    for k, positions in some.items():
        return Chosen(positions, f"{words[k]} {name}")
    if len(kinds) == 1:
        raise InputError(f"{source.location}: there is no {kind} {name!r}. {offer(source)}")
    return None


def _by_condition(source: Source, text: str) -> Chosen:
    """The episodes that an SQL condition holds for, told by DuckDB with no way to any file."""
    import duckdb

    columns = episode_table(source)
    query = f"SELECT position FROM (SELECT * FROM given) WHERE ({text}\n) ORDER BY position"
    unclear = f"{source.location}: {text!r} names no episodes and is no condition on their columns"
    try:
        statements = duckdb.extract_statements(query)
    except Exception as error:  # DuckDB's own
        raise InputError(f"{unclear} ({_said(error)}). {offer(source)}") from None
    if len(statements) != 1 or not str(statements[0].type).endswith("SELECT"):
        raise InputError(f"{unclear} (it is more than one). {offer(source)}")
    try:
        found = _select(columns, query)
    except Exception as error:  # DuckDB's own
        if not _NO_RETURN.search(str(error)):
            raise InputError(f"{unclear} ({_said(error)}). {offer(source)}") from None
        columns["return"] = _returns(source).tolist()  # each is read for it
        try:
            found = _select(columns, query)
        except Exception as again:  # DuckDB's own
            raise InputError(f"{unclear} ({_said(again)}). {offer(source)}") from None
    return Chosen(found, f"those where {text}")


def _select(columns: dict[str, list[Any]], query: str) -> tuple[int, ...]:
    """The positions that a query of the table `given` finds."""
    import duckdb

    names = ", ".join(quoted_name(name) for name in columns)
    kinds = ", ".join(f"{quoted_name(k)} {_sql_type(v)}" for k, v in columns.items())
    marks = ", ".join("?" * len(columns))
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE given ({kinds})")
        rows = list(zip(*columns.values(), strict=True))
        if rows:
            connection.executemany(f"INSERT INTO given ({names}) VALUES ({marks})", rows)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return tuple(int(row[0]) for row in connection.execute(query).fetchall())


def episode_table(source: Source) -> dict[str, list[Any]]:
    """What is known of each episode, in columns that DuckDB can hold."""
    episodes = source.episodes
    own: dict[str, list[Any]] = {
        "position": list(range(len(episodes))),
        "id": [e.id for e in episodes],
        "number": numbers_of(episodes),
        "steps": [e.steps for e in episodes],
        "group": [e.group for e in episodes],
        "task": [e.task for e in episodes],
        "tags": [sorted(e.tags) for e in episodes],
    }
    taken = {name.lower() for name in own}
    for name in columns_of(source):
        if name.lower() not in taken:
            taken.add(name.lower())
            own[name] = [_plain(e.columns.get(name)) for e in episodes]
    return own


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _sql_type(values: Sequence[Any]) -> str:
    given = [v for v in values if v is not None]
    if given and all(isinstance(v, list) for v in given):
        return "VARCHAR[]"
    if given and all(isinstance(v, bool) for v in given):
        return "BOOLEAN"
    if given and all(isinstance(v, int) and abs(v) < 2**63 for v in given):
        return "BIGINT"
    if given and all(isinstance(v, int | float) for v in given):
        return "DOUBLE"
    return "VARCHAR"


def _said(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:160] if str(error).strip() else "unclear"


def _ids(source: Source) -> str:
    numbers = numbers_of(source.episodes)
    return f"there are {len(numbers)}, from {min(numbers, default=0)} to {max(numbers, default=0)}"
