"""Which episodes `--clean` means, and how it is said."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
import pytest

from sdil.errors import InputError
from sdil.formats.source import Episode, Feature, Recorded
from sdil.formats.trusted import choose


@dataclass
class Small:
    """A source of six episodes of which much is known."""

    format: str = "small"
    location: str = "small"
    about: dict = field(default_factory=dict)
    features: tuple = (Feature("state", "observation", (1,), "float32"),)
    episodes: tuple = tuple(
        Episode(
            f"demo_{i}",
            10 + i,
            group="anna" if i < 3 else "ben",
            task="pick, then place" if i % 2 else "fold",
            tags=frozenset({"better"} if i in (1, 4) else {"worse"}),
            columns={"success": i % 3 == 0, "score": float(i * i % 5), "odd name": i, "note": "x"},
        )
        for i in range(6)
    )

    def read(self, index, features):
        return Recorded({}, rewards=np.full(3, [5.0, 1, 4, 2, 0, 3][index]))


@pytest.mark.parametrize(
    ("text", "positions", "words"),
    [
        ("better", (1, 4), "those with the filter key better"),
        ("better,anna", (0, 1, 2, 4), "filter key better and those of the group anna"),
        ("tag:worse", (0, 2, 3, 5), "filter key worse"),
        ("ben", (3, 4, 5), "those of the group ben"),
        ("pick, then place", (1, 3, 5), "those of the task pick, then place"),
        ("demo_3", (3,), "episode demo_3"),
        ("0-2,5", (0, 1, 2, 5), "episodes 0-2,5"),
        ("4", (4,), "episode 4"),
        ("shortest 2", (0, 1), "the 2 of 6 with the lowest steps (at most 11)"),
        ("longest 34%", (4, 5), "the 2 of 6 with the highest steps (at least 14)"),
        ("top 2 by return", (0, 2), "highest return (at least 12)"),
        ("top 20% by score", (2,), "the 1 of 6 with the highest score (at least 4)"),
        ("bottom 1 by odd name", (0,), "lowest odd name"),
        ("success", (0, 3), "those where success"),
        ("success and steps > 10", (3,), "those where success and steps > 10"),
        ("\"group\" = 'ben' and score < 2", (4, 5), "those where"),
        ("return > 5 and steps < 15", (0, 2, 3), "those where return > 5 and steps < 15"),
        ("task != 'return it' and steps < 12", (0, 1), "those where task"),  # a text, no column
        ("list_contains(tags, 'better') or number = 0", (0, 1, 4), "those where"),
        ([2, 5], (2, 5), "episodes 2,5"),
        (["demo_1", "demo_0"], (0, 1), "episode demo_1 and episode demo_0"),
    ],
)
def test_what_is_chosen(text, positions, words):
    chosen = choose(Small(), text)
    assert chosen.positions == positions
    assert words in chosen.sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "There are filter keys better, worse; groups anna, ben; tasks fold, pick, then place"),
        ("best", "names no episodes and is no condition"),
        ("9", "no episode 9; there are 6, from 0 to 5"),
        ("5-3", "no episode 5-3"),
        ("3-9", "no episode 3-9; there are 6, from 0 to 5"),
        ("0,4-6", "no episode 4-6; there are 6, from 0 to 5"),
        ("top 3", "by what"),
        ("top 3 by colour", "'colour' is no number that every episode has"),
        ("top 3 by note", "'note' is no number"),
        ("top 0% by score", "a share lies above 0%"),
        ("top 9 by score", "there are 6 episodes"),
        ("tag:best", "there is no tag 'best'"),
        ("steps > 100", "no episode is among those where steps > 100"),
        ("1; drop table given", "names no episodes"),
        ("true) ; select position from given where (true", "more than one"),
        ("(select count(*) from read_text('/etc/passwd')) > 0", "disabled by configuration"),
        ("(select count(*) from glob('/*')) > 0", "disabled by configuration"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(InputError) as refused:
        choose(Small(), text)
    assert words in str(refused.value)


def test_a_file_of_names(tmp_path):
    path = tmp_path / "good.txt"
    path.write_text("# mine\ndemo_1\n\n4\n")
    chosen = choose(Small(), str(path))
    assert chosen.positions == (1, 4)
    assert chosen.sentence == f"the 2 named in {path}"
    (tmp_path / "good.csv").write_text("episode,why\ndemo_0,nice\n")
    assert choose(Small(), str(tmp_path / "good.csv")).positions == (0,)
    (tmp_path / "good.json").write_text(json.dumps(["demo_2", 3]))
    assert choose(Small(), str(tmp_path / "good.json")).positions == (2, 3)
    path.write_text("demo_1\ndemo_17\n")
    with pytest.raises(InputError, match="name 2: small has no episode 'demo_17'"):
        choose(Small(), str(path))
    for name, content in (("a.json", "{"), ("b.json", "3"), ("c.txt", b"\xff\xfe")):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(InputError, match=name):
            choose(Small(), str(tmp_path / name))


def test_a_name_of_two_kinds_must_be_made_clear():
    source = Small(episodes=(Episode("a", 1, group="b"), Episode("b", 2)))
    with pytest.raises(InputError, match="'b' is a group and a id; say which"):
        choose(source, "b")
    assert choose(source, "id:b").positions == (1,)


def test_a_rank_among_equals_says_so():
    equal = Small(episodes=tuple(Episode(f"demo_{i}", 10) for i in range(6)))
    said = choose(equal, "shortest 2")
    assert said.positions == (0, 1)
    assert said.sentence == (
        "the 2 of 6 with the lowest steps (at most 10; 6 are level there, the first 2 are taken)"
    )
    assert "level" not in choose(Small(), "top 2 by score").sentence


def test_ranks_count_among_those_that_are_asked_for():
    assert choose(Small(), "shortest 2").positions == (0, 1)
    assert choose(Small(), "shortest 2", among=(1, 3, 5)).positions == (1, 3)
    with pytest.raises(InputError, match="there are 3 episodes"):
        choose(Small(), "shortest 4", among=(1, 3, 5))


def test_no_password_is_shown():
    from sdil.formats.recognise import without_password

    for secret in ("://me:secret@host/db", "://me@host/db?password=secret&sslmode=require"):
        shown = without_password(f"postgresql{secret}")
        assert "secret" not in shown
        assert shown.startswith("postgresql://me@host/db")
