"""Minari's Arrow and Parquet layouts, read and written back; Minari itself reads what comes out."""

from __future__ import annotations

import json

import layouts
import numpy as np
import pytest
from minari import MinariDataset
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

import sdil
from sdil.errors import InputError
from sdil.formats import minari_writing
from sdil.formats.minari_arrow import FORMATS
from sdil.formats.rows import RowAnswer

LENGTHS = (6, 9, 7)


@pytest.fixture(params=FORMATS)
def folder(request, tmp_path):
    """Three episodes with infos, seeds and JPEG pictures."""
    import gymnasium as gym

    random, place = np.random.default_rng(0), tmp_path / "door-v0"
    (place / "data").mkdir(parents=True)
    space = gym.spaces.Dict(
        {
            "arm": gym.spaces.Box(-np.inf, np.inf, (3,), np.float32),
            "eye": gym.spaces.Box(0, 255, (8, 8, 3), np.uint8),
        }
    )
    storage = MinariStorage.new(
        place / "data",
        observation_space=space,
        action_space=gym.spaces.Box(-9, 9, (2,), np.float64),
        data_format=request.param,
    )
    storage.update_metadata({"dataset_id": "door-v0", "minari_version": "0.5.4"})
    storage.update_episodes(
        EpisodeBuffer(
            observations={
                "arm": random.normal(size=(n + 1, 3)).astype("f4"),
                "eye": random.integers(0, 255, (n + 1, 8, 8, 3), np.uint8),
            },
            actions=random.normal(size=(n, 2)),
            rewards=random.normal(size=n),
            terminations=np.arange(n) == n - 1,
            truncations=np.zeros(n, bool),
            infos={
                "place": random.normal(size=(n + 1, 2, 2)),
                "speed": random.normal(size=n + 1).tolist(),  # Minari cannot read its own vectors
            },
            seed=n,
        )
        for n in LENGTHS
    )
    return place


def told() -> list[RowAnswer]:
    """All of episode 0, the beginning and the end of 1, nothing of 2."""
    answers = []
    for at, n in enumerate(LENGTHS):
        keep = np.full(n, at < 2)
        keep[3:6] &= at == 0
        score = np.linspace(-1, 1, n).astype(np.float32)
        answers.append(RowAnswer(str(at), score, keep, (1 + score) / 2, np.arange(n), 0.25))
    return answers


def assert_same_rows(a, b, first, stop):
    """Episode `b` is the steps `first` to `stop` of `a`, with the observation after them."""
    for name in ("arm", "eye"):
        np.testing.assert_array_equal(b.observations[name], a.observations[name][first : stop + 1])
    for name in ("place", "speed"):
        np.testing.assert_array_equal(b.infos[name], a.infos[name][first : stop + 1])
    np.testing.assert_array_equal(b.actions, a.actions[first:stop])
    np.testing.assert_array_equal(b.rewards, a.rewards[first:stop])
    np.testing.assert_array_equal(b.terminations, a.terminations[first:stop])


@pytest.mark.parametrize("layout", ["dict", "tuple"])
@pytest.mark.parametrize("form", FORMATS)
def test_it_is_read_as_the_same_set_in_hdf5(tmp_path, form, layout):
    usual = layouts.write_minari(tmp_path / "a-v0", layout=layout)
    other = layouts.write_minari(tmp_path / "b-v0", layout=layout, data_format=form)
    demos = sdil.read(other, clean="0,2")
    assert demos == sdil.read(usual, clean="0,2")
    assert demos.origin.observation == sdil.read(usual, clean="0,2").origin.observation


def test_scores_are_in_infos_and_all_else_as_it_was(folder, tmp_path):
    minari_writing.write_scored(folder, told(), tmp_path / "new-v0")
    old, new = MinariDataset(folder / "data"), MinariDataset(tmp_path / "new-v0" / "data")
    for a, b, answer in zip(old, new, told(), strict=True):
        assert_same_rows(a, b, 0, len(a.actions))
        np.testing.assert_array_equal(a.truncations, b.truncations)
        np.testing.assert_array_equal(b.infos["sdil_score"][:-1], answer.score)
        np.testing.assert_array_equal(b.infos["sdil_weight"][:-1], answer.weight)
        assert np.isnan(b.infos["sdil_score"][-1])
    about = list(new.storage.get_episode_metadata(range(3)))
    assert [(m["seed"], m["sdil_quality"]) for m in about] == [(n, 0.25) for n in LENGTHS]
    minari_writing.write_scored(tmp_path / "new-v0", told(), tmp_path / "again-v0")
    again = MinariDataset(tmp_path / "again-v0" / "data")
    assert sorted(again[1].infos) == ["place", "sdil_score", "sdil_weight", "speed"]


def test_scores_without_infos_before(tmp_path):
    folder = layouts.write_minari(tmp_path / "a-v0", data_format="arrow")
    old = MinariDataset(folder / "data")
    answers = []
    for i, episode in enumerate(old):
        n = len(episode.actions)
        score = np.zeros(n, np.float32)
        answers.append(RowAnswer(str(i), score, np.ones(n, bool), score, np.arange(n)))
    minari_writing.write_scored(folder, answers, tmp_path / "new-v0")
    new = MinariDataset(tmp_path / "new-v0" / "data")
    assert [len(e.infos["sdil_score"]) for e in new] == [len(e.actions) + 1 for e in old]
    assert sdil.read(tmp_path / "new-v0", clean="0") == sdil.read(folder, clean="0")


def test_segments_are_episodes(folder, tmp_path):
    minari_writing.write_curated(folder, told(), tmp_path / "new-v0")
    old, new = MinariDataset(folder / "data"), MinariDataset(tmp_path / "new-v0" / "data")
    assert (new.total_episodes, new.total_steps) == (3, 12)
    for at, (whole, first, stop) in enumerate([(0, 0, 6), (1, 0, 3), (1, 6, 9)]):
        assert_same_rows(old[whole], new[at], first, stop)
    ends = [(e.terminations[-1], e.truncations[-1], e.truncations.sum()) for e in new]
    assert ends == [(True, False, 0), (False, True, 1), (True, False, 0)]
    about = list(new.storage.get_episode_metadata(range(3)))
    assert [(m["sdil_source"], m["sdil_first"], m.get("seed")) for m in about] == [
        (0, 0, 6),
        (1, 0, 9),
        (1, 6, None),
    ]
    assert [m["total_steps"] for m in about] == [6, 3, 3]


def test_another_set_than_was_judged_is_refused(folder, tmp_path):
    with pytest.raises(InputError, match="episode 0 is not the one that was judged"):
        minari_writing.write_scored(folder, told()[1:], tmp_path / "new-v0")
    assert not (tmp_path / "new-v0").exists()
    next((folder / "data" / "1").glob("part*")).write_bytes(b"ARROW1 and no more")
    with pytest.raises(InputError, match="damaged or truncated"):
        minari_writing.write_curated(folder, told(), tmp_path / "new-v0")
    next((folder / "data" / "1").glob("part*")).unlink()
    with pytest.raises(InputError, match="episode 1 has 0 tables"):
        minari_writing.write_curated(folder, told(), tmp_path / "new-v0")
    about = json.loads((folder / "data" / "metadata.json").read_text())
    (folder / "data" / "metadata.json").write_text(json.dumps({**about, "data_format": "hdf5"}))
    with pytest.raises(InputError, match=r"it has no main_data\.hdf5"):
        minari_writing.write_scored(folder, told(), tmp_path / "new-v0")
