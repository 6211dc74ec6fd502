"""Studies written in TOML: what they mean, and what is wrong with them."""

from __future__ import annotations

import pytest

from sdil import InputError
from sdil.studies.written import read_written

GOOD = """
title = "Mine"
tasks = ["fourrooms", "sepsis"]
clean = [10, 30]
noisy = 50
seeds = [3, 4]
champion = "wide"

[[learners]]
learner = "bc"
setting = "clean only"

[[learners]]
learner = "sdil"
fields = { mi_weight = [0.5, 1] }

[[learners]]
row = "wide"
learner = "sdil"
fields = { hidden = 128 }
"""


def read(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    return read_written(file)


def test_a_grid(tmp_path):
    study = read(tmp_path, GOOD)
    assert (study.name, study.title, study.axis) == ("mine", "Mine", "clean trajectories")
    assert study.rows == ["bc, clean only", "sdil, mi_weight 0.5", "sdil, mi_weight 1", "wide"]
    assert len(study.entries) == 2 * 2 * 2 * 4
    first = study.entries[0]
    assert (first.cell.task, first.cell.clean, first.cell.noisy, first.at) == (
        "fourrooms",
        10,
        0,
        10,
    )
    assert dict(study.entries[3].cell.fields) == {"hidden": 128}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"sepsis"]', '"chess"]', "mine.toml: tasks: needs names of tasks"),
        ("clean = [10, 30]", "", "mine.toml: clean: needs numbers of trajectories"),
        ("clean = [10, 30]", "clean = 0", "mine.toml: clean: needs"),
        ("noisy = 50", "noisy = [1, 2]", "mine.toml: noisy: one of clean and noisy"),
        ("seeds = [3, 4]", "seeds = [3, 3]", "mine.toml: seeds: needs whole numbers, each once"),
        ("seeds =", "seed =", "mine.toml: seed: not known; there are title"),
        ('champion = "wide"', 'champion = "x"', "mine.toml: champion: no row is called 'x'"),
        ('"bc"', '"abc"', r"mine.toml: learners\[0\].learner: 'abc' is none of acil"),
        ('"clean only"', '"none"', r"mine.toml: learners\[0\].setting"),
        (
            "hidden = 128",
            "width = 1",
            r"mine.toml: learners\[2\].fields: sdil has no field 'width'",
        ),
        ("hidden = 128", 'hidden = "a"', r"learners\[2\].fields: sdil: hidden must be a whole"),
        ('row = "wide"', 'rows = "wide"', r"mine.toml: learners\[2\].rows: not known"),
        ('row = "wide"', 'row = "bc, clean only"', r"learners\[2\].row: two rows are called"),
        ('title = "Mine"', 'title = "Mine', "mine.toml: cannot be read as TOML"),
        ('title = "Mine"', 'measure = "joy"', "mine.toml: measure: one of reward"),
    ],
)
def test_one_clear_complaint(tmp_path, old, new, said):
    assert old in GOOD
    with pytest.raises(InputError, match=said):
        read(tmp_path, GOOD.replace(old, new))


def test_no_file_and_no_learners(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_written(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"learners: at least one \[\[learners\]\]"):
        read(tmp_path, 'tasks = "sepsis"\nclean = 1\n')
