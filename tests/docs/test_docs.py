"""The documentation says what is so: its commands run, its tables are the code's."""

from __future__ import annotations

import importlib.util
import re
import shlex
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

import sdil
from sdil.algorithms import JUDGES, LEARNERS
from sdil.cli import main

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
SMALLER = [  # the same commands, on sizes that take seconds
    (r"--clean 30 --noisy 300", "--clean 8 --noisy 12"),
    (r"--clean 100 --noisy 0", "--clean 4 --noisy 0"),
    (r"--episodes 1000", "--episodes 20"),
    (r"episodes=1000", "episodes=20"),
    (r"(sdil train bc .*)", r"\1 --min-updates 40 --max-updates 40"),
    (
        r"(sdil train sdil .*)",
        r"\1 --min-updates 20 --max-updates 20 --discovery-epochs 2 --discovery-min-updates 1 "
        r"--n-skills 2",
    ),
    (r"(sdil judge .*)", r"\1 --clone-updates 40 --distance-updates 40"),
    (r"Judge\(\)", "Judge(clone_updates=40, distance_updates=40)"),
    (r"BC\(\)", "BC(min_updates=40, max_updates=40)"),
]


def blocks(page: Path) -> list[tuple[str, str]]:
    """The code of a page that is meant to be run: language and text."""
    return re.findall(r"^```(sh|python)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def run(language: str, code: str) -> None:
    if language == "python":
        exec(compile(code, "docs", "exec"), {})
        return
    for line in code.replace("\\\n", " ").splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "sdil"
        assert main(arguments) == 0, line


@pytest.mark.slow
def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = blocks(DOCS / "tutorial.md")
    used = set()
    for language, code in found:
        for number, (pattern, replacement) in enumerate(SMALLER):
            code, times = re.subn(pattern, replacement, code)
            used |= {number} if times else set()
        run(language, code)
    assert {language for language, _ in found} == {"sh", "python"}
    assert used == set(range(len(SMALLER))), "the tutorial has changed: so must SMALLER"
    assert sdil.load_demonstrations("demos/curated").noisy.n_steps > 0
    assert "<title>sdil on fourrooms" in (tmp_path / "report.html").read_text()
    assert "reward x100:" in capsys.readouterr().out


def test_bringing_your_own_data_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for language, code in blocks(DOCS / "data.md"):
        run(language, code.replace("--max-updates 400", "--max-updates 20"))
    assert len(sdil.load_demonstrations("demos/mine").noisy) == 30
    assert "groups" in capsys.readouterr().out
    assert (tmp_path / "runs" / "mine" / "policy.json").exists()


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_a_page_that_is_in_the_menu(name):
    page = "sdil.md" if name == "sdil" else f"algorithms/{name}.md"
    text = (DOCS / page).read_text()
    assert f"sdil train {name}" in text
    assert f": {page}\n" in (ROOT / "mkdocs.yml").read_text()
    if name != "sdil":
        kind = LEARNERS[name]
        assert f"{{{{ fields {kind.__module__}.{kind.__qualname__} }}}}" in text
        yes = "yes" if kind.judges_steps else "no"
        assert re.search(rf"\| {yes} \|\n\n## What it does", text)


@pytest.mark.parametrize("name", [*LEARNERS, *JUDGES])
def test_tables_of_fields_are_read_off_the_code(name):
    spec = importlib.util.spec_from_file_location("docs_fields", ROOT / "tools" / "docs_fields.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    kind = {**LEARNERS, **JUDGES}[name]
    text = hook.on_page_markdown(f"{{{{ fields {kind.__module__}.{kind.__qualname__} }}}}")
    rows = dict(re.findall(r"^\| `(\w+)` \| `(.*?)` \|", text, re.MULTILINE))
    assert set(rows) == {f.name for f in fields(kind)}
    for field in fields(kind):
        assert field.default is not MISSING
        assert eval(rows[field.name]) == field.default
    assert "| a whole number, at least 1 |" in text


def test_fields_of_sdil_and_of_the_judge_are_shown():
    assert "{{ fields sdil.algorithms.sdil.SDIL }}" in (DOCS / "sdil.md").read_text()
    assert "{{ fields sdil.judges.judge.Judge }}" in (DOCS / "score.md").read_text()
    assert len((DOCS / "sdil.md").read_text().split()) < 2_000  # what a reader of the paper needs


def test_pictures_and_linked_pages_exist():
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
