"""Damaged copies of every layout: an InputError, or demonstrations; never another exception.

And made-up data in every layout: what was written, or an InputError. `make fuzz` tries ten times as
many of both.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from layouts import (
    episodes,
    table_of,
    write_aloha,
    write_d4rl,
    write_minari,
    write_numpy,
    write_numpy_folder,
    write_robomimic,
    write_table,
    write_zarr,
)

import sdil
from sdil.errors import InputError
from sdil.formats.oddities import find_oddities
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address


def write_zarr_2(path, data=None):
    return write_zarr(path, data, version=2)


def write_zarr_3(path, data=None):
    return write_zarr(path, data, version=3)


def write_lerobot_3(path):
    from lerobot_layouts import write_lerobot

    return write_lerobot(path, version="v3.0")


def write_lerobot_2(path):
    from lerobot_layouts import write_lerobot

    return write_lerobot(path, version="v2.1")


def write_lerobot_films(path):
    from lerobot_layouts import TOP, write_lerobot

    return write_lerobot(path, version="v3.0", cameras=(TOP,))


def write_lerobot_pictures(path):
    from lerobot_layouts import TOP, write_lerobot

    return write_lerobot(path, version="v2.1", pictures=(TOP,))


LAYOUTS = {
    "robomimic": (write_robomimic, "a.hdf5"),
    "aloha": (write_aloha, "aloha"),
    "d4rl": (write_d4rl, "b.hdf5"),
    "zarr 2": (write_zarr_2, "c.zarr"),
    "zarr 3": (write_zarr_3, "d.zarr"),
    "minari": (write_minari, "e-v0"),
    "numpy": (write_numpy, "f.npz"),
    "numpy folder": (write_numpy_folder, "g"),
    "csv": (write_table, "h.csv"),
    "parquet": (write_table, "i.parquet"),
    "duckdb": (write_table, "j.duckdb"),
    "lerobot 3": (write_lerobot_3, "k"),
    "lerobot 2": (write_lerobot_2, "l"),
    "lerobot films": (write_lerobot_films, "m"),
    "lerobot pictures": (write_lerobot_pictures, "n"),
}
CAMERAS = {
    "robomimic": "obs/image",
    "aloha": "observations/images/top",
    "zarr 2": "image",
    "zarr 3": "image",
    "lerobot films": "observation.images.top",
    "lerobot pictures": "observation.images.top",
}
"""What is read as pictures, too."""
TRIES = int(os.environ.get("SDIL_FUZZ", "1000")) / 1000
CASES = round(48 * TRIES)  # of each; 720 in all


def files_of(path):
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def damage(path, random):
    """Do one thing to a copy of a data set that a disk, a copy or a person might do to it."""
    files = files_of(path)
    file = files[random.integers(len(files))]
    way = random.choice(["flip", "flips", "cut", "zeros", "key", "key", "kind", "kind"])
    if way in ("key", "kind"):
        if file.suffix == ".hdf5":
            return damage_hdf5(file, random, way)
        if file.suffix in (".json", ".zarray", ".zgroup"):
            return damage_json(file, random, way)
        if file.suffix == ".npz":
            return damage_npz(file, random, way)
        if file.suffix == ".csv":
            return damage_csv(file, random, way)
        if len(files) > 1:
            return file.unlink()
        way = "flips"
    content = bytearray(file.read_bytes())
    if not content:
        return file.unlink()
    if way == "cut":
        content = content[: random.integers(len(content))]
    elif way == "zeros":
        at = random.integers(len(content))
        content[at : at + 64] = bytes(len(content[at : at + 64]))
    else:
        for _ in range(1 if way == "flip" else 40):
            content[random.integers(len(content))] ^= 1 << int(random.integers(8))
    return file.write_bytes(content)


def damage_hdf5(file, random, way):
    import h5py

    found = []
    with h5py.File(file, "a") as opened:
        opened.visit(found.append)
        name = found[random.integers(len(found))]
        was = opened[name]
        if way == "key" or isinstance(was, h5py.Group):
            del opened[name]
            return
        shape = was.shape
        del opened[name]
        opened[name] = [
            np.full(shape, b"text", "S4"),
            np.zeros(()),
            np.zeros((shape[0], 3, 3)) if shape else np.zeros(3),
            np.zeros((max(0, (shape or (0,))[0] - 2), *shape[1:])),
            np.full(shape, np.nan),
            np.zeros((0, *shape[1:])),
        ][random.integers(6)]


WRONG = [None, "", "text", -1, 0, 10**12, 1.5, [], {}, [1, "a"], {"a": {}}, True]


def damage_json(file, random, way):
    value = json.loads(file.read_text() or "{}")
    if not isinstance(value, dict) or not value:
        return file.write_text("[]")
    here = value
    key = list(here)[random.integers(len(here))]
    while isinstance(here[key], dict) and here[key] and random.random() < 0.7:
        here = here[key]
        key = list(here)[random.integers(len(here))]
    if way == "key":
        del here[key]
    else:
        here[key] = WRONG[random.integers(len(WRONG))]
    return file.write_text(json.dumps(value))


def damage_npz(file, random, way):
    with np.load(file) as opened:
        arrays = dict(opened)
    name = list(arrays)[random.integers(len(arrays))]
    was = arrays.pop(name)
    if way == "kind":
        arrays[name] = [
            np.full(was.shape, "text"),
            np.zeros(()),
            was[:-1],
            was.astype(np.complex64),
            np.zeros((0, *was.shape[1:])),
            -was.astype(float),
        ][random.integers(6)]
    np.savez(file, **arrays)


def damage_csv(file, random, way):
    lines = file.read_text().splitlines()
    at = random.integers(len(lines))
    cells = lines[at].split(",")
    if way == "key":
        del cells[random.integers(len(cells))]
    else:
        cells[random.integers(len(cells))] = ["", "text", "nan", "1e999", "-1", '"', "1;2"][
            random.integers(7)
        ]
    lines[at] = ",".join(cells)
    file.write_text("\n".join(lines))


def read_everything(path, camera=None):
    """As `sdil.read` and `sdil inspect` do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        demos = sdil.read(path, clean="0-1")
        assert len(demos.clean) >= 1
        assert np.isfinite(demos.clean.observations).all()
        find_oddities(open_reading(parse_address(path).with_choices(clean="0-1")))
        if camera is not None:
            seen = sdil.read(path, clean="0-1", features=camera, image_size=8)
            assert seen.spaces.observation.shape == (8, 8, 3)


def complaint_of(path, camera=None):
    try:
        read_everything(path, camera)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_damage_is_an_input_error_or_harmless(tmp_path, layout):
    write, name = LAYOUTS[layout]
    if layout.startswith(("lerobot", "zarr")):
        pytest.importorskip("pyarrow" if "lerobot" in layout else "zarr")
    whole = write(tmp_path / name)
    camera = CAMERAS.get(layout)
    read_everything(whole, camera)
    refused = 0
    for case in range(CASES):
        random = np.random.default_rng([case, sum(map(ord, layout))])
        copy = tmp_path / f"copy{case}" / name
        copy.parent.mkdir()
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, copy)
        damage(copy, random)
        said = complaint_of(copy, camera)
        refused += said is not None
        assert said is None or str(copy.parent) in said or "episode" in said
        assert len(said or "") < 1500
        shutil.rmtree(copy.parent)
    assert refused > CASES // 8


MADE_UP = {
    name: LAYOUTS[name]
    for name in ("robomimic", "aloha", "d4rl", "zarr 2", "zarr 3", "minari", "numpy")
} | {name: LAYOUTS[name] for name in ("numpy folder", "csv", "parquet", "duckdb")}
ODD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, 16_777_217.0, 0.1)


CASE = st.fixed_dictionaries(
    {
        "count": st.integers(2, 4),
        "steps": st.integers(1, 5),
        "seed": st.integers(0, 99),
        "where": st.sampled_from(["action", "state", "reward"]),
        "odd": st.sampled_from(ODD),
    }
)


def make_up(case):
    """Episodes of any length, one row of one of them of odd numbers."""
    data = episodes(case["count"], case["steps"], case["seed"])
    episode = data[case["seed"] % len(data)]
    episode[case["where"]][case["seed"] % len(episode["action"])] = case["odd"]
    return data


@pytest.mark.slow
@pytest.mark.parametrize("layout", MADE_UP)
def test_made_up_data_is_read_as_it_was_written_or_refused(tmp_path_factory, layout):
    write, name = MADE_UP[layout]
    if layout.startswith("zarr"):
        pytest.importorskip("zarr")
    read, refused = [], []

    @settings(
        max_examples=round(10 * TRIES),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=TRIES <= 1,
        database=None,
    )
    @given(CASE)
    def one_case(case):
        data, is_good = make_up(case), bool(np.isfinite(case["odd"]))
        path = tmp_path_factory.mktemp("made") / name
        write(path, table_of(data) if write is write_table else data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                demos = sdil.read(path, clean="0")
        except InputError:
            refused.append(is_good)
            return
        found = [*demos.clean, *demos.noisy]
        unread = case["where"] == "reward" and all(t.rewards is None for t in found)
        assert is_good or unread  # nothing that is not finite comes in
        assert len(found) == len(data)
        for now, was in zip(found, data, strict=True):
            # a text has the shortest digits of a float32, which are read as float64
            np.testing.assert_array_equal(now.actions.astype(np.float32), was["action"])
            assert np.isfinite(now.observations).all()
            if now.rewards is not None:
                np.testing.assert_array_equal(now.rewards, was["reward"].astype(np.float64))
        read.append(path)

    one_case()
    assert read
    assert not any(refused)  # what can be kept is kept
