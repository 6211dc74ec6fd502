"""Killed at random moments, a command that writes leaves what was there, all of it or nothing."""

from __future__ import annotations

import json
import os
import random
import shutil
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
from sdil.labels import load_labels, save_labels

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
    lines = ["episode,step,seen_0,seen_1,seen_2,action"]
    for t in demos.all:
        for i, action in enumerate(t.actions.tolist()):
            lines.append(",".join(map(str, [t.id, i, *t.observations[i].tolist(), action])))
    (base / "table.csv").write_text("\n".join(lines) + "\n")
    (base / "study.toml").write_text(STUDY)
    return base, demos


STUDY = """
title = "Killed"
tasks = ["fourrooms"]
clean = 3
noisy = 3
seeds = [0, 1]
champion = "BC"
[[learners]]
row = "BC"
learner = "bc"
setting = "clean only"
fields = { max_updates = 20, min_updates = 10, patience = 10 }
[[learners]]
row = "BC, pooled"
learner = "bc"
fields = { max_updates = 20, min_updates = 10, patience = 10 }
"""
COMMANDS = {
    "collect": "collect fourrooms --clean 3 --noisy 3 --out {out} --overwrite",
    "score": "score {judge} --data {data} --set both --out {out}.csv --overwrite",
    "curate": "curate {judge} --data {data} --out {out} --keep-share 0.5 --no-check --overwrite",
    "report": "report {judge} --data {data} --env none --out {out}.html --overwrite",
    "train": "train bc --data {data} --out {out} --max-updates 40 --min-updates 20 --overwrite",
    "judge": "judge --data {data} --out {out} --clone-updates 20 --distance-updates 20 "
    "--outcome-updates 20 --overwrite",
    "import": "import {table} --clean 0-5 --features seen_* --out {out} --overwrite",
    "export": "export {judge} --data {table}?clean=0-5 --to csv:{out}.csv --overwrite",
    "study": "study run {study} --out {out} --workers 0",
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_loses_nothing(place, name, tmp_path):
    base, demos = place
    out = tmp_path / "out"
    places = {n: base / n for n in ("judge", "data", "table.csv", "study.toml")}
    words = (
        COMMANDS[name].format(out=out, **{n.split(".")[0]: p for n, p in places.items()}).split()
    )
    given = {p: p.read_bytes() for p in base.rglob("*") if p.is_file()}
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
        if name == "study":  # which keeps what is finished: there would be nothing to do
            shutil.rmtree(target, ignore_errors=True)
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(rng.uniform(0.3, 1.0) * whole)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            running.wait()
        assert sdil.load_demonstrations(base / "data") == demos
        assert {p: p.read_bytes() for p in given} == given
        _whole_or_set_aside(name, target)
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if name == "study":
        timings = list(target.glob("cells/*/*.timing.json"))
        assert len(timings) == 4  # two learners, two seeds
        assert len(list(target.glob("cells/*/*.json"))) == 8
    left = {p.name for p in tmp_path.iterdir()}
    assert {n for n in left if not n.endswith(".lock")} == written  # what the dead left is gone


def _whole_or_set_aside(name, target):
    """What stands under the good name is whole; a folder may wait beside it while it is replaced,
    and a run that was begun says that it is not finished."""
    if name in ("collect", "curate", "import"):
        there = target if target.exists() else replaced_name(target)
        assert len(sdil.load_demonstrations(there).clean)
    elif name in ("score", "export"):
        rows = target.read_text("utf-8").splitlines()
        assert len(rows) == 142  # every step, and the names of the columns
        assert {row.count(",") for row in rows} == {rows[0].count(",")}
    elif name == "report":
        assert target.read_text("utf-8").rstrip().endswith("</html>")
    elif name == "study":
        records = [p for p in target.rglob("*.json") if not p.name.startswith(".")]
        assert all(json.loads(p.read_text("utf-8")) for p in records)
    elif target.exists():
        try:
            (sdil.load_policy if name == "train" else sdil.load_judge)(target)
        except InputError as error:
            _says_unfinished(str(error))


def _says_unfinished(text):
    assert "interrupted" in text or "finished" in text or "missing" in text


LABELLING = """
import sys
from sdil.labels import Label, save_labels
labels = []
while True:
    labels.append(Label("noisy", "n1", len(labels), len(labels), "good"))
    save_labels(sys.argv[1], labels)
    print(len(labels), flush=True)
"""


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_answer_that_was_kept_stays_when_labelling_is_killed(tmp_path, ending):
    """As `sdil review` keeps them: all in one stroke, after each answer."""
    table, rng = tmp_path / f"labels.{ending}", random.Random(ending)
    for _ in range(KILLS):
        running = subprocess.Popen(
            [sys.executable, "-c", LABELLING, str(table)], stdout=subprocess.PIPE, text=True
        )
        said = iter(running.stdout.readline, "")
        for _, line in zip(range(rng.randrange(1, 30)), said, strict=False):
            kept = int(line)
        time.sleep(rng.uniform(0, 0.02))  # somewhere within an answer
        running.send_signal(signal.SIGKILL)
        running.wait()
        kept = max([kept, *map(int, said)])
        found = load_labels(table)
        assert kept <= len(found) <= kept + 1  # one may be on disk and not yet said
        assert [label.first_step for label in found] == list(range(len(found)))
        running.stdout.close()
    save_labels(table, found)
    assert [p.name for p in tmp_path.iterdir()] == [table.name]  # what the dead left is gone
