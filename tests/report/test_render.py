"""What the page is made of, without a browser."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import PurePosixPath

import numpy as np
import pytest
from synthetic import explanation

from sdil.errors import InputError
from sdil.report.arrows import cell_arrows
from sdil.report.page import _hash, _in_json, _pack, render
from sdil.report.verdict import verdict


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_scores_travel_exactly():
    record = explanation(3, 5)
    packed = data_of(render(record))["scores"]["optimality"]
    sent = np.frombuffer(base64.b64decode(packed["data"]), "<" + packed["type"])
    assert (sent == record.scores.optimality).all()
    finer = record.scores.optimality.astype(np.float64) + 1e-12
    packed = _pack(finer)
    assert packed["type"] == "f8"
    assert (np.frombuffer(base64.b64decode(packed["data"]), "<f8") == finer).all()


def test_calibration_is_told_bin_by_bin(toy_record):
    bins = data_of(render(toy_record))["calibration"]
    optimality, _ = toy_record.known_steps()
    assert (len(optimality), sum(b["count"] for b in bins)) == (8, 8)
    error = sum(b["count"] * abs(b["said"] - b["good"]) for b in bins) / 8
    assert error == pytest.approx((5 * 0.1 + 3 * 0.2) / 8)  # as in the figure
    unknown = replace(toy_record, episodes=replace(toy_record.episodes, good=None))
    assert data_of(render(unknown))["calibration"] == []


def test_curves_come_with_places_and_labels(toy_record):
    curve = data_of(render(toy_record))["studies"]["lambda"]
    assert (curve["at"], curve["scale"]) == ([0, 1, 2], "linear")  # a 0 has no logarithm
    assert curve["labels"] == ["0", "0.1", "1"]
    wide = {"n": {"x": [10, 100], "series": {}}}
    curve = data_of(render(replace(toy_record, studies=wide)))["studies"]["n"]
    assert (curve["at"], curve["scale"], curve["labels"]) == ([10, 100], "log", ["10", "100"])


@pytest.mark.parametrize(
    ("array", "name"),
    [
        (np.array([True, False]), "i1"),
        (np.array([-1, 127]), "i1"),
        (np.array([128]), "i2"),
        (np.array([40_000], np.uint32), "i4"),
        (np.array([0.5, np.nan]), "f4"),
        (np.array([0.1]), "f8"),
    ],
)
def test_arrays_take_the_smallest_type_that_is_exact(array, name):
    assert _pack(array)["type"] == name


def test_numbers_too_large_for_a_page_are_refused():
    with pytest.raises(InputError, match="too large"):
        _pack(np.array([2**40]))


def test_json_cannot_leave_its_element_and_comes_back_whole():
    value = {"</script>": ["<!--", "a & b", "\u2028\u2029", "\udc80", "ä"], "n": [np.nan, np.inf]}
    more = {"array": np.arange(2), "one": np.float32(0.5), "where": PurePosixPath("a/b")}
    text = _in_json(value | more)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {
        "</script>": ["<!--", "a & b", "\u2028\u2029", "\udc80", "ä"],
        "n": [None, None],
        "array": [0, 1],
        "one": 0.5,
        "where": "a/b",
    }


def test_the_page_names_nothing_outside_itself():
    page = render(explanation(2, 3))
    head = page[: page.index('id="plotly"')]
    assert not re.search(r'(src|href)="(?!#|data:)', head)
    assert "{{" not in head
    assert page.count("<script") - page.count('"<script') >= 3


@pytest.mark.parametrize(
    ("auroc", "tone", "words"),
    [
        (0.3, "doubt", "mislead"),
        (0.55, "doubt", "little better than chance"),
        (0.7, "doubt", "often wrong"),
        (0.8, "good", "fairly well"),
        (0.95, "good", "very well"),
        (None, "doubt", "cannot be verified here"),
    ],
)
def test_how_good_the_scores_are_is_said_in_words(auroc, tone, words):
    said = verdict({"truth": {"auroc": auroc}})
    assert [s["tone"] for s in said if words in s["text"]] == [tone]


def test_warnings_become_sentences_and_nothing_is_said_twice():
    about = {"truth": {"auroc": 0.4}, "warnings": ["two skills are dead", "bad (AUROC 0.40)"]}
    texts = [s["text"] for s in verdict(about)]
    assert texts[-1] == "Two skills are dead."
    assert sum("AUROC" in text for text in texts) == 1


def test_scores_that_are_no_probabilities_are_called_so():
    def of(skill):
        return " ".join(s["text"] for s in verdict({"truth": {"auroc": 0.8, "brier_skill": skill}}))

    assert "not their size" in of(-0.2)
    assert "not their size" not in of(0.2)


def test_what_is_not_known_is_said():
    texts = " ".join(s["text"] for s in verdict({}))
    assert "how well it acts is not known" in texts
    assert "cannot be verified" in texts


def test_a_judgement_is_not_asked_how_it_acts():
    about = {"judge": "evidence", "acting": None, "n_clean": 3, "n_noisy": 9}
    heard = {"name": "likelihood", "heard": True, "why": "it separates"}
    unheard = {"name": "progress", "heard": False, "why": "not asked for"}
    texts = [s["text"] for s in verdict({**about, "signals": [heard, unheard]})]
    assert texts[0].startswith("Steps judged by evidence, from 3 trusted (clean) and 9")
    assert texts[1] == "Whether a step is right rests on likelihood. Not heard: progress."
    assert not any("environment" in text for text in texts)
    silent = verdict({**about, "signals": [unheard, unheard | {"name": "value"}]})
    assert silent[1] == {
        "tone": "doubt",
        "text": "No kind of evidence rates held-out clean steps above noisy ones: these scores may "
        "mean nothing.",
    }


def test_the_two_answers_have_a_sentence_each():
    signals = [
        {"name": name, "heard": heard, "why": "so", "output": output}
        for name, heard, output in (
            ("likelihood", True, "step"),
            ("value", True, "step"),
            ("progress", False, "step"),
            ("pace", True, "episode"),
        )
    ]
    share = {"point": 0.49, "low": 0.35, "high": 0.63}
    odd = {"walk <7>": "its steps are rated -3.0 in log-odds"}
    about = {"judge": "evidence", "acting": None, "signals": signals, "unknown": {}}
    said = verdict({**about, "good_share": share, "odd": odd})
    assert said[1:4] == [
        {
            "tone": "plain",
            "text": "Whether a step is right rests on likelihood and value. Not heard: progress.",
        },
        {"tone": "plain", "text": "How well an episode went rests on pace."},
        {"tone": "plain", "text": "An estimated 49% of the noisy steps are good (35% to 63%)."},
    ]
    assert said[-1] == {
        "tone": "doubt",
        "text": "Odd clean demonstrations, worth a look: walk <7>: its steps are rated -3.0 in "
        "log-odds.",
    }
    many = verdict({**about, "odd": {f"walk {i}": "odd" for i in range(8)}})[-1]["text"]
    assert "walk 4: odd; and 3 more." in many
    assert "walk 5" not in many


def test_what_is_unknown_is_a_doubt_and_the_truth_is_not_asked():
    silent = [
        {"name": name, "heard": False, "why": "so", "output": output}
        for name in ("likelihood", "progress")
        for output in ("step", "episode")
    ]
    unknown = {"step": "which steps are good is unknown", "episode": "how well is unknown: few"}
    about = {"signals": silent, "unknown": unknown, "truth": {"auroc": 0.5}}
    said = verdict(about)
    doubts = [s["text"] for s in said if s["tone"] == "doubt"]
    assert doubts == ["Which steps are good is unknown.", "How well is unknown: few."]
    one = verdict({**about, "unknown": {"step": unknown["step"]}, "signals": [
        *silent[:1], silent[1] | {"heard": True}]})  # fmt: skip
    assert "How well an episode went rests on likelihood." in [s["text"] for s in one]


def test_quality_and_integrity_travel_where_they_are_known(toy_record):
    quality = np.linspace(-1, 1, 15).astype(np.float32)
    integrity = np.where(np.arange(15) % 5, 0.75, np.nan).astype(np.float32)
    scores = replace(toy_record.scores, quality=quality, integrity=integrity)
    sent = data_of(render(replace(toy_record, scores=scores)))["scores"]
    for name, values in (("quality", quality), ("integrity", integrity)):
        found = np.frombuffer(base64.b64decode(sent[name]["data"]), "<" + sent[name]["type"])
        np.testing.assert_array_equal(found, values)
    before = data_of(render(toy_record))["scores"]
    assert before["quality"] is before["integrity"] is None


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["data"]), "<" + packed["type"])


def test_the_record_travels_as_it_is():
    record = explanation(3, 5)
    record = replace(record, about=record.about | {"title": "A title"})
    sent = data_of(render(record))
    assert sent["title"] == "A title"
    assert sent["actions"] == record.action_names
    assert sent["episodes"]["ids"] == record.episodes.ids
    assert unpacked(sent["episodes"]["clean"]).tolist() == record.episodes.is_clean.tolist()
    assert unpacked(sent["episodes"]["offsets"]).tolist() == record.episodes.offsets.tolist()
    assert unpacked(sent["scores"]["skill"]).tolist() == record.scores.skill.tolist()
    for name in ("spread", "quality", "integrity"):
        now, was = unpacked(sent["scores"][name]), getattr(record.scores, name)
        np.testing.assert_array_equal(now, was)
    assert list(sent["scores"]["parts"]) == list(record.scores.parts)
    assert sent["skills"]["clean"] == record.skills.clean_share.tolist()
    assert sent["walls"] == record.walls.tolist()
    assert [e["label"] for e in sent["embeddings"]] == ["lambda 0", "lambda 1"]
    assert unpacked(sent["embeddings"][0]["steps"]).tolist() == record.embeddings[0].steps.tolist()
    assert [f["skill"] for f in sent["fixed"]] == list(range(8))
    assert sent["fixed"][1]["counts"] == record.fixed_skills[1].action_counts.tolist()
    assert sent["stability"] == record.stability


def test_arrows_are_those_of_each_cell_rounded():
    record = explanation(30, 40)
    sent = data_of(render(record))
    fixed, episodes = record.fixed_skills[0], record.episodes

    def told(*arguments):
        return [
            [a.column, a.row, a.dx, a.dy, a.skill, round(a.consistency, 3), a.steps]
            for a in cell_arrows(*arguments)
        ]

    assert sent["fixed"][0]["arrows"] == told(fixed.steps[:, :2], fixed.moves, None)
    in_clean = np.repeat(episodes.is_clean, np.diff(episodes.offsets))
    for name, steps in (("clean", in_clean), ("noisy", ~in_clean)):
        skill = record.scores.skill[steps]
        wanted = told(episodes.positions[steps], episodes.moves[steps], skill)
        assert sent["arrows"][name] == wanted
        assert any(arrow[5] != round(arrow[5], 2) for arrow in wanted)


def test_without_skills_arrows_have_none():
    record = explanation(3, 4)
    sent = data_of(render(replace(record, scores=replace(record.scores, skill=None), skills=None)))
    arrows = [*sent["arrows"]["clean"], *sent["arrows"]["noisy"]]
    assert arrows
    assert {arrow[4] for arrow in arrows} == {None}


@pytest.mark.parametrize("without", ["walls", "positions", "moves"])
def test_without_a_map_there_are_no_arrows(without):
    record = explanation(2, 3)
    if without == "walls":
        record = replace(record, walls=None)
    else:
        record = replace(record, episodes=replace(record.episodes, **{without: None}))
    sent = data_of(render(record))
    assert sent["arrows"] == {"clean": [], "noisy": []}


def test_what_is_not_known_is_null_or_empty():
    bare = explanation(2, 3, rich=False, truth=False)
    sent = data_of(render(bare))
    assert sent["skills"] is sent["walls"] is sent["scores"]["skill"] is None
    assert sent["episodes"]["good"] is sent["episodes"]["positions"] is None
    assert sent["calibration"] == sent["embeddings"] == sent["fixed"] == []
    rich = explanation(2, 3)
    still = [replace(f, moves=None) for f in rich.fixed_skills]
    sent = data_of(render(replace(rich, fixed_skills=still)))
    assert all(f["arrows"] == [] for f in sent["fixed"])


def test_a_script_is_let_in_by_its_hash():
    """As `openssl dgst -sha256 -binary | base64` has it, in the form of a content policy."""
    assert _hash("alert(1)") == "'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='"
