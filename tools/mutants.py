"""Do the tests notice when the core is wrong? Changes it in small ways and runs the tests of each.

    python tools/mutants.py                    # 150 mutants, two at a time
    python tools/mutants.py --count 40 --only windows segmentation
    python tools/mutants.py --count 0          # only those that lived once, and must not again
    python tools/mutants.py --seed 7 --fresh   # others than any draw of a smaller seed has held

A mutant is one change of one place in one module: a comparison, a sign, a constant, `and` for `or`,
a condition that is always true or always false, a returned value that is lost. They are drawn with
a fixed seed, evenly over the modules; those that once lived (`ONCE_ALIVE`) come first and are
counted apart, those that change no answer (`EQUIVALENT`, found by hand) are not drawn. Tests are
written for mutants that lived, so that only a fresh draw says how many others would: what each
fresh draw held stands in `drawn.txt`, so that later changes of the code make nothing fresh again.
A mutant is killed where a test of its module fails or does not end; those that live are listed.
Each runs in a copy of the source: the working tree is never touched.
"""

from __future__ import annotations

import ast
import compileall
import hashlib
import json as json_text
import os
import random
import resource
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import asdict, dataclass
from importlib.util import cache_from_source
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from queue import Queue

import tyro

ROOT = Path(__file__).resolve().parent.parent
DRAWN = ROOT / "tools" / "drawn.txt"
"""A line for each mutant of a fresh draw: the seed, and `Mutant.mark`."""
CORE = {
    "windows": ("tests/test_windows.py", "tests/test_frozen.py"),
    "segmentation": ("tests/test_segmentation.py",),
    "trajectories": (
        "tests/test_demonstrations.py",
        "tests/test_windows.py",
        "tests/test_frozen.py",
    ),
    "spaces": ("tests/test_spaces.py", "tests/test_demonstrations.py", "tests/test_frozen.py"),
    "files": ("tests/test_files.py",),
    "scores": ("tests/test_step_scores.py", "tests/test_segmentation.py", "tests/test_frozen.py"),
    "judges/hearing": ("tests/judges/test_hearing.py", "tests/test_frozen.py"),
    "judges/joining": ("tests/judges/test_joining.py",),
    "evaluation/statistics": ("tests/evaluation/test_metrics.py",),
    "report/page": ("tests/report/test_render.py", "tests/report/test_sampling.py"),
    "observations": ("tests/test_observations.py", "tests/test_frozen.py"),
    "limits": ("tests/test_limits.py", "tests/test_frozen.py"),
    "curation": ("tests/test_curation.py", "tests/test_frozen.py"),
    "choosing": ("tests/test_curation.py",),
    "labels": ("tests/test_labels.py", "tests/test_frozen.py"),
    "judges/material": ("tests/judges/test_material.py", "tests/test_frozen.py"),
    "evaluation/comparisons": ("tests/evaluation/test_comparisons.py", "tests/test_frozen.py"),
}
"""Modules and the tests that answer for them."""
ONCE_ALIVE = (
    (
        "windows",
        "self.rows = torch.from_numpy(trajectories.rows())",
        "self.rows = torch.from_numpy(trajectories.rows() & 0xFFFF)",
    ),
    ("windows", "trajectories.steps()", "trajectories.steps() & 0xFFFF"),
    ("windows", "trajectories.times()", "trajectories.times() & 0xFFFF"),
    ("segmentation", "PENALTY = 0.5", "PENALTY = 0.51"),
    ("segmentation", "error[i, : known + i] + penalty", "error[i, : known + i] + 1.1 * penalty"),
    ("judges/hearing", "self.chance < level", "self.chance <= level"),
    ("judges/hearing", "EPISODE_LEVEL = 0.05", "EPISODE_LEVEL = 0.10"),
    ("files", "temporary.unlink(missing_ok=True)", "pass"),
    ("files", "shutil.rmtree(temporary, ignore_errors=True)", "pass"),
    ("report/page", 'for sign in "<>&', 'for sign in ">&'),
)
"""A module, a text in it, and what it became when no test noticed."""
EQUIVALENT = (
    *(
        (
            "windows",
            f"{name} = {was}",
            f"{name} = {was + 1}",
            "how many steps are gone through at once",
        )
        for name, was in (("STEPS_AT_ONCE", 16384), ("STEPS_IN_CACHE", 1024))
    ),
    ("segmentation", "_BLOCK = 64", "_BLOCK = 65", "how many steps are gone through at once"),
    (
        "segmentation",
        "enough = 2 * len(starts) + _BLOCK",
        "enough = 2 + len(starts) + _BLOCK",
        "when starts are looked through is a matter of time: the best are never forgotten",
    ),
    (
        "segmentation",
        "if len(starts) > enough and stops[-1] < len(values):",
        "if len(starts) > enough and stops[-1] <= len(values):",
        "after the last step nothing is asked of what is left",
    ),
    *(
        (
            "spaces",
            "if -exact <= values.min() and values.max() <= exact:",
            became,
            "a shortcut: on the line the long way finds nothing lost either",
        )
        for became in (
            "if -exact < values.min() and values.max() <= exact:",
            "if -exact <= values.min() and values.max() < exact:",
        )
    ),
    (
        "trajectories",
        "if self.n_steps <= steps or not (in_order and (np.diff(self.first_step) > 0).all()):",
        "if self.n_steps < steps or not (in_order and (np.diff(self.first_step) > 0).all()):",
        "one block of all steps is all of them",
    ),
    (
        "segmentation",
        "_MEANS = 128",
        "_MEANS = 129",
        "how many means are tried decides how many starts are forgotten, not which are the best",
    ),
    (
        "segmentation",
        "if len(starts) > enough and stops[-1] < len(values):",
        "if len(starts) >= enough and stops[-1] < len(values):",
        "when starts are looked through is a matter of time: the best are never forgotten",
    ),
    (
        "segmentation",
        "left, right = (np.where(worse, left, np.inf), np.where(worse, right, -np.inf))",
        "left, right = (np.where(worse, left, np.inf), np.where(worse, right, +np.inf))",
        "where it is not worse its left end is at infinity, which shows the same last gap",
    ),
    (
        "judges/joining",
        "return np.where(np.isnan(signal), -1, np.searchsorted(edges, signal, side='right'))",
        "return np.where(np.isnan(signal), -2, np.searchsorted(edges, signal, side='right'))",
        "whatever lies below 0 is no bin",
    ),
    (
        "judges/hearing",
        "rng = np.random.default_rng(0)",
        "rng = np.random.default_rng(1)",
        "which of many ways to deal groups out are drawn is arbitrary",
    ),
    (
        "judges/hearing",
        "np.add.at(taken, (place, actions), 1.0)",
        "np.add.at(taken, (place, actions), 2.0)",
        "only shares of it are used",
    ),
    (
        "judges/hearing",
        "return 0.0 if gains[0] > 0 else 1.0",
        "return 0.0 if gains[0] >= 0 else 1.0",
        "gains that are all 0 were answered before",
    ),
    (
        "judges/hearing",
        "return float((1 + int((anew >= sums(values[:n_clean]) - 1e-09).sum())) / (1 + _DEALT))",
        "return float((1 + int((anew > sums(values[:n_clean]) - 1e-09).sum())) / (1 + _DEALT))",
        "the tolerance is there so that no sum lies on the line",
    ),
    (
        "spaces",
        "if not isinstance(space, gym.spaces.Box):",
        "if True:",
        "a shortcut: no finite number lies beyond limits that are infinite",
    ),
    (
        "curation",
        "runs = [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]",
        "runs = [(int(a), int(b)) for a, b in edges.reshape(-2, 2)]",
        "NumPy takes any negative number for the length that is left over",
    ),
    (
        "windows",
        "if self.look_back == 0:",
        "if False:",
        "a shortcut: without a past `cut` looks at neither steps nor times",
    ),
    (
        "segmentation",
        "best = np.zeros(len(values) + 1)",
        "best = np.zeros(len(values) + 2)",
        "one place more, which nobody looks at",
    ),
    (
        "segmentation",
        "starts = np.zeros(1, np.int64)",
        "starts = np.zeros(2, np.int64)",
        "the same start twice costs the same, and the first of equals is taken",
    ),
    (
        "segmentation",
        "older = curvature > 0",
        "older = curvature > 1",
        "too many starts may stay, which is a matter of time, and never too few",
    ),
    (
        "spaces",
        "if -exact <= values.min() and values.max() <= exact:",
        "if False:",
        "a shortcut: the long way finds nothing lost either",
    ),
    (
        "report/page",
        "text = json.dumps(_plain(value), ensure_ascii=False, "
        "allow_nan=False, separators=(',', ':'))",
        "text = json.dumps(_plain(value), ensure_ascii=False, "
        "allow_nan=True, separators=(',', ':'))",
        "an assertion: `_plain` has left no NaN",
    ),
    (
        "curation",
        "if by_rule or weights:",
        "if True:",
        "of those who ask nothing `refuse_unknown` refuses nothing",
    ),
)
"""A module, a line in it as `ast.unparse` has it, what it became, and why nobody could tell."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["pytest", "torch", "scipy.stats", "minari"])
"""Tests run in processes that have imported what is large already, and nothing of ours."""
_NO_BEHAVIOUR = (ast.Import, ast.ImportFrom, ast.JoinedStr, ast.Raise, ast.Assert)
_MAY_CHANGE = (
    *(ast.Compare, ast.BinOp, ast.BoolOp, ast.AugAssign, ast.If, ast.IfExp, ast.While),
    *(ast.UnaryOp, ast.Constant, ast.Return),
)


@dataclass(frozen=True)
class Mutant:
    """One change."""

    module: str
    line: int
    what: str
    source: str
    was: str = ""
    """The changed line before, as `ast.unparse` writes it."""
    became: str = ""

    @property
    def mark(self) -> str:
        """The same for the same change of the same line, wherever the line stands."""
        text = "\n".join((self.module, self.was, self.became))
        return hashlib.sha256(text.encode()).hexdigest()[:12]


def main(
    count: int = 150,
    seed: int = 0,
    workers: int = 2,
    seconds: float = 60.0,
    only: tuple[str, ...] = (),
    fresh: bool = False,
    json: Path | None = None,
) -> None:
    """Draw mutants, run the tests of each, and say how many were noticed.

    Args:
        count: How many, spread evenly over the modules.
        seed: Which ones.
        workers: At a time.
        seconds: Of the processor, after which tests that do not end count as failing.
        only: Modules; all where none is named.
        fresh: Leave out those that fresh draws of smaller seeds held, for which tests may have
            been written, and write down in `drawn.txt` what this one holds.
        json: Save what was found to this file.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    chosen = {name: tests for name, tests in CORE.items() if not only or name in only}
    mutants = draw(tuple(chosen), count, seed, drawn(seed) if fresh else frozenset())
    if fresh:
        write_drawn(seed, mutants)
    untouched = [Mutant(name, 0, "nothing is changed", source_of(name)) for name in chosen]
    failing = [m.module for m, dead in run_all(untouched, workers, seconds) if dead]
    if failing:
        sys.exit(f"the tests of {', '.join(failing)} fail as it is: nothing can be said")
    old = [m for m in once_alive() if m.module in chosen]
    killed = [dead for _, dead in run_all([*old, *mutants], workers, seconds)]
    dead_again, killed = killed[: len(old)], killed[len(old) :]
    print(f"of {len(old)} that lived once {sum(dead_again)} are killed")
    for name in chosen:
        mine = [dead for m, dead in zip(mutants, killed, strict=True) if m.module == name]
        print(f"{name:<24} {sum(mine)} of {len(mine)} killed")
    for mutant, dead in zip([*old, *mutants], [*dead_again, *killed], strict=True):
        if not dead:
            print(f"alive: {mutant.module}.py:{mutant.line}: {mutant.what}")
            print(f"       {mutant.was}\n       {mutant.became}")
    print(f"killed {sum(killed)} of {len(killed)}: {sum(killed) / max(len(killed), 1):.0%}")
    if json is not None:
        rows = [
            {k: v for k, v in asdict(m).items() if k != "source"} | {"killed": dead}
            for m, dead in zip(mutants, killed, strict=True)
        ]
        json.write_text(json_text.dumps(rows, indent=2) + "\n")


def draw(
    modules: tuple[str, ...], count: int, seed: int, before: frozenset[str] = frozenset()
) -> list[Mutant]:
    """As many of each module, as far as it has so many; without two that are the same text, and
    without those that bear a mark of before."""
    rng = random.Random(seed)
    found: list[Mutant] = []
    for i, module in enumerate(modules):
        share = count // len(modules) + (i < count % len(modules))
        every = mutants_of(module, source_of(module), rng)
        found += islice((m for m in every if m.mark not in before), share)
    return found


def drawn(seed: int) -> frozenset[str]:
    """Marks of what fresh draws of smaller seeds held."""
    lines = (line.split() for line in DRAWN.read_text("utf-8").splitlines())
    return frozenset(mark for of, mark in lines if int(of) < seed)


def write_drawn(seed: int, mutants: list[Mutant]) -> None:
    """Add a draw to the list, as long as it is not there."""
    lines = DRAWN.read_text("utf-8").splitlines()
    lines += [line for m in mutants if (line := f"{seed} {m.mark}") not in lines]
    DRAWN.write_text("\n".join(lines) + "\n", "utf-8")


def once_alive() -> list[Mutant]:
    """`ONCE_ALIVE` as mutants of today's source."""
    found = []
    for module, text, became in ONCE_ALIVE:
        source = source_of(module)
        if source.count(text) != 1:
            sys.exit(
                f"{module}.py holds {text!r} {source.count(text)} times, not once: mend the list"
            )
        line = source[: source.index(text)].count("\n") + 1
        found.append(Mutant(module, line, f"{text} became {became}", source.replace(text, became)))
    return found


def source_of(module: str) -> str:
    """As it is."""
    return (ROOT / "src" / "sdil" / f"{module}.py").read_text("utf-8")


def mutants_of(module: str, source: str, rng: random.Random) -> Iterator[Mutant]:
    """Every mutant of a module in some order; what is no behaviour is left alone."""
    tree = ast.parse(source)
    skipped = _skipped(tree)
    places = [
        (i, way)
        for i, node in enumerate(ast.walk(tree))
        if isinstance(node, _MAY_CHANGE) and id(node) not in skipped
        for way in range(3)
    ]
    rng.shuffle(places)
    whole = ast.unparse(tree)
    seen = {whole}
    nodes = list(ast.walk(tree))
    # `strict=` of a zip is an assertion: it fires where something else is wrong already
    guards = {id(n.value) for n in nodes if isinstance(n, ast.keyword) and n.arg == "strict"}
    known = {(was, became) for of, was, became, _ in EQUIVALENT if of == module}
    for was, _ in known:
        if [line.strip() for line in whole.splitlines()].count(was) != 1:
            sys.exit(f"{module}.py does not hold {was!r} once: mend the list of equivalents")
    for i, way in places:
        if id(nodes[i]) in guards or _change(deepcopy(nodes[i]), way) is None:
            continue
        changed = ast.parse(source)
        node = next(islice(ast.walk(changed), i, None))
        line = getattr(node, "lineno", 0)
        what = _change(node, way) or ""
        text = ast.unparse(changed)
        if text not in seen:
            seen.add(text)
            was, became = _changed_line(whole, text)
            if (was, became) not in known:
                yield Mutant(module, line, what, text, was, became)


def _changed_line(whole: str, text: str) -> tuple[str, str]:
    """The first line in which two texts differ."""
    pairs = zip(whole.splitlines(), text.splitlines(), strict=False)
    was, became = next((a, b) for a, b in pairs if a != b)
    return was.strip(), became.strip()


def _skipped(tree: ast.AST) -> set[int]:
    """What is no behaviour: docstrings, annotations, imports, texts of errors, `__repr__`."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        away: list[ast.AST] = []
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if is_text or isinstance(node, _NO_BEHAVIOUR):
            away = [node]
        elif isinstance(node, ast.FunctionDef):
            away = [*node.decorator_list, *([node.returns] if node.returns else [])]
            away += [a.annotation for a in node.args.args + node.args.kwonlyargs if a.annotation]
            if node.name == "__repr__":
                away = [node]
        elif isinstance(node, ast.AnnAssign):
            away = [node.annotation]
        for root in away:
            skipped |= {id(each) for each in ast.walk(root)}
    return skipped


def _change(node: ast.AST, way: int) -> str | None:
    """Change a node in place; what was done, or None where there is nothing to do this way."""
    if isinstance(node, ast.Compare) and way == 0 and type(node.ops[0]) in SWAPS:
        return _swap(node.ops, 0)
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and way == 0:
        kind = type(node.op)
        if kind in SWAPS:
            node.op = SWAPS[kind]()  # type: ignore[assignment]
            return f"{kind.__name__} became {SWAPS[kind].__name__}"
    if isinstance(node, ast.If | ast.IfExp | ast.While) and way in (1, 2):
        if isinstance(node, ast.While) and way == 1:
            return None
        node.test = ast.Constant(way == 1)
        return f"a condition is always {way == 1}"
    if isinstance(node, ast.UnaryOp) and way == 0:
        return _drop_sign(node)
    if isinstance(node, ast.Constant) and way == 0:
        if isinstance(node.value, bool):
            node.value = not node.value
            return f"{not node.value} became {node.value}"
        if isinstance(node.value, int | float):
            was, node.value = node.value, node.value + 1
            return f"{was} became {node.value}"
    if isinstance(node, ast.Return) and way == 0 and node.value is not None:
        node.value = ast.Constant(None)
        return "nothing is returned"
    return None


def _swap(ops: list[ast.cmpop], at: int) -> str:
    kind = type(ops[at])
    ops[at] = SWAPS[kind]()  # type: ignore[assignment, call-overload]
    return f"{kind.__name__} became {SWAPS[kind].__name__}"


def _drop_sign(node: ast.UnaryOp) -> str | None:
    if isinstance(node.op, ast.Not):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
        return "a `not` is gone"
    if isinstance(node.op, ast.USub | ast.Invert):
        kind = type(node.op).__name__
        node.op = ast.UAdd()
        return f"{kind} is gone"
    return None


def run_all(mutants: list[Mutant], workers: int, seconds: float) -> list[tuple[Mutant, bool]]:
    """Each, and whether its tests fail or do not end; so many at a time."""
    done: list[tuple[Mutant, bool]] = []
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(workers) as pool:
        copies: Queue[Path] = Queue()
        for i in range(workers):
            copies.put(make_copy(Path(place) / str(i)))
        found = pool.map(lambda m: is_killed(m, copies, seconds), mutants)
        for mutant, dead in zip(mutants, found, strict=True):
            done.append((mutant, dead))
            where = f"{mutant.module}.py:{mutant.line}: {mutant.what}"
            word = "killed" if dead else "ALIVE"
            print(f"{len(done)}/{len(mutants)} {word}: {where}", file=sys.stderr, flush=True)
    return done


def make_copy(folder: Path) -> Path:
    """A copy of the source, compiled: only the changed module is compiled for each mutant."""
    shutil.copytree(ROOT / "src", folder, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(folder, quiet=1)
    return folder


def is_killed(mutant: Mutant, copies: Queue[Path], seconds: float) -> bool:
    """Whether pytest fails, or does not end, over a copy of the source with this change."""
    source = copies.get()
    file = source / "sdil" / f"{mutant.module}.py"
    as_it_was = file.read_text("utf-8")
    try:
        _replace(file, mutant.source)
        run = FORKS.Process(target=run_tests, args=(source, CORE[mutant.module], round(seconds)))
        run.start()
        run.join(20 * seconds)  # asleep for ever; a busy machine is only slow
        if run.is_alive():
            run.kill()
            run.join()
        return run.exitcode != 0
    finally:
        _replace(file, as_it_was)
        copies.put(source)


def _replace(file: Path, text: str) -> None:
    """Write a module and forget what was compiled: two may be of one second and one size."""
    file.write_text(text, "utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)


def run_tests(source: Path, tests: tuple[str, ...], seconds: int) -> None:
    """Leave with what pytest says of this source, or killed after so many seconds of CPU."""
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    os.chdir(ROOT)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    os.environ["PYTHONPATH"] = str(source)  # for commands that tests start
    sys.path.insert(0, str(source))
    options = ["-q", "-x", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *tests]))


if __name__ == "__main__":
    tyro.cli(main)
