"""Scoring one data set with 1, 2 and 4 workers: the same scores, in how much less time?

    python benchmarks/many_workers.py --steps 300000
    python benchmarks/many_workers.py --ray local

The set is cut by its episodes; every worker loads folder and judge for itself, and that is counted,
as is the start of processes and of a cluster.
More workers than processors gain nothing, and the table says how many there are.
"""

from __future__ import annotations

import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from common.report import Target, begin, finish, print_table
from common.worlds import walk


def main(
    steps: int = 100_000,
    workers: tuple[int, ...] = (1, 2, 4),
    parts: int = 8,
    ray: str | None = None,
    json: Path | None = None,
) -> None:
    """Measure, and print a table.

    Args:
        steps: Of the data set.
        workers: Processes; each number is tried.
        parts: That the set is cut into.
        ray: Also on this Ray cluster; "local" starts one of each number of workers.
        json: Save everything to this file.
    """
    import sdil
    from sdil.studies.many import cut_by_episodes, in_processes, on_a_cluster, score_part

    about = begin(steps=steps, parts=parts, processors=os.cpu_count())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as base:
        data, judge = Path(base) / "data", Path(base) / "judge"
        sdil.save_demonstrations(walk(steps, discrete=False), data)
        few = sdil.Judge(clone_updates=50, distance_updates=50, outcome_updates=50)
        few.fit(walk(2_000, discrete=False), seed=0).save(judge)
        tasks = cut_by_episodes(judge, data, "noisy", parts)
        whole = np.empty(0)
        ways = {f"{n} processes": partial(in_processes, score_part, tasks, n) for n in workers}
        if ray is not None:
            sizes = workers if ray == "local" else (None,)
            ways |= {
                f"Ray {ray}" + ("" if n is None else f", {n} workers"): partial(
                    on_a_cluster, score_part, tasks, ray, n
                )
                for n in sizes
            }
        for name, way in ways.items():
            begun = time.perf_counter()
            found = np.concatenate([s.optimality for part in way() for s in part])
            seconds = time.perf_counter() - begun
            whole = found if not len(whole) else whole
            apart = float(np.abs(found - whole).max())
            rows.append({"workers": name, "seconds": seconds, "farthest apart": apart})
    print_table(
        ["workers", "seconds", "times faster", "scores apart by"],
        [
            [
                row["workers"],
                f"{row['seconds']:.1f}",
                f"{rows[0]['seconds'] / row['seconds']:.2f}",
                f"{row['farthest apart']:.1e}",
            ]
            for row in rows
        ],
    )
    same = max(row["farthest apart"] for row in rows)
    finish(about, rows, [Target("scores apart by", same, at_most=1e-6)], json)


if __name__ == "__main__":
    tyro.cli(main)
