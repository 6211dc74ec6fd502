"""What a cell's source is, and a learner's fields, read without importing either.

PyTorch takes seconds to import, and a study that is finished has nothing to train. So the modules
that a cell uses are found by following `import` statements, and compared by their syntax trees:
another comment or docstring makes no cell stale.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from sdil.errors import InputError

_PACKAGE = Path(__file__).parents[1]
_MEASURED, _JUDGED = "sdil.studies.measure", "sdil.studies.judging"
_NOT_FOLLOWED = {
    "sdil",  # these three name everything; a cell uses little of it
    "sdil.algorithms",
    "sdil.tasks",
    _JUDGED,  # used by learners that judge steps alone
}
_DATA = {"sdil.tasks.sepsis": "tasks/data"}  # a module whose numbers lie in files beside it


def read(path: Path) -> str:
    """The text of a source file."""
    return path.read_text("utf-8")


class Sources:
    """The package's source as it is now: each file is read once."""

    def __init__(self, read: Callable[[Path], str] = read) -> None:
        self._read = read
        self._trees: dict[str, ast.Module] = {}
        self._digests: dict[str, str] = {}
        self._imported: dict[str, set[str]] = {}
        self._together: dict[tuple[str, ...], str] = {}
        self._homes: dict[str, tuple[str, str]] | None = None

    def digest(self, modules: Iterable[str]) -> str:
        """A hash of these modules and of all that they import from this package."""
        roots = tuple(sorted(modules))
        if roots not in self._together:
            whole = hashlib.sha256()
            for module in sorted(self.used_by(roots)):
                whole.update(f"{module} {self._digest(module)}\n".encode())
            self._together[roots] = whole.hexdigest()
        return self._together[roots]

    def used_by(self, modules: Iterable[str]) -> set[str]:
        """These modules and all of this package that they import, directly or not."""
        found: set[str] = set()
        waiting = list(modules)
        while waiting:
            module = waiting.pop()
            if module not in found:
                found.add(module)
                waiting += self._imports(module)
        return found

    def of_cell(self, learner: str, task_module: str) -> str:
        """A hash of all source that a record of this learner on this task follows from."""
        roots = [self.module_of(learner), task_module, _MEASURED]
        judges = self._constants_of(*self._home(learner), class_variables=True)["judges_steps"]
        return self.digest([*roots, _JUDGED] if judges else roots)

    @property
    def learners(self) -> list[str]:
        """The names of all learners."""
        return sorted(self._learners())

    def module_of(self, learner: str) -> str:
        """The module that a learner is written in."""
        return self._home(learner)[0]

    def fields_of(self, learner: str) -> dict[str, Any]:
        """A learner's fields and their defaults, in order."""
        return self._constants_of(*self._home(learner), class_variables=False)

    def preset_of(self, learner: str, preset: str) -> dict[str, Any]:
        """The fields that a named configuration (a class method such as `paper`) sets."""
        module, name = self._home(learner)
        for node in self._class(module, name).body:
            if isinstance(node, ast.FunctionDef) and node.name == preset:
                made = node.body[-1]
                assert isinstance(made, ast.Return)
                assert isinstance(made.value, ast.Call)
                return {k.arg: _value(k.value) for k in made.value.keywords if k.arg}
        raise InputError(f"{learner} has no preset {preset!r}")

    def _home(self, learner: str) -> tuple[str, str]:
        homes = self._learners()
        if learner not in homes:
            raise InputError(f"there is no learner {learner!r}; there are {', '.join(homes)}")
        return homes[learner]

    def _learners(self) -> dict[str, tuple[str, str]]:
        """Where each learner is: module and class."""
        if self._homes is None:
            found = {}
            for path in sorted((_PACKAGE / "algorithms").glob("*.py")):
                module = f"sdil.algorithms.{path.stem}"
                for node in self._tree(module).body if path.stem != "__init__" else ():
                    if isinstance(node, ast.ClassDef):
                        name = _constants(node, class_variables=True).get("name")
                        if name is not None:
                            found[name] = (module, node.name)
            self._homes = found
        return self._homes

    def _constants_of(self, module: str, name: str, *, class_variables: bool) -> dict[str, Any]:
        """The fields of a class, or its ClassVars, with those it inherits from this package."""
        node = self._class(module, name)
        found: dict[str, Any] = {}
        for parent in node.bases:
            home = self._where(module, parent.id) if isinstance(parent, ast.Name) else None
            if home is not None:
                found |= self._constants_of(*home, class_variables=class_variables)
        return found | _constants(node, class_variables=class_variables)

    def _where(self, module: str, name: str) -> tuple[str, str] | None:
        """The module of this package that a class named in `module` comes from."""
        for node in self._tree(module).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return module, name
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sdil."):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return str(node.module), alias.name
        return None

    def _class(self, module: str, name: str) -> ast.ClassDef:
        for node in self._tree(module).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return node
        raise LookupError(f"{module} has no class {name}")

    def _imports(self, module: str) -> set[str]:
        if module not in self._imported:
            self._imported[module] = self._find_imports(module)
        return self._imported[module]

    def _find_imports(self, module: str) -> set[str]:
        named: set[str] = set()
        for node in _run_nodes(self._tree(module)):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                named.add(node.module)
                named |= {f"{node.module}.{alias.name}" for alias in node.names}
        return {
            name
            for name in named - _NOT_FOLLOWED
            if name.startswith("sdil.") and _file(name).is_file()
        }

    def _digest(self, module: str) -> str:
        if module not in self._digests:
            tree = _without_docstrings(self._tree(module))
            text = hashlib.sha256(ast.dump(tree).encode())
            if module in _DATA:
                for path in sorted((_PACKAGE / _DATA[module]).iterdir()):
                    text.update(path.name.encode() + path.read_bytes())
            self._digests[module] = text.hexdigest()
        return self._digests[module]

    def _tree(self, module: str) -> ast.Module:
        if module not in self._trees:
            self._trees[module] = ast.parse(self._read(_file(module)))
        return self._trees[module]


def _file(module: str) -> Path:
    path = _PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes, but for those that only a type checker sees."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # no statement inside
        unseen = isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING"
        if not unseen:
            yield child
            yield from _run_nodes(child)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The same tree less the strings that stand alone as statements."""
    copy = ast.Module(body=list(tree.body), type_ignores=[])
    return _Undocumented().visit(copy)


class _Undocumented(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else node


def _constants(node: ast.ClassDef, *, class_variables: bool) -> dict[str, Any]:
    """The annotated names of a class body that have a value: its fields, or its ClassVars."""
    found = {}
    for item in node.body:
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name):
            continue
        of_class = "ClassVar" in ast.dump(item.annotation)
        if item.value is not None and of_class == class_variables:
            found[item.target.id] = _value(item.value)
    return found


def _value(node: ast.expr) -> Any:
    """The value of an expression of constants, such as 1e-3 or 1 / 16."""
    return eval(compile(ast.Expression(node), "<default>", "eval"), {"__builtins__": {}})
