"""A curated LeRobot data set, version 3.0: what was kept, each run of it an episode of its own.

Episodes that are kept whole stay what they were, bit for bit, but for their numbers; segments are
cut out of the tables and of the videos. `meta/episodes` says where each comes from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_folder, write_json
from sdil.formats.lerobot import LeRobot
from sdil.formats.lerobot_cutting import Camera, Piece, even_times, find_copied
from sdil.formats.lerobot_features import (
    BOOKKEEPING,
    TEXTS,
    column_to_array,
    find_column,
)
from sdil.formats.lerobot_layout import DATA_3, VIDEO_3, read_stats, told_of
from sdil.formats.lerobot_stats import (
    Joined,
    Seen,
    Stats,
    columns_of,
    fields_of,
    sampled_frames,
    stats_from,
    stats_of_numbers,
)
from sdil.formats.lerobot_tables import TableFiles, write_meta_rows, write_tasks
from sdil.formats.lerobot_video import decode_pictures
from sdil.formats.rows import RowAnswer
from sdil.spaces import Array

MARKER = "meta/sdil.json"
"""What shows that a data set was written here, and may be replaced."""
UNNAMED = "unnamed task"
_PERSISTENT = "language_persistent"
SOURCE_EPISODE, SOURCE_START, SOURCE_STOP = (
    "sdil/source_episode",
    "sdil/source_start",
    "sdil/source_stop",
)


def write_curated(
    source: LeRobot,
    answers: Sequence[RowAnswer],
    out: Path,
    *,
    overwrite: bool = False,
    on_episode: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Write the rows that the answers keep as a data set of version 3.0 into the folder `out`."""
    at = {episode.id: i for i, episode in enumerate(source.episodes)}
    pieces = []
    for answer in answers:
        if answer.id not in at or source.episodes[at[answer.id]].steps != len(answer):
            raise InputError(
                f"{source.location} has no episode {answer.id!r} of {len(answer)} frames: it is "
                "not what was judged, or it was changed since"
            )
        pieces += [Piece(at[answer.id], a, b, len(answer)) for a, b in answer.pieces]
    if not pieces:
        raise InputError("nothing is kept, so there is no data set to write")
    if out.resolve() == Path(source.location).resolve():
        raise InputError(f"{out} is the data set itself; write the curated one elsewhere")
    with new_folder(out.absolute(), overwrite=overwrite, marker=MARKER) as folder:
        _Curation(source, pieces, folder).write(on_episode)
        write_json(folder / MARKER, {"written by": "sdil", "from": Path(source.location).name})


class _Curation:
    """One curated data set, while it is written."""

    def __init__(self, source: LeRobot, pieces: Sequence[Piece], out: Path) -> None:
        self._source, self._pieces, self._out = source, pieces, out
        self._layout = layout = source.layout
        self._names = {name: name.replace("/", ".") for name in layout.features}
        if len(set(self._names.values())) < len(self._names):
            raise InputError(
                f"{source.location}: two features differ only in / and . of their names"
            )
        self._copied = find_copied(source, pieces)
        self._texts = list(layout.tasks.values()) or [UNNAMED]
        self._number_of = {old: new for new, old in enumerate(layout.tasks)}
        self._joined = Joined()

    def write(self, on_episode: Callable[[int, int], None]) -> None:
        layout, rows, begin = self._layout, [], 0
        cameras = {
            name: Camera(self._source, name, self._names[name], self._out)
            for name in layout.cameras
        }
        with ExitStack() as stack:
            tables = stack.enter_context(TableFiles(self._out))
            for number, piece in enumerate(self._pieces):
                table, tasks = self._table(number, piece, begin)
                old = self._layout.rows[piece.at].index
                chunk, file = tables.add(table, f"{self._source.location}: episode {old}")
                row = self._row(number, piece, begin, tasks)
                row |= {"data/chunk_index": chunk, "data/file_index": file}
                stats = self._stats(table)
                for name, camera in cameras.items():
                    placed, seen = self._film(number, piece, name, camera)
                    row |= placed.columns(self._names[name])
                    stats[self._names[name]] = seen
                self._joined.add(stats)
                rows.append(row | columns_of(stats))
                begin += piece.stop - piece.start
                on_episode(number + 1, len(self._pieces))
            for camera in cameras.values():
                camera.close()
        self._write_meta(rows, begin, {n: c.info for n, c in cameras.items()})

    def _table(self, number: int, piece: Piece, begin: int) -> tuple[Any, list[str]]:
        """The rows of a piece under their new numbers, and what was to be done in them."""
        import pyarrow

        row = self._layout.rows[piece.at]
        path = self._layout.data_file(row)
        n = piece.stop - piece.start
        with told_of(path, f"episode {row.index}"):
            old = self._source.rows_of(piece.at, None)
            metadata = old.schema.metadata
            whole, old = old, old.slice(piece.start, n)
            columns: dict[str, Any] = {}
            for name, feature in self._layout.features.items():
                if feature["dtype"] == "video" or name in BOOKKEEPING:
                    continue
                column = find_column(old, name)
                if column is None:
                    raise InputError(f"{path}: it has no column {name!r}, which meta names")
                is_number = feature["dtype"] not in (*TEXTS, "image")
                if is_number and feature["shape"] == (1,) and pyarrow.types.is_nested(column.type):
                    where = f"{path}: episode {row.index}: {name}"
                    column = pyarrow.array(column_to_array(column, (), where))
                if name == _PERSISTENT and piece.start:
                    column = _from_start(column, float(self._source.times(piece.at)[piece.start]))
                columns[self._names[name]] = column
            stamps = find_column(whole, "timestamp")
            keeps_time = piece.is_whole and (number in self._copied or not self._layout.cameras)
            if stamps is None or not keeps_time:
                stamps = pyarrow.array(even_times(n, self._layout.fps))
            stamps = stamps.cast(pyarrow.float32())
            done = self._tasks_of(old, row.tasks, n)
        columns |= {
            "timestamp": stamps,
            "frame_index": pyarrow.array(np.arange(n)),
            "episode_index": pyarrow.array(np.full(n, number)),
            "index": pyarrow.array(np.arange(begin, begin + n)),
            "task_index": pyarrow.array(done),
        }
        table = pyarrow.table(columns)
        if table.schema.equals(old.schema, check_metadata=False):
            table = table.replace_schema_metadata(metadata)  # what Hugging Face says of pictures
        return table, [self._texts[i] for i in dict.fromkeys(done.tolist())]

    def _tasks_of(self, rows: Any, texts: Sequence[str], n: int) -> Array:
        """The new number of the task of each row. (n,)"""
        column = find_column(rows, "task_index")
        if column is not None:
            old = column_to_array(column, (), "task_index")
            if all(int(number) in self._number_of for number in np.unique(old)):
                return np.array([self._number_of[int(number)] for number in old], np.int64)
        text = texts[0] if texts else UNNAMED
        if text not in self._texts:
            self._texts.append(text)
        return np.full(n, self._texts.index(text))

    def _stats(self, table: Any) -> dict[str, Stats]:
        found = {}
        for name, new_name in self._names.items():
            feature = self._layout.features[name]
            if feature["dtype"] == "image":
                seen, column = Seen(), table.column(new_name)
                for picture in decode_pictures(
                    column.take(sampled_frames(len(table))), new_name, self._layout.root
                ):
                    seen.add(picture)
                found[new_name] = seen.stats()
            elif feature["dtype"] not in ("video", *TEXTS) and name not in BOOKKEEPING:
                shape = () if feature["shape"] == (1,) else feature["shape"]
                values = column_to_array(table.column(new_name), shape, new_name)
                found[new_name] = stats_of_numbers(values)
        for name in BOOKKEEPING:
            found[name] = stats_of_numbers(column_to_array(table.column(name), (), name))
        return found

    def _film(self, number: int, piece: Piece, name: str, camera: Camera) -> tuple[Any, Stats]:
        told = None
        row, is_depth = self._layout.rows[piece.at], self._is_depth(name)
        if number in self._copied or is_depth:
            told = stats_from(read_stats(self._layout, row).get(name))
        if is_depth and told is None:
            raise InputError(
                f"{self._source.location}: episode {row.index}: no statistics of {name} are "
                "recorded, and those of depths cannot be made here; run LeRobot's recompute_stats"
            )
        times = self._source.times(piece.at)
        wanted = sampled_frames(piece.stop - piece.start)
        if number in self._copied:
            if told is None:
                seen = Seen()
                for picture in self._source.clip(piece.at, name).frames(times[wanted]):
                    seen.add(picture)
                told = seen.stats()
            return camera.copy(piece), told
        seen = Seen()
        looked_at = set() if is_depth else set(wanted.tolist())

        def look(at: int, frame: Any) -> None:
            if at in looked_at:
                seen.add(frame.to_ndarray(format="rgb24"))

        placed = camera.cut(piece, times, look)
        return placed, told if told is not None else seen.stats()

    def _is_depth(self, name: str) -> bool:
        feature = self._layout.features[name]
        noted = {**(feature.get("video_info") or {}), **(feature.get("info") or {})}
        return bool(noted.get("is_depth_map") or noted.get("video.is_depth_map"))

    def _row(self, number: int, piece: Piece, begin: int, tasks: list[str]) -> dict[str, Any]:
        old = self._layout.rows[piece.at]
        length = piece.stop - piece.start
        return {
            **{k: v for k, v in old.values.items() if "/" not in k},
            "episode_index": number,
            "tasks": tasks,
            "length": length,
            "dataset_from_index": begin,
            "dataset_to_index": begin + length,
            SOURCE_EPISODE: old.index,
            SOURCE_START: piece.start,
            SOURCE_STOP: piece.stop,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }

    def _write_meta(
        self, rows: list[dict[str, Any]], frames: int, films: Mapping[str, Mapping[str, Any]]
    ) -> None:
        layout, meta = self._layout, self._out / "meta"
        meta.mkdir()
        features: dict[str, Any] = {}
        for name, feature in layout.features.items():
            told = {"names": None, **feature, "shape": list(feature["shape"])}
            if films.get(name):
                told["info"] = {**(feature.get("info") or {}), **films[name]}
            features[self._names[name]] = told
        for name in BOOKKEEPING:
            kind = "float32" if name == "timestamp" else "int64"
            features[name] = {"dtype": kind, "shape": [1], "names": None}
        kept = ("robot_type", "fps", "tools")
        info = {key: layout.info[key] for key in kept if key in layout.info}
        info = {
            "codebase_version": "v3.0",
            **info,
            "total_episodes": len(rows),
            "total_frames": frames,
            "total_tasks": len(self._texts),
            "chunks_size": 1000,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "splits": {"train": f"0:{len(rows)}"},
            "data_path": DATA_3,
            "video_path": VIDEO_3 if layout.cameras else None,
            "features": features,
        }
        (meta / "info.json").write_text(json.dumps(info, indent=4, ensure_ascii=False) + "\n")
        (meta / "stats.json").write_text(json.dumps(self._joined.to_json(), indent=4) + "\n")
        write_tasks(meta / "tasks.parquet", self._texts)
        numbers, seen = [], []
        for name, feature in features.items():
            if feature["dtype"] in ("image", "video"):
                seen.append(name)
            elif feature["dtype"] not in TEXTS:
                numbers.append(name)
        write_meta_rows(meta / "episodes", rows, fields_of(numbers, seen))


def _from_start(column: Any, start: float) -> Any:
    """What is said in a column of persistent language, for an episode that begins at `start`.

    What was said before holds from the beginning; of each style only the last.
    """
    import pyarrow

    def moved(said: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        before = {s["style"]: s for s in said if s["timestamp"] <= start}
        after = [s for s in said if s["timestamp"] > start]
        return [
            {**s, "timestamp": max(s["timestamp"] - start, 0.0)} for s in (*before.values(), *after)
        ]

    values = [None if said is None else moved(said) for said in column.to_pylist()]
    return pyarrow.array(values, column.type)
