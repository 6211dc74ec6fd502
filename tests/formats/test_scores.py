"""The table of step scores: names that others chose are names, not SQL."""

from __future__ import annotations

import csv
from dataclasses import replace

import duckdb
import numpy as np
import pytest

from sdil.errors import InputError
from sdil.formats.scores import ScoredSet, read_scores, write_scores
from sdil.scores import StepScores

NAMES = ['x"; DROP TABLE steps; --', "it's", "); COPY (SELECT 42) TO 'here'; --"]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_the_name_of_a_signal_is_no_sql(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    scores = StepScores(
        optimality=np.array([0.5, -0.5]), parts={name: np.array([1.0, 2.0]) for name in NAMES}
    )
    path = tmp_path / f"o'neill's{ending}"
    write_scores(path, {"clean": ScoredSet(["one'); --"], [scores])})
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    if ending == ".csv":
        with path.open(newline="") as file:
            columns, first, _ = csv.reader(file)
        row = dict(zip(columns, first, strict=True))
    else:
        found = duckdb.execute("SELECT * FROM read_parquet(?)", [str(path)])
        columns = [column[0] for column in found.description]
        row = dict(zip(columns, map(str, found.fetchall()[0]), strict=True))
    assert {row[name] for name in NAMES} == {"1.0"}
    assert row["episode"] == "one'); --"


def test_the_other_answers_are_columns_where_they_are_known(tmp_path):
    bare = StepScores(optimality=np.array([0.5, -0.5]))
    whole = replace(
        bare,
        quality=np.array([0.25, 0.75]),
        quality_parts={"pace": np.array([0.0, 1.0])},
        integrity=np.array([0.9, np.nan]),
    )
    columns = {}
    for name, scores in (("bare", bare), ("whole", whole)):
        path = tmp_path / f"{name}.parquet"
        write_scores(path, {"noisy": ScoredSet(["e"], [scores])})
        found = duckdb.execute("SELECT * FROM read_parquet(?)", [str(path)])
        names = [column[0] for column in found.description]
        columns[name] = dict(zip(names, zip(*found.fetchall(), strict=True), strict=True))
    more = ["quality", "quality_pace", "integrity"]
    assert [c for c in columns["whole"] if c not in columns["bare"]] == more
    assert columns["whole"]["quality"] == (0.25, 0.75)
    assert columns["whole"]["quality_pace"] == (0.0, 1.0)
    assert columns["whole"]["integrity"] == (0.9, None)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_is_read_again_as_it_was_written(tmp_path, ending):
    first = StepScores(
        optimality=np.array([0.5, -0.5, 0.25], np.float32),
        parts={"likelihood": np.array([0.5, -1.0, 0.0])},
        quality=np.array([0.25, 0.75, 0.5]),
        quality_parts={"pace": np.array([0.0, 1.0, 0.5])},
        integrity=np.array([0.9, np.nan, 0.5]),
    )
    second = replace(first, optimality=np.array([0.1, 0.2, -0.3], np.float32))
    frames = [np.array([0, 2, 4]), np.array([7, 9, 11])]
    sets = {
        "clean": ScoredSet(["12"], [second], {"frame": frames[1:]}),
        "noisy": ScoredSet(["7", "a"], [first, second], {"frame": frames}),
    }
    path = tmp_path / f"scores{ending}"
    write_scores(path, sets)
    again = read_scores(path)
    assert list(again) == ["clean", "noisy"]
    assert again["noisy"].ids == ["7", "a"]
    for old, new in zip(sets["noisy"].scores, again["noisy"].scores, strict=True):
        np.testing.assert_allclose(new.optimality, old.optimality, rtol=1e-6)
        np.testing.assert_allclose(new.integrity, old.integrity)
        assert set(new.parts) == {"likelihood"}
        assert set(new.quality_parts) == {"pace"}
    assert [f.tolist() for f in again["noisy"].more["frame"]] == [[0, 2, 4], [7, 9, 11]]


def test_another_table_is_no_table_of_scores(tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="no column set"):
        read_scores(tmp_path / "other.csv")
