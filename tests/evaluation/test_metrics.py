from __future__ import annotations

import numpy as np
import pytest

from sdil import action_metrics
from sdil.evaluation.statistics import wilson_interval


def test_by_hand_with_a_class_that_never_occurs():
    probs = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.1, 0.8, 0.1]])
    actions = np.array([0, 0, 1, 1])
    metrics = action_metrics(probs, actions)
    assert metrics.accuracy == 0.75
    # class 0: precision 1, recall 1/2, F 2/3; class 1: precision 2/3, recall 1, F 4/5
    assert metrics.macro_f == pytest.approx((2 / 3 + 4 / 5) / 2)
    assert metrics.macro_auroc == 1.0
    # pooled: hits 0.7 0.4 0.6 0.8, misses 0.2 0.5 0.3 0.1: of 16 pairs only (0.4, 0.5) is wrong
    assert metrics.micro_auroc == pytest.approx(15 / 16)
    assert metrics.absent_classes == (2,)
    assert metrics.steps == 4
    assert metrics.nll == pytest.approx(-np.log(0.7 * 0.4 * 0.6 * 0.8) / 4)


def test_predicting_a_class_that_never_occurs_costs_accuracy_but_no_class_of_its_own():
    probs = np.eye(3)[[2, 1, 0]]
    metrics = action_metrics(probs, np.array([0, 1, 0]))
    assert metrics.accuracy == pytest.approx(2 / 3)
    assert metrics.macro_f == pytest.approx((2 / 3 + 1) / 2)


def test_what_was_thought_impossible_costs_much_but_not_everything():
    probs = np.array([[1.0, 0.0], [0.5, 0.5], [1 - 1e-13, 1e-13]])
    metrics = action_metrics(probs, np.array([1, 0, 1]))
    assert metrics.nll == pytest.approx((2 * 12 * np.log(10) + np.log(2)) / 3)


def test_one_class_has_no_auroc():
    metrics = action_metrics(np.eye(3)[[0, 1]], np.array([1, 1]))
    assert metrics.macro_auroc is None
    assert metrics.micro_auroc is None
    assert metrics.accuracy == 0.5


def test_wilson_against_published_numbers():
    # Newcombe 1998, table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29
    for successes, trials, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        assert wilson_interval(successes, trials) == pytest.approx((low, high), abs=5e-5)
    assert wilson_interval(0, 0) == (0.0, 1.0)
    assert wilson_interval(5, 5)[1] == 1.0
    for trials in range(1, 60):  # rounding would go beyond, first at 11 and at 21
        assert wilson_interval(trials, trials)[1] <= 1
        assert wilson_interval(0, trials)[0] >= 0
