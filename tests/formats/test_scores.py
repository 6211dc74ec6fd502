"""The table of step scores: names that others chose are names, not SQL."""

from __future__ import annotations

import csv

import duckdb
import numpy as np
import pytest

from sdil.formats.scores import ScoredSet, write_scores
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
