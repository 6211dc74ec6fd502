"""Learners over sizes of the clean set, paired by seed; also SDIL's sensitivity to each field.

    python benchmarks/sdil_curve.py                                    # the table of docs/sdil.md
    python benchmarks/sdil_curve.py --task doorkey-6x6
    python benchmarks/sdil_curve.py --task sepsis --sizes 100 --seeds 0 1 2 --variants ...
    python benchmarks/sdil_curve.py --sizes 10 30 --seeds 100 101 102 103 --variants default ...
    python benchmarks/sdil_curve.py --variants bc-clean bc dwbc oracle   # docs/baselines.md

Every method sees the same demonstrations, validation set and episodes. Finished cells are kept in
`--cells`, so a run that was interrupted goes on where it stopped; not where the package changed.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from report import begin, paired_interval, source
from sdil.algorithms import LEARNERS
from sdil.algorithms.learner import Epoch, Learner
from sdil.windows import Windows

VARIANTS: dict[str, Any] = {
    **LEARNERS,  # by name, on clean and noisy demonstrations
    **{f"{name}-clean": learner for name, learner in LEARNERS.items()},  # on the clean ones alone
    "default": lambda: sdil.SDIL(),
    "the paper's score": lambda: sdil.SDIL(score="pu"),
    "noisy steps imitated": lambda: sdil.SDIL(noisy_share=0.75),
    "no memory": lambda: sdil.SDIL(memory=0),
    "L_adv 0.1": lambda: sdil.SDIL(adv_weight=0.1),
    "paper": lambda: sdil.SDIL.paper(),
    "lambda 0": lambda: sdil.SDIL(mi_weight=0.0),
    "lambda 2": lambda: sdil.SDIL(mi_weight=2.0),
    "no usage entropy": lambda: sdil.SDIL(usage_weight=0.0),
    "usage entropy 1": lambda: sdil.SDIL(usage_weight=1.0),
    "no DEC": lambda: sdil.SDIL(zeta_step=0.0),
    "SDIL* (no next state)": lambda: sdil.SDIL(next_state=False),
    "epsilon 0": lambda: sdil.SDIL(epsilon=0.0),
    "epsilon 0.4": lambda: sdil.SDIL(epsilon=0.4),
    "filter by difference": lambda: sdil.SDIL(positive_filter="difference"),
    "K 4": lambda: sdil.SDIL(n_skills=4),
    "K 16": lambda: sdil.SDIL(n_skills=16),
    "distilled by p": lambda: sdil.SDIL(distillation="prob"),
    "L_adv 0.3": lambda: sdil.SDIL(adv_weight=0.3),
    "clean share as it comes": lambda: sdil.SDIL(clean_share=0.0),
    "M 1": lambda: sdil.SDIL(look_back=1),
    "M 10": lambda: sdil.SDIL(look_back=10),
    "d_z 32": lambda: sdil.SDIL(skill_size=32),
    "hidden 32": lambda: sdil.SDIL(hidden=32),
    "hidden 128": lambda: sdil.SDIL(hidden=128),
    **{
        f"discovery {n} epochs": (lambda n=n: sdil.SDIL(discovery_epochs=n))
        for n in (12, 25, 40, 70)
    },
    "patience 600": lambda: sdil.SDIL(patience=600),
    "weight decay 0": lambda: sdil.SDIL(weight_decay=0.0),
    "temperature 0.5": lambda: sdil.SDIL(temperature=0.5),
}


def run_cell(task: str, noisy: int, size: int, seed: int, variant: str) -> dict[str, Any]:
    """One learner on one seed: everything that is measured of it."""
    import torch
    from sklearn.metrics import average_precision_score, roc_auc_score

    from sdil.networks.hierarchical import HierarchicalPolicy
    from sdil.networks.judges import JudgingPolicy

    torch.set_num_threads(1)
    chosen = sdil.get_task(task)
    demos, truth = chosen.collect(clean=size, noisy=noisy, seed=seed)
    valid, _ = chosen.collect(clean=max(size // 2, 10), noisy=0, seed=10_000 + seed)
    learner: Learner = VARIANTS[variant]()
    began = time.process_time()
    epochs: list[Epoch] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        data = demos.clean_only() if variant.endswith("-clean") else demos
        more: dict[str, Any] = {"truth": truth.noisy_good} if variant == "oracle" else {}
        if learner.environment != "never":
            more["env"] = chosen.table() or chosen.environment
        policy = learner.fit(data, valid=valid, seed=seed, on_epoch=epochs.append, **more)
    seconds = time.process_time() - began
    windows = Windows(valid.clean, policy.look_back)
    index = torch.arange(len(windows))
    probs = policy.action_probs(windows.at(index))
    predicted = probs.argmax(1)
    ran = sdil.evaluate(policy, task, seed=20_000 + seed)  # 1,000 episodes, or exact in a model
    cell: dict[str, Any] = {
        "task": task,
        "noisy": noisy,
        "clean": size,
        "seed": seed,
        "variant": variant,
        "reward": 100 * ran.reward_mean,
        "success": ran.success_rate,
        "valid_nll": float(
            -probs.gather(1, windows.actions_at(index).long()[:, None]).log().mean()
        ),
        "valid_accuracy": float((predicted == windows.actions_at(index)).double().mean()),
        "seconds": seconds,
        "warnings": [str(w.message) for w in told],
    }
    if isinstance(policy, HierarchicalPolicy | JudgingPolicy) and len(data.noisy):
        scores = np.concatenate([s.optimality for s in policy.score(demos.noisy)])
        good = np.concatenate(truth.noisy_good)
        cell |= {
            "auroc": float(roc_auc_score(good, scores)),
            "average_precision": float(average_precision_score(good, scores)),
        }
    if isinstance(learner, sdil.SDIL):
        discovered = [e for e in epochs if e.phase == "discover"]
        mixed = [e.losses.get("survived_clean_noisy", 0.0) for e in discovered]
        cell |= {
            "perplexity": discovered[-1].losses["perplexity"],
            "least_mixed_pairs": min(mixed[learner.pu_interval :], default=0.0),
        }
    return cell


def main(
    task: str = "fourrooms",
    noisy: int = 600,
    sizes: tuple[int, ...] = (10, 30, 100),
    seeds: tuple[int, ...] = tuple(range(10)),
    variants: tuple[str, ...] = ("bc-clean", "default"),
    against: str = "bc-clean",
    workers: int = 2,
    cells: Path = Path("scratch/sdil_cells.jsonl"),
    markdown: Path | None = None,
) -> None:
    """Measure, and print a Markdown table."""
    about = begin(task=task, noisy=noisy, clean=list(sizes), seeds=list(seeds))
    cells.parent.mkdir(parents=True, exist_ok=True)
    done = [json.loads(line) for line in cells.read_text().splitlines()] if cells.exists() else []
    present = source()
    known = {_key(cell): cell for cell in done if cell.get("source") == present}
    wanted = [
        (task, noisy, size, seed, variant)
        for seed in seeds
        for size in sizes
        for variant in variants
    ]
    missing = [w for w in wanted if w not in known]
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(workers) as pool, cells.open("a") as file:
        running = [pool.submit(run_cell, *w) for w in missing]
        for i, finished in enumerate(as_completed(running), 1):
            cell = {**finished.result(), "source": present}
            known[_key(cell)] = cell
            print(json.dumps(cell), file=file, flush=True)
            shown = {k: round(v, 3) for k, v in cell.items() if isinstance(v, float)}
            print(f"{i}/{len(missing)} {cell['variant']} {cell['clean']} {cell['seed']} {shown}")
    text = "".join(f"- {name}: {value}\n" for name, value in about.items()) + "\n"
    text += "\n".join(_table([known[w] for w in wanted], sizes, variants, against)) + "\n"
    print(text)
    if markdown is not None:
        markdown.write_text(text)


def _key(cell: dict[str, Any]) -> tuple[Any, ...]:
    return (cell["task"], cell["noisy"], cell["clean"], cell["seed"], cell["variant"])


def _table(
    cells: list[dict[str, Any]], sizes: tuple[int, ...], variants: tuple[str, ...], against: str
) -> list[str]:
    lines = [
        "| clean | learner | reward x100 | minus "
        + against
        + " (95%) | AUROC | perplexity | valid NLL | valid ACC | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for size in sizes:
        rewards = {
            v: np.array([c["reward"] for c in cells if (c["clean"], c["variant"]) == (size, v)])
            for v in variants
        }
        for variant in variants:
            mine = [c for c in cells if (c["clean"], c["variant"]) == (size, variant)]
            other = rewards.get(against)
            gain = (
                ""
                if variant == against or other is None
                else paired_interval(rewards[variant] - other)
            )
            lines.append(
                f"| {size} | {variant} | {_mean(rewards[variant], 1)} | {gain} "
                f"| {_mean(_values(mine, 'auroc'), 2)} | {_least(_values(mine, 'perplexity'))} "
                f"| {_mean(_values(mine, 'valid_nll'), 3)} "
                f"| {_mean(100 * _values(mine, 'valid_accuracy'), 1)} "
                f"| {_values(mine, 'seconds').mean():.0f} |"
            )
    return lines


def _values(cells: list[dict[str, Any]], name: str) -> Any:
    return np.array([c[name] for c in cells if name in c])


def _mean(values: Any, digits: int) -> str:
    if not len(values):
        return ""
    spread = values.std(ddof=1) if len(values) > 1 else 0.0
    return f"{values.mean():.{digits}f} ± {spread:.{digits}f}"


def _least(values: Any) -> str:
    return f"{values.mean():.1f} (least {values.min():.1f})" if len(values) else ""


if __name__ == "__main__":
    tyro.cli(main)
