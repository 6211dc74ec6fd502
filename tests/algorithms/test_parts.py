"""`Dict` observations from end to end: what is learned from them acts in their own environment, and
a judge of them, or of pictures, still knows its demonstrations after it was saved."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from test_training import SHORT
from walking import walks

import sdil
from sdil import BC, Judge, Label
from sdil.evaluation.rollout import episode_seeds, rollout
from sdil.explanation.world import World
from sdil.judges.health import health_of
from sdil.networks import looking, seeing
from sdil.simulators import GymSimulator

FEW = {"max_updates": 60, "min_updates": 30, "patience": 30}
QUICK = partial(Judge, **SHORT["evidence"])
GOAL, STEPS = 6, 10


class Carry(gym.Env):
    """To the goal, which is at either end, and shut is good. It fills the same arrays at every
    step, one of another type than its space says."""

    observation_space = gym.spaces.Dict(
        {
            "hand": gym.spaces.Box(0, 10, (2,), np.float32),
            "box": gym.spaces.Dict(
                {
                    "at": gym.spaces.Box(0, 10, (1,), np.float32),
                    "held": gym.spaces.Box(0, 1, (1,), np.uint8),
                }
            ),
        }
    )
    action_space: gym.Space[Any] = gym.spaces.MultiDiscrete([2, 2])

    def __init__(self) -> None:
        box = {"at": np.zeros(1, np.float64), "held": np.zeros(1, np.uint8)}
        self.seen = {"hand": np.zeros(2, np.float32), "box": box}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.place, self.held, self.clock = int(self.np_random.integers(2, GOAL - 1)), 0, 0
        self.goal = GOAL * int(self.np_random.integers(2))
        return self.look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        move, self.held = (int(part) for part in action)
        self.place = min(GOAL, max(0, self.place + 2 * move - 1))
        self.clock += 1
        won = self.place == self.goal
        return self.look(), float(won + self.held), won, self.clock >= STEPS, {"is_success": won}

    def look(self) -> dict[str, Any]:
        self.seen["hand"][:] = self.goal, self.clock
        self.seen["box"]["at"][:], self.seen["box"]["held"][:] = self.place, self.held
        return self.seen


class Turn(Carry):
    """The same with listed actions."""

    action_space = gym.spaces.Discrete(2)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        return super().step((action, action))


def carried(kind: type[Carry] = Carry, clean: int = 20, noisy: int = 20) -> sdil.Demonstrations:
    """Clean ones mostly carry to the goal, noisy ones do as they like."""
    env, rng = kind(), np.random.default_rng(0)

    def one(good: bool, number: int) -> sdil.Trajectory:
        seen, done, over = [kept(env.reset(seed=number)[0])], [], False
        while not over:
            action = rng.integers(2, size=2)
            if good and rng.random() < 0.9:
                action = np.array([env.goal > 0, 1], np.int64)
            done.append(action if kind is Carry else action[0])
            after, _, terminated, cut_off, _ = env.step(done[-1])
            seen.append(kept(after))
            over = terminated or cut_off
        rows = sdil.pack_observations(env.observation_space, seen)
        name = f"{'clean' if good else 'noisy'} {number}"
        return sdil.Trajectory(rows, np.stack(done), terminated=terminated, id=name)

    spaces = sdil.Spaces(env.observation_space, env.action_space)
    episodes = [one(i < clean, i) for i in range(clean + noisy)]
    return sdil.Demonstrations(episodes[:clean], episodes[clean:], spaces)


def kept(seen: dict[str, Any]) -> dict[str, Any]:
    return {k: kept(v) if isinstance(v, dict) else v.copy() for k, v in seen.items()}


@pytest.fixture(scope="module", params=[0, 2])
def policy(request):
    return BC(**FEW, look_back=request.param).fit(carried(noisy=0), seed=0)


def alone(policy, seed):
    """An episode by hand: its rewards and its length."""
    env, state, earned, over = Carry(), None, [], False
    observation, _ = env.reset(seed=int(seed))
    while not over:
        action, state = policy.predict(observation, state)
        observation, reward, terminated, cut_off, _ = env.step(action)
        earned.append(reward)
        over = terminated or cut_off
    return sum(earned), len(earned)


@pytest.mark.parametrize("acting", ["default", "greedy", "sampled"])
def test_a_policy_of_parts_acts_in_their_environment(policy, acting):
    run = partial(sdil.evaluate, policy, Carry, episodes=12, seed=3, acting=acting)
    found = run(n_envs=5)
    if acting == "sampled":
        again = run(n_envs=5).episodes
    else:
        again = run(n_envs=1).episodes
        expected = [alone(policy, seed) for seed in episode_seeds(3, 12)]
        assert list(zip(again.rewards, again.lengths, strict=True)) == expected
    np.testing.assert_array_equal(found.episodes.rewards, again.rewards)
    np.testing.assert_array_equal(found.episodes.lengths, again.lengths)
    assert found.success_rate > 0.5
    assert len(set(found.episodes.lengths.tolist())) > 1  # so that some end before others


def test_a_predictor_that_is_not_ours_is_given_a_dictionary_of_batches():
    given = []

    class Right:
        def predict(self, observation, state=None, episode_start=None, deterministic=True):
            given.append(kept(observation))
            return np.ones((len(observation["box"]["at"]), 2), int), None

    found = rollout(Right(), Carry, episodes=5, seed=0, n_envs=3)
    goals = [Carry().reset(seed=int(s))[0]["hand"][0] for s in found.seeds]
    assert found.successes.tolist() == [goal == GOAL for goal in goals]
    assert 0 < found.successes.sum() < 5
    first = given[0]
    assert list(first) == ["box", "hand"]
    assert first["hand"].shape == (3, 2)
    assert first["box"]["held"].dtype == np.uint8
    starts = [float(Carry().reset(seed=int(s))[0]["box"]["at"][0]) for s in episode_seeds(0, 3)]
    assert first["box"]["at"][:, 0].tolist() == starts


def test_who_practises_in_an_environment_of_parts_sees_packed_rows():
    envs = GymSimulator([Turn() for _ in range(3)], seed=0)
    space = Turn.observation_space
    begin = sdil.unpack_observations(space, envs.observation)["box/at"]
    moved = envs.step(np.array([1, 1, 0]))
    after = sdil.unpack_observations(space, moved.after)
    expected = np.clip(begin[:, 0] + [1, 1, -1], 0, GOAL)
    np.testing.assert_array_equal(after["box/at"][:, 0], expected)
    assert after["box/held"][:, 0].tolist() == [1, 1, 0]
    for step in range(STEPS - 1):
        last = envs.step(np.array([0, 0, 1]) if step % 2 == 0 else np.array([1, 1, 0]))
    assert last.cut_off.all()
    assert sdil.unpack_observations(space, last.after)["hand"][:, 1].tolist() == [STEPS] * 3
    assert sdil.unpack_observations(space, last.observation)["hand"][:, 1].tolist() == [0] * 3


def test_a_skill_walks_in_an_environment_of_parts(monkeypatch):
    class Right:
        spaces = sdil.Spaces(Turn.observation_space, Turn.action_space)

        def probs_with_skill(self, observations, skills):
            return np.eye(2)[skills]

    monkeypatch.setitem(gym.registry, "Turn-v0", gym.envs.registration.EnvSpec("Turn-v0", Turn))
    walks = World("Turn-v0").walk(Right(), np.array([0, 1]), per_skill=1, seed=0)
    lasts = [w.trajectory.observations[-1] for w in walks]
    places = sdil.unpack_observations(Turn.observation_space, np.stack(lasts))["box/at"][:, 0]
    assert places.tolist() == [0, GOAL]


def numbers_of(demos: sdil.Demonstrations) -> sdil.Demonstrations:
    """The same walks, of which only the numbers are seen."""

    def one(walk: sdil.Trajectory) -> sdil.Trajectory:
        found = sdil.unpack_observations(demos.spaces.observation, walk.observations)
        seen = {"walker": {"place": found["place"], "far": found["place"] > 5}}
        return sdil.Trajectory(seen, walk.actions, id=walk.id)

    return sdil.Demonstrations(list(map(one, demos.clean)), list(map(one, demos.noisy)))


@pytest.fixture(scope="module", params=["numbers", "parts", "last"])
def judged(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "Looking", partial(looking.Looking, updates=50, hidden=16, side=12))
        seeing.forget_encoders()
        kind = request.param
        demos = walks("parts" if kind == "numbers" else kind, clean=20, noisy=20)
        demos = numbers_of(demos) if kind == "numbers" else demos
        yield demos, QUICK().fit(demos, seed=0)
        seeing.forget_encoders()


def labels_of(demos):
    said = ("good", "bad")
    return [Label("noisy", demos.noisy[i].id, 0, 1, said[i % 2]) for i in range(8)]


def test_a_judge_that_was_saved_knows_its_demonstrations(judged, tmp_path):
    demos, judge = judged
    own = demos.fingerprint(rewards=False)
    judge.save(tmp_path / "first")
    loaded = sdil.load_judge(tmp_path / "first")
    loaded.save(tmp_path / "second")
    for known in (judge, loaded, sdil.load_judge(tmp_path / "second")):
        assert known.cross_judged.fingerprint == own
        scores = known.score(demos.noisy)
        curated = sdil.curate(demos, scores, keep_share=0.5, cross_judged=known.cross_judged)
        assert curated.by_fold is not None
    health, again = (health_of(j, demos, fitted_to_these=True) for j in (judge, loaded))
    assert health.clean_steps == demos.clean.n_steps  # they are known
    assert again == health


def test_labels_are_told_to_a_judge_before_it_is_saved_and_after(judged, tmp_path):
    demos, judge = judged
    own, labels = demos.fingerprint(rewards=False), labels_of(demos)
    judge.save(tmp_path / "untold")
    judge.tell(labels).save(tmp_path / "told")
    before, after = judge.tell(labels), sdil.load_judge(tmp_path / "untold").tell(labels)
    read = sdil.load_judge(tmp_path / "told")
    for told in (before, after, read):
        assert told.spaces == demos.spaces
        assert told.cross_judged.fingerprint == own
        np.testing.assert_array_equal(told.cross_judged.good, before.cross_judged.good)
        assert told.labels == before.labels
        for a, b in zip(told.score(demos.noisy), before.score(demos.noisy), strict=True):
            np.testing.assert_array_equal(a.optimality, b.optimality)
        back = told.tell([])
        assert back.cross_judged.fingerprint == own
        np.testing.assert_array_equal(back.cross_judged.good, judge.cross_judged.good)
    assert not np.array_equal(before.cross_judged.good, judge.cross_judged.good)


def test_a_policy_that_was_given_a_saved_judge_has_one_that_knows(judged, tmp_path):
    demos, judge = judged
    judge.save(tmp_path / "judge")
    loaded = sdil.load_judge(tmp_path / "judge")
    learner = sdil.ScoredBC(**{**SHORT["scored-bc"], **FEW})
    given, saved = (learner.fit(demos, seed=0, judge=j) for j in (judge, loaded))
    assert given.trusted == saved.trusted
    saved.save(tmp_path / "policy")
    for policy in (given, saved, sdil.load_policy(tmp_path / "policy")):
        assert policy.judge.cross_judged.fingerprint == demos.fingerprint(rewards=False)
