"""`sdil score`: how good each step and segment of demonstrations is, as a Parquet table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from sdil.algorithms import load_policy
from sdil.cli.console import parse, print_json, print_table, show
from sdil.errors import InputError
from sdil.evaluation.rollout import check_spaces
from sdil.evaluation.scores import compare_with_truth
from sdil.formats.folder import load_demonstrations, load_truth
from sdil.formats.scores import ScoredSet, write_scores
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.networks.judges import JudgingPolicy
from sdil.scores import StepScores
from sdil.segmentation import segments_of
from sdil.spaces import Array


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(score, arguments, "score")


def score(
    run: tyro.conf.Positional[Path],
    data: Path,
    out: Path,
    which: Annotated[Literal["noisy", "clean", "both"], tyro.conf.arg(name="set")] = "noisy",
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Judge demonstrations step by step with a trained policy that can.

    Writes a row per step: set, episode, step, skill (of SDIL), optimality (-1 bad to 1 good), how
    unsure it is (spread) and the signals behind it where there are several, segment (between
    changes of the score; with one signal alone, a run of equal skill) and its mean optimality.

    Args:
        run: A run folder of `sdil train`; `sdil algorithms` says which learners judge steps.
        data: Folder of demonstrations to judge; it need not be what the policy was trained on.
        out: The Parquet file to write; it must not exist.
        which: The set to judge.
        overwrite: Replace the file if it exists.
        as_json: Print the summary as JSON.
    """
    if out.is_dir() or (out.exists() and not overwrite):
        raise InputError(f"{out} exists already; choose another name or pass --overwrite")
    policy = load_judge(run)
    demos, truth = load_demonstrations(data), load_truth(data)
    check_spaces(policy, demos.spaces)
    chosen = {"clean": demos.clean, "noisy": demos.noisy}
    chosen = {k: v for k, v in chosen.items() if which in (k, "both") and len(v)}
    if not chosen:
        raise InputError(f"{data} has no {which} episodes to judge")
    judged = {name: policy.score(trajectories) for name, trajectories in chosen.items()}
    write_scores(out, {name: ScoredSet(chosen[name].ids, judged[name]) for name in chosen})
    goods = {} if truth is None else {"clean": truth.clean_good, "noisy": truth.noisy_good}
    summary = {name: _summarise(judged[name], goods.get(name)) for name in chosen}
    if as_json:
        print_json({"run": str(run), "data": str(data), "out": str(out), **summary})
        return
    rows = [[label, *(show(summary[n][key]) for n in chosen)] for key, label in _LABELS.items()]
    print_table("scores", ["", *chosen], rows)
    print(f"written to {out}")


def load_judge(run: Path) -> HierarchicalPolicy | JudgingPolicy:
    """The policy of a run, if it can judge steps."""
    policy = load_policy(run)
    if not isinstance(policy, HierarchicalPolicy | JudgingPolicy):
        raise InputError(
            f"{run}: {policy.learner} does not judge steps; `sdil algorithms` says which do"
        )
    return policy


_LABELS = {
    "episodes": "episodes",
    "steps": "steps",
    "segments": "segments",
    "mean": "mean optimality",
    "good": "share above 0",
    "spread": "mean spread",
    "auroc": "AUROC against the truth",
    "average_precision": "average precision",
}


def _summarise(judged: Sequence[StepScores], good: list[Array] | None) -> dict[str, Any]:
    optimality = np.concatenate([s.optimality for s in judged])
    auroc, precision = (
        (None, None) if good is None else compare_with_truth(optimality, np.concatenate(good))
    )
    return {
        "episodes": len(judged),
        "steps": len(optimality),
        "segments": sum(len(segments_of(s)) for s in judged),
        "mean": float(optimality.mean()),
        "good": float((optimality > 0).mean()),
        "spread": None if any(s.spread is None for s in judged) else _mean_spread(judged),
        "auroc": auroc,
        "average_precision": precision,
    }


def _mean_spread(judged: Sequence[StepScores]) -> float:
    return float(np.concatenate([s.spread for s in judged if s.spread is not None]).mean())
