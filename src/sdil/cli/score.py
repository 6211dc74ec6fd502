"""`sdil score`: how good each step, segment and episode is: rankings, a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from sdil.cli.console import parse, print_json, print_table, print_wrapped, show
from sdil.cli.exporting import TO_HELP, frame_rate_of, frames_of, prepare
from sdil.errors import InputError
from sdil.evaluation.scores import compare_with_truth
from sdil.formats.data import load_demonstrations, load_truth, origin_of
from sdil.formats.origin import Origin
from sdil.formats.rows import lowest_part
from sdil.formats.scores import ScoredSet, check_table_name, write_scores
from sdil.scores import Segment, StepScores
from sdil.segmentation import segments_of
from sdil.spaces import Array
from sdil.trajectories import Trajectories

_SHOWN = 5  # segments and episodes of either kind, where nothing else is asked for


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(score, arguments, "score")


def score(
    run: tyro.conf.Positional[Path],
    data: str | None = None,
    out: Path | None = None,
    to: Annotated[tuple[str, ...], tyro.conf.arg(help=TO_HELP)] = (),
    worst: int | None = None,
    which: Annotated[Literal["noisy", "clean", "both"], tyro.conf.arg(name="set")] = "noisy",
    clean: str | None = None,
    device: Literal["auto", "cpu", "cuda"] = "cpu",
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Judge demonstrations step by step, and rank their segments and episodes.

    Of data that was imported, or is read where it lies, episodes and frames have the source's own
    names and numbers. With --to what is said is written back in the format that it came in; `sdil
    export` has more to choose.

    With --out, writes a row per step: set, episode, step, skill (of SDIL), optimality (is this
    action right here: -1 bad to 1 good), how unsure it is (spread) and the signals behind it where
    there are several, quality (how well it goes around this step, -1 to 1; its mean says how well
    an episode went) and the signals behind it (quality_NAME), integrity (does the next state fit
    the action, 0 to 1; it is no part of quality), segment (between changes of the score; with one
    signal alone, a run of equal skill) and its mean optimality, and of imported data frame, its
    number in the source. What the judge does not tell has no column.

    Args:
        run: A judgement of `sdil judge`, or a run of `sdil train` whose learner judges steps.
        data: Folder of demonstrations to judge, or other people's data, read where it lies
            (robomimic:lift.hdf5?clean=better); by default what the run was made of.
        out: The table to write, .parquet or .csv; it must not exist.
        worst: Print so many of the worst segments and episodes and of the best; 5 where nothing
            is written.
        which: The set to judge.
        clean: Of data in another format: which episodes are trusted, as `sdil import` takes it.
        device: Where pictures are encoded; auto: on a GPU where there is one.
        overwrite: Replace the file if it exists.
        as_json: Print the summary as JSON.
    """
    if out is not None:
        check_table_name(out)
        if out.is_dir() or (out.exists() and not overwrite):
            raise InputError(f"{out} exists already; choose another name or pass --overwrite")
    if worst is not None and worst < 0:
        raise InputError(f"--worst must be at least 0, not {worst}")
    from sdil.algorithms import load_judging  # PyTorch: seconds, which --help need not wait for
    from sdil.cli.answers import data_for, good_share_for, unknown_of
    from sdil.cli.chosen import print_chosen
    from sdil.cli.export import Judged, Rule, show_written, write_judged
    from sdil.cli.health import health_for, print_health
    from sdil.evaluation.rollout import check_spaces

    data = data_for(run, data, clean)
    exporting = prepare(to, data, overwrite=overwrite) if to else None
    if exporting is not None:
        exporting.check(curated=False)
    judge = load_judging(run)
    demos, truth, origin = load_demonstrations(data), load_truth(data), origin_of(data)
    check_spaces(judge, demos.spaces)
    both = {"clean": demos.clean, "noisy": demos.noisy}
    chosen = {k: v for k, v in both.items() if which in (k, "both") and len(v)}
    if not chosen:
        raise InputError(f"{data} has no {which} episodes to judge")
    asked = both if to else chosen
    there = {"device": device} if device != "cpu" else {}  # judges of others need not know of it
    judged = {name: judge.score(t, **there) if len(t) else [] for name, t in asked.items()}
    if out is not None:
        write_scores(
            out,
            {
                name: ScoredSet(chosen[name].ids, judged[name], frames_of(origin, chosen[name]))
                for name in chosen
            },
        )
    written = []
    if exporting is not None:
        told = Judged(judged, judge, good_share_for(run, judge, demos))
        written = write_judged(exporting, demos, told, Rule(), curated=False)
    goods = {} if truth is None else {"clean": truth.clean_good, "noisy": truth.noisy_good}
    unknown = unknown_of(judge)
    silent = "step" in unknown
    summary = {name: _summarise(judged[name], goods.get(name), silent) for name in chosen}
    count = worst if worst is not None else _SHOWN if out is None else 0
    ends = _ends([] if silent else _rank(chosen, judged, origin), count)
    episodes = _ends(_rank_episodes(chosen, judged), count)
    health = health_for(run, judge, demos)
    if as_json:
        where = None if out is None else str(out)
        head = {"run": str(run), "data": str(data), "out": where, "unknown": dict(unknown)}
        head["health"] = health.as_json()
        exported = {"written": [asdict(w) for w in written]} if to else {}
        print_json({**head, **summary, **ends, "episodes": episodes, **exported})
        return
    if clean is not None:
        print_chosen(data, demos)
    print_health(health)
    rows = [
        [label, *(show(summary[n][key]) for n in chosen)]
        for key, label in _LABELS.items()
        if key in _ALWAYS or any(summary[n][key] is not None for n in chosen)
    ]
    print_table("scores", ["", *chosen], rows)
    for sentence in unknown.values():
        print_wrapped(sentence)
    for name, segments in ends.items():
        if segments:
            _show_segments(name, segments, None if origin is None else frame_rate_of(origin.about))
    for name, found in episodes.items():
        if found:
            print_table(
                f"{name} episodes, by how well they went",
                ["set", "episode", "steps", "quality"],
                [[e["set"], e["episode"], str(e["steps"]), show(e["quality"])] for e in found],
                text_columns=2,
            )
    if out is not None:
        print_wrapped(f"written to {out}")
    show_written(written)


def _show_segments(name: str, segments: Sequence[dict[str, Any]], fps: float | None) -> None:
    """Segments in the numbers of the source where there is one; `fps`: its frames per second."""
    of_source = "first_frame" in segments[0]
    columns = ["set", "episode", "frames" if of_source else "steps"]
    columns += ["seconds"] if fps is not None else []
    because = name == "worst" and any(s["against"] for s in segments)
    rows = []
    for s in segments:
        first = s["first_frame"] if of_source else s["start"]
        last = s["last_frame"] if of_source else s["stop"] - 1
        row = [s["set"], s["episode"], f"{first}-{last}"]
        row += [f"{first / fps:.1f}-{(last + 1) / fps:.1f}"] if fps is not None else []
        rows.append([*row, show(s["optimality"]), *([s["against"]] if because else [])])
    print_table(
        f"{name} segments, by optimality times length",
        [*columns, "optimality", *(["lowest signal"] if because else [])],
        rows,
        text_columns=2,
    )


def _ends(ranked: list[dict[str, Any]], count: int) -> dict[str, list[dict[str, Any]]]:
    return {"worst": ranked[:count], "best": ranked[::-1][:count]}


def _rank_episodes(
    chosen: Mapping[str, Trajectories], judged: Mapping[str, Sequence[StepScores]]
) -> list[dict[str, Any]]:
    """All episodes of which it is known how well they went, the worst first."""
    found: list[dict[str, Any]] = [
        {
            "set": name,
            "episode": episode,
            "steps": len(scores.optimality),
            "quality": scores.how_well(),
        }
        for name, trajectories in chosen.items()
        for episode, scores in zip(trajectories.ids, judged[name], strict=True)
        if scores.quality is not None
    ]
    return sorted(found, key=lambda e: e["quality"])


def _rank(
    chosen: Mapping[str, Trajectories],
    judged: Mapping[str, Sequence[StepScores]],
    origin: Origin | None,
) -> list[dict[str, Any]]:
    """All segments, first those in which most goes wrong: by score times length."""
    found: list[dict[str, Any]] = [
        {
            "set": name,
            "episode": episode,
            "start": segment.start,
            "stop": segment.stop,
            **_frames(origin, episode, segment, len(scores.optimality)),
            "optimality": segment.optimality,
            "against": lowest_part(scores.parts, segment.start, segment.stop),
        }
        for name, trajectories in chosen.items()
        for episode, scores in zip(trajectories.ids, judged[name], strict=True)
        for segment in segments_of(scores)
    ]
    return sorted(found, key=lambda s: s["optimality"] * (s["stop"] - s["start"]))


def _frames(origin: Origin | None, episode: str, segment: Segment, steps: int) -> dict[str, int]:
    """The source's own numbers of the first and the last frame of a segment."""
    if origin is None:
        return {}
    frames = origin.frames_of(episode, steps)
    last = frames[segment.stop] - 1 if segment.stop < steps else frames[-1]
    return {"first_frame": int(frames[segment.start]), "last_frame": int(last)}


_LABELS = {
    "episodes": "episodes",
    "steps": "steps",
    "segments": "segments",
    "mean": "mean optimality",
    "good": "share above 0",
    "spread": "mean spread",
    "quality": "mean quality",
    "integrity": "mean integrity",
    "auroc": "AUROC against the truth",
    "average_precision": "average precision",
}


_ALWAYS = ("episodes", "steps", "segments", "mean", "good", "spread")
"""Rows that are shown whether they are known or not."""


def _summarise(
    judged: Sequence[StepScores], good: list[Array] | None, silent: bool
) -> dict[str, Any]:
    """`silent`: which steps are good is unknown, so that nothing is said of them."""
    optimality = np.concatenate([s.optimality for s in judged])
    auroc, precision = (
        (None, None)
        if good is None or silent
        else compare_with_truth(optimality, np.concatenate(good))
    )
    return {
        "episodes": len(judged),
        "steps": len(optimality),
        "segments": None if silent else sum(len(segments_of(s)) for s in judged),
        "mean": None if silent else float(optimality.mean()),
        "good": None if silent else float((optimality > 0).mean()),
        "spread": _mean([s.spread for s in judged]),
        "quality": _mean([s.quality for s in judged]),
        "integrity": _mean([s.integrity for s in judged]),
        "auroc": auroc,
        "average_precision": precision,
    }


def _mean(of_steps: Sequence[Array | None]) -> float | None:
    """Over the steps of which it is known; None where there are none."""
    given = [values for values in of_steps if values is not None]
    known = np.concatenate([v[~np.isnan(v)] for v in given]) if given else np.empty(0)
    return float(known.mean()) if len(known) else None
