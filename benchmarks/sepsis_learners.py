"""Learners on demonstrations split into train, valid and test: measures on clean test patients.

    sdil mimic build --mimic MIMIC --out demos/mimic
    python benchmarks/sepsis_learners.py demos/mimic
    python benchmarks/sepsis_learners.py demos/sepsis   # with train, valid and test in it

Intervals are percentiles over bootstrap samples of the test patients. They are wide on the open
demo of MIMIC-IV, and tell nothing about the choice of a learner.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
import tyro

import sdil
from report import begin, print_table
from sdil.algorithms import LEARNERS
from sdil.policy import Policy
from sdil.spaces import Array
from sdil.windows import Windows

ALL = tuple(learner for learner in LEARNERS if learner != "oracle")  # no truth is known here
MEASURES = ("accuracy", "macro_auroc", "micro_auroc", "macro_f")


def main(
    data: tyro.conf.Positional[Path],
    learners: tuple[str, ...] = ALL,
    seed: int = 0,
    samples: int = 300,
) -> None:
    """Train each learner in both settings and measure it on the test patients.

    Args:
        data: What `sdil mimic build` wrote.
        learners: Names, as `sdil algorithms` lists them; all work on the records alone.
        seed: Of training and of the bootstrap.
        samples: Bootstrap samples.
    """
    torch.set_num_threads(1)
    train, valid, test = (sdil.load_demonstrations(data / n) for n in ("train", "valid", "test"))
    who = zip(test.clean.groups, test.clean.ids, strict=True)
    patients = np.array([name if group is None else group for group, name in who])
    begin(
        data=str(data.name),
        seed=seed,
        stays=f"{len(train.clean)} clean and {len(train.noisy)} noisy to train on, "
        f"{len(valid.clean)} to validate, {len(test.clean)} of {len(set(patients))} test patients",
    )
    rows = []
    for name in learners:
        for setting in ("clean", "clean + noisy"):
            demos = train.clean_only() if setting == "clean" else train
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # so few stays leave skills unused
                policy = LEARNERS[name]().fit(demos, valid=valid, seed=seed)
            found = _bootstrap(policy, test, patients, samples, seed)
            rows.append([name, setting, *(_show(found[m]) for m in MEASURES)])
    print_table(["learner", "setting", "ACC", "macro-AUROC", "micro-AUROC", "macro-F"], rows)


def _bootstrap(
    policy: Policy,
    test: sdil.Demonstrations,
    patients: Array,
    samples: int,
    seed: int,
) -> dict[str, tuple[float, float, float]]:
    """Each measure on all test steps, and its 2.5th and 97.5th percentile over samples."""
    windows = Windows(test.clean, policy.look_back)
    index = torch.arange(len(windows))
    probs = policy.action_probs(windows.at(index)).numpy()
    actions = windows.actions_at(index).numpy()
    whose = np.repeat(patients, test.clean.lengths)
    steps = {p: np.flatnonzero(whose == p) for p in sorted(set(patients))}
    rng = np.random.default_rng(seed)
    values: dict[str, list[float]] = {name: [] for name in MEASURES}
    for _ in range(samples):
        drawn = np.concatenate([steps[p] for p in rng.choice(list(steps), len(steps))])
        for name, value in _measure(probs[drawn], actions[drawn]).items():
            values[name].append(value)
    whole = _measure(probs, actions)
    return {
        name: (whole[name], *np.nanpercentile(values[name], [2.5, 97.5]).tolist())
        for name in MEASURES
    }


def _measure(probs: Array, actions: Array) -> dict[str, float]:
    metrics = sdil.action_metrics(probs, actions)
    return {
        name: np.nan if getattr(metrics, name) is None else 100 * getattr(metrics, name)
        for name in MEASURES
    }


def _show(value: tuple[float, float, float]) -> str:
    return f"{value[0]:.1f} ({value[1]:.1f} - {value[2]:.1f})"


if __name__ == "__main__":
    tyro.cli(main)
