"""What a cell's source is, and a learner's fields, read without importing either.

PyTorch takes seconds to import, and a study that is finished has nothing to train. So the modules
that a cell uses are found by following `import` statements, and compared by their syntax trees:
another comment or docstring makes no cell stale.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

from sdil import limits
from sdil.errors import InputError
from sdil.named import find_named, is_import_path

_PACKAGE = Path(__file__).parents[1]
_MEASURED, _JUDGED = "sdil.studies.measure", "sdil.studies.step_scores"
_NOT_FOLLOWED = {
    "sdil",  # these three name everything; a cell uses little of it
    "sdil.algorithms",
    "sdil.tasks",
    _JUDGED,  # used by learners that judge steps alone
    *(f"sdil.judges.{name}" for name in ("asking", "lessons", "likeness", "telling")),  # people's
    # labels, which no cell has: judges that were told nothing score the same without them
}
_DATA = {"sdil.tasks.sepsis": "tasks/data"}  # a module whose numbers lie in files beside it


def read(path: Path) -> str:
    """The text of a source file."""
    return path.read_text("utf-8")


@dataclass(frozen=True)
class Written:
    """What the source says of a learner or a judge."""

    module: str
    fields: dict[str, Any]
    """Its fields and their defaults, in order."""
    hints: dict[str, Any]
    """The type and the limits of each."""
    class_variables: dict[str, Any]
    about: str
    """The first line of its docstring."""
    presets: tuple[str, ...]
    """The names of its other configurations."""


class Sources:
    """The package's source as it is now: each file is read once."""

    def __init__(self, read: Callable[[Path], str] = read) -> None:
        self._read = read
        self._texts: dict[str, str] = {}
        self._together: dict[tuple[str, ...], str] = {}
        self._found: dict[str, tuple[str, str]] | None = None
        self._written: dict[str, Written] = {}

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
                waiting += _imports_of(self._text(module))
        return found

    def of_cell(self, learner: str, judge: str | None, task_module: str) -> str:
        """A hash of all source that a record of this learner on this task follows from."""
        made = self.learner(learner)
        roots = [made.module, task_module, _MEASURED]
        if judge is not None:
            roots.append(self.judge(judge).module)
        if made.class_variables["judges_steps"]:
            roots.append(_JUDGED)
        ours = [module for module in roots if not is_import_path(module)]
        own = [module for module in roots if is_import_path(module)]
        if not own:
            return self.digest(ours)
        text = "".join(dump(ast.parse(_own_file(name).read_text("utf-8"))) for name in own)
        return hashlib.sha256(f"{self.digest(ours)} {text}".encode()).hexdigest()

    @property
    def learners(self) -> list[str]:
        """The names of all learners."""
        return sorted(name for name, home in self._homes().items() if home[0] in _learners())

    @property
    def judges(self) -> list[str]:
        """The names of all judges: those of their own, and those that learners have inside."""
        homes = self._homes()
        own = [name for name, home in homes.items() if home[0] not in _learners()]
        inside = [
            name
            for name in self.learners
            if (told := self.learner(name).class_variables)["judges_steps"]
            and not told["takes_judge"]
        ]
        return sorted({*own, *inside})

    def listed(self, registry: Literal["LEARNERS", "JUDGES"]) -> list[str]:
        """The names of a registry, in its order."""
        called = {class_name: name for name, (_, class_name) in self._homes().items()}
        for node in self._tree("sdil.algorithms").body:
            if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == registry:
                named = [getattr(n, "id", "") for n in ast.walk(node)]
                return list(dict.fromkeys(called[n] for n in named if n in called))
        raise LookupError(registry)

    def learner(self, name: str) -> Written:
        """What is written of a learner."""
        return self._named(name, self.learners, "learner")

    def judge(self, name: str) -> Written:
        """What is written of a judge."""
        return self._named(name, self.judges, "judge")

    def preset_of(self, learner: str, preset: str) -> dict[str, Any]:
        """The fields that a named configuration (of its class method `presets`) sets."""
        module, name = self._homes()[learner]
        node = self._class(module, name)
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}

        def fields_of(made: ast.expr | None) -> dict[str, Any]:
            """Of `cls.paper()`, `cls(...)` or `replace(cls.paper(), ...)`."""
            assert isinstance(made, ast.Call)
            own = {k.arg: _value(k.value) for k in made.keywords if k.arg}
            if isinstance(made.func, ast.Attribute):
                last = methods[made.func.attr].body[-1]
                assert isinstance(last, ast.Return)
                return fields_of(last.value) | own
            for before in made.args:
                own = fields_of(before) | own
            return own

        for name, made in _presets(node).items():
            if name == preset:
                return fields_of(made)
        raise InputError(f"{learner} has no preset {preset!r}")

    def _named(self, name: str, known: list[str], what: Literal["learner", "judge"]) -> Written:
        if is_import_path(name):
            return _own(name, what)
        if name not in known:
            raise InputError(f"there is no {what} {name!r}; there are {', '.join(known)}")
        if name not in self._written:
            module, class_name = self._homes()[name]
            assigned = self._assigned(module, class_name)
            of_class = {k: v for k, v in assigned.items() if _is_class_variable(v)}
            fields = {k: v for k, v in assigned.items() if k not in of_class}
            self._written[name] = Written(
                module,
                {k: _value(v.value) for k, v in fields.items()},
                {k: _hint(v.annotation) for k, v in fields.items()},
                {k: _value(v.value) for k, v in of_class.items()},
                (ast.get_docstring(self._class(module, class_name)) or "").partition("\n")[0],
                tuple(_presets(self._class(module, class_name))),
            )
        return self._written[name]

    def _homes(self) -> dict[str, tuple[str, str]]:
        """Where each learner and each judge is: module and class."""
        if self._found is None:
            self._found = {}
            for module in (*_learners(), *_modules("judges")):
                for node in self._tree(module).body:
                    if isinstance(node, ast.ClassDef):
                        named = _assignments(node).get("name")
                        if named is not None and _is_class_variable(named):
                            self._found[_value(named.value)] = (module, node.name)
        return self._found

    def _assigned(self, module: str, name: str) -> dict[str, ast.AnnAssign]:
        """The fields and ClassVars of a class, with those it inherits from this package."""
        node = self._class(module, name)
        found: dict[str, ast.AnnAssign] = {}
        for parent in node.bases:
            home = self._where(module, parent.id) if isinstance(parent, ast.Name) else None
            if home is not None:
                found |= self._assigned(*home)
        return found | _assignments(node)

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

    def _digest(self, module: str) -> str:
        whole = hashlib.sha256(_digest_of(self._text(module)).encode())
        if module in _DATA:
            for path in sorted((_PACKAGE / _DATA[module]).iterdir()):
                whole.update(path.name.encode() + path.read_bytes())
        return whole.hexdigest()

    def _tree(self, module: str) -> ast.Module:
        return _parsed(self._text(module))

    def _text(self, module: str) -> str:
        if module not in self._texts:
            self._texts[module] = self._read(_file(module))
        return self._texts[module]


# What follows from a text is found once, however often the source is looked at.


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _imports_of(text: str) -> frozenset[str]:
    """The modules of this package that a module with this text imports."""
    named: set[str] = set()
    for node in _run_nodes(_parsed(text)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named.add(node.module)
            named |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(
        name for name in named - _NOT_FOLLOWED if name.startswith("sdil.") and _file(name).is_file()
    )


@cache
def _digest_of(text: str) -> str:
    """A hash of what a text does; comments and docstrings do nothing."""
    tree = _Undocumented().visit(ast.parse(text))  # one of its own, since it is changed
    return hashlib.sha256(dump(tree).encode()).hexdigest()


def dump(node: object) -> str:
    """A syntax tree as text, the same by every version of Python: as `ast.dump` of 3.11 wrote it.

    3.12 adds the parameters of generic functions and classes, and in its first releases empty texts
    within f-strings; 3.13 leaves empty lists out.
    """
    if isinstance(node, list):
        return f"[{', '.join(map(dump, node))}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    parts = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(node, ast.JoinedStr):
            value = [part for part in node.values if getattr(part, "value", None) != ""]
        absent = value is None and getattr(type(node), name, ...) is None
        if not absent and not (name == "type_params" and not value):
            parts.append(f"{name}={dump(value)}")
    return f"{type(node).__name__}({', '.join(parts)})"


def _own(name: str, what: Literal["learner", "judge"]) -> Written:
    """What a learner or judge of the user's own says of itself; it is imported."""
    from sdil.algorithms import find_judge, find_learner

    kind: Any = find_learner(name) if what == "learner" else find_judge(name)
    hints = get_type_hints(kind, include_extras=True)
    told = ("judges_steps", "takes_judge", "takes_truth", "environment", "noisy_set", "reference")
    return Written(
        name,
        {f.name: f.default for f in fields(kind)},
        {f.name: hints[f.name] for f in fields(kind)},
        {key: getattr(kind, key) for key in told if hasattr(kind, key)},
        (kind.__doc__ or "").strip().partition("\n")[0],
        tuple(getattr(kind, "presets", dict)()),
    )


def _own_file(name: str) -> Path:
    """Where something of the user's own is written: another text makes its cells stale."""
    find_named(name, "sdil.tasks")
    found = sys.modules[name.partition(":")[0]].__file__
    assert found is not None
    return Path(found)


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


class _Undocumented(ast.NodeTransformer):
    """Leaves out the strings that stand alone as statements."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        alone = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if alone else node


def _assignments(node: ast.ClassDef) -> dict[str, ast.AnnAssign]:
    """The annotated names of a class body that have a value."""
    return {
        item.target.id: item
        for item in node.body
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and item.value is not None
    }


def _presets(node: ast.ClassDef) -> dict[str, ast.expr]:
    """What its class method `presets` gives a dictionary of, by name."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == "presets":
            (given,) = (n.value for n in ast.walk(item) if isinstance(n, ast.Return))
            assert isinstance(given, ast.Dict)
            return {_value(k): made for k, made in zip(given.keys, given.values, strict=True)}
    return {}


def _is_class_variable(item: ast.AnnAssign) -> bool:
    return "ClassVar" in ast.dump(item.annotation)


def _learners() -> list[str]:
    return _modules("algorithms")


@cache
def _modules(room: str) -> list[str]:
    paths = sorted((_PACKAGE / room).glob("*.py"))
    return [f"sdil.{room}.{path.stem}" for path in paths if path.stem != "__init__"]


def _value(node: ast.expr | None) -> Any:
    """The value of an expression of constants, such as 1e-3 or 1 / 16."""
    assert node is not None
    return eval(compile(ast.Expression(node), "<default>", "eval"), {"__builtins__": {}})


def _hint(node: ast.expr) -> Any:
    """The type and the limits that an annotation says, in the words of `limits.py`."""
    known = {**vars(limits), "Literal": Literal, "Annotated": Annotated}
    return eval(compile(ast.Expression(node), "<annotation>", "eval"), known)
