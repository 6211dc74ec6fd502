from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.quiver import Quiver
from sklearn.metrics import average_precision_score

from sdil import InputError
from sdil.explanation.pictures import make_strip
from sdil.report.arrows import Arrow, cell_arrows
from sdil.report.canvas import colour_actions, colour_of, signed
from sdil.report.figures import (
    against_truth,
    embeddings,
    fixed_skills,
    histogram,
    preference,
    save,
    save_all,
    skill_map,
    stability,
    study,
    timeline,
)
from sdil.report.score_figures import _precision_recall


def texts(figure) -> list[str]:
    from matplotlib.text import Text

    return [t.get_text() for t in figure.findobj(Text) if t.get_text()]


def test_majority_arrows_in_a_hand_made_world():
    positions = np.array([[1, 1]] * 5 + [[2, 1]] * 4 + [[3, 1]] + [[4, 1]] * 3)
    mostly_right = [[1, 0], [1, 0], [1, 0], [0, 1], [0, 0]]  # the turn does not count
    every_way = [[1, 0], [-1, 0], [0, 1], [0, -1]]
    once = [[1, 0]]
    up = [[0, -1], [0, -1], [0, -1]]
    moves = np.array([*mostly_right, *every_way, *once, *up])
    skill = np.array([0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 2, 2, 2])
    assert cell_arrows(positions, moves, skill) == [
        Arrow(1, 1, 1, 0, skill=0, consistency=2 / 4, steps=4),
        Arrow(4, 1, 0, -1, skill=2, consistency=1.0, steps=3),
    ]
    assert cell_arrows(positions, moves)[0].skill is None
    assert cell_arrows(positions, moves, least_steps=1)[1].column == 3
    assert cell_arrows(positions, np.zeros_like(moves)) == []


def test_numbers_with_a_sign():
    assert [signed(0.126), signed(-0.5, 1), signed(-0.001)] == ["+0.13", "−0.5", "+0.00"]


def test_preference_bars_are_the_shares(toy_record):
    (ax,) = preference(toy_record).axes
    heights = [[bar.get_height() for bar in bars] for bars in ax.containers]
    assert heights == [[0.9, 0.1], [0.4, 0.6]]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["skill 0", "skill 1"]
    assert {"+1.00", "−1.00"} <= set(texts(ax.figure))


def test_the_map_shows_the_skill_of_each_majority_move(toy_record):
    clean, noisy = skill_map(toy_record).axes
    arrows = [a for a in clean.collections if isinstance(a, Quiver)]
    assert arrows[0].N == 2  # from columns 2 and 3; 1 is left once only, and 4 never
    assert (arrows[0].U > 0).all()
    (mixed,) = [a for a in noisy.collections if isinstance(a, Quiver)]
    assert [round(x) for x in mixed.X] == [3, 4]
    assert (mixed.U < 0).all()  # two of three leave column 3 to the left


def test_skills_held_fixed_on_a_map_and_without_one(toy_record):
    figure = fixed_skills(toy_record)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "skill 0 (+0.500)",
        "skill 1 (−0.500)",
    ]
    clips = fixed_skills(replace(toy_record, walls=None))
    assert sum(bool(ax.images) for ax in clips.axes) == 1
    assert {"67%", "33%", "100%"} <= set(texts(clips))


def test_of_many_actions_the_commonest_have_a_colour_of_their_own():
    few, colours = colour_actions(np.array([5, 0, 3]))
    assert few == [0, 2]
    assert colours[2] == colour_of(2)
    many, colours = colour_actions(np.arange(25))
    assert many == list(range(18, 25))
    assert len(set(colours)) == 8
    assert set(colours[:18]) == {colour_of(7)}


def test_embeddings_are_in_order_of_lambda(toy_record):
    figure = embeddings(toy_record)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["λ = 0", "λ = 1"]
    assert [len(ax.lines) for ax in figure.axes] == [2, 2]  # prototypes


def test_a_timeline_has_ribbons_and_a_path_or_frames(toy_record):
    figure = timeline(toy_record, "noisy/a")
    assert "noisy/a: 6 steps, mean optimality −0.10" in texts(figure)
    assert {"skill", "truth", "good", "bad"} <= set(texts(figure))
    assert len(figure.axes) == 4  # map, scores, skills, truth
    off_map = replace(toy_record, walls=None)
    assert sum(bool(ax.images) for ax in timeline(off_map, "noisy/a").axes) == 3
    assert "noisy/$x$ <script>: 2 steps, mean optimality −0.80" in texts(
        timeline(toy_record, "noisy/$x$ <script>")
    )
    with pytest.raises(InputError, match="no demonstration 'noisy/b'"):
        timeline(toy_record, "noisy/b")


def test_a_timeline_shows_what_the_camera_saw(toy_record):
    pictures = [np.full((10, 12, 3), 40 * i, np.uint8) for i in range(3)]
    strips = {"noisy/a": {"front": make_strip(pictures, 2, 9**9)}}
    figure = timeline(replace(toy_record, walls=None, strips=strips), "noisy/a")
    shown = [ax for ax in figure.axes if ax.images]
    assert [ax.get_title() for ax in shown] == ["step 0", "step 2", "step 4"]
    for i, ax in enumerate(shown):
        np.testing.assert_array_equal(ax.images[0].get_array(), pictures[i])


def test_histogram_and_truth(toy_record):
    assert "noisy steps" in texts(histogram(toy_record))
    left, right = against_truth(toy_record).axes
    assert left.get_title(loc="left") == "Calibration (ECE 0.14)"  # 0.1 and 0.2, 5 to 3
    assert right.get_title(loc="left") == "Precision-recall (AP 1.00)"
    unknown = replace(toy_record, episodes=replace(toy_record.episodes, good=None))
    with pytest.raises(InputError, match="nothing is known"):
        against_truth(unknown)


def test_average_precision_is_scikit_learns():
    rng = np.random.default_rng(0)
    scores, good = rng.normal(size=200).round(1), rng.random(200) < 0.3
    assert _precision_recall(scores, good)[2] == pytest.approx(
        average_precision_score(good, scores)
    )


def test_stability_and_studies(toy_record):
    shown = texts(stability(toy_record))
    assert shown.count("0.20") == 2
    assert shown.count("?") == 3
    (ax,) = study(toy_record, "lambda").axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "0.1", "1"]
    assert np.diff(ax.get_xticks()) == pytest.approx([1, 1])  # a 0 has no logarithm
    wide = {"x": [10, 100], "series": {"a": {"mean": [1, 2], "low": [0, 1], "high": [2, 3]}}}
    (ax,) = study(replace(toy_record, studies={"n": wide}), "n").axes
    assert ax.get_xscale() == "log"
    gap = {"x": ["a", 2], "series": {"a": {"mean": [1, None], "low": [0, None], "high": [2, None]}}}
    (ax,) = study(replace(toy_record, studies={"n": gap}), "n").axes
    assert [t.get_text() for t in ax.get_xticklabels()] == ["a", "2"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1, np.nan])
    with pytest.raises(InputError, match="no study 'n'"):
        study(toy_record, "n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")]
)
def test_all_figures_in_each_format(toy_record, tmp_path, format, begins):
    written = save_all(toy_record, tmp_path, format)
    assert [p.stem for p in written] == [
        "histogram",
        "preference",
        "skill-map",
        "fixed-skills",
        "embeddings",
        "against-truth",
        "stability",
        "timeline-noisy-a",
        "study-lambda",
    ]
    assert all(p.read_bytes().startswith(begins) for p in written)
    save(histogram(toy_record), tmp_path / f"again.{format}")
    assert (tmp_path / f"again.{format}").read_bytes() == written[0].read_bytes()


def test_a_record_without_skills_has_fewer(toy_record, tmp_path):
    bare = replace(
        toy_record,
        skills=None,
        scores=replace(toy_record.scores, skill=None),
        embeddings=[],
        fixed_skills=[],
        stability={},
        studies={},
    )
    names = [p.stem for p in save_all(bare, tmp_path, "svg")]
    assert names == ["histogram", "against-truth", "timeline-noisy-a"]


def test_other_formats_are_refused(toy_record, tmp_path):
    with pytest.raises(InputError, match="png, svg, pdf"):
        save(histogram(toy_record), tmp_path / "figure.bmp")
    assert not list(Path(tmp_path).iterdir())
