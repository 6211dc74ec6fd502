"""Pictures: what every learner and judge makes of them, through one encoder or by its own eyes."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from test_training import SELDOM, SHORT, equal, weights
from torch import nn
from walking import KINDS, Corridor, walks

import sdil
from sdil import BC, SDIL, InputError, Judge
from sdil.algorithms import JUDGES, LEARNERS, make_judge
from sdil.arguments import read_run
from sdil.cli import main
from sdil.networks import looking, seeing
from sdil.networks.eyes import Eyes, moved
from sdil.networks.observing import ObservationEncoder
from sdil.networks.policies import PlainNetwork
from sdil.observations import parts_of
from sdil.training import seeded
from sdil.windows import Windows

FEW = {"max_updates": 40, "min_updates": 20, "patience": 20}
QUICK = partial(Judge, **SHORT["evidence"])
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")


@pytest.fixture(autouse=True, scope="module")
def _look_briefly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "Looking", partial(looking.Looking, updates=50, hidden=16, side=12))
        seeing.forget_encoders()
        yield
        seeing.forget_encoders()


@pytest.fixture(scope="module")
def demos():
    return walks()


def everything(fitted):
    """All that was learned, its encoder too."""
    return {**weights(fitted), **nn_tensors(fitted)}


def nn_tensors(fitted):
    if fitted.encoder is None:
        return {}
    return {f"encoder.{k}": v for k, v in fitted.encoder.tensors().items()}


def quiet(fit, *arguments, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps leave skills unused
        return fit(*arguments, **named)


@pytest.mark.parametrize(
    "kind", [*KINDS[2:], *(pytest.param(k, marks=pytest.mark.slow) for k in KINDS[:2])]
)
def test_every_kind_of_picture_is_learned_from_saved_and_acted_on(kind, tmp_path):
    demos = walks(kind)
    policy = BC(**FEW).fit(demos, seed=0)
    assert policy.spaces == demos.spaces
    seen = demos.clean[0].observations
    action, _ = policy.predict(seen[0])
    assert action in (0, 1)
    several, _ = policy.predict(seen[:3])
    assert several.shape == (3,)
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    assert again.spaces == demos.spaces
    for a, b in zip(
        policy.log_likelihood(demos.noisy), again.log_likelihood(demos.noisy), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    assert again.predict(seen[:3])[0].tolist() == several.tolist()
    windows = Windows(demos.clean, policy.look_back)
    index = torch.arange(4)
    probs = policy.action_probs(windows.at(index))  # raw windows, as any user cuts them
    taken = probs.gather(1, windows.actions_at(index)[:, None])[:, 0].log()
    np.testing.assert_allclose(taken, policy.log_likelihood(demos.clean)[0][:4], rtol=1e-6)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SELDOM)) for n in LEARNERS]
)
def test_every_learner_takes_pictures(name, demos, tmp_path):
    learner = LEARNERS[name](**{**SHORT[name], **({} if name == "mce-irl" else FEW)})
    more = {"truth": [t.actions == 1 for t in demos.noisy]} if learner.takes_truth else {}
    policy = quiet(learner.fit, demos, seed=0, **more)
    assert policy.predict(demos.noisy[0].observations)[0].shape == (9,)
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    assert equal(everything(policy), everything(again))
    assert again.spaces == demos.spaces
    if learner.judges_steps:
        for a, b in zip(policy.score(demos.noisy), again.score(demos.noisy), strict=True):
            assert np.isfinite(a.optimality).all()
            np.testing.assert_array_equal(a.optimality, b.optimality)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SELDOM)) for n in JUDGES]
)
def test_every_judge_takes_pictures(name, demos, tmp_path):
    judge = quiet(make_judge(name, **SHORT[name]).fit, demos, seed=0)
    judge.save(tmp_path)
    again = sdil.load_judge(tmp_path)
    assert again.spaces == demos.spaces
    for a, b in zip(judge.score(demos.noisy), again.score(demos.noisy), strict=True):
        assert len(a.optimality) == 8
        np.testing.assert_array_equal(a.optimality, b.optimality)


CASES = {
    "features": (BC(**FEW), {}),
    "trained": (BC(**FEW, images="trained", shift=1, look_back=1), {}),
    "sdil": (SDIL(**{**SHORT["sdil"], **FEW}), {}),
    "evidence": (QUICK(), {}),
}


@pytest.mark.parametrize(
    "name",
    [
        "features",
        "trained",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("sdil", "evidence")),
    ],
)
def test_the_same_seed_gives_the_same_and_so_does_going_on(name, demos):
    learner, more = CASES[name]
    states, phases = [], []

    def hear(epoch):
        states.append({k: v.clone() for k, v in epoch.state().items()})
        phases.append(epoch.phase)

    seeing.forget_encoders()
    first = quiet(learner.fit, demos, seed=0, on_epoch=hear, **more)
    assert (looking.PHASE in phases) == (name != "trained")
    for at in (None, 0, len(states) // 2, len(states) - 1):
        seeing.forget_encoders()  # so that nothing is known from before
        again = quiet(learner.fit, demos, seed=0, resume=None if at is None else states[at], **more)
        assert equal(everything(first), everything(again)), at
    seeing.forget_encoders()
    other = quiet(learner.fit, demos, seed=1, **more)
    assert not equal(everything(first), everything(other))


@pytest.mark.slow
def test_an_encoder_is_learned_once_for_judge_learner_and_question(monkeypatch):
    seeing.forget_encoders()
    demos = walks(clean=20, noisy=20)
    learned = []
    learn = seeing.learn_to_see
    monkeypatch.setattr(seeing, "learn_to_see", lambda *a, **k: learned.append(1) or learn(*a, **k))
    judge = QUICK().fit(demos, seed=0)
    told = quiet(SDIL(**{**SHORT["sdil"], **FEW}).fit, demos, seed=0, judge=judge)
    own = quiet(SDIL(**{**SHORT["sdil"], **FEW}).fit, demos, seed=0)
    curated = sdil.curate(
        demos, judge.score(demos.noisy), keep_share=0.5, cross_judged=judge.cross_judged
    )
    sdil.did_it_help(demos, curated, seed=0)
    assert learned == [1]
    assert told.judge.encoder is judge.encoder is told.encoder
    assert equal(everything(told), everything(own))  # a judge of before and its own are the same
    assert judge.cross_judged.fingerprint == demos.fingerprint(rewards=False)
    assert curated.by_fold is not None


def test_vectors_never_meet_an_encoder(monkeypatch, make_episode):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr(seeing, "learn_to_see", refuse)
    plain = sdil.Demonstrations([make_episode(5, seed=i, id=str(i)) for i in range(4)])
    policy = BC(**FEW).fit(plain, seed=0)
    assert policy.encoder is None
    assert policy.sight() == ({}, {})
    with pytest.raises(InputError, match="would not look through"):
        BC(**FEW).fit(plain, seed=0, features=lambda images: images)


def test_a_frame_has_the_same_numbers_whoever_is_beside_it(demos):
    encoder = seeing.see(demos, seed=0).encoder
    rows = np.array(demos.all.observations)
    fresh = partial(ObservationEncoder, encoder.space, encoder.eyes)
    together = fresh()(rows)
    alone = np.concatenate([fresh()(rows[i : i + 1]) for i in range(40)])
    backwards = fresh()(rows[::-1].copy())[::-1]
    np.testing.assert_array_equal(together[:40], alone)
    np.testing.assert_array_equal(together, backwards)
    assert len(np.unique(together, axis=0)) == len(np.unique(rows.reshape(len(rows), -1), axis=0))
    assert together.dtype == np.float32


def test_a_subset_is_encoded_as_the_whole_is(demos):
    encoder = seeing.see(demos, seed=0).encoder
    whole = encoder.demonstrations(demos)
    some = encoder.trajectories(demos.noisy.subset([7, 2]))
    for one, at in zip(some, (7, 2), strict=True):
        np.testing.assert_array_equal(one.observations, whole.noisy[at].observations)
        assert one.id == demos.noisy[at].id
        np.testing.assert_array_equal(one.actions, demos.noisy[at].actions)
    assert len(some.observations) == 18
    assert encoder.trajectories(some) is some  # already vectors


def brightness(images):
    return images.reshape(len(images), -1, 3).mean(1)


class Rows(nn.Module):
    def forward(self, images):
        return images.float().mean((2, 3))


@pytest.mark.parametrize(("features", "size"), [(brightness, 3), (Rows(), 12)])
def test_features_of_the_users_own(features, size, demos, tmp_path):
    policy = BC(**FEW).fit(demos, seed=0, features=features)
    assert policy.inner_spaces.observation.shape == (size,)
    policy.save(tmp_path)
    with pytest.raises(InputError, match=r"features of yours .*; load it with features="):
        sdil.load_policy(tmp_path)
    again = sdil.load_policy(tmp_path, features=features)
    seen = demos.clean[0].observations
    assert again.predict(seen)[0].tolist() == policy.predict(seen)[0].tolist()


def test_features_that_make_no_sense_are_refused(demos):
    with pytest.raises(InputError, match=r"must have the shape \(1, F\), not \(1, 12, 12, 3\)"):
        BC(**FEW).fit(demos, features=lambda images: images)
    with pytest.raises(InputError, match="must be finite numbers of shape"):
        BC(**FEW).fit(demos, features=lambda images: np.full((len(images), 2), np.nan))
    with pytest.raises(InputError, match="named module:function"):
        BC(**FEW).fit(demos, features="nothing")
    with pytest.raises(InputError, match="the encoder is one of"):
        BC(**FEW).fit(walks("grey"), encoder=seeing.see(demos, seed=0).encoder)


def test_who_practises_sees_the_environment_through_the_encoder(demos):
    learner = LEARNERS["gail"](**{**SHORT["gail"], "env_steps": 64, "n_envs": 2, "round_steps": 8})
    policy = learner.fit(demos, seed=0, env=Corridor)
    assert policy.learner == "gail"
    assert sdil.evaluate(policy, Corridor, episodes=3, n_envs=2).n_episodes == 3


def test_a_circle_is_known_by_its_pictures(demos):
    """Rules of acting that know a state by its return work on pictures."""
    policy = BC(**FEW).fit(demos, seed=0).acting_by([sdil.WithoutCircles(4)])
    seen, state, done = demos.clean[0].observations[0], None, []
    for _ in range(2):
        action, state = policy.predict(seen, state)
        done.append(int(action))
    assert sorted(done) == [0, 1]  # the same place again: something else


@pytest.mark.parametrize("more", [{}, {"chunk": 2, "act_on": 2}, {"look_back": 2}])
def test_convolutions_are_trained_with_bc(more, demos, tmp_path):
    policy = BC(**FEW, images="trained", **more).fit(demos, seed=0)
    assert policy.encoder is None
    begun = Eyes(demos.spaces.observation).state_dict()
    assert {f"eyes.{k}" for k in begun} <= set(policy.tensors())
    policy.save(tmp_path)
    again = sdil.load_policy(tmp_path)
    seen = demos.clean[0].observations
    assert again.predict(seen)[0].tolist() == policy.predict(seen)[0].tolist()
    with seeded(0):
        first = PlainNetwork(demos.spaces, policy._architecture).state_dict()
    name = "eyes.each.0.early.0.weight"
    assert not torch.equal(policy.tensors()[name], first[name])  # they learn


def test_pictures_are_moved_by_pixels_with_their_edges_repeated():
    (part,) = parts_of(walks("grey").spaces.observation)
    images = torch.arange(144, dtype=torch.uint8).view(1, 12, 12)
    up = moved(images, part, torch.tensor([[1, 0]]))
    assert torch.equal(up[0, :-1], images[0, 1:])
    assert torch.equal(up[0, -1], images[0, -1])
    left = moved(images, part, torch.tensor([[0, -2]]))
    assert torch.equal(left[0, :, 2:], images[0, :, :-2])
    assert torch.equal(left[0, :, 0], images[0, :, 0])
    (first,) = parts_of(walks("first").spaces.observation)
    colours = images[:, None].expand(-1, 3, -1, -1)
    assert torch.equal(moved(colours, first, torch.tensor([[1, 0]]))[0, 2], up[0])


def test_a_device_is_named_and_there(demos):
    with pytest.raises(InputError, match="a device is one of auto, cpu, cuda, not 'tpu'"):
        BC(**FEW).fit(demos, device="tpu")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match="there is no GPU that PyTorch can use here"):
            BC(**FEW).fit(demos, device="cuda")
        with pytest.raises(InputError, match="there is no GPU"):
            QUICK().fit(demos, device="cuda")


def test_auto_without_a_gpu_is_the_cpu(demos):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    one, two = (BC(**FEW).fit(demos, seed=0, device=d) for d in ("auto", "cpu"))
    assert equal(everything(one), everything(two))
    judge = QUICK().fit(demos, seed=0)
    a, b = (judge.score(demos.noisy, device=d)[0].optimality for d in ("auto", None))
    np.testing.assert_array_equal(a, b)


@needs_gpu
@pytest.mark.parametrize("name", CASES)
def test_a_gpu_gives_the_same_twice_and_goes_on(name, demos):
    learner, more = CASES[name]
    states = []

    def hear(epoch):
        states.append({k: v.clone() for k, v in epoch.state().items()})

    seeing.forget_encoders()
    first = quiet(learner.fit, demos, seed=0, device="cuda", on_epoch=hear, **more)
    for resume in (None, states[len(states) // 2]):
        seeing.forget_encoders()
        again = quiet(learner.fit, demos, seed=0, device="cuda", resume=resume, **more)
        assert equal(everything(first), everything(again))
    assert all(t.device.type == "cpu" for t in everything(first).values())


@needs_gpu
def test_a_gpu_sees_what_the_cpu_sees(demos):
    encoder = seeing.see(demos, seed=0).encoder
    fresh = partial(ObservationEncoder, encoder.space, encoder.eyes)
    rows = np.array(demos.all.observations)
    with sdil.cores.computing_on("cuda"):
        there = fresh()(rows)
    np.testing.assert_allclose(there, fresh()(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("after", [1, 2])  # while it learns to see, and later
def test_a_run_on_pictures_is_resumed_and_read_again(after, demos, tmp_path):
    data, whole, cut = (tmp_path / name for name in ("data", "whole", "cut"))
    sdil.save_demonstrations(demos, data)
    seeing.forget_encoders()
    learner = BC(**FEW)
    done = sdil.train(learner, data, whole, seed=0, device="auto")
    heard = []

    def stop(epoch):
        heard.append(epoch.phase)
        if len(heard) == after:
            raise KeyboardInterrupt

    seeing.forget_encoders()
    with pytest.raises(KeyboardInterrupt):
        sdil.train(learner, data, cut, seed=0, on_epoch=stop)
    seeing.forget_encoders()
    gone_on = sdil.resume(cut)
    assert equal(everything(done.result), everything(gone_on.result))
    assert equal(everything(done.result), everything(sdil.load_policy(whole)))
    assert read_run(whole)["device"] in ("cpu", "cuda")


def test_the_command_line_judges_scores_and_evaluates_pictures(demos, tmp_path, capsys):
    data, out = tmp_path / "data", tmp_path / "judged"
    sdil.save_demonstrations(walks(clean=12, noisy=12), data)
    few = ["--clone-updates", "20", "--distance-updates", "20", "--outcome-updates", "20"]
    judging = ["judge", "evidence", "--data", str(data), "--out", str(out), *few]
    assert main([*judging, "--device", "auto"]) == 0
    table = tmp_path / "scores.csv"
    assert main(["score", str(out), "--out", str(table), "--device", "auto"]) == 0
    assert len(table.read_text().splitlines()) == 1 + 12 * 8
    capsys.readouterr()
    if not torch.cuda.is_available():
        assert main([*judging, "--device", "cuda", "--overwrite"]) != 0
        assert "there is no GPU" in capsys.readouterr().err


def test_pictures_that_bytes_do_not_hold_are_refused(demos):
    policy = BC(**FEW).fit(demos, seed=0)
    frames = demos.clean[0].observations[:2]
    for wrong in (frames / 255.0, frames.astype(int) - 300):
        with pytest.raises(InputError, match="from 0 to 255"):
            policy.predict(wrong)
    whole, _ = policy.predict(frames.astype(np.float64))
    np.testing.assert_array_equal(whole, policy.predict(frames)[0])


def test_a_part_that_is_not_finite_is_refused():
    policy = BC(**FEW).fit(walks("parts"), seed=0)
    seen = {"camera": np.zeros((12, 12, 3), np.uint8), "place": np.array([np.nan], np.float32)}
    with pytest.raises(InputError, match=r"part 'place'.*nan"):
        policy.predict(seen)


def numbers_only():
    """Observations of two parts without a picture, one of them a single number."""
    rng = np.random.default_rng(0)
    episodes = [
        sdil.Trajectory(
            {"height": rng.normal(size=9), "place": rng.normal(size=(9, 2))},
            rng.integers(2, size=8),
        )
        for _ in range(8)
    ]
    return sdil.Demonstrations(episodes[:4], episodes[4:])


def test_parts_without_pictures_are_learned_from_and_gone_on_with():
    demos, states, again = numbers_only(), [], []
    learner = BC(**FEW)
    fit = partial(learner.fit, demos, valid=demos, seed=0)
    whole = fit(on_epoch=lambda e: states.append(e.state()))
    assert len(states) > 1
    resumed = fit(resume=states[0], on_epoch=lambda e: again.append(e.index))
    assert again[0] == 2
    assert equal(weights(whole), weights(resumed))


def test_an_encoder_leaves_the_callers_random_numbers_alone(demos):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    ObservationEncoder(demos.spaces.observation)
    assert torch.equal(torch.rand(3), expected)
