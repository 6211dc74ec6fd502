"""What a record says, and of which demonstrations."""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pytest
from small import cell

import sdil
from sdil.studies.measure import _shared, demonstrations, measure
from sdil.studies.source import Sources


def inputs(**more):
    return cell(**more).inputs(Sources())


def test_every_learner_of_a_seed_sees_the_same_demonstrations():
    task = sdil.get_task("sepsis")
    asked = [inputs(learner=name, seed=3, noisy=noisy) for name, noisy in (("bc", 0), ("dwbc", 5))]
    clean, both = (demonstrations(one, None) for one in asked)
    expected, truth = task.collect(clean=5, noisy=5, seed=3)
    assert both.train == expected
    assert clean.train == expected.clean_only()
    assert both.valid == clean.valid == task.collect(clean=10, noisy=0, seed=10_003)[0]
    assert both.test == clean.test
    assert len(both.test.clean) == 300
    assert all(map(np.array_equal, both.noisy_good, truth.noisy_good))


def test_experts_take_the_place_of_noisy_trajectories():
    usual, mixed = (demonstrations(inputs(expert_share=share), None) for share in (0.0, 0.4))
    assert mixed.train.noisy.ids == ("noisy-2", "noisy-3", "noisy-4", "clean-0", "clean-1")
    assert mixed.train.clean == usual.train.clean
    assert [len(good) for good in mixed.noisy_good] == mixed.train.noisy.lengths.tolist()
    assert np.array_equal(mixed.noisy_good[0], usual.noisy_good[2])


@pytest.mark.slow
def test_all_that_a_record_says():
    record, seconds = measure(inputs(learner="dwbc", measured="all"))
    told = record["measures"]
    assert seconds > 0
    assert set(told) >= {"reward", "acc", "macro_f", "macro_auroc", "micro_auroc", "valid_nll"}
    assert 0 <= told["score_auroc"] <= 1
    assert told["episodes"] == 0  # DWBC sees the state alone: sepsis is solved exactly
    assert told["success_interval"] == [told["success"], told["success"]]
    assert told["acting"] == "greedy"
    assert told["reward_default"] == told["reward"]
    short = {"discovery_epochs": 1, "discovery_min_updates": 1}
    quick = (("clone_updates", 20), ("distance_updates", 20), ("signals", "likelihood"))
    skilled, _ = measure(
        inputs(learner="sdil", fields=short, judge="evidence", judge_fields=quick, measured="all")
    )
    assert skilled["measures"]["perplexity"] >= 1


@pytest.mark.slow
def test_both_ways_of_acting_are_in_each_record():
    told = measure(inputs(task="fourrooms", learner="bc", clean=20, measured="all"))[0]["measures"]
    assert told["reward_without_circles"] > told["reward"]  # as it is, and not greedily


def test_a_folder_of_demonstrations_has_no_reward(demos, tmp_path):
    folder = tmp_path / "demos"
    sdil.save_demonstrations(demos, folder, task="mimic", environment=None)
    asked = inputs(task="mimic", clean=None, noisy=None, data=str(folder), measured="all")
    record, _ = measure(asked, str(folder))
    assert "reward" not in record["measures"]
    assert 0 <= record["measures"]["macro_auroc"] <= 1
    pool = demonstrations(asked, str(folder))
    assert (len(pool.train.clean), len(pool.valid.clean), len(pool.test.clean)) == (9, 6, 15)
    few = demonstrations(asked | {"clean": 2, "noisy": 0}, str(folder))
    assert (len(few.train.clean), len(few.train.noisy)) == (2, 0)


@pytest.mark.slow
def test_records_are_the_same_whoever_found_the_judge(monkeypatch):
    quick = partial(sdil.Judge, signals="likelihood", clone_updates=20)
    monkeypatch.setattr("sdil.algorithms.judged.Judge", quick)
    short = {"discovery_epochs": 1, "discovery_min_updates": 1}
    asked = [
        inputs(learner="scored-bc", clean=10, noisy=20, measured="all"),
        inputs(learner="sdil", fields=short, clean=10, noisy=20, measured="all"),
    ]
    _shared.cache_clear()
    _, before = measure(asked[0])
    began = time.process_time()
    together, seconds = measure(asked[1])
    spent = time.process_time() - began
    spared = _shared().spared
    _shared.cache_clear()
    alone, _ = measure(asked[1])
    assert together == alone
    assert together["warnings"]  # of skills that collapsed, at the least
    assert spared > 0
    assert spared < seconds < spent + spared
    assert _shared().spared == 0
    assert before > spared  # the first has it in its own time
