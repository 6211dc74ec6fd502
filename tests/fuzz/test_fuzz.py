"""Made-up inputs by the thousand: a right result, or one clear error. Nothing else.

One thousand cases in CI; `make fuzz` runs ten thousand. Every case draws its own input from
`strategies.py`; what is expected is the same for all: `InputError` (exit code 2 with a sentence on
the command line), or a result that holds what was given.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    cases,
    command_lines,
    configurations,
    data_sets,
    good_data,
    studies,
)

import sdil
from sdil import InputError
from sdil.algorithms import JUDGES, LEARNERS, make_judge
from sdil.cli import main
from sdil.studies.written import read_written

KINDS = {**LEARNERS, **JUDGES}
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("fuzz")]


def clear(error, *words):
    """One sentence, of which one of these words is a part."""
    text = str(error)
    assert text
    assert "Traceback" not in text
    assert not words or any(word in text for word in words), text


def made(arguments):
    return sdil.Demonstrations(
        [sdil.Trajectory(**t) for t in arguments["clean"]],
        [sdil.Trajectory(**t) for t in arguments["noisy"]],
        arguments["spaces"],
    )


@cases(0.4)
@given(data_sets())
def test_data_is_kept_as_it_was_given_or_refused(arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            demos = made(arguments)
        except InputError as error:
            clear(error)
            return
    for name in ("clean", "noisy"):
        given_, kept = arguments[name], getattr(demos, name)
        assert len(kept) == len(given_)
        for was, now in zip(given_, kept, strict=True):
            # the very same numbers; floats may be rounded to the precision of their space
            seen = np.asarray(was["observations"])
            precise = np.allclose(seen, now.observations, rtol=1e-6, atol=1e-30)
            assert precise
            assert seen.shape == now.observations.shape
            assert np.allclose(np.asarray(was["actions"]), now.actions, rtol=1e-6, atol=1e-30)
            assert (was["rewards"] is None) == (now.rewards is None)
            assert now.terminated == was["terminated"]
            assert now.group == was["group"]


@cases(0.06)
@given(data_sets())
def test_what_is_saved_is_loaded(tmp_path_factory, arguments):
    try:
        demos = made(arguments)
    except InputError:
        return
    folder = tmp_path_factory.mktemp("fuzz") / "d"
    try:
        sdil.save_demonstrations(demos, folder)
    except InputError:
        assert not folder.exists()
        return
    assert sdil.load_demonstrations(folder) == demos


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("fuzz") / "demos"
    sdil.save_demonstrations(good_data(), place, task="fourrooms", origin={"by": "us"})
    return place


@cases(0.1)
@given(st.data())
def test_a_damaged_folder_is_refused_or_unchanged(folder, data):
    demos = good_data()
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    path = data.draw(st.sampled_from(files))
    before = path.read_bytes()
    how = data.draw(st.sampled_from(["flip", "cut", "grow", "zero", "gone", "swap"]))
    at = data.draw(st.integers(0, len(before) - 1))
    bit = before[:at] + bytes([before[at] ^ (1 << data.draw(st.integers(0, 7)))]) + before[at + 1 :]
    other = data.draw(st.sampled_from(files)).read_bytes()
    after = {"flip": bit, "cut": before[:at], "grow": before + bit[:7], "zero": b"", "swap": other}
    try:
        if how == "gone":
            path.unlink()
        else:
            path.write_bytes(after[how])
        try:
            assert sdil.load_demonstrations(folder) == demos
        except InputError as error:
            clear(error)
    finally:
        path.write_bytes(before)


@cases(0.2)
@given(configurations(KINDS))
def test_hyper_parameters_are_checked_before_anything_is_done(configuration):
    name, fields = configuration
    try:
        one = KINDS[name](**fields)
        sdil.limits.check_fields(one, name)
    except InputError as error:
        clear(error, *fields)
        return
    for field, value in fields.items():
        kept = getattr(one, field)
        assert kept == value or (isinstance(value, float) and np.isclose(kept, value))


@cases(0.02)
@given(configurations({name: KINDS[name] for name in ("bc", "evidence")}))
def test_what_is_allowed_can_be_fitted(configuration):
    name, fields = configuration
    quick = {
        "bc": {"max_updates": 2, "min_updates": 1, "patience": 1},
        "evidence": {"clone_updates": 1, "distance_updates": 1, "outcome_updates": 1},
    }[name]
    large = [v for v in fields.values() if isinstance(v, int | float) and abs(v) > 300]
    if large:  # allowed, and honestly slow or large
        return
    demos, torch_state = good_data(), torch.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            one = KINDS[name](**(fields | quick))
            fitted = one.fit(demos, seed=0)
        except InputError as error:
            clear(error)
            return
    assert torch.equal(torch_state, torch.get_rng_state())
    if name in JUDGES:
        assert [len(s.optimality) for s in fitted.score(demos.noisy)] == [3, 4, 5, 6]
    else:
        assert np.isfinite(np.concatenate(fitted.probabilities(demos.clean))).all()


@cases(0.12)
@given(studies())
def test_a_study_in_toml_is_read_or_refused(tmp_path_factory, about):
    file = tmp_path_factory.mktemp("fuzz") / "study.toml"
    try:
        file.write_text(_toml(about), "utf-8")
    except UnicodeEncodeError:
        return
    try:
        study = read_written(file)
    except InputError as error:
        clear(error)
        return
    assert study.entries


def _toml(about):
    def value(v):
        if isinstance(v, bool):
            return "true" if v else "false"
        if isinstance(v, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {value(x)}" for k, x in v.items()) + "}"
        if isinstance(v, list):
            return "[" + ", ".join(map(value, v)) + "]"
        if isinstance(v, float):
            return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(repr(v), repr(v))
        if v is None:
            return '"none"'
        return json.dumps(v, ensure_ascii=False) if isinstance(v, str) else str(v)

    return "".join(f"{name} = {value(v)}\n" for name, v in about.items())


@pytest.fixture(scope="module")
def places(folder, tmp_path_factory):
    """Folders and files that command lines name; none of what is written lands elsewhere."""
    base = tmp_path_factory.mktemp("lines")
    (base / "empty").mkdir()
    (base / "text.json").write_text("{}")
    (base / "rows.csv").write_text("episode,step,seen,action\n0,0,0.5,1\n0,1,0.25,0\n1,0,0.1,1\n")
    np.savez(base / "a.npz", observations=np.eye(4), actions=np.eye(4), ends=[2, 4])
    quick = make_judge("weighted-bc", max_updates=20, min_updates=10, patience=10)  # never silent
    quick.fit(good_data(), seed=0).save(base / "judge")
    names = ("empty", "text.json", "rows.csv", "a.npz", "judge", "new", "new.csv")
    return base, (str(folder), *(str(base / name) for name in names))


@cases(0.1)
@given(st.data())
def test_a_command_line_ends_with_an_answer_or_one_sentence(folder, places, data):
    base, names = places
    given_ = [folder, *(base / name for name in ("text.json", "rows.csv", "a.npz", "judge"))]
    files = [p for place in given_ for p in (place, *place.rglob("*")) if p.is_file()]
    before = {p: p.read_bytes() for p in files}
    words = data.draw(command_lines(names))
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(base / "empty")
        patch.setattr("sdil.runs.train", _refuse)  # minutes of work; fitting is tried above
        patch.setattr("sdil.cli.judge.judge", _refuse)
        patch.setattr("sdil.cli.study.run_study", _refuse, raising=False)
        patch.setattr("sdil.cli.serving.ReviewServer.serve_forever", _refuse)
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code
    assert code in (0, 1, 2), (code, words)
    if "--overwrite" not in words:
        assert {p: p.read_bytes() for p in files if p.exists()} == before, words


def _refuse(*arguments, **options):
    raise InputError("this would take long")


def test_all_cases_are_shared_out():
    """Together the tests above take about as many cases as were asked for."""
    text = Path(__file__).read_text("utf-8")
    shares = [float(line[7:-1]) for line in text.splitlines() if line.startswith("@cases(")]
    assert sum(shares) == pytest.approx(1.0)
