"""Errors fit the terminal, and what is to be copied out of them is in one piece."""

from __future__ import annotations

import io
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sdil
from sdil.cli import main
from sdil.cli.wrapping import complain, parts_of, wrap


@pytest.fixture(autouse=True)
def wide_errors():
    """As they are for people."""


MANY = "so that there are many words before it and the line is all but full when it"


@pytest.mark.parametrize(
    "whole",
    [
        "sdil train LEARNER --data FOLDER --out RUN",
        "sdil train bc --data my/steps.csv --clean 'top 20% by return' --out runs/a",
        "sdil study show studies/mine --failures",
        "sdil train --resume /a/b/c",
        'pip install "sdil[postgres]"',
        "mv runs/.mine.replaced runs/mine",
        "iconv -f latin1 -t utf-8 OLD.csv > NEW.csv",
        "`sdil score --out`",
        "'success and steps < 300'",
        "--to KIND:PATH",
        "--clean 'top 20% by return'",
        "/home/a-user/with-hyphens/and-more/of-them/in-a-path.csv",
        "/long" * 30,
    ],
)
def test_what_is_to_be_copied_is_not_broken(whole):
    for shift in range(12):
        text = f"{MANY} {'x' * shift} {whole}; and more follows after that, at some length"
        lines = wrap(text).splitlines()
        assert sum(whole in line for line in lines) == 1
        assert all(len(line) <= 80 for line in lines if whole not in line)
        assert " ".join(" ".join(lines).split()) == " ".join(text.split())


@given(st.text(alphabet="ab '\"`-/.:;,()=sdil", max_size=200), st.integers(20, 90))
def test_no_word_is_lost(text, width):
    text = f"begun {text}"
    assert wrap(text, width).split() == text.split()


def test_what_the_user_typed_is_kept_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    place = tmp_path / "a folder with blanks in its name and more than that"
    assert main(["judge", "--data", str(place), "--out", str(tmp_path / "j")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert sum(str(place) in line for line in lines) == 1
    assert lines[0] == "sdil judge:"
    assert all(len(line) <= 60 for line in lines if str(place) not in line)


def test_what_a_message_may_repeat():
    assert parts_of(["--data=my steps.csv?clean=a b", "--json"]) == [
        *("--data=my steps.csv?clean=a b", "my steps.csv?clean=a b", "my steps.csv"),
        "--json",
    ]


@pytest.mark.parametrize("error", [sdil.InputError, OSError, KeyboardInterrupt])
@pytest.mark.parametrize(("columns", "width"), [("50", 50), ("0", 80), (None, 80), ("5", 20)])
def test_every_complaint_is_wrapped(error, columns, width, monkeypatch, capsys):
    def command(_):
        warnings.warn("told " * 40, stacklevel=1)
        raise error("said " * 40)

    if columns is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sdil.cli.algorithms.main", command)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["algorithms"]) != 0
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) <= width
    assert max(map(len, lines)) > width - 8
    assert " ".join(lines).split().count("said") == 40
    assert " ".join(lines).split().count("told") == 40


def test_the_width_is_that_of_the_terminal_of_errors(monkeypatch):
    class Terminal(io.StringIO):
        def fileno(self):
            return 2

    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(sys, "stderr", drawn := Terminal())
    monkeypatch.setattr("os.get_terminal_size", lambda at: {2: type("S", (), {"columns": 33})}[at])
    complain("word " * 20)
    assert max(map(len, drawn.getvalue().splitlines())) == 31  # indented by two
