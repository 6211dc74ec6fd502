"""How long importing takes beside a bare read with the format's own library.

    python benchmarks/importing.py [--steps 100000] [--features 50] [--judge] [--floor]

The same random walk, episodes of 200 steps, is written in each format into a temporary folder.
A bare read brings every number into memory with the library that the format is read with, episode
by episode where it keeps episodes apart (robomimic, ALOHA, Minari, LeRobot 2.1), and as tables and
arrays where it does not. `sdil.read` makes demonstrations of it in memory; `sdil import` a folder
of them. Each is the least of three, in turn, in seconds of processor time (of this process, system
included), so that what else the machine does counts for nothing; the file is in the page cache.
`--floor` measures what a folder of the NumPy file cannot do without, each over all bytes at once.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

import sdil
from common.report import begin, finish, markdown
from sdil.formats.importing import import_source
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "formats"))

_LENGTH = 200


@dataclass(frozen=True)
class Case:
    """A format: how it is written and how its own library reads it."""

    name: str
    write: Callable[[Path, list[dict[str, Any]]], Path]
    bare: Callable[[Path], Any]


def walk(steps: int, features: int) -> list[dict[str, Any]]:
    """Episodes of a random walk; `features` numbers are seen at each step."""
    random = np.random.default_rng(0)
    made = []
    for _ in range(steps // _LENGTH):
        action = random.normal(size=(_LENGTH, 7)).astype(np.float32)
        state = random.normal(size=(_LENGTH + 1, features)).cumsum(0).astype(np.float32)
        reward = random.normal(size=_LENGTH)
        made.append({"state": state, "action": action, "reward": reward})
    return made


def write_robomimic(folder: Path, data: list[dict[str, Any]]) -> Path:
    import h5py

    path = folder / "robomimic.hdf5"
    with h5py.File(path, "w") as file:
        for i, e in enumerate(data):
            demo = file.create_group(f"data/demo_{i}")
            demo["actions"], demo["rewards"] = e["action"], e["reward"]
            demo["dones"] = np.arange(_LENGTH) == _LENGTH - 1
            for k, part in enumerate(np.array_split(e["state"], 5, axis=1)):
                demo[f"obs/part_{k}"], demo[f"next_obs/part_{k}"] = part[:-1], part[1:]
    return path


def bare_robomimic(path: Path) -> Any:
    """As robomimic's own SequenceDataset does with hdf5_cache_mode="all": obs and next_obs."""
    import h5py

    with h5py.File(path, "r") as file:
        return [
            {
                **{k: demo[k][()] for k in ("actions", "rewards", "dones")},
                **{f"{g}/{k}": demo[g][k][()] for g in ("obs", "next_obs") for k in demo[g]},
            }
            for demo in file["data"].values()
        ]


def write_aloha(folder: Path, data: list[dict[str, Any]]) -> Path:
    import h5py

    (folder / "aloha").mkdir()
    for i, e in enumerate(data):
        with h5py.File(folder / "aloha" / f"episode_{i}.hdf5", "w") as file:
            file["action"], file["observations/qpos"] = e["action"], e["state"][:-1]
    return folder / "aloha"


def bare_aloha(path: Path) -> Any:
    import h5py

    read = []
    for name in sorted(path.iterdir()):
        with h5py.File(name, "r") as file:
            read.append((file["action"][()], file["observations/qpos"][()]))
    return read


def _flat(data: list[dict[str, Any]], key: str) -> Any:
    return np.concatenate([e[key][:_LENGTH] for e in data])


def write_d4rl(folder: Path, data: list[dict[str, Any]]) -> Path:
    import h5py

    with h5py.File(folder / "d4rl.hdf5", "w") as file:
        for name, key in (("observations", "state"), ("actions", "action"), ("rewards", "reward")):
            file.create_dataset(name, data=_flat(data, key), compression="gzip")
        rows = np.arange(len(data) * _LENGTH)
        file["terminals"] = np.zeros(len(rows), bool)
        file["timeouts"] = rows % _LENGTH == _LENGTH - 1
    return folder / "d4rl.hdf5"


def bare_d4rl(path: Path) -> Any:
    """As `d4rl.get_dataset` does: every array, gzip as in D4RL's own files."""
    import h5py

    with h5py.File(path, "r") as file:
        return {name: file[name][()] for name in file}


def write_zarr(folder: Path, data: list[dict[str, Any]]) -> Path:
    import zarr

    root = zarr.open_group(str(folder / "buffer.zarr"), mode="w", zarr_format=2)
    for key in ("state", "action"):
        values = _flat(data, key)
        root.create_array(f"data/{key}", data=values, chunks=(1000, values.shape[1]))
    root.create_array("meta/episode_ends", data=np.arange(1, len(data) + 1) * _LENGTH)
    return folder / "buffer.zarr"


def bare_zarr(path: Path) -> Any:
    import zarr

    root: Any = zarr.open_group(str(path), mode="r")
    return {name: array[:] for name, array in root["data"].members()}


def write_minari(folder: Path, data: list[dict[str, Any]]) -> Path:
    from layouts import write_minari  # type: ignore[import-not-found]

    unused = {"object": np.zeros((_LENGTH + 1, 1, 1), np.float32), "image": None}
    made = [{**e, **unused} for e in data]
    return Path(write_minari(folder / "set-v0", made, layout="dict"))


def bare_minari(path: Path) -> Any:
    import minari

    return list(minari.MinariDataset(path / "data").iterate_episodes())


def write_numpy(folder: Path, data: list[dict[str, Any]]) -> Path:
    ends = np.arange(1, len(data) + 1) * _LENGTH
    arrays = {"observations": _flat(data, "state"), "actions": _flat(data, "action")}
    np.savez(folder / "steps.npz", **arrays, ends=ends)
    return folder / "steps.npz"


def bare_numpy(path: Path) -> Any:
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _write_table(path: Path, data: list[dict[str, Any]], first: int = 0) -> Path:
    import duckdb

    columns: dict[str, Any] = {
        "episode": np.repeat(np.arange(first, first + len(data)), _LENGTH),
        "step": np.tile(np.arange(_LENGTH), len(data)),
    }
    seen, done = _flat(data, "state"), _flat(data, "action")
    columns |= {f"obs_{i}": seen[:, i] for i in range(seen.shape[1])}
    columns |= {f"action_{i}": done[:, i] for i in range(done.shape[1])}
    with duckdb.connect() as connection:
        connection.register("steps", columns)
        connection.execute(f"COPY (SELECT * FROM steps) TO '{path}'")
    return path


def write_csv(folder: Path, data: list[dict[str, Any]]) -> Path:
    return _write_table(folder / "steps.csv", data)


def write_parquet(folder: Path, data: list[dict[str, Any]]) -> Path:
    return _write_table(folder / "steps.parquet", data)


def _write_tables(folder: Path, data: list[dict[str, Any]], ending: str) -> Path:
    """The same in ten files."""
    folder.mkdir()
    edges = np.linspace(0, len(data), 11).astype(int).tolist()
    for number, (first, last) in enumerate(pairwise(edges)):
        if last > first:
            _write_table(folder / f"part{number}{ending}", data[first:last], first)
    return folder


def write_csvs(folder: Path, data: list[dict[str, Any]]) -> Path:
    return _write_tables(folder / "tables", data, ".csv")


def write_parquets(folder: Path, data: list[dict[str, Any]]) -> Path:
    return _write_tables(folder / "tables", data, ".parquet")


def bare_table(path: Path) -> Any:
    import duckdb

    files = [str(f) for f in sorted(path.iterdir())] if path.is_dir() else [str(path)]
    read = "read_csv" if files[0].endswith(".csv") else "read_parquet"
    with duckdb.connect() as connection:
        return connection.execute(f"SELECT * FROM {read}({files})").fetchnumpy()


def _lerobot_tables(data: list[dict[str, Any]]) -> list[Any]:
    """The rows of each episode as LeRobot 0.6 has them, without pictures."""
    import pyarrow as pa

    tables = []
    for number, e in enumerate(data):
        t, lists = np.arange(_LENGTH), {}
        for name, key in (("observation.state", "state"), ("action", "action")):
            values = e[key][:_LENGTH]
            lists[name] = pa.FixedSizeListArray.from_arrays(values.reshape(-1), values.shape[1])
        numbers = {"timestamp": (t / 50).astype(np.float32), "frame_index": t}
        numbers |= {"episode_index": np.full(_LENGTH, number), "index": t + number * _LENGTH}
        numbers |= {"task_index": np.zeros(_LENGTH, np.int64)}
        tables.append(pa.table({**lists, **numbers}))
    return tables


def _write_lerobot_info(root: Path, data: list[dict[str, Any]], version: str, path: str) -> Path:
    """`meta/info.json` for tables whose names follow this template."""
    import json

    widths = {"observation.state": data[0]["state"].shape[1], "action": data[0]["action"].shape[1]}
    info = {
        "codebase_version": version,
        "fps": 50,
        "data_path": path,
        "features": {n: {"dtype": "float32", "shape": [w]} for n, w in widths.items()},
    }
    (root / "meta" / "info.json").write_text(json.dumps(info))
    return root


def write_lerobot_3(folder: Path, data: list[dict[str, Any]]) -> Path:
    """A row group per episode, all of them in one file: LeRobot begins another at 100 MB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root, tables = folder / "lerobot", _lerobot_tables(data)
    (root / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    path = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
    file = root / path.format(chunk_index=0, file_index=0)
    with pq.ParquetWriter(file, tables[0].schema) as writer:
        for table in tables:
            writer.write_table(table)
    rows = [
        {"episode_index": i, "length": _LENGTH, "data/chunk_index": 0, "data/file_index": 0}
        for i in range(len(data))
    ]
    listed = root / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    pq.write_table(pa.Table.from_pylist(rows), listed)
    return _write_lerobot_info(root, data, "v3.0", path)


def write_lerobot_2(folder: Path, data: list[dict[str, Any]]) -> Path:
    import pyarrow.parquet as pq

    root = folder / "lerobot"
    (root / "meta").mkdir(parents=True)
    (root / "data" / "chunk-000").mkdir(parents=True)
    path = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
    for i, table in enumerate(_lerobot_tables(data)):
        pq.write_table(table, root / path.format(episode_chunk=0, episode_index=i))
    lines = [f'{{"episode_index": {i}, "length": {_LENGTH}}}\n' for i in range(len(data))]
    (root / "meta" / "episodes.jsonl").write_text("".join(lines))
    return _write_lerobot_info(root, data, "v2.1", path)


def bare_lerobot(path: Path) -> Any:
    """Every column of every table as an array, with pyarrow, which LeRobot reads them with."""
    import pyarrow.parquet as pq

    read = []
    for file in sorted((path / "data").rglob("*.parquet")):
        columns = pq.read_table(file).combine_chunks().itercolumns()
        whole = [c.chunk(0) for c in columns]
        read.append([(c.flatten() if hasattr(c, "flatten") else c).to_numpy() for c in whole])
    return read


CASES = (
    Case("LeRobot 3.0", write_lerobot_3, bare_lerobot),
    Case("LeRobot 2.1", write_lerobot_2, bare_lerobot),
    Case("robomimic", write_robomimic, bare_robomimic),
    Case("ALOHA", write_aloha, bare_aloha),
    Case("D4RL", write_d4rl, bare_d4rl),
    Case("Zarr", write_zarr, bare_zarr),
    Case("Minari", write_minari, bare_minari),
    Case("NumPy", write_numpy, bare_numpy),
    Case("CSV", write_csv, bare_table),
    Case("Parquet", write_parquet, bare_table),
    Case("CSV, ten files", write_csvs, bare_table),
    Case("Parquet, ten files", write_parquets, bare_table),
)


def measure(case: Case, folder: Path, data: list[dict[str, Any]], repeats: int) -> dict[str, float]:
    """Seconds of a bare read, of `sdil.read` and of `sdil import`: the least of some."""
    path = case.write(folder, data)
    best: dict[str, float] = {}

    def clock(name: str, work: Callable[[], Any]) -> None:
        began = time.process_time()
        work()
        best[name] = min(best.get(name, np.inf), time.process_time() - began)

    out = folder / "imported"
    clean = f"0-{min(9, len(data) - 1)}"
    address = parse_address(path).with_choices(clean=clean)
    for _ in range(repeats):
        clock("bare", lambda: case.bare(path))
        clock("read", lambda: sdil.read(path, clean=clean))
        shutil.rmtree(out, ignore_errors=True)
        clock("import", lambda: import_source(open_reading(address), out))
    return best


def floor(folder: Path, data: list[dict[str, Any]], repeats: int) -> dict[str, float]:
    """Seconds of each thing that must be done with every byte of the NumPy file: the least."""
    path = write_numpy(folder, data)
    raw = np.fromfile(path, np.uint8)
    numbers = np.concatenate([_flat(data, key).reshape(-1) for key in ("state", "action")])

    def write() -> None:
        with (folder / "written").open("wb", 0) as file:
            file.write(raw.data)

    works: dict[str, Callable[[], Any]] = {
        "bare read": lambda: bare_numpy(path),
        "reading": lambda: np.fromfile(path, np.uint8),
        "CRC-32": lambda: zlib.crc32(raw.data),
        "finite?": lambda: np.isfinite(numbers).all(),
        "writing": write,
    }
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            (folder / "written").unlink(missing_ok=True)
            began = time.process_time()
            work()
            best[name] = min(best[name], time.process_time() - began)
    return best


def main(
    steps: int = 100_000,
    features: int = 50,
    repeats: int = 3,
    judge: bool = False,
    only: str = "",
    floor_too: Annotated[bool, tyro.conf.arg(name="floor")] = False,
    json: Path | None = None,
) -> None:
    """Print a table.

    Args:
        steps: How many.
        features: Numbers that are seen at each step.
        repeats: The least of so many counts.
        judge: Also judge what was imported, with our judge and as it comes.
        only: The formats, with semicolons between them; all of them where nothing is said.
        floor_too: Also measure what importing NumPy's file cannot do without.
        json: Save everything to this file.
    """
    data = walk(steps, features)
    wanted = [c for c in CASES if not only or c.name in only.split(";")]
    about = begin(sizes=f"{steps} steps of {features} features in {len(data)} episodes")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for case in wanted:
            folder = Path(place) / case.name
            folder.mkdir()
            took = measure(case, folder, data, repeats)
            rows.append({"format": case.name, **took})
            if judge and case is wanted[-1]:
                began = time.perf_counter()
                sdil.judge(sdil.Judge(), folder / "imported", Path(place) / "judged", threads=2)
                print(f"judged in {time.perf_counter() - began:.0f} s with two threads")
        if floor_too:
            found = floor(Path(place), data, max(repeats, 9))
            print(", ".join(f"{name} {1e3 * s:.1f} ms" for name, s in found.items()))
    table = [
        (
            row["format"],
            f"{row['bare']:.2f} s",
            *(x for k in ("read", "import") for x in _beside(row[k], row["bare"])),
        )
        for row in rows
    ]
    columns = ("format", "bare read", "`sdil.read`", "times", "`sdil import`", "times")
    print(markdown(columns, table))
    finish(about, rows, [], json)


def _beside(seconds: float, bare: float) -> tuple[str, str]:
    return f"{seconds:.2f} s", f"{seconds / bare:.1f}"


if __name__ == "__main__":
    tyro.cli(main)
