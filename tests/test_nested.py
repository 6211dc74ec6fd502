"""Actions of several parts as rows of numbers, and back; on disk, and in an environment."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import sdil
from sdil import BC, Demonstrations, InputError, Spaces, Trajectory
from sdil.evaluation.metrics import measure_recorded
from sdil.explanation.explain import explain
from sdil.nested import action_of, column_names, flatten_actions, row_space, shape_actions

SPACE = gym.spaces.Dict(
    {
        "arm": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
        "hand": gym.spaces.Tuple([gym.spaces.Discrete(3), gym.spaces.MultiBinary(2)]),
    }
)
SEEN = gym.spaces.Box(-9.0, 9.0, (3,), np.float32)
FEW = {"max_updates": 200, "min_updates": 150}


def act(x):
    """What is right: steer against the first entry, take hold by the sign of the second."""
    return {
        "arm": np.stack([-0.5 * x[..., 0], 0.2 * x[..., 2]], -1).clip(-1, 1).astype(np.float32),
        "hand": (
            np.where(x[..., 1] > 0, 2, 0).astype(np.int64),
            np.stack([x[..., 1] > 0, x[..., 1] < 0], -1).astype(np.int8),
        ),
    }


def episodes(seed, n, space=SPACE, name="e"):
    rng, found = np.random.default_rng(seed), []
    for i in range(n):
        x = rng.normal(size=(16, 3)).astype(np.float32)
        rows = flatten_actions(SPACE, act(x[:-1]))
        if space is not SPACE:  # the same as MultiDiscrete
            rows = rows[:, 2:].astype(np.int64)
        found.append(Trajectory(x, rows, None, False, f"{name}{i}"))
    return found


@pytest.fixture(scope="module")
def demos():
    return Demonstrations(episodes(0, 8), episodes(1, 8, name="n"), Spaces(SEEN, SPACE))


@pytest.fixture(scope="module")
def policy(demos):
    return BC(**FEW).fit(demos, seed=0)


def test_rows_and_back():
    assert column_names(SPACE) == ["arm[0]", "arm[1]", "hand.0", "hand.1[0]", "hand.1[1]"]
    single = [SPACE.sample() for _ in range(5)]
    rows = flatten_actions(SPACE, single)
    assert rows.shape == (5, 5)
    assert rows.dtype == np.float32 == row_space(SPACE).dtype
    together = shape_actions(SPACE, rows)
    np.testing.assert_array_equal(flatten_actions(SPACE, together), rows)
    for i, one in enumerate(single):
        again = shape_actions(SPACE, rows[i])
        assert SPACE.contains(again)
        np.testing.assert_array_equal(again["arm"], one["arm"])
        assert again["hand"][0] == one["hand"][0]
        assert SPACE.contains(action_of(SPACE, together, i))
    wide = gym.spaces.Tuple([gym.spaces.Discrete(2**30), gym.spaces.Discrete(2)])
    assert row_space(wide).dtype == np.float64


def test_what_does_not_fit_is_said(demos):
    with pytest.raises(InputError, match="no part 'hand'"):
        flatten_actions(SPACE, [{"arm": np.zeros(2)}])
    with pytest.raises(InputError, match=r"have shape \(T, \*\(2,\)\)"):
        flatten_actions(SPACE, {"arm": np.zeros((4, 3)), "hand": (np.zeros(4), np.zeros((4, 2)))})
    half = episodes(0, 1)[0].actions.copy()
    half[3, 2] = 0.5
    broken = Trajectory(demos.clean[0].observations, half, None, False, "half")
    with pytest.raises(InputError, match="episode 'half', step 3: action element"):
        Demonstrations([broken], [], demos.spaces)
    with pytest.raises(InputError, match="is not supported"):
        Demonstrations(episodes(0, 1), [], Spaces(SEEN, gym.spaces.Dict(a=gym.spaces.Text(3))))


def test_a_folder_keeps_the_space_and_the_rows(demos, tmp_path):
    sdil.save_demonstrations(demos, tmp_path / "parts")
    again = sdil.load_demonstrations(tmp_path / "parts")
    assert again.spaces == demos.spaces
    assert list(again.spaces.action) == ["arm", "hand"]
    assert again.fingerprint() == demos.fingerprint()
    counted = gym.spaces.MultiDiscrete([3, 2, 2])
    other = Demonstrations(episodes(0, 3, counted), [], Spaces(SEEN, counted))
    sdil.save_demonstrations(other, tmp_path / "counted")
    again = sdil.load_demonstrations(tmp_path / "counted")
    assert again.spaces == other.spaces
    assert again.clean == other.clean


def test_a_policy_answers_in_the_spaces_own_form(policy, demos, tmp_path):
    seen = demos.clean[0].observations
    one, state = policy.predict(seen[0])
    assert SPACE.contains(one)
    many, _ = policy.predict(seen)
    assert many["arm"].shape == (16, 2)
    np.testing.assert_array_equal(many["hand"][1][0], one["hand"][1])
    drawn, _ = policy.predict(seen[0], state, deterministic=False)
    assert SPACE.contains(drawn)
    policy.save(tmp_path)
    again, _ = sdil.load_policy(tmp_path).predict(seen)
    np.testing.assert_array_equal(again["arm"], many["arm"])


def test_it_learns_every_part_and_measures_name_them(policy):
    unseen = Demonstrations(episodes(7, 6), [], Spaces(SEEN, SPACE))
    found = measure_recorded(policy, unseen.clean)
    assert found.entries == ("arm[0]", "arm[1]", "hand.0", "hand.1[0]", "hand.1[1]")
    assert all(mine < mean for mine, mean in zip(found.error, found.mean_action_error, strict=True))
    assert found.error[2] < 0.15  # the share of steps at which the hand does something else
    assert 0.3 < found.mean_action_error[2] < 0.6
    assert found.relative_error < 0.5 * found.mean_action_relative_error


class Holding(gym.Env):
    observation_space, action_space = SEEN, SPACE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.clock, self.x = 0, self.np_random.normal(size=3).astype(np.float32)
        return self.x, {}

    def step(self, action):
        assert self.action_space.contains(action), action
        right = float(action["hand"][0] == act(self.x)["hand"][0])
        self.clock, self.x = self.clock + 1, self.np_random.normal(size=3).astype(np.float32)
        return self.x, right, False, self.clock >= 5, {}


def test_an_environment_with_other_parts_is_refused(policy):
    class Otherwise(Holding):
        action_space = gym.spaces.Dict(
            {
                "arm": SPACE["arm"],
                "hand": gym.spaces.Tuple([gym.spaces.Discrete(4), SPACE["hand"][1]]),
            }
        )

    with pytest.raises(InputError, match="action space"):
        sdil.evaluate(policy, Otherwise, episodes=2)


def test_it_acts_and_practises_in_an_environment(policy, demos):
    found = sdil.evaluate(policy, Holding, episodes=20)
    assert found.reward_mean > 4.0
    brief = {"env_steps": 80, "n_envs": 4, "round_steps": 10, "passes": 1, "parts": 2}
    practised = sdil.GAIL(**brief).fit(demos, env=Holding)
    assert SPACE.contains(practised.predict(SEEN.sample())[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:discovery failed", "ignore:no clean step was paired")
def test_judge_and_page_and_sdil_take_them(demos):
    judge = sdil.Judge(clone_updates=60, distance_updates=30, outcome_updates=30).fit(demos, seed=0)
    assert np.isfinite(np.concatenate([s.optimality for s in judge.score(demos.noisy)])).all()
    record = explain(judge, demos, about={"run": "this"})
    assert any(name.startswith("(arm[0] ") for name in record.action_names)
    learned = sdil.SDIL(**FEW, discovery_epochs=2, discovery_min_updates=50).fit(
        demos, judge=judge, seed=0
    )
    assert SPACE.contains(learned.predict(SEEN.sample())[0])


def test_multidiscrete_alone():
    counted = gym.spaces.MultiDiscrete([3, 2, 2])
    demos = Demonstrations(episodes(0, 8, counted), [], Spaces(SEEN, counted))
    policy = BC(**FEW).fit(demos, seed=0)
    action, _ = policy.predict(demos.clean[0].observations[0])
    assert counted.contains(action)
    found = measure_recorded(policy, demos.clean)
    assert max(found.error) < 0.1
