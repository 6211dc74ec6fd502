"""Small LeRobot data sets in every layout that people have: `VARIANTS[name](root)` writes one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTHS = (7, 5, 9, 6)
FPS = 10
SIZE = (32, 48)
"""Height and width of pictures."""


@dataclass
class Options:
    """What differs between one data set and another."""

    version: str = "v3.0"
    lengths: tuple[int, ...] = LENGTHS
    action: str = "action"
    state: str = "observation.state"
    fixed: bool = False
    """Lists of fixed size?"""
    names: Any = field(default_factory=lambda: ["x", "y", "grip"])
    tasks: tuple[str, ...] = ("push the block",)
    cameras: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()
    rewards: bool = False
    episodes_per_file: int = 2
    """In version 3."""
    group_per_episode: bool = True
    data_path: str | None = None
    video_path: str | None = None
    video_folder: str = "videos"
    """Where videos really are, whatever the template says."""
    nested: bool = False
    """Is `observation` one column with fields?"""
    more: dict[str, Any] = field(default_factory=dict)
    """Further keys of info.json."""
    data: list[dict[str, Any]] | None = None
    """`state`, `action` and `reward` of each episode; made by formula where nothing is given."""

    def numbers(self, episode: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """State, action and reward of an episode, as many rows of each."""
        n = self.lengths[episode]
        if self.data is None:
            reward = np.linspace(0, 1, n, dtype=np.float32)
            return state_of(episode, n), action_of(episode, n), reward
        given = self.data[episode]
        return given["state"][:n], given["action"], given["reward"]


def state_of(episode: int, length: int) -> np.ndarray:
    """What was observed; the last number never varies."""
    t = np.arange(length, dtype=np.float32)
    return np.stack([episode + t / 10, np.sin(t + episode), np.full(length, 0.5)], 1).astype("f4")


def action_of(episode: int, length: int) -> np.ndarray:
    """What was done."""
    return (state_of(episode, length) * 2 - 1).astype("f4")


def picture_of(episode: int, frame: int) -> np.ndarray:
    """A picture that says which episode and frame it is: by its greys, left and right."""
    picture = np.zeros((*SIZE, 3), np.uint8)
    picture[:, : SIZE[1] // 2] = 20 + 25 * frame
    picture[:, SIZE[1] // 2 :] = 30 + 60 * episode
    return picture


def write_video(path: Path, episodes: list[tuple[int, int]], codec: str = "libx264") -> None:
    """A video of (episode, length) one after the other."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"crf": "10", "g": "2"} if codec == "libx264" else {}
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=FPS, options=options)
        stream.height, stream.width = SIZE
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, FPS)
        number = 0
        for episode, length in episodes:
            for t in range(length):
                frame = av.VideoFrame.from_ndarray(picture_of(episode, t), format="rgb24")
                frame.pts, frame.time_base = number, Fraction(1, FPS)
                out.mux(stream.encode(frame))
                number += 1
        out.mux(stream.encode())


def _column(values: np.ndarray, fixed: bool) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    flat = pa.array(values.reshape(-1))
    if fixed:
        return pa.FixedSizeListArray.from_arrays(flat, values[0].size)
    return pa.ListArray.from_arrays(np.arange(len(values) + 1, dtype="i4") * values[0].size, flat)


def _picture_column(episode: int, length: int) -> pa.Array:
    import io

    from PIL import Image

    rows = []
    for t in range(length):
        out = io.BytesIO()
        Image.fromarray(picture_of(episode, t)).save(out, "PNG")
        rows.append({"bytes": out.getvalue(), "path": f"frame-{t:06d}.png"})
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))


def episode_table(options: Options, episode: int, begin: int) -> pa.Table:
    """The rows of one episode."""
    n = options.lengths[episode]
    state, action, reward = options.numbers(episode)
    task = episode % len(options.tasks)
    columns: dict[str, pa.Array] = {
        options.state: _column(state, options.fixed),
        options.action: _column(action, options.fixed),
    }
    if options.nested:
        first, last = options.state.split(".")
        columns = {
            first: pa.StructArray.from_arrays([_column(state, options.fixed)], [last]),
            options.action: columns[options.action],
        }
    for camera in options.pictures:
        columns[camera] = _picture_column(episode, n)
    if options.rewards:
        columns["next.reward"] = pa.array(reward)
        columns["next.done"] = pa.array(np.arange(n) == n - 1)
        columns["next.success"] = pa.array((np.arange(n) == n - 1) & (episode % 2 == 0))
    columns |= {
        "timestamp": pa.array((np.arange(n) / FPS).astype(np.float32)),
        "frame_index": pa.array(np.arange(n)),
        "episode_index": pa.array(np.full(n, episode)),
        "index": pa.array(np.arange(begin, begin + n)),
        "task_index": pa.array(np.full(n, task)),
    }
    return pa.table(columns)


def features_of(options: Options) -> dict[str, Any]:
    """`features` of info.json."""
    one = {"shape": [1], "names": None}
    features: dict[str, Any] = {}
    state, action, reward = options.numbers(0)
    for name, values in ((options.state, state), (options.action, action)):
        features[name] = {"dtype": str(values.dtype), "shape": list(values.shape[1:])}
        if options.names is not None:
            features[name]["names"] = options.names
    for camera in (*options.cameras, *options.pictures):
        features[camera] = {
            "dtype": "video" if camera in options.cameras else "image",
            "shape": [*SIZE, 3],
            "names": ["height", "width", "channels"],
        }
    if options.rewards:
        features["next.reward"] = {"dtype": str(reward.dtype), **one}
        features["next.done"] = {"dtype": "bool", **one}
        features["next.success"] = {"dtype": "bool", **one}
    features["timestamp"] = {"dtype": "float32", **one}
    for name in ("frame_index", "episode_index", "index", "task_index"):
        features[name] = {"dtype": "int64", **one}
    return features


@np.errstate(invalid="ignore")
def stats_of(table: pa.Table) -> dict[str, dict[str, list[float]]]:
    """Statistics of the numbers of one episode, as LeRobot has them."""
    stats = {}
    for name in table.column_names:
        kind = table.column(name).type
        if pa.types.is_struct(kind):
            continue
        values = np.asarray(table.column(name).to_pylist(), np.float64).reshape(len(table), -1)
        found = {"min": values.min(0), "max": values.max(0), "mean": values.mean(0)}
        found |= {"std": values.std(0), "count": np.array([len(values)])}
        found |= {f"q{q:02d}": np.quantile(values, q / 100, axis=0) for q in (1, 10, 50, 90, 99)}
        stats[name] = {key: value.tolist() for key, value in found.items()}
    return stats


def write_lerobot(root: Path, options: Options | None = None, **changes: Any) -> Path:
    """A data set with these options."""
    options = Options(**changes) if options is None else options
    (root / "meta").mkdir(parents=True)
    begins = np.cumsum([0, *options.lengths]).tolist()
    tables = [episode_table(options, e, begins[e]) for e in range(len(options.lengths))]
    is_3 = options.version.startswith("v3")
    write = _write_3 if is_3 else _write_2
    paths = write(root, options, tables, begins)
    info = {
        "codebase_version": options.version,
        "robot_type": "so100",
        "total_episodes": len(tables),
        "total_frames": begins[-1],
        "total_tasks": len(options.tasks),
        "chunks_size": 1000,
        "fps": FPS,
        "splits": {"train": f"0:{len(tables)}"},
        "data_path": options.data_path or paths[0],
        "video_path": (options.video_path or paths[1]) if options.cameras else None,
        "features": features_of(options),
        **({} if is_3 else {"total_chunks": 1, "total_videos": len(tables) * len(options.cameras)}),
        **options.more,
    }
    (root / "meta" / "info.json").write_text(json.dumps(info, indent=4))
    (root / "meta" / "stats.json").write_text(json.dumps(stats_of(pa.concat_tables(tables))))
    return root


def _tasks_of(options: Options, episode: int) -> list[str]:
    return [options.tasks[episode % len(options.tasks)]]


def _write_3(
    root: Path, options: Options, tables: list[pa.Table], begins: list[int]
) -> tuple[str, str]:
    rows: list[dict[str, Any]] = []
    for file, first in enumerate(range(0, len(tables), options.episodes_per_file)):
        some = range(first, min(first + options.episodes_per_file, len(tables)))
        path = root / f"data/chunk-000/file-{file:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        if options.group_per_episode:
            with pq.ParquetWriter(path, tables[0].schema) as writer:
                for e in some:
                    writer.write_table(tables[e])
        else:
            pq.write_table(pa.concat_tables([tables[e] for e in some]), path)
        for camera in options.cameras:
            name = f"{options.video_folder}/{camera}/chunk-000/file-{file:03d}.mp4"
            write_video(root / name, [(e, options.lengths[e]) for e in some])
        for e in some:
            row = {
                "episode_index": e,
                "tasks": _tasks_of(options, e),
                "length": options.lengths[e],
                "data/chunk_index": 0,
                "data/file_index": file,
                "dataset_from_index": begins[e],
                "dataset_to_index": begins[e + 1],
                "operator": f"person {e % 2}",
            }
            for camera in options.cameras:
                start = (begins[e] - begins[first]) / FPS
                row |= {
                    f"videos/{camera}/chunk_index": 0,
                    f"videos/{camera}/file_index": file,
                    f"videos/{camera}/from_timestamp": start,
                    f"videos/{camera}/to_timestamp": start + options.lengths[e] / FPS,
                }
            for name, stats in stats_of(tables[e]).items():
                row |= {f"stats/{name}/{key}": value for key, value in stats.items()}
            rows.append(row | {"meta/episodes/chunk_index": 0, "meta/episodes/file_index": 0})
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    numbers = pa.array(range(len(options.tasks)))
    table = pa.table({"task_index": numbers, "task": pa.array(options.tasks)})
    columns = [("task_index", "int64", "int64"), ("task", "unicode", "object")]
    keys = ("name", "pandas_type", "numpy_type")
    listed = [dict(zip(keys, c, strict=True)) | {"field_name": c[0]} for c in columns]
    listed = [column | {"metadata": None} for column in listed]
    described = {"index_columns": ["task"], "columns": listed, "column_indexes": []}
    described["pandas_version"] = "2.2.0"
    table = table.replace_schema_metadata({"pandas": json.dumps(described)})
    pq.write_table(table, root / "meta/tasks.parquet")
    return (
        "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    )


def _write_2(
    root: Path, options: Options, tables: list[pa.Table], begins: list[int]
) -> tuple[str, str]:
    lines: dict[str, list[Any]] = {"episodes": [], "episodes_stats": [], "tasks": []}
    for e, table in enumerate(tables):
        path = root / f"data/chunk-000/episode_{e:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path)
        for camera in options.cameras:
            name = f"{options.video_folder}/chunk-000/{camera}/episode_{e:06d}.mp4"
            write_video(root / name, [(e, options.lengths[e])])
        row = {"episode_index": e, "tasks": _tasks_of(options, e), "length": options.lengths[e]}
        lines["episodes"].append(row)
        lines["episodes_stats"].append({"episode_index": e, "stats": stats_of(table)})
    for number, task in enumerate(options.tasks):
        lines["tasks"].append({"task_index": number, "task": task})
    if options.version == "v2.0":
        del lines["episodes_stats"]
    for name, rows in lines.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (root / "meta" / f"{name}.jsonl").write_text(text)
    return (
        "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    )


TOP = "observation.images.top"
TWO_TASKS = ("push the block", "lift the block")
_CHANGES: dict[str, dict[str, Any]] = {
    "v3": {},
    "v3 fixed lists, one row group per file": {"fixed": True, "group_per_episode": False},
    "v3 video": {"cameras": (TOP,), "rewards": True},
    "v3 video in video/": {"cameras": (TOP,), "video_folder": "video"},
    "v3 pictures in the table": {"pictures": (TOP,)},
    "v3 two tasks": {"tasks": TWO_TASKS, "episodes_per_file": 4},
    "v3 nested column": {"nested": True},
    "v3 names by axes": {"names": {"axes": ["x", "y", "grip"]}},
    "v3 names by motors": {"names": {"motors": ["x", "y", "grip"]}},
    "v3 names nested": {"names": [["x", "y", "grip"]]},
    "v3 names numbered": {"names": {"y": 1, "x": 0, "grip": 2}},
    "v3 no names": {"names": None},
    "v3 other variables": {"data_path": "data/chunk-{chunk:03d}/file-{file:03d}.parquet"},
    "v3 wrong template": {"data_path": "data/{episode_chunk}/part-{file_index}.parquet"},
    "v2.1": {"version": "v2.1"},
    "v2.1 actions and state": {"version": "v2.1", "action": "actions", "state": "state"},
    "v2.1 dots": {
        "version": "v2.1",
        "action": "action.arm",
        "state": "observation.state.joints",
    },
    "v2.1 slashes": {"version": "v2.1", "action": "action/arm", "state": "observation/state"},
    "v2.1 fixed lists": {"version": "v2.1", "fixed": True, "rewards": True},
    "v2.1 video": {"version": "v2.1", "cameras": (TOP,), "tasks": TWO_TASKS},
    "v2.1 other variables": {
        "version": "v2.1",
        "cameras": (TOP,),
        "data_path": "data/chunk-{chunk_index:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/chunk-{chunk_index:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    },
    "v2.0": {"version": "v2.0"},
    "v2.0 early": {"version": "v2.0", "cameras": ("observation.images.top",)},
    "v3 shards of a split": {"data_path": "data/{split}-{shard_idx:03d}.parquet"},
    "v2.1 one table": {"version": "v2.1"},
    "v3 that is v2.1": {"version": "v2.1", "more": {"codebase_version": "v3.0"}},
}
OPTIONS = {name: Options(**changes) for name, changes in _CHANGES.items()}


def _write_early(root: Path) -> Path:
    """The first data sets of version 2.0: `keys` and `shapes`, and a file per episode of all."""
    write_lerobot(root, OPTIONS["v2.0 early"])
    info = json.loads((root / "meta/info.json").read_text())
    features = info.pop("features")
    del info["video_path"]
    seen = {"height": SIZE[0], "width": SIZE[1], "channels": 3}
    info |= {
        "keys": ["observation.state", "action"],
        "video_keys": [TOP],
        "image_keys": [],
        "shapes": {"observation.state": 3, "action": 3, TOP: seen},
        "names": {name: features[name]["names"] for name in ("observation.state", "action")},
        "data_path": "data/train-{episode_index:05d}-of-{total_episodes:05d}.parquet",
        "videos": {"videos_path": "videos/{video_key}_episode_{episode_index:06d}.mp4"},
    }
    (root / "meta/info.json").write_text(json.dumps(info))
    for e in range(len(LENGTHS)):
        table = root / f"data/chunk-000/episode_{e:06d}.parquet"
        table.rename(root / f"data/train-{e:05d}-of-{len(LENGTHS):05d}.parquet")
        video = root / f"videos/chunk-000/{TOP}/episode_{e:06d}.mp4"
        video.rename(root / f"videos/{TOP}_episode_{e:06d}.mp4")
    return root


def _write_shards(root: Path) -> Path:
    """Files by split and shard, a variable that says nothing, and `meta/episodes` without folders;
    what LeRobot writes with every frame is not among the features."""
    write_lerobot(root, OPTIONS["v3 shards of a split"])
    for file in range(2):
        path = root / f"data/chunk-000/file-{file:03d}.parquet"
        path.rename(root / f"data/train-{file:03d}.parquet")
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    path.rename(root / "meta/episodes/chunk-000.parquet")
    info = json.loads((root / "meta/info.json").read_text())
    names = ("observation.state", "action")
    info["features"] = {name: info["features"][name] for name in names}
    (root / "meta/info.json").write_text(json.dumps(info))
    return root


def _write_one_table(root: Path) -> Path:
    """All episodes of version 2.1 in one table, as the Hub shows them."""
    write_lerobot(root, OPTIONS["v2.1 one table"])
    paths = sorted((root / "data/chunk-000").glob("*.parquet"))
    pq.write_table(pa.concat_tables([pq.read_table(p) for p in paths]), root / "data/0000.parquet")
    for path in paths:
        path.unlink()
    return root


def _writer(options: Options) -> Callable[[Path], Path]:
    return lambda root: write_lerobot(root, options)


VARIANTS: dict[str, Callable[[Path], Path]] = {
    **{name: _writer(options) for name, options in OPTIONS.items()},
    "v2.0 early": _write_early,
    "v3 shards of a split": _write_shards,
    "v2.1 one table": _write_one_table,
}
"""Every layout by name: a function that writes it into a folder that does not exist yet."""
