"""Nothing that lies on disk is believed: names, addresses, numbers and fields are checked."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from small import cell, invented, record_file, records, study

from sdil import InputError
from sdil.cli import main
from sdil.report.results import publish
from sdil.studies.cell import Cell
from sdil.studies.grid import Claim, Entry, Study, run_study
from sdil.studies.reading import read_published, read_study
from sdil.studies.runners import Finished

REFUSED = object()
"""A value that is not there."""


@pytest.fixture
def kept(tmp_path):
    """A study of one cell, finished."""
    run_study(study(Entry("BC", cell(measured="all"))), tmp_path, invented)
    return tmp_path


def change(path, place, value):
    """Write another value into a JSON file, or leave the field out."""
    about = json.loads(path.read_text())
    *way, last = place
    inner = about
    for name in way:
        inner = inner[name]
    if value is REFUSED:
        del inner[last]
    else:
        inner[last] = value
    path.write_text(json.dumps(about))


@pytest.mark.parametrize(
    "name", ["../escaped", "..", ".", "", "a/b", "a\\b", "a\nb", "a b", "\x1b"]
)
def test_a_name_is_one_plain_component(tmp_path, name):
    inside = tmp_path / "deep" / "studies"
    with pytest.raises(InputError, match="must be letters, digits"):
        run_study(study(Entry("BC", cell())), inside, invented, name=name)
    with pytest.raises(InputError, match="must be letters, digits"):
        study(Entry("BC", cell()), name=name)
    assert not list(tmp_path.rglob("*.json"))


def test_a_name_on_disk_is_checked_too(kept):
    change(kept / "small" / "study.json", ["name"], "../escaped")
    with pytest.raises(InputError, match=r"study\.json: name must be letters"):
        read_study(kept / "small")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["measures", "reward"], math.nan, "measures.reward must be a finite number or null"),
        (["measures", "reward"], math.inf, "measures.reward must be a finite number or null"),
        (["measures", "reward"], 10**400, "measures.reward must be a finite number or null"),
        (["measures", "reward"], "high", "measures.reward must be a finite number or null"),
        (["measures", "reward"], True, "measures.reward must be a finite number or null"),
        (["measures", "reward"], REFUSED, "measures.reward is missing"),
        (["measures", "valid_nll"], REFUSED, "measures.valid_nll is missing"),
        (["measures", "success_interval"], [0.5], "measures.success_interval must be two finite"),
        (["measures", "acting"], 3, "measures.acting must be a text"),
        (["measures"], [], "measures must be an object"),
        (["measures"], REFUSED, "measures is missing"),
        (["warnings"], "none", "warnings must be a list"),
        (["inputs"], REFUSED, "inputs is missing"),
        (["inputs", "seed"], 1, "inputs are those of another cell"),
        (["inputs", "expert_share"], math.nan, "inputs cannot be hashed"),
    ],
)
def test_a_record_that_is_damaged_is_measured_again(kept, place, value, said):
    path = record_file(kept)
    good = path.read_bytes()
    change(path, place, value)
    with pytest.warns(UserWarning, match=said):
        shown = read_study(kept / "small")
    assert [f.state for f in shown.found] == ["missing"]
    with pytest.warns(UserWarning, match="does not count as measured"):
        assert run_study(shown.study, kept, invented).count("done") == 1
    assert path.read_bytes() == good


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000, "9" * 5_000])
def test_what_is_no_record_is_measured_again(kept, text):
    path = record_file(kept)
    good = path.read_bytes()
    path.write_text(text)
    with pytest.warns(UserWarning, match=path.name):
        assert run_study(read_study(kept / "small").study, kept, invented).count("done") == 1
    assert path.read_bytes() == good


def test_the_record_of_another_cell_does_not_count(tmp_path):
    two = study(*(Entry("BC", cell(seed=seed)) for seed in (0, 1)))
    run_study(two, tmp_path, invented)
    first, second = (tmp_path / "cells" / a[:2] / f"{a}.json" for a in records(tmp_path))
    shutil.copy(first, second)
    with pytest.warns(UserWarning, match="those of another cell"):
        assert read_study(tmp_path / "small").count("done") == 1


@pytest.mark.parametrize(
    ("kind", "place", "value", "said"),
    [
        ("timing.", ["cpu_s"], REFUSED, "cpu_s is missing"),
        ("timing.", ["cpu_s"], math.nan, "cpu_s must be a finite number, not nan"),
        ("timing.", ["machine"], 3, "machine must be a text, not 3"),
        ("timing.", ["versions"], ["sdil"], "versions must be an object"),
        ("failed.", ["traceback"], REFUSED, "traceback is missing"),
        ("failed.", ["traceback"], 3, "traceback must be a text, not 3"),
    ],
)
def test_what_lies_beside_a_record_is_checked(kept, kind, place, value, said):
    if kind == "failed.":
        record_file(kept).unlink()
        run_study(
            read_study(kept / "small").study,
            kept,
            lambda jobs: iter([Finished(jobs[0].address, None, {}, "Traceback")]),
        )
        assert read_study(kept / "small").count("failed") == 1
    path = record_file(kept, kind)
    change(path, place, value)
    with pytest.warns(UserWarning, match=f"{path.name}: damaged: {said}"):
        found = read_study(kept / "small").found[0]
    assert found.timing is None
    assert found.traceback is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
@pytest.mark.parametrize("file", ["study.json", "published"])
def test_what_is_no_json_object_is_refused(kept, tmp_path, text, file, capsys):
    if file == "published":
        path = tmp_path / "records.json"
        path.write_text(text)
        with pytest.raises(InputError, match=r"records\.json"):
            read_published(path)
        return
    path = kept / "small" / file
    path.write_text(text)
    assert main(["study", "show", str(kept / "small")]) == 2
    assert path.name in capsys.readouterr().err


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["format"], REFUSED, "format is missing"),
        (["title"], 3, "title must be a text"),
        (["axis"], ["x"], "axis must be a text or null"),
        (["measures"], {"sepsis": "joy"}, "measures must be an object, each value one of reward"),
        (["measures"], ["reward"], "measures must be an object"),
        (["champion"], REFUSED, "champion is missing"),
        (["claim"], {"text": "x"}, "claim.row is missing"),
        (["claim"], "x", "claim must be an object or null"),
        (["remark"], 3, "remark must be a text"),
        (["command"], REFUSED, "command is missing"),
        (["entries"], {}, "entries must be a list"),
        (["entries", 0], 3, r"entries\[0\] must be an object"),
        (["entries", 0, "row"], 3, r"entries\[0\].row must be a text"),
        (["entries", 0, "at"], "x", r"entries\[0\].at must be a finite number or null"),
        (["entries", 0, "at"], math.inf, r"entries\[0\].at must be a finite number or null"),
        (["entries", 0, "address"], "../../x", r"entries\[0\].address must be the hash"),
        (["entries", 0, "address"], REFUSED, r"entries\[0\].address is missing"),
        (["entries", 0, "cell"], [], r"entries\[0\].cell must be an object"),
        (["entries", 0, "cell", "task"], REFUSED, "a cell's task is missing"),
        (["entries", 0, "cell", "task"], "chess", "there is no task 'chess'"),
        (["entries", 0, "cell", "seed"], -1, "a cell's seed must be a whole number"),
        (["entries", 0, "cell", "seed"], 10**400, "a cell's seed must be a whole number"),
        (["entries", 0, "cell", "clean"], "x", "a cell's clean must be a whole number"),
        (["entries", 0, "cell", "clean"], None, "needs numbers of clean and noisy trajectories"),
        (["entries", 0, "cell", "expert_share"], 2, "a cell's expert_share must be a number"),
        (["entries", 0, "cell", "noise"], "loud", "a cell's noise must be one of"),
        (["entries", 0, "cell", "colour"], "red", "a cell has no 'colour'"),
        (["entries", 0, "cell", "fields"], [1], "a cell's fields must be an object"),
        (["entries", 0, "cell", "fields"], {"hidden": None}, "a cell's fields must be an object"),
        (["entries", 0, "cell", "fields"], {"hidden": 2.5}, "bc: hidden must be a whole number"),
        (["entries", 0, "cell", "fields"], {"learning_rate": 10**400}, "learning_rate must be a"),
        (["entries", 0, "cell", "fields"], {"width": 1}, "bc has no field 'width'"),
    ],
)
def test_a_damaged_study_is_told_by_file_and_field(kept, place, value, said):
    change(kept / "small" / "study.json", place, value)
    with pytest.raises(InputError, match=rf"study\.json: (damaged: )?.*{said}"):
        read_study(kept / "small")


def test_a_curve_needs_its_points(kept):
    change(kept / "small" / "study.json", ["axis"], "clean trajectories")
    with pytest.raises(InputError, match=r"entries\[0\]\.at must be a finite number, not None"):
        read_study(kept / "small")


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (["study"], [], "study must be an object"),
        (["study", "name"], "../escaped", "name must be letters"),
        (["cells"], 3, "cells must be a list"),
        (["cells", 0, "state"], "fine", r"cells\[0\].state must be one of done"),
        (["cells", 0, "state"], [], r"cells\[0\].state must be one of done"),
        (["cells", 0, "measures"], REFUSED, r"cells\[0\].measures is missing"),
        (["cells", 0, "measures", "reward"], math.nan, r"cells\[0\].measures.reward must be a"),
        (["cells", 0, "warnings"], [3], r"cells\[0\].warnings must be a list"),
        (["command"], 3, "command must be a text"),
    ],
)
def test_a_damaged_published_study_is_told_by_file_and_field(kept, tmp_path, place, value, said):
    pytest.importorskip("matplotlib")
    publish(read_study(kept / "small"), tmp_path / "out")
    path = tmp_path / "out" / "records" / "small.json"
    assert read_published(path).count("done") == 1
    change(path, place, value)
    with pytest.raises(InputError, match=rf"small\.json: (damaged: )?{said}"):
        read_published(path)


def test_a_study_is_read_as_it_was_written(tmp_path):
    claim = Claim("it helps", "BC", 3.0)
    written = Study(
        "mine.2_b-c",
        "Mine",
        (
            Entry("BC", cell(measured="all", fields={"look_back": 5}), 3.0),
            Entry("SDIL", cell("sdil", judge="evidence", judge_fields=(("hidden", 8),)), 4.0),
        ),
        "clean trajectories",
        {"sepsis": "macro_auroc"},
        "SDIL",
        claim,
        "Remark.",
    )
    run_study(written, tmp_path, invented, command="sdil study")
    found = read_study(tmp_path / "mine.2_b-c")
    assert found.study == written
    assert (found.command, found.count("done")) == ("sdil study", 2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"clean": 0}, "clean must be a whole number, at least 1, not 0"),
        ({"noisy": -1}, "noisy must be a whole number, at least 0, not -1"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"offline": "no"}, "offline must be true or false"),
        ({"measured": "some"}, "measured must be one of"),
        ({"noisy": None}, "needs numbers of clean and noisy"),
    ],
)
def test_a_cell_that_makes_no_sense_is_refused(more, said):
    with pytest.raises(InputError, match=said):
        Cell(**{"task": "sepsis", "learner": "bc", "seed": 0, "clean": 1, "noisy": 1} | more)
