"""Shared data: small, seeded, made once."""

from __future__ import annotations

import os

import numpy as np
import pytest
import torch
from hypothesis import settings

import sdil
from sdil import Demonstrations, Trajectory

torch.set_num_threads(1)
settings.register_profile("sdil", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("sdil")


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
