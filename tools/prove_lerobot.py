"""What sdil writes for LeRobot, read by LeRobot 0.6.1 itself, which needs Python 3.12 and more.

Tests run on Python 3.11 and cannot do this. By hand, outside of the repository:

    .venv/bin/python tools/prove_lerobot.py write /tmp/proof
    python3.12 -m venv /tmp/lerobot && /tmp/lerobot/bin/pip install 'lerobot[dataset]==0.6.1'
    HF_HUB_OFFLINE=1 /tmp/lerobot/bin/python tools/prove_lerobot.py check /tmp/proof

    HF_HUB_OFFLINE=1 /tmp/lerobot/bin/python tools/prove_lerobot.py make /tmp/made
    .venv/bin/python tools/prove_lerobot.py read /tmp/made

The first writes data sets in every layout that the tests know, judges them by made-up scores and
writes all answers; the second reads them with LeRobotDataset and RABCWeights, merges and splits
them, and runs the commands that sdil prints. The third writes data sets with LeRobot, the fourth
reads them with sdil; with LeRobot 0.3.3 (unpacked, and first in PYTHONPATH) they are of version
2.1.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np

CHUNK = 3
TOP = "observation.images.top"


def write(base: Path) -> None:
    """Source data sets, and everything that sdil writes of them. In sdil's environment."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "formats"))
    from lerobot_layouts import OPTIONS, VARIANTS

    from sdil.formats import lerobot_sidecars as sidecars
    from sdil.formats.answers import Answered
    from sdil.formats.lerobot import open_lerobot
    from sdil.formats.lerobot_curated import write_curated
    from sdil.formats.rows import answer_rows
    from sdil.scores import StepScores

    rng = np.random.default_rng(0)
    for number, (name, write_source) in enumerate(VARIANTS.items()):
        folder = base / f"{number:02d}"
        root = write_source(folder / "source")
        source, options = open_lerobot(root), OPTIONS[name]
        answers = []
        for i, episode in enumerate(source.episodes[:3]):  # the last was never judged
            keep = rng.uniform(size=episode.steps) < 0.7 if i != 1 else np.ones(episode.steps, bool)
            scores = StepScores(rng.uniform(-1, 1, episode.steps))
            answers.append(Answered(episode.id, scores, None, keep))
        rows = answer_rows(source, answers, trusted=[source.episodes[1].id])
        write_curated(source, rows, folder / "curated")
        sidecars.write_rabc(source, rows, folder / "any_chunk.parquet")
        sidecars.write_rabc(source, rows, folder / "known_chunk.parquet", chunk=CHUNK)
        sidecars.write_weights(source, rows, folder / "weights.parquet")
        sidecars.write_episode_columns(source, rows, folder / "source")
        cut = [(i, a, b) for i, row in enumerate(rows) for a, b in row.pieces]
        expected = {
            "name": name,
            "version": source.layout.major,
            "cut": cut,
            "action": options.action.replace("/", "."),
            "state": options.state.replace("/", "."),
            "camera": TOP if options.cameras or options.pictures else None,
            "is_video": bool(options.cameras),
            "keep": [row.keep.tolist() for row in rows],
            "score": [row.score.astype(float).tolist() for row in rows],
            "quality": [row.quality for row in rows],
            "trusted": [row.trusted for row in rows],
            "tasks": [episode.task for episode in source.episodes],
            "delete": sidecars.delete_command(source, ["1"], folder / "deleted")
            if is_readable({"name": name})
            else "",
            "values": [
                {
                    key: source.read(i, [key]).values[key].tolist()
                    for key in (options.state, options.action)
                }
                for i in range(len(rows))
            ],
        }
        expected["values"] = [
            {key.replace("/", "."): told for key, told in episode.items()}
            for episode in expected["values"]
        ]
        (folder / "expected.json").write_text(json.dumps(expected))
    print(f"{len(VARIANTS)} data sets written to {base}")


def check(base: Path, *names: str) -> None:
    """Read it all, or these folders, with LeRobot. In LeRobot's environment, without sdil."""
    for folder in sorted(p for p in base.iterdir() if p.is_dir()):
        if names and folder.name not in names:
            continue
        expected = json.loads((folder / "expected.json").read_text())
        done = [
            check_curated(folder, expected),
            check_rabc(folder, expected),
            check_weights(folder, expected),
        ]
        if is_readable(expected):
            done.append(check_filter(folder, expected))
            done.append(check_delete(folder, expected))
        print(f"{folder.name} {expected['name']}: {', '.join(done)}", flush=True)


def is_readable(expected: dict) -> bool:
    """Whether LeRobot itself reads the source: not where a layout departs from its own."""
    strange = ("nested column", "in video/", "wrong template", "other variables", "slashes", "v2.0")
    strange += ("shards", "one table", "that is v2.1")
    return not any(word in expected["name"] for word in strange)


def picture_of(frame: np.ndarray) -> tuple[int, int]:
    """The episode and frame that a picture (3, H, W) in [0, 1] of the tests shows."""
    greys = np.asarray(frame).mean((0, 1)) * 255
    half = len(greys) // 2
    return round((greys[half:].mean() - 30) / 60), round((greys[:half].mean() - 20) / 25)


def check_curated(folder: Path, expected: dict) -> str:
    """Every frame of the curated data set, and what LeRobot's own tools make of it."""
    from lerobot.datasets.dataset_tools import merge_datasets, recompute_stats, split_dataset
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    root, state, action = folder / "curated", expected["state"], expected["action"]
    ahead = {action: [k / 10 for k in range(CHUNK)]}
    data = LeRobotDataset("local/c", root=root, delta_timestamps=ahead, video_backend="pyav")
    cut = expected["cut"]
    assert data.num_episodes == len(cut)
    at = 0
    for episode, (source, start, stop) in enumerate(cut):
        told = expected["values"][source]
        for frame in range(start, stop):
            item = data[at]
            assert int(item["index"]) == at
            assert int(item["episode_index"]) == episode
            assert int(item["frame_index"]) == frame - start
            assert item["task"] == expected["tasks"][source]
            assert item[state].numpy().astype(float).tolist() == told[state][frame]
            inside = [min(frame + k, stop - 1) for k in range(CHUNK)]
            wanted = [told[action][k] for k in inside]
            assert item[action].numpy().astype(float).tolist() == wanted
            if expected["camera"]:
                assert picture_of(item[expected["camera"]]) == (source, frame)
            at += 1
    assert len(data) == at
    before = {k: {n: np.array(v) for n, v in s.items()} for k, s in data.meta.stats.items()}
    told = np.concatenate([np.array(expected["values"][s][state])[a:b] for s, a, b in cut])
    for name, values in {"mean": told.mean(0), "std": told.std(0), "max": told.max(0)}.items():
        assert np.allclose(before[state][name], values, atol=1e-6), (state, name)
    joined = merge_datasets([data, data], "local/m", output_dir=folder / "merged")
    assert len(joined) == 2 * at
    assert float(joined[2 * at - 1]["index"]) == 2 * at - 1
    parts = split_dataset(data, {"a": [0, 1], "b": [2]}, output_dir=folder / "split")
    assert len(parts["b"]) == cut[2][2] - cut[2][1]
    plain = LeRobotDataset("local/c", root=root, video_backend="pyav")
    recompute_stats(plain, skip_image_video=True)
    after = LeRobotDataset("local/c", root=root, video_backend="pyav").meta.stats
    for name in ("min", "max", "mean", "std"):
        assert np.allclose(before[state][name], after[state][name], atol=1e-4), (state, name)
    return f"LeRobotDataset {len(cut)} episodes {at} frames, merged, split, statistics"


def check_rabc(folder: Path, expected: dict) -> str:
    """Deltas for any chunk size, and weights for a known one."""
    from lerobot.rewards.sarm.rabc import RABCWeights

    lengths = [len(keep) for keep in expected["keep"]]
    begins = np.cumsum([0, *lengths])
    for chunk in (1, CHUNK, 5, 50):
        weigher = RABCWeights(folder / "any_chunk.parquet", chunk_size=chunk)
        for e, scores in enumerate(expected["score"]):
            for t in range(lengths[e]):
                delta = weigher._compute_delta(int(begins[e]) + t)
                if expected["trusted"][e] or expected["quality"][e] is None:
                    assert np.isnan(delta)
                else:
                    coming = sum(scores[t : min(t + chunk, lengths[e] - 1)])
                    assert abs(delta - coming) < 1e-9
    weigher = RABCWeights(folder / "known_chunk.parquet", chunk_size=CHUNK)
    met = 0
    for e, keep in enumerate(expected["keep"]):
        index = np.arange(begins[e], begins[e + 1])
        deltas = np.array([weigher._compute_delta(int(i)) for i in index], np.float32)
        weights = weigher._compute_weights(deltas)
        assert weights[:-1].tolist() == [float(kept) for kept in keep[:-1]]
        met += len(keep) - 1
    return f"RABCWeights {met} weights"


def check_weights(folder: Path, expected: dict) -> str:
    """The plain table of weights."""
    import pandas

    table = pandas.read_parquet(folder / "weights.parquet")
    assert list(table.columns) == ["index", "weight"]
    keep = np.concatenate([np.array(k) for k in expected["keep"]])
    assert table["index"].tolist() == list(range(len(keep)))
    assert ((table["weight"] > 0) <= keep).all()
    return "weights"


def check_filter(folder: Path, expected: dict) -> str:
    """Episodes picked by the columns that were added to `meta/episodes`."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    if expected["version"] == 2:
        return "no filter in version 2"
    bar = sorted(q for q in expected["quality"] if q is not None)[1]
    data = LeRobotDataset(
        "local/s",
        root=folder / "source",
        episode_filter=lambda episode: episode["sdil/quality"] >= bar,
        video_backend="pyav",
    )
    good = [i for i, q in enumerate(expected["quality"]) if q is not None and q >= bar]
    assert data.episodes == good
    return "episode_filter"


def check_delete(folder: Path, expected: dict) -> str:
    """The command that leaves episodes out, run as it is printed."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    beside = str(Path(sys.executable).parent)
    place = {**os.environ, "PATH": f"{beside}:{os.environ['PATH']}", "HF_HOME": str(folder / "hf")}
    run = subprocess.run(
        expected["delete"], shell=True, env=place, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, f"{run.returncode}: {run.stderr[-2000:]}"
    data = LeRobotDataset("local/d", root=folder / "deleted", video_backend="pyav")
    assert data.num_episodes == len(expected["keep"]) - 1
    assert len(data) == sum(len(k) for i, k in enumerate(expected["keep"]) if i != 1)
    return f"{shlex.split(expected['delete'])[0]} ... delete_episodes"


def make(base: Path) -> None:
    """Data sets by LeRobot's own writer, and what went into them. In LeRobot's environment."""
    import inspect

    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    rng = np.random.default_rng(0)
    numbers = {"dtype": "float32", "shape": (6,), "names": list("abcdef")}
    for kind in ("video", "image"):
        seen = {"dtype": kind, "shape": (64, 96, 3), "names": ["height", "width", "channels"]}
        features = {"observation.state": numbers, "action": numbers, TOP: seen}
        features["next.reward"] = {"dtype": "float32", "shape": (1,), "names": None}
        root = base / kind
        data = LeRobotDataset.create("local/made", 30, features, root, use_videos=kind == "video")
        takes_task = "task" in inspect.signature(data.add_frame).parameters
        went_in = []
        for episode in range(5):
            for t in range(int(rng.integers(12, 30))):
                state, action = rng.normal(size=(2, 6)).astype(np.float32)
                picture = np.full((64, 96, 3), (20 + 7 * t) % 255, np.uint8)
                frame = {"observation.state": state, "action": action, TOP: picture}
                frame["next.reward"] = np.array([t / 30], np.float32)
                task = ("lift", "drop")[episode % 2]
                if takes_task:
                    data.add_frame(frame, task=task)
                else:
                    data.add_frame({**frame, "task": task})
                went_in.append((episode, state.tolist(), action.tolist(), int(picture[0, 0, 0])))
            data.save_episode()
        if hasattr(data, "finalize"):
            data.finalize()
        (base / f"{kind}.json").write_text(json.dumps(went_in))


def read(base: Path) -> None:
    """The same, read with sdil. In sdil's environment."""
    from sdil.formats.lerobot import open_lerobot

    for kind in ("video", "image"):
        source = open_lerobot(base / kind)
        went_in = json.loads((base / f"{kind}.json").read_text())
        for i, episode in enumerate(source.episodes):
            frames = [frame for frame in went_in if frame[0] == i]
            found = source.read(i, ["observation.state", "action", TOP])
            assert episode.task == ("lift", "drop")[i % 2]
            assert found.values["observation.state"].tolist() == [frame[1] for frame in frames]
            assert found.values["action"].tolist() == [frame[2] for frame in frames]
            grey = found.values[TOP].mean((1, 2, 3)) - [frame[3] for frame in frames]
            assert np.abs(grey).max() < (4 if kind == "video" else 1e-9)
        print(f"{source.about['version']} {kind}: {len(source.episodes)} episodes as they went in")


if __name__ == "__main__":
    {"write": write, "check": check, "make": make, "read": read}[sys.argv[1]](
        Path(sys.argv[2]), *sys.argv[3:]
    )
