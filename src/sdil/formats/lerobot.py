"""LeRobot data sets, versions 3.0, 2.1 and 2.0: read in place, an episode at a time."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.formats.lerobot_features import (
    BOOKKEEPING,
    REWARDS,
    SUCCESS,
    TEXTS,
    column_to_array,
    describe,
    find_column,
)
from sdil.formats.lerobot_layout import (
    Layout,
    Row,
    open_table,
    read_layout,
    told_of,
)
from sdil.formats.lerobot_paths import MissingFileError
from sdil.formats.lerobot_video import Clip, decode_pictures, each_picture
from sdil.formats.source import Episode, Feature, Recorded
from sdil.spaces import Array

_TERMINATED = ("next.terminated", "terminated")
_MOST_LISTED = 10
_READ_AHEAD = 2_000_000  # bytes of row groups that are read at once
_TABLES_KEPT = 2  # all columns for a curated set, and times beside them
_GROUPS = ("operator", "operator_id", "collector", "annotator", "user", "sdil/source_episode")


def open_lerobot(path: str | Path) -> LeRobot:
    """A LeRobot data set: the folder that has `meta`, `data` and `videos` in it."""
    root = Path(path)
    if not root.is_dir():
        raise InputError(f"{root} is no folder; give the one with meta/info.json in it")
    layout, missing = _present(read_layout(root))
    for sentence in missing:
        warnings.warn(f"{root}: {sentence}", stacklevel=2)
    about = {
        "version": layout.version,
        "fps": layout.fps,
        "robot": layout.info.get("robot_type"),
        "tasks": dict(layout.tasks),
        "cameras": layout.cameras,
        "odd": missing or _odd(layout),
    }
    return LeRobot(
        location=str(path),
        features=describe(layout.features),
        episodes=tuple(_episode(layout, row) for row in layout.rows),
        about=about,
        layout=layout,
    )


@dataclass(frozen=True, eq=False)
class LeRobot:
    """An opened LeRobot data set; a `Source`."""

    location: str
    features: tuple[Feature, ...]
    episodes: tuple[Episode, ...]
    about: Mapping[str, Any]
    layout: Layout
    format: str = "lerobot"
    _kept: dict[str, Any] = field(default_factory=dict, repr=False)
    """What was read last: episodes of one file are mostly asked for one after the other."""

    def read(self, index: int, features: Sequence[str]) -> Recorded:
        """These features of one episode; cameras as (T, H, W, C)."""
        known = {feature.name: feature for feature in self.features}
        for name in features:
            if name not in known:
                raise InputError(
                    f"{self.location}: it has no feature {name!r}; it has {', '.join(known)}"
                )
        row = self.layout.rows[index]
        stored = [n for n in features if known[n].dtype != "video"]
        path = self.layout.data_file(row)
        with told_of(path, f"episode {row.index}"):
            present = self._opened(path)[0].schema_arrow.names
            extra = [n for n in (*REWARDS, *SUCCESS, *_TERMINATED, "frame_index") if n in present]
            known |= {n: Feature(n, "other", (), "") for n in extra}
            table = self.rows_of(index, [*stored, *extra])
            values: dict[str, Array] = {}
            for name in dict.fromkeys([*stored, *extra]):
                values[name] = self._column(table, path, row, known[name])
        for name in features:
            if known[name].dtype == "video":
                values[name] = np.stack(list(self.clip(index, name).frames(self.times(index))))
        rewards = next((values[n] for n in REWARDS if n in extra), None)
        ended = next((values[n] for n in (*SUCCESS, *_TERMINATED) if n in extra), None)
        return Recorded(
            values={name: values[name] for name in features},
            terminated=bool(ended is not None and ended.size and ended.reshape(-1)[-1]),
            rewards=None if rewards is None else rewards.reshape(-1),
            frames=_rising(values.get("frame_index"), row.length),
        )

    def frames_of(self, index: int) -> tuple[Array, Array]:
        """The number of each frame of an episode within it, and in the whole data set. (T,) each"""
        row = self.layout.rows[index]
        path = self.layout.data_file(row)
        with told_of(path, f"episode {row.index}"):
            table = self.rows_of(index, ["frame_index", "index"], missing_ok=True)
            found = {
                name: column_to_array(column, (), f"{path}: episode {row.index}: {name}")
                for name in ("frame_index", "index")
                if (column := find_column(table, name)) is not None
            }
        if "index" not in found:
            begin = row.values.get("dataset_from_index")
            if not isinstance(begin, int):
                begin = sum(other.length for other in self.layout.rows[:index])
            found["index"] = np.arange(begin, begin + row.length)
        return _rising(found.get("frame_index"), row.length), found["index"]

    def pictures(self, index: int, feature: str, size: tuple[int, int] | None) -> Iterator[Array]:
        """The frames of a camera in an episode, one after the other; videos of this size."""
        row = self.layout.rows[index]
        if feature in self.layout.cameras:
            clip, times = self.clip(index, feature), self.times(index)
            yield from clip.frames(times) if size is None else clip.resized(times, size)
            return
        path = self.layout.data_file(row)
        with told_of(path, f"episode {row.index}"):
            column = find_column(self.rows_of(index, [feature]), feature)
            where = f"{path}: episode {row.index}: {feature}"
            if column is None:
                raise InputError(f"{where}: there is no such column")
            yield from each_picture(column, where, self.layout.root)

    def times(self, index: int) -> Array:
        """Seconds from the beginning of the episode at which each frame was taken. (T,)"""
        row = self.layout.rows[index]
        path = self.layout.data_file(row)
        with told_of(path, f"episode {row.index}"):
            table = self.rows_of(index, ["timestamp"], missing_ok=True)
            column = find_column(table, "timestamp")
            if column is not None:
                where = f"{path}: episode {row.index}: timestamp"
                times = column_to_array(column, (), where).astype(np.float64)
                if np.isfinite(times).all() and (np.diff(times) > 0).all():
                    return times
        return np.arange(row.length) / self.layout.fps

    def clip(self, index: int, camera: str) -> Clip:
        """Where the video of one camera shows an episode; nothing is decoded yet."""
        if camera not in self.layout.cameras:
            raise InputError(f"{self.location}: {camera!r} is no camera that is stored as video")
        row, fps = self.layout.rows[index], self.layout.fps
        start, stop = 0.0, row.length / fps
        if self.layout.major == 3:
            begin, end = (
                row.values.get(f"videos/{camera}/{which}_timestamp") for which in ("from", "to")
            )
            if not isinstance(begin, int | float) or not 0 <= begin < 1e9:
                raise InputError(
                    f"{self.location}/meta/episodes: episode {row.index}: "
                    f"videos/{camera}/from_timestamp is {begin!r}"
                )
            start, stop = float(begin), float(begin) + row.length / fps
            stop = float(end) if isinstance(end, int | float) and end > start else stop
        return Clip(self.layout.video_file(row, camera), start, stop, fps)

    def frozen_share(self, index: int, camera: str) -> float:
        """The share of a few pictures of an episode that look like the one before."""
        return self.clip(index, camera).frozen_share(self.times(index))

    def rows_of(self, index: int, names: Sequence[str] | None, *, missing_ok: bool = False) -> Any:
        """The rows of one episode as a pyarrow table; all columns where no names are given."""
        row = self.layout.rows[index]
        path = self.layout.data_file(row)
        file, spans = self._opened(path)
        if spans is None:  # the file says of no row which episode it belongs to
            first, last = 0, file.metadata.num_rows
        else:
            first, last = spans.get(row.index, (0, 0))
            if first < 0:
                raise InputError(f"{path}: episode {row.index} is scattered over the file")
        if last - first != row.length:
            raise InputError(
                f"{path}: episode {row.index} has {last - first} rows there, but its length in "
                f"meta is {row.length}; correct meta, or leave the episode out"
            )
        present = file.schema_arrow.names
        wanted = None
        if names is not None:
            wanted = sorted({top for n in names if (top := _top(n, present)) is not None})
            lacking = [n for n in names if _top(n, present) is None]
            if lacking and not missing_ok:
                raise InputError(
                    f"{path}: it has no column {lacking[0]!r}, which meta/info.json names; "
                    f"it has {', '.join(present)}"
                )
        return self._rows(path, file, first, last, wanted)

    def _opened(self, path: Path) -> tuple[Any, dict[int, tuple[int, int]] | None]:
        """A data file, and where each episode lies in it."""
        if self._kept.get("path") != path:
            self._kept.clear()
            file = open_table(path)
            spans = None
            if "episode_index" in file.schema_arrow.names:
                column = file.read(columns=["episode_index"]).column("episode_index")
                where = f"{path}: episode_index"
                spans = _spans(column_to_array(column, (), where))
            elif self.layout.major == 3:
                raise InputError(f"{path}: it has no column episode_index; fetch it again")
            counts = (file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))
            edges = np.cumsum([0, *counts])
            self._kept.update(path=path, file=file, spans=spans, edges=edges)
        return self._kept["file"], self._kept["spans"]

    def _rows(self, path: Path, file: Any, first: int, last: int, wanted: list[str] | None) -> Any:
        """Rows of a file; the row groups that they lie in are kept for the next episode.

        LeRobot writes a row group for each episode, so that some of those that follow are read too.
        """
        edges = self._kept["edges"]
        key = None if wanted is None else tuple(wanted)
        tables = self._kept.setdefault("tables", {})
        begin, end, table = tables.get(key, (0, 0, None))
        if table is None or not begin <= first <= last <= end:
            low = int(np.searchsorted(edges, first, side="right")) - 1
            high = int(np.searchsorted(edges, last, side="left"))
            size = sum(file.metadata.row_group(i).total_byte_size for i in range(low, high))
            while high < file.num_row_groups and size < _READ_AHEAD:
                size += file.metadata.row_group(high).total_byte_size
                high += 1
            while len(tables) >= _TABLES_KEPT:
                del tables[next(iter(tables))]
            table = file.read_row_groups(list(range(low, high)), columns=wanted)
            table = table if wanted is None else table.select(wanted)
            begin, end = int(edges[low]), int(edges[high])
            tables[key] = begin, end, table
        return table.slice(first - begin, last - first)

    def _column(self, table: Any, path: Path, row: Row, feature: Feature) -> Array:
        where = f"{path}: episode {row.index}: {feature.name}"
        column = find_column(table, feature.name)
        if column is None:
            raise InputError(f"{where}: there is no such column, but meta/info.json names it")
        if feature.dtype == "image":
            return decode_pictures(column, where, self.layout.root)
        is_text = feature.dtype in TEXTS
        return column_to_array(column, () if is_text else feature.shape, where, is_text=is_text)


def _spans(numbers: Array) -> dict[int, tuple[int, int]]:
    """The first row of each episode and one past its last; -1 where they are scattered."""
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    spans: dict[int, tuple[int, int]] = {}
    for first, last in pairwise(edges):
        if first < last:
            number = int(numbers[first])
            spans[number] = (-1, -1) if number in spans else (first, last)
    return spans


def _top(name: str, present: Sequence[str]) -> str | None:
    """The column that holds a feature, which may be nested in it."""
    spelled = (name, name.replace("/", "."), name.replace(".", "/"))
    parts = (name.split(".")[0], name.split("/")[0])
    return next((choice for choice in (*spelled, *parts) if choice in present), None)


def _rising(frames: Array | None, length: int) -> Array:
    """The recorded numbers of frames, or their positions where those do not rise."""
    if frames is None or frames.shape != (length,) or not (np.diff(frames) > 0).all():
        return np.arange(length)
    return frames.astype(np.int64)


def _episode(layout: Layout, row: Row) -> Episode:
    columns = {
        name: value
        for name, value in row.values.items()
        if isinstance(value, str | int | float | bool)
        and not name.startswith(("data/", "videos/", "meta/", "dataset_", "sdil/"))
        and name not in BOOKKEEPING
    }
    for name in REWARDS:
        mean = _one_number(row.stats.get(name), "mean")
        if mean is not None:
            columns.setdefault("return", mean * row.length)
    for name in SUCCESS:
        most = _one_number(row.stats.get(name), "max")
        if most is not None:
            columns.setdefault("success", bool(most))
    columns["length"] = row.length
    group = next((row.values[name] for name in _GROUPS if row.values.get(name) is not None), None)
    return Episode(
        id=str(row.index),
        steps=row.length,
        group=None if group is None else str(group),
        task="; ".join(row.tasks) if row.tasks else None,
        tags=frozenset(_splits(layout.info.get("splits"), row.index)),
        columns=columns,
    )


def _one_number(stats: Any, which: str) -> float | None:
    value = stats.get(which) if isinstance(stats, Mapping) else None
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return float(value) if isinstance(value, int | float) else None


def _splits(splits: Any, episode: int) -> list[str]:
    """The splits of `info.json` ("train": "0:50") that an episode is in."""
    found = []
    for name, span in splits.items() if isinstance(splits, dict) else ():
        first, _, last = str(span).partition(":")
        if first.isdecimal() and last.isdecimal() and int(first) <= episode < int(last):
            found.append(str(name))
    return found


def _present(layout: Layout) -> tuple[Layout, list[str]]:
    """The episodes whose files are there, and what is missing: people fetch parts of data sets."""
    rows, missing, files = [], [], set()
    for row in layout.rows:
        try:
            files.add(layout.data_file(row))
        except MissingFileError as error:
            missing.append((row.index, error))
        else:
            rows.append(row)
    if len(files) == 1 and len(rows) > 1:  # all in one table, or the only one that was fetched
        (path,) = files
        held = _episodes_in(path)
        if held is not None:
            absent = [row.index for row in rows if row.index not in held]
            missing += [(index, MissingFileError(path, index)) for index in absent]
            rows = [row for row in rows if row.index in held]
    if not missing:
        return layout, []
    if not rows:
        raise InputError(str(missing[0][1]))
    said = (
        f"{len(missing)} of {len(layout.rows)} episodes are left out, since their data files are "
        f"not there: {_listed(sorted(index for index, _ in missing))}"
    )
    return replace(layout, rows=tuple(rows)), [said]


def _episodes_in(path: Path) -> set[int] | None:
    """The episodes of a data file; None where it does not say, or what is wrong is said later."""
    try:
        with told_of(path):
            file = open_table(path)
            if "episode_index" not in file.schema_arrow.names:
                return None
            column = file.read(columns=["episode_index"]).column("episode_index")
            return set(np.unique(column_to_array(column, (), str(path))).tolist())
    except InputError:
        return None


def _listed(numbers: Sequence[int]) -> str:
    """Numbers as `--clean` takes them: 0-3, 7; the first of many."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs[:_MOST_LISTED]]
    return ", ".join(shown) + (", ..." if len(runs) > _MOST_LISTED else "")


def _odd(layout: Layout) -> list[str]:
    """What does not fit together in `meta`."""
    odd, info = [], layout.info
    counted = {
        "total_episodes": len(layout.rows),
        "total_frames": sum(row.length for row in layout.rows),
    }
    for name, number in counted.items():
        if name in info and info[name] != number:
            odd.append(f"meta/info.json says {name} {info[name]}, meta/episodes lists {number}")
    if [row.index for row in layout.rows] != list(range(len(layout.rows))):
        odd.append("episodes are not numbered 0, 1, 2, ...: some are missing")
    return odd
