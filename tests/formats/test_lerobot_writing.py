"""Answers for LeRobot: sidecars, and curated data sets of version 3.0.

`tools/prove_lerobot.py` reads the same with LeRobot itself, which needs another Python.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import lerobot_layouts
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lerobot_layouts import (
    FPS,
    LENGTHS,
    OPTIONS,
    TOP,
    TWO_TASKS,
    VARIANTS,
    Options,
    action_of,
    picture_of,
    state_of,
    write_lerobot,
)

from sdil.errors import InputError
from sdil.formats import lerobot_sidecars as sidecars
from sdil.formats.answers import Answered
from sdil.formats.lerobot import LeRobot, open_lerobot
from sdil.formats.lerobot_curated import write_curated
from sdil.formats.lerobot_stats import Joined, stats_of_numbers
from sdil.formats.rows import RowAnswer, answer_rows
from sdil.scores import StepScores

BEGINS = np.cumsum([0, *LENGTHS])
KEPT = {0: [(0, 3), (4, 7)], 1: [(0, 5)], 2: [(2, 9)], 3: [(0, 6)]}


def answers_of(source: LeRobot, seed: int = 0, kept=KEPT) -> list[RowAnswer]:
    """Episodes 0 and 2 are judged and cut, 1 is trusted, 3 was never judged."""
    rng = np.random.default_rng(seed)
    told = []
    for i, episode in enumerate(source.episodes[:3]):
        keep = np.zeros(episode.steps, bool)
        for start, stop in kept[i]:
            keep[start:stop] = True
        told.append(Answered(episode.id, StepScores(rng.uniform(-1, 1, episode.steps)), None, keep))
    return answer_rows(source, told, trusted=["1"])


def deltas_of(path: Path, chunk: int) -> list[np.ndarray]:
    """What LeRobot 0.6.1 reads off the table: progress a chunk ahead, or at the end, less that
    now."""
    table = pandas.read_parquet(path)
    found = []
    for _, rows in table.groupby("episode_index"):
        progress = rows["progress_sparse"].to_numpy()
        ahead = np.minimum(np.arange(len(rows)) + chunk, len(rows) - 1)
        found.append(progress[ahead] - progress)
    return found


@pytest.mark.parametrize("variant", ["v3", "v2.1"])
def test_each_coming_chunk_has_its_score_whatever_the_chunk_size(tmp_path, variant):
    source = open_lerobot(VARIANTS[variant](tmp_path / "set"))
    answers = answers_of(source)
    sidecars.write_rabc(source, answers, tmp_path / "sarm_progress.parquet")
    table = pandas.read_parquet(tmp_path / "sarm_progress.parquet")
    assert {"index", "episode_index", "progress_sparse"} <= set(table.columns)
    assert table["index"].tolist() == list(range(sum(LENGTHS)))
    for chunk in (1, 4, 100):
        deltas = deltas_of(tmp_path / "sarm_progress.parquet", chunk)
        for e in (0, 2):
            score, n = answers[e].score.astype(float), LENGTHS[e]
            wanted = [score[t : min(t + chunk, n - 1)].sum() for t in range(n)]
            assert np.allclose(deltas[e], wanted)
        assert np.isnan(deltas[1]).all()  # trusted: weighs 1
        assert np.isnan(deltas[3]).all()  # never judged


def test_a_known_chunk_size_meets_any_mask(tmp_path):
    source = open_lerobot(VARIANTS["v3"](tmp_path / "set"))
    answers = answers_of(source)
    sidecars.write_rabc(source, answers, tmp_path / "p.parquet", chunk=3)
    deltas = deltas_of(tmp_path / "p.parquet", 3)
    for e in (0, 2):
        assert ((deltas[e] > 0.01) == answers[e].keep)[:-1].all()
        assert ((deltas[e] < 0) == ~answers[e].keep)[:-1].all()
    whole = {i: [(0, n)] for i, n in enumerate(LENGTHS)}
    answers = answers_of(source, kept=whole)  # nobody chose: by the sign of the score
    sidecars.write_rabc(source, answers, tmp_path / "p.parquet", chunk=3)
    for e in (0, 2):
        found = deltas_of(tmp_path / "p.parquet", 3)[e] > 0.01
        assert (found == (answers[e].score > 0))[:-1].all()
    with pytest.raises(InputError, match="at least 1"):
        sidecars.write_rabc(source, answers, tmp_path / "p.parquet", chunk=0)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 70))
def test_a_mask_is_met_for_every_length_and_chunk(keep, chunk):
    progress = sidecars.progress_for_mask(np.array(keep), chunk)
    ahead = progress[np.minimum(np.arange(len(keep)) + chunk, len(keep) - 1)]
    assert ((ahead - progress) > 0.01)[:-1].tolist() == keep[:-1]
    assert ((ahead - progress) < 0)[:-1].tolist() == [not kept for kept in keep[:-1]]


def test_weights_are_for_every_frame(tmp_path):
    source = open_lerobot(VARIANTS["v2.1"](tmp_path / "set"))
    answers = answers_of(source)
    sidecars.write_weights(source, answers, tmp_path / "w.parquet")
    table = pandas.read_parquet(tmp_path / "w.parquet")
    assert list(table.columns) == ["index", "weight"]
    assert table["index"].tolist() == list(range(sum(LENGTHS)))
    weights = np.split(table["weight"].to_numpy(), BEGINS[1:-1])
    assert np.allclose(weights[0], (1 + answers[0].score) / 2 * answers[0].keep)
    assert weights[1].tolist() == [1] * LENGTHS[1]
    assert weights[3].tolist() == [1] * LENGTHS[3]


def test_every_second_frame_speaks_for_the_one_after_it(tmp_path):
    """Demonstrations were imported with --every 2, and of two episodes only."""
    source = open_lerobot(VARIANTS["v3"](tmp_path / "set"))
    score = np.array([0.5, -1, 1, 0, 0.25])
    answered = Answered("2", StepScores(score), np.arange(0, 9, 2), None)
    rows = answer_rows(source, [answered])
    sidecars.write_weights(source, rows, tmp_path / "w.parquet")
    weights = pandas.read_parquet(tmp_path / "w.parquet").set_index("index")["weight"]
    of_third = weights.loc[BEGINS[2] : BEGINS[3] - 1].to_numpy()
    assert np.allclose(of_third, (1 + np.repeat(score, 2)[:9]) / 2)


@pytest.mark.parametrize("variant", ["v3 video", "v2.1"])
def test_episodes_get_two_columns_and_keep_all_others(tmp_path, variant):
    root = VARIANTS[variant](tmp_path / "set")
    source = open_lerobot(root)
    answers = answers_of(source)
    written = sidecars.write_episode_columns(source, answers, root)
    again = open_lerobot(root)
    told = [again.layout.rows[i].values for i in range(4)]
    for e in (0, 1, 2):
        assert told[e]["sdil/quality"] == answers[e].quality
        worst = min(answers[e].stretches, key=lambda stretch: stretch.optimality)
        assert told[e]["sdil/worst_segment"] == [worst.start, worst.stop]
    if variant == "v3 video":
        assert np.isnan(told[3]["sdil/quality"])
        fresh = VARIANTS[variant](tmp_path / "fresh") / written[0].relative_to(root)
        kept = pq.read_table(written[0]).drop_columns(["sdil/quality", "sdil/worst_segment"])
        assert kept.equals(pq.read_table(fresh))
        sidecars.write_episode_columns(again, answers, root)  # a second time replaces them
        assert pq.read_table(written[0]).num_columns == kept.num_columns + 2
    else:
        assert told[3]["sdil/quality"] is None
    other = sidecars.write_episode_columns(source, answers, tmp_path / "elsewhere")
    assert other[0].is_relative_to(tmp_path / "elsewhere")


def test_commands_can_be_pasted(tmp_path):
    root = VARIANTS["v3"](tmp_path / "a set")
    source = open_lerobot(root)
    words = shlex.split(sidecars.delete_command(source, ["2", "0"]))
    assert words[:5] == ["lerobot-edit-dataset", "--repo_id", "local/a set", "--root", str(root)]
    assert words[-4:] == [
        *("--operation.type", "delete_episodes"),
        *("--operation.episode_indices", "[0, 2]"),
    ]
    older = open_lerobot(VARIANTS["v2.1"](tmp_path / "old"))
    assert "convert_dataset_v21_to_v30" in sidecars.delete_command(older, ["1"])
    oldest = open_lerobot(VARIANTS["v2.0"](tmp_path / "oldest"))
    with pytest.raises(InputError, match=r"converts version 2\.1 to 3\.0, not v2\.0"):
        sidecars.delete_command(oldest, ["1"])
    train = sidecars.train_command(source, tmp_path / "sarm_progress.parquet")
    assert "--sample_weighting.type=rabc" in train
    assert "pi0, pi05, smolvla, evo1 and molmoact2; not for ACT or Diffusion" in train
    for drop, message in (([], "no episode"), (["9"], "no episode 9"), (list("0123"), "all")):
        with pytest.raises(InputError, match=message):
            sidecars.delete_command(source, drop)


@pytest.mark.parametrize("variant", VARIANTS)
def test_segments_become_episodes_of_their_own(tmp_path, variant):
    options = OPTIONS[variant]
    source = open_lerobot(VARIANTS[variant](tmp_path / "set"))
    write_curated(source, answers_of(source), tmp_path / "cut")
    cut = open_lerobot(tmp_path / "cut")
    pieces = [(e, a, b) for e, runs in KEPT.items() for a, b in runs]
    assert cut.about["version"] == "v3.0"
    assert not cut.about["odd"]
    assert [e.steps for e in cut.episodes] == [b - a for _, a, b in pieces]
    assert [e.task for e in cut.episodes] == [source.episodes[e].task for e, _, _ in pieces]
    state, action = (name.replace("/", ".") for name in (options.state, options.action))
    begin = 0
    for i, (e, a, b) in enumerate(pieces):
        read = cut.read(i, [state, action, "index", "timestamp", "episode_index"])
        assert np.array_equal(read.values[state], state_of(e, LENGTHS[e])[a:b])
        assert np.array_equal(read.values[action], action_of(e, LENGTHS[e])[a:b])
        assert read.values["index"].tolist() == list(range(begin, begin + b - a))
        assert read.values["episode_index"].tolist() == [i] * (b - a)
        assert np.allclose(read.values["timestamp"], np.arange(b - a) / FPS)
        begin += b - a
        told = cut.layout.rows[i].values
        assert told["sdil/source_episode"] == e
        assert (told["sdil/source_start"], told["sdil/source_stop"]) == (a, b)
        if options.cameras or options.pictures:
            pictures = cut.read(i, [TOP]).values[TOP].astype(int)
            wanted = np.stack([picture_of(e, t) for t in range(a, b)]).astype(int)
            assert np.abs(pictures - wanted).mean() < 4


def test_what_is_kept_whole_stays_bit_for_bit(tmp_path):
    root = VARIANTS["v3 video"](tmp_path / "set")
    source = open_lerobot(root)
    everything = answers_of(source, kept={i: [(0, n)] for i, n in enumerate(LENGTHS)})
    write_curated(source, everything, tmp_path / "same")
    for path in sorted(root.glob("videos/**/*.mp4")):
        assert (tmp_path / "same" / path.relative_to(root)).read_bytes() == path.read_bytes()
    tables = [
        pa.concat_tables([pq.read_table(p) for p in sorted(folder.glob("data/*/*.parquet"))])
        for folder in (root, tmp_path / "same")
    ]
    assert tables[0].combine_chunks().equals(tables[1].select(tables[0].column_names))


def test_one_whole_file_is_copied_and_the_other_encoded(tmp_path):
    root = VARIANTS["v3 video"](
        tmp_path / "set"
    )  # episodes 0 and 1 in one file, 2 and 3 in another
    source = open_lerobot(root)
    kept = {0: [(0, 7)], 1: [(0, 5)], 2: [(1, 4), (6, 9)]}
    write_curated(source, answers_of(source, kept=kept), tmp_path / "cut")
    videos = tmp_path / "cut/videos" / TOP / "chunk-000"
    original = root / "videos" / TOP / "chunk-000"
    assert (videos / "file-000.mp4").read_bytes() == (original / "file-000.mp4").read_bytes()
    cut = open_lerobot(tmp_path / "cut")
    assert [cut.clip(i, TOP).path.name for i in range(5)] == ["file-000.mp4"] * 2 + [
        "file-001.mp4"
    ] * 3
    assert [cut.clip(i, TOP).start for i in range(5)] == [0.0, 0.7, 0.0, 0.3, 0.6]
    shown = cut.read(3, [TOP]).values[TOP][:, :, :20].mean((1, 2, 3))
    assert np.allclose((shown - 20) / 25, [6, 7, 8], atol=0.3)
    noted = json.loads((tmp_path / "cut/meta/info.json").read_text())["features"][TOP]["info"]
    assert (noted["video.codec"], noted["video.fps"]) == ("h264", FPS)


def test_statistics_are_of_what_is_there(tmp_path):
    source = open_lerobot(VARIANTS["v2.1 video"](tmp_path / "set"))
    write_curated(source, answers_of(source), tmp_path / "cut")
    rows = pq.read_table(tmp_path / "cut/meta/episodes/chunk-000/file-000.parquet").to_pylist()
    third = state_of(2, 9)[2:9].astype(float)
    assert np.allclose(rows[3]["stats/observation.state/mean"], third.mean(0))
    assert np.allclose(rows[3]["stats/observation.state/q90"], np.quantile(third, 0.9, axis=0))
    assert rows[3]["stats/observation.state/count"] == [7]
    assert np.array(rows[3][f"stats/{TOP}/mean"]).shape == (3, 1, 1)
    grey = np.mean([picture_of(2, t).mean() for t in range(2, 9)]) / 255
    assert np.allclose(rows[3][f"stats/{TOP}/mean"], grey, atol=0.02)
    whole = json.loads((tmp_path / "cut/meta/stats.json").read_text())
    every = np.concatenate([state_of(e, LENGTHS[e])[a:b] for e in KEPT for a, b in KEPT[e]])
    assert np.allclose(whole["observation.state"]["mean"], every.mean(0), atol=1e-6)
    assert np.allclose(whole["observation.state"]["std"], every.std(0), atol=1e-5)
    assert whole["observation.state"]["count"] == [len(every)]


def test_joined_statistics_are_those_of_all_numbers():
    values = np.random.default_rng(0).normal(size=(30, 2))
    joined = Joined()
    for part in (values[:5], values[5:]):
        joined.add({"x": stats_of_numbers(part)})
    found = joined.to_json()["x"]
    for name in ("mean", "std", "min", "max"):
        assert np.allclose(found[name], getattr(values, name)(0))


def test_tasks_are_the_index_that_pandas_reads(tmp_path):
    source = open_lerobot(VARIANTS["v2.1 video"](tmp_path / "set"))
    write_curated(source, answers_of(source), tmp_path / "cut")
    tasks = pandas.read_parquet(tmp_path / "cut/meta/tasks.parquet")
    assert tasks.index.tolist() == list(TWO_TASKS)
    assert tasks["task_index"].tolist() == [0, 1]


def test_what_is_said_holds_from_the_beginning_of_a_cut(tmp_path):
    """Persistent language has times of its own."""
    root = write_lerobot(tmp_path / "set", Options(version="v2.1", lengths=(7,)))
    path = root / "data/chunk-000/episode_000000.parquet"
    said = [
        {"style": "subtask", "content": "reach", "timestamp": 0.0},
        {"style": "subtask", "content": "grasp", "timestamp": 0.2},
        {"style": "subtask", "content": "lift", "timestamp": 0.5},
    ]
    table = pq.read_table(path).append_column("language_persistent", pa.array([said] * 7))
    pq.write_table(table, path)
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["language_persistent"] = {"dtype": "language", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    source = open_lerobot(root)
    scores, keep = StepScores(np.zeros(7)), np.arange(7) >= 3
    write_curated(source, answer_rows(source, [Answered("0", scores, None, keep)]), tmp_path / "c")
    cut = pq.read_table(tmp_path / "c/data/chunk-000/file-000.parquet")
    heard = cut.column("language_persistent").to_pylist()[0]
    assert [(s["content"], round(s["timestamp"], 3)) for s in heard] == [
        ("grasp", 0),
        ("lift", 0.2),
    ]


def test_what_cannot_be_written_is_refused(tmp_path):
    source = open_lerobot(VARIANTS["v3"](tmp_path / "set"))
    nothing = [
        RowAnswer(e.id, np.zeros(e.steps), *([np.zeros(e.steps, bool)] * 3))
        for e in source.episodes
    ]
    with pytest.raises(InputError, match="nothing is kept"):
        write_curated(source, nothing, tmp_path / "cut")
    answers = answers_of(source)
    with pytest.raises(InputError, match="is the data set itself"):
        write_curated(source, answers, tmp_path / "set")
    write_curated(source, answers, tmp_path / "cut")
    with pytest.raises(InputError, match="exists already"):
        write_curated(source, answers, tmp_path / "cut")
    seen = []
    write_curated(
        source,
        answers,
        tmp_path / "cut",
        overwrite=True,
        on_episode=lambda done, total: seen.append((done, total)),
    )
    assert seen == [(i, 5) for i in range(1, 6)]
    (tmp_path / "link").symlink_to(tmp_path / "set")
    with pytest.raises(InputError, match="is the data set itself"):
        write_curated(source, answers, tmp_path / "link", overwrite=True)
    theirs = VARIANTS["v3"](tmp_path / "theirs")
    with pytest.raises(InputError, match=r"has no meta/sdil\.json, so it was not written by this"):
        write_curated(source, answers, theirs, overwrite=True)
    assert len(open_lerobot(theirs).episodes) == len(LENGTHS)
    (tmp_path / "empty").mkdir()
    write_curated(source, answers, tmp_path / "empty")
    assert len(open_lerobot(tmp_path / "empty").episodes) == 5
    other = open_lerobot(write_lerobot(tmp_path / "other", lengths=(7, 5, 4, 6)))
    with pytest.raises(InputError, match="changed since"):
        write_curated(other, answers, tmp_path / "third")
    with pytest.raises(InputError, match="changed since"):
        sidecars.write_weights(other, answers, tmp_path / "w.parquet")


@pytest.mark.slow
def test_two_cameras_of_av1_are_cut_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot_layouts, "SIZE", (64, 96))
    write = lerobot_layouts.write_video
    monkeypatch.setattr(lerobot_layouts, "write_video", lambda *a: write(*a, codec="libsvtav1"))
    wrist = "observation.images.wrist"
    source = open_lerobot(write_lerobot(tmp_path / "set", cameras=(TOP, wrist)))
    write_curated(source, answers_of(source), tmp_path / "cut")
    cut = open_lerobot(tmp_path / "cut")
    pieces = [(e, a, b) for e, runs in KEPT.items() for a, b in runs]
    for i, (e, a, b) in enumerate(pieces):
        for camera in (TOP, wrist):
            before = source.read(e, [camera]).values[camera][a:b].astype(int)
            after = cut.read(i, [camera]).values[camera].astype(int)
            assert np.abs(after - before).mean() < 2
    assert cut.layout.features[TOP]["info"]["video.codec"] == "av1"


@pytest.mark.slow
@pytest.mark.skipif(
    "LEROBOT_PYTHON" not in os.environ,
    reason="LeRobot 0.6.1 needs Python 3.12: LEROBOT_PYTHON names one that has it",
)
def test_lerobot_itself_reads_what_is_written(tmp_path):
    script = Path(__file__).parents[2] / "tools" / "prove_lerobot.py"
    subprocess.run([sys.executable, script, "write", tmp_path], check=True)
    python, place = os.environ["LEROBOT_PYTHON"], {**os.environ, "HF_HUB_OFFLINE": "1"}
    place.pop("PYTHONPATH", None)
    run = subprocess.run([python, script, "check", tmp_path, "02"], env=place, check=False)
    assert run.returncode == 0


def _write_depths(path, episodes):
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    options = {"x265-params": "lossless=1:log-level=none"}
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx265", rate=FPS, options=options)
        stream.height, stream.width, stream.pix_fmt = 64, 96, "gray12le"
        for e, length in episodes:
            for t in range(length):
                values = np.full((64, 96), 1000 * e + 70 * t, np.uint16)
                out.mux(stream.encode(av.VideoFrame.from_ndarray(values, format="gray12le")))
        out.mux(stream.encode())


def test_depths_are_cut_without_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot_layouts, "write_video", _write_depths)
    root = write_lerobot(tmp_path / "set", cameras=(TOP,))
    source = open_lerobot(root)
    write_curated(source, answers_of(source), tmp_path / "cut")
    cut = open_lerobot(tmp_path / "cut")
    pieces = [(e, a, b) for e, runs in KEPT.items() for a, b in runs]
    for i, (e, a, b) in enumerate(pieces):
        frames = cut.clip(i, TOP).raw_frames(cut.times(i))
        found = [frame.to_ndarray(format="gray12le") for frame in frames]
        assert [int(f.min()) for f in found] == [1000 * e + 70 * t for t in range(a, b)]
        assert [int(f.max()) for f in found] == [1000 * e + 70 * t for t in range(a, b)]
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][TOP]["info"] = {"is_depth_map": True}
    (root / "meta/info.json").write_text(json.dumps(info))
    with pytest.raises(InputError, match=r"no statistics of observation\.images\.top"):
        write_curated(open_lerobot(root), answers_of(source), tmp_path / "other")
