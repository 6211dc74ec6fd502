"""Made-up inputs: data, folders, hyper-parameters, studies in TOML and command lines, good and bad.

Foreign formats have strategies and tests of their own beside their readers, under `tests/formats`.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Literal, get_args, get_origin, get_type_hints

import gymnasium as gym
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import sdil
from sdil.algorithms import JUDGES, LEARNERS
from sdil.tasks import TASK_NAMES

CASES = int(os.environ.get("SDIL_FUZZ", "1000"))
"""In all; each test says which share of them it takes."""


def cases(share: float) -> settings:
    """So many of all cases, drawn anew each time but in CI, and none of them shrunk for long."""
    return settings(
        max_examples=max(1, round(share * CASES)),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=CASES <= 1000,
        database=None,
    )


NASTY_TEXT = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["", "../x", "/etc", "a b", "<b>&", "\x1b[31m", "\ud800", "\x00", "-", "--out"]
    ),
)
NUMBERS = st.one_of(
    st.sampled_from([0, 1, -1, 2, 10, 1e-9, -0.5, 0.5, 1.0, 1e30, 2**40, -(2**63)]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-5, 300),
)
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, NASTY_TEXT, st.lists(NUMBERS, max_size=3))


@st.composite
def arrays(draw: Any, length: int, discrete: bool, width: int) -> Any:
    """Actions or observations, now and then with something wrong in them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    values: Any
    values = rng.integers(0, 3, length) if discrete else rng.normal(size=(length, width))
    number = draw(
        st.sampled_from(["same", "float32", "int8", "uint8", "bool", "object", "complex64"])
    )
    if number != "same":
        with np.errstate(all="ignore"):
            values = np.asarray(values).astype(number)
    wrong = draw(st.sampled_from(["", "", "", "", "nan", "inf", "shape", "list", "ragged", "text"]))
    if wrong in ("nan", "inf") and np.asarray(values).dtype.kind == "f":
        values[draw(st.integers(0, length - 1))] = float(wrong)
    elif wrong == "shape":
        values = np.asarray(values)[..., None]
    elif wrong == "list":
        values = np.asarray(values).tolist()
    elif wrong == "ragged":
        values = [[0.0], [0.0, 1.0]]
    elif wrong == "text":
        values = ["a"] * length
    return values


@st.composite
def trajectories(draw: Any) -> dict[str, Any]:
    """The arguments of a Trajectory."""
    length, discrete = draw(st.integers(1, 6)), draw(st.booleans())
    more = draw(st.sampled_from([0, 1, 1, 1, 2, -1]))
    return {
        "observations": draw(arrays(max(1, length + more), False, 2)),
        "actions": draw(arrays(length, discrete, 2)),
        "rewards": draw(st.one_of(st.none(), arrays(length, True, 1))),
        "terminated": draw(st.booleans()),
        "id": draw(st.one_of(NASTY_TEXT, st.integers(0, 3).map(str))),
        "group": draw(st.one_of(st.none(), NASTY_TEXT)),
    }


@st.composite
def data_sets(draw: Any) -> dict[str, Any]:
    """The arguments of Demonstrations, episodes still as arguments."""
    spaces = None
    if draw(st.integers(0, 3)) == 0:
        number = draw(st.sampled_from([np.float32, np.float64, np.uint8, np.int64]))
        high = draw(st.sampled_from([1, 5, 100]))
        observation = gym.spaces.Box(0 if number == np.uint8 else -high, high, (2,), number)
        action = draw(
            st.sampled_from([gym.spaces.Discrete(3), gym.spaces.Discrete(2, start=1), observation])
        )
        spaces = sdil.Spaces(observation, action)
    return {
        "clean": draw(st.lists(trajectories(), max_size=3)),
        "noisy": draw(st.lists(trajectories(), max_size=3)),
        "spaces": spaces,
    }


def good_data(*, discrete: bool = True, seed: int = 0, clean: int = 3, noisy: int = 4) -> Any:
    """Demonstrations that every learner of their kind takes."""
    rng = np.random.default_rng(seed)

    def episode(name: str, length: int) -> sdil.Trajectory:
        action = rng.integers(0, 3, length) if discrete else rng.normal(size=(length, 2))
        return sdil.Trajectory(rng.normal(size=(length + 1, 3)).astype(np.float32), action, id=name)

    spaces = None
    if discrete:
        box = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
        spaces = sdil.Spaces(box, gym.spaces.Discrete(3))
    return sdil.Demonstrations(
        [episode(f"c{i}", 4 + i) for i in range(clean)],
        [episode(f"n{i}", 3 + i) for i in range(noisy)],
        spaces,
    )


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    """Values for a field of this annotation: mostly what it takes, now and then anything."""
    base = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    if get_origin(base) is Literal:
        right: st.SearchStrategy[Any] = st.sampled_from(get_args(base))
    elif base is bool:
        right = st.booleans()
    elif base is int:
        right = st.integers(0, 4)
    elif base is float:
        right = st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0])
    else:
        right = PLAIN
    return st.one_of(right, right, right, PLAIN)


@st.composite
def configurations(draw: Any, kinds: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A learner or judge by name, and some of its fields."""
    name = draw(st.sampled_from(sorted(kinds)))
    hints = get_type_hints(kinds[name], include_extras=True)
    known = [f.name for f in dataclasses.fields(kinds[name])]
    chosen = draw(st.lists(st.sampled_from(known), max_size=3, unique=True))
    return name, {field: draw(values_of(hints[field])) for field in chosen}


@st.composite
def studies(draw: Any) -> dict[str, Any]:
    """What a TOML file of a study says, right or wrong."""
    learner = st.fixed_dictionaries(
        {"learner": st.one_of(st.sampled_from(sorted(LEARNERS)), NASTY_TEXT)},
        optional={
            "row": NASTY_TEXT,
            "setting": st.sampled_from(["both", "clean only", "neither"]),
            "fields": st.dictionaries(
                st.sampled_from(["hidden", "max_updates", "learning_rate", "nothing"]),
                st.one_of(PLAIN, st.lists(st.integers(1, 3), max_size=2)),
                max_size=2,
            ),
            "judge": st.one_of(st.sampled_from(sorted(JUDGES)), NASTY_TEXT),
        },
    )
    right = {
        "title": NASTY_TEXT,
        "tasks": st.lists(st.sampled_from(sorted(TASK_NAMES)), min_size=1, max_size=2),
        "clean": st.one_of(
            st.integers(1, 20), st.lists(st.integers(1, 20), min_size=1, max_size=2)
        ),
        "noisy": st.integers(0, 20),
        "seeds": st.lists(st.integers(0, 3), min_size=1, max_size=2),
        "learners": st.lists(learner, max_size=2),
        "champion": NASTY_TEXT,
        "measure": st.one_of(st.just("reward"), NASTY_TEXT),
        "unknown": PLAIN,
    }
    names = draw(st.lists(st.sampled_from(sorted(right)), unique=True))
    usual = {"title", "tasks", "clean", "noisy", "seeds", "learners"}
    wanted = usual ^ set(names) if draw(st.integers(0, 2)) == 0 else usual | set(names[:2])
    return {name: draw(st.one_of(right[name], right[name], right[name], PLAIN)) for name in wanted}


COMMANDS = (
    "inspect",
    "judge",
    "score",
    "curate",
    "report",
    "train",
    "evaluate",
    "study",
    "collect",
    "import",
    "export",
    "review",
)
OPTIONS = (
    *("--data", "--out", "--seed", "--json", "--overwrite", "--help", "--worst", "--set", "--by"),
    *("--keep-above", "--keep-share", "--threads", "--env", "--clean", "--noisy", "--preset"),
    *(
        "--to",
        "--curated",
        "--features",
        "--actions",
        "--every",
        "--format",
        "--episode",
        "--table",
    ),
    *("--labels", "--ask", "--who", "--port", "--source", "--selection", "--min-length"),
)
WORDS = ("same", "csv", "trim:x.csv", "0-2", "top 20% by return", "success", "obs/*", "state[0:3]")


@st.composite
def command_lines(draw: Any, places: tuple[str, ...]) -> list[str]:
    """Words behind `sdil`: commands and options that there are, folders, numbers, nonsense."""
    word = st.one_of(
        st.sampled_from(places),
        st.sampled_from(OPTIONS),
        st.sampled_from(WORDS),
        st.sampled_from(sorted(LEARNERS)),
        NUMBERS.map(str),
        NASTY_TEXT.filter(lambda text: "\x00" not in text),
    )
    command = draw(st.sampled_from(COMMANDS))
    return [command, *draw(st.lists(word, max_size=6))]
