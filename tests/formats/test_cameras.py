"""Cameras of other people's data: chosen, resized, streamed into a folder or read in place."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
from layouts import episodes, write_aloha, write_minari, write_robomimic, write_zarr
from lerobot_layouts import SIZE, TOP, picture_of, state_of, write_lerobot
from minari import MinariDataset

import sdil
from sdil.cli import main
from sdil.errors import InputError
from sdil.formats import importing
from sdil.formats.cameras import parse_size, resize
from sdil.formats.data import load_demonstrations
from sdil.formats.importing import import_source, work_folder
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address
from sdil.formats.scores import ScoredSet, write_scores
from sdil.observations import is_packed, parts_of, unpack_observations
from sdil.scores import StepScores

DATA = episodes()


def both(demos):
    return [*demos.clean, *demos.noisy]


def check(demos, name, *, final, state=None, data=DATA):
    """Every frame and every number is what was recorded."""
    space = demos.spaces.observation
    for e, t in zip(data, both(demos), strict=True):
        rows = len(t) + final
        assert len(t.observations) == rows
        found = unpack_observations(space, t.observations)
        np.testing.assert_array_equal(found[name], e["image"][:rows])
        if state is not None:
            kept = np.concatenate([e[s][:rows].reshape(rows, -1) for s in state], 1)
            np.testing.assert_array_equal(found["state"], kept.astype(found["state"].dtype))
        np.testing.assert_array_equal(t.actions, e["action"])


@pytest.mark.parametrize("next_obs", [True, False])
def test_robomimic(tmp_path, next_obs):
    path = write_robomimic(tmp_path / "a.hdf5", next_obs=next_obs)
    demos = sdil.read(path, clean="0", features="obs/image,obs/state,obs/object")
    assert [p.name for p in parts_of(demos.spaces.observation)] == ["image", "state"]
    check(demos, "image", final=next_obs, state=("state", "object"))
    assert demos.origin.observation[:2] == ("obs/state[0]", "obs/state[1]")
    alone = sdil.read(path, clean="0", features=["obs/image"])
    assert alone.spaces.observation.shape == (8, 8, 3)
    check(alone, "", final=next_obs)


def test_aloha(tmp_path):
    folder = write_aloha(tmp_path / "aloha")
    names = "observations/images/top,observations/qpos"
    demos = sdil.read(folder, clean="0", features=names)
    check(demos, "top", final=False, state=("state",))


def test_aloha_as_jpeg(tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    folder = write_aloha(tmp_path / "aloha")
    for i, e in enumerate(DATA):
        jpegs = []
        for frame in e["image"][: len(e["action"])]:
            out = io.BytesIO()
            image.fromarray(np.full_like(frame, frame[0, 0, 0])).save(out, "JPEG", quality=100)
            jpegs.append(np.frombuffer(out.getvalue(), np.uint8))
        width = max(map(len, jpegs)) + i  # padded with zeros, in each file to its own length
        padded = np.stack([np.pad(j, (0, width - len(j))) for j in jpegs])
        with h5py.File(folder / f"episode_{i}.hdf5", "a") as file:
            del file["observations/images/top"]
            file["observations/images/top"] = padded
            file.attrs["compress"] = True
    demos = sdil.read(folder, clean="0", features="observations/images/top")
    assert demos.spaces.observation.shape == (8, 8, 3)
    for e, t in zip(DATA, both(demos), strict=True):
        greys = e["image"][: len(t), 0, 0, 0].astype(int)
        assert np.abs(t.observations[:, 0, 0, 0] - greys).max() <= 2
    with h5py.File(folder / "episode_3.hdf5", "a") as file:
        file["observations/images/top"][2] = 7
    with pytest.raises(InputError, match=r"episode_3.hdf5: observations/images/top, row 2 is no"):
        sdil.read(folder, clean="0", features="observations/images/top")


def test_zarr_keeps_pictures_as_floats_and_we_as_bytes(tmp_path):
    pytest.importorskip("zarr", reason="zarr is not installed: sdil[formats]")
    path = write_zarr(tmp_path / "a.zarr")
    demos = sdil.read(path, clean="0", features="image,state")
    assert demos.spaces.observation["image"].dtype == np.uint8
    check(demos, "image", final=False, state=("state",))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x / 255, "episode '0': image: its values lie between 0 and 1; multiply"),
        (lambda x: x - 100, "its values lie between -100.0 and"),
        (lambda x: x * np.nan, "its values lie between nan"),
    ],
)
def test_floats_that_are_no_pictures(tmp_path, change, message):
    pytest.importorskip("zarr", reason="zarr is not installed: sdil[formats]")
    data = [{**e, "image": change(e["image"].astype(np.float32))} for e in DATA]
    path = write_zarr(tmp_path / "a.zarr", data)
    with pytest.raises(InputError, match=message):
        sdil.read(path, clean="0", features="image")


def test_channels_first_become_channels_last(tmp_path):
    data = [{**e, "image": np.moveaxis(e["image"], -1, 1)} for e in DATA]
    path = write_robomimic(tmp_path / "a.hdf5", data)
    check(sdil.read(path, clean="0", features="obs/image"), "", final=True)


def test_minari(tmp_path):
    folder = write_minari(tmp_path / "set-v0", layout="image")
    demos = sdil.read(folder, clean="0", features="observations/pixels,observations/state")
    source = sdil.open_source(folder)  # JPEG: Minari's own decoder says what is there
    for i, t in enumerate(both(demos)):
        kept = source.read(i, ["observations/pixels"]).values["observations/pixels"]
        found = unpack_observations(demos.spaces.observation, t.observations)
        np.testing.assert_array_equal(found["pixels"], kept)


@pytest.mark.parametrize("kind", ["cameras", "pictures"])
@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_lerobot(tmp_path, kind, version):
    pytest.importorskip("av", reason="PyAV is not installed: sdil[formats]")
    path = write_lerobot(tmp_path / "set", version=version, **{kind: (TOP,)})
    demos = sdil.read(path, clean="0", features=f"{TOP},observation.state")
    assert demos.spaces.observation["top"].shape == (*SIZE, 3)
    for i, t in enumerate(both(demos)):
        found = unpack_observations(demos.spaces.observation, t.observations)
        for frame, kept in enumerate(found["top"]):
            difference = kept.astype(int) - picture_of(i, frame)
            assert np.abs(difference).mean() < (6 if kind == "cameras" else 1e-9)
        np.testing.assert_array_equal(found["state"], state_of(i, len(t)))


def test_lerobot_videos_are_resized_as_they_are_decoded(tmp_path, monkeypatch):
    pytest.importorskip("av", reason="PyAV is not installed: sdil[formats]")
    path = write_lerobot(tmp_path / "set", cameras=(TOP,))
    monkeypatch.setattr("sdil.formats.cameras.resize", lambda frames, size: frames)
    demos = sdil.read(path, clean="0", features=TOP, image_size="8x16")
    assert demos.spaces.observation.shape == (8, 16, 3)
    frame = both(demos)[1].observations[2].astype(int)
    wanted = picture_of(1, 2)
    for column, at in ((1, 0), (-2, -1)):  # greys, left and right
        assert np.abs(frame[:, column] - wanted[0, at]).max() < 8


def test_every_nth_frame(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5")
    demos = sdil.read(path, clean="0", features="obs/image,obs/state", every=4)
    for e, t in zip(DATA, both(demos), strict=True):
        steps = len(e["action"])
        at = [*range(0, steps, 4), steps]
        found = unpack_observations(demos.spaces.observation, t.observations)
        np.testing.assert_array_equal(found["image"], e["image"][at])
        np.testing.assert_array_equal(found["state"], e["state"][at])


def test_pixels_are_means_of_what_they_cover():
    random = np.random.default_rng(0)
    frames = random.integers(0, 256, (3, 16, 24, 3), np.uint8)
    means = frames.reshape(3, 8, 2, 8, 3, 3).astype(float).mean((2, 4))
    np.testing.assert_allclose(resize(frames, (8, 8)), means, atol=0.51)
    assert resize(frames, (16, 24)) is frames


@pytest.mark.parametrize(("text", "size"), [("96", (96, 96)), ("64x80", (64, 80)), (None, None)])
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "x", "0", "-4", "96x", "99999", "8x8x3"])
def test_sizes_that_are_none(text):
    with pytest.raises(InputError, match="size of pictures"):
        parse_size(text)


def test_a_size_without_a_camera(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5")
    with pytest.raises(InputError, match="no camera was chosen; --features names some of obs/im"):
        sdil.read(path, clean="0", image_size=96)


def test_several_cameras_of_the_same_last_name(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5")
    with h5py.File(path, "a") as file:
        for i, e in enumerate(DATA):
            for group, rows in (("obs", slice(0, -1)), ("next_obs", slice(1, None))):
                file[f"data/demo_{i}/{group}/left/image"] = e["image"][rows]
    demos = sdil.read(path, clean="0", features="obs/image,obs/left/*")
    names = [p.name for p in parts_of(demos.spaces.observation)]
    assert names == ["obs.image", "obs.left.image"]
    check(demos, "obs.left.image", final=True)


def imported(path, out, **choices):
    address = parse_address(path).with_choices(clean="0-1", **choices)
    return import_source(open_reading(address), out)


@pytest.mark.parametrize("features", ["obs/image", "obs/image,obs/state"])
def test_imported_is_what_is_read(tmp_path, features):
    path = write_robomimic(tmp_path / "a.hdf5")
    read = sdil.read(path, clean="0-1", features=features, image_size=8)
    imported(path, tmp_path / "out", features=features, image_size="8")
    again = sdil.load_demonstrations(tmp_path / "out", check=True)
    assert isinstance(again.clean.observations.base, np.memmap)
    assert again == sdil.Demonstrations(read.clean, read.noisy, read.spaces)
    assert again.fingerprint() == read.fingerprint()
    assert not list((tmp_path / "out").rglob("*.part"))
    (first, *_) = MinariDataset(tmp_path / "out/noisy-v0/data").iterate_episodes()
    seen = first.observations["image"] if is_packed(read.spaces.observation) else first.observations
    np.testing.assert_array_equal(seen, DATA[2]["image"])
    sdil.save_demonstrations(read, tmp_path / "saved")
    for name in ("clean", "noisy"):
        file = f"{name}-v0/data/main_data.hdf5"
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "saved" / file).read_bytes()


@pytest.mark.parametrize("stop", [1, 2, 3, 5])
def test_after_a_stop_it_goes_on(tmp_path, stop, monkeypatch):
    path = write_robomimic(tmp_path / "a.hdf5")
    features = "obs/image,obs/state"
    imported(path, tmp_path / "whole", features=features)
    usual, done = importing.Reading.read_and_sum, []

    def read(self, position):
        if len(done) == stop:
            raise KeyboardInterrupt
        done.append(position)
        return usual(self, position)

    monkeypatch.setattr(importing.Reading, "read_and_sum", read)
    with pytest.raises(KeyboardInterrupt):
        imported(path, tmp_path / "out", features=features)
    assert work_folder(tmp_path / "out").exists()
    monkeypatch.setattr(importing.Reading, "read_and_sum", usual)
    assert imported(path, tmp_path / "out", features=features).resumed == stop
    for file in ("clean-v0/data/main_data.hdf5", "noisy-v0/data/main_data.hdf5", "sdil.json"):
        assert (tmp_path / "out" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    sdil.load_demonstrations(tmp_path / "out", check=True)


def test_the_command_line(tmp_path, capsys):
    path = str(write_robomimic(tmp_path / "a.hdf5"))
    out = str(tmp_path / "out")
    main(["import", path, "--clean", "0", "--out", str(tmp_path / "blind")])
    said = " ".join(capsys.readouterr().out.split())
    assert "pictures, left out: obs/image; --features obs/object,obs/state,obs/image" in said
    chosen = ["--features", "obs/image,obs/state", "--image-size", "8"]
    main(["import", path, "--clean", "0", *chosen, "--out", out])
    said = " ".join(capsys.readouterr().out.split())
    assert "camera image: obs/image, 8x8x3" in said
    assert "left out" not in said
    main(["inspect", out, "--check"])
    said = capsys.readouterr().out
    assert "checked: the data is what was written" in said
    assert "'image': Box(0, 255, (8, 8, 3), uint8)" in " ".join(said.split())
    main(["inspect", path, *chosen])
    said = " ".join(capsys.readouterr().out.split())
    assert "--features obs/image,obs/state --image-size 8" in said
    assert "picture, left out" not in said


@pytest.mark.parametrize("way", ["in place", "imported"])
def test_pictures_come_back_in_their_own_format(tmp_path, way):
    """What is kept of an episode that was looked at with its camera has its frames, too."""
    path = write_robomimic(tmp_path / "a.hdf5")
    data = f"{path}?clean=0,1&features=obs/image,obs/state&image_size=8&every=2"
    if way == "imported":
        import_source(open_reading(parse_address(data)), tmp_path / "folder")
        data = str(tmp_path / "folder")
    demos = load_demonstrations(data)
    sets = {
        name: ScoredSet(
            some.ids, [StepScores(np.where(np.arange(n) < 2, 0.9, -0.9)) for n in some.lengths]
        )
        for name, some in (("clean", demos.clean), ("noisy", demos.noisy))
    }
    write_scores(tmp_path / "scores.csv", sets)
    out = tmp_path / "out.hdf5"
    arguments = ["export", tmp_path / "scores.csv", "--data", data, "--to", f"same:{out}"]
    assert main([*map(str, arguments), "--curated"]) == 0
    kept = sdil.open_source(out)
    assert len(kept.episodes) == len(DATA)
    for i, e in enumerate(DATA):
        frames = kept.read(i, ["obs/image"]).values["obs/image"]
        steps = len(e["action"]) if i < 2 else 4  # of the noisy ones, two steps of two frames
        np.testing.assert_array_equal(frames, e["image"][: steps + 1])
