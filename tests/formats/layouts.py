"""Small data sets in every layout, written by the tests themselves with the format's own library.

All of them hold the same numbers: `episodes()`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np


def episodes(count=6, steps=9, seed=0):
    """Episodes of differing length: state (T+1, 3), object (T+1, 2, 2), action (T, 2), reward."""
    random = np.random.default_rng(seed)
    made = []
    for i in range(count):
        t = steps + i
        made.append(
            {
                "state": random.normal(size=(t + 1, 3)).astype(np.float32),
                "object": random.normal(size=(t + 1, 2, 2)),
                "action": random.normal(size=(t, 2)).astype(np.float32),
                "reward": random.normal(size=t).round(3),
                "image": random.integers(0, 255, (t + 1, 8, 8, 3)).astype(np.uint8),
            }
        )
    return made


def flat(episode, rows=None):
    """State and object side by side, as they are read."""
    both = [episode["state"], episode["object"].reshape(len(episode["object"]), -1)]
    return np.concatenate(both, 1)[:rows]


def write_robomimic(path, data=None, *, next_obs=True, order=None):
    import h5py

    data = episodes() if data is None else data
    with h5py.File(path, "w") as file:
        group = file.create_group("data")
        group.attrs["env_args"] = json.dumps({"env_name": "Lift", "type": 1})
        group.attrs["total"] = sum(len(e["action"]) for e in data)
        for i in order or range(len(data)):
            e, demo = data[i], group.create_group(f"demo_{i}")
            t = len(e["action"])
            demo.attrs["num_samples"] = t
            demo["actions"], demo["rewards"] = e["action"], e["reward"]
            demo["dones"] = np.arange(t) == t - 1
            for name in ("state", "object", "image"):
                demo[f"obs/{name}"] = e[name][:t]
                if next_obs:
                    demo[f"next_obs/{name}"] = e[name][1:]
        for key, names in {
            "better": ["demo_0", "demo_2"],
            "worse": ["demo_1"],
            "better_operator_1": ["demo_0", "demo_2", "demo_1"],
            "worse_operator_2": ["demo_3", "demo_4", "demo_5"],
        }.items():
            known = [n for n in names if int(n[5:]) < len(data)]
            file[f"mask/{key}"] = np.array(known, dtype="S8")
    return path


def write_aloha(folder, data=None):
    import h5py

    Path(folder).mkdir()
    for i, e in enumerate(episodes() if data is None else data):
        t = len(e["action"])
        with h5py.File(folder / f"episode_{i}.hdf5", "w") as file:
            file.attrs["sim"] = True
            file["action"] = e["action"]
            file["observations/qpos"], file["observations/qvel"] = e["state"][:t], e["object"][:t]
            file["observations/images/top"] = e["image"][:t]
    return folder


def write_d4rl(path, data=None, *, after=False, timeouts=True):
    import h5py

    data = episodes() if data is None else data
    ends = np.cumsum([len(e["action"]) for e in data]) - 1
    rows = ends[-1] + 1
    terminal = np.isin(np.arange(rows), ends[::2] if timeouts else ends)
    with h5py.File(path, "w") as file:
        for name, key in (("observations", "state"), ("actions", "action"), ("rewards", "reward")):
            file[name] = np.concatenate([e[key][: len(e["action"])] for e in data])
        file["terminals"] = terminal
        if timeouts:
            file["timeouts"] = np.isin(np.arange(rows), ends) & ~terminal
        if after:
            file["next_observations"] = np.concatenate([e["state"][1:] for e in data])
        file["metadata/algorithm/name"] = "SAC"
        file["infos/qpos"] = np.concatenate([e["state"][:-1] for e in data])
    return path


def write_zarr(path, data=None, *, version=2, zipped=False):
    import zarr

    data = episodes() if data is None else data
    store = zarr.storage.ZipStore(path, mode="w") if zipped else str(path)
    root = zarr.open_group(store, mode="w", zarr_format=version)
    for name in ("state", "object", "action", "image"):
        together = np.concatenate([e[name][: len(e["action"])] for e in data])
        values = together.astype(np.float32) if name == "image" else together
        root.create_array(f"data/{name}", data=values, chunks=(7, *values.shape[1:]))
    ends = np.cumsum([len(e["action"]) for e in data])
    root.create_array("meta/episode_ends", data=ends)
    if zipped:
        store.close()
    return path


def write_minari(folder, data=None, *, layout="dict", data_format="hdf5"):
    import gymnasium as gym
    from minari.data_collector import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    data = episodes() if data is None else data
    box = {
        name: gym.spaces.Box(-np.inf, np.inf, data[0][name].shape[1:], data[0][name].dtype.type)
        for name in ("state", "object", "action")
    }
    image = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    space = {
        "dict": gym.spaces.Dict({"object": box["object"], "state": box["state"]}),
        "tuple": gym.spaces.Tuple((box["state"], box["object"])),
        "image": gym.spaces.Dict({"pixels": image, "state": box["state"]}),
    }[layout]
    (Path(folder) / "data").mkdir(parents=True)
    storage = MinariStorage.new(
        Path(folder).absolute() / "data",
        observation_space=space,
        action_space=box["action"],
        data_format=data_format,
        jpeg_encoding=layout == "image",
    )
    storage.update_metadata({"dataset_id": Path(folder).name, "minari_version": "0.5.4"})
    buffers = []
    for e in data:
        seen = {
            "dict": {"object": e["object"], "state": e["state"]},
            "tuple": (e["state"], e["object"]),
            "image": {"pixels": e["image"], "state": e["state"]},
        }[layout]
        ends = np.arange(len(e["action"])) == len(e["action"]) - 1
        buffers.append(
            EpisodeBuffer(
                observations=seen,
                actions=e["action"],
                rewards=e["reward"],
                terminations=ends,
                truncations=ends & False,
            )
        )
    storage.update_episodes(buffers)
    return folder


def write_numpy(path, data=None, *, marks="ends"):
    data = episodes() if data is None else data
    lengths = [len(e["action"]) for e in data]
    ends = np.cumsum(lengths)
    rows = np.arange(ends[-1])
    arrays = {
        "observations": np.concatenate([flat(e, len(e["action"])) for e in data]),
        "actions": np.concatenate([e["action"] for e in data]),
        "rewards": np.concatenate([e["reward"] for e in data]),
    }
    arrays[marks] = {
        "ends": ends,
        "terminals": np.isin(rows, ends - 1),
        "episode": np.repeat(np.arange(len(data)), lengths),
        "starts": ends - lengths,
    }[marks]
    np.savez(path, **arrays)
    return path


def write_numpy_folder(folder, data=None):
    Path(folder).mkdir()
    for i, e in enumerate(episodes() if data is None else data):
        np.savez(folder / f"run_{i}.npz", obs=flat(e), actions=e["action"], rewards=e["reward"])
    return folder


def table_of(data=None, *, lists=False):
    """Columns of a table of steps."""
    data = episodes() if data is None else data
    lengths = [len(e["action"]) for e in data]
    number = np.repeat(np.arange(len(data)), lengths)
    seen = np.concatenate([flat(e, len(e["action"])) for e in data])
    done = np.concatenate([e["action"] for e in data])
    columns = {
        "episode": number,
        "step": np.concatenate([np.arange(n) for n in lengths]),
        "operator": np.array([f"op{i % 2}" for i in number], object),
        "success": number % 3 == 0,
        "reward": np.concatenate([e["reward"] for e in data]),
    }
    if lists:
        return {**columns, "observation.state": seen, "action": done}
    columns |= {f"obs_{i}": seen[:, i] for i in range(seen.shape[1])}
    return columns | {f"action_{i}": done[:, i] for i in range(done.shape[1])}


def write_table(path, columns=None, *, shuffle=False):
    import duckdb

    columns = dict(table_of() if columns is None else columns)
    rows = len(columns["episode"])
    order = np.random.default_rng(1).permutation(rows) if shuffle else np.arange(rows)
    with duckdb.connect() as connection:
        given, chosen = {}, []
        for name, values in columns.items():
            parts = [values] if np.ndim(values) == 1 else list(np.asarray(values).T)
            given |= {f"{name}#{i}": np.asarray(part)[order] for i, part in enumerate(parts)}
            keys = ", ".join(f'"{name}#{i}"' for i in range(len(parts)))
            chosen.append(f'{keys if np.ndim(values) == 1 else f"[{keys}]"} AS "{name}"')
        connection.register("given", given)
        connection.execute(f"CREATE TABLE steps AS SELECT {', '.join(chosen)} FROM given")
        kind = "".join(Path(path).suffixes)
        if kind == ".duckdb":
            connection.execute(f"ATTACH '{path}' AS out")
            connection.execute("CREATE TABLE out.steps AS SELECT * FROM steps")
        else:
            form = "FORMAT parquet" if kind == ".parquet" else "FORMAT csv, HEADER"
            connection.execute(f"COPY steps TO '{path}' ({form})")
    return path
