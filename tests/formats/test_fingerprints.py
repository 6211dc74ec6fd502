"""What an imported folder carries tells any change of its data, however the files are laid out."""

from __future__ import annotations

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest
from layouts import write_d4rl, write_numpy

import sdil
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats import episodes
from sdil.formats.fingerprints import Summed, fingerprint_like, fingerprint_of, sum_up
from sdil.formats.folder import describe
from sdil.formats.importing import import_source
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address
from sdil.trajectories import Trajectory

FILE = "clean-v0/data/main_data.hdf5"


@pytest.fixture
def folder(tmp_path):
    path = write_d4rl(tmp_path / "b.hdf5")
    import_source(open_reading(parse_address(path).with_choices(clean="0-2")), tmp_path / "mine")
    return tmp_path / "mine"


def walk(seed, name):
    random = np.random.default_rng(seed)
    seen = random.normal(size=(6, 2)).astype(np.float32)
    return Trajectory(seen, random.normal(size=(5, 1)), random.normal(size=5), False, name, "g")


def other(t, name, at):
    values = getattr(t, name).copy()
    values[at] += 1
    return replace(t, **{name: values})


def test_it_changes_with_anything():
    a, b = walk(0, "a"), walk(1, "b")
    first = Demonstrations([a], [b])
    changed = [
        [other(a, "observations", (5, 1))],
        [other(a, "actions", (0, 0))],
        [other(a, "rewards", 4)],
        [replace(a, rewards=None)],
        [replace(a, observations=a.observations[:5])],
        [replace(a, terminated=True)],
        [replace(a, id="c")],
        [replace(a, group=None)],
    ]
    every = [first, *(Demonstrations(clean, [b], first.spaces) for clean in changed)]
    every += [Demonstrations([a, b]), Demonstrations([b], [a])]
    found = [fingerprint_like("crc32:", demos) for demos in every]
    assert len(set(found)) == len(every)
    assert fingerprint_like("crc32:", Demonstrations([a], [b])) == found[0]
    assert fingerprint_like("0" * 64, first) == first.fingerprint()  # as earlier versions have it


def test_it_is_of_the_spaces_too():
    t = walk(0, "a")
    one = Demonstrations([t])
    wider = replace(t, observations=np.zeros((6, 3), np.float32))
    summed = [sum_up(t, framed=False), Summed()]
    assert fingerprint_of(one.spaces, summed) == fingerprint_like("crc32:", one)
    assert fingerprint_of(Demonstrations([wider]).spaces, summed) != fingerprint_of(
        one.spaces, summed
    )


def test_a_file_that_was_written_anew_with_the_same_values_is_read(folder):
    demos = sdil.load_demonstrations(folder)
    with h5py.File(folder / FILE, "r+") as file:
        values = file["episode_0/actions"][()]
        del file["episode_0/actions"]
        file["episode_0/actions"] = values
    assert sdil.load_demonstrations(folder) == demos


@pytest.mark.parametrize("name", ["observations", "actions", "rewards"])
@pytest.mark.parametrize("checked", [True, False])
def test_another_value_is_refused(folder, name, checked):
    with h5py.File(folder / FILE, "r+") as file:
        file[f"episode_1/{name}"][0] += 1
    if not checked:  # whoever edits sdil.json removes them
        about = json.loads((folder / "sdil.json").read_text())
        del about["checksums"]
        (folder / "sdil.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="its fingerprint differs"):
        sdil.load_demonstrations(folder)


def test_another_name_is_refused(folder):
    about = json.loads((folder / "sdil.json").read_text())
    about["clean"]["ids"][0] = "another"
    del about["checksums"]
    (folder / "sdil.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="its fingerprint differs"):
        sdil.load_demonstrations(folder)


def test_sums_of_many_pieces_are_put_together_on_the_way(tmp_path, monkeypatch):
    path = write_numpy(tmp_path / "a.npz")
    address = parse_address(path).with_choices(clean="0-2")
    import_source(open_reading(address), tmp_path / "once")
    monkeypatch.setattr(episodes, "_SUMS", 3)
    monkeypatch.setattr(episodes, "_GATHERED", 1)
    import_source(open_reading(address), tmp_path / "often")
    assert describe(tmp_path / "often")["checksums"] == describe(tmp_path / "once")["checksums"]
