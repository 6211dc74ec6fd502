"""A study resumes, shares cells, never shows a stale one, and does nothing twice."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from small import cell, records, study

from sdil import InputError
from sdil.cli import main
from sdil.studies import grid, reading, source
from sdil.studies.cell import Cell
from sdil.studies.grid import Entry, Progress, run_study
from sdil.studies.methods import Options
from sdil.studies.paper import STUDIES
from sdil.studies.reading import read_study
from sdil.studies.runners import Job, in_this_process
from sdil.studies.source import Sources


def entries(n: int) -> list[Entry]:
    return [Entry("BC", cell(seed=seed)) for seed in range(n)]


def refuse(jobs):
    raise AssertionError(f"{len(jobs)} cells would be measured again")
    yield


def test_an_interrupted_study_goes_on_where_it_stopped(tmp_path):
    def interrupted(jobs):
        yield from in_this_process(jobs[:2])
        raise KeyboardInterrupt

    small = study(*entries(3))
    with pytest.raises(KeyboardInterrupt):
        run_study(small, tmp_path, interrupted)
    assert len(records(tmp_path)) == 2
    assert [f.state for f in read_study(tmp_path / "small").found] == ["done", "done", "missing"]
    measured = []

    def rest(jobs):
        measured.extend(jobs)
        return in_this_process(jobs)

    results = run_study(small, tmp_path, rest)
    assert len(measured) == 1
    assert results.count("done") == 3
    assert run_study(small, tmp_path, refuse).count("done") == 3


def test_studies_share_cells_and_parts_add_up(tmp_path):
    first = study(Entry("BC", cell()), Entry("DWBC", cell("dwbc")))
    run_study(first, tmp_path, in_this_process, learners=["bc"])
    assert [f.state for f in read_study(tmp_path / "small").found] == ["done", "missing"]
    other = study(Entry("another name", cell(), 3.0), name="other")
    assert run_study(other, tmp_path, refuse).count("done") == 1
    with pytest.raises(InputError, match="small has no 'sdil'; it has BC, DWBC, bc, dwbc"):
        run_study(first, tmp_path, refuse, learners=["sdil"])


def test_a_changed_source_makes_cells_stale(tmp_path, monkeypatch):
    small = study(Entry("BC", cell()))
    run_study(small, tmp_path, in_this_process)

    def edited(path):
        return source.read(path) + ("\nmore = 1\n" if path.name == "bc.py" else "")

    for module in (grid, reading):
        monkeypatch.setattr(module, "Sources", lambda: Sources(edited))
    results = read_study(tmp_path / "small")
    assert [f.state for f in results.found] == ["stale"]
    assert results.values("BC", "sepsis", "valid_nll") == {}
    assert run_study(small, tmp_path, in_this_process).count("done") == 1
    assert len(records(tmp_path)) == 2  # measured anew, the old one kept


def test_a_failed_cell_is_tried_again_when_asked(tmp_path):
    small = study(Entry("broken", cell(fields={"learning_rate": 1e30})))
    assert run_study(small, tmp_path, in_this_process).count("failed") == 1
    tried = []

    def count(jobs):
        tried.extend(jobs)
        return in_this_process(jobs)

    assert run_study(small, tmp_path, count).count("failed") == 1
    assert len(tried) == 1


@pytest.mark.slow
def test_a_finished_study_imports_nothing_heavy_and_measures_nothing(tmp_path):
    text = '[[learners]]\nlearner = "bc"\nfields = { max_updates = 5, min_updates = 1 }\n'
    file = tmp_path / "mine.toml"
    file.write_text('tasks = "sepsis"\nclean = 3\nnoisy = 0\nseeds = 0\n' + text)
    command = ["study", "run", str(file), "--out", str(tmp_path / "studies"), "--workers", "0"]
    assert main(command) == 0
    before = records(tmp_path / "studies")
    assert len(before) == 1
    code = (
        "import sys, sdil.studies.runners as runners; from sdil.cli import main;"
        "runners.attempt = None;"
        f"assert main({command!r}) == 0;"
        f"assert main(['study', 'show', {str(tmp_path / 'studies' / 'mine')!r}]) == 0;"
        "heavy = {'torch', 'sklearn', 'scipy', 'ray', 'optuna', 'matplotlib', 'h5py', 'minari'};"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "BC" in done.stdout or "bc" in done.stdout
    assert records(tmp_path / "studies") == before


def test_a_damaged_or_foreign_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a study: study\.json is missing"):
        read_study(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps({"format": 9}))
    with pytest.raises(InputError, match="format 9 is not known"):
        read_study(tmp_path)
    (tmp_path / "study.json").write_text(json.dumps({"format": 1, "entries": [{}]}))
    with pytest.raises(InputError, match="damaged"):
        read_study(tmp_path)


def test_the_time_left_is_that_of_like_cells():
    def job(address, learner):
        return Job(address, "", {"learner": learner, "task": "sepsis"})

    jobs = {name: job(name, name[0]) for name in ("a1", "a2", "b1", "b2", "c1")}
    now = Progress(5, 0, dict(jobs))
    assert now.seconds_left() is None
    now.started("a1")
    now.started("b1")
    now.finished("a1", 10.0)
    now.finished("b1", 30.0)
    assert now.seconds_left() == (10 + 30 + 20) / 2  # c like the mean of all; two abreast
    now.started("c1")
    now.finished("c1", None)
    assert (now.done, now.failed) == (2, 1)


@pytest.mark.parametrize("name", STUDIES)
@pytest.mark.parametrize("quick", [False, True])
def test_every_study_of_the_paper_is_a_grid(name, quick):
    made = STUDIES[name](Options(quick=quick))
    places = [(e.row, e.cell.task, e.cell.seed, e.at) for e in made.entries]
    assert len(set(places)) == len(places)
    assert made.champion in made.rows
    assert len({e.cell.seed for e in made.entries}) == (2 if quick else 5)
    sources = Sources()
    for learner_cell in {(e.cell.learner, e.cell.fields): e.cell for e in made.entries}.values():
        assert learner_cell.inputs(sources)["fields"]


def test_sizes_and_seeds_can_be_chosen():
    made = STUDIES["table1"](Options(seeds=(7,), clean=3, noisy=4))
    assert {(c.clean, c.seed) for c in (e.cell for e in made.entries)} == {(3, 7)}
    assert {e.cell.noisy for e in made.entries} == {0, 4}
    made = STUDIES["noisy-size"](Options(noisy=4))
    assert {e.at for e in made.entries} == {4}
    for name in ("curve", "no-next-state", "scores"):
        for quick in (False, True):
            made = STUDIES[name](Options(clean=7, quick=quick))
            assert {e.cell.clean for e in made.entries} == {7}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"clean": 0}, "--clean must be a whole number, at least 1, not 0"),
        ({"clean": -5}, "--clean must be"),
        ({"noisy": -1}, "--noisy must be a whole number, at least 0, not -1"),
        ({"seeds": (0, -1)}, "--seeds must be"),
        ({"seeds": (2, 2)}, "--seeds: each may be named once"),
    ],
)
def test_sizes_that_make_no_sense_are_refused_and_never_passed_over(options, said):
    with pytest.raises(InputError, match=said):
        Options(**options)


def test_mimic_is_addressed_by_its_content(tmp_path):
    folder = tmp_path / "mimic"
    folder.mkdir()
    made = STUDIES["table1"](Options(data=str(folder)))
    mine = next(e.cell for e in made.entries if e.cell.task == "mimic")
    assert isinstance(mine, Cell)
    with pytest.raises(InputError, match=r"sdil\.json is missing"):
        mine.inputs(Sources())
    (folder / "sdil.json").write_text("{}")
    inputs = mine.inputs(Sources())
    assert "data" not in inputs
    assert len(inputs["data_hash"]) == 64
