from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import sdil
from sdil import InputError
from sdil.cli import main
from sdil.evaluation.statistics import wilson_interval
from sdil.tasks.sepsis import DEATH, GOOD_ABOVE, SURVIVAL, clinicians, sepsis_model
from sdil.tasks.task import Benchmark


@pytest.fixture(scope="module")
def collected():
    return sdil.get_task("sepsis").collect(clean=2000, noisy=2000, seed=0)


def policies():
    model = sepsis_model()
    return {
        "optimal": model.always(model.optimal_actions),
        "clinicians": clinicians(),
        "random": model.at_random,
    }


def survival_under(policy):
    model = sepsis_model()
    return model.arrivals(policy, model.visits(policy)) @ model.reward


def states_of(trajectory):
    """Which states these were: all features are distinct, except those of the end."""
    features = sepsis_model().observations
    return [int(np.flatnonzero((features == o).all(1))[0]) for o in trajectory.observations]


def test_shapes_and_probabilities():
    model = sepsis_model()
    assert len(model) == 716
    assert model.transition.shape == (716 * 25, 716)
    assert model.observations.shape == (716, 47)
    assert model.observations.dtype == np.float32
    np.testing.assert_allclose(model.transition.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(clinicians()[:713].sum(1), 1, atol=1e-12)
    assert model.start[~model.end].sum() == pytest.approx(1, abs=1e-12)
    assert np.flatnonzero(model.end).tolist() == [713, 714, 715]
    assert np.flatnonzero(model.reward).tolist() == [SURVIVAL]
    assert len(np.unique(model.observations[:713], axis=0)) == 713


def test_inadmissible_actions_do_what_admissible_ones_do_on_average():
    model = sepsis_model()
    rows = model.transition.toarray().reshape(716, 25, 716)
    counts = model.admissible.sum(1)
    assert counts[:713].min() == 1
    assert counts[:713].max() < 25
    for state in (0, 1, 68, 400, 712):
        mean = rows[state][model.admissible[state]].mean(0)
        for action in np.flatnonzero(~model.admissible[state]):
            np.testing.assert_allclose(rows[state, action], mean, atol=1e-12)
    uniform = np.full((716, 25), 1 / 25)  # so it makes no difference whom a random policy asks
    np.testing.assert_allclose(model.visits(uniform), model.visits(model.at_random), atol=1e-10)


@pytest.mark.parametrize(
    ("who", "survival", "length"),
    [("optimal", 0.875, 10.99), ("clinicians", 0.782, 9.24), ("random", 0.780, 9.46)],
)
def test_exact_returns(who, survival, length):
    """The package's README says 0.88 / 0.78 / 0.78 and, sampled, 10.99 / 9.22 / 9.45 steps."""
    model, policy = sepsis_model(), policies()[who]
    visits = model.visits(policy)
    assert survival_under(policy) == pytest.approx(survival, abs=0.001)
    assert model.arrivals(policy, visits)[[DEATH, SURVIVAL]].sum() == pytest.approx(1, abs=1e-9)
    assert visits.sum() == pytest.approx(length, abs=0.01)


def test_no_policy_is_better_than_the_optimal_one():
    model = sepsis_model()
    best = survival_under(policies()["optimal"])
    assert model.start @ model.optimal_values == pytest.approx(best, abs=1e-9)
    assert model.admissible[np.arange(716), model.optimal_actions].all()
    chosen = model.advantage[np.arange(713), model.optimal_actions[:713]]
    np.testing.assert_allclose(chosen, 0, atol=1e-9)
    assert (model.advantage[:713] < 1e-9).all()
    for other in policies().values():
        assert survival_under(other) <= best + 1e-9


@pytest.mark.parametrize("who", ["optimal", "clinicians", "random"])
def test_walks_agree_with_exact_values(who):
    model, policy = sepsis_model(), policies()[who]
    walks = model.walk(policy, range(10_000))
    survived = sum(int(w.states[-1] == SURVIVAL) for w in walks)
    low, high = wilson_interval(survived, len(walks), z=3.5)
    assert low < survival_under(policy) < high
    lengths = np.array([len(w.actions) for w in walks])
    error = lengths.std() / len(walks) ** 0.5
    assert abs(lengths.mean() - model.visits(policy).sum()) < 3.5 * error


def test_the_environment_is_gymnasiums():
    env = gym.make("sdil/sepsis-v0").unwrapped
    check_env(env, skip_render_check=True)
    assert env.model is sepsis_model()
    assert env.action_space == gym.spaces.Discrete(25)


def play(env, seed):
    observation, info = env.reset(seed=seed)
    rng, seen, states, rewards = np.random.default_rng(0), [observation], [info["state"]], []
    over = False
    while not over:
        action = rng.choice(info["admissible_actions"])
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation)
        states.append(info["state"])
        rewards.append(reward)
        over = terminated or truncated
    return np.stack(seen), states, rewards, terminated, info


def test_an_episode_follows_from_its_seed_and_ends_in_life_or_death():
    env = gym.make("sdil/sepsis-v0")
    ends = set()
    for seed in range(30):
        seen, states, rewards, terminated, info = play(env, seed)
        again = play(gym.make("sdil/sepsis-v0"), seed)
        np.testing.assert_array_equal(seen, again[0])
        assert states == again[1]
        np.testing.assert_array_equal(seen, sepsis_model().observations[states])
        assert terminated
        assert rewards == [0.0] * (len(rewards) - 1) + [float(states[-1] == SURVIVAL)]
        assert info["is_success"] == (states[-1] == SURVIVAL)
        ends.add(states[-1])
    assert ends == {DEATH, SURVIVAL}
    assert play(env, 0)[1] != play(env, 1)[1]


def test_wrong_use_of_the_environment_is_refused():
    env = gym.make("sdil/sepsis-v0").unwrapped
    with pytest.raises(InputError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InputError, match="Discrete"):
        env.step(25)


def test_collected_sets(collected):
    demos, truth = collected
    assert demos.spaces.action == gym.spaces.Discrete(25)
    model = sepsis_model()
    for trajectories, labels in ((demos.clean, truth.clean_good), (demos.noisy, truth.noisy_good)):
        assert trajectories.terminated.all()
        for t, good in zip(trajectories[:20], labels[:20], strict=True):
            states = states_of(t)
            assert states[-1] == DEATH  # death and survival look the same: all zeros
            assert t.rewards[:-1].sum() == 0
            expected = model.advantage[states[:-1], t.actions] > GOOD_ABOVE
            np.testing.assert_array_equal(good, expected)
            rows = np.array(states[:-1]) * 25 + t.actions
            followed = np.asarray(model.transition[rows].toarray())[np.arange(len(t)), states[1:]]
            assert (followed[:-1] > 0).all()


def test_what_clean_and_noisy_are_worth(collected):
    demos, truth = collected
    model, task = sepsis_model(), sdil.get_task("sepsis")
    careless = 0.95 * policies()["optimal"] + 0.05 * policies()["random"]
    for trajectories, policy in ((demos.clean, careless), (demos.noisy, clinicians())):
        survived = sum(int(t.rewards.sum()) for t in trajectories)
        low, high = wilson_interval(survived, len(trajectories), z=3.5)
        assert low < survival_under(policy) < high
    for t in demos.clean[:50]:
        assert model.admissible[states_of(t)[:-1], t.actions].all()
    assert np.concatenate(truth.clean_good).mean() > 0.97
    assert np.concatenate(truth.noisy_good).mean() == pytest.approx(0.644, abs=0.015)
    _, perfect = task.collect(clean=100, noisy=0, seed=0, clean_random_steps=0.0)
    assert np.concatenate(perfect.clean_good).all()
    _, random = task.collect(clean=300, noisy=0, seed=0, clean_random_steps=1.0)
    assert np.concatenate(random.clean_good).mean() == pytest.approx(0.673, abs=0.05)


def test_the_exact_share_of_good_steps():
    model = sepsis_model()
    steps = model.visits(clinicians())[:, None] * clinicians()  # (S, A)
    good = (steps * (model.advantage > GOOD_ABOVE)).sum() / steps.sum()
    assert good == pytest.approx(0.6437, abs=0.0005)


def test_collection_follows_from_its_seed():
    task = sdil.get_task("sepsis")
    first, again, other = (task.collect(clean=40, noisy=30, seed=s)[0] for s in (0, 0, 1))
    assert first == again
    assert first != other
    fewer = task.collect(clean=7, noisy=5, seed=0)[0]
    assert fewer.clean == first.clean[:7]
    assert fewer.noisy == first.noisy[:5]


def test_saved_and_loaded_they_are_the_same(tmp_path):
    out = tmp_path / "demos"
    assert main(["collect", "sepsis", "--clean", "12", "--noisy", "8", "--out", str(out)]) == 0
    demos, truth = sdil.get_task("sepsis").collect(clean=12, noisy=8, seed=0)
    assert sdil.load_demonstrations(out) == demos
    loaded = sdil.load_truth(out)
    for mine, theirs in (
        (truth.clean_good, loaded.clean_good),
        (truth.noisy_good, loaded.noisy_good),
    ):
        assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clean": 0, "noisy": 1}, "at least 1 clean"),
        ({"clean": 1, "noisy": 1, "noisy_random_steps": -0.1}, "between 0 and 1"),
        ({"clean": 1, "noisy": 1, "expert": "ppo"}, "sepsis has no ppo agent"),
        ({"clean": 1, "noisy": 1, "noise": "segments"}, "sepsis has no noise 'segments'"),
    ],
)
def test_impossible_wishes_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        sdil.get_task("sepsis").collect(seed=0, **options)


def test_no_agent_is_trained_for_it():
    from sdil.tasks.train_expert import train

    with pytest.raises(InputError, match="no agent is trained for sepsis"):
        train("sepsis", "goal", seed=0)


def test_it_is_a_task_like_the_others():
    task: Benchmark = sdil.get_task("sepsis")
    assert task.table() is None
    assert task.environment in gym.registry
