"""The same records wherever cells are measured; dying workers and failing cells."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys

import pytest
from small import cell, records, study

from sdil.studies.grid import Entry, run_study
from sdil.studies.runners import (
    Finished,
    Job,
    Started,
    _next,
    data_key,
    in_this_process,
    on_ray,
    on_workers,
)
from sdil.studies.source import Sources


@pytest.fixture(scope="module")
def measured_here(tmp_path_factory):
    root = tmp_path_factory.mktemp("here")
    results = run_study(study(), root, in_this_process)
    assert results.count("done") == 4
    return records(root)


@pytest.mark.slow
def test_two_workers_write_the_same_bytes(measured_here, tmp_path):
    results = run_study(study(), tmp_path, on_workers(2))
    assert results.count("done") == 4
    assert records(tmp_path) == measured_here


@pytest.mark.slow
def test_ray_writes_the_same_bytes(measured_here, tmp_path):
    ray = pytest.importorskip("ray")
    results = run_study(study(), tmp_path, on_ray("local"))
    assert not ray.is_initialized()
    assert results.count("done") == 4
    assert records(tmp_path) == measured_here


def job(asked) -> Job:
    return Job("a" * 64, str(asked), asked.inputs(Sources()))


def test_a_worker_stays_with_thedata_key_it_knows():
    waiting = [job(cell("bc", seed)) for seed in (0, 0, 1, 2)]
    at_0, at_1 = (job(cell("dwbc", seed)) for seed in (0, 1))
    busy = {data_key(at_0), data_key(at_1)}
    assert _next(waiting, None, set()) is waiting[0]
    assert _next(waiting, at_1, busy) is waiting[2]  # its own
    assert _next(waiting, None, busy) is waiting[3]  # nobody's
    assert _next(waiting[:3], None, busy) is waiting[0]  # rather than none


@pytest.mark.parametrize(
    "other",
    [
        {"task": "fourrooms"},
        {"seed": 1},
        {"clean": 6},
        {"noisy": 6},
        {"valid": False},
        {"noise": "worst"},
        {"noisy_random_steps": 0.5},
        {"expert_share": 0.5},
    ],
)
def test_all_that_changes_demonstrations_tells_them_apart(other):
    assert data_key(job(cell(**other))) != data_key(job(cell()))
    assert data_key(job(cell("dwbc"))) == data_key(job(cell()))


@pytest.mark.slow
def test_a_worker_killed_in_mid_cell_has_it_tried_again():
    started = []
    done = []
    for event in on_workers(1)([job(cell(fields={"max_updates": 3_000, "patience": 3_000}))]):
        if isinstance(event, Started):
            started.append(event.process)
            if len(started) == 1:
                os.kill(event.process, signal.SIGKILL)
        else:
            done.append(event)
    assert len(set(started)) == 2  # another process took over
    assert [d.traceback for d in done] == [None]
    assert done[0].record["measures"]["valid_nll"] > 0


@pytest.mark.slow
def test_a_cell_that_kills_every_worker_is_reported():
    started = []
    for event in on_workers(1)([job(cell())]):
        if isinstance(event, Started):
            started.append(event.process)
            os.kill(event.process, signal.SIGKILL)
        else:
            assert isinstance(event, Finished)
            assert event.record is None
            assert "its worker died 3 times (exit code -9)" in event.traceback
    assert len(started) == 3


@pytest.mark.parametrize(
    "run",
    [in_this_process, pytest.param(on_workers(1), marks=pytest.mark.slow)],
    ids=["here", "workers"],
)
def test_a_failing_cell_is_reported_and_stops_nothing(run, tmp_path):
    entries = [
        Entry("broken", cell(fields={"learning_rate": 1e30})),
        Entry("BC", cell()),
    ]
    results = run_study(study(*entries), tmp_path, run)
    assert [f.state for f in results.found] == ["failed", "done"]
    assert "InputError: clone: training diverged" in str(results.found[0].traceback)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_ends_with_the_process_that_started_it(how):
    asked = job(cell(fields={"max_updates": 10**6, "min_updates": 10**6, "patience": 10**6}))
    code = (
        "import sys, json; from sdil.studies.runners import Job, on_workers;"
        f"jobs = [Job('a', 'b', json.loads({json.dumps(asked.inputs)!r}))];"
        "[print(event.process, flush=True) for event in on_workers(1)(jobs)]"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    worker = os.pidfd_open(int(parent.stdout.readline()))  # it is in the middle of its cell
    assert not select.select([worker], [], [], 1)[0]
    parent.send_signal(how)
    parent.communicate()
    assert select.select([worker], [], [], 60)[0], "it goes on without anyone to hear of it"
    os.close(worker)
