"""The search looks at clean validation alone, and goes on where it stopped."""

from __future__ import annotations

import pytest
from small import cell, records

from sdil import InputError
from sdil.studies.reading import read_study
from sdil.studies.runners import in_this_process
from sdil.studies.tune import read_space, tune

pytest.importorskip("optuna")
SPACE = {"hidden": [4, 8, 64], "learning_rate": {"low": 1e-4, "high": 1e-1, "log": True}}


def search(root, trials, *, space=SPACE, run=in_this_process, fields=None):
    return tune(
        cell(measured="all", fields=fields or {}),
        space,
        where="space.toml",
        trials=trials,
        seeds=(0, 1),
        root=root,
        run=run,
        abreast=2,
    )


@pytest.mark.slow
def test_a_search_goes_on_where_it_stopped(tmp_path):
    first = search(tmp_path, 2)
    assert {t.number for t in first} == {0, 1}
    by_number = {t.number: t for t in first}
    assert by_number[0].fields == {"hidden": 64, "learning_rate": 1e-3}  # the learner as it is
    assert [t.valid_nll for t in first] == sorted(t.valid_nll for t in first)
    assert len(records(tmp_path)) == 4
    for record in read_study(tmp_path / "tune-bc-sepsis").found:
        assert set(record.record["measures"]) == {"valid_nll", "valid_acc"}  # no reward in sight

    def interrupted(jobs):
        yield from in_this_process(jobs[:1])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, 3, run=interrupted)
    measured = []

    def rest(jobs):
        measured.extend(jobs)
        return in_this_process(jobs)

    found = search(tmp_path, 3, run=rest)
    assert len(found) == 3
    assert len(measured) == 1  # the other cell of the interrupted trial was kept
    assert search(tmp_path, 3, run=lambda jobs: iter(())) == found


def test_a_search_in_which_all_fails_ends(tmp_path):
    with pytest.raises(InputError, match="every cell of a trial failed"):
        search(tmp_path, 1, space={"learning_rate": [1e30]})


@pytest.mark.parametrize(
    ("space", "said"),
    [
        ({}, "space.toml: names no field"),
        ({"width": [1]}, "space.toml: width: no such field"),
        ({"hidden": [0]}, "space.toml: hidden must be a whole number, at least 1, not 0"),
        ({"hidden": {"low": 0, "high": 3}}, "space.toml: hidden: low must be"),
        ({"hidden": 3}, r"space.toml: hidden: a list, or { low"),
        ({"hidden": {"low": 5, "high": 3}}, "space.toml: hidden: "),
    ],
)
def test_a_bad_space_is_named(tmp_path, space, said):
    with pytest.raises(InputError, match=said):
        search(tmp_path, 1, space=space)


def test_a_space_file(tmp_path):
    file = tmp_path / "space.toml"
    file.write_text("hidden = [1, 2]\n")
    assert read_space(file) == {"hidden": [1, 2]}
    file.write_text("hidden =")
    with pytest.raises(InputError, match=r"space\.toml: cannot be read as TOML"):
        read_space(file)
