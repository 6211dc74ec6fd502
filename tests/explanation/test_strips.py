"""Pictures of demonstrations: which, how small, and at which step."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from sdil import Demonstrations, InputError, Trajectory
from sdil.explanation import pictures
from sdil.explanation.explain import explain
from sdil.explanation.pictures import Observed, as_rgb, make_strip, strips_of
from sdil.explanation.record import Explanation
from sdil.scores import StepScores


def frames_of(strip) -> np.ndarray:
    """Its pictures again. (count, height, width, 3)"""
    kind, _, data = strip.image.partition(",")
    assert kind == "data:image/webp;base64"
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB"))
    rows = len(sheet) // strip.height
    assert sheet.shape == (rows * strip.height, strip.columns * strip.width, 3)
    cut = sheet.reshape(rows, strip.height, strip.columns, strip.width, 3)
    return cut.swapaxes(1, 2).reshape(-1, strip.height, strip.width, 3)[: strip.count]


def plain(step: int) -> np.ndarray:
    """A picture that says which step it is of, by its red."""
    picture = np.zeros((20, 30, 3), np.uint8)
    picture[..., 0] = step
    return picture


def noise(count: int, height: int = 150, width: int = 200) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, 3), np.uint8)


def episode(length: int, name: str) -> Trajectory:
    front = np.stack([plain(t) for t in range(length + 1)])
    return Trajectory(
        {
            "front": front,
            "side": front.transpose(0, 3, 1, 2) + np.uint8(100),
            "state": np.arange(length + 1, dtype=np.float32)[:, None],
        },
        np.zeros(length, np.int64),
        id=name,
    )


@pytest.fixture
def demos():
    return Demonstrations(
        clean=[episode(5, f"c{i}") for i in range(3)], noisy=[episode(9, f"n{i}") for i in range(8)]
    )


class Means:
    """A judge by whose word noisy episodes are the better the higher their number."""

    hyperparameters = {}  # noqa: RUF012

    def __init__(self, demos):
        self.spaces = demos.spaces

    def score(self, trajectories):
        return [StepScores(np.full(len(t), i / 20)) for i, t in enumerate(trajectories)]


def test_a_drawing_keeps_every_pixel_and_a_photograph_fits_its_room():
    steps = [plain(t) for t in range(30)]
    strip = make_strip(iter(steps), 1, 10_000)
    assert (strip.width, strip.height, strip.count, strip.every) == (30, 20, 30, 1)
    assert strip.drawn
    np.testing.assert_array_equal(frames_of(strip), steps)
    small = make_strip(iter(noise(40)), 2, 30_000)
    assert len(base64.b64decode(small.image.partition(",")[2])) <= 30_000
    assert not small.drawn
    assert max(small.width, small.height) <= 96
    assert small.every % 2 == 0
    assert small.every > 2
    assert small.count == -(-40 // (small.every // 2))
    assert len(frames_of(small)) == small.count


def test_long_episodes_have_a_picture_every_few_steps(monkeypatch):
    monkeypatch.setattr(pictures, "_LONGEST", 4)
    demos = Demonstrations(clean=[episode(11, "long")])
    (strip,) = {
        s.every: s for s in pictures.episode_strips(Observed(demos), "clean", 0, 11, 9999).values()
    }.values()
    assert strip.every == 3
    assert frames_of(strip)[:, 0, 0, 0].tolist() in ([0, 3, 6, 9], [100, 103, 106, 109])


def test_the_worst_and_the_best_have_pictures_and_that_is_said(demos):
    means = np.array([0.5, 0.1, 0.9, *np.linspace(-1, 1, 8)])
    strips, said = strips_of(Observed(demos), demos, means, most=5)
    assert list(strips) == ["clean/c1", "noisy/n0", "noisy/n7", "noisy/n1", "noisy/n6"]
    assert said == [
        "5 of 11 demonstrations have pictures, the worst and the best of each set (--pictures N "
        "for more)"
    ]
    every, nothing = strips_of(Observed(demos), demos, means, most=100)
    assert len(every) == 11
    assert nothing == []
    assert strips_of(Observed(demos), demos, means, most=0) == ({}, [])


def test_several_cameras_and_what_cannot_be_seen(demos):
    class Broken(Observed):
        def look(self, kind, index, camera, steps):
            if kind == "noisy" and index == 2:
                raise InputError("videos/x.mp4 is missing; download the videos of the data set too")
            return super().look(kind, index, camera, steps)

    strips, said = strips_of(Broken(demos), demos, np.zeros(11))
    assert set(strips["clean/c0"]) == {"front", "side"}
    assert frames_of(strips["noisy/n1"]["side"])[:, 0, 0].tolist() == [
        [100 + t, 100, 100] for t in range(9)
    ]
    assert "noisy/n2" not in strips
    assert said == [
        "1 demonstration has no pictures: videos/x.mp4 is missing; download the videos of the "
        "data set too"
    ]


def test_an_explanation_has_them_and_keeps_them(demos, tmp_path):
    told = []
    record = explain(
        Means(demos),
        demos,
        about={},
        pictures=4,
        on_progress=lambda done, total, what: told.append(what),
    )
    assert len(record.strips) == 4
    assert record.about["pictures"]
    assert "drawing pictures" in told
    assert record.about["features"] == ["state 0"]  # numbers beside the pictures are features
    assert record.episodes.features.shape == (3 * 5 + 8 * 9, 1)
    record.save(tmp_path / "record")
    assert Explanation.load(tmp_path / "record").strips == record.strips


@pytest.mark.parametrize(
    ("picture", "expected"),
    [
        (np.full((8, 9), 7, np.uint8), [7, 7, 7]),
        (np.full((8, 9, 1), 7, np.uint8), [7, 7, 7]),
        (np.stack([np.full((8, 9), v, np.uint8) for v in (1, 2, 3)]), [1, 2, 3]),
        (np.full((8, 9, 3), 0.5, np.float32), [127, 127, 127]),
        (np.stack([np.full((8, 9), v, np.uint8) for v in (1, 2, 3, 4)]), [4, 4, 4]),
        (np.stack([np.full((8, 9), v, np.uint8) for v in range(6)]), [3, 4, 5]),
    ],
)
def test_whatever_a_camera_gives_becomes_red_green_and_blue(picture, expected):
    seen = as_rgb(picture)
    assert seen.shape == (8, 9, 3)
    assert seen[3, 4].tolist() == expected


def test_real_numbers_up_to_255_and_opacity():
    grey = np.full((8, 8, 3), 100.0, np.float32)
    assert (as_rgb(grey) == 100).all()
    assert (as_rgb(grey / 255.0) == 100).all()
    opaque = np.concatenate([np.full((8, 8, 3), 7, np.uint8), np.full((8, 8, 1), 255, np.uint8)], 2)
    assert (as_rgb(opaque) == 7).all()
