from __future__ import annotations

import inspect
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sdil
from sdil import BC, Demonstrations, InputError, Trajectory
from sdil.algorithms import LEARNERS
from sdil.algorithms.learner import hold_out
from sdil.algorithms.training import seeded
from sdil.networks.encoders import Standardise
from sdil.windows import Windows

FEW = {"max_updates": 60, "min_updates": 40, "patience": 20}
SHORT = {
    "bc": {"max_updates": 120, "min_updates": 60, "patience": 40},
    "dwbc": FEW,
    "isw-bc": {**FEW, "discriminator_updates": 40},
    "demodice": {**FEW, "discriminator_updates": 40},
    "ileed": FEW,
    "cail": FEW,
    "weighted-bc": FEW,
    "scored-bc": {**FEW, "clone_updates": 40, "distance_updates": 40},
    "oracle": FEW,
    "mce-irl": {
        "n_clusters": 10,
        "reward_max_updates": 60,
        "max_updates": 120,
        "min_updates": 60,
        "patience": 40,
    },
    "density-irl": FEW,
    "airl": FEW,
    "gail": FEW,
    "acil": FEW,
    "sdil": {
        "discovery_epochs": 3,
        "discovery_min_updates": 1,
        "pu_interval": 2,
        "max_updates": 60,
        "min_updates": 40,
        "patience": 20,
        "n_skills": 2,
        "clone_updates": 40,
        "distance_updates": 40,
    },
}


def weights(policy):
    return {k: v.clone() for k, v in policy.tensors().items()}


def equal(a, b):
    """Whether all tensors are; the value of an action that was never seen is NaN in both."""
    return a.keys() == b.keys() and all(
        torch.equal(a[k].nan_to_num(7.0), b[k].nan_to_num(7.0)) for k in a
    )


@pytest.fixture(params=list(LEARNERS))
def learner(request):
    return LEARNERS[request.param](**SHORT[request.param])


def fit(learner, demos, **options):
    """`learner.fit`; the oracle is told that steps with an even action are the good ones."""
    if learner.name == "oracle":
        options["truth"] = [t.actions % 2 == 0 for t in demos.noisy]
    return learner.fit(demos, **options)


def test_same_seed_same_policy_bit_for_bit(learner, demos):
    first, again, other = (fit(learner, demos, seed=s) for s in (0, 0, 1))
    assert equal(weights(first), weights(again))
    assert not equal(weights(first), weights(other))


def test_fitting_changes_neither_data_nor_torchs_random_state(learner, demos):
    before, random = demos.fingerprint(), torch.random.get_rng_state()
    fit(learner, demos, seed=0)
    assert demos.fingerprint() == before
    assert torch.equal(torch.random.get_rng_state(), random)


@pytest.mark.parametrize("stop_after", [1, 2])
def test_resuming_gives_what_an_uninterrupted_run_gives(learner, demos, stop_after):
    class KilledError(Exception):
        pass

    kept = {}

    last = {}

    def keep_then_die(epoch):
        kept.update(epoch.state())
        last["phase"] = epoch.phase
        if epoch.index == stop_after:
            raise KilledError

    whole = fit(learner, demos, seed=0)
    with pytest.raises(KilledError):
        fit(learner, demos, seed=0, on_epoch=keep_then_die)
    epochs = []
    resumed = fit(learner, demos, seed=0, resume=kept, on_epoch=epochs.append)
    assert equal(weights(whole), weights(resumed))
    assert epochs[0].index == (stop_after + 1 if epochs[0].phase == last["phase"] else 1)


def test_progress_is_reported(learner, demos):
    epochs = []
    fit(learner, demos, seed=0, on_epoch=epochs.append)
    for phase in {e.phase for e in epochs}:
        indices = [e.index for e in epochs if e.phase == phase]
        assert indices == list(range(1, len(indices) + 1))
    assert all(0 < e.index <= e.total for e in epochs)
    assert all(np.isfinite(v) for e in epochs for v in e.losses.values())


def test_odd_but_valid_data(learner, make_episode):
    """One trajectory, one action ever used, episodes shorter than any window."""
    one = Demonstrations(clean=[make_episode(6, n_actions=1)])
    with pytest.warns(UserWarning, match="one clean trajectory|discovery failed") as told:
        policy = fit(learner, one, seed=0)
    assert any("one clean trajectory" in str(w.message) for w in told)
    actions, _ = policy.predict(one.clean[0].observations)
    assert (actions == 0).all()
    short = Demonstrations(clean=[make_episode(1, seed=i, id=str(i)) for i in range(4)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps leave skills unused, and SDIL says so
        policy = fit(learner, short, seed=0)
    assert policy.predict(short.clean[0].observations[0])[0] in range(4)


def all_windows(policy, trajectories):
    windows = Windows(trajectories, policy.look_back)
    return windows.at(torch.arange(len(windows)))


def test_probabilities_are_probabilities(learner, demos):
    probs = fit(learner, demos, seed=0).action_probs(all_windows(fit(learner, demos), demos.all))
    assert probs.shape == (demos.all.n_steps, 7)
    assert torch.isfinite(probs).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs), dtype=probs.dtype))


def test_a_saved_policy_acts_and_judges_the_same(learner, demos, tmp_path):
    policy = fit(learner, demos, seed=0)
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    assert again.learner.startswith(learner.name)
    assert equal(weights(policy), weights(again))
    windows = all_windows(policy, demos.all)
    assert torch.equal(policy.action_probs(windows), again.action_probs(windows))
    assert hasattr(policy, "score") == learner.judges_steps
    if learner.judges_steps:
        first, second = policy.score(demos.noisy), again.score(demos.noisy)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a.optimality, b.optimality)


def test_fitting_again_forgets(learner, demos, make_episode):
    fresh = fit(learner, demos, seed=0)
    other = Demonstrations(clean=[make_episode(9, seed=i, id=str(i)) for i in range(5)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps leave skills unused
        fit(learner, other, seed=3)
    assert equal(weights(fresh), weights(fit(learner, demos, seed=0)))


def test_what_comes_later_cannot_reach_an_action(learner, demos):
    policy = fit(learner, demos, seed=0)
    episode = demos.clean[0]
    whole = policy.action_probs(all_windows(policy, Demonstrations(clean=[episode]).clean))
    for t in range(len(episode)):
        poisoned = np.array(episode.observations[: t + 2])
        poisoned[t + 1] = 1e6  # s_{t+1}
        past = Demonstrations(clean=[Trajectory(poisoned, episode.actions[: t + 1])])
        found = policy.action_probs(all_windows(policy, past.clean))[t]
        torch.testing.assert_close(found, whole[t])


def test_neither_rewards_nor_the_truth_reach_a_policy(learner, demos):
    def poisoned(trajectories):
        return [
            Trajectory(t.observations, t.actions, np.full(len(t), 9.0), t.terminated, t.id)
            for t in trajectories
        ]

    other = Demonstrations(poisoned(demos.clean), poisoned(demos.noisy), demos.spaces)
    assert equal(weights(fit(learner, demos, seed=0)), weights(fit(learner, other, seed=0)))
    takes_truth = "truth" in inspect.signature(type(learner).fit).parameters
    assert takes_truth == (learner.name == "oracle")


def test_interrupting_leaves_a_usable_checkpoint(learner, demos):
    kept = {}

    def interrupt(epoch):
        kept.update(epoch.state())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(learner, demos, seed=0, on_epoch=interrupt)
    whole = fit(learner, demos, seed=0)
    assert equal(weights(whole), weights(fit(learner, demos, seed=0, resume=kept)))


def test_judgements_lie_in_range_for_old_and_new_trajectories(learner, demos):
    if not learner.judges_steps:
        pytest.skip(f"{learner.name} does not judge steps")
    policy = fit(learner, demos, seed=0)
    new, _ = sdil.get_task("fourrooms").collect(clean=3, noisy=2, seed=5)
    for trajectories in (demos.noisy, new.clean, list(new.noisy)):
        scores = policy.score(trajectories)
        assert [len(s.optimality) for s in scores] == [len(t) for t in trajectories]
        everything = np.concatenate([s.optimality for s in scores])
        assert np.isfinite(everything).all()
        assert (np.abs(everything) <= 1.0).all()
        assert everything.std() > 0
        for score in scores:
            assert sum(s.stop - s.start for s in score.segments()) == len(score.optimality)
    assert policy.score([]) == []
    alone = fit(learner, demos.clean_only(), seed=0)
    with pytest.raises(InputError, match="trained without noisy demonstrations"):
        alone.score(new.noisy)


def test_patience_and_limits_are_counted_in_updates(demos):
    epochs = []
    BC(min_updates=100, patience=50, max_updates=300).fit(demos, seed=0, on_epoch=epochs.append)
    batches = -(-demos.take_clean(24, seed=0).all.n_steps // 256)
    assert len(epochs) * max(20, batches) <= 340


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch_size", 0), ("look_back", -1), ("learning_rate", 0.0), ("max_updates", 0)],
)
def test_impossible_hyperparameters_are_refused_by_name(learner, demos, field, value):
    if field not in vars(learner):
        pytest.skip(f"{learner.name} has no {field}")
    with pytest.raises(InputError, match=f"{learner.name}: {field} must be"):
        fit(replace(learner, **{field: value}), demos)
    with pytest.raises(InputError, match="a seed lies between"):
        fit(learner, demos, seed=-1)


def test_divergence_is_said_and_no_policy_comes_of_it(learner, demos):
    with pytest.raises(InputError, match=r"training diverged .* lower learning_rate"):
        fit(replace(learner, learning_rate=1e30), demos, seed=0)


def test_noisy_trajectories_of_held_out_groups_are_left_out(make_episode):
    demos = Demonstrations(
        clean=[make_episode(2, seed=i, id=str(i), group=f"p{i}") for i in range(5)],
        noisy=[make_episode(2, seed=i, id=str(i), group=f"p{i}") for i in range(7)],
    )
    train, valid = hold_out(demos, None, seed=0)
    assert len(valid) == 1
    assert set(valid.groups).isdisjoint(train.noisy.groups)
    assert len(train.noisy) == 6


def test_the_best_validation_weights_are_kept(demos):
    """A set that overfits at once: what is returned must be as good as the best epoch seen."""
    few = demos.take_clean(3, seed=0).clean_only()
    valid = sdil.get_task("fourrooms").collect(clean=10, noisy=0, seed=9)[0]
    epochs = []
    policy = BC(min_updates=100, patience=1500, max_updates=1500).fit(
        few, valid=valid, seed=0, on_epoch=epochs.append
    )
    losses = [e.losses["valid_nll"] for e in epochs][4:]  # 20 updates each, none kept before 100
    assert min(losses) < losses[-1] - 0.05
    windows = Windows(valid.clean, 0)
    index = torch.arange(len(windows))
    probs = policy.action_probs(windows.at(index))
    nll = -probs[index, windows.actions_at(index)].log().mean()
    assert float(nll) == pytest.approx(min(losses), abs=1e-5)


def test_held_out_trajectories_are_whole_and_a_fifth(demos):
    train, valid = hold_out(demos, None, seed=0)
    assert len(valid) == 6
    assert set(train.clean.ids).isdisjoint(valid.ids)
    assert len(train.noisy) == 60
    other = sdil.Demonstrations(clean=[Trajectory(np.zeros((2, 2), np.float32), np.array([0]))])
    with pytest.raises(InputError, match="different spaces"):
        hold_out(demos, other, seed=0)


@given(st.integers(0, 1000), st.floats(0, 1e5))
def test_standardising_gives_mean_zero_and_spread_one(seed, offset):
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(40, 3)) * [1.0, 100.0, 0.0] + offset
    trajectory = Trajectory(observations.astype(np.float64), np.zeros(40, int))
    layer = Standardise(3).double()
    windows = Windows(Demonstrations(clean=[trajectory]).clean, 0)
    layer.fit(windows)
    out = layer(windows.at(torch.arange(40)).state)
    np.testing.assert_allclose(out.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(out.std(0, correction=0)[:2], 1, rtol=1e-6)
    np.testing.assert_allclose(out[:, 2], 0, atol=1e-6)


def test_seeding_is_local():
    before = torch.random.get_rng_state()
    with seeded(3) as generator:
        torch.rand(1)
    assert torch.equal(before, torch.random.get_rng_state())
    with seeded(3) as again:
        pass
    assert torch.equal(generator.get_state(), again.get_state())
