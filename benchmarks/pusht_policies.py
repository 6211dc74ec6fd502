"""What policies make of people who push a T: learn from whom, and does the recommendation hold?

    python benchmarks/pusht_policies.py --source pusht_cchi_v7_replay.zarr
    python benchmarks/pusht_policies.py --of one.json two.json     # what was measured in parts

Clean are the 40 quickest episodes, noisy the other 166, as in `pusht.py`. The same learner, BC as
it is, learns from the clean ones, from all, from what curating by segments keeps, and from all but
as many steps, dropped at random in stretches of the same kind. "Weighted" is scored BC, which
weighs steps as the judge is trusted and stands for the weights that are recommended, which no
learner takes; SDIL stands beside it. Each policy starts from the same 50 places, and what counts is
the most of the target that an episode ever covered, on average. `did_it_help` recommends one of the
first four before anybody acts. Needs gym-pusht (docs/control.md).
"""

from __future__ import annotations

from collections.abc import Callable
from json import loads
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import sdil
from common.report import Target, begin, finish, markdown, measure_all, paired_interval
from sdil.curation import Curated
from sdil.evaluation.helped import left_at_random
from sdil.tasks import pusht

ROWS = ("clean", "all", "curated", "weighted", "random", "SDIL")
RECOMMENDED = "who follows the recommendation"


def run_cell(source: str, seed: int, episodes: int, acting: tuple[str, ...]) -> dict[str, Any]:
    """One seed: what is recommended, and what each policy covers."""
    import torch

    torch.set_num_threads(1)
    demos = pusht.read(source).demos
    judge = sdil.Judge().fit(demos, seed=seed)
    known: dict[str, Any] = {"unknown": judge.unknown, "good_share": judge.good_share}
    known["cross_judged"] = judge.cross_judged
    curated = sdil.curate(demos, judge.score(demos.noisy), keep_above=0.0, **known)
    helped = sdil.did_it_help(demos, curated, seed=seed)
    fits: dict[str, Callable[[], Any]] = {
        "clean": lambda: sdil.BC().fit(demos.clean_only(), seed=seed),
        "all": lambda: sdil.BC().fit(demos, seed=seed),
        "curated": lambda: sdil.BC().fit(curated.demos, seed=seed),
        "weighted": lambda: sdil.ScoredBC().fit(demos, judge=judge, seed=seed),
        "random": lambda: sdil.BC().fit(dropped_at_random(demos, curated, seed), seed=seed),
        "SDIL": lambda: sdil.SDIL().fit(demos, judge=judge, seed=seed),
    }
    cell: dict[str, Any] = {"seed": seed, "recommended": helped.recommended}
    cell["kept"] = float(np.concatenate(curated.kept).mean())
    same = ("curated", "random") if np.concatenate(curated.kept).all() else ()  # as "all"
    for row in ROWS:
        policy = None if row in same else fits[row]()
        for way in acting:
            if policy is None:
                cell[f"{row}, {way}"] = cell[f"all, {way}"]
                continue
            found = sdil.evaluate(policy, "pusht", episodes=episodes, seed=seed, acting=way)
            cell[f"{row}, {way}"] = 100 * found.reward_mean
    return cell


def dropped_at_random(
    demos: sdil.Demonstrations, curated: Curated, seed: int
) -> sdil.Demonstrations:
    """As many noisy steps fewer as curating drops, in stretches of the same kind."""
    dropped = int((~np.concatenate(curated.kept)).sum())
    left = left_at_random(curated.stretches, dropped, np.random.default_rng(seed))
    noisy = []
    for episode, kept in zip(demos.noisy, demos.noisy.split_steps(left), strict=True):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], kept.astype(int), [0]])))
        for start, stop in edges.reshape(-1, 2).tolist():
            seen = episode.observations[start : stop + 1]
            actions = episode.actions[start:stop]
            noisy.append(sdil.Trajectory(seen, actions, id=f"{episode.id}:{start}"))
    return sdil.Demonstrations(clean=list(demos.clean), noisy=noisy, spaces=demos.spaces)


def main(
    source: Path | None = None,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    episodes: int = 50,
    acting: tuple[str, ...] = ("greedy", "sampled"),
    workers: int = 2,
    of: tuple[Path, ...] = (),
    json: Path | None = None,
) -> None:
    """Measure, and print a Markdown table.

    Args:
        source: The Zarr store.
        seeds: Of judges, learners and places to start from.
        episodes: Places to start from.
        acting: Ways of acting, everyone by the same.
        workers: Processes.
        of: Files of `--json`, to be joined instead of measuring.
        json: Save everything to this file.
    """
    about = begin(source=str(source and source.name), seeds=seeds, episodes=episodes, acting=acting)
    if of:
        cells = [cell for path in of for cell in loads(path.read_text("utf-8"))["rows"]]
    elif source is None:
        raise SystemExit("--source: where the Zarr store is; nothing of it is bundled")
    else:
        jobs = [(str(source.resolve()), seed, episodes, acting) for seed in seeds]
        cells = measure_all(run_cell, jobs, workers)
    chosen = [str(cell["recommended"]) for cell in cells]
    lines, targets = [], []
    covered = {
        way: {row: np.array([c[f"{row}, {way}"] for c in cells]) for row in ROWS} for way in acting
    }
    for way in acting:
        of_rows = covered[way]
        of_rows[RECOMMENDED] = np.array([of_rows[row][i] for i, row in enumerate(chosen)])
    for row in (*ROWS, RECOMMENDED):
        shown = []
        for way in acting:
            mine = covered[way][row]
            ahead = paired_interval(covered[way][RECOMMENDED] - mine)
            shown += [f"{mine.mean():.1f} ± {mine.std():.1f}", "" if row == RECOMMENDED else ahead]
        lines.append([row, *shown])
    columns = ["learns from"]
    for way in acting:
        columns += [f"covered, {way}", "the recommended minus it"]
    print(markdown(columns, lines))
    print(f"recommended, by seed: {', '.join(chosen)}\n")
    for way in acting:
        best = max(ROWS[:-2], key=lambda row: float(covered[way][row].mean()))
        gap = covered[way][RECOMMENDED].mean() - covered[way][best].mean()
        what = f"{way}: the recommended minus the best of four ({best})"
        targets.append(Target(what, float(gap), at_least=0.0))
    finish(about, cells, targets, json)


if __name__ == "__main__":
    tyro.cli(main)
