"""Judging and scoring beyond one process: many data sets, or one that is cut by its episodes.

A task names folders, never data, so that it travels to any machine that sees them, with a
fingerprint of what lay in them: a worker that finds something else there says so, and one that
keeps what it read before keeps it by that. A score depends on its own episode and on the judge
alone, so parts together say what the whole says. Tasks run in local processes or on a Ray cluster,
as studies do; answers come back in the order of the tasks.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from sdil.algorithms import load_judging, make_judge
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats.folder import describe, load_demonstrations
from sdil.judging import FittedJudge
from sdil.policy import Policy
from sdil.scores import StepScores
from sdil.studies.runners import TRIES, join_ray

Which = Literal["clean", "noisy"]
Task = TypeVar("Task")
Answer = TypeVar("Answer")
_OF_A_JUDGE = ("judge.json", "policy.json", ".safetensors")  # ends of file names
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


@dataclass(frozen=True)
class Judging:
    """A data set to be judged, and where the judge is to be saved."""

    data: str
    out: str
    judge: str = "evidence"
    fields: tuple[tuple[str, Any], ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Scoring:
    """Some episodes of a set, to be scored by a saved judge (or a run that has one)."""

    judge: str
    data: str
    which: Which
    first: int
    last: int
    """One past the last of them."""
    fingerprints: tuple[str, str]
    """Of the judge and of the data, when the set was cut."""


def judge_data(task: Judging) -> str:
    """Judge a data set and save the judge; the folder."""
    fitted = make_judge(task.judge, **dict(task.fields)).fit(
        load_demonstrations(task.data), seed=task.seed
    )
    fitted.save(task.out)
    return task.out


def score_part(task: Scoring) -> list[StepScores]:
    """What the judge says of these episodes; InputError where another judge or data lies there."""
    now = fingerprint_of_judge(task.judge), fingerprint_of_data(task.data)
    for folder, was, found in zip((task.judge, task.data), task.fingerprints, now, strict=True):
        if was != found:
            raise InputError(f"{folder}: it changed after the set was cut; cut it again")
    chosen = getattr(_demonstrations(task.data, now[1]), task.which)
    return _judging(task.judge, now[0]).score(chosen[task.first : task.last])


def fingerprint_of_data(folder: str) -> str:
    """What `sdil.json` says that it is; an earlier version's says nothing, and is read whole."""
    return describe(folder)["fingerprint"] or load_demonstrations(folder).fingerprint()


def fingerprint_of_judge(folder: str) -> str:
    """Of the files that a judgement, or a run, is loaded from."""
    kept = sorted(p for p in Path(folder).glob("*") if p.name.endswith(_OF_A_JUDGE))
    whole = hashlib.sha256()
    for path in kept:
        whole.update(f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes())
    return whole.hexdigest()


@lru_cache(1)
def _demonstrations(folder: str, fingerprint: str) -> Demonstrations:
    return load_demonstrations(folder)


@lru_cache(1)
def _judging(folder: str, fingerprint: str) -> FittedJudge | Policy:
    return load_judging(folder)


def cut_by_episodes(judge: str | Path, data: str | Path, which: Which, parts: int) -> list[Scoring]:
    """At most so many tasks of about as many steps each, in the order of the episodes."""
    if parts < 1:
        raise InputError(f"a set is cut into at least 1 part, not {parts}")
    where = str(Path(judge).absolute()), str(Path(data).absolute())
    found = fingerprint_of_judge(where[0]), fingerprint_of_data(where[1])
    lengths = getattr(_demonstrations(where[1], found[1]), which).lengths
    if not len(lengths):
        return []
    reached = np.cumsum(lengths) / lengths.sum()
    inner = np.searchsorted(reached, np.arange(1, parts) / parts) + 1
    edges = np.unique([0, *inner.tolist(), len(lengths)]).tolist()
    return [Scoring(*where, which, a, b, found) for a, b in pairwise(edges)]


def in_processes(
    work: Callable[[Task], Answer], tasks: Sequence[Task], workers: int
) -> Iterator[Answer]:
    """So many processes of one thread on this machine; with one, this process."""
    if workers < 1:
        raise InputError(f"--workers must be at least 1, not {workers}")
    if workers == 1:
        yield from map(work, tasks)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        with ProcessPoolExecutor(min(workers, len(tasks) or 1), get_context("spawn")) as pool:
            yield from pool.map(work, tasks)
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def on_a_cluster(
    work: Callable[[Task], Answer], tasks: Sequence[Task], address: str, workers: int | None = None
) -> Iterator[Answer]:
    """A Ray cluster whose machines see the same folders: its address, "auto" or "local", which
    starts one here, of so many workers."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: pip install 'sdil[ray]'") from None
    here = not ray.is_initialized()
    if here:
        join_ray(ray, address, workers)
    try:
        remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(work)
        for running in [remote.remote(task) for task in tasks]:
            yield ray.get(running)
    finally:
        if here:
            ray.shutdown()
