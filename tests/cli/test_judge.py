"""`sdil judge`, and the commands that take a judgement as they take a run."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout

import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.cli.chosen import say_clean
from sdil.cli.judge import _report
from sdil.explanation.record import Explanation
from sdil.runs import Finished

pytestmark = pytest.mark.xdist_group("judge")  # dear fixtures: one worker makes them

QUICK = ("--clone-updates", 40, "--distance-updates", 40, "--outcome-updates", 40)


def run(*arguments: object) -> int:
    """The exit code of a command run in this process."""
    try:
        return main([str(a) for a in arguments])
    except SystemExit as stop:  # tyro's way to refuse
        return int(stop.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("judge") / "demos"
    assert run("collect", "fourrooms", "--clean", 10, "--noisy", 20, "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def judgement(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("judged") / "judgement"
    assert run("judge", "--data", folder, "--out", out, *QUICK) == 0
    return out


def test_it_says_what_it_heard(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run("judge", "--data", folder, "--out", tmp_path / "j", *QUICK) == 0
    text = capsys.readouterr().out
    assert "judged by evidence in" in text
    assert all(name in text for name in ("likelihood", "progress", "value", "heard"))
    assert "noisy steps score above 0" in text
    for_steps, for_episodes = text.split("what was listened to for ")[1:]
    assert for_steps.startswith("steps: is this action right here?")
    assert for_episodes.startswith("episodes: how well did this go?")
    assert "│ value" in for_steps
    assert "│ value" not in for_episodes
    assert "│ pace" in for_episodes
    share = sdil.load_judge(tmp_path / "j").good_share
    point, low, high = (f"{x:.0%}" for x in (share.point, share.low, share.high))
    assert f"estimated share of good noisy steps: {point} ({low} to {high})" in text
    assert max(len(line) for line in text.splitlines() if "│" in line) <= 80
    assert run("judge", "dwbc", "--data", folder, "--out", tmp_path / "d", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["judge"] == "dwbc"
    assert told["clean_episodes"] == list(sdil.load_demonstrations(folder).clean.ids)
    assert told["signals"][0]["heard"] is True
    assert told["signals"][0]["output"] == "step"
    assert (told["unknown"], told["good_share"], told["odd"]) == ({}, None, {})
    assert 0 <= told["good"] <= 1


@pytest.mark.slow
def test_fields_are_the_judges_own(folder, tmp_path, capsys):
    options = ["--data", folder, "--out", tmp_path / "j"]
    assert run("judge", "pu", *options, "--discovery-epochs", 1, "--n-skills", 3) == 0
    assert json.loads((tmp_path / "j" / "run.json").read_text())["hyperparameters"]["n_skills"] == 3
    assert run("judge", *options) == 2
    assert "exists already" in capsys.readouterr().err
    assert run("judge", *options, "--overwrite", "--signals", "luck") == 2
    assert "evidence: signals must be some of" in capsys.readouterr().err
    assert run("judge", "nobody", *options) == 2
    assert "there is no judge 'nobody'" in capsys.readouterr().err
    assert run("judge") == 2


def test_what_it_does_not_know_it_says(folder, judgement, tmp_path, capsys, monkeypatch):
    unknown = {"step": "which steps are good is unknown: few clean groups"}
    monkeypatch.setattr("sdil.judges.fitted.EvidenceJudge.unknown", unknown)
    options = ["--data", folder, "--out", tmp_path / "j", *QUICK]
    assert run("judge", *options) == 0
    text = capsys.readouterr().out
    assert unknown["step"] in text
    assert "score above 0" not in text
    assert "share of good" not in text
    assert run("judge", *options, "--overwrite", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unknown"] == unknown
    assert told["good"] is told["mean"] is told["good_share"] is None
    assert {s["output"] for s in told["signals"]} == {"step", "episode"}
    assert run("score", judgement, "--data", folder, "--worst", 3) == 0
    text = capsys.readouterr().out
    assert unknown["step"] in text
    assert "worst segments" not in text
    assert "worst episodes, by how well they went" in text
    assert run("score", judgement, "--data", folder, "--worst", 3, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["unknown"] == unknown
    assert told["worst"] == told["best"] == []
    assert told["noisy"]["mean"] is told["noisy"]["auroc"] is None
    short = ["--max-updates", 20, "--min-updates", 20, "--judge", judgement]
    assert run("train", "scored-bc", "--data", folder, "--out", tmp_path / "run", *short) == 0
    assert unknown["step"] in " ".join(capsys.readouterr().out.split())


def test_odd_clean_demonstrations_are_named(folder, judgement, capsys, tmp_path):
    odd = sdil.load_judge(judgement)
    odd.odd = {"clean-3": "its steps are rated -3.0 in log-odds, the others' +1.0"}
    odd.save(tmp_path / "odd")
    for name in ("run.json", "epochs.json"):
        shutil.copy(judgement / name, tmp_path / "odd")
    done = Finished(tmp_path / "odd", 1, 1.0, {}, sdil.load_judge(tmp_path / "odd"))
    _report(done, False)
    assert "odd clean demonstrations: clean-3: its steps are rated" in capsys.readouterr().out
    _report(done, True)
    assert json.loads(capsys.readouterr().out)["odd"] == odd.odd
    page, record = tmp_path / "odd.html", tmp_path / "record"
    assert run("report", tmp_path / "odd", "--out", page, "--record", record, "--no-rollouts") == 0
    assert "Odd clean demonstrations, worth a look: clean-3" in page.read_text()
    kept = Explanation.load(record)
    scores = odd.score(sdil.load_demonstrations(folder).all)
    for name in ("quality", "integrity"):
        expected = np.concatenate([getattr(s, name) for s in scores])
        np.testing.assert_allclose(getattr(kept.scores, name), expected, atol=1e-6)
    assert kept.about["good_share"]["point"] == odd.good_share.point


def test_episodes_are_ranked_by_how_well_they_went(folder, judgement, capsys):
    options = ["score", judgement, "--data", folder, "--set", "both", "--worst", 4]
    assert run(*options, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    demos, judge = sdil.load_demonstrations(folder), sdil.load_judge(judgement)
    well = {
        (name, episode): scores.how_well()
        for name, sets in (("clean", demos.clean), ("noisy", demos.noisy))
        for episode, scores in zip(sets.ids, judge.score(sets), strict=True)
    }
    order = sorted(well, key=well.__getitem__)
    found = told["episodes"]
    assert [(e["set"], e["episode"]) for e in found["worst"]] == order[:4]
    assert [e["quality"] for e in found["best"]] == [well[name] for name in order[::-1][:4]]
    judged = judge.score(demos.noisy)
    integrity = np.concatenate([s.integrity for s in judged])
    assert told["noisy"]["integrity"] == pytest.approx(np.nanmean(integrity))
    quality = np.concatenate([s.quality for s in judged])
    assert told["noisy"]["quality"] == pytest.approx(quality.mean())
    assert run(*options) == 0
    text = capsys.readouterr().out
    assert all(words in text for words in ("mean quality", "mean integrity", order[0][1]))
    assert text.index("worst episodes, by how well they went") < text.index("best episodes")


@pytest.mark.parametrize("name", ["worst", "best"])
def test_segments_are_ranked(folder, judgement, capsys, name):
    assert run("score", judgement, "--data", folder, "--worst", 7, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    totals = [s["optimality"] * (s["stop"] - s["start"]) for s in told[name]]
    assert len(totals) == 7
    assert totals == sorted(totals, reverse=name == "best")
    assert run("score", judgement, "--data", folder) == 0
    text = capsys.readouterr().out
    assert f"{name} segments" in text
    assert told[name][0]["episode"] in text


def test_a_table_is_what_its_name_says(folder, judgement, tmp_path, capsys):
    table = tmp_path / "x.csv"
    assert run("score", judgement, "--data", folder, "--out", table) == 0
    with table.open() as file:
        rows = list(csv.DictReader(file))
    demos = sdil.load_demonstrations(folder)
    assert len(rows) == demos.noisy.n_steps
    score = sdil.load_judge(judgement).score(demos.noisy)[0]
    assert float(rows[0]["optimality"]) == pytest.approx(score.optimality[0])
    assert float(rows[0]["quality"]) == pytest.approx(score.quality[0])
    for part, values in score.quality_parts.items():
        assert float(rows[0][f"quality_{part}"]) == pytest.approx(values[0])
    assert float(rows[0]["integrity"]) == pytest.approx(score.integrity[0], nan_ok=True)
    assert run("score", judgement, "--data", folder, "--out", tmp_path / "x.txt") == 2
    assert "must end in .parquet or .csv" in capsys.readouterr().err
    assert not (tmp_path / "x.txt").exists()


@pytest.mark.slow
def test_curate_and_train_take_a_judgement(folder, judgement, tmp_path, capsys):
    curated = ["curate", judgement, "--data", folder, "--keep-share", 0.5]
    assert run(*curated, "--out", tmp_path / "curated") == 0
    made = json.loads((tmp_path / "curated" / "curated.json").read_text())
    assert made["learner"] == "evidence"
    short = ["--max-updates", 20, "--min-updates", 20]
    options = ["--data", folder, "--out", tmp_path / "run", "--judge", judgement]
    assert run("train", "scored-bc", *options, *short) == 0
    assert "steps were judged by evidence, which heard: " in capsys.readouterr().out
    assert sdil.load_policy(tmp_path / "run").judge.hyperparameters["clone_updates"] == 40
    capsys.readouterr()
    assert run("train", "bc", *options[:2], "--out", tmp_path / "bc", "--judge", judgement) == 2
    assert "bc has no use for a judge" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_of_a_judgement_and_of_what_was_saved_by_hand(folder, judgement, tmp_path, capsys):
    page = tmp_path / "judged.html"
    assert run("report", judgement, "--out", page) == 0
    assert "<title>evidence on fourrooms" in page.read_text()
    policy = sdil.DWBC(max_updates=20, min_updates=20).fit(sdil.load_demonstrations(folder))
    policy.save(tmp_path / "by-hand")
    by_hand = ["report", tmp_path / "by-hand", "--out", tmp_path / "by-hand.html", "--no-rollouts"]
    capsys.readouterr()
    assert run(*by_hand) == 2
    assert "pass --data FOLDER" in capsys.readouterr().err
    assert run(*by_hand, "--data", folder) == 0
    assert "<title>dwbc on fourrooms" in (tmp_path / "by-hand.html").read_text()
    policy.judge.save(tmp_path / "judge-by-hand")
    options = ["--data", folder, "--out", tmp_path / "j.html"]
    assert run("report", tmp_path / "judge-by-hand", *options) == 0


def test_what_judges_nothing_is_told_apart(folder, tmp_path, capsys):
    options = ["--data", folder, "--out", tmp_path / "bc", "--max-updates", 20]
    assert run("train", "bc", *options) == 0
    for command in (["score"], ["report", "--out", tmp_path / "x.html"]):
        name, *rest = command
        assert run(name, tmp_path / "bc", "--data", folder, *rest) == 2
        assert "bc does not judge steps" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_it_goes_on(folder, tmp_path):
    command = [sys.executable, "-m", "sdil.cli", "judge", "--data", str(folder), "--out"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "cut")],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # in the background, too
    )
    while process.poll() is None and not list((tmp_path / "cut").glob("checkpoint-*")):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert f"  sdil judge --resume {tmp_path / 'cut'}" in said.splitlines()  # to be copied
    assert run("judge", "--resume", tmp_path / "cut") == 0
    assert run("judge", "--data", folder, "--out", tmp_path / "whole") == 0
    files = [tmp_path / name / "judge.safetensors" for name in ("cut", "whole")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_judgement_that_is_not_there_is_said_so(tmp_path, capsys):
    assert main(["score", str(tmp_path / "nothing")]) == 2
    assert "nothing does not exist" in capsys.readouterr().err


def write_steps(path, *, ordered=True):
    """A table of 12 episodes, of which every third succeeded."""
    random = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        names = ["episode", "step", "obs_a", "obs_b", "action_0", "success"]
        table.writerow(names if ordered else [n for n in names if n != "step"])
        for episode in range(12):
            for step in range(6):
                seen, good = random.normal(size=2).round(3), episode % 3 == 0
                done = round(-seen[0] if good else random.normal(), 3)
                row = [f"ep_{episode}", step, *seen, done, int(good)]
                table.writerow(row if ordered else [*row[:1], *row[2:]])
    return path


@pytest.fixture(scope="module")
def judged_table(tmp_path_factory):
    """A judgement of a table without a column for the order of steps, and what was printed."""
    place = tmp_path_factory.mktemp("table")
    data, out = write_steps(place / "steps.csv", ordered=False), place / "judgement"
    words, said = ["--data", data, "--out", out], io.StringIO()
    with redirect_stdout(said):
        assert run("judge", "dwbc", *words, "--clean", "success and steps < 30") == 0
    return out, said.getvalue()


def test_it_says_which_episodes_are_clean(judged_table, capsys):
    out, said = judged_table
    lines = said.splitlines()
    clean = "clean: 4 of 12 episodes (success and steps < 30): ep_0, ep_3, ep_6, ep_9"
    assert clean in lines
    assert run("score", out) == 0
    assert "clean: " not in capsys.readouterr().out  # it is what was judged
    assert run("score", out, "--clean", "0-1") == 0
    assert "clean: 2 of 12 episodes (0-1): ep_0, ep_1" in capsys.readouterr().out.splitlines()


def test_a_table_without_an_order_of_steps_is_said_to_be_one(judged_table, tmp_path, capsys):
    note = "note: no column orders the steps: the file's order is taken ({} names one)"
    assert note.format("?time=") in judged_table[1].splitlines()
    bare = write_steps(tmp_path / "bare.csv", ordered=False)
    ordered = write_steps(tmp_path / "ordered.csv")
    for data, told in ((bare, 1), (ordered, 0)):
        for command in (["inspect"], ["import", "--clean", "0-3", "--out", tmp_path / data.stem]):
            assert run(*command[:1], data, *command[1:]) == 0
            assert capsys.readouterr().out.splitlines().count(note.format("--time")) == told
        assert run("inspect", data, "--json") == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert sum("orders the steps" in said for said in notes) == told
        assert sum("may hold bad steps" in said for said in notes) == 1  # --clean success


def test_help_names_the_options_of_other_peoples_data(capsys):
    assert run("judge", "--help") == 0
    text = capsys.readouterr().out
    for option in ("data", "out", "clean", "features", "actions", "image-size", "every", "json"):
        assert f"\n  --{option} " in text
    assert "sdil inspect PATH" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_line_names_as_many_clean_episodes_as_it_has_room_for():
    names = [f"ep_{i}" for i in range(12)]
    said = say_clean("success and steps < 300", names, 40)
    assert said.startswith("clean: 12 of 40 episodes (success and steps < 300): ep_0, ep_1, ")
    shown = said.count("ep_")
    assert said.endswith(f", ... and {12 - shown} more")
    assert 70 < len(said) <= 80
    assert say_clean("x" * 99, ["y" * 99], 2) == f"clean: 1 of 2 episodes ({'x' * 33}...)"
    assert say_clean("a\nb", ["1"], 2).isprintable()
