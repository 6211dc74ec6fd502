from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from sdil.cli import main
from sdil.cli.report import _curves
from sdil.explanation.record import Explanation
from sdil.report.results import publish
from sdil.studies.cell import Cell
from sdil.studies.grid import Entry, Study, run_study
from sdil.studies.runners import Finished

pytestmark = pytest.mark.xdist_group("cli-report")  # dear fixtures: one worker makes them

SHORT = (*("--discovery-epochs", 3, "--discovery-min-updates", 1, "--max-updates", 30),)
SHORT += ("--min-updates", 20, "--patience", 10, "--n-skills", 2)


def run(*arguments: object) -> int:
    """The exit code of a command run in this process."""
    try:
        return main([str(a) for a in arguments])
    except SystemExit as stop:  # tyro's way to refuse
        return int(stop.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("report") / "demos"
    assert run("collect", "fourrooms", "--clean", 8, "--noisy", 8, "--out", out) == 0
    return out


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "sdil"
    assert run("train", "sdil", "--data", folder, "--out", out, *SHORT) == 0
    return out


@pytest.fixture
def page(monkeypatch):
    """A page that only says which record it was given."""
    stand_in = SimpleNamespace(render=lambda record: f"<h1>{record.about['title']}</h1>")
    monkeypatch.setitem(sys.modules, "sdil.report.page", stand_in)


def test_a_page_a_record_and_figures(folder, trained, page, tmp_path, capsys):
    curve = {"x": [1, 2], "series": {"SDIL": {"mean": [1, 2], "low": [0, 1], "high": [2, 3]}}}
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "size.json").write_text(json.dumps(curve))
    (tmp_path / "studies" / "other.json").write_text("[]")
    again = shutil.copytree(trained, tmp_path / "again")
    out, record, figures = (tmp_path / name for name in ("page.html", "record", "figures"))
    code = run(
        "report",
        trained,
        *("--data", folder, "--out", out, "--record", record),
        *("--figures", figures, "--format", "svg", "--compare", trained, "--also", again),
        *("--studies", tmp_path / "studies", "--json"),
    )
    assert code == 0
    answer = json.loads(capsys.readouterr().out)
    assert out.read_text() == "<h1>sdil on fourrooms</h1>"
    assert answer["written"][0] == str(record)
    assert answer["written"][-1] == str(out)
    assert {"embeddings.svg", "skill-map.svg", "study-size.svg"} <= {
        p.name for p in figures.iterdir()
    }
    about = Explanation.load(record).about
    assert about["learner"] == "sdil"
    assert about["reference"] == "Zhao et al., KDD 2023"
    assert about["hyperparameters"]["n_skills"] == 2
    assert about["evaluation"]["n_episodes"] == 1000
    assert about["evaluation"] == answer["evaluation"]
    assert {"discover", "select", "refine"} <= set(about["phases"])
    assert about["command"].startswith("sdil")
    epochs = json.loads((trained / "epochs.json").read_text())
    for phase, said in about["phases"].items():
        ours = [e for e in epochs if e["phase"] == phase]
        assert said["epoch"] == ([e for e in ours if e["kept"]] or ours)[-1]["epoch"]
        assert said["epochs"] == ours[-1]["epoch"]


@pytest.mark.slow
def test_curves_of_studies_running_and_published(tmp_path):
    def pretend(jobs):
        for job in jobs:
            reward = job.inputs["clean"] / 100 + job.inputs["seed"] / 1000
            rest = ("valid_nll", "valid_acc", "acc", "macro_f", "macro_auroc", "micro_auroc")
            measures = dict.fromkeys(rest) | {"reward": reward}
            record = {"inputs": job.inputs, "measures": measures, "warnings": []}
            timing = {"started": "2026-01-02", "wall_s": 1.0, "cpu_s": 1.0, "machine": "M"}
            yield Finished(job.address, record, timing | {"versions": {}})

    entries = tuple(
        Entry("BC", Cell("fourrooms", "bc", seed, clean, 0), clean)
        for clean in (10, 30)
        for seed in (0, 1, 2)
    )
    root = tmp_path / "studies"
    results = run_study(Study("size", "Sizes", entries, "clean", champion="BC"), root, pretend)
    run_study(Study("table", "No curve", entries[:1], champion="BC"), root, pretend)
    curves = _curves(root)
    assert list(curves) == ["size (fourrooms)"]
    assert curves["size (fourrooms)"]["x"] == [10, 30]
    assert curves["size (fourrooms)"]["series"]["BC"]["mean"] == pytest.approx([10.1, 30.1])
    assert _curves(root / "size") == curves
    untimed = tuple(replace(f, timing=None) for f in results.found)
    publish(replace(results, found=untimed), tmp_path / "out")
    published = _curves(tmp_path / "out")
    assert published["size (fourrooms)"]["series"]["BC"]["mean"] == pytest.approx([10.1, 30.1])
    assert _curves(tmp_path / "out" / "records" / "size.json") == published


def test_figures_without_matplotlib(trained, folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    figures = tmp_path / "figures"
    assert run("report", trained, "--data", folder, "--figures", figures) == 2
    assert "pip install 'sdil[figures]'" in capsys.readouterr().err
    assert not figures.exists()


def test_what_exists_is_kept(folder, trained, page, tmp_path, capsys):
    out = tmp_path / "page.html"
    out.write_text("mine")
    command = ("report", trained, "--data", folder, "--out", out, "--no-rollouts")
    assert run(*command) == 2
    assert "pass --overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert run(*command, "--overwrite", "--env", "none") == 0
    assert out.read_text().startswith("<h1>")


def test_records_alone_and_other_data_than_trained_on(folder, trained, tmp_path, capsys):
    other = tmp_path / "other"
    assert run("collect", "fourrooms", "--clean", 2, "--noisy", 2, "--seed", 5, "--out", other) == 0
    record = tmp_path / "record"
    options = ("--env", "none", "--no-rollouts")
    assert run("report", trained, "--data", other, "--record", record, *options) == 0
    assert "not the demonstrations that the run was trained on" in capsys.readouterr().out
    found = Explanation.load(record)
    assert found.about["evaluation"] is None
    assert found.walls is None
    assert not found.fixed_skills
    assert not found.frames


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "say what to write"),
        (("--record", "{here}"), "exists already"),
        (("--figures", "{here}"), "is not empty"),
        (("--figures", "{here}/file"), "is a file"),
        (("--record", "{here}/new", "--studies", "{here}/new"), "takes a folder of studies"),
        (("--record", "{here}/new", "--studies", "{here}"), "holds no curves"),
        (("--record", "{here}/new", "--compare", "{here}/none"), "does not exist"),
        (("--record", "{here}/new", "--also", "{run}"), "--also takes other runs"),
        (("--record", "{here}/new", "--env", "nowhere"), "no task or Gymnasium environment"),
        (("--record", "{here}/new", "--seed", "-1"), "--seed lies between"),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(
    trained, folder, tmp_path, capsys, options, says
):
    (tmp_path / "file").touch()
    given = [o.format(here=tmp_path, run=trained) for o in options]
    assert run("report", trained, "--data", folder, *given) == 2
    assert says in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_curve_that_lacks_a_value_is_refused(trained, folder, tmp_path, capsys):
    curve = {"x": [1, 2], "series": {"SDIL": {"mean": [1, 2], "low": [0], "high": [2, 3]}}}
    (tmp_path / "size.json").write_text(json.dumps(curve))
    options = ("--record", tmp_path / "new", "--studies", tmp_path)
    assert run("report", trained, "--data", folder, *options) == 2
    assert "'low' of 'SDIL'" in capsys.readouterr().err


def test_a_learner_that_does_not_judge(folder, tmp_path, capsys):
    plain = tmp_path / "bc"
    assert run("train", "bc", "--data", folder, "--out", plain, "--max-updates", 5) == 0
    assert run("report", plain, "--data", folder, "--record", tmp_path / "new") == 2
    assert "bc does not judge steps" in capsys.readouterr().err


@pytest.mark.slow
def test_the_report_ends_with_whether_it_helped(folder, trained, tmp_path, capsys):
    record = tmp_path / "record"
    made = ["report", trained, "--data", folder, "--env", "none", "--record", record]
    assert run(*made) == 0
    assert json.loads((record / "record.json").read_text())["about"]["helped"] is None
    assert run(*made, "--did-it-help", "--overwrite") == 0
    helped = json.loads((record / "record.json").read_text())["about"]["helped"]
    assert helped["sentence"]
    out = tmp_path / "curated"
    assert run("curate", trained, "--data", folder, "--keep-share", 0.5, "--out", out) == 0
    assert run(*made, "--curated", out, "--overwrite") == 0
    again = json.loads((record / "record.json").read_text())["about"]["helped"]
    assert {row["name"] for row in again["rows"]} >= {"clean", "all", "curated", "random"}
    assert "0.5" in again["rule"]
    other = tmp_path / "other"
    options = ["--keep-share", 0.5, "--out", other, "--no-check"]
    assert run("curate", trained, "--data", folder, *options) == 0
    assert run(*made, "--curated", other, "--overwrite") == 2
    assert "not measured" in capsys.readouterr().err
