"""Optimality by positive-unlabelled learning over skills (paper, section 4.2.2).

Skills that clean demonstrations prefer and that predict actions well are good; a step is as good as
the skills it selects. Expected (soft) selection probabilities throughout, no randomness; but for
`released_scores`, which is what the authors' code does and their text does not say.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

SMALLEST_SCALE = 0.05  # below it, scores are left small instead of being blown up to 1


def skill_scores(
    selection: Tensor,
    likelihood: Tensor,
    trajectory: Tensor,
    is_clean: Tensor,
    *,
    delta: float,
    clip_preference: bool,
) -> Tensor:
    """`s_k^op` of each skill, in [-1, 1]. (K,)

    Over all N training steps: `selection` is `p(z_t = z^k)` (N, K), `likelihood` is
    `p(a_t | s_t, z^k)` (N, K), `trajectory` numbers the trajectory of each step (N,), and
    `is_clean` says whether each trajectory is clean.
    """
    n, k = len(is_clean), selection.shape[1]
    total = selection.new_zeros(n, k).index_add_(0, trajectory, selection)
    mean = total / trajectory.bincount(minlength=n)[:, None]  # (trajectories, K)
    clean, noisy = mean[is_clean].mean(0), mean[~is_clean].mean(0)  # p^clean_k, p^noisy_k
    preference = (clean - noisy) / (clean + delta)  # s^pref_k
    if clip_preference:  # a departure: unbounded below where p^clean_k is near 0
        preference = preference.clamp(-1.0, 1.0)
    quality = (selection * likelihood).sum(0) / selection.sum(0)  # s^qual_k
    product = preference * quality
    return product / product.abs().max().clamp(min=SMALLEST_SCALE)


def step_scores(selection: Tensor, scores: Tensor) -> Tensor:
    """Propagation: `sum_k p(z_t = z^k) s_k^op`. (N,)"""
    return selection @ scores


def released_scores(
    selection: Tensor, likelihood: Tensor, is_clean: Tensor
) -> tuple[Tensor, Tensor]:
    """`s_k^op` of each skill (K,) and the scores of steps (N,), as in the authors' code.

    There a step has one skill, its most probable one; steps are counted, not trajectories; a skill
    predicts as well as it does on clean steps; all skills' scores together have a Euclidean norm of
    1, so that few are above its thresholds; and a step is worth its skill's score times `p(a_t)`.
    `likelihood` is that (N,), under the mean of the skills; `is_clean` is of each step (N,).
    """
    chosen = F.one_hot(selection.argmax(1), selection.shape[1]).to(likelihood)
    clean, noisy = chosen[is_clean].mean(0), chosen[~is_clean].mean(0)
    predicted = (chosen * likelihood[:, None])[is_clean].sum(0)
    quality = predicted / (chosen[is_clean].sum(0) + 1e-4)
    product = (clean - noisy) / (clean + 1) * quality
    scores = product / product.norm().clamp(min=1e-12)
    return scores, chosen @ scores * likelihood
