"""`sdil export`, and `--to` of score and curate: from a source and back to its own format."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import duckdb
import h5py
import layouts
import lerobot_layouts
import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.formats.data import load_demonstrations, origin_of
from sdil.formats.recognise import open_source
from sdil.formats.scores import ScoredSet, write_scores
from sdil.scores import StepScores


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def bad_middle(length: int) -> np.ndarray:
    """Steps from the third to the last but two are bad."""
    score = np.full(length, 0.9)
    score[2 : length - 2] = -0.9
    return score


def said_of(score: np.ndarray) -> StepScores:
    return StepScores(score, parts={"pace": score})


def score_all(data, path) -> None:
    """A table of scores: noisy episodes are bad in their middle."""
    demos = load_demonstrations(data)
    sets = {
        name: ScoredSet(
            trajectories.ids,
            [
                said_of(np.ones(n) if name == "clean" else bad_middle(n))
                for n in trajectories.lengths
            ],
        )
        for name, trajectories in (("clean", demos.clean), ("noisy", demos.noisy))
    }
    write_scores(path, sets)


FORMATS = {
    "robomimic": ("lift.hdf5", layouts.write_robomimic),
    "aloha": ("aloha", layouts.write_aloha),
    "d4rl": ("door.hdf5", layouts.write_d4rl),
    "zarr": ("push.zarr", layouts.write_zarr),
    "minari": ("door-v0", layouts.write_minari),
    "minari-arrow": ("drawer-v0", lambda p: layouts.write_minari(p, data_format="arrow")),
    "numpy": ("data.npz", layouts.write_numpy),
    "numpy-folder": ("runs", layouts.write_numpy_folder),
    "csv": ("steps.csv", lambda path: layouts.write_table(path, shuffle=True)),
    "parquet": (
        "steps.parquet",
        lambda path: layouts.write_table(path, layouts.table_of(lists=True)),
    ),
    "duckdb": ("steps.duckdb", layouts.write_table),
    "lerobot": ("arm", lambda p: lerobot_layouts.write_lerobot(p, lengths=(10, 9, 12, 11))),
}
CLEAN = {"robomimic": "better", "aloha": "episode_0,episode_1", "numpy-folder": "run_0,run_1"}
QUICK = ("robomimic-2", "csv-2", "lerobot-2")
CASES = [
    pytest.param(
        name,
        every,
        id=f"{name}-{every}",
        marks=[] if f"{name}-{every}" in QUICK else pytest.mark.slow,
    )
    for name in FORMATS
    for every in (1, 2)
]


def clean_of(name: str) -> str:
    return CLEAN.get(name, "0,1")


@pytest.mark.parametrize(("name", "every"), CASES)
def test_what_is_kept_is_what_was_there_in_every_format(tmp_path, name, every):
    file, write = FORMATS[name]
    path = tmp_path / file
    write(path)
    data = f"{path}?clean={clean_of(name)}&every={every}"
    score_all(data, tmp_path / "scores.csv")
    out = tmp_path / f"out{path.suffix}"
    to = ["--to", f"same:{out}", f"trim:{tmp_path / 'trim.csv'}"]
    assert run("export", tmp_path / "scores.csv", "--data", data, *to, "--curated") == 0
    old, new = open_source(path), open_source(out)
    noisy = set(load_demonstrations(data).noisy.ids)
    expected = []
    for at, episode in enumerate(old.episodes):
        n = episode.steps
        if episode.id not in noisy:
            expected.append((at, 0, n))
            continue
        steps = -(-n // every)
        expected += [(at, 0, 2 * every), (at, (steps - 2) * every, n)]
    assert sum(e.steps for e in new.episodes) == sum(b - a for _, a, b in expected)
    features = [f.name for f in old.features if f.role in ("observation", "action", "image")]
    assert len(features) >= 2
    wanted = [
        [old.read(at, features).values[f][a:b].tobytes() for f in features] for at, a, b in expected
    ]
    found = []
    for i, episode in enumerate(new.episodes):
        read = new.read(i, features).values
        found.append([read[f][: episode.steps].tobytes() for f in features])
    assert sorted(found) == sorted(wanted)
    with (tmp_path / "trim.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert {r["episode"] for r in rows} == noisy
    assert all("lowest signal: pace" in r["why"] for r in rows)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in FORMATS if n != "lerobot"])
def test_scores_beside_the_data_change_nothing_that_is_read(tmp_path, name):
    file, write = FORMATS[name]
    path = tmp_path / file
    write(path)
    data = f"{path}?clean={clean_of(name)}"
    score_all(data, tmp_path / "scores.csv")
    out = tmp_path / f"out{path.suffix}"
    assert run("export", tmp_path / "scores.csv", "--data", data, "--to", f"same:{out}") == 0
    again = load_demonstrations(f"{out}?clean={clean_of(name)}")
    assert again.fingerprint() == load_demonstrations(data).fingerprint()


@pytest.fixture
def robomimic(tmp_path):
    return layouts.write_robomimic(tmp_path / "lift.hdf5")


@pytest.fixture
def judge(monkeypatch):
    """Something that judges as the tables above do."""

    def score(trajectories):
        return [
            StepScores(bad_middle(len(t)), parts={"pace": bad_middle(len(t))}) for t in trajectories
        ]

    fake = SimpleNamespace(
        score=score, name="fake", unknown={}, good_share=None, cross_judged=None, spaces=None
    )
    for module in ("sdil.algorithms", "sdil.cli.export"):
        monkeypatch.setattr(f"{module}.load_judging", lambda _: fake)
    healthy = SimpleNamespace(sentences=("healthy",), bears_a_threshold=True, as_json=dict)
    monkeypatch.setattr("sdil.cli.health.health_for", lambda *_, **__: healthy)
    return fake


def test_score_names_frames_of_the_source_and_writes_back(robomimic, judge, tmp_path, capsys):
    data = f"{robomimic}?clean=better&every=2"
    out = tmp_path / "new.hdf5"
    assert run("score", "judgement", "--data", data, "--to", f"robomimic:{out}", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    worst = next(s for s in told["worst"] if s["episode"] == "demo_5")
    assert (worst["start"], worst["stop"]) == (2, 5)  # of 7 steps, of 14 rows
    assert (worst["first_frame"], worst["last_frame"]) == (4, 9)
    assert worst["against"] == "pace"
    assert told["written"][0]["path"] == str(out)
    with h5py.File(out) as file:
        weight = file["data/demo_5/sdil_weight"][()]
        np.testing.assert_allclose(weight, [0.95] * 4 + [0.05] * 6 + [0.95] * 4, rtol=1e-6)
        np.testing.assert_array_equal(file["data/demo_0/sdil_weight"][()], 1.0)
        trusted = {b"demo_0", b"demo_2"}
        assert trusted <= set(file["mask/sdil_keep"][()].tolist())
    assert run("score", "judgement", "--data", data, "--worst", 2) == 0
    text = capsys.readouterr().out
    assert "frames" in text
    assert "4-9" in text


def test_curate_writes_the_source_and_a_folder(robomimic, judge, tmp_path, capsys):
    folder, out = tmp_path / "demos", tmp_path / "new.hdf5"
    data = f"{robomimic}?clean=better"
    where = ["--data", data, "--out", folder, "--to", f"same:{out}"]
    assert run("curate", "judgement", *where, "--keep-above", 0, "--no-check") == 0
    assert "written to" in capsys.readouterr().out
    with h5py.File(out) as file:
        assert len(file["data"]) == 2 + 2 * 4
    curated = sdil.load_demonstrations(folder)
    assert len(curated.noisy) == 2 * 4
    frames = origin_of(folder).frames_of("demo_5[12:14]", 2)
    assert frames.tolist() == [12, 13]
    assert run("curate", "judgement", "--data", data, "--keep-above", 0) == 2
    assert "say what to write" in capsys.readouterr().err


def test_what_a_rule_leaves_out_weighs_nothing(robomimic, judge, tmp_path):
    """With --weights all rows go out, and those that the rule does not choose with weight 0."""
    data = f"{robomimic}?clean=better"
    curate = ["curate", "judgement", "--data", data, "--no-check", "--weights"]
    plain, ruled = tmp_path / "plain.hdf5", tmp_path / "ruled.hdf5"
    assert run(*curate, "--to", f"same:{plain}") == 0
    assert run(*curate, "--to", f"same:{ruled}", "--keep-share", "0.3") == 0
    noisy, dropped = set(load_demonstrations(data).noisy.ids), 0
    with h5py.File(plain) as old, h5py.File(ruled) as new:
        for name, demo in new["data"].items():
            weight, before = demo["sdil_weight"][()], old[f"data/{name}/sdil_weight"][()]
            assert len(weight) == len(demo["actions"])
            if name not in noisy:
                assert (weight == 1).all()
                continue
            assert np.allclose(before, (1 + bad_middle(len(weight))) / 2)
            left_out = weight == 0
            dropped += left_out.sum()
            assert np.array_equal(weight[~left_out], before[~left_out])
    steps = load_demonstrations(data).noisy.n_steps
    assert 0.6 * steps < dropped < steps


def test_an_imported_folder_knows_its_source_even_when_that_was_moved(robomimic, tmp_path, capsys):
    options = ["--out", tmp_path / "demos", "--clean", "better"]
    assert run("import", robomimic, *options) == 0
    score_all(tmp_path / "demos", tmp_path / "scores.parquet")
    robomimic.rename(tmp_path / "moved.hdf5")
    export = ["export", tmp_path / "scores.parquet", "--data", tmp_path / "demos"]
    to = ["--to", f"same:{tmp_path / 'new.hdf5'}"]
    assert run(*export, *to) == 2
    assert "--source PATH" in capsys.readouterr().err
    assert run(*export, *to, "--source", tmp_path / "moved.hdf5") == 0
    assert (tmp_path / "new.hdf5").exists()


def test_in_place_replaces_the_file_only_when_asked(robomimic, tmp_path, capsys):
    data = f"{robomimic}?clean=better"
    score_all(data, tmp_path / "scores.csv")
    before = robomimic.read_bytes()
    export = ["export", tmp_path / "scores.csv", "--data", data, "--to"]
    assert run(*export, f"same:{robomimic}") == 2
    assert "not touched" in capsys.readouterr().err
    assert run(*export, "same") == 0
    assert (tmp_path / "lift-scored.hdf5").exists()
    assert run(*export, "same") == 2
    assert "exists already" in capsys.readouterr().err
    assert robomimic.read_bytes() == before
    assert run(*export, "same", "--in-place") == 0
    with h5py.File(robomimic) as file:
        assert "sdil_keep" in file["mask"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--to", "zarr:x.zarr"], "the data came as robomimic"),
        (["--to", "nothing"], "there is no 'nothing'"),
        (["--to", "rabc"], "the data came as robomimic"),
        (["--to", "trim", "--in-place"], "--in-place is for"),
        (["--to", "same:x", "--keep-above", 0, "--keep-share", 0.5], "give one of"),
    ],
)
def test_what_cannot_be_written_is_said_before_anything_is(
    robomimic, tmp_path, capsys, options, says
):
    data = f"{robomimic}?clean=better"
    score_all(data, tmp_path / "scores.csv")
    assert run("export", tmp_path / "scores.csv", "--data", data, *options) == 2
    assert says in capsys.readouterr().err


def test_demonstrations_that_came_from_nowhere_go_nowhere(tmp_path, make_episode, capsys):
    demos = sdil.Demonstrations([make_episode(5)], [make_episode(6, seed=1)])
    sdil.save_demonstrations(demos, tmp_path / "demos")
    score_all(tmp_path / "demos", tmp_path / "scores.csv")
    where = ["--data", tmp_path / "demos", "--to", "same:x"]
    assert run("export", tmp_path / "scores.csv", *where) == 2
    assert "was not imported" in capsys.readouterr().err


def test_a_table_of_other_episodes_is_refused(robomimic, tmp_path, capsys):
    data = f"{robomimic}?clean=better"
    score_all(f"{robomimic}?clean=worse&noisy=demo_3", tmp_path / "scores.csv")
    where = ["--data", data, "--to", f"trim:{tmp_path / 'trim.csv'}"]
    assert run("export", tmp_path / "scores.csv", *where) == 2
    assert "it has not the" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_episodes_that_nobody_judged_go_out_as_they_are(robomimic, tmp_path, capsys):
    data = f"{robomimic}?clean=better&noisy=demo_5"
    score_all(data, tmp_path / "scores.csv")
    out = tmp_path / "new.hdf5"
    assert run("export", tmp_path / "scores.csv", "--data", data, "--to", f"same:{out}") == 0
    assert "3 of 6 episodes of the source were not judged" in capsys.readouterr().err
    with h5py.File(out) as file:
        assert np.isnan(file["data/demo_3/sdil_score"][()]).all()
        np.testing.assert_array_equal(file["data/demo_3/sdil_weight"][()], 1.0)


def test_lerobot_takes_answers_in_its_own_ways(tmp_path, capsys):
    path = lerobot_layouts.write_lerobot(tmp_path / "arm")
    data = f"{path}?clean=0,1"
    score_all(data, tmp_path / "scores.csv")
    export = ["export", tmp_path / "scores.csv", "--data", data, "--to"]
    kinds = ["rabc", f"weights:{tmp_path / 'w.parquet'}", f"episodes:{tmp_path / 'e'}"]
    assert run(*export, *kinds) == 0
    text = capsys.readouterr().out
    assert "not for ACT or Diffusion" in text
    assert "episode_filter" in text
    assert (path / "sarm_progress.parquet").exists()
    assert run(*export, "delete-command", "--by", "episode", "--keep-above", 0.9) == 0
    text = capsys.readouterr().out
    assert "lerobot-edit-dataset" in text
    assert "[2, 3]" in text
    for kind in ("lerobot", "same"):
        assert run(*export, f"{kind}:{tmp_path / 'new'}") == 2
        assert "--to rabc, weights or episodes" in capsys.readouterr().err
    theirs = lerobot_layouts.write_lerobot(tmp_path / "theirs")
    for place, said in ((theirs, "so it was not written by this command"), (path, "not touched")):
        assert run(*export, f"lerobot:{place}", "--curated", "--overwrite") == 2
        assert said in " ".join(capsys.readouterr().err.split())
        assert len(open_source(place).episodes) == 4
    assert run(*export, "episodes", "--in-place") == 0
    query = f"SELECT \"sdil/quality\" FROM '{path}/meta/episodes/**/*.parquet'"
    qualities = [quality for (quality,) in duckdb.sql(query).fetchall()]
    assert len(qualities) == 4
    assert all(-1 <= quality <= 1 for quality in qualities)


def test_trims_say_where_in_the_video(tmp_path):
    path = lerobot_layouts.write_lerobot(tmp_path / "arm", cameras=("observation.images.top",))
    data = f"{path}?clean=0,1"
    score_all(data, tmp_path / "scores.csv")
    to = ["--to", f"trim:{tmp_path / 'trim.csv'}"]
    assert run("export", tmp_path / "scores.csv", "--data", data, *to) == 0
    with (tmp_path / "trim.csv").open() as table:
        rows = {r["episode"]: r for r in csv.DictReader(table)}
    two, three = rows["2"], rows["3"]  # of 9 and 6 frames at 10 per second, in one file
    assert (two["first_frame"], two["last_frame"]) == ("2", "6")
    assert (float(two["first_second"]), float(two["last_second"])) == (0.2, 0.7)
    assert (three["first_frame"], three["last_frame"]) == ("2", "3")
    assert (float(three["first_second"]), float(three["last_second"])) == (1.1, 1.3)


def test_a_source_that_changed_since_is_not_written_over(robomimic, tmp_path):
    options = ["--out", tmp_path / "demos", "--clean", "better"]
    assert run("import", robomimic, *options) == 0
    score_all(tmp_path / "demos", tmp_path / "scores.csv")
    layouts.write_robomimic(robomimic, layouts.episodes(steps=5))
    to = ["--to", f"same:{tmp_path / 'new.hdf5'}"]
    assert run("export", tmp_path / "scores.csv", "--data", tmp_path / "demos", *to) == 2
    assert not (tmp_path / "new.hdf5").exists()


def test_the_lines_of_readme_that_write_back(robomimic, judge, tmp_path, monkeypatch, capsys):
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    lines = [line for line in re.findall(r"`(sdil [^`]*--to [^`]*)`", readme) if "lift" in line]
    assert len(lines) == 2
    monkeypatch.chdir(tmp_path)
    for line in lines:
        data = ["--data", f"{robomimic}?clean=better"]
        more = ["--no-check"] if " curate " in line else []
        assert main([*shlex.split(line)[1:], *data, *more]) == 0
    with h5py.File("lift-scored.hdf5") as scored, h5py.File("lift-curated.hdf5") as curated:
        assert "sdil_keep" in scored["mask"]
        assert len(curated["data"]) > len(scored["data"])


def test_nothing_of_the_source_is_replaced(robomimic, tmp_path, capsys):
    data = f"{robomimic}?clean=better"
    score_all(data, tmp_path / "scores.csv")
    before = robomimic.read_bytes()
    export = ["export", tmp_path / "scores.csv", "--data", data, "--to"]
    assert run(*export, "same", "--curated", "--in-place") == 2
    assert "--in-place adds to a file" in capsys.readouterr().err
    assert run(*export, f"trim:{robomimic}", "--overwrite") == 2
    assert "not touched" in capsys.readouterr().err
    assert robomimic.read_bytes() == before


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:one clean trajectory")
def test_training_reads_a_source_to_its_end(robomimic, tmp_path, capsys):
    short = ["--max-updates", 20, "--min-updates", 20]
    options = ["--data", robomimic, "--clean", "better", "--out", tmp_path / "run", *short]
    assert run("train", "bc", *options) == 0
    assert "measure it with" in capsys.readouterr().out
