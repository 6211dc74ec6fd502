from __future__ import annotations

import json

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import sdil
from sdil import BC, InputError, load_policy
from sdil.evaluation.metrics import predict_recorded
from sdil.history import History
from sdil.windows import Windows


@pytest.fixture(scope="module", params=[0, 5])
def policy(request, demos):
    return BC(look_back=request.param, max_updates=200).fit(demos, seed=0)


def test_one_observation_or_many(policy, demos):
    observations = demos.clean[0].observations
    single, state = policy.predict(observations[0])
    assert single.shape == ()
    batch, _ = policy.predict(observations[:4])
    assert batch.shape == (4,)
    assert batch[0] == single
    follow, _ = policy.predict(observations[1], state)
    assert 0 <= follow < 7


def test_episode_start_forgets_the_past(policy, demos):
    observations = demos.clean[0].observations
    _, state = policy.predict(observations[:1])
    _, state = policy.predict(observations[1:2], state, np.array([False]))
    fresh, fresh_state = policy.predict(observations[5:6])
    again, again_state = policy.predict(observations[5:6], state, np.array([True]))
    assert fresh == again
    assert again_state.ages.tolist() == fresh_state.ages.tolist() == [1]


def test_stochastic_actions_follow_the_probabilities(policy, demos):
    observation = np.repeat(demos.clean[0].observations[:1], 20_000, 0)
    start = History.none(policy.spaces, 1, policy.look_back)
    probs = policy.action_probs(start.window(torch.from_numpy(observation[:1].copy())))[0]
    torch.manual_seed(0)
    actions, _ = policy.predict(observation, deterministic=False)
    share = np.bincount(actions, minlength=7) / 20_000
    np.testing.assert_allclose(share, probs.numpy(), atol=0.015)


def test_probabilities_of_recorded_steps_are_the_bare_policys(policy, demos):
    """Whatever rules it acts by, and wherever the steps lie in their episode."""
    some = list(demos.noisy[2:5])
    found = policy.probabilities(some)
    assert [p.shape for p in found] == [(len(t), 7) for t in some]
    assert found[0].dtype == np.float64
    windows = Windows(demos.noisy[2:5], policy.look_back)
    expected = policy.action_probs(windows.at(torch.arange(len(windows)))).numpy()
    np.testing.assert_allclose(np.concatenate(found), expected, rtol=1e-9)
    sampled = policy.acting_by([sdil.Sample(temperature=9.0)])
    np.testing.assert_array_equal(sampled.probabilities(some)[1], found[1])
    probs, actions = predict_recorded(policy, demos.noisy[2:5])
    np.testing.assert_array_equal(probs, np.concatenate(found))
    np.testing.assert_array_equal(actions, np.concatenate([t.actions for t in some]))
    assert policy.probabilities([]) == []
    wrong = sdil.Trajectory(np.zeros((3, 2), np.float32), np.zeros(2, int))
    with pytest.raises(InputError, match="observations have shape"):
        policy.probabilities([wrong])


def test_saved_and_loaded_it_acts_the_same(policy, demos, tmp_path):
    policy.save(tmp_path / "run")
    loaded = load_policy(tmp_path / "run")
    first = sdil.evaluate(policy, "fourrooms", episodes=50).episodes
    second = sdil.evaluate(loaded, "fourrooms", episodes=50).episodes
    np.testing.assert_array_equal(first.rewards, second.rewards)
    assert loaded.learner == "bc"
    assert loaded.hyperparameters == policy.hyperparameters
    assert loaded.spaces == policy.spaces
    assert all(
        torch.equal(a, b)
        for a, b in zip(policy.tensors().values(), loaded.tensors().values(), strict=True)
    )


def test_stable_baselines_evaluates_our_policies(policy):
    envs = make_vec_env("sdil/fourrooms-v0", n_envs=3, seed=0)
    mean, spread = evaluate_policy(policy, envs, n_eval_episodes=9)
    assert 0 <= mean <= 1
    assert spread >= 0


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "policy.json").unlink(), "not a finished run"),
        (lambda d: (d / "policy.json").write_text("{"), "cannot be read as JSON"),
        (lambda d: (d / "policy.safetensors").unlink(), "damaged or do not belong together"),
        (lambda d: (d / "policy.safetensors").write_bytes(b"\x80\x04nonsense"), "damaged"),
        (
            lambda d: (d / "policy.json").write_text(
                json.dumps({**json.loads((d / "policy.json").read_text()), "format": 7})
            ),
            "format 7 is not the one",
        ),
    ],
)
def test_a_damaged_policy_is_named(policy, tmp_path, damage, message):
    policy.save(tmp_path / "run")
    damage(tmp_path / "run")
    with pytest.raises(InputError, match=message):
        load_policy(tmp_path / "run")


def test_wrong_observations_and_states_are_refused(policy, demos):
    with pytest.raises(InputError, match=r"expects observations of shape \(153,\)"):
        policy.predict(np.zeros(7))
    _, state = policy.predict(demos.clean[0].observations[:3])
    with pytest.raises(InputError, match="same number of episodes"):
        policy.predict(demos.clean[0].observations[:2], state)


def test_an_environment_with_other_spaces_is_refused(policy):
    with pytest.raises(InputError, match="made for the observation space"):
        sdil.evaluate(policy, "doorkey-5x5", episodes=1)
    with pytest.raises(InputError, match="no task or Gymnasium environment 'nowhere'"):
        sdil.evaluate(policy, "nowhere", episodes=1)


def test_observations_of_several_axes_are_seen_as_rows_of_numbers(make_episode, tmp_path):
    plain = [make_episode(3, size=4, seed=i, id=str(i)) for i in range(4)]
    square = [sdil.Trajectory(t.observations.reshape(4, 2, 2), t.actions, id=t.id) for t in plain]
    rows, squares = sdil.Demonstrations(plain), sdil.Demonstrations(square)
    learner = BC(max_updates=20, min_updates=10)
    one, other = learner.fit(rows), learner.fit(squares)
    other.save(tmp_path)
    for policy in (other, sdil.load_policy(tmp_path)):
        assert policy.predict(square[0].observations)[0].tolist() == (
            one.predict(plain[0].observations)[0].tolist()
        )


def test_spaces_that_cannot_be_learned_from_are_refused_by_name(make_episode):
    t = make_episode(3)
    shifted = sdil.Spaces(gym.spaces.Box(-9, 9, (3,), np.float32), gym.spaces.Discrete(4, start=1))
    ones = sdil.Trajectory(t.observations, np.ones(3, int))
    with pytest.raises(InputError, match="count from 0"):
        BC().fit(sdil.Demonstrations(clean=[ones], spaces=shifted))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 1e300])
def test_observations_that_are_not_finite_are_refused_by_row_and_element(policy, demos, wrong):
    batch = np.array(demos.clean[0].observations[:3], np.float64)
    batch[1, 7] = wrong
    with pytest.raises(
        InputError, match=r"episode 1 \(row 1 of 3\): element \(7,\) is (nan|-?inf)"
    ):
        policy.predict(batch)
    with pytest.raises(InputError, match=r"episode 0 \(row 0 of 1\): element \(7,\)"):
        policy.predict(batch[1])
    with pytest.raises(InputError, match="observations are numbers, not <U1"):
        policy.predict(np.full(153, "a"))


def test_saving_over_a_run_is_refused_and_folders_are_told_apart(demos, tmp_path):
    data = tmp_path / "data"
    sdil.save_demonstrations(demos, data)
    run = sdil.train(sdil.BC(max_updates=20), data, tmp_path / "run")
    with pytest.raises(sdil.InputError, match="is a finished run; save into another folder"):
        run.result.save(run.folder)
    quick = sdil.Judge(clone_updates=20, distance_updates=20)
    judgement = sdil.judge(quick, data, tmp_path / "judgement")
    with pytest.raises(sdil.InputError, match="is a judgement, with no policy; a run"):
        sdil.load_policy(judgement.folder)
    with pytest.raises(sdil.InputError, match="is a run, with a policy; a judgement"):
        sdil.load_judge(run.folder)
    (run.folder / "policy.json").unlink()
    with pytest.raises(sdil.InputError, match=r"was interrupted: policy\.json is missing; go on"):
        sdil.load_policy(run.folder)


def test_recorded_observations_are_read_only_and_will_do(demos):
    policy = sdil.BC(max_updates=20).fit(demos)
    seen = demos.clean[0].observations
    assert not seen.flags.writeable
    assert policy.predict(seen[0])[0] == policy.predict(seen.copy())[0][0]
