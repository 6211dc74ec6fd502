from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sdil.cli import main
from sdil.errors import InputError
from sdil.tasks import pusht

zarr = pytest.importorskip("zarr", reason="needs Zarr: pip install zarr")

PEOPLE = Path("/work/shared/data/pusht-human/pusht_cchi_v7_replay.zarr")


def store(path, lengths=(5, 3, 4), **changes):
    rng = np.random.default_rng(0)
    n = sum(lengths)
    arrays = {
        "data/state": rng.uniform(100, 400, (n, 5)),
        "data/action": rng.uniform(0, 512, (n, 2)),
        "meta/episode_ends": np.cumsum(lengths),
    } | changes
    group = zarr.open_group(str(path), mode="w")
    for name, values in arrays.items():
        if values is not None:
            group.create_array(name, data=np.asarray(values))
    return path


def test_the_quickest_are_clean(tmp_path):
    people = pusht.read(store(tmp_path / "people.zarr"), clean=1)
    assert list(people.demos.clean.ids) == ["people-1"]
    assert list(people.demos.noisy.ids) == ["people-0", "people-2"]
    assert [len(c) for c in people.noisy_coverage] == [5, 4]
    assert people.demos.clean[0].observations.shape[1] == 6


def test_coverage_is_what_points_say():
    """Against a fine raster of the block."""
    rng = np.random.default_rng(1)
    state = np.concatenate(
        [np.zeros((30, 2)), rng.uniform(216, 296, (30, 2)), rng.uniform(-4, 4, (30, 1))], 1
    )
    x, y = np.meshgrid(np.arange(-59.5, 60), np.arange(0.5, 120))
    points = np.stack([x.ravel(), y.ravel()], 1)

    def inside(p):
        return np.any(
            [((p >= b[:2]) & (p <= b[2:])).all(-1) for b in np.array(pusht.BOXES)], axis=0
        )

    block = points[inside(points)]
    assert len(block) == pusht.AREA
    turned = pusht._place(block, state[:, 2:5])
    there = pusht._local(turned, np.tile(pusht.TARGET, (30, 1)))
    np.testing.assert_allclose(pusht.coverage(state), inside(there).mean(1), atol=0.006)


def test_coverage_is_whole_on_the_target_and_none_far_from_it():
    at = np.array([[0, 0, 256, 256, np.pi / 4 + 1e-9], [0, 0, 20, 20, 0.0]])
    np.testing.assert_allclose(pusht.coverage(at), [1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data/action": None}, "is no Zarr store with data/state, data/action"),
        ({"data/state": np.zeros((12, 4))}, r"data/state \(12, 4\) must be \(N, 5\)"),
        ({"meta/episode_ends": np.array([5, 5, 12])}, "must rise from above 0 to 12"),
        ({"data/action": np.full((12, 2), np.nan)}, "data/action, row 0 is not a number"),
    ],
)
def test_a_store_that_is_something_else_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        pusht.read(store(tmp_path / "odd.zarr", **changes), clean=1)


def test_more_than_there_are_is_refused(tmp_path):
    path = store(tmp_path / "people.zarr")
    with pytest.raises(InputError, match="has 3 episodes: 4 of them"):
        pusht.read(path, clean=4)
    with pytest.raises(InputError, match="3 cannot be noisy beside 1"):
        pusht.read(path, clean=1, noisy=3)
    with pytest.raises(InputError, match="is no Zarr store"):
        pusht.read(tmp_path / "nothing.zarr")


def test_collected_on_the_command_line(tmp_path, capsys):
    path = store(tmp_path / "people.zarr")
    out = tmp_path / "demos"
    arguments = ["collect", "pusht", "--out", str(out), "--source", str(path), "--clean", "1"]
    assert main(arguments) == 0
    assert "2 noisy episodes (9 steps)" in capsys.readouterr().out
    assert (out / "sdil.json").exists()
    assert not (out / "truth.npz").exists()
    assert main(["collect", "pusht", "--out", str(tmp_path / "other")]) != 0
    assert "needs --source" in capsys.readouterr().err
    assert main([*arguments[:4], "--noise", "paper", "--overwrite"]) != 0
    assert "no noise to choose" in capsys.readouterr().err
    assert main(["collect", "fourrooms", "--out", str(out), "--source", str(path)]) != 0


@pytest.mark.skipif(not PEOPLE.exists(), reason="the people's episodes are not here")
def test_people_end_where_they_are_known_to():
    people = pusht.read(PEOPLE)
    assert (len(people.demos.clean), len(people.demos.noisy)) == (40, 166)
    ends = [c[-1] for c in people.clean_coverage + people.noisy_coverage]
    assert min(ends) > 0.77
    assert max(ends) < 0.91
    assert np.median(ends) == pytest.approx(0.85, abs=0.005)


def test_it_is_drawn_from_what_is_seen():
    seen = pusht.see(np.array([[100.0, 100.0, 400.0, 200.0, 0.3]]))[0]
    picture = pusht.PushT.draw(seen)
    assert picture.shape == (128, 128, 3)
    assert tuple(picture[25, 25]) == (40, 90, 200)


def test_people_replay_in_the_environment():
    pytest.importorskip("gym_pusht", reason="needs gym-pusht: docs/control.md says how")
    if not PEOPLE.exists():
        pytest.skip("the people's episodes are not here")
    state, action, ends = pusht._load(PEOPLE)
    env = pusht.PushT()
    env.reset(seed=0, options={"state": state[0]})
    for each in action[: ends[0] - 1]:
        env.step(each)
    np.testing.assert_allclose(env.state()[2:4], state[ends[0] - 1, 2:4], atol=1.0)


def test_pictures_are_drawn_from_the_states():
    """Each pixel's middle, where it is not near an edge, lies in the shape that it shows."""
    rng = np.random.default_rng(3)
    low, high = np.array([20, 20, 120, 120, -4.0]), np.array([490, 490, 390, 390, 4.0])
    state = rng.uniform(low, high, (40, 5))
    drawn = pusht.draw_states(state)
    assert drawn.shape == (40, 96, 96, 3)
    assert drawn.dtype == np.uint8
    rows, columns = np.indices((96, 96))
    places = np.stack([columns.ravel(), rows.ravel()], 1)[None] + 0.5
    places = np.repeat(places, 40, 0) * pusht.SIZE / 96
    target = np.tile(pusht.TARGET, (40, 1))
    shapes = (  # what lies on top comes first
        (pusht._outside_hand(places, state[:, :2]), pusht._HAND),
        (pusht._outside_block(places, state[:, 2:]), pusht._BLOCK),
        (pusht._outside_block(places, target), pusht._TARGET),
    )
    pixels = drawn.reshape(40, -1, 3)
    edge = np.any([abs(away) < 6 for away, _ in shapes], axis=0)
    shown = np.full(pixels.shape, pusht._PAPER)
    for away, colour in reversed(shapes):
        shown[away <= 0] = colour
    np.testing.assert_array_equal(pixels[~edge], shown[~edge])
    assert edge.mean() < 0.4


def test_pictures_are_read_with_the_same_steps(tmp_path):
    path = store(tmp_path / "people.zarr")
    numbers, seen = (pusht.read(path, clean=1, images=i).demos for i in (False, True))
    for one, other in zip(numbers.all, seen.all, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        assert other.observations.shape == (len(one.observations), 96, 96, 3)
    out = tmp_path / "demos"
    assert main(["collect", "pusht-images", "--out", str(out), "--source", str(path)]) != 0
    arguments = ["--source", str(path), "--clean", "1"]
    assert main(["collect", "pusht-images", "--out", str(out), *arguments]) == 0
