"""Run folders and judgement folders from Python."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest
import torch

import sdil
from sdil import InputError
from sdil.arguments import Arguments, arguments_of, read_run
from sdil.checkpoints import read_epochs
from sdil.cli import main
from sdil.cli.report import command_of
from sdil.moved import as_now

SHORT = sdil.SDIL(
    discovery_epochs=3,
    discovery_min_updates=1,
    n_skills=2,
    min_updates=20,
    max_updates=40,
    patience=20,
)
QUICK = sdil.Judge(clone_updates=40, distance_updates=40)


class KilledError(Exception):
    pass


def die_after(count):
    heard = []

    def on_epoch(epoch):
        heard.append(epoch)
        if len(heard) == count:
            raise KilledError

    return on_epoch


@pytest.fixture(scope="module")
def data(fourrooms, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "demos"
    demos, truth = fourrooms
    sdil.save_demonstrations(demos, folder, environment="sdil/fourrooms-v0", truth=truth)
    return folder


def test_a_run_says_what_it_was_given_and_not_how(data, tmp_path, monkeypatch):
    monkeypatch.chdir(data.parent)
    done = sdil.train(sdil.BC(max_updates=40), "demos", tmp_path / "run", seed=3)
    about = read_run(done.folder)
    assert "command" not in about
    assert about["data"] == str(data)  # whole, so that it can be resumed from anywhere
    assert (about["makes"], about["name"], about["seed"]) == ("policy", "bc", 3)
    assert about["hyperparameters"]["max_updates"] == 40
    assert done.epochs == len(json.loads((done.folder / "epochs.json").read_text()))
    again = sdil.load_policy(done.folder)
    seen = sdil.load_demonstrations(data).clean[0].observations
    np.testing.assert_array_equal(again.predict(seen)[0], done.result.predict(seen)[0])


SLOW = pytest.mark.slow


@pytest.mark.parametrize("stop", [pytest.param(1, marks=SLOW), 3, pytest.param(5, marks=SLOW)])
def test_a_judgement_resumes_bit_for_bit(data, tmp_path, stop):
    whole = sdil.judge(QUICK, data, tmp_path / "whole", seed=1)
    with pytest.raises(KilledError):
        sdil.judge(QUICK, data, tmp_path / "cut", seed=1, on_epoch=die_after(min(stop, 4)))
    resumed = sdil.resume(tmp_path / "cut")
    files = [f.folder / "judge.safetensors" for f in (whole, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not list(resumed.folder.glob("checkpoint-*"))
    with pytest.raises(InputError, match="is finished"):
        sdil.resume(tmp_path / "cut")


@pytest.mark.slow
def test_training_with_a_judge_resumes_bit_for_bit(data, tmp_path):
    judgement = sdil.judge(QUICK, data, tmp_path / "judgement")
    whole = sdil.train(SHORT, data, tmp_path / "whole", judge=judgement.folder)
    with pytest.raises(KilledError):
        sdil.train(SHORT, data, tmp_path / "cut", judge=judgement.result, on_epoch=die_after(4))
    assert (tmp_path / "cut" / "judge" / "judge.json").exists()
    resumed = sdil.resume(tmp_path / "cut")
    files = [f.folder / "policy.safetensors" for f in (whole, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not (resumed.folder / "judge").exists()
    assert read_run(resumed.folder)["judge"] == "evidence"
    assert sdil.load_policy(resumed.folder).judge.name == "evidence"


def test_the_truth_is_recorded_beside_the_losses(data, tmp_path):
    learner = replace(SHORT, noisy_share=0.0)  # else noisy steps may be left alone altogether
    done = sdil.train(learner, data, tmp_path / "run")
    epochs = json.loads((done.folder / "epochs.json").read_text())
    discover = [e for e in epochs if e["phase"] == "discover"]
    assert 0 <= discover[-1]["score_auroc"] <= 1
    assert epochs[-1]["bad_steps"] >= 0
    assert "bad_steps" not in discover[-1]


def test_a_learner_that_takes_the_truth_is_told_it(data, tmp_path, demos):
    oracle = sdil.Oracle(max_updates=20)
    assert sdil.train(oracle, data, tmp_path / "run").result.learner == "oracle"
    untold = tmp_path / "untold"
    sdil.save_demonstrations(demos, untold)
    with pytest.raises(InputError, match=r"has no truth.npz; oracle needs to be told"):
        sdil.train(oracle, untold, tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("learner", "more", "said"),
    [
        (sdil.BC(), {"judge": QUICK}, "bc has no use for a judge"),
        (SHORT, {"judge": QUICK, "clean_only": True}, "says nothing where only the clean set"),
        (SHORT, {"judge": "nowhere"}, "nowhere does not exist"),
        (sdil.BC(hidden=0), {}, "bc: hidden must be"),
        (sdil.BC(), {"seed": -1}, "a seed lies between"),
        (sdil.BC(), {"threads": 0}, "threads must be a whole number, at least 1"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(data, tmp_path, learner, more, said):
    if more.get("judge") is QUICK:
        more = more | {"judge": QUICK.fit(sdil.load_demonstrations(data))}
    with pytest.raises(InputError, match=said):
        sdil.train(learner, data, tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()


def test_two_trainings_in_one_folder_do_not_meet(data, tmp_path):
    """The live one is not called interrupted, and nobody resumes or replaces it."""
    out, said = tmp_path / "run", []

    def meddle(epoch):
        for attempt in (
            lambda: sdil.train(sdil.BC(max_updates=20), data, out),
            lambda: sdil.train(sdil.BC(max_updates=20), data, out, overwrite=True),
            lambda: sdil.resume(out),
        ):
            with pytest.raises(InputError, match="right now, by process") as refused:
                attempt()
            said.append(str(refused.value))

    done = sdil.train(sdil.BC(max_updates=20, min_updates=20), data, out, on_epoch=meddle)
    assert len(said) == 3
    assert f"by process {os.getpid()} on" in said[0]
    assert [p.name for p in tmp_path.iterdir()] == ["run"]
    assert done.result.learner == "bc"


def test_who_was_quicker_wins(data, tmp_path, monkeypatch):
    """Two that start at once: the slower one finds the other's run, and leaves it alone."""
    out, load = tmp_path / "run", sdil.runs.load_demonstrations
    quick = []

    def slow(folder):
        monkeypatch.setattr("sdil.runs.load_demonstrations", load)
        with pytest.raises(KilledError):  # the quicker one gets as far as its first checkpoint
            sdil.train(sdil.BC(max_updates=100), data, out, seed=5, on_epoch=die_after(1))
        quick.append((out / "run.json").read_bytes())
        return load(folder)

    monkeypatch.setattr("sdil.runs.load_demonstrations", slow)
    with pytest.raises(InputError, match="interrupted run; go on with"):
        sdil.train(sdil.BC(max_updates=20), data, out)
    assert (out / "run.json").read_bytes() == quick[0]
    assert sdil.resume(out).epochs == 5


@pytest.mark.slow
def test_a_killed_overwrite_loses_nothing(data, tmp_path):
    """The run that was there waits until the new one is finished."""
    out = tmp_path / "run"
    sdil.train(sdil.BC(max_updates=20), data, out, seed=1)
    good = (out / "policy.safetensors").read_bytes()
    command = [sys.executable, "-m", "sdil.cli", "train", "bc", "--data", str(data)]
    command += ["--out", str(out), "--overwrite", "--max-updates", "100000", "--patience", "100000"]
    process = subprocess.Popen(command)
    while process.poll() is None and not list(out.glob("checkpoint-*")):
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    aside = tmp_path / ".run.replaced"
    assert (aside / "policy.safetensors").read_bytes() == good
    way_back = f"bring it back with: rm -r {out} && mv {aside} {out}"
    with pytest.raises(InputError, match=f"interrupted run; go on with .*{way_back}"):
        sdil.train(sdil.BC(max_updates=20), data, out)
    with pytest.raises(InputError, match=f"policy.json is missing; .*{way_back}"):
        sdil.load_policy(out)
    with pytest.raises(KilledError):  # replaced once more, and killed again
        sdil.train(sdil.BC(max_updates=100), data, out, overwrite=True, on_epoch=die_after(2))
    assert (aside / "policy.safetensors").read_bytes() == good
    shutil.rmtree(out)
    with pytest.raises(InputError, match=f"bring it back with: mv {aside} {out}"):
        sdil.load_policy(out)
    with pytest.raises(InputError, match="bring it back with"):
        sdil.train(sdil.BC(max_updates=20), data, out)
    aside.rename(out)
    assert sdil.load_policy(out).learner == "bc"
    sdil.train(sdil.BC(max_updates=20), data, out, overwrite=True)
    assert not aside.exists()


def interrupted(data, out):
    with pytest.raises(KilledError):
        sdil.train(sdil.BC(max_updates=100), data, out, on_epoch=die_after(2))
    return out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "nobody"}, "damaged"),
        ({"name": None}, "damaged"),
        ({"makes": "tea"}, "makes is 'tea'"),
        ({"hyperparameters": []}, "hyperparameters is"),
        ({"hyperparameters": {"hidden": -3}}, "hidden must be"),
        ({"hyperparameters": {"width": 3}}, "width"),
        ({"seed": "0"}, "seed is '0'"),
        ({"seed": True}, "seed is True"),
        ({"data": None}, "data is None"),
        ({"threads": 1.5}, "threads is 1.5"),
        ({"fingerprint": 3}, "fingerprint is 3"),
        ({"fingerprint": "3"}, "has changed since"),
        ({"versions": []}, r"versions is \[\]"),
        ({"format": 1}, "format 1 is not the one"),
    ],
)
def test_a_damaged_run_is_one_clear_error(data, tmp_path, change, said):
    out = interrupted(data, tmp_path / "run")
    about = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps(about | change))
    with pytest.raises(InputError, match=said):
        sdil.resume(out)
    for name in about.keys() - {"device"}:  # folders of before have none
        (out / "run.json").write_text(json.dumps({k: v for k, v in about.items() if k != name}))
        with pytest.raises(InputError, match=r"missing|format None"):
            read_run(out)


def test_strange_checkpoints_are_passed_over_and_damaged_ones_named(data, tmp_path):
    out = interrupted(data, tmp_path / "run")
    (out / "checkpoint-a.safetensors").write_text("not ours")
    last = out / "checkpoint-2.safetensors"
    last.write_bytes(last.read_bytes()[:100])
    with pytest.raises(InputError, match=r"checkpoint-2.safetensors: damaged .* delete it"):
        sdil.resume(out)
    last.unlink()
    whole = sdil.train(sdil.BC(max_updates=100), data, tmp_path / "whole")
    resumed = sdil.resume(out)
    files = [f.folder / "policy.safetensors" for f in (whole, resumed)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert (out / "checkpoint-a.safetensors").exists()


@pytest.mark.parametrize("wrong", [{}, [1], [{"phase": "clone"}], "text"])
def test_damaged_epochs_are_named(data, tmp_path, wrong):
    done = sdil.train(sdil.BC(max_updates=20), data, tmp_path / "run")
    (done.folder / "epochs.json").write_text(json.dumps(wrong))
    with pytest.raises(InputError, match=r"epochs.json: damaged"):
        read_epochs(done.folder)


def test_a_run_is_resumed_from_any_place(data, tmp_path, monkeypatch):
    monkeypatch.chdir(data.parent)
    with pytest.raises(KilledError):
        sdil.train(sdil.BC(max_updates=60), "demos", tmp_path / "run", on_epoch=die_after(1))
    monkeypatch.chdir(tmp_path)
    assert sdil.resume("run").epochs == 3


def test_a_judgement_is_no_run_and_a_run_no_judgement(data, tmp_path, capsys):
    run = interrupted(data, tmp_path / "run")
    with pytest.raises(KilledError):
        sdil.judge(QUICK, data, tmp_path / "judgement", on_epoch=die_after(1))
    assert main(["judge", "--resume", str(run)]) == 2
    assert f"sdil train --resume {run}" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path / "judgement")]) == 2
    assert f"sdil judge --resume {tmp_path / 'judgement'}" in capsys.readouterr().err


def test_threads_are_as_they_were(data, tmp_path):
    before = torch.get_num_threads()
    sdil.train(sdil.BC(max_updates=20), data, tmp_path / "run", threads=before + 1)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(
    "learner", [sdil.SDIL.paper(), sdil.SDIL(hidden=32, next_state=False, mi_weight=0.5)]
)
def test_the_command_of_a_run_makes_it_again(data, tmp_path, learner):
    quick = replace(learner, discovery_epochs=1, discovery_min_updates=1, max_updates=20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so little training leaves skills unused
        done = sdil.train(quick, data, tmp_path / "run", seed=4)
        words = shlex.split(command_of(read_run(done.folder), tmp_path / "again"))
        assert words[0] == "sdil"
        assert main(words[1:]) == 0
    files = [tmp_path / name / "policy.safetensors" for name in ("run", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_judge_that_would_not_be_asked_is_refused(demos):
    given = QUICK.fit(demos)
    with pytest.raises(InputError, match="would not be asked"):
        sdil.SDIL(score="pu").fit(demos, judge=given)
    for learner in (SHORT, sdil.ScoredBC(max_updates=20)):
        with pytest.raises(InputError, match="would not be asked"):
            learner.fit(demos.clean_only(), judge=given)


def test_fields_that_are_gone_are_left_out_of_what_files_of_before_note():
    assert as_now({"n_skills": 4, "score_by_likelihood": False}) == {"n_skills": 4}
    with pytest.raises(InputError, match="earlier version, with score_by_likelihood; begin anew"):
        as_now({"score_by_likelihood": True})
    noted = {**asdict(sdil.SDIL(n_skills=4)), "score_by_likelihood": False}
    about = dict.fromkeys(get_type_hints(Arguments))
    about |= {"makes": "policy", "name": "sdil", "hyperparameters": noted, "seed": 0}
    assert arguments_of(about, Path("run")).maker() == sdil.SDIL(n_skills=4)
