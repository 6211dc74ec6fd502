"""The contract of every learner, and the parts of training that they share."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import fields, replace
from functools import partial
from typing import get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

import sdil
from sdil import BC, Demonstrations, InputError, Judge, Trajectory
from sdil.algorithms import JUDGES, LEARNERS, make_judge
from sdil.algorithms.learner import check
from sdil.demonstrations import hold_out
from sdil.held_out import TEMPERATURES
from sdil.judging import check_judge
from sdil.limits import Between, allowed, fits
from sdil.networks.encoders import Standardise
from sdil.training import Optimisation, seeded
from sdil.windows import Windows

FEW = {"max_updates": 60, "min_updates": 40, "patience": 20}
DISCOVERY = {
    "discovery_epochs": 3,
    "discovery_min_updates": 1,
    "pu_interval": 2,
    "n_skills": 2,
}
SHORT = {
    "bc": {"max_updates": 120, "min_updates": 60, "patience": 40},
    "dwbc": FEW,
    "isw-bc": {**FEW, "discriminator_updates": 40},
    "demodice": {**FEW, "discriminator_updates": 40},
    "ileed": FEW,
    "cail": FEW,
    "weighted-bc": FEW,
    "scored-bc": FEW,
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
    "sdil": {**DISCOVERY, **FEW},
    "evidence": {"clone_updates": 40, "distance_updates": 40, "outcome_updates": 40},
    "pu": DISCOVERY,
    "deminf": {"sample": 500},
}
QUICK_JUDGE = partial(Judge, **SHORT["evidence"])


def weights(policy):
    found = {k: v.clone() for k, v in policy.tensors().items()}
    judge = getattr(policy, "judge", None)
    judging = judge.tensors() if isinstance(judge, sdil.judging.FittedJudge) else {}
    return found | {f"judge.{k}": v.clone() for k, v in judging.items()}


def equal(a, b):
    """Whether all tensors are; the value of an action that was never seen is NaN in both."""
    return a.keys() == b.keys() and all(
        torch.equal(a[k].nan_to_num(7.0), b[k].nan_to_num(7.0)) for k in a
    )


SELDOM = {"cail", "ileed", "demodice", "acil", "density-irl"}  # the same code as others have


def each(names):
    """A parameter for each; one worker takes all tests of a name, and so fits it once."""
    return [
        pytest.param(
            name,
            marks=[pytest.mark.xdist_group(name), *([pytest.mark.slow] if name in SELDOM else [])],
        )
        for name in names
    ]


@pytest.fixture(params=each(LEARNERS))
def learner(request):
    return LEARNERS[request.param](**SHORT[request.param])


def fit(learner, demos, **options):
    """`learner.fit`; one that takes the truth is told that steps with an even action are good."""
    if learner.takes_truth:
        options["truth"] = [t.actions % 2 == 0 for t in demos.noisy]
    return learner.fit(demos, **options)


class Recorded:
    """A learner fitted with seed 0, and what it said on the way."""

    def __init__(self, learner, demos):
        self.epochs, self.states = [], []
        before, random = demos.fingerprint(), torch.random.get_rng_state()

        def hear(epoch):
            self.epochs.append(epoch)
            self.states.append({k: v.clone() for k, v in epoch.state().items()})

        self.policy = fit(learner, demos, seed=0, on_epoch=hear)
        self.data_is_as_it_was = demos.fingerprint() == before
        self.random_state_is_as_it_was = torch.equal(torch.random.get_rng_state(), random)


_RECORDED = {}


@pytest.fixture
def recorded(learner, demos, quick_judge):
    if learner.name not in _RECORDED:
        _RECORDED[learner.name] = Recorded(learner, demos)
    return _RECORDED[learner.name]


def test_same_seed_same_policy_bit_for_bit(learner, recorded, demos):
    again, other = (fit(learner, demos, seed=s) for s in (0, 1))
    assert equal(weights(recorded.policy), weights(again))
    assert not equal(weights(recorded.policy), weights(other))


def test_fitting_changes_neither_data_nor_torchs_random_state(recorded):
    assert recorded.data_is_as_it_was
    assert recorded.random_state_is_as_it_was


@pytest.mark.parametrize("at", ["first", "middle", "last"])
def test_resuming_gives_what_an_uninterrupted_run_gives(learner, recorded, demos, at):
    n = len(recorded.states)
    number = {"first": 0, "middle": n // 2, "last": n - 1}[at]
    epochs = []
    resumed = fit(learner, demos, seed=0, resume=recorded.states[number], on_epoch=epochs.append)
    assert equal(weights(recorded.policy), weights(resumed))
    said = [(e.phase, e.index, e.losses) for e in recorded.epochs]
    assert [(e.phase, e.index, e.losses) for e in epochs] == said[number + 1 :]


def test_progress_is_reported(recorded):
    epochs = recorded.epochs
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


def test_probabilities_are_probabilities(recorded, demos):
    probs = recorded.policy.action_probs(all_windows(recorded.policy, demos.all))
    assert probs.shape == (demos.all.n_steps, 7)
    assert torch.isfinite(probs).all()
    torch.testing.assert_close(probs.sum(1), torch.ones(len(probs), dtype=probs.dtype))


def test_a_saved_policy_acts_and_judges_the_same(learner, recorded, demos, tmp_path):
    policy = recorded.policy.acting_by([sdil.Sample(0.5), sdil.WithoutCircles(7)])
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    assert again.learner.startswith(learner.name)
    assert equal(weights(policy), weights(again))
    assert again.rules == policy.rules
    assert again.why_not == policy.why_not
    windows = all_windows(policy, demos.all)
    assert torch.equal(policy.action_probs(windows), again.action_probs(windows))
    assert (policy.judge is not None) == learner.judges_steps
    if learner.judges_steps:
        first, second = policy.score(demos.noisy), again.score(demos.noisy)
        for a, b in zip(first, second, strict=True):
            np.testing.assert_array_equal(a.optimality, b.optimality)
        assert again.judge.signals == policy.judge.signals


def test_fitting_again_forgets(learner, recorded, demos, make_episode):
    other = Demonstrations(clean=[make_episode(9, seed=i, id=str(i)) for i in range(5)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps leave skills unused
        fit(learner, other, seed=3)
    assert equal(weights(recorded.policy), weights(fit(learner, demos, seed=0)))


def test_what_comes_later_cannot_reach_an_action(recorded, demos):
    policy, episode = recorded.policy, demos.clean[0]
    whole = policy.action_probs(all_windows(policy, Demonstrations(clean=[episode]).clean))
    for t in range(len(episode)):
        poisoned = np.array(episode.observations[: t + 2])
        poisoned[t + 1] = 1e6  # s_{t+1}
        past = Demonstrations(clean=[Trajectory(poisoned, episode.actions[: t + 1])])
        found = policy.action_probs(all_windows(policy, past.clean))[t]
        torch.testing.assert_close(found, whole[t])


def test_neither_rewards_nor_the_truth_reach_a_policy(learner, recorded, demos):
    def poisoned(trajectories):
        return [
            Trajectory(t.observations, t.actions, np.full(len(t), 9.0), t.terminated, t.id)
            for t in trajectories
        ]

    other = Demonstrations(poisoned(demos.clean), poisoned(demos.noisy), demos.spaces)
    assert equal(weights(recorded.policy), weights(fit(learner, other, seed=0)))
    takes_truth = "truth" in inspect.signature(type(learner).fit).parameters
    assert takes_truth == learner.takes_truth == (learner.name == "oracle")


def test_only_who_takes_a_judge_has_a_place_for_one(learner):
    has_place = "judge" in inspect.signature(type(learner).fit).parameters
    assert has_place == learner.takes_judge


def test_rules_change_what_is_done_and_never_what_is_predicted(recorded, demos):
    policy = recorded.policy
    windows = all_windows(policy, demos.clean)
    bare = policy.action_probs(windows)
    seen = demos.clean[0].observations[0]
    for rules in ([], [sdil.WithoutCircles(4)], [sdil.Sample()]):
        acting = policy.acting_by(rules)
        assert torch.equal(acting.action_probs(windows), bare)
        assert acting.look_back == policy.look_back
    state, actions = None, []
    acting = policy.acting_by([sdil.WithoutCircles(7)])
    for _ in range(7):
        action, state = acting.predict(seen, state)
        actions.append(int(action))
    # each once before any comes again, but for what it takes for all but impossible here
    assert len(set(actions[:3])) == 3
    assert len(set(actions)) >= 6
    assert policy.acting_by([]).predict(seen)[0] == actions[0]


def test_judgements_lie_in_range_for_old_and_new_trajectories(learner, recorded, demos):
    if not learner.judges_steps:
        with pytest.raises(InputError, match=r"does not judge steps|so has no judge"):
            recorded.policy.score(demos.noisy)
        return
    policy = recorded.policy
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


@pytest.mark.parametrize("name", each(LEARNERS))
def test_golden_run(name, demos):
    """Guards against silent change; the tolerance is for processors that round differently."""
    learner = LEARNERS[name](**SHORT[name])
    if name not in _RECORDED:
        _RECORDED[name] = Recorded(learner, demos)
    policy = _RECORDED[name].policy
    probs = policy.action_probs(all_windows(policy, demos.clean))
    taken = probs.gather(1, torch.from_numpy(demos.clean.actions[demos.clean.steps()])[:, None])
    found = [float(-taken.log().mean())]
    if learner.judges_steps:
        found.append(float(np.concatenate([s.optimality for s in policy.score(demos.noisy)]).std()))
    np.testing.assert_allclose(found, GOLDEN[name], rtol=0.05)


GOLDEN = {
    "sdil": [0.54860, 0.48483],
    "bc": [0.47356],
    "density-irl": [0.63052],
    "mce-irl": [1.1215],
    "airl": [0.66171],
    "gail": [0.92994],
    "acil": [0.98375],
    "dwbc": [0.47902, 0.57067],
    "isw-bc": [0.44943, 0.39557],
    "demodice": [0.42302, 0.29609],
    "ileed": [0.44746, 0.13462],
    "cail": [0.44887, 0.19624],
    "weighted-bc": [0.45561, 0.55391],
    "scored-bc": [0.70124, 0.48483],
    "oracle": [0.45579],
}


@pytest.fixture(params=each(JUDGES))
def judge(request):
    return make_judge(request.param, **SHORT[request.param])


_JUDGED = {}


@pytest.fixture
def judged(judge, demos):
    """A judge fitted with seed 0, and its checkpoints."""
    if judge.name not in _JUDGED:
        states = []
        fitted = judge.fit(
            demos,
            seed=0,
            on_epoch=lambda e: states.append({k: v.clone() for k, v in e.state().items()}),
        )
        _JUDGED[judge.name] = fitted, states
    return _JUDGED[judge.name]


def test_a_judge_is_saved_and_loaded_like_a_policy(judge, judged, demos, tmp_path):
    fitted, _ = judged
    fitted.save(tmp_path)
    again = sdil.load_judge(tmp_path)
    assert (again.name, again.seed, again.signals) == (judge.name, 0, fitted.signals)
    assert again.hyperparameters == fitted.hyperparameters
    for a, b in zip(fitted.score(demos.all), again.score(demos.all), strict=True):
        np.testing.assert_array_equal(a.optimality, b.optimality)


def test_a_judge_says_what_it_listened_to_and_judges_everything(judge, judged, demos):
    fitted, _ = judged
    assert fitted.signals
    assert all(len(signal.why) > 10 for signal in fitted.signals)
    scores = np.concatenate([s.optimality for s in fitted.score(demos.noisy)])
    assert len(scores) == demos.noisy.n_steps
    assert (np.abs(scores) <= 1).all()
    assert scores.std() > 0
    assert fitted.score([]) == []


def test_what_another_version_began_is_refused_in_a_sentence():
    def optimisation(width):
        return Optimisation(
            {"net": torch.nn.Linear(width, 2)},
            learning_rate=1e-3,
            weight_decay=0.0,
            generator=torch.Generator(),
        )

    state = optimisation(3).state()
    optimisation(3).restore(state)
    with pytest.raises(InputError, match="begin anew"):
        optimisation(4).restore(state)


@pytest.mark.slow
def test_a_judge_gives_the_same_with_the_same_seed_and_after_an_interruption(judge, judged, demos):
    fitted, states = judged
    again, other = (judge.fit(demos, seed=s) for s in (0, 1))
    assert equal(weights(fitted), weights(again))
    assert not equal(weights(fitted), weights(other))
    for state in (*states[:1], *states[-1:]):  # none where nothing is trained
        assert equal(weights(fitted), weights(judge.fit(demos, seed=0, resume=state)))


def test_a_judge_needs_noisy_demonstrations_and_sensible_fields(judge, demos):
    with pytest.raises(InputError, match="no noisy demonstrations"):
        judge.fit(demos.clean_only())
    with pytest.raises(InputError, match="a seed lies between"):
        judge.fit(demos, seed=-1)
    field = "neighbours" if judge.name == "deminf" else "hidden"  # which has no network
    with pytest.raises(InputError, match=f"{judge.name}: {field} must be a whole number"):
        make_judge(judge.name, **{field: 0}).fit(demos)


@pytest.mark.parametrize("name", ["sdil", "scored-bc"])
def test_a_judge_made_beforehand_gives_what_the_learners_own_gives(name, demos):
    learner = LEARNERS[name](**SHORT[name])
    given = QUICK_JUDGE().fit(demos, seed=0)
    assert equal(
        weights(learner.fit(demos, seed=0, judge=given)), weights(learner.fit(demos, seed=0))
    )


@pytest.mark.parametrize("name", ["sdil", "scored-bc"])
@pytest.mark.parametrize("kind", ["pu", "dwbc"])
def test_any_judge_will_do(name, kind, demos):
    given = make_judge(kind, **SHORT[kind]).fit(demos, seed=1)
    policy = LEARNERS[name](**SHORT[name]).fit(demos, seed=0, judge=given)
    assert policy.judge is given
    first = [s.optimality for s in policy.score(demos.noisy)]
    np.testing.assert_array_equal(
        np.concatenate(first), np.concatenate([s.optimality for s in given.score(demos.noisy)])
    )


def test_a_judge_of_other_spaces_is_refused(demos, make_episode):
    other = Demonstrations(
        clean=[make_episode(9, seed=i, id=str(i)) for i in range(5)],
        noisy=[make_episode(9, seed=i, id=str(i)) for i in range(5)],
    )
    with pytest.raises(InputError, match="other spaces"):
        LEARNERS["sdil"]().fit(demos, judge=QUICK_JUDGE().fit(other))


@pytest.mark.parametrize("kind", [*LEARNERS.values(), Judge, sdil.PU], ids=lambda k: k.name)
def test_every_number_has_a_limit_and_every_text_a_choice(kind):
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint = hints[field.name]
        assert allowed(hint)
        assert fits(field.default, hint), field.name
        assert not fits("nope", hint), field.name
        assert not fits(None, hint), field.name
        if isinstance(field.default, bool):
            assert not fits(1, hint)
        elif isinstance(field.default, int | float):
            limits = [m for m in hint.__metadata__ if isinstance(m, Between)]
            assert limits, f"{kind.name}: {field.name} has no limit"
            assert limits[0].low > -np.inf
            assert not fits(limits[0].low - 1, hint)
            assert not any(fits(wrong, hint) for wrong in (np.nan, np.inf, True))
        if isinstance(field.default, int):
            assert not fits(1.5, hint)


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("sdil", "score", "nope"),
        ("sdil", "positive_filter", "nope"),
        ("sdil", "distillation", "nope"),
        ("sdil", "adv_form", "nope"),
        ("sdil", "next_state", "no"),
        ("sdil", "negative_below", float("nan")),
        ("sdil", "n_skills", 2.5),
        ("evidence", "signals", "likelihood+luck"),
        ("evidence", "signals", "likelihood+likelihood"),
        ("evidence", "good_share", 1.0),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(name, field, value, demos):
    made = (LEARNERS | {"evidence": Judge})[name](**{field: value})
    with pytest.raises(InputError, match=f"{name}: {field} must be"):
        made.fit(demos)


@pytest.mark.parametrize(
    ("learner", "field", "place"),
    [
        ("sdil", "signals", r"sdil\.Judge\(signals=\.\.\.\)"),
        ("sdil", "good_share", "sdil judge --good-share"),
        ("sdil", "memory", r"sdil\.WithoutCircles"),
        ("sdil", "value_weight", r"sdil\.ListenToValue"),
        ("scored-bc", "distance_updates", "sdil judge --distance-updates"),
    ],
)
def test_a_field_that_has_moved_says_where_to(learner, field, place):
    with pytest.raises(InputError, match=f"has no field '{field}' any more.*{place}"):
        LEARNERS[learner](**{field: 1})


def test_patience_and_limits_are_counted_in_updates(demos):
    epochs = []
    BC(min_updates=100, patience=50, max_updates=300).fit(demos, seed=0, on_epoch=epochs.append)
    batches = -(-demos.take_clean(24, seed=0).all.n_steps // 256)
    assert len(epochs) * max(20, batches) <= 340


@pytest.mark.parametrize(
    ("field", "value"),
    [("batch_size", 0), ("hidden", -1), ("learning_rate", 0.0), ("max_updates", 0)],
)
def test_impossible_hyperparameters_are_refused_by_name(learner, demos, field, value):
    assert field in vars(learner)
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
    logits = policy._network(windows.at(index)).detach()
    nll = {
        t: float(cross_entropy(logits * policy.temperature / t, windows.actions_at(index).long()))
        for t in TEMPERATURES
    }
    assert nll[1.0] == pytest.approx(min(losses), abs=1e-5)
    assert policy.temperature == min(nll, key=lambda t: nll[t])
    probs = policy.action_probs(windows.at(index))
    softer = -probs[index, windows.actions_at(index)].log().mean()
    assert float(softer) == pytest.approx(min(nll.values()), abs=1e-5)


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


@pytest.mark.parametrize("kind", [*LEARNERS.values(), *JUDGES.values()], ids=lambda kind: kind.name)
def test_what_is_no_demonstrations_is_refused_in_a_sentence(kind, demos):
    name = kind.name
    not_called = r"needs Demonstrations, not the method clean_only itself; call it: clean_only\("
    with pytest.raises(InputError, match=rf"^{name} {not_called}"):
        kind().fit(demos.clean_only)
    with pytest.raises(InputError, match=rf"^{name}: valid {not_called}"):
        kind().fit(demos, valid=demos.clean_only)
    with pytest.raises(InputError, match=rf"^{name} needs Demonstrations, not list$"):
        kind().fit([*demos.clean])


def test_so_it_is_by_learners_and_judges_of_ones_own(demos):
    for checked in (check, check_judge):
        with pytest.raises(InputError, match=r"needs Demonstrations, not the method split itself"):
            checked(demos.split, BC(), 0)
