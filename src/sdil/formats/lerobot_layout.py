"""How a LeRobot data set lies on disk, versions 2.0, 2.1 and 3.0: what its `meta/` folder says.

Version 2 has a file per episode and lists of JSON; version 3 many episodes per file and tables.
Both name their files by templates, in which people use other variables than LeRobot does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.files import read_json
from sdil.formats.lerobot_features import BOOKKEEPING, REWARDS, SUCCESS, check_features
from sdil.formats.lerobot_paths import Files, MissingFileError, Wanted

DATA_3 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_3 = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
DATA_2 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
VIDEO_2 = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_STATS = "stats/"
TOLD_BY = (*REWARDS, *SUCCESS)
"""Features whose statistics say how an episode went."""


@dataclass(frozen=True, eq=False)
class Row:
    """What `meta/` says of an episode."""

    index: int
    """Its number in the source."""
    length: int
    tasks: tuple[str, ...]
    values: Mapping[str, Any]
    """Everything else that is said of it, as it is written there."""
    stats: Mapping[str, Any]
    """By feature, then by statistic: of rewards and success alone in version 3, where there are
    many (`read_stats` reads all); empty where there are none."""
    place: tuple[Path, int]
    """The file that says all this, and the number of its row there."""


@dataclass(frozen=True, eq=False)
class Layout:
    """What `meta/` says of a data set."""

    root: Path
    version: str
    """As it is written: v3.0."""
    major: int
    """2 or 3."""
    info: Mapping[str, Any]
    """`meta/info.json`."""
    features: Mapping[str, Mapping[str, Any]]
    fps: float
    tasks: Mapping[int, str]
    rows: tuple[Row, ...]
    """In the order of their numbers."""
    files: Files

    @property
    def cameras(self) -> list[str]:
        """Features that are stored as video."""
        return [name for name, feature in self.features.items() if feature["dtype"] == "video"]

    def data_file(self, row: Row) -> Path:
        """The table with the steps of this episode."""
        template = self.info.get("data_path") or (DATA_3 if self.major == 3 else DATA_2)
        return self.files.find(template, self._wanted(row, "data"))

    def video_file(self, row: Row, camera: str) -> Path:
        """The video with the frames of this episode; where it should be, if it is not there."""
        template = self.info.get("video_path") or (VIDEO_3 if self.major == 3 else VIDEO_2)
        older = self.info.get("videos")
        if isinstance(older, dict) and "video_path" not in self.info:  # early version 2.0
            template = older.get("videos_path", template)
        try:
            return self.files.find(template, self._wanted(row, f"videos/{camera}", camera))
        except MissingFileError as error:
            return error.path

    def _wanted(self, row: Row, place: str, camera: str = "") -> Wanted:
        """Numbers of chunk and file: as `meta/episodes` has them, else a file per episode."""
        size = self.info.get("chunks_size")
        size = size if isinstance(size, int) and size > 0 else 1000
        chunk, file = (row.values.get(f"{place}/{name}_index") for name in ("chunk", "file"))
        if not isinstance(chunk, int) or not isinstance(file, int):
            chunk, file = row.index // size, row.index
        return Wanted(row.index, int(chunk), int(file), camera)


def read_layout(root: Path) -> Layout:
    """What `meta/` says, checked: InputError where it cannot be understood."""
    place = root / "meta" / "info.json"
    info = read_json(place, what="a LeRobot data set")
    if not isinstance(info, dict):
        raise InputError(f"{place}: it is not an object")
    has_tables = any((root / "meta" / "episodes").rglob("*.parquet"))
    has_lines = (root / "meta" / "episodes.jsonl").is_file()
    version = info.get("codebase_version", "v3.0" if has_tables else "v2.1")
    match = re.fullmatch(r"v?(\d+)(\.\d+)*", version) if isinstance(version, str) else None
    if match is None or match[1] not in ("2", "3"):
        raise InputError(
            f"{place}: codebase_version is {version!r}; versions 2.0, 2.1 and 3.0 can be read: "
            "convert it with LeRobot's own scripts"
        )
    fps = info.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps < 1e6:
        raise InputError(f"{place}: fps is {fps!r}; it must be a number above 0")
    features = check_features(info, place)
    major = int(match[1])
    if has_tables != has_lines:  # people write another version than they have
        major = 3 if has_tables else 2
    tasks = _tasks_3(root) if major == 3 else _tasks_2(root)
    found = _rows_3(root, tasks) if major == 3 else _rows_2(root, tasks)
    rows = tuple(sorted(found, key=lambda row: row.index))
    for before, row in pairwise(rows):
        if before.index == row.index:
            raise InputError(f"{root}/meta: episode {row.index} is listed twice")
    if not rows:
        raise InputError(f"{root}/meta: no episode is listed")
    files = Files(root, info)
    return Layout(root, version, major, info, features, float(fps), tasks, rows, files)


def _rows_3(root: Path, tasks: Mapping[int, str]) -> Iterator[Row]:
    for path in sorted((root / "meta" / "episodes").rglob("*.parquet")):
        with told_of(path):
            file = open_table(path)
            names = file.schema_arrow.names
            wanted = [n for n in names if not n.startswith(_STATS) or _feature_of(n) in TOLD_BY]
            listed = file.read(columns=wanted).select(wanted).to_pylist()
        for number, values in enumerate(listed):
            stats = _take_stats(values)
            length = values.get("length")
            first, last = (values.get(f"dataset_{end}_index") for end in ("from", "to"))
            if length is None and isinstance(first, int) and isinstance(last, int):
                length = last - first
            yield _row((path, number), values, length, tasks, stats)


def _feature_of(name: str) -> str:
    return name.removeprefix(_STATS).rpartition("/")[0]


def _take_stats(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The statistics among the columns of an episode, by feature, taken out of them."""
    stats: dict[str, dict[str, Any]] = {}
    for name in [name for name in values if name.startswith(_STATS)]:
        stats.setdefault(_feature_of(name), {})[name.rpartition("/")[2]] = values.pop(name)
    return stats


def read_stats(layout: Layout, row: Row) -> Mapping[str, Any]:
    """All statistics that the source has of an episode, by feature."""
    if layout.major == 2:
        return row.stats
    path, number = row.place
    with told_of(path):
        file = open_table(path)
        wanted = [name for name in file.schema_arrow.names if name.startswith(_STATS)]
        if not wanted:
            return {}
        return _take_stats(file.read(columns=wanted).slice(number, 1).to_pylist()[0])


def _rows_2(root: Path, tasks: Mapping[int, str]) -> Iterator[Row]:
    path = root / "meta" / "episodes.jsonl"
    stats: dict[Any, Any] = {}
    of_episodes = root / "meta" / "episodes_stats.jsonl"
    if of_episodes.is_file():
        for line in _lines(of_episodes):
            number, told = line.get("episode_index"), line.get("stats")
            if isinstance(number, int) and isinstance(told, dict):
                stats[number] = {k: v for k, v in told.items() if isinstance(v, dict)}
    for at, values in enumerate(_lines(path)):
        number = values.get("episode_index")
        of_episode = stats.get(number, {}) if isinstance(number, int) else {}
        yield _row((path, at), values, values.get("length"), tasks, of_episode)


def _row(
    place: tuple[Path, int],
    values: dict[str, Any],
    length: Any,
    tasks: Mapping[int, str],
    stats: Mapping[str, Any],
) -> Row:
    path, _ = place
    number = values.get("episode_index")
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise InputError(f"{path}: an episode_index is {number!r}; it must be a number from 0")
    if isinstance(length, bool) or not isinstance(length, int) or not 0 < length < 2**40:
        raise InputError(f"{path}: episode {number}: its length is {length!r}")
    named = values.get("tasks")
    if named is None and isinstance(values.get("task_index"), int):
        named = tasks.get(values["task_index"])
    if isinstance(named, str):
        named = [named]
    texts = [
        tasks.get(task, str(task)) if isinstance(task, int) else str(task)
        for task in (named if isinstance(named, list) else [])
        if task is not None
    ]
    skipped = {"episode_index", "length", "tasks", *BOOKKEEPING}
    others = {name: value for name, value in values.items() if name not in skipped}
    return Row(number, length, tuple(dict.fromkeys(texts)), others, stats, place)


def _tasks_3(root: Path) -> dict[int, str]:
    path = root / "meta" / "tasks.parquet"
    if not path.is_file():
        return _tasks_2(root)
    with told_of(path):
        listed = open_table(path).read().to_pylist()
    texts = [line.get("task", line.get("__index_level_0__")) for line in listed]
    return _checked_tasks(
        [(n.get("task_index"), t) for n, t in zip(listed, texts, strict=True)], path
    )


def _tasks_2(root: Path) -> dict[int, str]:
    path = root / "meta" / "tasks.jsonl"
    if not path.is_file():
        return {}
    return _checked_tasks([(n.get("task_index"), n.get("task")) for n in _lines(path)], path)


def _checked_tasks(found: list[tuple[Any, Any]], path: Path) -> dict[int, str]:
    for number, text in found:
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(text, str):
            raise InputError(f"{path}: task {number!r} is {text!r}; a number and a text are needed")
    return dict(sorted(found))


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file with one JSON object per line."""
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: line {number} is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise InputError(f"{path}: line {number} is not an object")
        try:
            yield {str(key): item for key, item in value.items()}
        except TypeError as error:
            raise InputError(f"{path}: line {number}: {error}") from None


def open_table(path: Path) -> Any:
    """A Parquet file, opened; where pyarrow is missing the error says how to get it."""
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError(
            "reading LeRobot data needs pyarrow: pip install 'sdil[formats]'"
        ) from None
    with path.open("rb") as file:
        if file.read(12) == b"version http":
            raise InputError(
                f"{path} is only a pointer of Git LFS; fetch the data with: git lfs pull"
            )
    return parquet.ParquetFile(path)


@contextmanager
def told_of(path: Path, what: str = "") -> Iterator[None]:
    """What goes wrong while `path` is read, in one sentence: pyarrow, av and PIL have their own."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        of = f"{what}: " if what else ""
        raise InputError(f"{path}: {of}cannot be read ({reason}); is it damaged?") from error
