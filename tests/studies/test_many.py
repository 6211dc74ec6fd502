"""Parts together say what the whole says, wherever they are scored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import sdil
from sdil import InputError
from sdil.studies.many import (
    Judging,
    cut_by_episodes,
    fingerprint_of_data,
    in_processes,
    judge_data,
    on_a_cluster,
    score_part,
)

QUICK = (("clone_updates", 20), ("distance_updates", 20), ("outcome_updates", 20))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    base = tmp_path_factory.mktemp("many")
    demos, _ = sdil.get_task("fourrooms").collect(clean=6, noisy=11, seed=0)
    sdil.save_demonstrations(demos, base / "data")
    judge_data(Judging(str(base / "data"), str(base / "judge"), fields=QUICK))
    return base, demos, sdil.load_judge(base / "judge").score(demos.noisy)


def equal(parts, whole):
    found = [scores for part in parts for scores in part]
    assert len(found) == len(whole)
    for a, b in zip(found, whole, strict=True):
        np.testing.assert_allclose(a.optimality, b.optimality, atol=1e-6)
        assert a.parts.keys() == b.parts.keys()
        assert (a.quality is None) == (b.quality is None)
        if a.quality is not None:
            np.testing.assert_allclose(a.quality, b.quality, atol=1e-5)


@pytest.mark.parametrize("parts", [1, 3, 50])
def test_parts_by_episodes_are_the_whole(place, parts):
    base, demos, whole = place
    tasks = cut_by_episodes(base / "judge", base / "data", "noisy", parts)
    assert len(tasks) == min(parts, len(demos.noisy)) or parts == 50
    assert [t.first for t in tasks][1:] == [t.last for t in tasks][:-1]
    assert (tasks[0].first, tasks[-1].last) == (0, len(demos.noisy))
    equal(in_processes(score_part, tasks, 1), whole)


def test_what_makes_no_sense_is_refused(place):
    base, *_ = place
    with pytest.raises(InputError, match="at least 1 part"):
        cut_by_episodes(base / "judge", base / "data", "noisy", 0)
    with pytest.raises(InputError, match="--workers"):
        list(in_processes(score_part, [], 0))


def test_a_folder_that_was_replaced_is_read_again(place, tmp_path):
    """What a worker keeps it keeps by what lay there, not by the name of the folder."""
    base, demos, _ = place
    data, judge = tmp_path / "data", tmp_path / "judge"
    sdil.save_demonstrations(demos, data)
    shutil.copytree(base / "judge", judge)
    before = cut_by_episodes(judge, data, "noisy", 2)
    first = [s for part in in_processes(score_part, before, 1) for s in part]
    backwards = sdil.Demonstrations(demos.clean, list(demos.noisy)[::-1], demos.spaces)
    sdil.save_demonstrations(backwards, data, overwrite=True)
    with pytest.raises(InputError, match=r"data: it changed after the set was cut; cut it again"):
        score_part(before[0])
    after = [s for task in cut_by_episodes(judge, data, "noisy", 2) for s in score_part(task)]
    equal([after[::-1]], first)
    judge_data(Judging(str(data), str(tmp_path / "other"), fields=QUICK, seed=1))
    cut = cut_by_episodes(judge, data, "noisy", 2)
    shutil.rmtree(judge)
    (tmp_path / "other").rename(judge)
    with pytest.raises(InputError, match=r"judge: it changed after the set was cut"):
        score_part(cut[0])
    (part,) = (score_part(t) for t in cut_by_episodes(judge, data, "noisy", 1))
    equal([part], sdil.load_judge(judge).score(backwards.noisy))


def test_data_of_an_earlier_version_has_a_fingerprint_too(place, tmp_path):
    base, demos, _ = place
    data = Path(shutil.copytree(base / "data", tmp_path / "data"))
    about = json.loads((data / "sdil.json").read_text())
    del about["checksums"], about["fingerprint"]
    (data / "sdil.json").write_text(json.dumps(about))
    assert fingerprint_of_data(str(data)) == fingerprint_of_data(str(base / "data"))
    assert fingerprint_of_data(str(data)) == demos.fingerprint()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_cluster_of_any_size_says_what_one_process_says(place, workers):
    base, _, whole = place
    tasks = cut_by_episodes(base / "judge", base / "data", "noisy", 5)
    equal(on_a_cluster(score_part, tasks, "local", workers), whole)


@pytest.mark.slow
def test_processes_say_what_one_says_and_judge_apart(place, tmp_path):
    base, _, whole = place
    tasks = cut_by_episodes(base / "judge", base / "data", "noisy", 3)
    equal(in_processes(score_part, tasks, 2), whole)
    judged = [Judging(str(base / "data"), str(tmp_path / str(s)), fields=QUICK) for s in (0, 1)]
    assert list(in_processes(judge_data, judged, 2)) == [t.out for t in judged]
    again = sdil.load_judge(tmp_path / "0").score(place[1].noisy)
    equal([again], whole)
