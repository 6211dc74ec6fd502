"""Data is text: no label, name or path is read as markup, and none steers the terminal."""

from __future__ import annotations

import io
import json
import shlex
import warnings

import numpy as np
import pytest
from test_cli import run

import sdil
from sdil.cli import main
from sdil.cli.console import (
    plain,
    print_command,
    print_json,
    print_table,
    print_wrapped,
    progress,
)

NASTY = [
    "[/x] team",
    "[red]A[/red]",
    "a:smile:b",
    "\x1b[2J\x1b[31mred",
    "\x9b31m",
    "\x07",
    "\u202eabc",
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ± é 日本 [b]", "plain ± é 日本 [b]"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\x9b\x7f\x00", "\\x9b\\x7f\\x00"),
        ("a\tb\nc\rd", "a\\tb\\nc\\rd"),
        ("\u202e\u2028", "\\u202e\\u2028"),
        ("\udcff", "\\udcff"),  # a byte of a file's name that is no UTF-8
        (3, "3"),
    ],
)
def test_control_characters_are_written_out(text, shown):
    assert plain(text) == shown
    assert plain(f"{text}\n{text}", lines=True).count("\n") == 1 + 2 * str(text).count("\n")


@pytest.mark.parametrize("text", NASTY)
def test_tables_and_json_show_text_as_it_is(text, capsys):
    print_table(f"{text} title", [f"{text} column", "b"], [[text, "1"], ["x", text]])
    said = capsys.readouterr().out
    assert said.count(plain(text)) == 4
    assert f"{plain(text)} title" in said
    assert said == plain(said, lines=True)
    print_json({text: [text]})
    said = capsys.readouterr().out
    assert said == plain(said, lines=True)
    assert json.loads(said) == {text: [text]}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("text", NASTY)
def test_progress_shows_text_as_it_is(text, monkeypatch):
    drawn = Terminal()
    monkeypatch.setattr("sys.stderr", drawn)
    with progress(text) as update:
        update(1, 2)
        update(2, 2, f"{text} more")
    said = drawn.getvalue()
    assert f"{plain(text)}: 1 of 2 done, " in said
    assert f"{plain(text)} more: 2 of 2 done, " in said
    assert "\x1b" not in said


def test_nothing_is_shown_where_there_is_no_terminal(monkeypatch):
    drawn = io.StringIO()
    monkeypatch.setattr("sys.stderr", drawn)
    with progress("work") as update:
        update(1, 2, "more")
    assert drawn.getvalue() == ""


@pytest.mark.parametrize("error", [sdil.InputError, OSError, KeyboardInterrupt])
def test_complaints_are_text(error, monkeypatch, capsys):
    def command(_):
        warnings.warn("told \x1b[2J", stacklevel=1)
        raise error("no \x1b[2J[red] file")

    monkeypatch.setattr("sdil.cli.algorithms.main", command)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["algorithms"]) != 0
    said = capsys.readouterr().err
    assert "warning: told \\x1b[2J\n" in said
    assert "sdil algorithms: no \\x1b[2J[red] file\n" in said
    assert "\x1b" not in said


def test_groups_ids_and_paths_of_demonstrations_are_text(tmp_path, capsys):
    rng = np.random.default_rng(0)

    def some(n, first):
        return [
            sdil.Trajectory(
                rng.random((9, 2), np.float32),
                rng.integers(0, 2, 8),
                id=f"[bold]{i}[/bold]\x9b31m",
                group=("[/x] team", "[red]A[/red]")[i % 2],
            )
            for i in range(first, first + n)
        ]

    data, judgement = tmp_path / "[red]d[/red]", tmp_path / "[/x] judged"
    demos = sdil.Demonstrations(clean=some(4, 0), noisy=some(4, 4))
    sdil.save_demonstrations(demos, data, task="[bold]mine[/bold]")
    short = ("--max-updates", 5, "--min-updates", 1)
    assert run("train", "weighted-bc", "--data", data, "--out", judgement, *short) == 0
    capsys.readouterr()
    assert run("inspect", data) == 0
    assert "task [bold]mine[/bold]" in " ".join(capsys.readouterr().out.split())
    assert run("score", judgement, "--data", data) == 0
    said = capsys.readouterr().out
    assert "[bold]4[/bold]\\x9b31m" in said
    assert "\x9b" not in said
    out = tmp_path / "curated"
    assert run("curate", judgement, "--data", data, "--out", out, "--keep-share", 0.5) == 0
    said = capsys.readouterr().out
    assert "[/x] team" in said
    assert "[red]A[/red]" in said


def test_a_long_command_is_printed_in_lines_that_a_shell_takes(capsys):
    words = ["sdil", "import", "my steps.csv", "--clean", "success and steps < 300"]
    words += ["--features", "obs_0,obs_1,obs_2", "--json", "--out", "demos/my steps"]
    print_command(shlex.join(words))
    text = capsys.readouterr().out
    first, second = text.splitlines()
    assert first.endswith(" --clean 'success and steps < 300' \\")
    assert second.startswith("      --features obs_0,obs_1,obs_2 --json ")
    assert max(map(len, text.splitlines())) <= 80
    assert shlex.split(text.replace("\\\n", "")) == words
    print_command("sdil score j")
    assert capsys.readouterr().out == "  sdil score j\n"


def test_sentences_are_wrapped_and_names_stay_whole(capsys):
    path = "/a" * 45
    print_wrapped(f"written to {path}; {'many words ' * 12}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["written to", f"  {path};"]
    assert len(lines) == 4
    assert max(map(len, lines[2:])) <= 80


def test_a_folder_of_many_words_is_inspected_in_80_columns(demos, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    sdil.save_demonstrations(demos, "mine", origin={"by": "a person who says very much " * 5})
    assert main(["inspect", "mine"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []
