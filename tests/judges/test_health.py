"""Whether scores mean anything is said first, and a threshold that rests on nothing is refused."""

from __future__ import annotations

import numpy as np
import pytest

import sdil
from sdil.cli import main
from sdil.judges.health import Health, health_of, in_halves
from sdil.judging import CrossJudged, FittedJudge, GoodShare, Signal
from sdil.scores import JudgedSteps


class Feature(FittedJudge):
    """Scores a step by the first entry of its observation."""

    name, seed, kind = "feature", 0, "feature"
    hyperparameters = {}  # noqa: RUF012

    def __init__(self, spaces, cautious=True, skills=None):
        self.spaces, self.cautious, self._skills = spaces, cautious, skills

    @property
    def signals(self):
        return (Signal("first", True, "it is"), Signal("second", False, "it is not"))

    def judge(self, packed):
        values = packed.observations[packed.rows()][:, 0]
        probs = None if self._skills is None else np.tile(self._skills, (len(values), 1))
        return JudgedSteps(np.clip(values, -1, 1).astype(float), skill_probs=probs)

    def tensors(self):
        return {}

    def configuration(self):
        return {}

    @classmethod
    def build(cls, spaces, configuration, tensors):
        return cls(spaces)


def demos_of(clean, noisy, n=10):
    rng = np.random.default_rng(0)

    def some(count, mean):
        made = rng.normal(mean, 0.3, (count, 9, 2)).astype(np.float32)
        return [sdil.Trajectory(m, rng.integers(0, 2, 8)) for m in made]

    return sdil.Demonstrations(some(n, clean), some(3 * n, noisy))


@pytest.mark.parametrize(
    ("clean", "noisy", "separates", "bears", "word"),
    [
        (0.5, -0.5, "yes", True, "healthy"),
        (-0.5, 0.5, "no", False, "unhealthy"),
    ],
)
def test_whether_clean_steps_outrank_noisy_ones(clean, noisy, separates, bears, word):
    demos = demos_of(clean, noisy)
    health = health_of(Feature(demos.spaces), demos, fitted_to_these=False)
    assert (health.separates, health.bears_a_threshold) == (separates, bears)
    assert health.sentences[0].startswith(word)
    assert health.groups == 10
    assert health.heard == ("first",)
    assert health.clean_steps == 80
    scores = np.concatenate([s.optimality for s in Feature(demos.spaces).score(demos.clean)])
    assert health.clean_under == int((scores < 0).sum())


def test_alike_sets_are_not_told_apart_and_a_rash_judge_is_refused():
    demos = demos_of(0.2, 0.19)
    for cautious in (True, False):
        health = health_of(Feature(demos.spaces, cautious), demos, fitted_to_these=False)
        assert health.separates in ("not surely", "no")
        assert health.bears_a_threshold == (cautious and health.separates == "not surely")


def test_what_a_judge_has_seen_does_not_count():
    demos = demos_of(0.5, -0.5)
    judge = Feature(demos.spaces)
    assert health_of(judge, demos, fitted_to_these=True).separates == "unknown"
    assert "held no clean steps out" in health_of(judge, demos, fitted_to_these=True).sentences[0]
    halves = in_halves(demos, 0)
    assert sorted(np.concatenate([held for held, _ in halves])) == list(range(10))
    for held, fewer in halves:
        assert len(fewer.clean) == 10 - len(held)
    anew = health_of(
        judge,
        demos,
        fitted_to_these=True,
        refit=lambda _: ([held for held, _ in halves], [judge, judge]),
    )
    assert anew.separates == "yes"
    assert anew.clean_steps == 80


def test_scores_by_folds_are_what_counts():
    demos = demos_of(0.5, -0.5)
    judge = Feature(demos.spaces)
    told = np.full(80, 0.25, np.float16)
    fold = np.zeros(10, int)
    of_these = demos.fingerprint(rewards=False)
    judge.cross_judged = CrossJudged(np.zeros((1, 240)), fold, of_these, told)
    judge.good_share = GoodShare(0.5, 0.4, 0.6)
    health = health_of(judge, demos, fitted_to_these=True, threshold=-0.4)
    assert health.clean_under == 80  # all of them score -0.5
    assert "estimated share of good noisy steps: 50% (40% to 60%)" in health.sentences
    assert any("80 (100%) score under -0.4" in said for said in health.sentences)
    other = demos_of(0.4, -0.4)
    assert health_of(judge, other, fitted_to_these=True).separates == "unknown"


def test_collapsed_skills_are_said():
    demos = demos_of(0.5, -0.5)
    judge = Feature(demos.spaces, skills=np.array([0.98, 0.02, 0.0, 0.0]))
    health = health_of(judge, demos, fitted_to_these=False)
    assert health.collapsed
    assert health.sentences[-1].startswith("skills collapsed: only 1.1 of 4 are in use")
    judge = Feature(demos.spaces, skills=np.full(4, 0.25))
    assert not health_of(judge, demos, fitted_to_these=False).collapsed


def test_json_says_the_same():
    demos = demos_of(0.5, -0.5)
    health = health_of(Feature(demos.spaces), demos, fitted_to_these=False)
    told = health.as_json()
    assert told["separates"] == "yes"
    assert told["sentences"] == health.sentences
    assert isinstance(health, Health)


def test_curating_random_numbers_by_a_threshold_is_refused(tmp_path, capsys):
    rng = np.random.default_rng(0)

    def some(n):
        return [
            sdil.Trajectory(rng.normal(size=(13, 3)).astype(np.float32), rng.integers(0, 3, 12))
            for _ in range(n)
        ]

    data, judged, out = (str(tmp_path / name) for name in ("d", "j", "c"))
    sdil.save_demonstrations(sdil.Demonstrations(some(6), some(12)), data)
    short = ("--max-updates", "30", "--min-updates", "10")
    assert main(["judge", "weighted-bc", "--data", data, "--out", judged, *short]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[1].startswith("health: not known whether")
    assert main(["score", judged, "--data", data]) == 0
    assert capsys.readouterr().out.startswith("health: not known whether")
    keep = ["curate", judged, "--data", data, "--out", out, "--no-check"]
    assert main([*keep, "--keep-above", "0"]) == 2
    told = capsys.readouterr().err
    assert "Nothing was written. Give more clean demonstrations" in told
    assert not (tmp_path / "c").exists()
    assert main([*keep, "--keep-share", "0.5"]) == 0  # an order
    assert "health: " in capsys.readouterr().out


def test_a_threshold_over_most_clean_steps_is_said_to_be_no_line():
    def health(clean, noisy):
        demos = demos_of(clean, noisy)
        return health_of(Feature(demos.spaces), demos, fitted_to_these=False)

    low = health(-0.4, -0.95)
    assert low.separates == "yes"
    assert low.clean_under > low.clean_steps / 2
    assert low.sentences[-1].startswith("0 is no line between good and bad steps here")
    for other in (health(0.5, -0.5), health(-0.5, 0.5)):  # the second tells nothing at all
        assert not any("no line" in sentence for sentence in other.sentences)
