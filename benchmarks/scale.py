"""What a million steps cost: saving, loading, judging, scoring, curating and the page.

    python benchmarks/scale.py                                   # 30,000 and 100,000 steps
    python benchmarks/scale.py --sizes 100000 1000000 --kinds continuous
    python benchmarks/scale.py --before HEAD~5 --stages load score

Each stage of each size is a process of its own with one thread: CPU seconds (a busy machine does
not count), and the highest resident size. The slope is that of log time over log steps from the
first to the last size: 1 is linear. Loading is held against NumPy reading the same arrays from an
.npz file. `--before` times loading and scoring of another commit in the same minutes.
"""

from __future__ import annotations

import json as json_text
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import tyro

from common.report import Target, begin, finish, print_table

ROOT = Path(__file__).resolve().parent.parent
STAGES = ("save", "load", "judge", "score", "curate", "page")


def main(
    sizes: tuple[int, ...] = (30_000, 100_000),
    kinds: tuple[str, ...] = ("continuous", "discrete"),
    stages: tuple[str, ...] = STAGES,
    before: str | None = None,
    json: Path | None = None,
) -> None:
    """Measure, and print a table.

    Args:
        sizes: Steps, in order.
        kinds: Of observations.
        stages: Those left out are not measured (but judged by 10,000 steps where scores need it).
        before: A commit to compare loading and scoring with.
        json: Save everything to this file.
    """
    about = begin(sizes=list(sizes), data="32 features, 50 steps an episode, a tenth clean")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as base:
        old = None if before is None else _check_out(before, Path(base) / "before")
        try:
            for kind in kinds:
                for size in sizes:
                    place = Path(base) / f"{kind}-{size}"
                    row = _measure(place, kind, size, stages, old)
                    rows.append({"kind": kind, "steps": size, **row})
                    _show(rows[-1:], stages)
        finally:
            if old is not None:
                git = ["git", "-C", str(ROOT), "worktree", "remove", "--force", str(old.parent)]
                subprocess.run(git, check=False)
    _show(rows, stages)
    finish(about, rows, _targets(rows, sizes, kinds, stages), json)


def _measure(
    place: Path, kind: str, size: int, stages: tuple[str, ...], old: Path | None
) -> dict[str, Any]:
    place.mkdir()
    new = ROOT / "src"
    found: dict[str, Any] = {"save": run_apart(new, "save", place, kind, size)}
    small = place / "small"
    small.mkdir()
    if "judge" in stages:
        found["judge"] = run_apart(new, "judge", place, kind, size)
    elif {"score", "curate", "page"} & set(
        stages
    ):  # scores cost the same whatever they were learned from
        run_apart(new, "save", small, kind, 10_000)
        run_apart(new, "judge", small, kind, 10_000)
        (small / "judge").rename(place / "judge")
    for stage in ("load", "score", "curate", "page"):
        if stage in stages:
            found[stage] = run_apart(new, stage, place, kind, size)
    for stage in ("load", "score"):
        if old is not None and stage in stages:
            found[f"{stage} before"] = run_apart(old, stage, place, kind, size)
    return found


def run_apart(source: Path, stage: str, place: Path, kind: str, size: int) -> dict[str, float]:
    """A stage in a process of its own, by this version's source or another's."""
    call = f"import scale; scale.stage_{stage}({str(place)!r}, {kind!r}, {size})"
    here = str(Path(__file__).parent)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", call],
        env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join([str(source), here])},
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{stage} of {size}: {done.stderr.strip()[-2_000:]}")
    answer: dict[str, float] = json_text.loads(done.stdout.splitlines()[-1])
    return answer


def _tell(begun: float, **more: float) -> None:
    used = {
        "seconds": time.process_time() - begun,
        "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    print(json_text.dumps(used | more))


def stage_save(place: str, kind: str, size: int) -> None:
    """Make demonstrations and write them; also as plain arrays."""
    import numpy as np

    import sdil
    from common.worlds import walk

    demos = walk(size, discrete=kind == "discrete")
    arrays = {
        "observations": demos.clean.observations,
        "actions": demos.clean.actions,
        "rewards": demos.clean.rewards,
    }
    np.savez(Path(place) / "plain.npz", allow_pickle=False, **arrays)
    begun = time.process_time()
    sdil.save_demonstrations(demos, Path(place) / "data")
    size_on_disk = sum(p.stat().st_size for p in (Path(place) / "data").rglob("*") if p.is_file())
    of_arrays = sum(a.nbytes for a in arrays.values())
    _tell(begun, folder=size_on_disk, arrays=of_arrays)


def stage_load(place: str, kind: str, size: int) -> None:
    """Load them, and the plain arrays by NumPy; wall time of each, the best of three."""
    import numpy as np

    import sdil

    def plainly() -> None:
        with np.load(Path(place) / "plain.npz", allow_pickle=False) as stored:
            assert sum(stored[name].nbytes for name in stored.files) > 0

    plain: list[float] = []
    ours: list[float] = []
    sdil.load_demonstrations(Path(place) / "data")
    for _ in range(3):
        for work, times in (
            (plainly, plain),
            (lambda: sdil.load_demonstrations(Path(place) / "data"), ours),
        ):
            begun = time.process_time()
            work()
            times.append(time.process_time() - begun)
    _tell(time.process_time() - min(ours), numpy=min(plain))


def stage_judge(place: str, kind: str, size: int) -> None:
    """Judge by default."""
    import sdil

    demos = sdil.load_demonstrations(Path(place) / "data")
    begun = time.process_time()
    sdil.Judge().fit(demos, seed=0).save(Path(place) / "judge")
    _tell(begun)


def stage_score(place: str, kind: str, size: int) -> None:
    """Score every noisy step, and find its segments."""
    import sdil
    from sdil.segmentation import segments_of

    noisy = sdil.load_demonstrations(Path(place) / "data").noisy
    judge = sdil.load_judge(Path(place) / "judge")
    judge.score(noisy[:10])
    begun = time.process_time()
    scores = judge.score(noisy)
    scored = time.process_time() - begun
    segments = sum(len(segments_of(s)) for s in scores)
    _tell(begun, per_step=scored / noisy.n_steps, segments=segments)


def stage_curate(place: str, kind: str, size: int) -> None:
    """Keep the better half of the noisy set, and write it."""
    import sdil

    demos = sdil.load_demonstrations(Path(place) / "data")
    scores = sdil.load_judge(Path(place) / "judge").score(demos.noisy)
    begun = time.process_time()
    kept = sdil.curate(demos, scores, keep_share=0.5)
    sdil.save_demonstrations(kept.demos, Path(place) / "kept", overwrite=True)
    _tell(begun)


def stage_page(place: str, kind: str, size: int) -> None:
    """Explain and render, scores included."""
    import sdil
    from sdil.explanation.explain import explain
    from sdil.report.page import render

    demos = sdil.load_demonstrations(Path(place) / "data")
    judge = sdil.load_judge(Path(place) / "judge")
    begun = time.process_time()
    page = render(explain(judge, demos, about={"title": "scale"}))
    _tell(begun, page=len(page.encode()))


def _show(rows: list[dict[str, Any]], stages: tuple[str, ...]) -> None:
    shown = [s for s in (*STAGES, "load before", "score before") if any(s in r for r in rows)]
    print_table(
        ["data", *(f"{s}, s" for s in shown), "peak, MB", "folder/arrays", "page, MB", "us/step"],
        [
            [
                f"{row['kind']} {row['steps']:,}",
                *(f"{row[s]['seconds']:.2f}" if s in row else "-" for s in shown),
                f"{max(row[s]['rss'] for s in shown if s in row) / 1e6:,.0f}",
                f"{row['save']['folder'] / row['save']['arrays']:.2f}",
                f"{row['page']['page'] / 1e6:.1f}" if "page" in row else "-",
                f"{row['score']['per_step'] * 1e6:.0f}" if "score" in row else "-",
            ]
            for row in rows
        ],
    )


def _targets(
    rows: list[dict[str, Any]],
    sizes: tuple[int, ...],
    kinds: tuple[str, ...],
    stages: tuple[str, ...],
) -> list[Target]:
    targets = []
    for kind in kinds:
        first, last = ([r for r in rows if r["kind"] == kind][i] for i in (0, -1))
        for stage in (s for s in ("load", "judge", "score", "page") if s in last):
            if len(sizes) > 1:
                grown = math.log(last[stage]["seconds"] / first[stage]["seconds"])
                slope = grown / math.log(sizes[-1] / sizes[0])
                targets.append(Target(f"{kind}: slope of {stage}", slope, at_most=1.05))
        peak = max(last[s]["rss"] for s in STAGES if s in last) / 1e9
        targets.append(Target(f"{kind}: peak memory, GB", peak, at_most=4.0))
        share = last["save"]["folder"] / last["save"]["arrays"]
        targets.append(Target(f"{kind}: folder / arrays", share, at_most=2.0))
        if "load" in last:
            ratio = last["load"]["seconds"] / last["load"]["numpy"]
            targets.append(Target(f"{kind}: loading / NumPy", ratio, at_most=3.0))
        if "page" in last:
            size = last["page"]["page"] / 1e6
            targets.append(Target(f"{kind}: page, MB", size, at_most=15.0))
        if "score before" in last:
            faster = last["score before"]["per_step"] / last["score"]["per_step"]
            targets.append(Target(f"{kind}: scoring, times faster", faster, at_least=10.0))
    return targets


def _check_out(commit: str, place: Path) -> Path:
    git = ["git", "-C", str(ROOT), "worktree", "add", "--detach", "-q", str(place), commit]
    if subprocess.run(git, check=False).returncode:
        sys.exit(f"{commit} cannot be checked out")
    return place / "src"


if __name__ == "__main__":
    tyro.cli(main)
