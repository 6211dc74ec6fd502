"""Who may import whom: the rules of the house, read off the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import sdil

ROOT = Path(sdil.__file__).parent
BASE_ORDER = {
    "errors": set(),
    "files": {"errors"},
    "limits": {"errors"},
    "plain": set(),
    "named": {"errors"},
    "cores": {"errors"},
    "progress": {"plain", "cores"},
    "moved": {"errors"},
    "locks": {"errors", "files"},
    "nested": {"errors"},
    "spaces": {"errors", "nested"},
    "observations": {"errors", "spaces"},
    "trajectories": {"errors", "observations", "spaces"},
    "checking": {"errors", "observations", "spaces", "trajectories"},
    "demonstrations": {"checking", "errors", "observations", "spaces", "trajectories"},
    "several": {"demonstrations", "errors", "spaces", "trajectories"},
    "labels": {"demonstrations", "errors", "files", "spaces", "trajectories"},
    "relative": {"windows"},
    "fetching": {"spaces"},
    "ways": {"spaces"},
    "windows": {"fetching", "spaces", "trajectories"},
    "table": {"spaces"},
    "simulators": {"errors", "named", "nested", "observations", "spaces", "table"},
    "markov": {"errors", "spaces"},
    "clustering": {"spaces", "windows"},
    "scores": {"spaces"},
    "segmentation": {"scores", "spaces"},
    "heads": {"errors", "heads", "nested", "spaces"},
    "held_out": {"heads", "windows"},
    "states": set(),
    "losses": {"errors"},
    "training": {"errors", "losses", "states"},
    "saved": {"errors", "files", "spaces", "trajectories", "windows"},
    "judging": {
        *("errors", "files", "limits", "spaces", "trajectories", "demonstrations", "scores"),
        *("states", "training", "saved", "cores"),
    },
    "history": {"observations", "spaces", "windows"},
    "policy": {
        *("errors", "files", "limits", "spaces", "trajectories", "windows", "scores", "states"),
        *(
            "saved",
            "judging",
            "checking",
            "demonstrations",
            "heads",
            "history",
            "nested",
            "cores",
            "observations",
        ),
    },
    "acting": {"errors", "limits", "demonstrations", "heads", "windows", "policy"},
}
BASE = set(BASE_ORDER)
MAY_SEE = {  # `truth` is not among what everything is written in: no learner or judge sees it
    "truth": BASE,
    "formats": BASE | {"formats", "truth"},
    "networks": BASE | {"networks"},
    "skills": BASE | {"networks", "skills"},
    "judges": BASE | {"networks", "skills", "judges"},
    "algorithms": BASE | {"networks", "skills", "judges", "algorithms"},
    "evaluation": BASE | {"evaluation", "networks", "curation"},
    "tasks": BASE | {"tasks", "formats", "truth", "evaluation.rollout"},
    "choosing": BASE,
    "curation": BASE | {"choosing"},
    "checkpoints": BASE | {"evaluation.scores"},
    "arguments": BASE | {"algorithms"},
    "runs": BASE | {"arguments", "checkpoints", "algorithms", "formats", "judges.fitted"},
    "explanation": BASE
    | {"explanation", "tasks", "algorithms", "evaluation", "formats", "networks", "truth"},
    "studies": BASE
    | {"studies", "tasks", "algorithms", "evaluation", "formats", "networks", "limits"},
    "report": BASE
    | {
        "report",
        "explanation.record",
        "studies.grid",
        "studies.reading",
        "evaluation.statistics",
        "evaluation.comparisons",
        "evaluation.calibration",
    },
    "cli": BASE
    | {
        "__version__",
        "choosing",
        "curation",
        "formats",
        "networks",
        "judges",
        "algorithms",
        "arguments",
        "checkpoints",
        "runs",
        "evaluation",
        "tasks",
        "studies",
        "explanation",
        "report",
        "truth",
        "cli",
    },
}
EVIDENCE_ORDER = {  # within `judges`: whoever tells a signal knows nothing of who listens
    "material": set(),
    "hearing": set(),
    "joining": set(),
    "doing": set(),
    "value": set(),
    "likelihood": {"material"},
    "distance": {"material"},
    "expected": {"material"},
    "integrity": {"material"},
    "progress": {"material", "distance"},
    "efficiency": {"distance"},
    "episodes": {"material", "hearing"},
}
HEAVY_FOR_LEARNERS = {
    "rich",
    "tyro",
    "matplotlib",
    "plotly",
    "tensorboard",
    "h5py",
    "minari",
    "minigrid",
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


MODULES = [p for p in sorted(ROOT.rglob("*.py")) if p != ROOT / "__init__.py"]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_each_room_sees_only_what_it_may(path):
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    allowed = BASE_ORDER[room] if room in BASE_ORDER else MAY_SEE[room]
    ours = {name.removeprefix("sdil.") for name in imports(path) if name.startswith("sdil.")}
    for name in ours:
        assert any(name == a or name.startswith(a + ".") for a in allowed), f"{room} imports {name}"


@pytest.mark.parametrize("name", EVIDENCE_ORDER)
def test_a_signal_knows_nothing_of_who_listens(name):
    found = {i for i in imports(ROOT / "judges" / f"{name}.py") if i.startswith("sdil.judges.")}
    assert {i.split(".")[2] for i in found} <= EVIDENCE_ORDER[name]


def test_what_the_judge_knows_is_apart_from_how_it_came_to_know_it():
    knows = {
        p.stem for p in (ROOT / "judges").glob("*.py") if "sdil.judges.gathering" in imports(p)
    }
    assert knows == {"judge"}
    asks = {p.stem for p in (ROOT / "judges").glob("*.py") if "sdil.judges.witnesses" in imports(p)}
    assert asks == {"gathering"}


LEARNING = [
    p for room in ("networks", "skills", "judges", "algorithms") for p in (ROOT / room).glob("*.py")
]


@pytest.mark.parametrize("path", sorted(LEARNING), ids=lambda p: str(p.relative_to(ROOT)))
def test_what_learns_knows_no_files_bars_or_tasks(path):
    assert not {name.partition(".")[0] for name in imports(path)} & HEAVY_FOR_LEARNERS


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from sdil.cli import main; assert main(['--help']) == 0;"
        "heavy = {'torch', 'sklearn', 'minari', 'minigrid', 'tyro', 'scipy', 'duckdb'};"
        "heavy &= set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


@pytest.mark.parametrize(
    "words",
    [
        *(["train", "--help"], ["score", "--help"], ["evaluate", "--help"], ["curate", "--help"]),
        *(["report", "--help"], ["algorithms"]),
    ],
    ids=" ".join,
)
def test_help_of_a_command_imports_no_pytorch(words):
    """Modules are counted, not seconds: PyTorch alone is over a thousand, and 1.5 s of CPU."""
    code = (
        "import sys; from sdil.cli import main\n"
        f"try: main({words!r})\n"
        "except SystemExit as end: assert not end.code\n"
        "heavy = {'torch', 'sklearn', 'minari', 'minigrid', 'scipy', 'duckdb', 'matplotlib'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "assert len(sys.modules) < 1000, len(sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "usage:" in told.stdout or "learners" in told.stdout


def test_everything_promised_can_be_imported():
    for name in sdil.__all__:
        assert getattr(sdil, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sdil.nothing  # noqa: B018


def test_no_import_is_for_type_checkers_alone():
    """A cycle that only types need is a cycle all the same."""
    hidden = {
        str(p.relative_to(ROOT))
        for room in ("skills", "judges", "algorithms")
        for p in (ROOT / room).glob("*.py")
        if "TYPE_CHECKING" in p.read_text()
    }
    assert not hidden


def test_no_learner_is_asked_for_by_name_in_the_engine():
    """What a learner takes is a field of it."""
    for name in ("runs", "studies/measure", "cli/train"):
        assert '"oracle"' not in (ROOT / f"{name}.py").read_text()
