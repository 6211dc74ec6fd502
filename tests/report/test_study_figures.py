"""A study's figures: rows best first, settings apart, the expert's line, no panel all ceiling."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from sdil.errors import InputError
from sdil.report.canvas import INK
from sdil.report.results import publish, redraw
from sdil.report.settings import CLEAN_ONLY, WITH_NOISY, captions, panels_of
from sdil.report.study_figures import _panels, _profiled, _style, draw
from sdil.studies.cell import Cell
from sdil.studies.experts import expert_reward, walk_exactly
from sdil.studies.grid import Entry, Found, Results, Study
from sdil.tasks.fourrooms import TASK

ROWS = {  # rewards by task and row, as (fourrooms, doorkey-5x5)
    "BC, clean only": (0.60, 0.955),
    "SDIL, clean only": (0.70, 0.960),
    "BC": (0.20, 0.50),
    "SDIL": (0.80, 0.96),
    "oracle (a limit)": (0.82, 0.97),
    "DWBC": (0.75, 0.90),
}
EXPERTS = {"fourrooms": 0.843, "doorkey-5x5": 0.962}


def study(axis=None, points=(None,), rows=ROWS) -> Results:
    learners = {"SDIL": "sdil", "DWBC": "dwbc", "oracle": "oracle"}
    every = []
    for place, task in enumerate(("fourrooms", "doorkey-5x5")):
        for row, rewards in rows.items():
            noisy = 0 if "clean only" in row else 20
            for at in points:
                for seed in range(3):
                    learner = learners.get(re.split("[ ,]", row)[0], "bc")
                    cell = Cell(task, learner, seed, 10, noisy, valid=False)
                    measures = {"reward": rewards[place] + 0.001 * seed}
                    record = {"inputs": {"source": "s"}, "measures": measures, "warnings": []}
                    every.append(Found(Entry(row, cell, at), "done", record))
    entries = tuple(f.entry for f in every)
    return Results(Study("mine", "Mine", entries, axis), tuple(every), "sdil study mine")


def shown(results, experts=EXPERTS):
    return [panel for panel in panels_of(results, experts) if not panel.ceiling]


def test_rows_stand_best_first_and_settings_apart():
    first, second, *_ = panels_of(study(), EXPERTS)
    assert (first.task, first.setting, second.setting) == ("fourrooms", CLEAN_ONLY, WITH_NOISY)
    assert list(first.rows) == ["SDIL, clean only", "BC, clean only"]
    assert list(second.rows) == ["oracle (a limit)", "SDIL", "DWBC", "BC"]
    assert second.rows["SDIL"][0].value == pytest.approx(80.1)
    assert second.expert == pytest.approx(84.3)


def test_of_a_loss_the_least_is_best():
    results = study()
    for f in results.found:
        f.record["measures"]["valid_nll"] = f.record["measures"]["reward"]
    measures = {"fourrooms": "valid_nll", "doorkey-5x5": "valid_nll"}
    made = Results(replace(results.study, measures=measures), results.found)
    panel = panels_of(made, EXPERTS)[1]
    assert list(panel.rows) == ["BC", "DWBC", "SDIL", "oracle (a limit)"]
    assert panel.expert is None  # what it earns is no loss
    assert not panel.ceiling


def test_a_panel_all_ceiling_is_a_sentence_instead():
    kept = [(panel.task, panel.setting) for panel in shown(study())]
    assert kept == [
        ("fourrooms", CLEAN_ONLY),
        ("fourrooms", WITH_NOISY),
        ("doorkey-5x5", WITH_NOISY),
    ]
    expert, ceiling = captions(study(), EXPERTS)
    assert "(fourrooms 84.3, doorkey-5x5 96.2)" in expert
    assert ceiling == (
        "Not drawn: doorkey-5x5, clean only, where every row is at the top (95.6 to 96.1, at most "
        "1 below the expert)."
    )
    assert captions(study(), {}) == []  # without an expert the top is 100
    assert len(shown(study(), {})) == 4


def test_dots_are_drawn_in_order_with_the_expert():
    figure = _panels(study().study, shown(study()))
    titles = [ax.get_title("left") for ax in _axes(figure)]
    assert titles == [CLEAN_ONLY, WITH_NOISY, WITH_NOISY]
    above, ax, _ = _axes(figure)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["oracle (a limit)", "SDIL", "DWBC", "BC"]
    assert list(ax.get_yticks()) == [0, -1, -2, -3]  # the best at the top
    assert [text.get_text() for text in ax.texts] == ["82.1", "80.1", "75.1", "20.1"]
    assert any(np.allclose(line.get_xdata(), 84.3) for line in ax.lines)
    assert [label.get_text() for label in above.get_yticklabels()] == ["SDIL", "BC"]
    assert above.texts[-1].get_text() == "expert 84.3"
    assert above.get_xlim() == ax.get_xlim()


def test_legends_of_curves_name_the_best_first():
    made = study("clean trajectories", (10, 100))
    clean, noisy = _axes(_panels(made.study, shown(made)))[:2]
    names = [text.get_text() for text in clean.get_legend().get_texts()]
    assert names == ["SDIL", "BC", "expert 84.3"]
    names = [text.get_text() for text in noisy.get_legend().get_texts()]
    assert names == ["oracle (a limit)", "SDIL", "DWBC", "BC", "expert 84.3"]
    assert clean.get_ylim() == noisy.get_ylim()


def test_labels_that_would_touch_are_left_out():
    made = study("share", (0.1, 0.4, 0.5, 0.6, 1.0))
    ax = _axes(_panels(made.study, shown(made)))[0]
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == ["0.1", "0.4", "", "0.6", "1"]
    assert len(ax.get_xticks()) == 5


def test_no_two_rows_look_alike():
    rows = [f"row {i}" for i in range(12)]
    made = study(rows=dict.fromkeys([*rows, "SDIL", "SDIL, clean only"], (0.5, 0.5))).study
    looks = {row: _style(made, row, made.rows) for row in made.rows}
    seen = {(look["color"], look["linestyle"]) for look in looks.values()}
    assert len(seen) == 13  # the champion has one colour in both settings
    assert looks["SDIL"]["color"] == looks["SDIL, clean only"]["color"]


def test_profiles_leave_out_tasks_where_all_are_at_the_top():
    rows = {row: rewards for row, rewards in ROWS.items() if row in ("SDIL", "DWBC", "BC")}
    tasks, chosen = _profiled(study(rows=rows), shown(study(rows=rows)))
    assert tasks == ["fourrooms", "doorkey-5x5"]
    assert list(chosen[WITH_NOISY]) == ["SDIL", "DWBC", "BC"]
    rows["BC"] = rows["DWBC"] = (0.2, 0.97)
    assert _profiled(study(rows=rows), shown(study(rows=rows))) is None  # one task is left


def test_the_svg_follows_the_page_and_the_png_is_white(tmp_path):
    from PIL import Image

    written = draw(study(), tmp_path / "mine", EXPERTS)
    names = ["mine.png", "mine.svg", "mine-profiles.png", "mine-profiles.svg"]
    assert [path.name for path in written] == names
    text = (tmp_path / "mine.svg").read_text()
    assert INK not in text  # all ink is the page's
    assert text.count("currentColor") > 20
    assert "@media(prefers-color-scheme:dark){svg{color:" in text
    assert not re.search("#fff(fff)?|white", text)  # and there is no ground
    assert "<text" in text  # names can be found and selected
    assert Image.open(tmp_path / "mine.png").convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_a_page_has_headings_and_is_drawn_again_from_its_records(tmp_path):
    publish(study(), tmp_path, experts=EXPERTS)
    page, records = tmp_path / "mine.md", tmp_path / "records" / "mine.json"
    before, kept = page.read_text(), records.read_bytes()
    headings = re.findall("^## (.*)$", before, re.MULTILINE)
    assert headings[0] == "Figures"
    assert headings[1].startswith("fourrooms, 10 clean, 20 noisy")
    assert headings[-1] == "Records"
    assert re.search("^### predicting clean test actions", before, re.MULTILINE)
    assert "Not drawn: doorkey-5x5, clean only" in before
    (tmp_path / "mine.svg").unlink()
    redraw(records, EXPERTS)
    assert page.read_text() == before
    assert (tmp_path / "mine.svg").exists()
    assert records.read_bytes() == kept
    redraw(records)  # nothing known of experts
    assert "Not drawn" not in page.read_text()
    page.write_text(before.replace("## Figures", "## Pictures"))
    with pytest.raises(InputError, match="publish the study again"):
        redraw(records, EXPERTS)


def test_what_the_expert_earns():
    table = TASK.table()
    start = int(np.flatnonzero(table.distance_to_goal == 3)[0])
    planned = np.eye(table.next_state.shape[1])[np.argmax(table.good, 1)]
    alone = walk_exactly(table, planned, np.array([start]))
    assert alone == pytest.approx(1 - table.time_cost * 3 / table.horizon)
    assert expert_reward("fourrooms", range(5)) == pytest.approx(0.843, abs=0.001)  # as README says
    assert expert_reward("sepsis", (0,)) == pytest.approx(0.8693, abs=1e-4)  # docs/sepsis.md
    assert expert_reward("pointmaze", (0,)) is None  # it would have to be run


def _axes(figure):
    return [ax for part in figure.subfigs for place in part.subfigs for ax in place.axes]
