from __future__ import annotations

import json
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from sdil import InputError
from sdil.explanation.record import Explanation


def same(a, b) -> bool:
    if is_dataclass(a):
        return type(a) is type(b) and all(
            same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)
        )
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    if isinstance(a, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return a == b


def test_saving_and_loading_are_inverse(toy_record, tmp_path):
    toy_record.save(tmp_path / "record")
    assert same(Explanation.load(tmp_path / "record"), toy_record)


def test_a_record_without_skills_map_or_truth_too(toy_record, tmp_path):
    bare = Explanation(
        about={},
        action_names=toy_record.action_names,
        episodes=replace(toy_record.episodes, good=None, positions=None, moves=None),
        scores=replace(toy_record.scores, skill=None, spread=None, parts={}),
    )
    bare.save(tmp_path / "record")
    again = Explanation.load(tmp_path / "record")
    assert same(again, bare)
    assert again.skills is None


def test_quality_and_integrity_are_kept_and_records_of_before_have_none(toy_record, tmp_path):
    toy_record.save(tmp_path / "before")
    with np.load(tmp_path / "before" / "arrays.npz") as stored:
        assert not {"scores.quality", "scores.integrity"} & set(stored.files)
    before = Explanation.load(tmp_path / "before").scores
    assert before.quality is before.integrity is None
    integrity = np.where(np.arange(15) % 5, 0.75, np.nan).astype(np.float32)
    scores = replace(
        toy_record.scores, quality=np.linspace(-1, 1, 15, dtype=np.float32), integrity=integrity
    )
    both = replace(toy_record, scores=scores)
    both.save(tmp_path / "both")
    assert same(Explanation.load(tmp_path / "both"), both)
    short = replace(toy_record, scores=replace(scores, quality=scores.quality[1:]))
    short.save(tmp_path / "short")
    with pytest.raises(InputError, match="damaged"):
        Explanation.load(tmp_path / "short")


def test_only_a_record_is_replaced_and_only_when_told(toy_record, tmp_path):
    toy_record.save(tmp_path / "record")
    with pytest.raises(InputError, match="exists already"):
        toy_record.save(tmp_path / "record")
    replace(toy_record, about={"title": "another"}).save(tmp_path / "record", overwrite=True)
    assert Explanation.load(tmp_path / "record").about == {"title": "another"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"no record\.json"):
        toy_record.save(tmp_path / "mine", overwrite=True)


def change(folder, **values):
    text = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(text | values))


def test_a_damaged_record_says_so(toy_record, tmp_path):
    folder = tmp_path / "record"
    with pytest.raises(InputError, match=r"record\.json is missing"):
        Explanation.load(folder)
    toy_record.save(folder)
    change(folder, format=7)
    with pytest.raises(InputError, match="format 7"):
        Explanation.load(folder)
    change(folder, format=1, ids=["a"])
    with pytest.raises(InputError, match="damaged"):
        Explanation.load(folder)
    change(folder, ids=["a", "b", "a", "c"], parts=["likelihood", "nothing"])
    with pytest.raises(InputError, match="damaged"):
        Explanation.load(folder)
    (folder / "arrays.npz").write_bytes(b"no zip")
    with pytest.raises(InputError, match="cannot be read"):
        Explanation.load(folder)


def test_nothing_is_unpickled(toy_record, tmp_path):
    folder = tmp_path / "record"
    toy_record.save(folder)
    np.savez(folder / "arrays.npz", walls=np.array([{"code": 1}], object))
    with pytest.raises(InputError, match="cannot be read"):
        Explanation.load(folder)
