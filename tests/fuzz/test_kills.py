"""Killed at random moments, a command that writes leaves what was there, all of it or nothing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest
from strategies import good_data

import sdil
from sdil import InputError
from sdil.algorithms import make_judge
from sdil.files import replaced_name

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("kills")]
KILLS = int(os.environ.get("SDIL_KILLS", "3"))
"""Of each command."""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    base = tmp_path_factory.mktemp("kills")
    demos = good_data(clean=6, noisy=12)
    sdil.save_demonstrations(demos, base / "data")
    quick = make_judge("weighted-bc", max_updates=20, min_updates=10, patience=10)  # never silent
    quick.fit(demos, seed=0).save(base / "judge")
    return base, demos


COMMANDS = {
    "collect": "collect fourrooms --clean 3 --noisy 3 --out {out} --overwrite",
    "score": "score {judge} --data {data} --set both --out {out}.csv --overwrite",
    "curate": "curate {judge} --data {data} --out {out} --keep-share 0.5 --no-check --overwrite",
    "report": "report {judge} --data {data} --env none --out {out}.html --overwrite",
    "train": "train bc --data {data} --out {out} --max-updates 40 --min-updates 20 --overwrite",
    "judge": "judge --data {data} --out {out} --clone-updates 20 --distance-updates 20 "
    "--outcome-updates 20 --overwrite",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_loses_nothing(place, name, tmp_path):
    base, demos = place
    out = tmp_path / "out"
    words = COMMANDS[name].format(judge=base / "judge", data=base / "data", out=out).split()
    command = [sys.executable, "-m", "sdil.cli", *words]
    begun = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    whole = time.perf_counter() - begun
    assert done.returncode == 0, done.stderr
    written = {p.name for p in tmp_path.iterdir()}
    assert len(written) == 1
    (target,) = tmp_path.iterdir()
    rng = random.Random(name)
    for _ in range(KILLS):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(rng.uniform(0.3, 1.0) * whole)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert sdil.load_demonstrations(base / "data") == demos
        _whole_or_set_aside(name, target)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    left = {p.name for p in tmp_path.iterdir()}
    assert {n for n in left if not n.endswith(".lock")} == written  # what the dead left is gone


def _whole_or_set_aside(name, target):
    """What stands under the good name is whole; a folder may wait beside it while it is replaced,
    and a run that was begun says that it is not finished."""
    readers = {"collect": sdil.load_demonstrations, "curate": sdil.load_demonstrations}
    if name in readers:
        there = target if target.exists() else replaced_name(target)
        assert len(readers[name](there).clean)
    elif name in ("score", "report"):
        assert target.stat().st_size > 100
        if name == "report":
            assert target.read_text("utf-8").rstrip().endswith("</html>")
    elif target.exists():
        try:
            (sdil.load_policy if name == "train" else sdil.load_judge)(target)
        except InputError as error:
            _says_unfinished(str(error))


def _says_unfinished(text):
    assert "interrupted" in text or "finished" in text or "missing" in text
