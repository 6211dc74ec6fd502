"""MIMIC-IV: three invented patients worked out by hand, bad input, and the open demo."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import stat
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest
from tiny_mimic import COLUMNS, add_first, three_patients

from sdil import load_demonstrations
from sdil.cli import main
from sdil.errors import InputError
from sdil.formats.folder import save_demonstrations
from sdil.formats.sql import quoted_name, quoted_text
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
    doing, reads = STEPS[0].text, STEPS[0].reads
    stop = tiny._explain(doing, reads, RuntimeError("Query interrupted"))
    assert isinstance(stop, KeyboardInterrupt)
    assert "goes on where it stopped" in str(stop)
    full = tiny._explain(doing, reads, duckdb.OutOfMemoryException("failed"))
    assert "1 GB of memory are not enough" in str(full)
    other = tiny._explain(doing, reads, duckdb.BinderException("a value"))
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


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_the_name_of_a_column_is_no_sql(tmp_path, ending):
    folder, written = three_patients().write(tmp_path / "o'neill", ending=ending), tmp_path / "42"
    path = folder / f"hosp/patients{ending}"
    opener = gzip.open if ending == ".csv.gz" else open
    with opener(path, "rt", newline="") as file:
        header, *rows = file.read().splitlines()
    evil = f"x': 'VARCHAR'}}); COPY (SELECT 42) TO '{written}'; --"
    with opener(path, "wt", newline="") as file:
        file.write("\n".join([f'{header},"{evil}"', *(f"{row}," for row in rows)]))
    assert open_tables(folder)["patients"].columns[-1] == evil
    assert len(build(pipeline_of(folder, tmp_path / "it's a cache")).parts) == 3
    assert not written.exists()


def test_neither_is_that_of_a_parquet_column(tmp_path):
    folder = three_patients().write(tmp_path / "mimic", ending=".parquet")
    path = folder / "hosp/patients.parquet"
    evil = quoted_name("x\" AS y; COPY (SELECT 42) TO '42'; --")
    duckdb.execute(f"COPY (SELECT *, 1 AS {evil} FROM '{path}') TO '{path}.new' (FORMAT parquet)")
    Path(f"{path}.new").rename(path)
    assert len(build(pipeline_of(folder, tmp_path / "cache")).parts) == 3


def test_names_and_texts_in_sql():
    for text in ("plain", "it's", 'a "name"', "x'); DROP TABLE y; --", "back\\slash"):
        found = duckdb.execute(f"SELECT {quoted_text(text)} AS {quoted_name(text)}")
        assert found.description[0][0] == text
        assert found.fetchall() == [(text,)]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (lambda h: h + ",", r"patients\.csv\.gz: column 7 has no name"),
        (lambda h: h + ",Gender", r"patients\.csv\.gz: more than one column is called 'gender'"),
        (lambda h: h.replace("dod", "x" * 200_000), r"patients\.csv\.gz: its first line names no"),
        (lambda h: "", r"patients\.csv\.gz: columns subject_id, .* missing"),
    ],
)
def test_columns_must_be_told_apart(tmp_path, header, said):
    folder = three_patients().write(tmp_path / "mimic")
    break_table(
        folder, "hosp/patients", lambda t: header(t.partition("\r\n")[0]) + "\r\n1,F,60,2150,,"
    )
    with pytest.raises(InputError, match=said):
        open_tables(folder)


def build_command(folder: Path, tmp_path: Path) -> int:
    out = tmp_path / "out" / "demos"
    return main(["mimic", "build", "--mimic", str(folder), "--out", str(out), "--overwrite"])


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("name", ["hosp/patients", "icu/inputevents"])
def test_a_table_without_rows_is_named(tmp_path, capsys, name, ending):
    tiny = three_patients()
    tiny.rows[name].clear()
    folder = tiny.write(tmp_path / "mimic", ending=ending)
    assert build_command(folder, tmp_path) == 2
    assert f"{name}{ending}: there are columns, but no rows; MIMIC-IV" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["hosp/patients", "hosp/admissions", "icu/icustays"])
def test_the_table_at_fault_is_named_among_several(tmp_path, capsys, name):
    """These three are read together."""
    folder = three_patients().write(tmp_path / "mimic")
    column = {"hosp/patients": "anchor_age"}.get(name, "hadm_id")
    index = COLUMNS[name].split().index(column)

    def spoil(text: str) -> str:
        head, first, *rest = text.split("\r\n")
        values = first.split(",")
        values[index] = "secret"
        return "\r\n".join([head, ",".join(values), *rest])

    break_table(folder, name, spoil)
    assert build_command(folder, tmp_path) == 2
    said = capsys.readouterr().err
    assert f"{name}.csv.gz: column {column}: 1 values are no " in said
    assert "secret" not in said


def test_a_damaged_result_of_a_step_is_named(tmp_path, capsys):
    folder = three_patients().write(tmp_path / "mimic")
    pipeline = pipeline_of(folder, tmp_path / "out" / ".mimic-cache")
    pipeline.run(["stays"])
    pipeline.path("stays").write_bytes(b"PAR1 and then nothing")
    assert build_command(folder, tmp_path) == 2
    said = capsys.readouterr().err
    assert f"{pipeline.path('stays')}: damaged; delete it" in said
    pipeline.path("stays").unlink()
    assert build_command(folder, tmp_path) == 0


def modes(folder: Path) -> dict[str, int]:
    paths = [folder, *folder.rglob("*")]
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in paths}


def assert_private(folder: Path) -> None:
    found = modes(folder)
    assert len(found) > 3
    assert {p: oct(m) for p, m in found.items() if m not in (0o700, 0o600)} == {}


def test_nobody_else_reads_what_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr("sdil.tasks.mimic.build.save_demonstrations", watch := Watch(tmp_path))
    folder = three_patients().write(tmp_path / "mimic")
    before = os.umask(0o022)
    try:
        assert build_command(folder, tmp_path) == 0
        cohort = tmp_path / "out" / "cohort.parquet"
        assert main(["mimic", "cohort", "--mimic", str(folder), "--out", str(cohort)]) == 0
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
    assert watch.times == 3
    assert_private(tmp_path / "out" / "demos")
    assert_private(tmp_path / "out" / ".mimic-cache")
    assert stat.S_IMODE(cohort.stat().st_mode) == 0o600


class Watch:
    """Writes demonstrations and looks at everything that there is meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.times = folder, 0

    def __call__(self, demos, folder, **more):
        save_demonstrations(demos, folder, write_more=self.look, **more)

    def look(self, _):
        assert_private(self.folder / "out")
        self.times += 1


def test_what_duckdb_spills_is_private_and_goes(tmp_path):
    pipeline = pipeline_of(three_patients().write(tmp_path / "mimic"), tmp_path / "cache")
    pipeline.run(["stays"])
    with pipeline.connect() as connection:
        connection.execute("SET memory_limit = '30MB'")
        connection.execute("CREATE TABLE t AS SELECT random() AS a FROM range(6000000) ORDER BY a")
        (spill,) = (tmp_path / "cache").glob("spill*")
        assert list(spill.iterdir())
        assert_private(tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("spill*"))


def test_an_older_cache_is_closed_and_cleared(tmp_path):
    folder = three_patients().write(tmp_path / "mimic")
    cache = tmp_path / "cache"
    once = build(pipeline_of(folder, cache))
    done = sorted(path.name for path in cache.iterdir())
    for path in (cache, *cache.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    killed = subprocess.Popen(["true"])
    killed.wait()  # its number is nobody's now
    left = [
        f".stays-0123456789abcdef.parquet.{killed.pid}.abcd_f12",
        f"tmp_.stays-0123456789abcdef.parquet.{killed.pid}.abcd_f12",
        ".stays-0123456789abcdef.parquet.abcd_f12",
        f".postgres-labevents-0123456789abcdef.csv.gz.{killed.pid}.abcd_f12",
    ]
    for name in left:
        (cache / name).write_text("a patient")
    for name in ("spill", f"spill-{killed.pid}-abcd_f12"):
        (cache / name).mkdir()
        (cache / name / "duckdb_temp_storage-0.tmp").write_text("a patient")
    assert build(pipeline_of(folder, cache)).quality == once.quality
    assert sorted(path.name for path in cache.iterdir()) == done
    assert_private(cache)


def test_what_is_not_ours_stays_as_it_is(tmp_path):
    """Another build at work, and a folder that is more than a cache."""
    folder, cache = three_patients().write(tmp_path / "mimic"), tmp_path / "cache"
    cache.mkdir(mode=0o755)
    others = [f".stays-0123456789abcdef.parquet.{os.getpid()}.abcd_f12", "notes.txt", ".hidden"]
    for name in others:
        (cache / name).touch(0o644)
    build(pipeline_of(folder, cache))
    assert {name for name in others if (cache / name).exists()} == {*others}
    found = modes(cache)
    assert found[str(cache)] == 0o755
    assert found[str(cache / "notes.txt")] == 0o644
    assert {found[str(p)] for p in cache.glob("*.parquet")} == {0o600}


@pytest.fixture
def small_disk(tmp_path):
    """A disk of so many kB, or a skip where none can be made."""
    place = tmp_path / "disk"
    place.mkdir()

    def mount(size: int) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(place)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
        return place

    yield mount
    subprocess.run(["umount", str(place)], capture_output=True)


def test_a_full_disk_is_not_the_inputs_fault(small_disk, tmp_path, capsys):
    tiny = three_patients()
    stay = tiny.stay(8, datetime(2154, 1, 1), 24)
    rng = np.random.default_rng(0)
    for value in rng.uniform(30, 200, 30_000).tolist():
        stay.chart(220045, value / 10, value)
    folder, disk = tiny.write(tmp_path / "mimic"), small_disk(200)
    where = ["--mimic", str(folder), "--cache", str(disk / "cache")]
    assert main(["mimic", "build", *where, "--out", str(tmp_path / "demos")]) == 2
    said = capsys.readouterr().err
    assert f"chart events: the disk of {disk / 'cache'} is full (1 tables of " in said
    assert " are free; " in said
    assert "pass --cache FOLDER" in said
    assert "damaged" not in said
    assert not list((disk / "cache").glob("*charts*"))


def test_a_disk_that_is_full_at_the_end(small_disk, tmp_path, capsys):
    folder, disk = three_patients().write(tmp_path / "mimic"), small_disk(60)
    out = disk / "demos"
    where = ["--mimic", str(folder), "--cache", str(tmp_path / "cache")]
    assert main(["mimic", "build", *where, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert f"cannot write {out}" in said
    assert "the disk is full" in said
    assert list(disk.iterdir()) == []


@pytest.mark.parametrize(
    "error",
    [
        duckdb.IOException('Could not write file "x": No space left on device'),
        duckdb.OutOfMemoryException("failed to offload: 'max_temp_directory_size' setting"),
    ],
)
def test_room_is_asked_for_where_duckdb_has_none(tmp_path, error):
    pipeline = pipeline_of(three_patients().write(tmp_path / "mimic"), tmp_path / "cache")
    step = STEPS[0]
    pipeline.run([step.name])
    with pytest.raises(InputError, match=r"ICU stays: the disk of .*cache is full \(1 tables of"):
        raise pipeline._explain(step.text, step.reads, error)


def test_duckdb_still_says_so_when_it_may_not_spill(tiny):
    with tiny.connect() as connection:
        connection.execute("SET memory_limit = '30MB'")
        connection.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(duckdb.OutOfMemoryException) as full:
            connection.execute("CREATE TABLE t AS SELECT random() a FROM range(9000000) ORDER BY a")
    assert "the disk of" in str(tiny._explain("it", (), full.value))


def test_an_empty_cohort_is_an_error(tmp_path):
    tiny = three_patients()
    tiny.rows["hosp/prescriptions"] = [
        {**row, "drug": "Paracetamol"} for row in tiny.rows["hosp/prescriptions"]
    ]
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
