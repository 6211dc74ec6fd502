from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil.errors import InputError
from sdil.evaluation.rollout import rollout
from sdil.tasks.maze import PUSHED_IN, Maze

pytest.importorskip("ogbench", reason='needs OGBench: pip install "sdil[control]"')

from sdil.tasks import pointmaze, pointmaze_people

TASK = sdil.get_task("pointmaze")
CORNER = Maze(
    walls=np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]], bool),
    unit=2.0,
    origin=(0.0, 0.0),
    radius=0.5,
)


@pytest.fixture(scope="module")
def interrupted():
    return TASK.collect(clean=6, noisy=12, seed=0, noise="segments")


def test_the_way_round_a_wall_is_as_long_as_by_hand():
    """From below a square of side 2 to the side of it: two straight lines that touch the corner."""
    below, beside = np.array([[2.0, 0.4]]), np.array([[[3.6, 2.0]]])
    lengths, heading = CORNER.look(below, beside)
    bends = CORNER.bends[np.linalg.norm(CORNER.bends - [3.0, 1.0], axis=1) < 1.0]
    assert len(bends) == 2
    one, other = sorted(bends.tolist(), key=lambda bend: bend[1])
    by_hand = np.linalg.norm(one - below[0]) + np.hypot(*np.subtract(one, other))
    assert lengths[0, 0] <= by_hand + np.linalg.norm(other - beside[0, 0]) + 1e-9
    assert lengths[0, 0] > np.linalg.norm(beside[0, 0] - below[0])
    np.testing.assert_allclose(np.linalg.norm(heading[0, 0]), 1.0)


def test_what_is_in_sight_is_reached_straight():
    lengths, heading = CORNER.look(np.array([[0.0, 0.0]]), np.array([[[0.0, 3.0], [4.0, 0.0]]]))
    np.testing.assert_allclose(lengths, [[3.0, 4.0]])
    np.testing.assert_allclose(heading, [[[0.0, 1.0], [1.0, 0.0]]])


def test_a_way_is_never_shorter_than_a_grid_search_finds_by_much():
    """Dijkstra on a fine lattice of clear places, in eight directions, overestimates by 8%."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    maze, spacing = pointmaze.maze(), 0.4
    x, y = np.meshgrid(np.arange(-1.2, 21.4, spacing), np.arange(-1.2, 21.4, spacing))
    places = np.stack([x.ravel(), y.ravel()], 1)
    clear = maze.clear(places)
    index = np.arange(len(places)).reshape(x.shape)
    rows, columns, weights = [], [], []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        a = index[: x.shape[0] - dy, max(0, -dx) : x.shape[1] - max(0, dx)].ravel()
        b = a + dy * x.shape[1] + dx
        both = clear[a] & clear[b]
        rows.append(a[both])
        columns.append(b[both])
        weights.append(np.full(both.sum(), spacing * np.hypot(dx, dy)))
    edges = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    goal = int(np.flatnonzero(clear)[-1])
    searched = dijkstra(coo_array(edges, (len(places),) * 2).tocsr(), directed=False, indices=goal)
    some = np.flatnonzero(clear)[::7]
    ours, _ = maze.look(places[some], np.tile(places[goal], (len(some), 1, 1)))
    assert np.isfinite(searched[some]).all()
    assert (ours[:, 0] <= searched[some] + 0.3).all()
    assert (searched[some] <= 1.09 * ours[:, 0] + 1.0).all()


def test_off_walls_a_push_moves_exactly_and_walls_hold():
    rng = np.random.default_rng(0)
    plan = pointmaze.maze()
    places = np.array([plan.centre(*c) for c in plan.free_cells])
    for _ in range(40):
        actions = rng.uniform(-1, 1, places.shape).astype(np.float32)
        by_mujoco = np.array([pointmaze.push(p, a) for p, a in zip(places, actions, strict=True)])
        np.testing.assert_array_equal(pointmaze.push_all(places, actions), by_mujoco)
        free = plan.clear(places + 0.2 * actions.astype(float))
        np.testing.assert_array_equal(
            by_mujoco[free], (places + pointmaze.STEP * actions.astype(float))[free]
        )
        places = by_mujoco
    pressed = plan.centre(1, 1)
    for _ in range(40):
        pressed = pointmaze.push(pressed, np.array([-1.0, 0.0]))
    gap = pressed[0] - (plan.centre(1, 0)[0] + plan.unit / 2)
    assert plan.radius - PUSHED_IN < gap < plan.radius


def test_the_environment_replays_what_was_collected(interrupted):
    demos, _ = interrupted
    for trajectory in (*demos.clean[:2], *demos.noisy[:3]):
        env = pointmaze.PointMaze()
        env.reset(seed=0)
        env.place = trajectory.observations[0, :2].astype(float)
        env.goal = trajectory.observations[0, 2:].astype(float)
        for t, action in enumerate(trajectory.actions):
            seen, reward, ended, _, _ = env.step(action)
            np.testing.assert_allclose(seen, trajectory.observations[t + 1], atol=2e-3)
        assert ended == trajectory.terminated
        assert reward == pytest.approx(trajectory.rewards[-1])


def test_a_step_is_good_if_it_gains_half_of_what_the_best_can(interrupted):
    demos, truth = interrupted
    plan = pointmaze.maze()
    for trajectory, good in zip(demos.noisy, truth.noisy_good, strict=True):
        seen = trajectory.observations.astype(float)
        left, heading = plan.look(seen[:, :2], seen[:, None, 2:])
        gain = left[:-1, 0] - left[1:, 0]
        share = gain / (0.2 * np.abs(heading[:-1, 0]).sum(1))
        assert share.max() < 2**0.5 + 1e-3  # no push goes farther, wherever a way bends
        clearly = np.abs(share - 0.5) > 0.01  # observations are rounded
        np.testing.assert_array_equal((share >= 0.5)[clearly], good[clearly])
    assert np.concatenate(truth.clean_good).mean() > 0.85
    told = np.concatenate(truth.noisy_segment)
    noisy_good = np.concatenate(truth.noisy_good)
    assert truth.segment_names == ("good", "detour", "hesitation", "tremor")
    assert noisy_good[told == 0].mean() > 0.85
    assert all(noisy_good[told == kind].mean() < 0.5 for kind in (1, 2, 3))


def test_those_with_other_goals_arrive_there_and_earn_nothing():
    demos, truth = TASK.collect(clean=1, noisy=15, seed=1)
    places = [pointmaze.maze().centre(*cell) for cell in pointmaze.OTHER_GOALS]
    for trajectory in demos.noisy:
        ends, goal = trajectory.observations[-1, :2], trajectory.observations[-1, 2:]
        near = [p for p in places if np.linalg.norm(p - ends) <= 1.0]
        assert len(near) == 1 or len(trajectory) == pointmaze.MAX_STEPS
        assert not near or np.linalg.norm(near[0] - goal) > 1
        assert trajectory.rewards.sum() == 0
    assert truth.noisy_segment is None
    assert np.concatenate(truth.noisy_good).mean() < 0.5


def test_episodes_follow_from_the_seed_however_many_are_asked_for(interrupted):
    demos, truth = interrupted
    fewer, _ = TASK.collect(clean=2, noisy=3, seed=0, noise="segments")
    for a, b in zip(fewer.noisy, demos.noisy[:3], strict=True):
        np.testing.assert_array_equal(a.observations, b.observations)
        np.testing.assert_array_equal(a.actions, b.actions)
    truth.check_fits(demos)
    other, _ = TASK.collect(clean=2, noisy=0, seed=1)
    assert not np.array_equal(other.clean[0].observations[0], demos.clean[0].observations[0])


def test_the_planner_reaches_the_goal_in_the_environment():
    class Planner:
        def predict(self, seen, state=None, episode_start=None, deterministic=True):
            _, heading = pointmaze.maze().look(seen[:, :2].astype(float), seen[:, None, 2:])
            return (heading[:, 0] / np.abs(heading[:, 0]).max(1, keepdims=True)), None

    ran = rollout(Planner(), "pointmaze", episodes=6, seed=0, n_envs=6)
    assert ran.successes.all()
    np.testing.assert_allclose(ran.rewards, 1 - 0.9 * ran.lengths / 300)


def test_it_is_drawn_from_what_is_seen():
    env = pointmaze.PointMaze(render_mode="rgb_array")
    seen, _ = env.reset(seed=3)
    picture = env.render()
    assert picture.shape == (192, 192, 3)
    np.testing.assert_array_equal(picture, env.draw(seen))
    assert {(40, 90, 200), (90, 180, 100)} <= {tuple(c) for c in picture.reshape(-1, 3).tolist()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"expert": "ppo"}, "no ppo agent"),
        ({"noise": "worst"}, "no noise 'worst'; it has paper, segments"),
        ({"noisy_random_steps": 0.1}, "no share of random steps"),
    ],
)
def test_what_it_has_not_is_said(options, message):
    with pytest.raises(InputError, match=message):
        pointmaze_people.TASK.collect(clean=1, noisy=1, seed=0, **options)
