"""What a study costs over calling `fit` and `evaluate`, and what a second worker brings.

    python benchmarks/study_overhead.py                 # on an otherwise idle machine of two cores
    python benchmarks/study_overhead.py --seeds 2 --json overhead.json

The same cells of Table 1 (four learners on FourRooms for each seed) are measured by hand in this
process, as a study in this process, and as a study on one and on two workers. By hand means
everything that a record says: demonstrations, training, test actions, episodes in each way of
acting, and the judgement of steps. A worker's start is counted; it weighs less the longer a study
is. The ways take turns and the fastest round of each counts, so that what else the machine does
weighs on all alike. Also: how long a finished study takes to be shown again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import tyro

from common.report import Target, begin, finish, print_table
from sdil.studies.cell import Cell
from sdil.studies.grid import Entry, Study, run_study
from sdil.studies.runners import Run, in_this_process, on_workers

LEARNERS = ("bc", "dwbc", "weighted-bc", "isw-bc")


def main(
    seeds: int = 4,
    clean: int = 100,
    noisy: int = 600,
    learners: tuple[str, ...] = LEARNERS,
    rounds: int = 2,
    json: Path | None = None,
) -> None:
    """Measure, print, and compare with the targets."""
    import torch

    torch.set_num_threads(1)
    about = begin(seeds=seeds, learners=list(learners), clean=clean, noisy=noisy, rounds=rounds)
    study = Study(
        "overhead",
        "The same cells every way",
        tuple(
            Entry(learner, Cell("fourrooms", learner, seed, clean, noisy))
            for seed in range(seeds)
            for learner in learners
        ),
    )
    _by_hand(
        1, clean, noisy, learners
    )  # tables are built and modules imported once, whoever comes first
    ways: dict[str, Run] = {
        "a study in this process": in_this_process,
        "a study on one worker": on_workers(1),
        "a study on two workers": on_workers(2),
    }
    seconds = dict.fromkeys(("by hand", *ways), float("inf"))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            seconds["by hand"] = min(seconds["by hand"], _by_hand(seeds, clean, noisy, learners))
            for name, run in ways.items():
                out = Path(folder, str(number), name)
                seconds[name] = min(seconds[name], _as_a_study(study, run, out))
        seconds["shown again"] = _again(out / study.name)
    rows = [{"way": name, "seconds": value} for name, value in seconds.items()]
    print_table(("way", "seconds"), [(name, f"{value:.1f}") for name, value in seconds.items()])
    overhead = 100 * (seconds["a study in this process"] / seconds["by hand"] - 1)
    gain = seconds["a study on one worker"] / seconds["a study on two workers"]
    targets = [
        Target("overhead of a study, %", overhead, at_most=5),
        Target("two workers over one", gain, at_least=1.7),
        Target("seconds of a second run", seconds["shown again"], at_most=3),
    ]
    finish(about, rows, targets, json)


def _by_hand(seeds: int, clean: int, noisy: int, learners: tuple[str, ...]) -> float:
    import sdil
    from sdil.algorithms import LEARNERS as BY_NAME
    from sdil.evaluation.metrics import predict_recorded
    from sdil.studies.step_scores import judged

    began = time.perf_counter()
    task = sdil.get_task("fourrooms")
    for seed in range(seeds):
        demos, truth = task.collect(clean=clean, noisy=noisy, seed=seed)
        valid, _ = task.collect(clean=max(clean // 2, 10), noisy=0, seed=10_000 + seed)
        test, _ = task.collect(clean=300, noisy=0, seed=30_000 + seed)
        for name in learners:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                policy = BY_NAME[name]().fit(demos, valid=valid, seed=seed)
                for way in ("greedy", "without-circles", "default"):
                    sdil.evaluate(policy, "fourrooms", seed=20_000 + seed, acting=way)
            predict_recorded(policy, valid.clean)
            sdil.action_metrics(*predict_recorded(policy, test.clean))
            if name != "bc":
                judged(policy, demos.noisy, truth.noisy_good)
    return time.perf_counter() - began


def _as_a_study(study: Study, run: Run, out: Path) -> float:
    from sdil.studies import measure

    measure._collected.cache_clear()
    began = time.perf_counter()
    results = run_study(study, out, run)
    seconds = time.perf_counter() - began
    assert results.count("done") == len(study.entries)
    return seconds


def _again(study: Path) -> float:
    """A finished study asked for once more, as a command."""
    command = [sys.executable, "-m", "sdil.cli", "study", "show", str(study)]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    tyro.cli(main)
