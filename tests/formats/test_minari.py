from __future__ import annotations

import json
from dataclasses import replace

import h5py
import numpy as np
import pytest
from minari import MinariDataset

from sdil import Demonstrations, InputError, Trajectory
from sdil.formats.minari import Notes, annotate, lengths_of, read_datasets, write_dataset


@pytest.fixture
def made(make_episode) -> Demonstrations:
    """Two clean episodes, the second with neither rewards nor a last observation; a noisy one."""
    bare = Trajectory(np.arange(9, dtype=np.float32).reshape(3, 3), np.array([0, 1, 0]), id="bare")
    cut = make_episode(2, seed=1, id="cut", group="g", terminated=False)
    return Demonstrations([make_episode(4, id="whole"), bare], [cut])


def test_writing_and_reading_are_inverse(tmp_path, made):
    sets = {
        tmp_path / "clean-v0": made.clean,
        tmp_path / "noisy-v0": made.noisy,
        tmp_path / "none-v0": made.noisy[:0],
    }
    notes = {folder: write_dataset(t, made.spaces, folder) for folder, t in sets.items()}
    noted = {folder: Notes.from_json(n.to_json()) for folder, n in notes.items()}
    assert noted == notes
    read = read_datasets(noted, made.spaces)
    assert read == list(sets.values())
    assert read[0].observations is read[1].observations
    assert len(read[0].observations) == 5 + 3 + 3  # what is absent takes no room
    (alone,) = read_datasets({tmp_path / "noisy-v0": notes[tmp_path / "noisy-v0"]}, made.spaces)
    assert alone == made.noisy
    assert [lengths_of(folder) for folder in sets] == [[4, 3], [2], []]


def test_what_is_noted(made):
    assert Notes.of(made.clean).to_json() == {
        "episodes": 2,
        "steps": 7,
        "ids": ["whole", "bare"],
        "groups": [None, None],
        "without_rewards": [1],
        "without_final_observation": [1],
    }


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"ids": ["whole"]}, "ids or groups do not fit"),
        ({"groups": []}, "ids or groups do not fit"),
        ({"without_rewards": [2]}, "not there"),
        ({"without_final_observation": [-1]}, "not there"),
        ({"without_final_observation": 1}, "`without_final_observation` is 1, not a list"),
        ({"without_rewards": ["0"]}, "not there"),
        ({"episodes": 2.0}, "`episodes` is 2.0, not a whole number"),
        ({"episodes": True}, "`episodes` is True, not a whole number"),
        ({"steps": -7}, "`steps` is -7, not a whole number"),
        ({"steps": "7"}, "`steps` is '7', not a whole number"),
        ({"ids": {"a": 1, "b": 2}}, "`ids` is .* not a list"),
        ({"ids": ["a", "a"]}, "two episodes are called 'a'"),
        ({"ids": ["a", None]}, "the id of episode 1 is None, not a text"),
        ({"ids": ["a", ""]}, "the id of episode 1 is '', not a text"),
        ({"ids": [1, 2]}, "the id of episode 0 is 1, not a text"),
        ({"ids": ["a", chr(0xD800)]}, "the id of episode 1 is .* not a text"),
        ({"groups": [None, 3]}, "the group of episode 'bare' is 3, not a text"),
    ],
)
def test_wrong_notes_are_refused(wrong, error, made):
    with pytest.raises(InputError, match=error):
        Notes.from_json(Notes.of(made.clean).to_json() | wrong)


def test_minari_sees_where_something_is_absent(tmp_path, made):
    write_dataset(made.clean, made.spaces, tmp_path / "clean-v0")
    dataset = MinariDataset(tmp_path / "clean-v0" / "data")
    assert dataset.spec.dataset_id == "clean-v0"
    assert dataset[1].observations[:, 0].tolist() == [0, 3, 6, 6]
    assert np.isnan(dataset[1].rewards).all()
    np.testing.assert_array_equal(dataset[0].rewards, made.clean[0].rewards)


def test_annotations_are_minaris_metadata(tmp_path, made):
    notes = write_dataset(made.clean, made.spaces, tmp_path / "clean-v0")
    annotate(tmp_path / "clean-v0", [{"kept": 0.5}, {"kept": 1.0}])
    storage = MinariDataset(tmp_path / "clean-v0" / "data").storage
    assert [m["kept"] for m in storage.get_episode_metadata([0, 1])] == [0.5, 1.0]
    assert read_datasets({tmp_path / "clean-v0": notes}, made.spaces) == [made.clean]


def test_a_damaged_or_changed_data_set_is_named(tmp_path, made):
    folder = tmp_path / "clean-v0"
    notes = write_dataset(made.clean, made.spaces, folder)
    with pytest.raises(
        InputError, match=r"clean-v0 holds 2 episodes and 7 steps, but 1 and 2 were"
    ):
        read_datasets({folder: Notes.of(made.noisy)}, made.spaces)
    (folder / "data" / "main_data.hdf5").write_bytes(b"hello")
    with pytest.raises(InputError, match=r"main_data\.hdf5: damaged or truncated near .*'whole'"):
        read_datasets({folder: notes}, made.spaces)
    with pytest.raises(InputError, match="clean-v0: damaged or truncated"):
        lengths_of(folder)
    with pytest.raises(InputError, match="Minari cannot open this data set"):
        annotate(tmp_path / "nowhere", [])


@pytest.mark.parametrize(
    ("field", "values", "message"),
    [
        ("actions", [0.0, 1.5, 0.0, 1.0], "actions are stored as float64, which int64 cannot hold"),
        ("actions", [0.0, np.nan, 0.0, 1.0], "actions are stored as float64"),
        ("observations", np.full((5, 3), 16777217), "observations are stored as int64"),
        ("observations", np.zeros((5, 1), np.float32), r"observations of shape \(5, 1\)"),
        ("rewards", [0.5], r"rewards of shape \(1,\)"),
        ("terminations", [True], "1 terminations for 4 actions"),
    ],
)
def test_values_that_do_not_fit_the_spaces_are_refused(tmp_path, made, field, values, message):
    folder = tmp_path / "clean-v0"
    notes = write_dataset(made.clean, made.spaces, folder)
    with h5py.File(folder / "data" / "main_data.hdf5", "a") as file:
        del file["episode_0"][field]
        file["episode_0"][field] = np.asarray(values)
    with pytest.raises(InputError, match=rf"near episode 'whole' \({message}"):
        read_datasets({folder: notes}, made.spaces)


def test_a_size_that_both_files_state_wrongly_takes_no_memory(tmp_path, made):
    folder = tmp_path / "clean-v0"
    notes = write_dataset(made.clean, made.spaces, folder)
    metadata = folder / "data" / "metadata.json"
    for steps in (8, 10**8, 10**12, 10**30):
        metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"total_steps": steps}))
        with pytest.raises(InputError, match=r"7 steps where|do not fit into memory"):
            read_datasets({folder: replace(notes, steps=steps)}, made.spaces)
