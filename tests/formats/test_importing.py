"""Importing is streamed, whole or not at all, goes on where it stopped, and loses nothing."""

from __future__ import annotations

import json
import zipfile
import zlib

import numpy as np
import pytest
from layouts import (
    episodes,
    write_d4rl,
    write_minari,
    write_numpy,
    write_robomimic,
    write_table,
    write_zarr,
)

import sdil
from sdil.cli import main
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.formats import importing, reading
from sdil.formats.fingerprints import fingerprint_like
from sdil.formats.folder import describe, origin_of
from sdil.formats.importing import import_source, work_folder
from sdil.formats.reading import open_reading
from sdil.formats.recognise import parse_address


def reading_of(path, **choices):
    return open_reading(parse_address(path).with_choices(**choices))


@pytest.mark.parametrize(
    ("write", "name"),
    [
        (write_robomimic, "a.hdf5"),
        (write_d4rl, "b.hdf5"),
        (write_minari, "c-v0"),
        (write_numpy, "d.npz"),
        (write_table, "e.csv"),
    ],
)
def test_what_is_imported_is_what_is_read(tmp_path, write, name):
    path = write(tmp_path / name)
    done = import_source(reading_of(path, clean="0,2", every="2"), tmp_path / "mine")
    loaded, read = (
        sdil.load_demonstrations(tmp_path / "mine"),
        sdil.read(path, clean="0,2", every=2),
    )
    assert loaded == read
    assert loaded.fingerprint() == read.fingerprint()
    assert done.episodes == {"clean": 2, "noisy": 4}
    origin = origin_of(tmp_path / "mine")
    assert origin == read.origin
    steps = len(read.noisy[0])
    assert origin.frames_of(read.noisy.ids[0], steps).tolist() == (
        read.origin.frames_of(read.noisy.ids[0], steps).tolist()
    )


def test_minari_opens_it(tmp_path):
    import minari

    path = write_robomimic(tmp_path / "a.hdf5")
    import_source(reading_of(path, clean="better"), tmp_path / "mine")
    opened = minari.MinariDataset(tmp_path / "mine" / "noisy-v0" / "data")
    assert opened.total_episodes == 4
    first = next(opened.iterate_episodes())
    np.testing.assert_array_equal(first.actions, episodes()[1]["action"])


def test_a_saved_reading_keeps_its_names(tmp_path):
    demos = sdil.read(write_robomimic(tmp_path / "a.hdf5"), clean="better", every=2)
    sdil.save_demonstrations(demos, tmp_path / "mine")
    assert origin_of(tmp_path / "mine") == demos.origin
    about = json.loads((tmp_path / "mine" / "sdil.json").read_text())
    assert about["names"]["action"] == ["actions[0]", "actions[1]"]
    about["names"]["action"] = 3
    (tmp_path / "mine" / "sdil.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match="`source` or `names` is damaged"):
        origin_of(tmp_path / "mine")


def stop_after(count):
    def on_progress(done, total):
        if done == count:
            raise KeyboardInterrupt

    return on_progress


@pytest.mark.parametrize("count", [1, 2, 4])
def test_an_import_goes_on_where_it_stopped(tmp_path, count, monkeypatch):
    monkeypatch.setattr(reading, "BYTES", 1)  # no two episodes at once
    path, out = write_d4rl(tmp_path / "b.hdf5"), tmp_path / "mine"
    with pytest.raises(KeyboardInterrupt):
        import_source(reading_of(path, clean="0,2"), out, on_progress=stop_after(count))
    assert not out.exists()
    assert work_folder(out).exists()
    again = reading_of(path, clean="0,2")
    asked = []
    whole = type(again.source).read
    monkeypatch.setattr(
        type(again.source), "read", lambda s, i, f: asked.append(i) or whole(s, i, f)
    )
    done = import_source(again, out)
    assert done.resumed == count
    assert len(asked) == 6 - count  # what was written is not read again
    assert not work_folder(out).exists()
    read = sdil.read(path, clean="0,2")
    assert sdil.load_demonstrations(out) == read
    assert origin_of(out) == read.origin


def test_a_disk_that_is_full_at_a_note_loses_nothing(tmp_path, monkeypatch):
    """It is no fault of the source, for which all would begin anew."""
    monkeypatch.setattr(reading, "BYTES", 1)
    monkeypatch.setattr(importing, "_SECONDS", 0.0)
    path, out = write_d4rl(tmp_path / "b.hdf5"), tmp_path / "mine"
    note, notes = importing._note, []

    def full(*of):
        notes.append(of)
        if len(notes) == 3:
            raise InputError("the disk is full")
        note(*of)

    monkeypatch.setattr(importing, "_note", full)
    with pytest.raises(InputError, match="the disk is full"):
        import_source(reading_of(path, clean="0,2"), out)
    assert work_folder(out).exists()
    monkeypatch.setattr(importing, "_note", note)
    assert import_source(reading_of(path, clean="0,2"), out).resumed == 3
    assert sdil.load_demonstrations(out) == sdil.read(path, clean="0,2")


def test_it_goes_on_after_episodes_that_were_read_at_once(tmp_path):
    path, out = write_d4rl(tmp_path / "b.hdf5"), tmp_path / "mine"
    with pytest.raises(KeyboardInterrupt):
        import_source(reading_of(path, clean="0-2"), out, on_progress=stop_after(3))
    done = import_source(reading_of(path, clean="0-2"), out)
    assert done.resumed == 3
    read = sdil.read(path, clean="0-2")
    assert sdil.load_demonstrations(out) == read
    written = describe(out)["fingerprint"]
    assert written == fingerprint_like(written, read)
    assert origin_of(out) == read.origin


@pytest.mark.parametrize("size", [1, 1500, 1 << 21])
@pytest.mark.parametrize(
    ("write", "name"), [(write_numpy, "a.npz"), (write_d4rl, "b.hdf5"), (write_zarr, "c.zarr")]
)
def test_episodes_at_once_are_what_they_are_one_by_one(tmp_path, monkeypatch, write, name, size):
    path, out = write(tmp_path / name), tmp_path / "mine"
    one_by_one = Demonstrations(
        *([reading_of(path, clean="1-3").read_one(i) for i in s] for s in ((1, 2, 3), (0, 4, 5)))
    )
    monkeypatch.setattr(reading, "BYTES", size)
    import_source(reading_of(path, clean="1-3"), out)
    written = describe(out)["fingerprint"]
    assert written == fingerprint_like("crc32:", one_by_one)
    assert sdil.load_demonstrations(out, check=True) == one_by_one
    assert sdil.read(path, clean="1-3") == one_by_one
    file = out / "clean-v0" / "data" / "main_data.hdf5"
    said = json.loads((out / "sdil.json").read_text())["checksums"]
    assert said["clean-v0/data/main_data.hdf5"] == f"crc32:{zlib.crc32(file.read_bytes()):08x}"


@pytest.mark.parametrize("length", [1, 300])
def test_checksums_of_the_source_go_into_the_file(tmp_path, length):
    random = np.random.default_rng(0)
    lengths = [length, 2 * length, length + 1, length + 4]
    ends = np.cumsum(lengths)
    seen, done = random.normal(size=(ends[-1], 5)), random.integers(0, 9, (ends[-1], 3))
    path, out = tmp_path / "a.npz", tmp_path / "mine"
    np.savez(path, obs=seen, actions=done.astype(np.int8), rewards=seen[:, 0], ends=ends)
    import_source(reading_of(path, clean="0,3"), out)
    for name in ("clean-v0/data/main_data.hdf5", "noisy-v0/data/main_data.hdf5"):
        said = json.loads((out / "sdil.json").read_text())["checksums"][name]
        assert said == f"crc32:{zlib.crc32((out / name).read_bytes()):08x}"
    assert sdil.load_demonstrations(out) == sdil.read(path, clean="0,3")


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["observations", "actions", "ends"])
def test_a_flipped_bit_of_a_stored_array_is_seen(tmp_path, compressed, name):
    random = np.random.default_rng(0)
    arrays = {"observations": random.normal(size=(900, 9)), "actions": random.normal(size=(900, 2))}
    arrays["ends"] = np.array([300, 900])
    path = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, **arrays)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        info = file.getinfo(f"{name}.npy")
    content[info.header_offset + 60 + info.compress_size - 20] ^= 16
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"NumPy cannot read it|does not cut"):
        sdil.open_source(path)


@pytest.mark.parametrize("damage", ["journal", "name", "data", "other request", "source changed"])
def test_what_does_not_fit_is_begun_anew(tmp_path, damage):
    path, out = write_d4rl(tmp_path / "b.hdf5"), tmp_path / "mine"
    with pytest.raises(KeyboardInterrupt):
        import_source(reading_of(path, clean="0,2"), out, on_progress=stop_after(3))
    work = work_folder(out)
    clean = "0,2"
    if damage == "journal":
        (work / "importing.json").write_text("{")
    elif damage == "name":
        noted = json.loads((work / "importing.json").read_text())
        noted["sets"]["clean"]["ids"][0] = "another"
        (work / "importing.json").write_text(json.dumps(noted))
    elif damage == "data":
        file = work / "clean-v0" / "data" / "main_data.hdf5"
        content = bytearray(file.read_bytes())
        at = content.find(episodes()[0]["action"].tobytes())
        content[at] ^= 1
        file.write_bytes(content)
    elif damage == "other request":
        clean = "1"
    else:
        write_d4rl(path, episodes(seed=1))
    done = import_source(reading_of(path, clean=clean), out)
    assert done.resumed == 0
    assert sdil.load_demonstrations(out) == sdil.read(path, clean=clean)


def test_damage_in_the_source_leaves_nothing(tmp_path):
    data = episodes()
    data[4]["action"][3, 0] = np.inf
    path = write_robomimic(tmp_path / "a.hdf5", data)
    with pytest.raises(InputError, match=r"'demo_4', row 3, actions\[0\]: inf"):
        import_source(reading_of(path, clean="0"), tmp_path / "mine")
    assert [p.name for p in tmp_path.iterdir()] == ["a.hdf5"]


def test_a_full_disk_is_said_before_anything_is_written(tmp_path, monkeypatch):
    path = write_robomimic(tmp_path / "a.hdf5")
    monkeypatch.setattr(importing, "_size", lambda reading: 10**18)
    with pytest.raises(InputError, match="the disk is full"):
        import_source(reading_of(path, clean="0"), tmp_path / "mine")


def test_the_command(tmp_path, capsys):
    path, out = write_robomimic(tmp_path / "a.hdf5"), tmp_path / "mine"
    asked = ["import", str(path), "--out", str(out)]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert "which episodes are trusted? Say it with --clean. There are filter keys better" in said
    assert main([*asked, "--clean", "better", "--features", "obs/state"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "clean: those with the filter key better (2); noisy: all others (4)" in said
    assert "pictures, left out: obs/image" in said
    assert main([*asked, "--clean", "worse"]) == 2
    assert main([*asked, "--clean", "worse", "--overwrite", "--json"]) == 0
    capsys.readouterr()
    assert describe(out)["source"]["choices"] == {"clean": "worse"}


def test_the_page_calls_actions_as_the_data_does(tmp_path):
    from sdil.explanation.explain import _kinds_of_actions

    demos = sdil.read(write_robomimic(tmp_path / "a.hdf5"), clean="better")
    _, names = _kinds_of_actions(demos, None, demos.origin.action, 0)
    assert all(name.startswith("actions[0] ") and ", actions[1] " in name for name in names)
    _, plain = _kinds_of_actions(demos, None, (), 0)
    assert not any("actions" in name for name in plain)


def test_a_judgement_remembers_what_was_chosen(tmp_path, monkeypatch):
    from sdil.formats.data import absolute, describe, is_source, load_demonstrations, with_choices

    write_robomimic(tmp_path / "a.hdf5")
    monkeypatch.chdir(tmp_path)
    kept = absolute(with_choices("robomimic:a.hdf5", clean="better", every="2"))
    monkeypatch.chdir("/")
    assert is_source(kept)
    demos = load_demonstrations(kept)
    assert demos.clean.ids == ("demo_0", "demo_2")
    assert demos == sdil.read(tmp_path / "a.hdf5", clean="better", every=2)
    assert describe(kept)["names"]["action"] == ["actions[0]", "actions[1]"]
    write_robomimic(tmp_path / "a.hdf5", episodes(seed=3))  # what is read follows the file
    assert load_demonstrations(kept) != demos
