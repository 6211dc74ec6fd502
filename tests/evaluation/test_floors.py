"""What any policy should beat: the majority action, and anything at random."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.evaluation.floors import MAJORITY, UNIFORM, blind_policies, floors_on, worse_than_blind


@pytest.fixture(scope="module")
def demos():
    rng = np.random.default_rng(0)
    acts = np.array([0, 0, 0, 1, 0, 2, 0, 0])
    return sdil.Demonstrations(
        [sdil.Trajectory(rng.random((9, 2), np.float32), acts) for _ in range(4)]
    )


def test_floors_by_hand(demos):
    blind = blind_policies(demos.spaces, demos.clean)
    majority, uniform = floors_on(demos.clean, blind)
    assert (majority.name, uniform.name) == (MAJORITY, UNIFORM)
    assert majority.accuracy == pytest.approx(6 / 8)
    entropy = -(6 / 8 * np.log(6 / 8) + 2 / 8 * np.log(1 / 8))
    assert majority.nll == pytest.approx(entropy)
    assert (uniform.accuracy, uniform.nll) == (pytest.approx(1 / 3), pytest.approx(np.log(3)))
    assert blind[0].predict(np.zeros(2, np.float32))[0] == 0
    real = sdil.Demonstrations(
        [sdil.Trajectory(np.zeros((4, 2), np.float32), np.zeros((3, 2), np.float32))]
    )
    assert blind_policies(real.spaces, real.clean) == []


def test_a_policy_worse_than_one_who_does_not_look_is_told_of(demos, tmp_path, capsys):
    data, run = str(tmp_path / "d"), str(tmp_path / "run")
    sdil.save_demonstrations(demos, data)
    bad = sdil.BC(max_updates=1, min_updates=1, learning_rate=1e-8).fit(demos)
    said = worse_than_blind(bad, demos.clean, demos.clean)
    assert said is not None
    assert "majority action 0.7" in said
    blind = blind_policies(demos.spaces, demos.clean)
    assert worse_than_blind(blind[0], demos.clean, demos.clean) is None
    short = ("--max-updates", "1", "--min-updates", "1", "--learning-rate", "1e-8")
    assert main(["train", "bc", "--data", data, "--out", run, *short]) == 0
    told = capsys.readouterr()
    assert "warning: the policy predicts clean steps worse than one who does not look" in told.err
    assert len(told.out.splitlines()) <= 3
    assert main(["evaluate", run, "--data", data, "--json"]) == 0
    beside = json.loads(capsys.readouterr().out)["data"]["beside"]
    assert [floor["name"] for floor in beside] == [MAJORITY, UNIFORM]


def test_training_speaks_in_three_lines_and_in_tables_when_asked(demos, tmp_path, capsys):
    data = str(tmp_path / "d")
    sdil.save_demonstrations(demos, data)
    short = ("--max-updates", "60", "--min-updates", "50")
    for more in ((), ("--verbose",)):
        out = str(tmp_path / f"run{len(more)}")
        assert main(["train", "bc", "--data", data, "--out", out, *short, *more]) == 0
        said = capsys.readouterr().out
        assert ("figure" in said) == bool(more)
        assert more or len(said.splitlines()) <= 3
