"""`sdil score`: how good each step and segment of demonstrations is: a ranking, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from sdil.algorithms import load_judging
from sdil.cli.console import parse, plain, print_json, print_table, show
from sdil.errors import InputError
from sdil.evaluation.rollout import check_spaces
from sdil.evaluation.scores import compare_with_truth
from sdil.formats.folder import load_demonstrations, load_truth
from sdil.formats.scores import ScoredSet, check_table_name, write_scores
from sdil.scores import StepScores
from sdil.segmentation import segments_of
from sdil.spaces import Array
from sdil.trajectories import Trajectories

_SHOWN = 5  # segments of either kind, where nothing else is asked for


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(score, arguments, "score")


def score(
    run: tyro.conf.Positional[Path],
    data: Path,
    out: Path | None = None,
    worst: int | None = None,
    which: Annotated[Literal["noisy", "clean", "both"], tyro.conf.arg(name="set")] = "noisy",
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Judge demonstrations step by step, and rank their segments.

    With --out, writes a row per step: set, episode, step, skill (of SDIL), optimality (-1 bad to 1
    good), how unsure it is (spread) and the signals behind it where there are several, segment
    (between changes of the score; with one signal alone, a run of equal skill) and its mean
    optimality.

    Args:
        run: A judgement of `sdil judge`, or a run of `sdil train` whose learner judges steps.
        data: Folder of demonstrations to judge; it need not be what was trained on.
        out: The table to write, .parquet or .csv; it must not exist.
        worst: Print so many of the worst segments and of the best; 5 where nothing is written.
        which: The set to judge.
        overwrite: Replace the file if it exists.
        as_json: Print the summary as JSON.
    """
    if out is not None:
        check_table_name(out)
        if out.is_dir() or (out.exists() and not overwrite):
            raise InputError(f"{out} exists already; choose another name or pass --overwrite")
    if worst is not None and worst < 0:
        raise InputError(f"--worst must be at least 0, not {worst}")
    judge = load_judging(run)
    demos, truth = load_demonstrations(data), load_truth(data)
    check_spaces(judge, demos.spaces)
    chosen = {"clean": demos.clean, "noisy": demos.noisy}
    chosen = {k: v for k, v in chosen.items() if which in (k, "both") and len(v)}
    if not chosen:
        raise InputError(f"{data} has no {which} episodes to judge")
    judged = {name: judge.score(trajectories) for name, trajectories in chosen.items()}
    if out is not None:
        write_scores(out, {name: ScoredSet(chosen[name].ids, judged[name]) for name in chosen})
    goods = {} if truth is None else {"clean": truth.clean_good, "noisy": truth.noisy_good}
    summary = {name: _summarise(judged[name], goods.get(name)) for name in chosen}
    count = worst if worst is not None else _SHOWN if out is None else 0
    ranked = _rank(chosen, judged)
    ends = {"worst": ranked[:count], "best": ranked[::-1][:count]}
    if as_json:
        where = None if out is None else str(out)
        print_json({"run": str(run), "data": str(data), "out": where, **summary, **ends})
        return
    rows = [[label, *(show(summary[n][key]) for n in chosen)] for key, label in _LABELS.items()]
    print_table("scores", ["", *chosen], rows)
    for name, segments in ends.items():
        if segments:
            print_table(
                f"{name} segments, by optimality times length",
                ["set", "episode", "steps", "optimality"],
                [
                    [s["set"], s["episode"], f"{s['start']}-{s['stop'] - 1}", show(s["optimality"])]
                    for s in segments
                ],
                text_columns=2,
            )
    if out is not None:
        print(plain(f"written to {out}"))


def _rank(
    chosen: Mapping[str, Trajectories], judged: Mapping[str, Sequence[StepScores]]
) -> list[dict[str, Any]]:
    """All segments, first those in which most goes wrong: by score times length."""
    found: list[dict[str, Any]] = [
        {
            "set": name,
            "episode": episode,
            "start": segment.start,
            "stop": segment.stop,
            "optimality": segment.optimality,
        }
        for name, trajectories in chosen.items()
        for episode, scores in zip(trajectories.ids, judged[name], strict=True)
        for segment in segments_of(scores)
    ]
    return sorted(found, key=lambda s: s["optimality"] * (s["stop"] - s["start"]))


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
