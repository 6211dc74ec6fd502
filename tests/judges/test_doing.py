"""Which actions idle: in a room with a partner, in FourRooms, and with sensors that tremble."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import sdil
from sdil.judges.doing import Doing
from sdil.windows import Windows

STAY, UP, DOWN, USE = range(4)


def shift(rng, name: str, *, trembling: bool = False, steps: int = 80) -> sdil.Trajectory:
    """One's own place, whether a light is on, and a partner who walks about by himself.

    A third of the time one waits; half of the uses switch nothing."""
    actions = rng.choice(4, steps, p=[0.34, 0.25, 0.25, 0.16])
    own, light, partner = [5], [0], [0]
    for action in actions:
        own.append(own[-1] + (action == UP) - (action == DOWN))
        light.append(light[-1] ^ int(action == USE and rng.random() < 0.5))
        partner.append((partner[-1] + int(rng.integers(0, 3))) % 7)
    seen = np.stack([own, light, partner], 1).astype(np.float32)
    if trembling:
        seen += rng.normal(0, 1e-3, seen.shape).astype(np.float32)
    return sdil.Trajectory(seen, actions, id=name)


def learned(trajectories: list[sdil.Trajectory], n_actions: int = 4) -> tuple[Doing, Windows]:
    windows = Windows(sdil.Demonstrations(trajectories).clean, 0)
    doing = Doing(windows.observations.shape[1], n_actions)
    doing.learn(windows, len(windows))
    return doing, windows


@pytest.fixture(scope="module")
def kitchen():
    rng = np.random.default_rng(0)
    return learned([shift(rng, str(i)) for i in range(8)])


def test_own_features_are_those_that_actions_move_and_only_staying_idles(kitchen):
    doing, _ = kitchen
    assert doing.own.tolist() == [True, True, False]  # the partner moves by himself
    assert doing.idle.tolist() == [True, False, False, False]
    assert str(doing) == "idle actions [0]"


def test_a_step_does_something_or_not(kitchen):
    doing, windows = kitchen
    index = torch.arange(len(windows))
    told, actions = doing(windows, index), windows.actions_at(index)
    assert (told[actions == STAY] == 0).all()
    moves = (actions == UP) | (actions == DOWN)
    assert (told[moves] == 1).all()
    assert 0.3 < told[actions == USE].mean() < 0.7


def test_what_came_of_the_last_step_may_not_be_known(kitchen):
    doing, _ = kitchen
    seen = np.array([[5, 0, 0], [6, 0, 1]], np.float32)
    for last, told in ((UP, torch.nan), (STAY, 0.0)):  # that one stayed is known all the same
        cut = sdil.Trajectory(seen, np.array([UP, last]))
        windows = Windows(sdil.Demonstrations([cut]).clean, 0)
        found = doing(windows, torch.arange(2))
        np.testing.assert_array_equal(found.numpy(), [1.0, told])


def test_where_sensors_tremble_nobody_idles():
    rng = np.random.default_rng(1)
    doing, windows = learned([shift(rng, str(i), trembling=True) for i in range(8)])
    assert not doing.own.any()
    assert not doing.idle.any()
    assert doing(windows, torch.arange(len(windows))).isnan().all()


def test_nobody_idles_in_fourrooms(demos):
    """Actions that no expert takes there move nothing, and are no idling."""
    windows = Windows(demos.all, 0)
    doing = Doing(windows.observations.shape[1], 7)
    doing.learn(windows, demos.clean.n_steps)
    assert not doing.idle.any()


def test_a_few_steps_teach_nothing():
    rng = np.random.default_rng(2)
    doing, _ = learned([shift(rng, "short", steps=20)])
    assert not doing.own.any()
    assert not doing.idle.any()


def test_what_never_changes_in_clean_demonstrations_is_nobodys():
    """Lamps that only bad episodes break: no action of clean ones moves them, and none idles."""
    rng = np.random.default_rng(1)
    some = []
    for name in range(8):
        actions = rng.integers(1, 3, 60)
        place = np.concatenate([[0], np.cumsum(np.where(actions == UP, 1, 2)) % 9])
        seen = np.stack([place, np.zeros(61), np.ones(61)], 1).astype(np.float32)
        some.append(sdil.Trajectory(seen, actions, id=str(name)))
    doing, windows = learned(some, 3)
    assert doing.own.tolist() == [False, False, False]  # either action always moves one
    assert not doing.idle.any()
    assert doing(windows, torch.arange(5)).isnan().all()


def test_an_action_that_the_place_decides_on_does_not_idle():
    """A lap of twenty fields, told one by one: slippery ones, where one pushes on until one gets
    away, then two with another action. Most fields hardly hang on what was done."""
    rng = np.random.default_rng(2)
    some = []
    for name in range(8):
        at, fields, actions = 0, [0], []
        for _ in range(150):
            last = at >= 18
            actions.append(1 if last else 0)
            at = (at + int(last or rng.random() < 0.5)) % 20
            fields.append(at)
        some.append(sdil.Trajectory(np.eye(20, dtype=np.float32)[fields], actions, id=str(name)))
    doing, _ = learned(some, 2)
    assert doing.own.any()  # the last two fields never change under the first action
    assert not doing.own[2:17].any()
    assert not doing.idle.any()
