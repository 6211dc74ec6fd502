"""Studies written in TOML: what they mean, and what is wrong with them."""

from __future__ import annotations

from dataclasses import fields as fields_of

import numpy as np
import pytest

from sdil import SDIL, Demonstrations, InputError, Judge, Trajectory
from sdil.cli import main
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
        ("hidden = 128", "hidden = -8", "sdil: hidden must be a whole number, at least 1, not -8"),
        ("hidden = 128", "hidden = 2.5", "hidden must be a whole number, at least 1, not 2.5"),
        ("hidden = 128", "hidden = []", r"learners\[2\].fields: hidden: at least one value"),
        ("hidden = 128", 'score = "nope"', 'sdil: score must be one of "judge", "pu", not'),
        ("hidden = 128", 'next_state = "no"', "sdil: next_state must be true or false, not 'no'"),
        ("hidden = 128", f"adv_weight = {10**400}", "sdil: adv_weight must be a number"),
        ("hidden = 128", f"hidden = {'9' * 5000}", "mine.toml: cannot be read as TOML"),
        (
            "fields = { hidden = 128 }",
            'judge = "evidence"\njudge_fields = { good_share = 1.5 }',
            r"learners\[2\].judge: evidence: good_share must be a number, above 0 and under 1",
        ),
        ("seeds = [3, 4]", "seeds = [-1]", "mine.toml: seeds: needs whole numbers"),
        ("seeds = [3, 4]", f"seeds = {10**30}", "mine.toml: seeds: needs whole numbers"),
        ("clean = [10, 30]", "clean = -5", "mine.toml: clean: needs numbers"),
        ("noisy = 50", "noisy = -5", "mine.toml: noisy: needs numbers"),
        ('champion = "wide"', 'champion = ["wide"]', "mine.toml: champion: no row is called"),
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


def test_a_preset_and_what_differs_from_it(tmp_path):
    file, head = tmp_path / "presets.toml", 'tasks = "fourrooms"\nclean = 3\n'
    learner = '[[learners]]\nlearner = "{}"\npreset = "{}"\nfields = {{ n_skills = 3 }}\n'
    file.write_text(
        'tasks = "fourrooms"\nclean = 3\n' + learner.format("sdil", "paper-without-adv")
    )
    asked = dict(read_written(file).entries[0].cell.fields)
    preset = SDIL.presets()["paper-without-adv"]
    paper = {f.name: getattr(preset, f.name) for f in fields_of(SDIL)}
    assert asked["n_skills"] == 3
    assert asked["adv_weight"] == 0.0
    assert {name: paper[name] for name in asked if name != "n_skills"} == {
        name: value for name, value in asked.items() if name != "n_skills"
    }
    file.write_text(head + learner.format("sdil", "lavish"))
    with pytest.raises(InputError, match=r"preset: sdil: there are paper, .*, not 'lavish'"):
        read_written(file)
    file.write_text(head + learner.format("bc", "paper"))
    with pytest.raises(InputError, match=r"preset: bc: it has none, not 'paper'"):
        read_written(file)


def test_no_file_and_no_learners(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        read_written(tmp_path / "none.toml")
    with pytest.raises(InputError, match=r"learners: at least one \[\[learners\]\]"):
        read(tmp_path, 'tasks = "sepsis"\nclean = 1\n')


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"score": "nope"}, 'sdil: score must be one of "judge", "pu", not \'nope\''),
        ({"hidden": -8}, "sdil: hidden must be a whole number, at least 1, not -8"),
        ({"hidden": 2.5}, "sdil: hidden must be a whole number, at least 1, not 2.5"),
        ({"next_state": "no"}, "sdil: next_state must be true or false, not 'no'"),
    ],
)
def test_python_and_the_command_line_refuse_the_same(fields, said, tmp_path, capsys):
    step = Trajectory(np.zeros((3, 2), np.float32), np.array([0, 1]))
    with pytest.raises(InputError, match=said):
        SDIL(**fields).fit(Demonstrations(clean=[step], noisy=[step]), seed=0)
    options = [part for k, v in fields.items() for part in (f"--{k.replace('_', '-')}", str(v))]
    places = ["--data", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    try:
        code = main(["train", "sdil", *places, *options])
    except SystemExit as stop:  # tyro's way to refuse
        code = stop.code
    assert code == 2
    told = capsys.readouterr()
    assert next(iter(fields)).replace("_", "-") in (told.out + told.err).replace("_", "-")


def test_a_judge_s_limits_hold_in_python_too():
    step = Trajectory(np.zeros((3, 2), np.float32), np.array([0, 1]))
    with pytest.raises(
        InputError, match='good_share must be a number, above 0 and under 1 or "auto", not 1'
    ):
        Judge(good_share=1.5).fit(Demonstrations(clean=[step], noisy=[step]), seed=0)
