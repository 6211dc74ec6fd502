from __future__ import annotations

import pytest
import torch

from sdil.skills.optimality import released_scores, skill_scores, step_scores

# Four skills, two clean and two noisy trajectories of different lengths.
SELECTION = torch.tensor(
    [
        [0.8, 0.2, 0.0, 0.0],  # clean 0
        [0.4, 0.6, 0.0, 0.0],
        [0.6, 0.0, 0.4, 0.0],  # clean 1
        [0.0, 0.2, 0.4, 0.4],  # noisy 2
        [0.2, 0.2, 0.2, 0.4],
        [0.1, 0.2, 0.0, 0.7],
        [0.0, 0.0, 0.5, 0.5],  # noisy 3
    ]
)
TRAJECTORY = torch.tensor([0, 0, 1, 2, 2, 2, 3])
IS_CLEAN = torch.tensor([True, True, False, False])
LIKELIHOOD = torch.tensor([0.9, 0.5, 0.8, 1.0]).expand(7, 4)


def test_scores_of_a_four_skill_toy_by_hand():
    # p_clean: trajectory means (0.6, 0.4, 0, 0) and (0.6, 0, 0.4, 0) -> (0.6, 0.2, 0.2, 0)
    # p_noisy: (0.1, 0.2, 0.2, 0.5) and (0, 0, 0.5, 0.5)           -> (0.05, 0.1, 0.35, 0.5)
    delta = 0.01
    clean, noisy = [0.6, 0.2, 0.2, 0.0], [0.05, 0.1, 0.35, 0.5]
    preference = [(c - n) / (c + delta) for c, n in zip(clean, noisy, strict=True)]
    assert preference[3] == pytest.approx(-50)
    clipped = [max(-1.0, min(1.0, p)) for p in preference]
    product = [p * q for p, q in zip(clipped, [0.9, 0.5, 0.8, 1.0], strict=True)]
    expected = [p / max(abs(x) for x in product) for p in product]
    options = {"delta": delta, "clip_preference": True}
    found = skill_scores(SELECTION, LIKELIHOOD, TRAJECTORY, IS_CLEAN, **options)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    assert found[3] == -1
    unclipped = skill_scores(
        SELECTION, LIKELIHOOD, TRAJECTORY, IS_CLEAN, delta=delta, clip_preference=False
    )
    assert unclipped[0] == pytest.approx(preference[0] * 0.9 / 50, abs=1e-6)  # crushed by -50


def test_quality_is_weighted_by_selection():
    selection = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    likelihood = torch.tensor([[0.2, 0.9], [0.8, 0.4]])
    is_clean = torch.tensor([True, False])
    found = skill_scores(
        selection,
        likelihood,
        torch.tensor([0, 1]),
        is_clean,
        delta=0.0 + 1e-9,
        clip_preference=True,
    )
    # quality: (1 * 0.2 + 0.5 * 0.8) / 1.5 = 0.4 and 0.4; preference: 0.5 and -1
    assert found.tolist() == pytest.approx([0.5, -1.0], abs=1e-5)


def test_tiny_differences_are_not_blown_up():
    selection = torch.full((2, 2), 0.5)
    selection[0] = torch.tensor([0.501, 0.499])
    found = skill_scores(
        selection,
        torch.ones(2, 2),
        torch.tensor([0, 1]),
        torch.tensor([True, False]),
        delta=0.01,
        clip_preference=True,
    )
    assert found.abs().max() < 0.05


def test_propagation_is_the_expected_skill_score():
    scores = torch.tensor([1.0, 0.0, -0.5, -1.0])
    assert step_scores(SELECTION, scores).tolist() == pytest.approx(
        [0.8, 0.4, 0.4, -0.6, -0.3, -0.6, -0.75]
    )


def test_scores_as_in_the_authors_code_by_hand():
    """A step has its most probable skill: clean 0, 1, 0 and noisy 3, 3, 3, 3 (ties go to neither
    here); so of two clean thirds and a noisy whole."""
    selection = SELECTION.clone()
    selection[3] = torch.tensor([0.0, 0.2, 0.3, 0.5])
    selection[6] = torch.tensor([0.1, 0.0, 0.4, 0.5])
    likelihood = torch.tensor([0.9, 0.6, 0.7, 0.5, 0.4, 1.0, 0.2])
    is_clean = torch.tensor([True] * 3 + [False] * 4)
    of_skills, of_steps = released_scores(selection, likelihood, is_clean)
    # preference: (2/3) / (5/3), (1/3) / (4/3), 0, -1; quality on clean steps: 0.8, 0.6, none, none
    product = [0.4 * 1.6 / 2.0001, 0.25 * 0.6 / 1.0001, 0.0, 0.0]
    norm = sum(p**2 for p in product) ** 0.5
    assert of_skills.tolist() == pytest.approx([p / norm for p in product], abs=1e-6)
    assert of_skills.norm() == pytest.approx(1.0, abs=1e-6)
    skills = of_skills[[0, 1, 0, 3, 3, 3, 3]]
    assert of_steps.tolist() == pytest.approx((skills * likelihood).tolist(), abs=1e-6)
    alike = released_scores(selection[[0, 0]], likelihood[:2], torch.tensor([True, False]))
    assert not torch.cat(alike).any()  # nothing is preferred: 0, and no division by it
