from __future__ import annotations

import hashlib
import json
import os
import shutil
import zlib
from pathlib import Path

import gymnasium as gym
import h5py
import minari
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from minari import MinariDataset

import sdil
from sdil import (
    Demonstrations,
    InputError,
    Spaces,
    Trajectory,
    load_demonstrations,
    load_truth,
    save_demonstrations,
)
from sdil.formats import folder as folder_module
from sdil.formats.folder import describe

FLOATS = st.floats(-1e6, 1e6, width=32)


@st.composite
def trajectories(draw, name):
    length = draw(st.integers(1, 6))
    rows = length + draw(st.booleans())
    return Trajectory(
        observations=draw(hnp.arrays(np.float32, (rows, 2), elements=FLOATS)),
        actions=draw(hnp.arrays(np.int64, length, elements=st.integers(0, 4))),
        rewards=draw(st.none() | hnp.arrays(np.float64, length, elements=FLOATS)),
        terminated=draw(st.booleans()),
        id=f"{name}-{draw(st.text(max_size=4))}",
        group=draw(st.none() | st.text(max_size=3)),
    )


@st.composite
def demonstrations(draw):
    sets = [
        draw(st.lists(trajectories(name), min_size=low, max_size=3, unique_by=lambda t: t.id))
        for name, low in (("clean", 1), ("noisy", 0))
    ]
    return Demonstrations(clean=sets[0], noisy=sets[1])


@given(demonstrations())
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_save_and_load_are_inverse(tmp_path_factory, demos):
    folder = tmp_path_factory.mktemp("round") / "demos"
    save_demonstrations(demos, folder)
    loaded = load_demonstrations(folder)
    assert loaded == demos
    assert loaded.fingerprint() == demos.fingerprint()


def test_continuous_actions_and_images_survive(tmp_path):
    rng = np.random.default_rng(0)
    t = Trajectory(
        observations=rng.integers(0, 255, (4, 8, 8, 3), np.uint8),
        actions=rng.normal(size=(3, 2)).astype(np.float32),
    )
    spaces = Spaces(
        gym.spaces.Box(0, 255, (8, 8, 3), np.uint8), gym.spaces.Box(-9, np.inf, (2,), np.float32)
    )
    demos = Demonstrations(clean=[t], spaces=spaces)
    save_demonstrations(demos, tmp_path / "d")
    assert load_demonstrations(tmp_path / "d") == demos


def test_minari_itself_reads_the_folder(tmp_path, fourrooms, monkeypatch):
    demos, _ = fourrooms
    save_demonstrations(demos, tmp_path / "d")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "d"))
    clean = minari.load_dataset("clean-v0")
    assert clean.total_episodes == 30
    assert clean.total_steps == demos.clean.n_steps
    first = MinariDataset(tmp_path / "d" / "noisy-v0" / "data")[0]
    np.testing.assert_array_equal(first.observations, demos.noisy[0].observations)
    np.testing.assert_array_equal(first.actions, demos.noisy[0].actions)
    assert first.truncations[-1]
    assert not first.terminations[-1]


def test_truth_lies_apart_and_comes_back(tmp_path, fourrooms):
    demos, truth = fourrooms
    save_demonstrations(demos, tmp_path / "d", truth=truth)
    loaded = load_truth(tmp_path / "d")
    assert all(
        np.array_equal(a, b) for a, b in zip(loaded.noisy_good, truth.noisy_good, strict=True)
    )
    assert [len(g) for g in loaded.clean_good] == demos.clean.lengths.tolist()
    assert loaded.noisy_segment is None
    (tmp_path / "d" / "truth.npz").unlink()
    assert load_truth(tmp_path / "d") is None
    assert load_demonstrations(tmp_path / "d") == demos


def test_the_truth_of_a_clean_set_alone_and_of_segments_comes_back(tmp_path):
    task = sdil.get_task("fourrooms")
    for name, noisy in (("alone", 0), ("segments", 3)):
        demos, truth = task.collect(clean=2, noisy=noisy, seed=0, noise="segments")
        save_demonstrations(demos, tmp_path / name, truth=truth)
        loaded = load_truth(tmp_path / name)
        assert [g.tolist() for g in loaded.noisy_good] == [g.tolist() for g in truth.noisy_good]
        assert [s.tolist() for s in loaded.noisy_segment] == [
            s.tolist() for s in truth.noisy_segment
        ]
        assert len(loaded.noisy_segment) == noisy
        assert loaded.segment_names == truth.segment_names == ("good", "detour", "random")


def test_truth_must_fit_step_by_step(tmp_path, fourrooms):
    demos, truth = fourrooms
    with pytest.raises(InputError, match="clean_good does not fit"):
        save_demonstrations(demos.take_clean(5, seed=0), tmp_path / "d", truth=truth)
    assert not (tmp_path / "d").exists()


@pytest.fixture
def folder(tmp_path, demos):
    save_demonstrations(demos, tmp_path / "d")
    return tmp_path / "d"


def _cut(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])


def _edit(folder, change):
    about = json.loads((folder / "sdil.json").read_text())
    change(about)
    (folder / "sdil.json").write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda d: _cut(d / "clean-v0/data/main_data.hdf5"),
            r"main_data.hdf5: damaged or truncated",
        ),
        (lambda d: _cut(d / "noisy-v0/data/metadata.json"), r"noisy-v0: Minari cannot open"),
        (lambda d: (d / "noisy-v0/data/main_data.hdf5").unlink(), r"noisy-v0: Minari cannot open"),
        (
            lambda d: (d / "clean-v0/data/main_data.hdf5").write_text("hello"),
            "damaged or truncated",
        ),
        (lambda d: _cut(d / "sdil.json"), r"sdil.json: cannot be read as JSON"),
        (
            lambda d: (d / "sdil.json").unlink(),
            r"not a folder of demonstrations: sdil.json is missing",
        ),
        (lambda d: _edit(d, lambda a: a.update(format=99)), r"format 99 is not the one"),
        (lambda d: _edit(d, lambda a: a.pop("spaces")), r"sdil.json: damaged"),
        (
            lambda d: _edit(d, lambda a: a["noisy"].update(ids=[])),
            r"sdil.json: damaged .*ids or groups do not fit",
        ),
        (
            lambda d: _edit(d, lambda a: a["clean"].update(steps=10**15)),  # never allocated
            r"it was changed afterwards",
        ),
        (
            lambda d: _edit(d, lambda a: a["clean"].update(steps=29)),
            r"it was changed afterwards",
        ),
        (
            lambda d: _edit(d, lambda a: a["spaces"]["action"].update(n=2)),
            r"clean set, episode 'clean-0', step \d+: action = 2 lies outside Discrete\(2\)",
        ),
    ],
)
def test_a_damaged_folder_is_named(folder, damage, message):
    damage(folder)
    with pytest.raises(InputError, match=message):
        load_demonstrations(folder)


@pytest.mark.parametrize("key", ["ids", "without_rewards", "groups"])
def test_a_missing_entry_is_named(folder, key):
    _edit(folder, lambda about: about["noisy"].pop(key))
    with pytest.raises(InputError, match=rf"sdil.json: damaged .*{key}"):
        load_demonstrations(folder)


def test_a_truncated_truth_is_named(tmp_path, fourrooms):
    demos, truth = fourrooms
    save_demonstrations(demos, tmp_path / "d", truth=truth)
    _cut(tmp_path / "d" / "truth.npz")
    with pytest.raises(InputError, match=r"truth\.npz: cannot be read"):
        load_truth(tmp_path / "d")
    assert load_demonstrations(tmp_path / "d") == demos


def test_a_truth_of_other_demonstrations_is_refused(tmp_path, fourrooms):
    demos, truth = fourrooms
    save_demonstrations(demos, tmp_path / "d", truth=truth)
    _edit(tmp_path / "d", lambda about: about.pop("checksums"))  # it would tell already
    np.savez(tmp_path / "d" / "truth.npz", clean_good=np.ones(3, bool), noisy_good=np.ones(3, bool))
    with pytest.raises(
        InputError, match=rf"truth\.npz: .*3 labels for {demos.clean.n_steps} steps"
    ):
        load_truth(tmp_path / "d")


def test_whole_number_spaces_survive_to_the_last_digit():
    limits = np.iinfo(np.int64)
    spaces = Spaces(
        gym.spaces.Box(limits.min, limits.max, (2,), np.int64), gym.spaces.Discrete(3, start=1)
    )
    assert Spaces.from_json(json.loads(json.dumps(spaces.to_json()))) == spaces


def test_nan_in_the_file_is_found(folder):
    with h5py.File(folder / "noisy-v0/data/main_data.hdf5", "a") as file:
        file["episode_3/observations"][1, 5] = np.nan
    with pytest.raises(
        InputError, match=r"noisy set, episode 'noisy-3', step 1: observation element \(5,\)"
    ):
        load_demonstrations(folder)


def test_missing_folder(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        load_demonstrations(tmp_path / "nowhere")


def test_existing_data_is_kept_unless_told_otherwise(folder, demos):
    before = load_demonstrations(folder)
    small = demos.take_clean(2, seed=0)
    with pytest.raises(InputError, match="exists already"):
        save_demonstrations(small, folder)
    assert load_demonstrations(folder) == before
    save_demonstrations(small, folder, overwrite=True)
    assert load_demonstrations(folder) == small
    assert [p.name for p in folder.parent.iterdir()] == ["d"]


def test_a_strangers_folder_is_never_replaced(tmp_path, demos):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match="kept"):
        save_demonstrations(demos, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"


def test_an_interrupted_or_failing_write_leaves_nothing(tmp_path, demos, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sdil.formats.folder.write_dataset", fail)
    with pytest.raises(InputError, match="the disk is full"):
        save_demonstrations(demos, tmp_path / "d")

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdil.formats.folder.write_dataset", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_demonstrations(demos, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_named(tmp_path, demos):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*/file/d"):
        save_demonstrations(demos, tmp_path / "file" / "d")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_named(tmp_path, demos):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot write"):
        save_demonstrations(demos, tmp_path / "d")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A folder of every kind of file, the demonstrations in it, and their truth."""
    demos, truth = sdil.get_task("fourrooms").collect(clean=2, noisy=3, seed=0, noise="segments")
    folder = tmp_path_factory.mktemp("small") / "d"
    save_demonstrations(demos, folder, truth=truth, task="fourrooms", origin={"seed": 0})
    return folder, demos, truth


def _flip(path, bit):
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_one_flipped_bit_anywhere_is_refused_or_changes_nothing(small):
    folder, demos, truth = small
    told, said = truth.to_arrays(), describe(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert len(files) == 8
    rng = np.random.default_rng(0)
    refused = 0
    for number in range(120):
        path = files[number % len(files)]
        bit = int(rng.integers(8 * path.stat().st_size))
        _flip(path, bit)
        try:
            assert load_demonstrations(folder) == demos, f"{path}, bit {bit}"
            found = describe(folder)  # `checksums` under another name are as if there were none
            assert all(found[key] == said[key] for key in said if key != "checksums")
        except InputError:
            refused += 1
        try:
            read = load_truth(folder).to_arrays()
            assert all(np.array_equal(read[name], told[name]) for name in told), f"{path} {bit}"
        except InputError:
            refused += 1
        _flip(path, bit)
    assert refused > 60
    assert load_demonstrations(folder) == demos


@pytest.mark.parametrize("change", ["grown", "moved", "places gone", "an earlier version's"])
def test_what_does_not_lie_in_its_place_is_read_episode_by_episode(writable, change, monkeypatch):
    place, demos, _ = writable
    slowly = []
    usual = folder_module.read_datasets

    def read(*arguments):
        slowly.append(change)
        return usual(*arguments)

    monkeypatch.setattr(folder_module, "read_datasets", read)
    assert load_demonstrations(place) == demos
    assert slowly == []  # at once
    file = place / "noisy-v0" / "data" / "main_data.hdf5"
    if change == "moved":  # rewritten by another program: the same values elsewhere
        with h5py.File(file, "a") as data:
            for group in data.values():
                values = group["observations"][()]
                del group["observations"]
                group["observations"] = values + 0
                data.flush()
    elif change == "grown":
        with h5py.File(file, "a") as data:
            data.create_dataset("more", data=np.zeros(10_000))
    else:
        (place / "noisy-v0" / "places.npy").unlink()
    if change == "an earlier version's":
        about = json.loads((place / "sdil.json").read_text())
        del about["checksums"], about["fingerprint"]
        (place / "sdil.json").write_text(json.dumps(about))
    assert load_demonstrations(place) == demos
    assert slowly == ([change])


@pytest.mark.parametrize("kind", ["crc32", "sha256"])
def test_files_are_read_at_once_by_the_checksums_of_this_version_and_the_one_before(
    writable, kind, monkeypatch
):
    place, demos, _ = writable
    about = json.loads((place / "sdil.json").read_text())
    noted = about["checksums"]
    data = "noisy-v0/data/main_data.hdf5"
    assert noted[data] == f"crc32:{zlib.crc32((place / data).read_bytes()):08x}"
    if kind == "sha256":
        of_sets = [file for file in noted if "-v0/" in file]
        noted |= {f: hashlib.sha256((place / f).read_bytes()).hexdigest() for f in of_sets}
        del noted["sdil.json"]
        noted["sdil.json"] = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
        (place / "sdil.json").write_text(json.dumps(about))
    with monkeypatch.context() as patch:
        patch.delattr(folder_module, "read_datasets")
        assert load_demonstrations(place) == demos
    content = bytearray((place / data).read_bytes())
    content[int(np.load(place / "noisy-v0/places.npy")[0, 1])] ^= 1  # a digit of an observation
    (place / data).write_bytes(content)
    with pytest.raises(InputError, match="the data is not what was written"):
        load_demonstrations(place)


def test_a_set_that_the_hdf5_library_wrote_is_read_at_once(writable, monkeypatch):
    """As versions before wrote them: headers of the newest kind, between the arrays."""
    place, demos, _ = writable
    file, places = (place / "noisy-v0" / n for n in ("data/main_data.hdf5", "places.npy"))
    with h5py.File(file, "r") as data:
        held = [{n: (a[()], dict(g.attrs)) for n, a in g.items()} for g in data.values()]
    names = ("observations", "actions", "rewards", "terminations", "truncations")
    with h5py.File(file, "w", track_order=True, libver="latest") as data:
        where = []
        for i in range(len(held)):
            group = data.create_group(f"episode_{i}")
            number = next(h for h in held if h["actions"][1]["id"] == i)
            for name in names:
                group[name] = number[name][0]
            group.attrs.update(number["actions"][1])
            offsets = [group[name].id.get_offset() for name in names[:4]]
            where.append([len(group["actions"]), *offsets])
    np.save(places, np.array(where))
    about = json.loads((place / "sdil.json").read_text())
    folder_module.write_about(place, about)
    monkeypatch.setattr(folder_module, "read_datasets", None)  # episode by episode
    assert load_demonstrations(place) == demos


@pytest.fixture
def writable(small, tmp_path):
    folder, demos, truth = small
    return Path(shutil.copytree(folder, tmp_path / "copy")), demos, truth


@pytest.mark.parametrize("set_name", ["clean", "noisy"])
@pytest.mark.parametrize("field", ["observations", "actions", "rewards"])
def test_another_value_within_its_space_is_refused(writable, set_name, field):
    folder, _, _ = writable
    with h5py.File(folder / f"{set_name}-v0/data/main_data.hdf5", "a") as file:
        values = file[f"episode_1/{field}"]
        values[0] = 1 - np.clip(values[0], 0, 1)
    with pytest.raises(InputError, match=r"copy: the data is not what was written .*copy the fold"):
        load_demonstrations(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about.update(task="doorkey"),
        lambda about: about.update(environment="other"),
        lambda about: about["origin"].update(seed=1),
        lambda about: about["checksums"].update({"sdil.json": "0"}),
    ],
)
def test_another_word_about_the_data_is_refused_until_the_checksums_are_removed(writable, change):
    folder, demos, _ = writable
    _edit(folder, change)
    with pytest.raises(InputError, match=r"sdil\.json: it is not what was written .*`checksums`"):
        load_demonstrations(folder)
    _edit(folder, lambda about: about.pop("checksums"))
    assert load_demonstrations(folder) == demos


def test_another_limit_of_a_space_is_refused_to_the_last_digit(tmp_path):
    high = np.array([0.1, 1 / 3])
    spaces = Spaces(gym.spaces.Box(-high, high, dtype=np.float64), gym.spaces.Discrete(2))
    demos = Demonstrations([Trajectory(np.zeros((2, 2)), [1])], spaces=spaces)
    save_demonstrations(demos, tmp_path / "d")
    assert load_demonstrations(tmp_path / "d") == demos
    other = str(np.nextafter(1 / 3, 1))
    _edit(
        tmp_path / "d", lambda about: about["spaces"]["observation"]["high"].__setitem__(1, other)
    )
    with pytest.raises(InputError, match="it is not what was written"):
        load_demonstrations(tmp_path / "d")


def test_another_truth_is_refused(writable):
    folder, demos, truth = writable
    assert load_truth(folder).segment_names == truth.segment_names
    arrays = truth.to_arrays()
    np.savez_compressed(folder / "truth.npz", **arrays | {"noisy_good": ~arrays["noisy_good"]})
    with pytest.raises(InputError, match=r"truth\.npz: .*it is not the file that was written with"):
        load_truth(folder)
    assert load_demonstrations(folder) == demos


def test_a_folder_of_an_earlier_version_is_read_without_the_check(writable):
    folder, demos, truth = writable
    assert describe(folder)["fingerprint"] == demos.fingerprint()
    _edit(folder, lambda about: (about.pop("checksums"), about.pop("fingerprint")))
    assert load_demonstrations(folder) == demos
    assert load_truth(folder).to_arrays().keys() == truth.to_arrays().keys()
    assert describe(folder)["fingerprint"] is None


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.pop("origin"), "`origin` is missing"),
        (lambda a: a.pop("task"), "`task` is missing"),
        (lambda a: a.update(task=7), "`task` is of the wrong type"),
        (lambda a: a.update(origin=[]), "`origin` is of the wrong type"),
        (lambda a: a.update(clean=[]), "`clean` is of the wrong type"),
        (lambda a: a.update(noisy=None), "`noisy` is of the wrong type"),
        (lambda a: a.update(spaces=[1]), "`spaces` is of the wrong type"),
        (lambda a: a.update(checksums=[]), "`checksums` is of the wrong type"),
        (lambda a: a.update(fingerprint=5), "`fingerprint` is of the wrong type"),
        (lambda a: a["clean"].update(steps=-1), "clean set: `steps` is -1"),
        (lambda a: a["clean"].update(ids=["a", "a"]), "clean set: two episodes are called 'a'"),
        (lambda a: a["noisy"].update(ids=[1, 2, 3]), "noisy set: the id of episode 0 is 1"),
        (lambda a: a["noisy"].update(ids=[None] * 3), "noisy set: the id of episode 0 is None"),
        (lambda a: a["noisy"].update(groups=[[]] * 3), "noisy set: the group of episode"),
        (lambda a: a["spaces"].pop("action"), "the action space: 'action' is missing"),
        (lambda a: a["spaces"].update(action=7), "the action space: it is not an object"),
        (lambda a: a["spaces"]["action"].update(n="7"), "the action space: `n` is not a whole"),
        (lambda a: a["spaces"]["action"].update(n=-7), "the action space: "),
        (lambda a: a["spaces"]["action"].update(n=10**30), "the action space: "),
        (lambda a: a["spaces"]["action"].update(type="Text"), "its `type` is unknown"),
        (lambda a: a["spaces"]["observation"].update(shape=[10**12]), "negative or too large"),
        (lambda a: a["spaces"]["observation"].update(shape=[-1]), "negative or too large"),
        (lambda a: a["spaces"]["observation"].update(shape="153"), "`shape` is no list"),
        (lambda a: a["spaces"]["observation"].update(dtype="O"), "the observation space: "),
        (lambda a: a["spaces"]["observation"].update(dtype="no"), "the observation space: "),
        (lambda a: a["spaces"]["observation"].update(low=[]), "the observation space: "),
        (lambda a: a["spaces"]["observation"].update(low=["nan"]), "not a number"),
        (lambda a: a["spaces"]["observation"].update(low=["9"], high=["1"]), "`low` lies above"),
        (lambda a: a["spaces"]["observation"].update(low=None), "are not lists of numbers"),
    ],
)
def test_a_wrong_field_is_one_clear_error(writable, change, message, checked):
    folder, _, _ = writable
    if not checked:
        _edit(folder, lambda about: (about.pop("checksums"), about.pop("fingerprint")))
    _edit(folder, change)
    with pytest.raises(InputError, match=rf"sdil\.json: damaged \(.*{message}.*copy the folder"):
        load_demonstrations(folder)


@pytest.mark.parametrize("content", ["[]", "7", "null", '"text"'])
def test_what_is_no_description_is_refused(writable, content):
    (writable[0] / "sdil.json").write_text(content)
    with pytest.raises(InputError, match="format None is not the one"):
        load_demonstrations(writable[0])


NUMBERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.float32, np.float64, bool]


@given(
    number=st.sampled_from(NUMBERS),
    seen=st.sampled_from(NUMBERS),
    whole=st.booleans(),
    columns=st.sampled_from([(), (1,), (2,)]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_space_is_inferred_survives(tmp_path_factory, number, seen, whole, columns, seed):
    rng = np.random.default_rng(seed)
    actions = rng.integers(0, 5, (4, *columns)) + (0 if whole else 0.3)
    observations = rng.uniform(0, 100, (5, 2))
    counted = columns == () and (whole or np.dtype(number).kind != "f")
    if columns == () and not counted:
        actions = actions[:, None]  # real numbers are columns
    demos = Demonstrations([Trajectory(observations.astype(seen), actions.astype(number))])
    assert isinstance(demos.spaces.action, gym.spaces.Discrete) == counted
    folder = tmp_path_factory.mktemp("inferred") / "d"
    save_demonstrations(demos, folder)
    loaded = load_demonstrations(folder)
    assert loaded == demos
    assert loaded.fingerprint() == demos.fingerprint()
    np.testing.assert_array_equal(loaded.clean[0].actions, actions.astype(number))
    np.testing.assert_array_equal(loaded.clean[0].observations, observations.astype(seen))


@pytest.mark.parametrize(
    "spaces",
    [
        Spaces(gym.spaces.Box(-1, 1, (), np.float32), gym.spaces.Discrete(3, dtype=np.int32)),
        Spaces(gym.spaces.Box(0, 1, (), bool), gym.spaces.Box(-np.inf, np.inf, (), np.int16)),
        Spaces(gym.spaces.Discrete(2), gym.spaces.Box(0, 9, (), np.int64)),
    ],
)
def test_spaces_of_single_numbers_survive(tmp_path, spaces):
    demos = Demonstrations([Trajectory(np.array([0, 1, 0]), np.array([1, 0]))], spaces=spaces)
    save_demonstrations(demos, tmp_path / "d")
    loaded = load_demonstrations(tmp_path / "d")
    assert loaded == demos
    assert loaded.spaces.action.dtype == spaces.action.dtype


def test_what_could_not_be_read_again_is_not_written(tmp_path, make_episode):
    pool = Demonstrations([make_episode(3, id="a"), make_episode(3, seed=1, id="b")])
    twice = Demonstrations(pool.clean.subset([0, 0]), pool.noisy, pool.spaces)
    with pytest.raises(InputError, match="two episodes are called 'a'"):
        save_demonstrations(twice, tmp_path / "d")
    smaller = Demonstrations(
        pool.clean, pool.noisy, Spaces(pool.spaces.observation, gym.spaces.Discrete(1))
    )
    with pytest.raises(InputError, match=r"episode 'a', step \d: action = \d lies outside"):
        save_demonstrations(smaller, tmp_path / "d")
    other = Demonstrations(
        pool.clean, pool.noisy, Spaces(pool.spaces.observation, gym.spaces.Box(0, 9, (), np.int8))
    )
    with pytest.raises(InputError, match=r"int64 numbers of the space .* cannot be stored"):
        save_demonstrations(other, tmp_path / "d")
    surrogate = Demonstrations([make_episode(3, id=chr(0xD800))])
    with pytest.raises(InputError, match="the id of episode 0"):
        save_demonstrations(surrogate, tmp_path / "d")
    assert list(tmp_path.iterdir()) == []
