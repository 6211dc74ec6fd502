"""How right the step score is, beside each of its signals; no policy is trained.

    python benchmarks/step_scores.py                        # the tables of docs/score.md
    python benchmarks/step_scores.py --only fourrooms:30 --seeds 100 101 102

A setting is TASK:CLEAN, with :detours for noise whose segments are known. AUROC against the truth,
expected calibration error, Brier skill over the base rate, and F1 of segment borders (within one
step) of change points and, beside it, of runs of steps all good or all bad.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from report import Target, begin, finish

SETTINGS = (
    "fourrooms:10",
    "fourrooms:30",
    "fourrooms:100",
    "fourrooms:10:detours",
    "fourrooms:30:detours",
    "fourrooms:100:detours",
    "doorkey-6x6:30",
    "sepsis:100",
)

_WANTED: dict[tuple[str, str], dict[str, float]] = {
    **{
        (f"fourrooms:{size}{noise}", "auroc"): {"at_least": least}
        for size, least in ((10, 0.80), (30, 0.90), (100, 0.95))
        for noise in ("", ":detours")
    },
    ("doorkey-6x6:30", "auroc"): {"at_least": 0.85},
    ("fourrooms:30", "ece"): {"at_most": 0.08},
    ("fourrooms:30", "brier_skill"): {"at_least": 0.0},
}


def run_cell(setting: str, noisy: int, seed: int) -> dict[str, Any]:
    """One setting on one seed: everything that is measured of the score."""
    import torch
    from sklearn.metrics import roc_auc_score

    import sdil
    from sdil.algorithms.evidence import gather_evidence
    from sdil.algorithms.training import Stages, seeded
    from sdil.evaluation.boundaries import boundary_f1
    from sdil.evaluation.calibration import calibration
    from sdil.scores import StepScores
    from sdil.segmentation import change_points
    from sdil.windows import Windows, varying_inputs

    torch.set_num_threads(1)
    name, size, *detours = setting.split(":")
    task = sdil.get_task(name)
    demos, truth = task.collect(
        clean=int(size), noisy=noisy, seed=seed, noise="segments" if detours else "paper"
    )
    valid, _ = task.collect(clean=max(int(size) // 2, 10), noisy=0, seed=10_000 + seed)
    learner = sdil.SDIL()
    inputs = varying_inputs(demos.all)
    windows, held_out = Windows(demos.all, 0, inputs), Windows(valid.clean, 0, inputs)
    with seeded(seed) as generator:
        pass
    began = time.process_time()
    evidence = gather_evidence(
        windows,
        demos.clean.n_steps,
        held_out,
        int(demos.spaces.action.n),  # type: ignore[attr-defined]
        learner,
        Stages(learner, generator, None, None),
        generator,
    )
    judged = evidence.judge(windows)
    seconds = time.process_time() - began
    n_clean = demos.clean.n_steps
    good = np.concatenate(truth.noisy_good)
    optimality = judged.optimality[n_clean:]
    found = calibration((1 + optimality) / 2, good)
    cell: dict[str, Any] = {
        "setting": setting,
        "noisy": noisy,
        "seed": seed,
        "auroc": float(roc_auc_score(good, optimality)),
        "ece": found.ece,
        "brier_skill": found.brier_skill,
        "share_good": float(good.mean()),
        "seconds": seconds,
        **{f"auroc_{k}": float(roc_auc_score(good, v[n_clean:])) for k, v in judged.parts.items()},
    }
    if truth.noisy_segment is not None:
        true = [np.flatnonzero(np.diff(s)) + 1 for s in truth.noisy_segment]
        scores = demos.noisy.split_steps(optimality)
        runs = [[s.start for s in StepScores(o).segments()][1:] for o in scores]
        cell["f1"] = boundary_f1([change_points(o) for o in scores], true)
        cell["f1_runs"] = boundary_f1([np.array(r, np.int64) for r in runs], true)
    return cell


def main(
    only: tuple[str, ...] = SETTINGS,
    noisy: int = 600,
    seeds: tuple[int, ...] = tuple(range(10)),
    workers: int = 2,
    as_json: Annotated[Path | None, tyro.conf.arg(name="json")] = None,
    markdown: Path | None = None,
) -> None:
    """Measure, and print a Markdown table and whether the targets are met."""
    about = begin(settings=list(only), noisy=noisy, seeds=list(seeds))
    os.environ["OMP_NUM_THREADS"] = "1"
    done: list[dict[str, Any]] = []
    with ProcessPoolExecutor(workers) as pool:
        running = [pool.submit(run_cell, s, noisy, seed) for seed in seeds for s in only]
        for i, finished in enumerate(as_completed(running), 1):
            done.append(finished.result())
            shown = {k: round(v, 3) for k, v in done[-1].items() if isinstance(v, float)}
            print(
                f"{i}/{len(running)} {done[-1]['setting']} {done[-1]['seed']} {shown}", flush=True
            )
    done.sort(key=lambda cell: (only.index(cell["setting"]), cell["seed"]))
    columns = {
        "auroc": "AUROC",
        "auroc_likelihood": "likelihood alone",
        "auroc_progress": "progress alone",
        "auroc_value": "value alone",
        "ece": "calibration error",
        "brier_skill": "Brier skill",
        "share_good": "truly good",
        "f1": "border F1",
        "f1_runs": "border F1 of runs",
        "seconds": "CPU s",
    }
    lines = [f"| setting | {' | '.join(columns.values())} |", "|---" * (len(columns) + 1) + "|"]
    for setting in only:
        mine = [c for c in done if c["setting"] == setting]
        lines.append(f"| {setting} | {' | '.join(_mean(mine, name) for name in columns)} |")
    text = "".join(f"- {name}: {value}\n" for name, value in about.items()) + "\n"
    text += "\n".join(lines) + "\n"
    print(text)
    if markdown is not None:
        markdown.write_text(text)
    targets = [
        Target(f"{setting}, {columns[name]}", _mean_of(done, setting, name), **wanted)
        for (setting, name), wanted in _WANTED.items()
        if setting in only
    ]
    finish(about, done, targets, as_json)


def _mean_of(cells: list[dict[str, Any]], setting: str, name: str) -> float:
    return float(np.mean([c[name] for c in cells if c["setting"] == setting]))


def _mean(cells: list[dict[str, Any]], name: str) -> str:
    """Mean and standard deviation; how many, where a signal was not heard on every seed."""
    values = np.array([c[name] for c in cells if c.get(name) is not None])
    if not len(values):
        return "not heard" if name.startswith("auroc_") else ""
    spread = f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
    of = f" ({len(values)} of {len(cells)})" if len(values) < len(cells) else ""
    return f"{values.mean():.2f}{spread}{of}"


if __name__ == "__main__":
    tyro.cli(main)
