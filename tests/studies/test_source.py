"""Fields and dependencies read off the source are those that importing shows."""

from __future__ import annotations

import ast
import hashlib
import sys
from dataclasses import fields
from typing import get_type_hints

import pytest
from small import cell

import sdil
from sdil import InputError
from sdil.algorithms import JUDGES, LEARNERS
from sdil.limits import allowed
from sdil.studies import source
from sdil.studies.cell import Cell, address_of, sorted_fields
from sdil.studies.source import Sources


@pytest.fixture(scope="module")
def sources():
    return Sources()


def test_every_learner_is_found(sources):
    assert sources.learners == sorted(LEARNERS)


@pytest.mark.parametrize("name", LEARNERS)
def test_fields_are_the_dataclasses_own(name, sources):
    written = sources.learner(name)
    assert written.fields == {f.name: f.default for f in fields(LEARNERS[name])}
    assert written.module == LEARNERS[name].__module__
    hints = get_type_hints(LEARNERS[name], include_extras=True)
    assert {k: allowed(v) for k, v in written.hints.items()} == {
        f.name: allowed(hints[f.name]) for f in fields(LEARNERS[name])
    }


@pytest.mark.parametrize("name", JUDGES)
def test_so_are_those_of_judges(name, sources):
    assert sources.judges == sorted(JUDGES)
    written = sources.judge(name)
    assert written.fields == {f.name: f.default for f in fields(JUDGES[name])}
    assert written.module == JUDGES[name].__module__


def test_a_preset_is_what_the_class_makes(sources):
    paper = sdil.SDIL(**sources.preset_of("sdil", "paper"))
    assert paper == sdil.SDIL.paper()


def with_edit(file: str, edit):
    """The source with one file changed."""

    def read(path):
        text = source.read(path)
        return edit(text) if path.name == file else text

    return Sources(read)


def address(sources: Sources, learner: str = "bc", task: str = "fourrooms") -> str:
    return address_of(Cell(task, learner, 0, 5, 5).inputs(sources))


def test_only_what_a_cell_uses_makes_it_stale(sources):
    edited = with_edit("discovery.py", lambda text: text + "\nmore = 1\n")
    assert address(edited, "bc") == address(sources, "bc")
    assert address(edited, "sdil") != address(sources, "sdil")
    of_a_task = with_edit("sepsis.py", lambda text: text + "\nmore = 1\n")
    assert address(of_a_task) == address(sources)
    assert address(of_a_task, task="sepsis") != address(sources, task="sepsis")
    of_scores = with_edit("step_scores.py", lambda text: text + "\nmore = 1\n")
    assert address(of_scores, "bc") == address(sources, "bc")
    assert address(of_scores, "dwbc") != address(sources, "dwbc")
    of_labels = with_edit("lessons.py", lambda text: text + "\nmore = 1\n")  # no cell has any
    assert address(of_labels, "sdil") == address(sources, "sdil")
    of_idling = with_edit("doing.py", lambda text: text.replace("IDLING = 0.3", "IDLING = 0.4"))
    assert address(of_idling, "sdil") != address(sources, "sdil")


def test_comments_and_docstrings_make_nothing_stale(sources):
    told = with_edit("bc.py", lambda text: text.replace('"""Behaviour cloning."""', '"""BC."""'))
    assert address(told) == address(sources)
    assert address(with_edit("bc.py", lambda text: text + "# a comment\n")) == address(sources)
    changed = with_edit("bc.py", lambda text: text.replace("self.hidden", "2 * self.hidden"))
    assert address(changed) != address(sources)


SYNTAX = '''
@decorated(1)
class Small(Parent, key=None):
    field: int = -1

    async def method(self, a, /, b=2, *rest: str, c: float | None = None, **more) -> None:
        """What it does."""
        x = [i async for i in a if i is not None]
        return {**more, "k": f"{x!r:>{b}} {{}} {c:.2f}", 1: (yield)}

def plain(): ...
match plain():
    case None | {"a": [1, *_]}:
        del Small
try:
    lambda: 1.5e300 + 2j
except* (OSError, KeyError) as error:
    raise error from None
'''


def test_an_address_does_not_depend_on_the_version_of_python():
    """What 3.11, 3.12 and 3.13 all say of one text; their own `ast.dump` differs."""
    told = source.dump(ast.parse(SYNTAX))
    assert hashlib.sha256(told.encode()).hexdigest() == (
        "a65834bc57bc49f83a96a9ed579ef46e7700032788770ec75c13c1bcec8b9ac0"
    )
    if sys.version_info[:2] == (3, 11):  # which cells were measured with
        assert told == ast.dump(ast.parse(SYNTAX))


def test_what_a_version_of_python_adds_changes_no_address():
    """As 3.12 has it: type parameters of a function, and a text of nothing in an f-string."""
    tree = ast.parse("def plain(a):\n    return f'{a:>{a}}'")
    usual = source.dump(tree)
    function = tree.body[0]
    function.type_params = []
    function._fields = (*ast.FunctionDef._fields, "type_params")
    function.body[0].value.values[0].format_spec.values.append(ast.Constant(""))
    assert source.dump(tree) == usual
    function.type_params = [ast.Name("T", ast.Load())]
    assert source.dump(tree) != usual


def test_everything_that_decides_is_in_the_address(sources):
    usual = Cell("fourrooms", "bc", 0, 5, 5)
    others = [
        Cell("doorkey-5x5", "bc", 0, 5, 5),
        Cell("fourrooms", "dwbc", 0, 5, 5),
        Cell("fourrooms", "bc", 1, 5, 5),
        Cell("fourrooms", "bc", 0, 6, 5),
        Cell("fourrooms", "bc", 0, 5, 6),
        Cell("fourrooms", "bc", 0, 5, 5, sorted_fields({"hidden": 8})),
        Cell("fourrooms", "bc", 0, 5, 5, noise="segments"),
        Cell("fourrooms", "bc", 0, 5, 5, noisy_random_steps=0.1),
        Cell("fourrooms", "bc", 0, 5, 5, expert_share=0.5),
        Cell("fourrooms", "bc", 0, 5, 5, offline=True),
        Cell("fourrooms", "bc", 0, 5, 5, measured="validation"),
        Cell("fourrooms", "sdil", 0, 5, 5),
        Cell("fourrooms", "sdil", 0, 5, 5, judge="evidence"),
        Cell("fourrooms", "sdil", 0, 5, 5, judge="pu"),
        Cell("fourrooms", "sdil", 0, 5, 5, judge="evidence", judge_fields=(("hidden", 8),)),
    ]
    addresses = {address_of(c.inputs(sources)) for c in (usual, *others)}
    assert len(addresses) == 1 + len(others)


def test_a_default_said_aloud_and_a_whole_float_change_no_address(sources):
    said = Cell("fourrooms", "sdil", 0, 5, 5, sorted_fields({"mi_weight": 1, "hidden": 64}))
    assert address_of(said.inputs(sources)) == address(sources, "sdil")


def test_bad_fields_are_named(sources):
    with pytest.raises(InputError, match="bc has no field 'width'"):
        cell(fields={"width": 3}).inputs(sources)
    with pytest.raises(
        InputError, match="bc: hidden must be a whole number, at least 1, not 'big'"
    ):
        cell(fields={"hidden": "big"}).inputs(sources)
    with pytest.raises(InputError, match="bc: hidden must be a whole number, at least 1, not -8"):
        cell(fields={"hidden": -8}).inputs(sources)
    with pytest.raises(InputError, match='sdil: score must be one of "judge", "pu", not \'nope\''):
        cell("sdil", fields={"score": "nope"}).inputs(sources)
    with pytest.raises(InputError, match="sdil has no field 'memory' any more"):
        cell("sdil", fields={"memory": 3}).inputs(sources)
    with pytest.raises(InputError, match="bc has no use for a judge"):
        cell(judge="evidence").inputs(sources)
    with pytest.raises(InputError, match="no judge 'nobody'"):
        cell("sdil", fields={}, judge="nobody").inputs(sources)
    bad = cell("sdil", fields={}, judge="evidence", judge_fields=(("good_share", 1.0),))
    with pytest.raises(InputError, match="good_share must be a number, above 0 and under 1"):
        bad.inputs(sources)
    with pytest.raises(InputError, match="no learner 'nobody'"):
        cell("nobody").inputs(sources)


def test_a_cell_survives_json():
    asked = cell(expert_share=0.5, offline=True)
    assert Cell.from_json(asked.as_json()) == asked
    judged = cell("sdil", fields={}, judge="evidence", judge_fields=(("good_share", 0.3),))
    assert Cell.from_json(judged.as_json()) == judged


def test_the_registries_are_read_in_their_order_with_what_help_says_of_them():
    from sdil.algorithms import JUDGES, LEARNERS

    sources = Sources()
    assert sources.listed("LEARNERS") == list(LEARNERS)
    assert sources.listed("JUDGES") == list(JUDGES)
    for name, kind in LEARNERS.items():
        written = sources.learner(name)
        assert written.about == kind.__doc__.strip().splitlines()[0]
        assert written.presets == tuple(getattr(kind, "presets", dict)())
