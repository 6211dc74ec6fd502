"""MIMIC-IV: three invented patients worked out by hand, bad input, and the open demo."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tiny_mimic import COLUMNS, Tiny, add_first, three_patients

from sdil import load_demonstrations
from sdil.cli import main
from sdil.errors import InputError
from sdil.tasks.mimic.build import assign_parts, build
from sdil.tasks.mimic.cohort import write_cohort
from sdil.tasks.mimic.definitions import features, rows_of, windows
from sdil.tasks.mimic.episodes import load_episodes
from sdil.tasks.mimic.pipeline import STEPS, Limits, Pipeline
from sdil.tasks.mimic.preparation import fit_preparation
from sdil.tasks.mimic.quality import masked
from sdil.tasks.mimic.sources import open_tables

NAMES = [f.name for f in features()]


def pipeline_of(folder: Path, cache: Path) -> Pipeline:
    return Pipeline(open_tables(folder), cache, Limits(memory_gb=1, threads=1))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Pipeline:
    folder = three_patients().write(tmp_path_factory.mktemp("mimic"))
    return pipeline_of(folder, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def episodes(tiny):
    return load_episodes(tiny)


def cohort_rows(path: Path) -> list[tuple]:
    return duckdb.sql(f"SELECT stay_id, included, onset, reason FROM '{path}'").fetchall()


def test_cohort_by_hand(tiny, tmp_path):
    flow = write_cohort(tiny, tmp_path / "cohort.parquet")
    assert cohort_rows(tmp_path / "cohort.parquet") == [
        (100, True, 10.0, "Sepsis-3"),  # the culture
        (200, True, 5.0, "Sepsis-3"),  # the antibiotic
        (300, True, -20.0, "Sepsis-3"),  # the beginning of the culture's day
        (400, False, None, "no suspected infection"),
        (500, False, None, "SOFA below 2 around the suspected infection"),
    ]
    assert (flow.stays, flow.included) == (5, 3)


def sofa_of(tiny: Pipeline, stay: int) -> dict[int, tuple[int, ...]]:
    tiny.run(["sofa"])
    found = tiny.fetch(f"SELECT * FROM sofa WHERE stay_id = {stay} ORDER BY hour", "sofa")
    parts = ("respiration", "coagulation", "liver", "cardiovascular", "cns", "renal", "sofa")
    rows = zip(*(found[part].tolist() for part in parts), strict=True)
    return dict(zip(found["hour"].tolist(), rows, strict=True))


def test_sofa_by_hand_of_every_part(tiny):
    sofa = sofa_of(tiny, 100)
    assert list(sofa) == list(range(60))  # heart rates from 0:00 to 59:00
    changes = {
        0: (0, 0, 0, 0, 0, 0, 0),
        9: (0, 0, 0, 0, 0, 2, 2),  # creatinine 2.5 at 8:30
        10: (0, 2, 1, 0, 0, 2, 5),  # platelets 90 and bilirubin 1.3 at 9:30
        11: (0, 2, 1, 1, 0, 2, 6),  # mean pressure 65
        12: (0, 2, 1, 1, 1, 2, 7),  # coma scale 13
        14: (0, 2, 1, 3, 1, 2, 9),  # norepinephrine 0.05 at 14:00 and 15:00
        15: (3, 2, 1, 3, 1, 2, 12),  # PaO2 80 on 50% oxygen, ventilated
        33: (3, 2, 1, 3, 1, 0, 10),  # 24 hours later they leave one by one
        34: (3, 0, 0, 3, 1, 0, 7),
        36: (3, 0, 0, 3, 0, 0, 6),
        39: (0, 0, 0, 0, 0, 0, 0),
    }
    expected = None
    for hour, points in sofa.items():
        expected = changes.get(hour, expected)
        assert points == expected, hour


def test_sofa_by_hand_of_urine_and_dopamine(tiny):
    urine = {hour: points[-2:] for hour, points in sofa_of(tiny, 200).items()}
    # 22 charts of 10 mL make 240 mL a day, at 22:30: hour 22 ends at 23:00
    assert urine == {hour: (0, 0) if hour < 22 else (3, 3) for hour in urine}
    dopamine = {hour: points[3] for hour, points in sofa_of(tiny, 300).items()}
    # 21:00 to 23:00; hour 0 ends at 21:00, so hours 1 and 2, and 23 after them
    assert dopamine == {hour: 3 if 1 <= hour <= 25 else 0 for hour in dopamine}


def test_treatments_by_hand(episodes):
    assert episodes.lengths.tolist() == [14, 8, 7]
    fluid, vasopressor = np.zeros(32), np.zeros(32)
    # stay 100: states at 2, 6, 10, ... ; entry i is what was given in the 4 hours before state i
    fluid[[2, 3, 4, 6]] = 500, 500, 500, 100
    vasopressor[[3, 4, 5]] = 0.05, 0.15, 0.1
    fluid[15 + 2] = 200  # stay 200: states at 1, 5, 9
    vasopressor[24 + 1] = 0.06  # stay 300: states at 0, 4
    np.testing.assert_allclose(episodes.fluid, fluid, atol=1e-6)
    np.testing.assert_allclose(episodes.vasopressor, vasopressor, atol=1e-9)


def test_actions_by_hand(episodes):
    fitted = fit_preparation(episodes, np.ones(3, bool))
    np.testing.assert_allclose(fitted.fluid_edges, [200, 500, 500], atol=1e-6)
    np.testing.assert_allclose(fitted.vasopressor_edges, [0.0575, 0.08, 0.1125])
    given = ~episodes.is_first_state
    actions = fitted.actions(episodes.fluid[given], episodes.vasopressor[given])
    assert actions.tolist() == [
        *(0, 10, 11, 14, 3, 5, 0, 0, 0, 0, 0, 0, 0, 0),
        *(0, 5, 0, 0, 0, 0, 0, 0),
        *(2, 0, 0, 0, 0, 0, 0),
    ]
    observed = fitted.observe(episodes)
    assert observed.shape == (32, len(NAMES) + 2)
    np.testing.assert_allclose(observed[4, -2:], [2 / 4, 4 / 4])  # what was done before state 4


def test_states_by_hand(episodes):
    first = {name: episodes.states[:15, i] for i, name in enumerate(NAMES)}
    nan = np.nan
    # at 2, 6, 10 ...: the mean of the 4 hours before, held for 8 hours, then unknown
    expected = [80, 80, 105, 105, 105, *[nan] * 10]
    np.testing.assert_allclose(first["heart_rate"], expected)
    np.testing.assert_allclose(first["creatinine"], [nan] * 2 + [2.5] * 7 + [nan] * 6)
    np.testing.assert_allclose(first["pao2_fio2"][4:6], 160)
    assert first["sofa"].tolist() == [0, 0, 5, 9, 12, 12, 12, 12, 7, 6, 0, 0, 0, 0, 0]
    assert first["ventilated"].tolist() == [0, 0, 0, 1, *[0] * 11]
    assert (first["age"][0], first["female"][0], first["weight"][0]) == (60, 1, 80)
    assert first["charlson"][0] == 2 + 1 + 2  # age 60; heart failure; diabetes, the worse of two
    urine = episodes.states[15:24, NAMES.index("urine_4h")]
    np.testing.assert_allclose(urine, [10, 40, 40, 40, 40, 40, 30, 30, 30])


def test_only_the_training_part_is_fitted_on(episodes):
    fitted = fit_preparation(episodes, np.array([False, True, False]))
    assert fitted.fluid_edges.tolist() == [200, 200, 200]
    assert fitted.vasopressor_edges.tolist() == [0, 0, 0]
    assert fitted.medians[NAMES.index("heart_rate")] == 90
    assert np.isfinite(fitted.observe(episodes)).all()


def test_a_death_of_a_held_out_patient_is_dropped():
    subjects = np.repeat(np.arange(10), 2)
    died = np.tile([False, True], 10)
    parts = assign_parts(subjects, died, seed=0)
    clean = parts[~died]
    assert sorted(clean.tolist()) == ["test"] * 5 + ["train"] * 3 + ["valid"] * 2
    assert parts[died].tolist() == ["train" if p == "train" else "dropped" for p in clean]


def test_a_build_is_resumed_and_repeats_itself(tmp_path, monkeypatch):
    folder = three_patients().write(tmp_path / "mimic")
    told: list[tuple[int, int, str]] = []
    once = build(
        pipeline_of(folder, tmp_path / "cache"), on_progress=lambda *said: told.append(said)
    )
    assert told[0] == (0, 20, "ICU stays")
    assert told[-1] == (20, 20, "done")
    monkeypatch.setattr(Pipeline, "_compute", lambda *_: pytest.fail("computed twice"))
    again = build(pipeline_of(folder, tmp_path / "cache"))
    assert {k: d.fingerprint() for k, d in once.parts.items()} == {
        k: d.fingerprint() for k, d in again.parts.items()
    }
    assert again.quality == once.quality


def test_what_duckdb_says_stays_inside(tiny):
    step = STEPS[0]
    stop = tiny._explain(step, RuntimeError("Query interrupted"), None)
    assert isinstance(stop, KeyboardInterrupt)
    assert "goes on where it stopped" in str(stop)
    full = tiny._explain(step, duckdb.OutOfMemoryException("failed"), None)
    assert "1 GB of memory are not enough" in str(full)
    other = tiny._explain(step, duckdb.BinderException("a value"), None)
    assert str(other) == "ICU stays: BinderException (MIMIC-IV 2.2 or 3.x is expected)"


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_other_kinds_of_files_give_the_same(tiny, tmp_path, ending):
    folder = three_patients().write(tmp_path / "mimic", ending=ending)
    other = build(pipeline_of(folder, tmp_path / "cache"))
    for part, demos in build(tiny).parts.items():
        assert demos == other.parts[part]


def test_commands(tmp_path, capsys):
    tiny = three_patients()
    add_first(tiny, 6, died=True)
    add_first(tiny, 7)
    folder, out = tiny.write(tmp_path / "mimic"), tmp_path / "demos"
    where = ["--mimic", str(folder), "--cache", str(tmp_path / "cache")]
    assert main(["mimic", "build", *where, "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["train"]["noisy"] == 1
    assert [sum(answer[p]["clean"] for p in ("train", "valid", "test"))] == [4]
    demos = load_demonstrations(out / "train")
    assert demos.spaces.action.n == 25
    assert not {"1", "2", "3", "6", "7"} & set(demos.all.groups)
    assert main(["inspect", str(out)]) == 0
    assert "<5" in capsys.readouterr().out
    assert main(["inspect", str(out / "train"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quality"]["flow"]["Sepsis-3"] == 5
    assert main(["mimic", "cohort", *where, "--out", str(tmp_path / "c.parquet")]) == 0
    assert len(cohort_rows(tmp_path / "c.parquet")) == 7
    assert main(["mimic", "cohort", *where, "--out", str(tmp_path / "c.parquet")]) == 2
    assert main(["mimic", "build", *where, "--out", str(out)]) == 2
    assert main(["mimic"]) == 2
    assert main(["mimic", "build", "--out", str(tmp_path / "x")]) == 2
    ninety = ["--out", str(tmp_path / "x"), "--mortality", "90-day", "--json"]
    assert main(["mimic", "build", *where, *ninety]) == 0


def test_small_cells_are_masked():
    assert [masked(n) for n in (0, 1, 4, 5)] == [0, "<5", "<5", 5]


def break_table(folder: Path, name: str, change) -> None:
    path = folder / f"{name}.csv.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    path.write_bytes(gzip.compress(change(text).encode()))


@pytest.mark.parametrize("name", list(COLUMNS))
def test_a_missing_table_is_named(tmp_path, name):
    folder = three_patients().write(tmp_path / "mimic")
    (folder / f"{name}.csv.gz").unlink()
    with pytest.raises(InputError, match=rf"{name} is missing.*MIMIC-IV 2\.2 or 3\.x"):
        open_tables(folder)


def test_bad_tables_are_named_and_nothing_of_a_patient_is(tmp_path):
    folder = three_patients().write(tmp_path / "mimic")
    break_table(folder, "icu/icustays", lambda t: t.replace("intime", "began"))
    with pytest.raises(InputError, match=r"icustays.csv.gz: column intime missing; MIMIC-IV 2\.2"):
        open_tables(folder)

    folder = three_patients().write(tmp_path / "words")
    break_table(folder, "hosp/labevents", lambda t: t.replace(",2.5\r\n", ",secret\r\n"))
    with pytest.raises(InputError, match=r"labevents.csv.gz: column valuenum: 1 values") as error:
        build(pipeline_of(folder, tmp_path / "words-cache"))
    assert "secret" not in str(error.value)

    folder = three_patients().write(tmp_path / "gzip")
    (folder / "icu" / "chartevents.csv.gz").write_bytes(b"no gzip at all")
    with pytest.raises(InputError, match=r"chartevents.csv.gz: cannot be read as gzip; MIMIC-IV"):
        open_tables(folder)

    with pytest.raises(InputError, match=r"is not a folder.*MIMIC-IV 2\.2"):
        open_tables(tmp_path / "nowhere")
    (tmp_path / "old" / "core").mkdir(parents=True)
    with pytest.raises(InputError, match=r"core/ folder is of MIMIC-IV 1\.0"):
        open_tables(tmp_path / "old")
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "ICUSTAYS.csv").touch()
    with pytest.raises(InputError, match="looks like MIMIC-III"):
        open_tables(tmp_path / "third")


def test_a_truncated_gzip_is_an_error(tmp_path):
    tiny = three_patients()
    stay = tiny.stay(8, datetime(2154, 1, 1), 24)
    for i in range(20_000):  # more than one block, so that the header alone can be read
        stay.chart(220045, i / 1000, 60 + i * 7919 % 97)
    folder = tiny.write(tmp_path / "mimic")
    path = folder / "icu" / "chartevents.csv.gz"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=r"chartevents.csv.gz: .*MIMIC-IV 2\.2"):
        build(pipeline_of(folder, tmp_path / "cache"))


def test_an_empty_cohort_is_an_error(tmp_path):
    tiny = Tiny()
    tiny.stay(1, datetime(2150, 1, 1), 24)
    folder = tiny.write(tmp_path / "mimic")
    with pytest.raises(InputError, match="the cohort is empty"):
        build(pipeline_of(folder, tmp_path / "cache"))


def test_definitions_name_their_sources_and_the_docs_show_them():
    assert all(row["source"] for row in rows_of("variables.csv"))
    assert windows()["step"] == 4
    page = (Path(__file__).parents[2] / "docs" / "mimic.md").read_text("utf-8")
    for row in rows_of("variables.csv"):
        assert row["itemid"] in page
    for name in [*windows(), *NAMES]:
        assert f"`{name}`" in page, name


@pytest.mark.slow
def test_the_scaling_benchmark_runs(tmp_path):
    folder, file = three_patients().write(tmp_path / "mimic"), tmp_path / "measured.json"
    script = Path(__file__).parents[2] / "benchmarks" / "mimic_scaling.py"
    options = ["--demo", folder, "--copies", "1", "3", "--json", file]
    done = subprocess.run([sys.executable, script, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [row["stays"] for row in json.loads(file.read_text())["rows"]] == [3, 9]


def demo_folder() -> Path:
    given = os.environ.get("SDIL_MIMIC_DEMO")
    folder = Path(given) if given else Path(__file__).parents[3] / "shared/data/mimic-iv-demo"
    if not (folder / "icu").is_dir():
        pytest.skip(f"no MIMIC-IV demo at {folder}; set SDIL_MIMIC_DEMO")
    return folder


@pytest.mark.slow
def test_demo_counts_and_invariants(tmp_path):
    pipeline = pipeline_of(demo_folder(), tmp_path / "cache")
    flow = write_cohort(pipeline, tmp_path / "cohort.parquet")
    # what a transcription of the public concepts (mimic-code: sepsis3, sofa) gave on the same files
    assert (flow.stays, flow.included) == (140, 62)
    septic = [
        (stay, round(onset, 4))
        for stay, inside, onset, _ in cohort_rows(tmp_path / "cohort.parquet")
        if inside
    ]
    assert hashlib.sha256(repr(septic).encode()).hexdigest()[:16] == "23268182e9524cc9"
    parts = ("sofa", "respiration", "coagulation", "liver", "cardiovascular", "cns", "renal")
    sums = ", ".join(f"sum({part})::BIGINT AS {part}" for part in parts)
    found = pipeline.fetch(f"SELECT count(*) AS hours, {sums} FROM sofa", "sofa")
    assert [int(found[name][0]) for name in ("hours", *parts)] == [
        *(12_209, 60_963, 9_027, 8_229, 5_254, 17_649, 7_408, 13_396)
    ]
    built = build(pipeline, seed=3)
    assert {k: d.fingerprint() for k, d in build(pipeline, seed=3).parts.items()} == {
        k: d.fingerprint() for k, d in built.parts.items()
    }
    groups = {k: set(d.all.groups) for k, d in built.parts.items()}
    assert not groups["train"] & groups["valid"]
    assert not (groups["train"] | groups["valid"]) & groups["test"]
    assert len(built.parts["train"].noisy) > 0
    for part in ("valid", "test"):
        assert len(built.parts[part].noisy) == 0
    for demos in built.parts.values():
        assert demos.all.lengths.max() <= 18
        assert np.abs(demos.all.observations).max() < 50
    train = built.parts["train"].all
    actions = train.actions[train.steps()]
    for levels in (actions // 5, actions % 5):
        counts = np.bincount(levels, minlength=5)[1:]
        assert counts.min() > 0.7 * counts.max()  # quartiles


@pytest.mark.slow
def test_demo_threads_do_not_change_the_numbers(tmp_path):
    tables = open_tables(demo_folder())
    found = [
        build(Pipeline(tables, tmp_path / str(threads), Limits(memory_gb=2, threads=threads)))
        for threads in (1, 2)
    ]
    assert found[0].quality == found[1].quality
    for part, demos in found[0].parts.items():
        assert demos == found[1].parts[part]
