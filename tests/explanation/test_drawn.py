from __future__ import annotations

import pytest

import sdil
from sdil.explanation.world import World

pytest.importorskip("ogbench", reason='needs OGBench: pip install "sdil[control]"')


def test_recorded_episodes_of_real_numbers_are_drawn_from_what_is_seen():
    demos, _ = sdil.get_task("pointmaze").collect(clean=1, noisy=0, seed=0)
    world = World("pointmaze")
    frames = world.recorded(demos.clean[0], 5)
    world.close()
    assert len(frames) == 5
    assert len(set(frames)) == 5
    assert all(frame.startswith("data:image/png;base64,") for frame in frames)
