"""LeRobot data sets in every layout, read in place."""

from __future__ import annotations

import json
import shutil

import lerobot_layouts
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lerobot_layouts import (
    FPS,
    LENGTHS,
    OPTIONS,
    TOP,
    TWO_TASKS,
    VARIANTS,
    action_of,
    picture_of,
    state_of,
    write_lerobot,
)

import sdil
from sdil.errors import InputError
from sdil.formats.lerobot import open_lerobot
from sdil.formats.lerobot_curated import write_curated
from sdil.formats.oddities import find_oddities
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address
from sdil.formats.rows import answer_rows


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_layout_gives_the_same_steps(tmp_path, variant):
    root, options = VARIANTS[variant](tmp_path / "set"), OPTIONS[variant]
    source = open_lerobot(root)
    assert [(e.id, e.steps) for e in source.episodes] == [
        (str(i), n) for i, n in enumerate(LENGTHS)
    ]
    roles = {f.name: f.role for f in source.features}
    assert roles[options.state] == "observation"
    assert roles[options.action] == "action"
    state = next(f for f in source.features if f.name == options.state)
    assert state.entries == (() if options.names is None else ("x", "y", "grip"))
    assert state.shape == (3,)
    for i in (2, 0, 1, 3):  # in any order
        recorded = source.read(i, [options.state, options.action])
        assert np.array_equal(recorded.values[options.state], state_of(i, LENGTHS[i]))
        assert np.array_equal(recorded.values[options.action], action_of(i, LENGTHS[i]))
        assert recorded.values[options.state].dtype == np.float32
        assert recorded.frames.tolist() == list(range(LENGTHS[i]))
    assert source.about["fps"] == FPS
    assert not source.about["odd"]


@pytest.mark.parametrize("variant", ["v3 video", "v3 video in video/", "v2.1 video", "v2.0 early"])
def test_video_is_decoded_when_it_is_asked_for(tmp_path, variant):
    source = open_lerobot(VARIANTS[variant](tmp_path / "set"))
    for i in (1, 3):
        pictures = source.read(i, [TOP]).values[TOP]
        wanted = np.stack([picture_of(i, t) for t in range(LENGTHS[i])])
        assert pictures.shape == wanted.shape
        assert np.abs(pictures.astype(int) - wanted).mean() < 3
    some = list(source.clip(3, TOP).frames(np.array([0.2, 0.5])))
    assert [round((p[:, :20].mean() - 20) / 25) for p in some] == [2, 5]


def test_pictures_in_the_table_are_exact(tmp_path):
    source = open_lerobot(VARIANTS["v3 pictures in the table"](tmp_path / "set"))
    pictures = source.read(2, [TOP]).values[TOP]
    assert np.array_equal(pictures, [picture_of(2, t) for t in range(LENGTHS[2])])


def test_rewards_and_success_are_known_before_reading(tmp_path):
    source = open_lerobot(VARIANTS["v3 video"](tmp_path / "set"))
    returns = [e.columns["return"] for e in source.episodes]
    assert np.allclose(returns, [n / 2 for n in LENGTHS])
    assert [e.columns["success"] for e in source.episodes] == [True, False, True, False]
    recorded = source.read(0, ["observation.state"])
    assert recorded.terminated
    assert np.allclose(recorded.rewards, np.linspace(0, 1, LENGTHS[0]))
    assert not source.read(1, ["observation.state"]).terminated


@pytest.mark.parametrize("variant", ["v3 two tasks", "v2.1 video"])
def test_tasks_are_kept(tmp_path, variant):
    source = open_lerobot(VARIANTS[variant](tmp_path / "set"))
    assert [e.task for e in source.episodes] == [*TWO_TASKS, *TWO_TASKS]
    assert source.about["tasks"] == dict(enumerate(TWO_TASKS))
    assert source.read(1, ["task_index"]).values["task_index"].tolist() == [1] * LENGTHS[1]


def test_groups_and_splits_are_known(tmp_path):
    more = {"splits": {"train": "0:3", "test": "3:4"}}
    source = open_lerobot(write_lerobot(tmp_path / "set", more=more))
    assert [e.group for e in source.episodes] == ["person 0", "person 1"] * 2
    assert [sorted(e.tags) for e in source.episodes] == [["train"]] * 3 + [["test"]]


def test_pandas_names_the_texts_of_tasks_otherwise(tmp_path):
    root = write_lerobot(tmp_path / "set")
    table = pa.table({"task_index": [0], "__index_level_0__": ["fold"]})
    pq.write_table(table, root / "meta/tasks.parquet")
    assert open_lerobot(root).about["tasks"] == {0: "fold"}


def test_the_whole_action_is_used_and_not_its_parts_as_well(tmp_path):
    root = write_lerobot(tmp_path / "set")
    info = json.loads((root / "meta/info.json").read_text())
    info["features"]["action.gripper"] = {"dtype": "float32", "shape": [1], "names": None}
    (root / "meta/info.json").write_text(json.dumps(info))
    roles = {f.name: f.role for f in open_lerobot(root).features}
    assert (roles["action"], roles["action.gripper"]) == ("action", "other")


def test_a_number_that_does_not_rise_is_no_name_for_frames(tmp_path):
    root = write_lerobot(tmp_path / "set", version="v2.1")
    path = root / "data/chunk-000/episode_000000.parquet"
    table = pq.read_table(path)
    at = table.column_names.index("frame_index")
    pq.write_table(table.set_column(at, "frame_index", pa.array([0, 1, 1, 2, 3, 4, 5])), path)
    assert open_lerobot(root).read(0, ["action"]).frames.tolist() == list(range(7))


def test_a_variable_that_nothing_is_known_of_may_leave_one_file(tmp_path):
    root = VARIANTS["v3 shards of a split"](tmp_path / "set")
    path = root / "data/train-000.parquet"
    shutil.copy(path, root / "data/test-000.parquet")
    with pytest.raises(InputError, match=r"uses \{split\}, which nothing is known of"):
        open_lerobot(root)


def test_frames_are_numbered_by_a_column_that_info_does_not_name(tmp_path):
    root = VARIANTS["v3 shards of a split"](tmp_path / "set")
    path = root / "data/train-000.parquet"
    table = pq.read_table(path)
    at = table.column_names.index("frame_index")
    numbers = pa.array([*range(10, 17), *range(5)])
    pq.write_table(table.set_column(at, "frame_index", numbers), path)
    source = open_lerobot(root)
    assert source.read(0, ["action"]).frames.tolist() == list(range(10, 17))
    assert source.frames_of(0)[0].tolist() == list(range(10, 17))


def _change_info(root, **changes):
    path = root / "meta/info.json"
    info = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            del info[key]
        else:
            info[key] = value
    path.write_text(json.dumps(info))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codebase_version": "v1.6"}, "versions 2.0, 2.1 and 3.0"),
        ({"features": None}, "names no features"),
        ({"features": {"action": {"shape": [3]}}}, "action: it has no dtype"),
        ({"features": {"action": {"dtype": "float32", "shape": [-3]}}}, "its shape is"),
        ({"fps": 0}, "fps is 0"),
        ({"data_path": "../{episode_index}.parquet"}, "leads elsewhere"),
        ({"data_path": "/etc/{episode_index}"}, "leads elsewhere"),
        ({"data_path": 5}, "a path template is 5"),
    ],
)
def test_what_info_says_is_checked(tmp_path, changes, message):
    root = write_lerobot(tmp_path / "set")
    _change_info(root, **changes)
    with pytest.raises(InputError, match=message):
        open_lerobot(root).read(0, ["action"])


def test_errors_name_file_episode_and_column(tmp_path):
    root = write_lerobot(tmp_path / "set", version="v2.1")
    path = root / "data/chunk-000/episode_000001.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)
    source = open_lerobot(root)
    with pytest.raises(InputError, match=r"episode_000001.*episode 1 has 4 rows.* is 5"):
        source.read(1, ["action"])
    pq.write_table(table.drop_columns(["action"]), path)
    with pytest.raises(InputError, match=r"episode_000001.*no column 'action'"):
        open_lerobot(root).read(1, ["action"])
    ragged = pa.array([[1.0, 2, 3]] * 3 + [[1.0, 2]] + [[1.0, 2, 3]])
    at = table.column_names.index("action")
    pq.write_table(table.set_column(at, "action", ragged), path)
    with pytest.raises(InputError, match="episode 1: action: row 3 has 2 numbers"):
        open_lerobot(root).read(1, ["action"])
    holes = pa.array([[1.0, 2, 3]] * 4 + [None])
    pq.write_table(table.set_column(at, "action", holes), path)
    with pytest.raises(InputError, match=r"episode 1: action: value 4 is missing"):
        open_lerobot(root).read(1, ["action"])
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    with pytest.raises(InputError, match="git lfs pull"):
        open_lerobot(root).read(1, ["action"])
    with pytest.raises(InputError, match="no feature 'speed'"):
        source.read(0, ["speed"])


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_parts_of_a_data_set_can_be_read(tmp_path, version):
    root = write_lerobot(tmp_path / "set", version=version, episodes_per_file=1)
    first, second, *others = sorted(root.glob("data/*/*.parquet"))
    first.unlink()
    others[-1].unlink()
    said = "2 of 4 episodes are left out, since their data files are not there: 0, 3"
    with pytest.warns(UserWarning, match=said):
        source = open_lerobot(root)
    assert [episode.id for episode in source.episodes] == ["1", "2"]
    assert np.array_equal(source.read(1, ["action"]).values["action"], action_of(2, LENGTHS[2]))
    assert source.frames_of(1)[1].tolist() == list(range(12, 21))
    assert source.about["odd"] == [said]
    others[0].unlink()
    with pytest.warns(UserWarning, match="3 of 4 episodes are left out.*: 0, 2-3"):
        source = open_lerobot(root)  # one table is left: it is not taken for all of them
    assert [episode.id for episode in source.episodes] == ["1"]
    assert np.array_equal(source.read(0, ["action"]).values["action"], action_of(1, LENGTHS[1]))
    second.unlink()
    with pytest.raises(InputError, match=f"{first.name} is missing, where episode 0 should be"):
        open_lerobot(root)


def test_videos_need_not_be_there_until_they_are_asked_for(tmp_path):
    root = VARIANTS["v3 video"](tmp_path / "set")
    shutil.rmtree(root / "videos")
    source = open_lerobot(root)
    assert len(source.read(1, ["action"]).values["action"]) == LENGTHS[1]
    assert source.clip(1, TOP).start == LENGTHS[0] / FPS
    with pytest.raises(InputError, match=r"file-000\.mp4 is missing; download the videos"):
        source.read(1, [TOP])
    with pytest.raises(InputError, match=r"file-000\.mp4 is missing; download the videos"):
        write_curated(source, answer_rows(source, []), tmp_path / "cut")


def test_rows_of_an_episode_lie_together(tmp_path):
    root = write_lerobot(tmp_path / "set")
    path = root / "data/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.take([0, 7, *range(1, 7), *range(8, 12)]), path)
    with pytest.raises(InputError, match=r"file-000\.parquet: episode 0 is scattered"):
        open_lerobot(root).read(0, ["action"])


def test_a_video_that_is_too_short_is_named(tmp_path):
    root = VARIANTS["v2.1 video"](tmp_path / "set")
    videos = root / "videos/chunk-000" / TOP
    shutil.copy(videos / "episode_000001.mp4", videos / "episode_000002.mp4")
    with pytest.raises(InputError, match=r"episode_000002.mp4: it has no frame at"):
        open_lerobot(root).read(2, [TOP])


def test_what_meta_miscounts_is_odd(tmp_path):
    root = write_lerobot(tmp_path / "set", more={"total_frames": 5})
    assert open_lerobot(root).about["odd"] == [
        "meta/info.json says total_frames 5, meta/episodes lists 27"
    ]


STRANGE = (None, -1, [], {}, "x", 1e308, 10**30, True, [[1]], "../x", [None], float("nan"), 0)


def _replaced(value, rng):
    """A value of JSON in which one thing is something else, or missing."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = list(value)[rng.integers(len(value))]
        return {k: _replaced(v, rng) if k == key else v for k, v in value.items()}
    if isinstance(value, list) and value and rng.random() < 0.6:
        at = rng.integers(len(value))
        return [_replaced(v, rng) if i == at else v for i, v in enumerate(value)]
    return STRANGE[rng.integers(len(STRANGE))]


def _retyped(table, rng):
    at, n = int(rng.integers(table.num_columns)), len(table)
    name = table.column_names[at]
    columns = [["x"] * n, [None] * n, [[1.5, 2.5]] * n, [-7] * n, [{"a": 1}] * n]
    choice = int(rng.integers(6))
    if choice == 5:
        return table.remove_column(at)
    return table.set_column(at, name, pa.array(columns[choice]))


@pytest.mark.filterwarnings("ignore:.*episodes are left out")  # its file has another name
@pytest.mark.parametrize(
    "variant",
    [
        "v3",
        *(pytest.param(v, marks=pytest.mark.slow) for v in ("v2.1", "v3 video", "v2.1 video")),
    ],
)
def test_values_and_columns_of_another_kind_are_refused_too(tmp_path, variant):
    root = VARIANTS[variant](tmp_path / "set")
    rng = np.random.default_rng(1)
    paths = sorted(p for p in root.rglob("*") if p.suffix != ".mp4" and p.is_file())
    refused = 0
    for number in range(60):
        path = paths[number % len(paths)]
        whole = path.read_bytes()
        if path.suffix == ".parquet":
            pq.write_table(_retyped(pq.read_table(path), rng), path)
        else:
            lines = whole.decode().splitlines() if path.suffix == ".jsonl" else [whole.decode()]
            at = rng.integers(len(lines))
            lines[at] = json.dumps(_replaced(json.loads(lines[at]), rng))
            path.write_text("\n".join(lines))
        try:
            source = open_lerobot(root)
            for i in range(len(source.episodes)):
                source.read(i, [f.name for f in source.features])
                source.frames_of(i)
            write_curated(source, answer_rows(source, []), tmp_path / "cut", overwrite=True)
        except InputError:
            refused += 1
        path.write_bytes(whole)
    assert 15 < refused < 60


DAMAGED = [
    "v3 pictures in the table",
    *(pytest.param(v, marks=pytest.mark.slow) for v in ("v3 video", "v2.1 video")),
]


@pytest.mark.parametrize("variant", DAMAGED)
def test_damaged_copies_are_refused_in_one_sentence(tmp_path, variant):
    """Bits flipped, cut short, emptied: read as well as can be, or an InputError, nothing else."""
    root = VARIANTS[variant](tmp_path / "set")
    rng = np.random.default_rng(0)
    refused = 0
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        whole = path.read_bytes()
        for kind in range(6):
            data = bytearray(whole)
            if kind < 3:
                for at in rng.integers(0, len(data), 1 + 4 * kind):
                    data[at] ^= 1 << int(rng.integers(8))
            elif kind < 5:
                data = data[: int(rng.integers(0, len(data)))]
            else:
                data = bytearray()
            path.write_bytes(bytes(data))
            try:
                source = open_lerobot(root)
                for i in range(len(source.episodes)):
                    source.read(i, [f.name for f in source.features])
            except InputError:
                refused += 1
        path.write_bytes(whole)
    assert refused > 10


def test_a_frozen_camera_is_seen_by_a_few_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(lerobot_layouts, "picture_of", lambda e, t: picture_of(1, 3 if e else t))
    source = open_lerobot(VARIANTS["v3 video"](tmp_path / "set"))
    assert source.frozen_share(0, TOP) == 0.0
    assert source.frozen_share(1, TOP) == 1.0
    address = parse_address(tmp_path / "set").with_choices(clean="0")
    odd = find_oddities(open_reading(address)).odd
    assert [text for text in odd if "frozen" in text] == [
        f"episode '1': {TOP} is frozen: 100% of its pictures equal the one before"
    ]


def test_a_task_is_chosen_by_its_own_number_and_ranks_count_within_it(tmp_path):
    root = VARIANTS["v3 two tasks"](tmp_path / "set")
    lifting = [i for i in range(len(LENGTHS)) if i % 2]
    shortest = min(lifting, key=lambda i: LENGTHS[i])
    for name in ("1", TWO_TASKS[1]):
        demos = sdil.read(root, task=name, clean="shortest 1")
        assert demos.clean.ids == (str(shortest),)
        assert set(demos.clean.ids + demos.noisy.ids) == {str(i) for i in lifting}
        assert TWO_TASKS[1] in demos.origin.chosen
