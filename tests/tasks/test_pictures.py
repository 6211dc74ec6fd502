"""Tasks seen as pictures: the same episodes and truth, and nothing hidden."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.evaluation.rollout import evaluate
from sdil.tasks import pictures

GRIDS = ("fourrooms", "doorkey-5x5", "doorkey-6x6")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fourrooms", {}),
        ("fourrooms", {"expert": "ppo"}),
        ("fourrooms", {"noise": "segments"}),
        ("doorkey-5x5", {}),
        ("doorkey-6x6", {"noise": "worst"}),
        pytest.param("doorkey-8x8", {"noise": "segments"}, marks=pytest.mark.slow),
    ],
)
def test_episodes_and_truth_are_those_of_the_vector_task(name, options):
    vectors, truth = sdil.get_task(name).collect(clean=2, noisy=2, seed=4, **options)
    seen, same_truth = sdil.get_task(f"{name}-images").collect(clean=2, noisy=2, seed=4, **options)
    for one, other in zip(vectors.all, seen.all, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        assert one.id == other.id
        assert one.terminated == other.terminated
        assert other.observations.dtype == np.uint8
        assert len(one.observations) == len(other.observations)
    for part in ("clean_good", "noisy_good"):
        for a, b in zip(getattr(truth, part), getattr(same_truth, part), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", GRIDS)
def test_no_two_states_look_alike(name):
    """So everything that decides what is right is in the picture."""
    table = sdil.get_task(f"{name}-images").table()
    every = table.observe(np.arange(len(table)))
    assert len({picture.tobytes() for picture in every}) == len(table)


@pytest.mark.parametrize("name", [*GRIDS, "doorkey-8x8"])
def test_the_environment_shows_what_the_demonstrations_do(name):
    env = gym.make(f"sdil/{name}-images-v0").unwrapped
    plain = gym.make(f"sdil/{name}-v0").unwrapped
    seen, _ = env.reset(seed=5)
    plain.reset(seed=5)
    draw = np.random.default_rng(0)
    for _ in range(60):
        assert env.state() == plain.state()
        assert seen in env.observation_space
        np.testing.assert_array_equal(seen, env.draw_states(np.array([plain.state()]))[0])
        action = int(draw.integers(6))
        seen, *said = env.step(action)
        assert said == list(plain.step(action))[1:]
        if said[1] or said[2]:
            break


def colours(picture, tile, x, y):
    """Those of the tile in column x, row y."""
    part = picture[y * tile : (y + 1) * tile, x * tile : (x + 1) * tile].reshape(-1, 3)
    return {tuple(int(c) for c in colour) for colour in part}


def test_what_is_carried_and_where_it_heads_is_drawn_on_what_is_under_it():
    door_locked = (3, 2, 2, 1, 1, 2, 2, 0)  # split, door y, door, key x, y, agent x, y, heading
    carrying = (3, 2, 2, -1, -1, 2, 2, 0)
    in_the_door = (3, 2, 0, -1, -1, 3, 2, 0)
    at_the_goal = (3, 2, 0, 1, 1, 4, 4, 3)
    one, two, three, four = pictures.draw_doorkey(
        np.array([door_locked, carrying, in_the_door, at_the_goal]), 6
    )
    tile = pictures.DOORKEY_TILE
    assert pictures._YELLOW in colours(one, tile, 1, 1)
    assert colours(two, tile, 1, 1) == {pictures._BLACK}
    assert colours(one, tile, 2, 2) == {pictures._RED, pictures._BLACK}
    assert colours(two, tile, 2, 2) == {pictures._RED, pictures._BLACK, pictures._YELLOW}
    assert pictures._RED in colours(three, tile, 3, 2)
    assert colours(four, tile, 4, 4) == {pictures._RED, pictures._GREEN}
    up = four[4 * tile : 5 * tile, 4 * tile : 5 * tile]
    red = (up == pictures._RED).all(2)
    assert red[0].sum() < red[-1].sum()  # it is wide behind and points ahead
    np.testing.assert_array_equal(red, red[:, ::-1])


@pytest.mark.parametrize("name", GRIDS)
def test_an_expert_is_evaluated_by_table_and_by_environment(name):
    """What it does follows from the picture alone; both ways of walking agree."""
    table = sdil.get_task(f"{name}-images").table()
    every = table.observe(np.arange(len(table)))
    best = {p.tobytes(): int(a) for p, a in zip(every, table.good.argmax(1), strict=True)}

    class Expert:
        def predict(self, seen, state=None, episode_start=None, deterministic=True):
            return np.array([best[picture.tobytes()] for picture in seen]), None

    by_table = evaluate(Expert(), f"{name}-images", episodes=20, seed=3)
    stepped = evaluate(
        Expert(), lambda: gym.make(f"sdil/{name}-images-v0"), episodes=20, seed=3, n_envs=4
    )
    assert by_table.success_rate == 1.0
    np.testing.assert_array_equal(by_table.episodes.rewards, stepped.episodes.rewards)


def test_collected_on_the_command_line(tmp_path, capsys):
    out = tmp_path / "demos"
    arguments = ["collect", "doorkey-5x5-images", "--out", str(out), "--clean", "2", "--noisy", "2"]
    assert main(arguments) == 0
    assert "2 noisy episodes" in capsys.readouterr().out
    back = sdil.load_demonstrations(out)
    expected, _ = sdil.get_task("doorkey-5x5-images").collect(clean=2, noisy=2, seed=0)
    assert back.spaces == expected.spaces
    np.testing.assert_array_equal(back.all.observations, expected.all.observations)
