"""A hook of mkdocs: tables of a learner's hyper-parameters, read off its source.

A line `{{ fields sdil.algorithms.bc.BC }}` in a page becomes a table of field, default and meaning,
those of parent classes last; so no page can tell another default than the code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from sdil import limits

SOURCE = Path(__file__).parent.parent / "src"
_MARK = re.compile(r"^\{\{ fields ([\w.]+) \}\}$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """What mkdocs calls with the text of each page."""
    return _MARK.sub(lambda found: table(found[1]), markdown)


def table(name: str) -> str:
    """The fields of a class, such as "sdil.algorithms.bc.BC", as a Markdown table."""
    rows: dict[str, tuple[str, str, str]] = {}
    for field, *told in _fields(name):
        default, limit, meaning = told
        rows.setdefault(field, (default, limit, meaning))  # a class's own wins over its parent's
    lines = [f"| `{field}` | `{d}` | {limit} | {m} |" for field, (d, limit, m) in rows.items()]
    return "\n".join(["| field | default | may be | what it does |", "|---|---|---|---|", *lines])


def _fields(name: str) -> Iterator[tuple[str, str, str, str]]:
    module, _, class_name = name.rpartition(".")
    tree = ast.parse((SOURCE / f"{module.replace('.', '/')}.py").read_text("utf-8"))
    (found,) = (n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == class_name)
    for line, after in zip(found.body, [*found.body[1:], None], strict=True):
        if not isinstance(line, ast.AnnAssign) or line.value is None:
            continue
        if "ClassVar" in ast.unparse(line.annotation):
            continue
        assert isinstance(after, ast.Expr), f"{name}: {ast.unparse(line)} says not what it is"
        meaning = ast.literal_eval(after.value)
        yield (
            ast.unparse(line.target),
            ast.unparse(line.value),
            limits.allowed(_hint(line.annotation)),
            " ".join(meaning.split()),
        )
    homes = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    for parent in map(ast.unparse, found.bases):
        if homes.get(parent, "").startswith("sdil."):
            yield from _fields(f"{homes[parent]}.{parent}")


def _hint(node: ast.expr) -> Any:
    known = {**vars(limits), "Literal": Literal, "Annotated": Annotated}
    return eval(compile(ast.Expression(node), "<annotation>", "eval"), known)
