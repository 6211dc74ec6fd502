"""From Python as from the shell: one thread unless told, and how far it is in words."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

import sdil
from sdil.algorithms import JUDGES, LEARNERS
from sdil.algorithms.weighing import InnerJudge
from sdil.cores import wanted_threads
from sdil.evaluation.helped import did_it_help
from sdil.progress import WIDTH, Line, duration, in_notebook, line_of, showing

SHORT = {"max_updates": 5, "min_updates": 1}


@pytest.fixture
def demos():
    rng = np.random.default_rng(0)

    def some(n):
        return [
            sdil.Trajectory(rng.random((9, 2), np.float32), rng.integers(0, 2, 8)) for _ in range(n)
        ]

    return sdil.Demonstrations(clean=some(4), noisy=some(4))


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def threads_heard(seen):
    return lambda epoch: seen.append(torch.get_num_threads())


def test_every_learner_and_judge_takes_progress():
    for kind in (*LEARNERS.values(), *JUDGES.values(), InnerJudge):
        assert hasattr(kind.fit, "shows_progress"), kind


@pytest.mark.usefixtures("two_threads")
def test_fit_runs_on_one_thread_unless_told_and_restores_the_callers(demos):
    seen = []
    sdil.BC(**SHORT).fit(demos, on_epoch=threads_heard(seen))
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2
    seen = []
    with sdil.threads(2):
        assert wanted_threads() == 2
        sdil.BC(**SHORT).fit(demos, on_epoch=threads_heard(seen))
    assert set(seen) == {2}
    assert wanted_threads() == 1
    with pytest.raises(sdil.InputError, match="at least 1, not 0"):
        sdil.threads(0)
    with pytest.raises(RuntimeError):
        sdil.BC(**SHORT).fit(demos, on_epoch=raise_it)
    assert torch.get_num_threads() == 2


def raise_it(_):
    raise RuntimeError


@pytest.mark.usefixtures("two_threads")
def test_scoring_and_asking_whether_it_helped_run_on_one_thread_too(demos, monkeypatch):
    seen = []
    policy = sdil.WeightedBC(**SHORT).fit(demos)
    judged = type(policy.judge).judge

    def judge(self, packed):
        seen.append(torch.get_num_threads())
        return judged(self, packed)

    monkeypatch.setattr(type(policy.judge), "judge", judge)
    scores = policy.judge.score(demos.noisy)
    curated = sdil.curate(demos, scores, keep_share=0.5, min_length=1)
    told = threads_heard(seen)
    did_it_help(demos, curated, on_progress=lambda done, total: told(done))
    assert len(seen) > 1
    assert set(seen) == {1}
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_python_and_the_command_line_give_the_same_bits(demos, tmp_path):
    from safetensors.torch import load_file

    from sdil.cli import main

    sdil.save_demonstrations(demos, tmp_path / "d")
    short = ("--max-updates", "5", "--min-updates", "1")
    words = ("train", "weighted-bc", "--data", str(tmp_path / "d"), "--out", str(tmp_path / "run"))
    assert main([*words, *short]) == 0
    sdil.WeightedBC(**SHORT).fit(sdil.load_demonstrations(tmp_path / "d")).save(tmp_path / "mine")
    theirs, ours = (load_file(tmp_path / name / "policy.safetensors") for name in ("run", "mine"))
    assert theirs.keys() == ours.keys()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_progress_is_shown_when_asked_for(demos, tmp_path, capsys):
    sdil.BC(**SHORT).fit(demos)
    assert capsys.readouterr().err == ""
    sdil.BC(**SHORT).fit(demos, progress=True)
    said = capsys.readouterr().err
    assert "fitting bc: " in said
    assert " done, " in said
    assert " elapsed" in said
    assert said.rstrip(" ").endswith("\r")  # the line is gone at the end
    sdil.save_demonstrations(demos, tmp_path / "d")
    sdil.train(sdil.BC(**SHORT), tmp_path / "d", tmp_path / "run", progress=True)
    assert "training bc: " in capsys.readouterr().err
    scores = sdil.WeightedBC(**SHORT).fit(demos).score(demos.noisy)
    curated = sdil.curate(demos, scores, keep_share=0.5, min_length=1)
    did_it_help(demos, curated, progress=True)
    assert "does it help?: " in capsys.readouterr().err


def test_progress_is_shown_in_a_notebook(demos, capsys, monkeypatch):
    assert not in_notebook()
    monkeypatch.setattr("sdil.progress.in_notebook", lambda: True)
    sdil.BC(**SHORT).fit(demos)
    assert "fitting bc" in capsys.readouterr().err
    sdil.BC(**SHORT).fit(demos, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (59, "59 s"), (80, "1 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_in_words(seconds, words):
    assert duration(seconds) == words


def test_a_line_says_done_elapsed_and_left_within_80_columns():
    said = line_of("training sdil", 10, 40, 20.0)
    assert said == "training sdil: 10 of 40 done, 20 s elapsed, 1 min 0 s left"
    assert line_of("x", 0, 40, 3.0) == "x: 0 of 40 done, 3 s elapsed"
    assert line_of("x", 0, None, 3.0) == "x: 3 s elapsed"
    long = line_of("a name of a learner that goes on and on " * 3, 123456, 2000000, 4000)
    assert len(long) <= WIDTH
    assert long.endswith("123,456 of 2,000,000 done, 1 h 6 min elapsed, 16 h 53 min left")


def test_a_line_goes_on_while_nothing_is_heard():
    drawn = io.StringIO()
    line = Line("slow", drawn)
    line._write()
    line.close()
    assert not line._ticking.is_alive()
    with showing("other", drawn):
        pass
    assert "slow: 0 s elapsed" in drawn.getvalue()
