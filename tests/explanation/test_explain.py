from __future__ import annotations

import io
from base64 import b64decode
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import sdil
from sdil import BC, DWBC, SDIL, Demonstrations, InputError, Trajectory
from sdil.explanation.explain import explain
from sdil.explanation.record import Explanation
from sdil.explanation.world import World
from sdil.segmentation import segments_of
from sdil.truth import Truth

pytestmark = pytest.mark.xdist_group("explain")  # dear fixtures: one worker makes them

SHORT = SDIL(
    discovery_epochs=4,
    discovery_min_updates=1,
    pu_interval=2,
    min_updates=20,
    patience=10,
    max_updates=30,
    n_skills=4,
)


@pytest.fixture(scope="module")
def policy(demos):
    return SHORT.fit(demos, seed=0)


@pytest.fixture(scope="module")
def record(policy, fourrooms) -> Explanation:
    demos, truth = fourrooms
    told = []
    found = explain(
        policy,
        demos,
        about={"run": "this", "warnings": ["careful"]},
        environment="fourrooms",
        truth=truth,
        compare=[replace(SHORT, mi_weight=0.0).fit(demos, seed=0)],
        also={"again": policy},
        on_progress=lambda done, total, what: told.append((done, total, what)),
    )
    assert told[-1] == (told[-1][1], told[-1][1], "done")
    assert all(done <= total for done, total, _ in told)
    return found


def test_scores_and_segments_are_the_policys(record, policy, demos):
    judged = policy.score(demos.all)
    np.testing.assert_allclose(
        record.scores.optimality, np.concatenate([s.optimality for s in judged]), atol=1e-6
    )
    starts = record.episodes.offsets
    for e in (0, 5, len(judged) - 1):
        segments = segments_of(judged[e])
        numbers = np.repeat(np.arange(len(segments)), [s.stop - s.start for s in segments])
        assert record.scores.segment[starts[e] : starts[e + 1]].tolist() == numbers.tolist()
    assert record.episodes.is_clean.sum() == len(demos.clean)
    assert record.episodes.ids[len(demos.clean)] == demos.noisy.ids[0]


def test_skill_shares_are_means_of_means(record, policy, demos):
    means = [s.skill_probs.mean(0) for s in policy.score(demos.clean)]
    assert record.skills.clean_share == pytest.approx(np.mean(means, 0))
    assert record.skills.noisy_share.sum() == pytest.approx(1)
    chosen = record.scores.skill == 1
    if chosen.any():
        share = np.bincount(record.episodes.actions[chosen], minlength=7) / chosen.sum()
        assert record.skills.action_probs[1] == pytest.approx(share)


def test_the_map_and_where_steps_lead(record, demos):
    assert record.walls.shape == (19, 19)
    assert record.walls[0].all()
    assert not record.walls[5, 9]  # the gap at column 9, row 5
    assert record.walls[9, 0]
    columns, rows = record.episodes.positions.T
    assert not record.walls[rows, columns].any()
    assert np.abs(record.episodes.moves).sum(1).max() == 1
    moved = record.episodes.moves.any(1)
    assert (record.episodes.actions[moved] == 2).all()
    first = demos.clean[0]
    end = first.observations[-1][149:151]
    last = record.episodes.offsets[1] - 1
    assert (record.episodes.positions[last] + record.episodes.moves[last]).tolist() == end.tolist()


def test_skills_held_fixed_are_shown_where_they_are_likeliest(record):
    liking = record.skills.clean_share - record.skills.noisy_share
    order = [f.skill for f in record.fixed_skills]
    assert sorted(order) == [0, 1, 2, 3]
    assert (np.diff(liking[order]) <= 0).all()
    for fixed in record.fixed_skills:
        assert fixed.action_counts.sum() >= len(fixed.steps) == len(fixed.moves)
        columns, rows, _ = fixed.steps.T
        assert not record.walls[rows, columns].any()
    assert sum(len(f.steps) for f in record.fixed_skills) > 0


def test_embeddings_of_both_runs(record):
    assert [e.label for e in record.embeddings] == ["lambda 1", "lambda 0"]
    for embedding in record.embeddings:
        assert len(embedding.points) == len(embedding.steps) == min(1_000, len(record.scores.skill))
        assert embedding.prototypes.shape == (4, 2)
        assert np.isfinite(embedding.points).all()


def test_the_same_run_twice_is_stable(record):
    assert record.stability["runs"] == ["this", "again"]
    assert record.stability["agreement"][0][1] == pytest.approx(1)
    assert record.stability["accuracy"][0][1] == pytest.approx(1)


def test_about_is_completed(record, demos, fourrooms):
    about = record.about
    assert about["n_steps_noisy"] == demos.noisy.n_steps
    assert about["warnings"][0] == "careful"
    good = np.concatenate(fourrooms[1].noisy_good)
    assert about["truth"]["share_good"] == pytest.approx(good.mean())
    assert 0 <= about["truth"]["ece"] <= 1


def test_frames_show_the_recorded_episode(record, demos):
    assert sum(name.startswith("noisy/") for name in record.frames) == 20
    name, frames = next(iter(record.frames.items()))
    episode = dict(zip(demos.clean.ids, demos.clean, strict=True))[name.removeprefix("clean/")]
    assert len(frames) == len(episode)
    column, row = episode.observations[0][149:151].astype(int)
    picture = np.asarray(picture_of(frames[0]))
    tile = picture.shape[0] // 19
    there = picture[row * tile : (row + 1) * tile, column * tile : (column + 1) * tile]
    assert (there[..., 0].astype(int) - there[..., 1] > 100).any()  # the agent is red


def picture_of(frame: str) -> Image.Image:
    return Image.open(io.BytesIO(b64decode(frame.partition(",")[2]))).convert("RGB")


def test_states_that_look_alike_are_told_apart_by_what_follows():
    task = sdil.get_task("doorkey-5x5")
    demos, _ = task.collect(clean=6, noisy=0, seed=3)
    world, table = World("doorkey-5x5"), task.table()
    assert len(table.looks[0]) < len(table)  # not every state is told by its look
    for episode in demos.clean:
        states = world._states_of(episode)
        assert (table.observe(states) == episode.observations[:-1]).all()
        assert (table.next_state[states[:-1], episode.actions[:-1]] == states[1:]).all()
    wrong = Trajectory(demos.clean[0].observations + 1, demos.clean[0].actions)
    assert world._states_of(wrong) is None
    world.close()


def test_long_episodes_are_thinned_out_evenly(fourrooms):
    world = World("fourrooms")
    episode = max(fourrooms[0].noisy, key=len)
    every = world.recorded(episode, 1_000)
    some = world.recorded(episode, 7)
    steps = np.arange(len(episode)) * 7 // len(episode)
    firsts = [int(np.flatnonzero(steps == i)[0]) for i in range(7)]
    assert some == [every[i] for i in firsts]
    world.close()


@pytest.mark.slow
def test_doorkey_has_clips_instead_of_a_map():
    demos, truth = sdil.get_task("doorkey-5x5").collect(clean=8, noisy=6, seed=0)
    policy = SHORT.fit(demos, seed=0)
    record = explain(policy, demos, about={}, environment="sdil/doorkey-5x5-v0", truth=truth)
    assert record.walls is None
    assert record.episodes.positions is None
    assert record.action_names[3] == "pick up"
    for fixed in record.fixed_skills:
        assert len(fixed.steps) == 0
        assert 0 < len(fixed.frames) <= 40
        assert fixed.action_counts.sum() > 0
    assert max(picture_of(record.fixed_skills[0].frames[0]).size) <= 192
    assert record.frames


class Corridor(gym.Env):
    """An environment of somebody else: no table, no map, and nothing to see but numbers."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = gym.spaces.Box(-100, 100, (3,), np.float32)
        self.action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(3, action, np.float32), 0.0, self.steps == 3, False, {}

    def render(self):
        return np.full((400, 200, 3), 50 * self.steps, np.uint8)


def test_any_environment_is_walked_in(make_episode):
    gym.register("test-sdil/corridor-v0", Corridor)
    try:
        demos = Demonstrations(
            [make_episode(6, seed=i) for i in range(4)],
            [make_episode(6, seed=10 + i) for i in range(4)],
        )
        with pytest.warns(UserWarning, match="skills are in use"):  # so few episodes
            policy = SHORT.fit(demos, seed=0)
        record = explain(policy, demos, about={}, environment="test-sdil/corridor-v0")
    finally:
        gym.registry.pop("test-sdil/corridor-v0")
    assert record.action_names == [f"action {i}" for i in range(4)]
    assert record.frames == {}
    assert record.about["truth"] is None
    for fixed in record.fixed_skills:
        assert fixed.action_counts.sum() == 5 * 3
        assert len(fixed.frames) == 3
        assert picture_of(fixed.frames[0]).size == (96, 192)


def test_a_learner_without_skills_has_scores_only(fourrooms):
    demos, truth = fourrooms
    policy = DWBC(min_updates=10, patience=5, max_updates=20).fit(demos, seed=0)
    record = explain(policy, demos, about={}, environment="fourrooms", truth=truth)
    assert record.skills is None
    assert record.scores.skill is None
    assert not record.embeddings
    assert not record.fixed_skills
    good = record.scores.optimality[: record.episodes.offsets[1]] > 0
    changes = 1 + np.flatnonzero(np.diff(good))
    numbers = np.searchsorted(changes, np.arange(len(good)), side="right")
    assert record.scores.segment[: len(good)].tolist() == numbers.tolist()


def test_one_clear_error_where_there_is_nothing_to_explain(demos, policy, fourrooms):
    plain = BC(max_updates=5).fit(demos, seed=0)
    with pytest.raises(InputError, match=r"bc does not judge steps"):
        explain(plain, demos, about={})
    with pytest.raises(InputError, match="a run to compare with: bc has no skills"):
        explain(policy, demos, about={}, compare=[plain])
    with pytest.raises(InputError, match="other: bc has no skills"):
        explain(policy, demos, about={}, also={"other": plain})
    truth = fourrooms[1]
    short = Truth(truth.clean_good[1:], truth.noisy_good)
    with pytest.raises(InputError, match="does not fit"):
        explain(policy, demos, about={}, truth=short)


@pytest.mark.slow
def test_steps_of_unknown_truth_are_left_out(policy, fourrooms):
    demos, truth = fourrooms

    def compared(noisy_good):
        known = Truth(clean_good=truth.clean_good, noisy_good=noisy_good)
        return explain(policy, demos, about={}, truth=known).about["truth"]

    half = [np.where(np.arange(len(g)) % 2, g, -1) for g in truth.noisy_good]
    assert compared(half)["share_good"] == pytest.approx(
        np.mean(np.concatenate([g[1::2] for g in truth.noisy_good]))
    )
    assert compared([np.full(len(g), -1) for g in truth.noisy_good]) is None
