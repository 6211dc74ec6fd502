"""Where cells are measured: in this process, in local worker processes, or on a Ray cluster.

Each way takes jobs and yields what happens to them; the caller writes the records, so they do not
depend on who measured. A worker that dies has its cell tried again; a cell that raises is reported
with its traceback, and the rest goes on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from sdil.errors import InputError

TRIES = 3  # of a cell whose worker dies
_OF_DATA = (
    *("task", "seed", "clean", "noisy", "valid"),
    *("noise", "noisy_random_steps", "expert_share"),
)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Job:
    """A cell to be measured, in a form that travels."""

    address: str
    text: str
    """What it is, for a person."""
    inputs: dict[str, Any]
    data: str | None = None


@dataclass(frozen=True)
class Started:
    """A cell is being measured."""

    address: str
    process: int | None = None
    """The worker's process, where it is on this machine."""


@dataclass(frozen=True)
class Finished:
    """A cell has been measured, or has failed: then there is no record."""

    address: str
    record: dict[str, Any] | None
    timing: dict[str, Any] = field(default_factory=dict)
    traceback: str | None = None


Event = Started | Finished
Run = Callable[[Sequence[Job]], Iterator[Event]]
"""A way to measure cells."""


def in_this_process(jobs: Sequence[Job]) -> Iterator[Event]:
    """One cell after the other."""
    for job in jobs:
        yield Started(job.address, os.getpid())
        yield attempt(job)


def attempt(job: Job) -> Finished:
    """Measure one cell; a failure is a result too."""
    try:
        from sdil.studies.timing import timed

        record, timing = timed(job.inputs, job.data)
        json.dumps(record, allow_nan=False)
    except Exception:
        return Finished(job.address, None, {}, traceback.format_exc())
    return Finished(job.address, record, timing)


def on_workers(workers: int) -> Run:
    """So many processes on this machine, each with one thread."""
    if workers < 1:
        raise InputError(f"--workers must be at least 1, not {workers}")

    def run(jobs: Sequence[Job]) -> Iterator[Event]:
        waiting = list(jobs)
        tries = dict.fromkeys((job.address for job in jobs), 0)
        pool = [_Worker() for _ in range(min(workers, len(jobs)))]
        try:
            while waiting or any(worker.job for worker in pool):
                for i, worker in enumerate(pool):
                    if worker.job is None and waiting:
                        if not worker.alive:
                            worker.close()
                            pool[i] = worker = _Worker()
                        busy = {data_key(w.job) for w in pool if w.job is not None}
                        job = _next(waiting, worker.last, busy)
                        waiting.remove(job)
                        tries[job.address] += 1
                        worker.give(job)
                for worker in _ready([w for w in pool if w.job is not None]):
                    job, event = worker.hear()
                    if event is not None:
                        yield event
                    elif tries[job.address] < TRIES:
                        waiting.insert(0, job)
                    else:
                        yield Finished(job.address, None, {}, worker.last_words())
        finally:
            for worker in pool:
                worker.close()

    return run


def _next(waiting: Sequence[Job], last: Job | None, busy: set[str]) -> Job:
    """The first cell on the demonstrations of the last one, since learners share what they find of
    them; else the first on those that no other worker has."""
    known = None if last is None else data_key(last)
    of_last = (job for job in waiting if data_key(job) == known)
    of_nobody = (job for job in waiting if data_key(job) not in busy)
    return next(of_last, None) or next(of_nobody, waiting[0])


def data_key(job: Job) -> str:
    """What tells the demonstrations of a cell from those of others."""
    return json.dumps([job.data, *(job.inputs[name] for name in _OF_DATA)])


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Those that have something to say, or have died; waits for the first."""
    import selectors

    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker.output, selectors.EVENT_READ, worker)
        return [key.data for key, _ in selector.select()]


class _Worker:
    """A process that measures cells: a JSON line in, two lines out (started, finished)."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.last: Job | None = None
        """The cell that it was given last."""
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed below
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sdil.studies.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            bufsize=0,  # a line kept in a buffer of ours would not wake `select`
            env={**os.environ, **dict.fromkeys(_THREADS, "1")},
            start_new_session=True,  # Ctrl-C is for us: we end the workers
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self.output = self._process.stdin, self._process.stdout

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def give(self, job: Job) -> None:
        """Let it measure a cell."""
        self.job = self.last = job
        text = json.dumps({"address": job.address, "inputs": job.inputs, "data": job.data})
        with suppress(BrokenPipeError):  # it has died: `hear` will notice
            self._input.write(text.encode() + b"\n")

    def hear(self) -> tuple[Job, Event | None]:
        """What it says about its cell; None where it died instead."""
        assert self.job is not None
        job = self.job
        line = self.output.readline()
        if not line.endswith(b"\n"):
            self.job = None
            self._process.wait()
            return job, None
        said = json.loads(line)
        if said["kind"] == "started":
            return job, Started(job.address, self._process.pid)
        self.job = None
        return job, Finished(job.address, said["record"], said["timing"], said["traceback"])

    def last_words(self) -> str:
        """What a worker that died left behind."""
        self._complaints.seek(0)
        text = self._complaints.read().decode(errors="replace")[-4_000:]
        return f"its worker died {TRIES} times (exit code {self._process.returncode})\n{text}"

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for file in (self._input, self.output, self._complaints):
            with suppress(BrokenPipeError):
                file.close()


def on_ray(address: str) -> Run:
    """A Ray cluster: its address, "auto" for the one this machine belongs to, or "local"."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: pip install 'sdil[ray]'") from None

    def run(jobs: Sequence[Job]) -> Iterator[Event]:
        here = not ray.is_initialized()
        if here:
            join_ray(ray, address)
        try:
            yield from _through_ray(ray, jobs)
        finally:
            if here:
                ray.shutdown()

    return run


def join_ray(ray: Any, address: str, workers: int | None = None) -> None:
    """Connect to a cluster, or start one here ("local") of so many workers, by default as many as
    there are processors; they have one thread each."""
    paths = os.pathsep.join(p for p in sys.path if p)  # workers find the package that we found
    settings = {"env_vars": dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": paths}}
    more: dict[str, Any] = {}
    if address == "local":
        more = {"include_dashboard": False, "num_cpus": workers}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of Ray's own coming defaults
            ray.init(address, runtime_env=settings, log_to_driver=False, **more)
    except ConnectionError as error:
        raise InputError(f"--ray {address}: no cluster answers there ({error})") from None


def _through_ray(ray: Any, jobs: Sequence[Job]) -> Iterator[Event]:
    measure = ray.remote(num_cpus=1, max_retries=TRIES - 1)(attempt)
    waiting = list(jobs)
    running: dict[Any, Job] = {}
    try:
        while waiting or running:
            room = int(ray.cluster_resources().get("CPU", 1)) + 1  # one asks a cluster to grow
            while waiting and len(running) < room:
                job = waiting.pop(0)
                running[measure.remote(job)] = job
                yield Started(job.address)
            done, _ = ray.wait(list(running), num_returns=1)
            job = running.pop(done[0])
            try:
                yield ray.get(done[0])
            except ray.exceptions.RayError as error:  # its worker died every time
                yield Finished(job.address, None, {}, f"{type(error).__name__}: {error}")
    finally:
        for reference in running:
            ray.cancel(reference, force=True)
