"""Tables and pages from records, without measuring anything."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace

import pytest

from sdil.errors import InputError
from sdil.report.comparing import comparisons, headline
from sdil.report.curves import curves_of
from sdil.report.rendering import render
from sdil.report.results import publish
from sdil.report.tables import mean_text, notes, tables
from sdil.studies.cell import Cell
from sdil.studies.grid import Claim, Entry, Found, Results, Study
from sdil.studies.reading import read_published

REWARDS = {"BC": (0.50, 0.55, 0.52), "SDIL": (0.70, 0.76, 0.71), "oracle": (0.80, 0.85, 0.81)}


def found(row, seed, reward, at=None, state="done", task="fourrooms") -> Found:
    learner = {"SDIL": "sdil", "oracle": "oracle"}.get(row, "bc")
    measures = {
        "reward": reward,
        "acc": 0.9,
        "macro_f": 0.8,
        "macro_auroc": reward,
        "micro_auroc": None,
        "success": reward,
        "episodes": 1000,
    }
    record = {"inputs": {"source": "s"}, "measures": measures, "warnings": []}
    timing = {"started": "2026-01-02T03:04:05", "machine": "M", "cpu_s": 36.0, "versions": {}}
    done = state == "done"
    size = 10 if at is None else 10 + int(10 * at)
    entry = Entry(row, Cell(task, learner, seed, size, 20, valid=False), at)
    return Found(entry, state, record if done else None, timing if done else None)


def results(axis=None, points=(None,), tasks=("fourrooms",)) -> Results:
    everything = tuple(
        found(row, seed, reward, at, task=task)
        for task in tasks
        for at in points
        for row, rewards in REWARDS.items()
        for seed, reward in enumerate(rewards)
    )
    study = Study(
        "mine", "Mine & others", tuple(f.entry for f in everything), axis, remark="Mind this."
    )
    return Results(study, everything, "sdil study mine")


def test_means_and_what_is_not_there():
    whole = results()
    assert mean_text(whole, "BC", "fourrooms", "reward") == "52.3 ± 2.5"
    assert mean_text(whole, "BC", "fourrooms", "micro_auroc") == "-"
    for state in ("missing", "failed", "stale"):
        part = Results(whole.study, (found("BC", 0, 0.5), found("BC", 1, 0.9, state=state)))
        assert mean_text(part, "BC", "fourrooms", "reward") == "50.0 (1 of 2)"
        nothing = Results(whole.study, (found("BC", 0, 0.5, state=state),))
        assert mean_text(nothing, "BC", "fourrooms", "reward") == state
        assert notes(nothing)[0].startswith("1 of 1 cells")


OWN = "my_module:task"


def test_rewards_of_tasks_of_ones_own_are_shown_as_they_are():
    whole = results(tasks=(OWN,))
    assert mean_text(whole, "BC", OWN, "reward") == "0.523 ± 0.025"
    assert mean_text(whole, "BC", OWN, "acc") == "90.0 ± 0.0"
    against = {c.row: c for c in comparisons(whole)}
    assert against["BC"].difference.value == pytest.approx(0.2)
    assert against["BC"].verdict == "better"
    made = {t.title.partition(": ")[2]: t for t in tables(whole)}
    rewards = made["reward in the environment; success x100"]
    assert rewards.rows[0][1] == "0.523 ± 0.025"
    assert rewards.rows[0][2].startswith("0.52")
    assert made["SDIL against each, reward, by seed"].rows[0][1].startswith("+0.200 (")
    on_axis = results("share", (0.5, 1.0), (OWN, "fourrooms"))
    titles = [t.title for t in tables(on_axis)]
    assert any(t.startswith(OWN) and "reward by share" in t for t in titles)
    assert any(t.startswith("fourrooms") and "reward x100 by share" in t for t in titles)
    assert {f["ylabel"] for f in curves_of(on_axis).values()} == {"reward", "reward x100"}
    together = tables(results(tasks=(OWN, "fourrooms")))[-1]
    assert together.title.endswith("together: reward, stratified bootstrap")
    assert together.rows[0][1].startswith("0.5")


def test_verdicts_and_the_first_lines():
    against = {c.row: c for c in comparisons(results())}
    assert against["BC"].verdict == "better"
    assert against["BC"].difference.value == pytest.approx(20.0)
    assert against["BC"].probability == 1.0
    assert against["oracle"].verdict == "worse"
    assert against["oracle"].limit
    said = headline(results())
    assert said == [
        "fourrooms (reward, greedy): SDIL is better than 1 of 1 methods, worse than 0; "
        "of 0 these seeds cannot tell."
    ]


def test_the_first_lines_of_a_curve_name_who_is_not_beaten_and_where():
    values = {"BC": {1: (0.5, 0.6, 0.7), 2: (0.9, 0.6, 0.3)}, "DWBC": {1: (0.9, 0.5, 0.2)}}
    values |= {"GAIL": dict.fromkeys((1, 2), (0.9, 0.6, 0.3))}
    values |= {"SDIL": dict.fromkeys((1, 2), (0.7, 0.8, 0.9))}
    cells = [
        found(row, seed, reward, at=at)
        for row, points in values.items()
        for at, rewards in points.items()
        for seed, reward in enumerate(rewards)
    ]
    study = Study("mine", "Mine", tuple(f.entry for f in cells), "share")
    assert headline(Results(study, tuple(cells))) == [
        "fourrooms (reward, greedy): SDIL is better than 1 of 5 comparisons, worse than 0; of 4 "
        "these seeds cannot tell (BC at 2; DWBC at 1; GAIL everywhere)."
    ]


def test_scores_that_do_not_change_over_a_curve_have_one_line():
    whole = results("share", (0.5, 1.0))
    changing = {"BC": 0.1, "SDIL": 0.0}
    cells = tuple(
        replace(
            f,
            record={
                **f.record,
                "measures": {
                    **f.record["measures"],
                    "score_auroc": 0.7 + changing.get(f.entry.row, 0.0) * f.entry.at,
                },
            },
        )
        for f in whole.found
        if f.entry.row in changing
    )
    table = next(t for t in tables(replace(whole, found=cells)) if "against the truth" in t.title)
    assert [line[:3] for line in table.rows] == [
        ("all", "SDIL", "70.0 ± 0.0"),
        ("0.5", "BC", "75.0 ± 0.0"),
        ("1", "BC", "80.0 ± 0.0"),
    ]


def test_a_claim_is_checked():
    whole = results("share", (0.5, 1.0))
    for row, said in (("BC", "holds."), ("nobody", "")):
        study = replace(whole.study, claim=Claim("half is enough", row, 0.5))
        lines = [x for x in headline(replace(whole, study=study)) if "claim" in x]
        assert lines == (
            [f"fourrooms (reward, greedy): the claim that half is enough {said}"] if said else []
        )


def test_tables_of_methods():
    made = {t.title.partition(": ")[2]: t for t in tables(results())}
    inside = made["reward in the environment, x100"]
    assert inside.rows[0][:2] == ("BC", "52.3 ± 2.5")
    assert inside.rows[0][3] == "52.3 (50.5 to 54.1)"  # Wilson, of 1,570 in 3,000
    compared = made["SDIL against each, reward x100, by seed"]
    assert compared.rows[0][2:] == ("1.00", "better")
    assert compared.rows[1][0] == "oracle"


def test_several_tasks_come_together():
    together = tables(results(tasks=("fourrooms", "sepsis")))[-1]
    assert together.title.startswith("fourrooms, sepsis together")
    assert together.rows[0][2].startswith("1.00")


def test_tables_of_a_curve():
    made = tables(results("lambda, the weight", (0.0, 0.5)))
    assert made[0].columns == ("lambda", "method", "greedy")
    assert made[0].rows[3:5] == (("0.5", "BC", "52.3 ± 2.5"), ("0.5", "SDIL", "72.3 ± 3.2"))
    assert len(made[1].rows) == 4


def _told_otherwise(f, **measures) -> Found:
    return replace(f, record={**f.record, "measures": {**f.record["measures"], **measures}})


def test_rewards_are_compared_within_each_way_of_acting():
    sampled = {"BC": 0.8, "SDIL": 0.6, "oracle": 0.9}
    cells = tuple(
        _told_otherwise(f, reward_sampled=sampled[f.entry.row] + 0.01 * f.entry.cell.seed)
        for f in results().found
    )
    both = replace(results(), found=cells)
    assert [line.partition(":")[0] for line in headline(both)] == [
        "fourrooms (reward, greedy)",
        "fourrooms (reward, sampled)",
    ]
    assert "worse than 1 (BC)" in headline(both)[1]
    table = next(t for t in tables(both) if "against each" in t.title)
    assert table.columns == (
        "against",
        *(f"SDIL minus it, {w} (95%)" for w in ("greedy", "sampled")),
    )
    name, greedy, drawn = table.rows[0]
    assert name == "BC"
    assert greedy.startswith("+20.0 (")
    assert greedy.endswith(" better")
    assert drawn == "-20.0 (-20.0 to -20.0) worse"


def test_what_the_axis_does_not_touch_is_one_comparison():
    points = (0.0, 0.5, 1.0)
    varied = results("lambda, the weight", points)
    same = {f.entry.cell.seed: f.entry.cell for f in varied.found if f.entry.row == "BC"}
    cells = tuple(
        replace(f, entry=replace(f.entry, cell=same[f.entry.cell.seed]))
        if f.entry.row == "BC"
        else f
        for f in varied.found
    )
    study = replace(varied.study, entries=tuple(f.entry for f in cells))
    study = replace(study, claim=Claim("it beats BC", "BC", 0.5))
    found = Results(study, cells)
    assert [(c.row, c.at) for c in comparisons(found)] == [
        ("BC", None),
        *(("oracle", at) for at in points),
    ]
    assert headline(found) == [
        "fourrooms (reward, greedy): SDIL is better than 1 of 1 comparisons, worse than 0; of 0 "
        "these seeds cannot tell.",
        "fourrooms (reward, greedy): the claim that it beats BC holds.",
    ]
    table = next(t for t in tables(found) if "against each" in t.title)
    assert [row[:2] for row in table.rows] == [
        ("all", "BC"),
        *((f"{p:g}", "oracle") for p in points),
    ]


def test_titles_say_how_many_clean_demonstrations_there_were_all_told():
    assert tables(results())[0].title.startswith("fourrooms, 10 clean, 20 noisy, 3 seeds:")
    cells = tuple(
        replace(f, entry=replace(f.entry, cell=replace(f.entry.cell, valid=True)))
        for f in results().found
    )
    said = tables(replace(results(), found=cells))[0].title
    assert "10 clean and half as many more (10 at the least) to validate, 20 noisy" in said


def test_formats():
    table = tables(results())[0]
    markdown = render(table, "markdown").splitlines()
    assert markdown[2].startswith("| method | ACC |")
    assert markdown[4] == "| BC | 90.0 ± 0.0 | 80.0 ± 0.0 | 52.3 ± 2.5 | - |"
    latex = render(table, "latex")
    assert r"BC & 90.0 $\pm$ 0.0 & 80.0 $\pm$ 0.0" in latex
    assert latex.count(r"\\") == 1 + len(table.rows)
    rows = list(csv.reader(io.StringIO(render(table, "csv"))))
    assert rows[1] == [table.title, *table.rows[0]]


@pytest.mark.parametrize("curve", [False, True])
def test_a_page(tmp_path, curve):
    pytest.importorskip("matplotlib")
    made = (
        results("clean trajectories", (10, 100))
        if curve
        else results(tasks=("fourrooms", "sepsis"))
    )
    written = {path.name: path for path in publish(made, tmp_path)}
    assert {"mine.md", "mine.png", "mine.svg", "mine.json"} <= set(written)
    assert ("mine-profiles.png" in written) != curve
    text = written["mine.md"].read_text()
    assert text.splitlines()[2].startswith("- fourrooms (reward, greedy): SDIL is better than")
    assert "command: `sdil study mine`" in text
    assert "2026-01-02" in text
    assert "![Mine & others](mine.svg)" in text
    index = written["index.md"].read_text()
    assert f"[Tables and figures](mine.md), {len(made.found)} of {len(made.found)} cells" in index
    assert all(f"- {line}\n" in index for line in headline(made))
    assert index.count("Mind this.") == text.count("Mind this.") == 1
    kept = json.loads(written["mine.json"].read_text())
    assert len(kept["cells"]) == len(made.found)
    assert kept["cells"][0]["measures"]["reward"] == 0.5
    before = {name: path.read_bytes() for name, path in written.items()}
    again = {path.name: path.read_bytes() for path in publish(made, tmp_path)}
    assert again == before
    read = read_published(written["mine.json"])
    assert read.study == made.study
    assert tables(read)[0] == tables(made)[0]
    assert curves_of(read) == curves_of(made)


def test_a_page_without_matplotlib_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'sdil\[figures\]'"):
        publish(results(), tmp_path)
    assert not list(tmp_path.iterdir())


def test_curves_for_a_report():
    whole = results("clean trajectories", (10, 100), tasks=("fourrooms", "sepsis"))
    study = replace(whole.study, measures={"sepsis": "macro_auroc"})
    lost = tuple(f for f in whole.found if (f.entry.row, f.entry.at) != ("BC", 100))
    made = curves_of(Results(study, lost))
    assert list(made) == ["mine (fourrooms)", "mine (sepsis)"]
    curve = made["mine (fourrooms)"]
    assert (curve["x"], curve["xlabel"], curve["ylabel"]) == (
        [10, 100],
        "clean trajectories",
        "reward x100",
    )
    assert curve["series"]["BC"]["mean"] == [pytest.approx(52.33, abs=0.01), None]
    assert curve["series"]["BC"]["low"][1] is None
    ours = curve["series"]["SDIL"]
    assert 70 <= ours["low"][1] < ours["mean"][1] < ours["high"][1] <= 76
    assert made["mine (sepsis)"]["ylabel"] == "macro AUROC x100"
    assert curves_of(results()) == {}  # a table of methods has none


def test_published_records_that_are_damaged_are_refused(tmp_path):
    path = tmp_path / "mine.json"
    for text, says in (
        ("[]", "damaged"),
        ('{"study": {"format": 9}, "cells": []}', "format 9 is not known"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=says):
            read_published(path)
