from __future__ import annotations

import warnings

import numpy as np
import pytest

import sdil
from sdil.errors import InputError
from sdil.evaluation.rollout import rollout

pytest.importorskip("metaworld", reason='needs Meta-World: pip install "sdil[control]"')

from sdil.tasks import sawyer, sawyer_people

NAMES = ("pick-place", "drawer-open")


@pytest.fixture(scope="module", params=NAMES)
def collected(request):
    return request.param, sdil.get_task(request.param).collect(clean=2, noisy=3, seed=0)


def test_clean_episodes_arrive_and_defects_are_labelled(collected):
    name, (demos, truth) = collected
    truth.check_fits(demos)
    assert all(t.terminated for t in demos.clean)
    for t in demos.clean:
        assert t.rewards.sum() == pytest.approx(1 - 0.9 * len(t) / sawyer.MAX_STEPS)
        gap = np.linalg.norm(t.observations[-1, 4:7] - t.observations[-1, 7:])
        assert gap <= sawyer.NEAR[name] + 1e-6
    assert all(g.all() for g in truth.clean_good)
    told, good = np.concatenate(truth.noisy_segment), np.concatenate(truth.noisy_good)
    np.testing.assert_array_equal(good, told == 0)
    assert 0.2 < good.mean() < 0.9
    assert len(set(told.tolist())) > 2


def test_what_was_done_can_be_done_again_in_the_environment(collected):
    """A moment and an action decide the next moment, whatever the simulator did in between."""
    name, (demos, _) = collected
    world = sawyer.simulator(name)
    draw = np.random.default_rng([0, 1])
    rng = np.random.default_rng(draw.integers(2**63))
    moment, trajectory = world.begin(int(rng.integers(2**31))), demos.noisy[0]
    other = world.begin(5)
    for t, action in enumerate(trajectory.actions[:40]):
        np.testing.assert_allclose(moment.seen, trajectory.observations[t], atol=1e-6)
        moment = world.step(moment, action)
        other = world.step(other, -action)


@pytest.mark.parametrize("name", NAMES)
def test_the_script_arrives_in_the_environment(name):
    class Script:
        def predict(self, seen, state=None, episode_start=None, deterministic=True):
            return np.stack(
                [sawyer_people.follow_script(name, s.astype(float)) for s in seen]
            ), None

    ran = rollout(Script(), name, episodes=2, seed=0, n_envs=2)
    assert ran.successes.all()
    np.testing.assert_allclose(ran.rewards, 1 - 0.9 * ran.lengths / sawyer.MAX_STEPS)


def test_the_script_is_meta_worlds_own():
    from metaworld.policies import SawyerDrawerOpenV3Policy, SawyerPickPlaceV3Policy

    theirs = {"pick-place": SawyerPickPlaceV3Policy(), "drawer-open": SawyerDrawerOpenV3Policy()}
    rng = np.random.default_rng(0)
    for name, policy in theirs.items():
        for near in (0.3, 0.05, 0.01):
            for _ in range(20):
                thing = np.array([0.0, 0.7, 0.02])
                seen = np.concatenate(
                    [thing + near * rng.normal(size=3), [rng.random()], thing, [0.1, 0.8, 0.2]]
                )
                whole = np.concatenate([seen[:7], np.zeros(29), seen[7:]])
                with warnings.catch_warnings():  # its gains leave the action space
                    warnings.simplefilter("ignore", UserWarning)
                    wanted = np.clip(policy.get_action(whole), -1, 1)
                np.testing.assert_allclose(
                    sawyer_people.follow_script(name, seen), wanted, atol=1e-6
                )


def test_it_is_drawn_from_what_is_seen(collected):
    _, (demos, _) = collected
    picture = sawyer.Sawyer.draw(demos.clean[0].observations[0])
    assert picture.shape == (192, 160, 3)
    colours = {tuple(c) for c in picture.reshape(-1, 3).tolist()}
    assert {(40, 90, 200), (200, 60, 50), (90, 180, 100)} <= colours


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expert": "ppo"}, "no ppo agent"),
        ({"noise": "paper"}, "no noise 'paper'"),
        ({"clean_random_steps": 0.1}, "no share of random steps"),
    ],
)
def test_what_it_has_not_is_said(options, message):
    with pytest.raises(InputError, match=message):
        sdil.get_task("pick-place").collect(clean=1, noisy=1, seed=0, **options)


def test_before_reset_nothing_can_be_done():
    env = sawyer.Sawyer("pick-place")
    with pytest.raises(InputError, match="call reset"):
        env.step(np.zeros(4))


def test_the_camera_sees_the_same_episodes():
    try:
        sawyer.simulator("pick-place").picture(sawyer.simulator("pick-place").begin(0))
    except InputError as error:
        pytest.skip(f"no OpenGL here: {error}")
    numbers, _ = sdil.get_task("pick-place").collect(clean=1, noisy=0, seed=7)
    seen, _ = sdil.get_task("pick-place-images").collect(clean=1, noisy=0, seed=7)
    np.testing.assert_array_equal(numbers.clean[0].actions, seen.clean[0].actions)
    frames = seen.clean[0].observations
    assert frames.shape == (len(numbers.clean[0]) + 1, 64, 64, 3)
    moved = (frames[0] != frames[-1]).any(2).mean()
    assert 0.05 < moved < 0.9  # the arm, but not the table
    blue = (frames[..., 2] > 200) & (frames[..., 0] < 60) & (frames[..., 1] < 60)
    assert blue[0].any()  # the goal is where this episode has it
    env = sawyer.Sawyer("pick-place", images=True)
    first, _ = env.reset(seed=1)
    other, _ = sawyer.Sawyer("pick-place", images=True).reset(seed=2)
    assert first in env.observation_space
    assert (first != other).any()
    again, _ = env.reset(seed=1)
    np.testing.assert_array_equal(first, again)


def test_without_opengl_one_sentence_says_what_to_install(monkeypatch):
    def no_renderer(*_):
        raise RuntimeError("no display")

    world = sawyer.Simulator("pick-place")
    monkeypatch.setattr(world.mujoco, "Renderer", no_renderer)
    with pytest.raises(InputError, match=r"libosmesa6.*no display"):
        world.picture(world.begin(0))
