from __future__ import annotations

import numpy as np
import pytest

from sdil.evaluation.calibration import calibration, calibration_of_scores


def test_by_hand():
    probs = np.array([0.1, 0.1, 0.9, 1.0])
    found = calibration(probs, np.array([False, True, True, True]), bins=2)
    assert found.count.tolist() == [2, 2]
    assert found.said == pytest.approx([0.1, 0.95])
    assert found.happened == pytest.approx([0.5, 1.0])
    assert found.ece == pytest.approx(0.5 * 0.4 + 0.5 * 0.05)
    assert found.brier == pytest.approx((0.01 + 0.81 + 0.01 + 0) / 4)
    assert found.brier_skill == pytest.approx(1 - 0.2075 / 0.1875)


def test_one_kind_only_and_empty_bins():
    found = calibration(np.array([0.5, 0.5]), np.array([True, True]))
    assert found.brier_skill is None
    assert np.isnan(found.said).sum() == 9
    assert found.ece == pytest.approx(0.5)


def test_a_score_of_0_means_an_even_chance():
    optimality, good = np.array([-1.0, 0.0, 0.0, 1.0], np.float32), np.array([0, 0, 1, 1], bool)
    found = calibration_of_scores(optimality, good)
    assert found.count.tolist() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 1]
    assert found.said[[0, 5, 9]].tolist() == [0.0, 0.5, 1.0]
    assert found.happened[[0, 5, 9]].tolist() == [0.0, 0.5, 1.0]
