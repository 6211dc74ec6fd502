"""Tables of labels: what is written is read again, and every fault is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdil
from sdil import Demonstrations
from sdil.errors import InputError
from sdil.labels import (
    PROGRAM,
    Label,
    agreement,
    agreements,
    clean_from_labels,
    episodes_of,
    load_labels,
    save_labels,
    told_steps,
    whole_episodes,
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


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"set": "Clean"}, "set is 'Clean', not one of clean, noisy"),
        ({"label": ""}, "label is '', not one of good, bad, unsure"),
        ({"first_step": True, "last_step": 1}, "first_step is True, not a whole number"),
        ({"first_step": 0.0}, "first_step is 0.0, not a whole number"),
        ({"first_step": -1}, "first_step is -1, not a whole number from 0 on"),
        ({"last_step": "1"}, "last_step is '1', not a whole number"),
        ({"first_step": 2, "last_step": 1}, "last_step is 1, before first_step, 2"),
        ({"episode": 7}, "episode is 7, not text"),
        ({"who": None}, "who is None, not text"),
        ({"when": 2026}, "when is 2026, not text"),
        ({"note": b""}, "note is b'', not text"),
    ],
)
def test_a_label_that_is_none_is_refused(change, said):
    good = {"set": "noisy", "episode": "a", "first_step": 0, "last_step": 3, "label": "bad"}
    assert Label(**good).last_step == 3
    assert Label(**good | {"first_step": 3}).first_step == 3  # one step
    with pytest.raises(InputError, match=f"^{said}"):
        Label(**good | change)


def as_table(path, text: str):
    if path.suffix == ".csv":
        path.write_bytes(text.encode("utf-8-sig"))
    else:
        import duckdb

        plain = path.with_suffix(".csv")
        plain.write_text(text)
        with duckdb.connect() as connection:
            connection.execute(f"COPY (FROM read_csv('{plain}', all_varchar=true)) TO '{path}'")
        plain.unlink()
    return path


@pytest.mark.parametrize("ending", ["csv", "parquet", "CSV"])
def test_columns_that_need_not_be_are_empty_and_others_are_passed_by(tmp_path, ending):
    """A table of somebody else's spreadsheet: another order, a mark at its beginning."""
    text = "more,label,last_step,first_step,episode,set\n9,bad,2,1,a,noisy\n8,good,0,0,a,clean\n"
    path = tmp_path / f"labels.{ending}"
    if ending == "CSV":
        path.write_text(text)
    else:
        as_table(path, text)
    assert load_labels(path) == [
        Label("noisy", "a", 1, 2, "bad"),
        Label("clean", "a", 0, 0, "good"),
    ]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("column", ["set", "episode", "first_step", "last_step", "label"])
def test_every_column_that_is_needed_is_missed(tmp_path, ending, column):
    names = [n for n in ("set", "episode", "first_step", "last_step", "label") if n != column]
    path = as_table(tmp_path / f"labels.{ending}", ",".join(names) + "\n" + ",".join("0000") + "\n")
    with pytest.raises(InputError, match=f"it has no column {column}; there must be set, episode"):
        load_labels(path)


def test_a_table_of_bytes_is_no_csv(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"set,episode\n\xff\xfe\n")
    with pytest.raises(InputError, match="it is no CSV"):
        load_labels(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(InputError, match="no column set"):
        load_labels(tmp_path / "b.csv")
    with pytest.raises(InputError, match="no such table"):
        load_labels(tmp_path / "c.parquet")


def test_a_row_that_ends_early_says_so(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("set,episode,first_step,last_step,label\nnoisy,a,0,1,good\nnoisy,a,0\n")
    with pytest.raises(InputError, match=r"row 2: last_step is .*, not a whole number"):
        load_labels(path)


def test_labels_are_held_against_demonstrations(tmp_path, make_episode):
    demos = Demonstrations(
        [make_episode(3, id="a"), make_episode(2, id="b")], [make_episode(4, id="a")]
    )
    assert episodes_of(demos) == {
        ("clean", "a"): (0, 3),
        ("clean", "b"): (3, 2),
        ("noisy", "a"): (5, 4),
    }
    path = tmp_path / "labels.csv"
    good = [Label("clean", "b", 1, 1, "bad"), Label("noisy", "a", 0, 3, "good")]
    save_labels(path, good)
    assert load_labels(path, demos) == good
    for wrong, said in (
        (Label("noisy", "b", 0, 0, "bad"), "row 3, episode: there is no noisy episode 'b'"),
        (Label("clean", "b", 0, 2, "bad"), "row 3, last_step: .* has 2 steps, the last of them 1,"),
    ):
        save_labels(path, [*good, wrong])
        assert len(load_labels(path)) == 3
        with pytest.raises(InputError, match=rf"labels\.csv, {said}"):
            load_labels(path, demos)


@given(st.data())
def test_what_people_say_of_steps_by_counting(data):
    spans = [(key, n) for key, (_, n) in EPISODES.items()]
    labels = []
    for _ in range(data.draw(st.integers(0, 6))):
        (kind, name), n = data.draw(st.sampled_from(spans))
        first = data.draw(st.integers(0, n - 1))
        last = data.draw(st.integers(first, n - 1))
        answer = data.draw(st.sampled_from(["good", "bad", "unsure"]))
        labels.append(Label(kind, name, first, last, answer, data.draw(st.sampled_from("AB"))))
    told, span = told_steps(labels, EPISODES)
    assert len(told) == len(span) == 12
    at = 0
    for (kind, name), n in spans:
        for step in range(n):
            about = [
                (i, x)
                for i, x in enumerate(labels)
                if (x.set, x.episode) == (kind, name) and x.first_step <= step <= x.last_step
            ]
            last_words = {x.who: x.label for _, x in about}.values()
            voices = [w == "good" for w in last_words if w != "unsure"]
            if voices:
                assert told[at] == sum(voices) / len(voices)
                assert span[at] == about[-1][0]
            else:
                assert np.isnan(told[at])
                assert span[at] == -1
            at += 1


def test_who_agrees_with_whom():
    a, nan = ("noisy", "a"), np.nan
    labels = [
        Label(*a, 0, 1, "good", "Bob"),
        Label(*a, 2, 3, "bad", "Bob"),
        Label(*a, 0, 2, "good", "Ann"),
        Label(*a, 3, 4, "bad", "Ann"),
        Label("clean", "a", 0, 0, "good", "Cid"),
    ]
    pairs = agreements(labels, EPISODES)
    assert [(r["one"], r["other"], r["steps"]) for r in pairs] == [("Ann", "Bob", 4)]
    assert pairs[0]["kappa"] == pytest.approx(0.5)  # 3 of 4, and by chance 2 of 4
    program = np.zeros(12)
    program[3:6] = 0.1  # 0 itself is not good
    both = agreements(labels, EPISODES, program)
    assert [(r["one"], r["other"], r["steps"]) for r in both] == [
        ("Ann", "Bob", 4),
        ("Ann", PROGRAM, 5),
        ("Bob", PROGRAM, 4),
        ("Cid", PROGRAM, 1),
    ]
    assert [r["kappa"] for r in both] == [pytest.approx(0.5), 1.0, pytest.approx(0.5), 0.0]
    assert agreements([], EPISODES) == []
    assert agreement(np.array([1.0, 1.0]), np.array([1.0, 1.0])) is None  # nothing to tell apart
    assert agreement(np.array([1.0, 1.0]), np.array([0.0, 0.0])) == 0.0
    assert agreement(np.array([0.5, 1.0, nan]), np.array([0.0, 0.6, 0.0])) == 1.0  # half: not good


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
    assert demos.noisy.groups == ("noisy:n0", "noisy:n1", "noisy:n2")  # left out with their spans
    assert [t.observations[:, 0].tolist() for t in demos.clean] == [
        [1, 2, 3],
        [10, 11],
        [13, 14, 15],
    ]
    assert [t.terminated for t in demos.clean] == [False, False, True]
    with pytest.raises(InputError, match="nothing to trust"):
        clean_from_labels(noisy, labels[3:])


def test_pieces_know_the_episodes_they_were_cut_out_of(tmp_path):
    """By name, group and actions; what was not cut out of anything is whole."""
    noisy = [
        sdil.Trajectory(np.arange(5.0)[:, None], np.array([0, 1, 1, 0]), None, True, name)
        for name in ("a", "b from 1", "c")
    ]
    labels = [
        Label("noisy", "b from 1", 1, 2, "good"),
        Label("noisy", "b from 1", 0, 0, "good"),
        Label("noisy", "b from 1", 0, 0, "bad"),
        Label("noisy", "c", 0, 3, "good"),
        Label("noisy", "a", 3, 3, "good"),
    ]
    demos = clean_from_labels(noisy, labels)
    assert demos.clean.ids == ("a from 3", "b from 1 from 1", "c from 0")
    assert whole_episodes(demos) == {0: 0, 1: 1}  # c is as long as its episode
    sdil.save_demonstrations(demos, tmp_path / "demos")
    assert whole_episodes(sdil.load_demonstrations(tmp_path / "demos")) == {0: 0, 1: 1}
    first, second, third = demos.clean
    others = [
        replace(first, actions=1 - first.actions),
        replace(second, group="another"),
        replace(third, id="c from 9"),
        replace(first, id="a from x"),
        replace(first, id="z from 3"),
        replace(first, id="alone"),
    ]
    assert whole_episodes(sdil.Demonstrations(others, list(demos.noisy))) == {}
