"""Tables of labels: what is written is read again, and every fault is named."""

from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil.errors import InputError
from sdil.labels import (
    PROGRAM,
    Label,
    agreement,
    agreements,
    clean_from_labels,
    load_labels,
    save_labels,
    told_steps,
)

EPISODES = {("clean", "a"): (0, 3), ("noisy", "a"): (3, 5), ("noisy", "b, 'c'"): (8, 4)}
SOME = [
    Label("noisy", "a", 0, 2, "good", "Ann", "2026-11-17T04:00:00+00:00", 'quick, "neat"\nreally'),
    Label("noisy", "b, 'c'", 1, 3, "bad", "Bob"),
    Label("clean", "a", 0, 0, "unsure"),
]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_what_is_written_is_read_again(tmp_path, ending):
    path = tmp_path / f"it's.{ending}"
    for labels in ([], SOME):
        save_labels(path, labels)
        assert load_labels(path) == labels
    assert [p.name for p in tmp_path.iterdir()] == [path.name]  # nothing temporary is left


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("noisy,a,0,x,good", "row 1: last_step is 'x'"),
        ("noisy,a,3,1,good", "row 1: last_step is 1, before first_step"),
        ("noisy,a,0,1,fine", "row 1: label is 'fine', not one of good, bad, unsure"),
        ("dirty,a,0,1,good", "row 1: set is 'dirty'"),
        ("noisy,a,-1,1,good", "row 1: first_step is -1"),
    ],
)
def test_faults_are_named_by_file_row_and_column(tmp_path, row, said):
    path = tmp_path / "labels.csv"
    path.write_text(f"set,episode,first_step,last_step,label\n{row}\n")
    with pytest.raises(InputError, match=r"labels\.csv, " + said):
        load_labels(path)


def test_tables_that_are_none_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("set,episode\n")
    with pytest.raises(InputError, match="no column first_step"):
        load_labels(tmp_path / "a.csv")
    (tmp_path / "a.parquet").write_text("nothing")
    with pytest.raises(InputError, match="cannot be read"):
        load_labels(tmp_path / "a.parquet")
    with pytest.raises(InputError, match="no such table"):
        load_labels(tmp_path / "b.csv")
    with pytest.raises(InputError, match=r"must end in \.csv or \.parquet"):
        save_labels(tmp_path / "b.txt", [])


def test_episodes_and_steps_that_there_are_not_are_named():
    with pytest.raises(InputError, match="row 1, episode: there is no noisy episode 'z'"):
        told_steps([Label("noisy", "z", 0, 1, "good")], EPISODES)
    with pytest.raises(InputError, match="row 2, last_step: episode 'a' has 5 steps"):
        told_steps([SOME[0], Label("noisy", "a", 0, 5, "good")], EPISODES)


def test_later_answers_count_and_people_have_one_voice_each():
    more = [Label("noisy", "a", 2, 4, "bad", "Ann"), Label("noisy", "a", 0, 0, "bad", "Bob")]
    told, span = told_steps([*SOME, *more], EPISODES)
    nan = np.nan
    np.testing.assert_array_equal(told, [nan] * 3 + [0.5, 1, 0, 0, 0] + [nan, 0, 0, 0])
    np.testing.assert_array_equal(span, [-1] * 3 + [4, 0, 3, 3, 3] + [-1, 1, 1, 1])


def test_agreement_is_cohens_kappa():
    one, other = np.array([1, 1, 0, 0, np.nan]), np.array([1, 0, 0, 0, 1])
    assert agreement(one, other) == pytest.approx(0.5)
    assert agreement(one, np.full(5, np.nan)) is None
    found = agreements(
        [Label("noisy", "a", 0, 1, "good", "Ann"), Label("noisy", "a", 2, 3, "bad", "Ann")],
        EPISODES,
        np.array([0, 0, 0, 1, 1, -1, 1, 0, 0, 0, 0, 0.0]),
    )
    assert found == [{"one": "Ann", "other": PROGRAM, "steps": 4, "kappa": pytest.approx(0.5)}]


def test_spans_that_are_called_good_are_a_clean_set():
    noisy = [
        sdil.Trajectory(np.arange(6.0)[:, None] + 10 * i, np.zeros(5, int), None, True, f"n{i}")
        for i in range(3)
    ]
    labels = [
        Label("noisy", "n0", 1, 2, "good"),
        Label("noisy", "n1", 3, 4, "good"),
        Label("noisy", "n1", 0, 1, "good"),
        Label("noisy", "n1", 1, 1, "bad"),
        Label("noisy", "n2", 0, 4, "unsure"),
    ]
    demos = clean_from_labels(noisy, labels)
    assert demos.noisy.ids == ("n0", "n1", "n2")
    assert demos.clean.ids == ("n0 from 1", "n1 from 0", "n1 from 3")
    assert demos.clean.groups == ("noisy:n0", "noisy:n1", "noisy:n1")
    assert [t.observations[:, 0].tolist() for t in demos.clean] == [
        [1, 2, 3],
        [10, 11],
        [13, 14, 15],
    ]
    assert [t.terminated for t in demos.clean] == [False, False, True]
    with pytest.raises(InputError, match="nothing to trust"):
        clean_from_labels(noisy, labels[3:])
