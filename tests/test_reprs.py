"""What a thing is, in two lines; errors from Python speak Python."""

from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil.algorithms import LEARNERS
from sdil.cli import main
from sdil.policy import JUDGING

SHORT = {"max_updates": 5, "min_updates": 1}


@pytest.fixture(scope="module")
def demos():
    rng = np.random.default_rng(0)

    def some(n):
        return [
            sdil.Trajectory(rng.random((9, 2), np.float32), rng.integers(0, 2, 8)) for _ in range(n)
        ]

    return sdil.Demonstrations(clean=some(4), noisy=some(5))


def lines(thing):
    said = repr(thing).splitlines()
    assert len(said) == 2, said
    return said


def test_demonstrations_policies_judgements_and_curated_sets_say_what_they_are(demos):
    first, second = lines(demos)
    assert first == "Demonstrations: 4 clean episodes (32 steps), 5 noisy (40 steps)"
    assert second.startswith("  observations Box(")
    assert second.endswith("actions Discrete(2)")
    policy = sdil.WeightedBC(**SHORT).fit(demos)
    told = "Policy of weighted-bc: acts greedily, judges steps by weighted-bc, looks back"
    assert lines(policy)[0].startswith(told)
    assert lines(sdil.BC(**SHORT).fit(demos))[0].split(", ")[1] == "no judge of steps"
    assert lines(policy.judge)[0] == "Judgement by weighted-bc: hears likelihood for steps"
    scores = policy.score(demos.noisy)
    assert lines(scores[0])[0].startswith("StepScores: 8 steps, mean ")
    curated = sdil.curate(demos, scores, keep_share=0.5, min_length=1)
    assert lines(curated)[0].startswith("Curated: ")
    kept = sum(int(mask.sum()) for mask in curated.kept)
    assert f"{kept} of 40 noisy steps kept ({kept / 40:.0%}), by segment" in lines(curated)[0]
    assert lines(curated)[1].startswith("  Demonstrations: 4 clean episodes (32 steps), ")


def test_one_that_does_not_judge_says_who_does(demos):
    policy = sdil.BC(**SHORT).fit(demos)
    with pytest.raises(sdil.InputError, match=r"bc does not judge steps; sdil, .* do, and"):
        policy.score(demos.noisy)
    alone = sdil.WeightedBC(**SHORT).fit(demos.clean_only())
    with pytest.raises(sdil.InputError, match="weighted-bc was trained without noisy"):
        alone.score(demos.noisy)
    assert set(JUDGING) == {name for name, kind in LEARNERS.items() if kind.judges_steps}


def test_python_is_told_of_arguments_and_the_shell_of_options(demos, tmp_path, capsys):
    data, run = tmp_path / "d", tmp_path / "run"
    sdil.save_demonstrations(demos, data)
    with pytest.raises(sdil.InputError, match="pass overwrite=True") as caught:
        sdil.save_demonstrations(demos, data)
    assert "--overwrite" not in str(caught.value)
    sdil.train(sdil.BC(**SHORT), data, run)
    with pytest.raises(sdil.InputError, match="pass overwrite=True"):
        sdil.train(sdil.BC(**SHORT), data, run)
    assert main(["train", "bc", "--data", str(data), "--out", str(run)]) == 2
    assert "pass --overwrite" in capsys.readouterr().err


def test_the_learner_comes_first(capsys):
    assert main(["train", "--data", "X", "sdil"]) == 2
    assert "LEARNER comes first: sdil train LEARNER --data FOLDER" in capsys.readouterr().err
