"""What cameras of imported data saw, looked at again in its source."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from lerobot_layouts import LENGTHS, TOP, picture_of, write_lerobot

import sdil
from sdil import InputError
from sdil.cli import main
from sdil.explanation.record import Explanation
from sdil.formats.filmed import cameras_for

WRIST = "observation.images.wrist"


@pytest.fixture(params=["v3.0", "v2.1"])
def source(request, tmp_path):
    if request.param == "v2.1":
        return write_lerobot(tmp_path / "set", version="v2.1", pictures=(TOP,), cameras=(WRIST,))
    return write_lerobot(tmp_path / "set", cameras=(TOP, WRIST))


def seen(filmed, kind, index, camera, steps):
    return np.stack(list(filmed.look(kind, index, camera, np.array(steps))))


def test_pictures_are_those_of_the_episode_and_the_step(source):
    demos = sdil.read(source, clean="1,3")
    filmed, missing = cameras_for(demos.origin, demos)
    assert missing is None
    assert set(filmed.cameras) == {TOP, WRIST}
    for kind, index, episode in (("clean", 1, 3), ("noisy", 0, 0), ("noisy", 1, 2)):
        for camera in (TOP, WRIST):
            steps = [0, 2, LENGTHS[episode] - 1]
            expected = np.stack([picture_of(episode, t) for t in steps])
            found = seen(filmed, kind, index, camera, steps)
            assert np.abs(found.astype(int) - expected).mean() < 8  # a video loses a little


def test_every_second_frame_and_an_imported_copy_know_where_to_look(source, tmp_path):
    folder = tmp_path / "demos"
    assert main(["import", str(source), "--out", str(folder), "--clean", "2", "--every", "2"]) == 0
    demos = sdil.load_demonstrations(folder)
    from sdil.formats.data import origin_of

    filmed, _ = cameras_for(origin_of(folder), demos)
    found = seen(filmed, "clean", 0, TOP, [1, 3])
    expected = np.stack([picture_of(2, t) for t in (2, 6)])
    assert np.abs(found.astype(int) - expected).mean() < 8
    shutil.rmtree(source / "videos")
    filmed, _ = cameras_for(origin_of(folder), demos)
    with pytest.raises(InputError, match=r"mp4.*missing|missing.*mp4"):
        seen(filmed, "clean", 0, WRIST, [0])
    shutil.rmtree(source)
    nobody, missing = cameras_for(origin_of(folder), demos)
    assert nobody is None
    assert "no pictures: where they come from cannot be read" in missing


def test_an_episode_that_changed_is_noticed(source):
    demos = sdil.read(source, clean="0")
    filmed, _ = cameras_for(demos.origin, demos)
    del filmed.place["2"]
    with pytest.raises(InputError, match="has no episode '2' any more"):
        seen(filmed, "noisy", 1, TOP, [0])
    with pytest.raises(InputError, match="has no frame 40 any more"):
        filmed._rows(np.arange(10), np.array([3, 40]), "x")


def test_data_without_cameras_has_none(tmp_path):
    demos = sdil.read(write_lerobot(tmp_path / "set"), clean="0")
    assert cameras_for(demos.origin, demos) == (None, None)
    assert cameras_for(None, demos) == (None, None)


def test_the_report_of_imported_videos_shows_them(source, tmp_path, capsys):
    judgement = tmp_path / "judgement"
    address = f"{source}?clean=0,1"
    quick = sdil.Judge(clone_updates=20, distance_updates=20, outcome_updates=20)
    sdil.judge(quick, address, judgement)
    words = ["report", str(judgement), "--data", address, "--pictures", "3"]
    words += ["--out", str(tmp_path / "page.html"), "--record", str(tmp_path / "record")]
    assert main(words) == 0
    strips = Explanation.load(tmp_path / "record").strips
    assert len(strips) == 3
    assert all(set(found) == {TOP, WRIST} for found in strips.values())
    assert "3 of 4 demonstrations have pictures" in capsys.readouterr().out
    assert (tmp_path / "page.html").read_text("utf-8").count("data:image/webp") >= 6
    assert main([*words, "--overwrite", "--pictures", "-1"]) != 0
    assert "--pictures must be at least 0" in capsys.readouterr().err
