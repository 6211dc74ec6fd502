"""Shared data: small, seeded, made once."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

import sdil
from sdil import Demonstrations, Trajectory
from sdil.algorithms.weighing import _LEFT_OUT as LEFT_OUT
from sdil.networks.cross_fitting import LOOKS

torch.set_num_threads(1)
settings.register_profile("sdil", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("sdil")

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(autouse=True)
def wide_errors(monkeypatch):
    """Errors in one line each, to be compared; `cli/test_wrapping.py` is about their lines."""
    monkeypatch.setattr("sdil.cli.wrapping._width_of_errors", lambda: 10**6)


@pytest.fixture(scope="session", autouse=True)
def quick_judge():
    """The judge that learners bring themselves is trained for dozens of updates, not thousands."""
    with pytest.MonkeyPatch.context() as patch:
        quick = partial(sdil.Judge, clone_updates=40, distance_updates=40, outcome_updates=40)
        patch.setattr("sdil.algorithms.judged.Judge", quick)
        yield quick


@pytest.fixture(scope="session", autouse=True)
def quick_check():
    """Whether curating helped, and how long to train, is told after dozens of updates, not a
    thousand, and by one fold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sdil.algorithms.weighing._LEFT_OUT", 1)
        patch.setattr("sdil.networks.cross_fitting.LOOKS", (10, 20))
        yield


@pytest.fixture
def usual_judge(monkeypatch):
    """The judge that learners bring themselves is the usual one, and so is how long they train."""
    monkeypatch.setattr("sdil.algorithms.judged.Judge", sdil.Judge)
    monkeypatch.setattr("sdil.networks.cross_fitting.LOOKS", LOOKS)
    monkeypatch.setattr("sdil.algorithms.weighing._LEFT_OUT", LEFT_OUT)


@pytest.fixture(scope="session")
def fourrooms():
    """30 clean and 60 noisy episodes of FourRooms, and the truth about them."""
    return sdil.get_task("fourrooms").collect(clean=30, noisy=60, seed=0)


@pytest.fixture(scope="session")
def demos(fourrooms) -> Demonstrations:
    return fourrooms[0]


def episode(length: int, *, size: int = 3, n_actions: int = 4, seed: int = 0, **more) -> Trajectory:
    rng = np.random.default_rng(seed)
    more.setdefault("rewards", rng.normal(size=length))
    return Trajectory(
        observations=rng.normal(size=(length + 1, size)).astype(np.float32),
        actions=rng.integers(0, n_actions, length),
        **more,
    )


@pytest.fixture
def make_episode():
    return episode


@pytest.fixture
def toy_record():
    """A record made by hand: 2 clean and 2 noisy episodes in a corridor, 2 skills, 3 actions.

    Skill 0 walks right, skill 1 walks left; the first noisy episode turns round halfway.
    """
    from sdil.explanation.record import (
        Embedding,
        Explanation,
        FixedSkill,
        JudgedEpisodes,
        Scores,
        Skills,
    )

    walls = np.ones((3, 7), bool)
    walls[1, 1:6] = False
    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
        "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    columns = np.array([1, 2, 3, 4, 2, 3, 4, 1, 2, 3, 4, 3, 2, 4, 3])
    moves = np.array([1, 1, 1, 0, 1, 1, 0, 1, 1, 1, -1, -1, -1, -1, -1])
    right = moves >= 0
    good = right.astype(np.int8)
    good[3] = -1
    return Explanation(
        about={"title": "sdil on a corridor", "run": "runs/toy", "warnings": []},
        action_names=["stay", "right", "left"],
        episodes=JudgedEpisodes(
            ids=["a", "b", "a", "$x$ <script>"],
            groups=[None, "g", None, None],
            is_clean=np.array([True, True, False, False]),
            offsets=np.array([0, 4, 7, 13, 15]),
            actions=np.where(moves > 0, 1, np.where(moves < 0, 2, 0)),
            good=good,
            positions=np.column_stack([columns, np.ones(15, int)]),
            moves=np.column_stack([moves, np.zeros(15, int)]),
        ),
        scores=Scores(
            optimality=np.where(right, 0.6, -0.8).astype(np.float32),
            segment=np.array([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0]),
            skill=np.where(right, 0, 1),
            parts={"likelihood": np.full(15, 0.5, np.float32)},
            spread=np.full(15, 0.1, np.float32),
        ),
        skills=Skills(
            clean_share=np.array([0.9, 0.1]),
            noisy_share=np.array([0.4, 0.6]),
            optimality=np.array([1.0, -1.0]),
            action_probs=np.array([[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]),
        ),
        walls=walls,
        embeddings=[
            Embedding("lambda 1", np.arange(10.0).reshape(5, 2), np.arange(5), np.eye(2)),
            Embedding("lambda 0", np.arange(10.0).reshape(5, 2), np.arange(5), np.eye(2)),
        ],
        fixed_skills=[
            FixedSkill(
                0,
                np.array([[1, 1, 1], [1, 1, 1], [2, 1, 0]]),
                np.array([1, 2, 0]),
                frames=[pixel],
                moves=np.array([[1, 0], [1, 0], [0, 0]]),
            ),
            FixedSkill(1, np.zeros((0, 3), int), np.array([0, 0, 3]), moves=np.zeros((0, 2), int)),
        ],
        frames={"noisy/a": [pixel] * 3},
        stability={
            "runs": ["runs/toy", "runs/other"],
            "agreement": [[1.0, 0.2], [0.2, 1.0]],
            "accuracy": [[1.0, 0.5], [0.5, 1.0]],
            "scores": [[1.0, None], [None, None]],
            "matched": [[0, 1], [1, 0]],
        },
        studies={
            "lambda": {
                "x": [0, 0.1, 1],
                "xlabel": "lambda",
                "ylabel": "reward",
                "series": {"SDIL": {"mean": [1, 2, 3], "low": [0, 1, 2], "high": [2, 3, 4]}},
            }
        },
    )


def _missing(reason: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI must run the browser tests: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser():
    """A real Chromium; in CI it must be there."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("playwright is not installed")
    if not CHROMIUM.exists():
        _missing(f"there is no Chromium at {CHROMIUM}")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield started
        started.close()
