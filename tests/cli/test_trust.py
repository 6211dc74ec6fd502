"""An environment that a file names runs nobody's code, unless the user names it too."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import sdil
from sdil.cli import main

FOREIGN = "evilmod:evil-v0"
SHORT = ("--env-steps", 256, "--n-envs", 8, "--round-steps", 16, "--max-updates", 20)


def run(*arguments: object) -> int:
    return main([str(a) for a in arguments])


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that leaves a file behind when it is imported; its environment is FourRooms."""
    (tmp_path / "code").mkdir()
    mark = tmp_path / "imported"
    (tmp_path / "code" / "evilmod.py").write_text(
        f"import gymnasium as gym\nopen({str(mark)!r}, 'w').close()\n"
        "gym.register('evil-v0', 'sdil.tasks.fourrooms:FourRooms')\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "code")
    yield mark
    sys.modules.pop("evilmod", None)
    gym.registry.pop("evil-v0", None)


@pytest.fixture
def data(tmp_path, demos) -> Path:
    """Demonstrations from somebody who names an environment of theirs."""
    sdil.save_demonstrations(demos, tmp_path / "demos", task="fourrooms", environment=FOREIGN)
    return tmp_path / "demos"


def rename(file: Path, **values: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def refused(capsys, evil: Path, file: Path) -> bool:
    said = capsys.readouterr().err
    assert f"{file} names the environment '{FOREIGN}', which is not one of ours" in said
    assert f"if you trust it, pass --env {FOREIGN}" in said
    return not evil.exists()


@pytest.mark.slow
def test_what_needs_no_environment_does_not_mind(evil, data, tmp_path):
    bc, judged = tmp_path / "bc", tmp_path / "judged"
    assert run("inspect", data) == 0
    assert run("train", "bc", "--data", data, "--out", bc, "--max-updates", 20) == 0
    quick = ("--clone-updates", 20, "--distance-updates", 20)
    assert run("judge", "evidence", "--data", data, "--out", judged, *quick) == 0
    assert run("score", judged, "--data", data, "--out", tmp_path / "s.csv") == 0
    curated = tmp_path / "curated"
    assert run("curate", judged, "--data", data, "--out", curated, "--keep-share", 0.5) == 0
    assert run("evaluate", bc, "--episodes", 0, "--data", data) == 0
    offline = ("--out", tmp_path / "gail", *SHORT, "--env", "none")
    assert run("train", "gail", "--data", data, *offline) == 0
    page = ("--out", tmp_path / "page.html", "--env", "none")
    assert run("report", judged, "--data", data, *page) == 0
    assert not evil.exists()


def test_practice_and_evaluation_ask_the_user(evil, data, tmp_path, capsys):
    out, bc = tmp_path / "gail", tmp_path / "bc"
    assert run("train", "gail", "--data", data, "--out", out, *SHORT) == 2
    assert refused(capsys, evil, data / "sdil.json")
    assert run("train", "bc", "--data", data, "--out", bc, "--max-updates", 20) == 0
    capsys.readouterr()
    assert run("evaluate", bc, "--episodes", 3) == 2
    assert refused(capsys, evil, bc / "run.json")
    assert run("evaluate", bc, "--episodes", 3, "--env", FOREIGN) == 0
    assert evil.exists()


@pytest.mark.slow
def test_a_report_asks_the_user(evil, data, tmp_path, capsys):
    out, page = tmp_path / "judged", tmp_path / "page.html"
    quick = ("--clone-updates", 20, "--distance-updates", 20)
    assert run("judge", "evidence", "--data", data, "--out", out, *quick) == 0
    capsys.readouterr()
    assert run("report", out, "--out", page) == 2
    assert refused(capsys, evil, out / "run.json")
    rename(out / "run.json", environment=None)
    assert run("report", out, "--out", page) == 2
    assert refused(capsys, evil, data / "sdil.json")


def test_a_run_that_is_resumed_asks_the_user(evil, demos, tmp_path, capsys):
    data, out = tmp_path / "mine", tmp_path / "gail"
    sdil.save_demonstrations(demos, data, environment="sdil/fourrooms-v0")

    def stop(epoch):
        raise KeyboardInterrupt

    learner = sdil.GAIL(env_steps=256, n_envs=8, round_steps=16)
    with pytest.raises(KeyboardInterrupt):
        sdil.train(learner, data, out, on_epoch=stop)
    rename(out / "run.json", env=FOREIGN)
    assert run("train", "--resume", out) == 2
    assert refused(capsys, evil, out / "run.json")
    assert run("train", "--resume", out, "--env", "fourrooms") == 2
    assert f"practises in '{FOREIGN}', not in 'fourrooms'" in capsys.readouterr().err
    assert run("train", "--resume", out, "--env", FOREIGN) == 0
    assert evil.exists()


def test_gymnasiums_own_are_for_the_user_to_name(demos, tmp_path, capsys):
    data, out = tmp_path / "demos", tmp_path / "gail"
    sdil.save_demonstrations(demos, data, environment="CartPole-v1")
    assert run("train", "gail", "--data", data, "--out", out, *SHORT) == 2
    assert "pass --env CartPole-v1" in capsys.readouterr().err
    assert run("train", "gail", "--data", data, "--out", out, *SHORT, "--env", "CartPole-v1") == 2
    assert "but the environment has" in capsys.readouterr().err  # it was made, and is another


def test_in_python_the_caller_names_it(evil, data, tmp_path):
    done = sdil.train(sdil.BC(max_updates=20), data, tmp_path / "bc")
    assert sdil.evaluate(done.result, FOREIGN, episodes=3).n_episodes == 3
    assert evil.exists()
