from __future__ import annotations

import json
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file

from sdil.cli import main
from sdil.errors import InputError
from sdil.tasks import fourrooms, get_task
from sdil.tasks.experts import action_probs, agent, sampler

AGENTS = (
    "fourrooms-goal",
    "fourrooms-decoy",
    "doorkey-5x5-goal",
    "doorkey-6x6-goal",
    "doorkey-8x8-goal",
)


def shipped(name: str) -> Path:
    return Path(str(files("sdil.tasks") / "weights" / f"{name}.safetensors"))


@pytest.mark.parametrize("name", AGENTS)
def test_shipped_agents_say_where_they_come_from(name: str) -> None:
    with safe_open(shipped(name), "numpy") as file:
        origin = file.metadata()
        shapes = {key: file.get_tensor(key).shape for key in file.keys()}  # noqa: SIM118
    assert f"{origin['task']}-{origin['aim']}" == name
    assert int(origin["steps"]) > 0
    assert origin["seed"] == "0"
    assert float(origin["mean_reward"]) > (0.8 if origin["task"] == "fourrooms" else 0.92)
    seen = 153 if origin["task"] == "fourrooms" else 151
    assert shapes == {
        "scale": (seen,),
        "0.weight": (64, seen),
        "0.bias": (64,),
        "1.weight": (64, 64),
        "1.bias": (64,),
        "out.weight": (7, 64),
        "out.bias": (7,),
    }


@pytest.mark.parametrize("name", AGENTS)
def test_action_probs_equal_a_forward_pass_in_torch(name: str) -> None:
    weights = load_file(shipped(name))
    assert all(w.dtype == np.float32 for w in weights.values())
    network = torch.nn.Sequential(
        torch.nn.Linear(len(weights["scale"]), 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 7),
        torch.nn.Softmax(-1),
    )
    for index, layer in ((0, "0"), (2, "1"), (4, "out")):
        values = {key: torch.from_numpy(weights[f"{layer}.{key}"]) for key in ("weight", "bias")}
        network[index].load_state_dict(values)
    seen = np.random.default_rng(0).integers(-1, 11, (200, len(weights["scale"])))
    seen = seen.astype(np.float32)
    with torch.no_grad():
        expected = network(torch.from_numpy(seen * weights["scale"])).numpy()
    np.testing.assert_allclose(action_probs(weights, seen), expected, rtol=1e-4, atol=1e-6)
    one_by_one = [action_probs(weights, each) for each in seen]
    np.testing.assert_allclose(one_by_one, expected, rtol=1e-4, atol=1e-6)


def test_an_agent_draws_actions_as_likely_as_its_network_says() -> None:
    table = fourrooms.table()
    weights = {k: v * 0.1 for k, v in load_file(shipped("fourrooms-goal")).items()}  # undecided
    act, rng = sampler(table, weights), np.random.default_rng(0)
    counts = np.bincount([act(5, rng) for _ in range(20_000)], minlength=7)
    expected = action_probs(weights, table.observe(np.array([5]))[0])
    assert expected.max() < 0.5
    np.testing.assert_allclose(counts / 20_000, expected, atol=0.015)


def test_the_last_action_is_the_last_even_for_the_highest_draw() -> None:
    class Highest(np.random.Generator):
        def random(self, *args: object, **kwargs: object) -> float:  # type: ignore[override]
            return 1.0 - 2.0**-53

    act = agent(fourrooms.table(), "fourrooms-goal")
    highest = Highest(np.random.PCG64(0))
    assert {act(state, highest) for state in range(1040)} <= set(range(7))


def test_unknown_agents_are_refused() -> None:
    with pytest.raises(InputError, match="no trained agent is shipped for 'fourrooms-moon'"):
        agent(fourrooms.table(), "fourrooms-moon")


def test_agents_demonstrate_fourrooms_by_the_recipe() -> None:
    demos, truth = get_task("fourrooms").collect(clean=40, noisy=40, seed=0, expert="ppo")
    for trajectory in demos.clean:
        assert trajectory.terminated
        assert trajectory.rewards is not None
        assert trajectory.rewards[-1] > 0
        assert tuple(trajectory.observations[-1][149:151]) == fourrooms.GOAL
    for trajectory in demos.noisy:
        assert not trajectory.terminated
        assert trajectory.rewards is not None
        assert trajectory.rewards.sum() == 0
        assert tuple(trajectory.observations[-1][149:151]) == fourrooms.DECOY
        assert (trajectory.observations[:, 147:149] == fourrooms.GOAL).all()
    assert 15 < demos.clean.n_steps / 40 < 24
    assert np.concatenate(truth.clean_good).mean() > 0.9
    assert np.concatenate(truth.noisy_good).mean() < 0.7


def test_agents_demonstrate_doorkey_by_the_recipe() -> None:
    demos, truth = get_task("doorkey-5x5").collect(clean=40, noisy=40, seed=0, expert="ppo")
    clean = [t.rewards.sum() for t in demos.clean if t.rewards is not None]
    noisy = [t.rewards.sum() for t in demos.noisy if t.rewards is not None]
    assert len(clean) == len(noisy) == 40
    assert min(clean) > 0.92
    assert min(noisy) > 0.30
    assert max(noisy) <= 0.90
    assert np.concatenate(truth.clean_good).mean() > 0.9
    assert np.concatenate(truth.noisy_good).mean() < 0.5


@pytest.mark.parametrize("task", ["fourrooms", "doorkey-5x5"])
def test_agents_demonstrate_with_interruptions(task: str) -> None:
    demos, truth = get_task(task).collect(clean=5, noisy=20, seed=0, expert="ppo", noise="segments")
    assert all(t.terminated for t in demos.noisy)
    assert truth.noisy_segment is not None
    good = [g[s == 0] for g, s in zip(truth.noisy_good, truth.noisy_segment, strict=True)]
    assert np.concatenate(good).mean() > 0.9


def test_the_table_env_walks_as_the_table_says() -> None:
    from sdil.tasks.train_expert import TableVecEnv, feature_scale

    table = get_task("doorkey-5x5").table()
    assert table is not None
    scale = feature_scale(table)
    starts = np.flatnonzero(np.isfinite(table.distance_to_goal))
    env = TableVecEnv(table, starts=starts, scale=scale, n_envs=16, seed=0)
    rng = np.random.default_rng(0)
    seen = env.reset()
    at, clock = env.walk.at.copy(), np.zeros(16, int)
    env.walk.clock[:8] = clock[:8] = table.horizon - 20  # some are to run out of time
    ended = ran_out = 0
    for _ in range(300):
        np.testing.assert_array_equal(seen, table.observe(at) * scale)
        actions = rng.integers(7, size=16)
        seen, rewards, over, infos = env.step(actions)
        for i, action in enumerate(actions):
            clock[i] += 1
            end = bool(table.end[at[i], action])
            full = 1.0 - 0.9 * clock[i] / table.horizon
            assert rewards[i] == pytest.approx(full if table.earns[at[i], action] else 0.0)
            assert over[i] == (end or clock[i] == table.horizon)
            at[i] = table.next_state[at[i], action]
            if over[i]:
                assert infos[i]["TimeLimit.truncated"] == (not end)
                last = table.observe(at[i : i + 1])[0] * scale
                np.testing.assert_array_equal(infos[i]["terminal_observation"], last)
                ended, ran_out = ended + end, ran_out + (not end)
                at[i], clock[i] = env.walk.at[i], 0
                assert at[i] in starts
            else:
                assert infos[i] == {}
        np.testing.assert_array_equal(env.walk.at, at)
    assert ended > 0
    assert ran_out > 0


def test_heading_to_the_decoy_the_goal_ends_without_reward() -> None:
    from sdil.tasks.train_expert import aimed_table

    table, aimed = fourrooms.table(), aimed_table("fourrooms", "decoy")
    assert (aimed.reward[table.end] == 0).all()
    assert aimed.end[table.end].all()
    arrives = fourrooms.decoy_states(table)[table.next_state]
    np.testing.assert_array_equal(aimed.earns, arrives)
    np.testing.assert_array_equal(aimed.next_state, table.next_state)


@pytest.mark.slow
def test_a_short_training_is_repeatable_and_usable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        out = str(tmp_path / f"{name}.safetensors")
        command = ["expert", "fourrooms", "--aim", "decoy", "--steps", "8000", "--out", out]
        assert main([*command, "--seed", "3", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert told["steps"] == 8192
        assert told["file"] == out
        assert 0.0 <= told["success_rate"] <= 1.0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]
    first, second = (load_file(tmp_path / f"{name}.safetensors") for name in ("a", "b"))
    assert first.keys() == second.keys() == load_file(shipped("fourrooms-decoy")).keys()
    for key, value in first.items():
        np.testing.assert_array_equal(value, second[key])
    with safe_open(tmp_path / "a.safetensors", "numpy") as file:
        origin = file.metadata()
    assert {key: origin[key] for key in ("task", "aim", "steps", "seed")} == {
        "task": "fourrooms",
        "aim": "decoy",
        "steps": "8192",
        "seed": "3",
    }
    act = sampler(fourrooms.table(), first)
    assert 0 <= act(0, np.random.default_rng(0)) < 7

    assert main(command) == 2
    assert "exists already" in capsys.readouterr().err


def test_bad_input_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def error(*arguments: str) -> str:
        assert main(["expert", *arguments]) == 2
        return capsys.readouterr().err

    out = ("--out", str(tmp_path / "x.safetensors"))
    assert "has no aim 'decoy'; it has goal" in error("doorkey-5x5", "--aim", "decoy", *out)
    assert "at least 1 step" in error("doorkey-5x5", "--steps", "0", *out)
    assert "seed" in error("doorkey-5x5", "--seed", "-1", *out)
    assert "is a folder" in error("doorkey-5x5", "--out", str(tmp_path), "--overwrite")
    monkeypatch.delitem(sys.modules, "sdil.tasks.train_expert", raising=False)
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)  # as if it were not installed
    assert "pip install" in error("doorkey-5x5", *out)
    assert not list(tmp_path.iterdir())
