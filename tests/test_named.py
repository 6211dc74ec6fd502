"""A user's own tasks, judges and learners, by import path."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import sdil
from sdil.algorithms import find_learner, make_judge
from sdil.cli import main
from sdil.named import is_import_path
from sdil.studies.source import Sources
from sdil.studies.written import read_written

OWN = '''
from dataclasses import dataclass
from typing import ClassVar

import sdil
from sdil.algorithms.bc import BC
from sdil.judges.deminf import DemInf


@dataclass(frozen=True)
class Wide(BC):
    """Behaviour cloning with another name."""

    name: ClassVar[str] = "wide"
    hidden: int = 16
    """How wide."""


@dataclass(frozen=True)
class Near(DemInf):
    """A judge with another name."""

    name: ClassVar[str] = "near"


class Rooms:
    environment = "sdil/fourrooms-v0"

    def table(self):
        return None

    def collect(self, **asked):
        return sdil.get_task("fourrooms").collect(**asked)


nothing = 7
'''
STUDY = """
tasks = ["own_things:Rooms"]
clean = [2]
noisy = 0
seeds = [0]
[[learners]]
learner = "own_things:Wide"
fields = { hidden = 4, max_updates = 5, min_updates = 1 }
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "own_things.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_things", None)


@pytest.fixture
def data(own):
    rng = np.random.default_rng(0)

    def some(n):
        return [
            sdil.Trajectory(rng.random((9, 2), np.float32), rng.integers(0, 2, 8)) for _ in range(n)
        ]

    sdil.save_demonstrations(sdil.Demonstrations(clean=some(4), noisy=some(4)), own / "d")
    return "d"


def test_import_paths():
    assert is_import_path("a.b:C")
    for name in ("bc", "a:", ":C", "a:b:c", "sdil/x-v0", "a b:C", None, "gym:Env-v0"):
        assert not is_import_path(name)


def test_own_learners_train_and_are_not_imported_on_a_files_word(data, own, capsys):
    short = ("--max-updates", "5", "--min-updates", "1", "--hidden", "8")
    words = ["train", "own_things:Wide", "--data", data, "--out", "run", *short]
    assert main(words) == 0
    assert json.loads((own / "run" / "run.json").read_text())["name"] == "own_things:Wide"
    assert sdil.load_policy("run").hyperparameters["hidden"] == 8
    assert str(own) not in sys.path
    for file in ("policy.json", "policy.safetensors"):
        (own / "run" / file).unlink()
    capsys.readouterr()
    assert main(["train", "--resume", "run"]) == 2
    assert "say so too: --learner own_things:Wide" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("own_things:Missing", "has no 'Missing'"),
        ("own_things:nothing", "is no learner: it has no fit, name"),
        ("no_such_module:X", "cannot import 'no_such_module'"),
        ("nobody", "or your own as module:Class"),
    ],
)
@pytest.mark.usefixtures("own")
def test_what_is_not_there_is_told(name, said):
    with pytest.raises(sdil.InputError, match=said):
        find_learner(name)


@pytest.mark.usefixtures("own")
def test_own_judges(data):
    assert main(["judge", "own_things:Near", "--data", data, "--out", "j"]) == 0
    assert main(["score", "j", "--data", data]) == 0
    assert make_judge("own_things:Near").name == "near"
    assert main(["judge", "own_things:nothing", "--data", data, "--out", "k"]) == 2


def test_own_instances_train_from_python(data, own):
    kind = find_learner("own_things:Wide")
    done = sdil.train(kind(max_updates=5, min_updates=1), data, own / "mine")
    assert done.result.hyperparameters["hidden"] == 16


@pytest.mark.usefixtures("own")
def test_own_tasks_are_found_and_success_is_for_the_user_to_say():
    demos, _ = sdil.get_task("own_things:Rooms").collect(clean=2, noisy=0, seed=0)
    policy = sdil.BC(max_updates=5, min_updates=1).fit(demos)
    ran = sdil.evaluate(policy, "own_things:Rooms", episodes=3, seed=0)
    ours = sdil.evaluate(policy, "fourrooms", episodes=3, seed=0)
    assert ran.reward_mean == ours.reward_mean
    for said in (True, False):
        told = sdil.evaluate(policy, "fourrooms", episodes=3, success=lambda r, n, s=said: s)
        assert told.success_rate == float(said)


def test_own_things_in_a_study(own):
    (own / "mine.toml").write_text(STUDY)
    cell = read_written(own / "mine.toml").entries[0].cell
    before = cell.inputs(Sources())
    assert before["fields"]["hidden"] == 4
    (own / "own_things.py").write_text(f"{OWN}more = 1\n")
    assert cell.inputs(Sources())["source"] != before["source"]


@pytest.mark.slow
def test_a_study_of_own_things_runs(own, capsys):
    (own / "mine.toml").write_text(STUDY)
    assert main(["study", "run", "mine.toml", "--workers", "0"]) == 0
    assert "own_things:Wide" in capsys.readouterr().out


def test_paired_statistics():
    found = sdil.paired({0: 0.8, 1: 0.91, 2: 0.85, 9: 1.0}, {0: 0.7, 1: 0.8, 2: 0.76, 3: 0.0})
    assert (found.pairs, found.wins, found.verdict) == (3, 3, "better")
    assert found.difference.value == pytest.approx(0.1)
    assert sdil.paired([1.0, 0.0], [0.0, 1.0]).verdict == "cannot tell with this many seeds"
    with pytest.raises(sdil.InputError, match="cannot be paired"):
        sdil.paired([1.0], [1.0, 2.0])
    with pytest.raises(sdil.InputError, match="no seed in common"):
        sdil.paired({0: 1.0}, {1: 1.0})
