"""`sdil curate`, from a trained run to a new folder."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pytest
from minari import MinariDataset
from test_cli import run

import sdil
import sdil.judges.joining
from sdil.cli.curate import _cut_truth
from sdil.cli.helped import why_recommended
from sdil.curation import Curated, Piece


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Demonstrations whose bad stretches are known, and a run that judges steps."""
    place = tmp_path_factory.mktemp("curate")
    options = ["--clean", 12, "--noisy", 15, "--noise", "segments", "--out", place / "demos"]
    assert run("collect", "fourrooms", *options) == 0
    demos, truth = sdil.load_demonstrations(place / "demos"), sdil.load_truth(place / "demos")
    noisy = [
        sdil.Trajectory(t.observations, t.actions, t.rewards, t.terminated, t.id, f"worker {i % 2}")
        for i, t in enumerate(demos.noisy)
    ]
    demos = sdil.Demonstrations(demos.clean, noisy, demos.spaces)
    more = {"task": "fourrooms", "environment": "sdil/fourrooms-v0", "truth": truth}
    sdil.save_demonstrations(demos, place / "demos", **more, overwrite=True)
    short = ["--max-updates", 200, "--min-updates", 100]
    data = ["--data", place / "demos", "--out", place / "run"]
    assert run("train", "weighted-bc", *data, *short) == 0
    return place


@pytest.fixture
def curate(place, tmp_path):
    """Run the command; the new folder."""

    def command(*options: object, out: str = "new", code: int = 0) -> Path:
        places = ["--data", place / "demos", "--out", tmp_path / out]
        assert run("curate", place / "run", *places, *options) == code
        return tmp_path / out

    return command


def test_a_new_folder_holds_what_was_kept_and_says_where_from(place, curate, capsys):
    before = sdil.load_demonstrations(place / "demos").fingerprint()
    capsys.readouterr()
    out = curate("--keep-above", 0.0)
    text = capsys.readouterr().out
    assert "precision" in text
    assert "worker 1" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "│" in line)
    old, new = sdil.load_demonstrations(place / "demos"), sdil.load_demonstrations(out)
    assert old.fingerprint() == before
    assert new.clean == old.clean
    assert 0 < new.noisy.n_steps < old.noisy.n_steps
    about = json.loads((out / "curated.json").read_text())
    assert about["fingerprint"] == before
    assert [e["id"] for e in about["episodes"]] == list(new.noisy.ids)
    judged = dict(zip(old.noisy.ids, sdil.load_policy(place / "run").score(old.noisy), strict=True))
    sources = {t.id: t for t in old.noisy}
    metadata = MinariDataset(out / "noisy-v0" / "data").storage.get_episode_metadata(
        range(len(new.noisy))
    )
    for told, t, minari in zip(about["episodes"], new.noisy, metadata, strict=True):
        steps = slice(told["start"], told["stop"])
        np.testing.assert_array_equal(t.actions, sources[told["source"]].actions[steps])
        assert t.group == sources[told["source"]].group
        scores = judged[told["source"]].optimality[steps]
        assert (scores >= 0).all()  # with one signal, segments are runs on one side of 0
        assert told["optimality"] == told["how_well"] == pytest.approx(scores.mean())
        assert (minari["source"], minari["start"]) == (told["source"], told["start"])


def test_the_truth_goes_along(place, curate, capsys):
    capsys.readouterr()
    out = curate("--keep-above", 0.0, "--json")
    summary = json.loads(capsys.readouterr().out)
    old, new = sdil.load_truth(place / "demos"), sdil.load_truth(out)
    episodes = json.loads((out / "curated.json").read_text())["episodes"]
    at = {name: i for i, name in enumerate(sdil.load_demonstrations(place / "demos").noisy.ids)}
    for told, good, segment in zip(episodes, new.noisy_good, new.noisy_segment, strict=True):
        steps, source = slice(told["start"], told["stop"]), at[told["source"]]
        np.testing.assert_array_equal(good, old.noisy_good[source][steps])
        np.testing.assert_array_equal(segment, old.noisy_segment[source][steps])
    assert new.segment_names == old.segment_names
    good = np.concatenate(new.noisy_good)
    all_good = np.concatenate(old.noisy_good).sum()
    assert summary["truth"]["precision"] == pytest.approx(good.mean())
    assert summary["truth"]["recall"] == pytest.approx(good.sum() / all_good)
    assert summary["steps"]["kept"] == len(good)
    kept = sum(g["kept"] for g in summary["groups"].values())
    assert kept == summary["steps"]["kept"]


def test_scores_lie_beside_it_with_a_row_per_original_step(place, curate):
    out = curate("--keep-share", 0.5)
    old, new = sdil.load_demonstrations(place / "demos"), sdil.load_demonstrations(out)
    table = duckdb.sql(f"SELECT * FROM '{out / 'scores.parquet'}'")
    expected = "set episode step optimality segment segment_optimality kept weight"
    assert table.columns == expected.split()
    rows = table.fetchall()
    assert len(rows) == old.all.n_steps
    assert sum(kept for *_, kept, _ in rows if kept) == new.all.n_steps
    assert {(kept, weight) for *_, kept, weight in rows} == {(True, 1.0), (False, 0.0)}


def test_a_threshold_of_minus_one_gives_the_same_demonstrations(place, curate):
    out = curate("--keep-above", -1)
    old, new = sdil.load_demonstrations(place / "demos"), sdil.load_demonstrations(out)
    assert new.fingerprint() == old.fingerprint()
    assert run("train", "bc", "--data", out, "--out", out.parent / "bc", "--max-updates", 20) == 0


def test_weights_keep_every_step(place, curate, capsys):
    out = curate("--weights")
    assert "how much each should weigh" in capsys.readouterr().out
    old, new = sdil.load_demonstrations(place / "demos"), sdil.load_demonstrations(out)
    assert new == old
    wrong = duckdb.sql(
        f"SELECT count(*) FROM '{out / 'scores.parquet'}'"
        " WHERE set = 'noisy' AND abs(weight - (1 + optimality) / 2) > 1e-9"
    ).fetchall()
    assert wrong == [(0,)]


def test_a_downloaded_selection(place, curate, tmp_path, capsys):
    demos = sdil.load_demonstrations(place / "demos")
    name = demos.noisy.ids[3]
    chosen = {
        "format": "sdil-selection",
        "version": 1,
        "fingerprint": demos.fingerprint(),
        "threshold": 0.2,
        "segments": [{"set": "noisy", "episode": name, "start": 1, "stop": 3}],
    }
    file = tmp_path / "choice.json"
    file.write_text(json.dumps(chosen))
    out = curate("--selection", file)
    assert sdil.load_demonstrations(out).noisy.ids == (f"{name}[1:3]",)
    file.write_text(json.dumps({**chosen, "fingerprint": "of another"}))
    capsys.readouterr()
    curate("--selection", file, out="other", code=2)
    assert f"{file}: it was made for other demonstrations" in capsys.readouterr().err


def test_whole_episodes(place, curate, capsys):
    capsys.readouterr()
    out = curate("--by", "episode", "--keep-share", 0.4, "--json")
    told = json.loads(capsys.readouterr().out)
    old, new = sdil.load_demonstrations(place / "demos"), sdil.load_demonstrations(out)
    assert set(new.noisy.ids) < set(old.noisy.ids)
    assert 0.4 <= new.noisy.n_steps / old.noisy.n_steps < 0.7
    assert told["by"] == json.loads((out / "curated.json").read_text())["by"] == "episode"
    scores = sdil.load_policy(place / "run").score(old.noisy)
    well = {name: score.how_well() for name, score in zip(old.noisy.ids, scores, strict=True)}
    kept = {name: well.pop(name) for name in new.noisy.ids}
    assert min(kept.values()) >= max(well.values())


def test_single_steps_are_kept_with_a_warning(curate, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        curate("--by", "step", "--keep-above", 0.0, "--no-check")
    assert "warning: single steps are kept" in capsys.readouterr().err
    curate("--by", "segment", "--keep-above", 0.0, "--no-check", out="other")
    assert not capsys.readouterr().err


def test_it_says_whether_it_helped(curate, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    capsys.readouterr()
    out = curate("--keep-share", 0.5, "--seed", 3)
    text = capsys.readouterr().out
    assert text.index("written to") < text.index("does it help?")
    assert all(len(line) <= 80 for line in text.splitlines() if "│" in line)
    assert all(f"│ {name}" in text for name in ("clean", "all", "curated", "weighted", "random"))
    noted = json.loads((out / "curated.json").read_text())["helped"]
    assert noted["sentence"] in " ".join(text.split())
    told = text[text.index("does it help?") :].splitlines()
    assert max(map(len, told)) <= 80
    assert f"recommended: clean {'alone' if noted['recommended'] == 'clean' else '+ '}" in text
    assert (noted["groups"], noted["folds"], noted["seed"]) == (12, 10, 3)
    assert "one standard error of the difference over groups; the verdict asks for 95%" in " ".join(
        text.split()
    )
    if noted["recommended"] == "weighted":
        assert f"(--weights --power {noted['power']:g})" in text
    curate("--keep-share", 0.5, "--seed", 3, "--json", out="again")
    assert json.loads(capsys.readouterr().out)["helped"] == noted
    sdil.load_demonstrations(out)  # as it was written


@pytest.mark.parametrize(
    ("row", "rows", "why"),
    [
        ("weighted", "clean all curated weighted random", "since neither clean alone nor clean + "),
        ("clean", "clean all weighted random", "whose NLL is lower than that of clean + weighted "),
        (
            "curated",
            "clean all curated random",
            "whose NLL is the lowest; the verdict asks for 95%",
        ),
    ],
)
def test_a_recommendation_says_by_what_rule(row, rows, why):
    said = why_recommended(row, rows.split())
    assert said.startswith(why)
    assert ("one standard error" in said) == ("weighted" in rows)


def test_weights_are_sharpened_by_a_power(curate, capsys):
    plain, sharp = (
        curate("--weights", "--power", power, "--no-check", out=f"power-{power}")
        for power in (1.0, 2.0)
    )
    by_power = [
        duckdb.sql(f"SELECT weight FROM '{out / 'scores.parquet'}'").fetchnumpy()["weight"]
        for out in (plain, sharp)
    ]
    assert (by_power[0] < 1).any()  # clean steps weigh 1
    np.testing.assert_allclose(by_power[1], by_power[0] ** 2, rtol=1e-5)
    assert json.loads((sharp / "curated.json").read_text())["power"] == 2.0
    curate("--weights", "--power", 0.0, out="never", code=2)
    assert "power must be above 0" in capsys.readouterr().err


def test_the_check_can_be_left_out(curate, capsys, monkeypatch):
    monkeypatch.setattr("sdil.evaluation.helped.did_it_help", None)  # not called
    capsys.readouterr()
    out = curate("--keep-share", 0.5, "--no-check", "--json")
    assert json.loads(capsys.readouterr().out)["helped"] is None
    assert json.loads((out / "curated.json").read_text())["helped"] is None
    curate("--keep-share", 0.5, "--no-check", out="other")
    assert "help" not in capsys.readouterr().out


def test_stopping_the_check_leaves_a_whole_folder(place, curate, capsys, monkeypatch):
    def stop(*_: object, on_progress, **__: object) -> None:
        on_progress(1, 2)
        raise KeyboardInterrupt

    monkeypatch.setattr("sdil.evaluation.helped.did_it_help", stop)
    out = curate("--keep-share", 0.5, code=130)
    assert f"{out} is whole, but whether it helps was not measured" in capsys.readouterr().err
    assert sdil.load_demonstrations(out).noisy.n_steps > 0
    assert sdil.load_truth(out) is not None
    assert json.loads((out / "curated.json").read_text())["helped"] is None
    assert sorted(p.name for p in out.parent.iterdir()) == [out.name]


def test_what_the_judge_does_not_answer_is_refused(curate, capsys, monkeypatch):
    said = {"step": "no signal is heard"}
    monkeypatch.setattr("sdil.judging.FittedJudge.unknown", said)
    out = curate("--keep-above", 0.0, code=2)
    err = capsys.readouterr().err
    assert "no signal is heard; --by episode asks another question" in err
    assert not out.exists()
    curate("--by", "episode", "--keep-share", 0.5, "--no-check")


def test_a_set_that_may_be_all_good_is_kept_whole(place, curate, capsys, monkeypatch):
    maybe = sdil.judges.joining.GoodShare(0.97, 0.84, 1.0)
    monkeypatch.setattr("sdil.judging.FittedJudge.good_share", maybe, raising=False)
    said = (
        "the noisy set cannot be told from a good one (97% good, 84% to 100%): nothing is dropped"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        out = curate("--keep-above", 0.5, "--no-check")
    assert f"warning: {said}" in capsys.readouterr().err
    old = sdil.load_demonstrations(place / "demos")
    assert sdil.load_demonstrations(out).fingerprint() == old.fingerprint()
    assert json.loads((out / "curated.json").read_text())["summary"]["why_all"] == said
    out = curate("--keep-share", 0.5, "--no-check", out="ordered")
    assert sdil.load_demonstrations(out).noisy.n_steps < old.noisy.n_steps
    assert "nothing is dropped" not in capsys.readouterr().err
    about = json.loads((place / "run" / "run.json").read_text())
    other = out.parent / "other-run"
    shutil.copytree(place / "run", other)
    (other / "run.json").write_text(json.dumps({**about, "fingerprint": "of other data"}))
    options = ["--data", place / "demos", "--out", out.parent / "elsewhere", "--no-check"]
    assert run("curate", other, *options, "--keep-above", 0.0) == 0  # the share is not of these
    assert "nothing is dropped" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give one of --keep-above, --keep-share and --selection"),
        (["--keep-above", 0, "--keep-share", 0.5], "give one of --keep-above"),
        (["--keep-above", 2], "--keep-above lies in [-1, 1]"),
        (["--keep-above", 1, "--min-length", 50], "nothing of the noisy set would be kept"),
        (["--selection", "nowhere.json"], "nowhere.json does not exist"),
        (["--keep-above", 0, "--by", "luck"], "invalid choice"),
        (["--keep-above", 0, "--seed", -1], "--seed lies between"),
        (["--keep-above", 0, "--threads", 0], "--threads must be at least 1"),
        (["--weights", "--to", "trim:x.csv"], "--to trim lists what to leave out, and --weights"),
        (["--weights", "--to", "delete-command"], "give --keep-above or --keep-share in the place"),
    ],
)
def test_bad_input_leaves_nothing_behind(curate, options, message, capsys):
    out = curate(*options, code=2)
    assert message in capsys.readouterr().err
    assert not list(out.parent.iterdir())


def test_the_original_is_never_touched(place, capsys):
    before = sorted(p.name for p in (place / "demos").iterdir())
    for out in (place / "demos", place / "demos" / "new", place):
        options = ["--data", place / "demos", "--out", out, "--keep-above", 0, "--overwrite"]
        assert run("curate", place / "run", *options) == 2
        assert "never touched" in capsys.readouterr().err
    assert sorted(p.name for p in (place / "demos").iterdir()) == before


@pytest.mark.parametrize(("which", "other"), [("clean", "noisy"), ("noisy", "clean")])
def test_sub_skills_are_cut_with_their_steps(which, other):
    demos, truth = sdil.get_task("errands").collect(clean=2, noisy=2, seed=0)
    piece = Piece(f"{which}-1[2:5]", f"{which}-1", 2, 5, optimality=0.0, how_well=0.0, at=1)
    curated = Curated(demos, which, "segment", [piece], kept=[], weights=[], stretches=np.empty(0))
    cut, whole = _cut_truth(truth, curated), getattr(truth, f"{which}_skill")
    assert [a.tolist() for a in getattr(cut, f"{which}_skill")] == [whole[1][2:5].tolist()]
    assert getattr(cut, f"{other}_skill") is getattr(truth, f"{other}_skill")
