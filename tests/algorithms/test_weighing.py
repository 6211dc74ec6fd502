"""Losses of the learners that weigh noisy steps, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import sdil
from sdil import CAIL, DWBC, ISWBC, DemoDICE, InputError, Oracle, WeightedBC
from sdil.algorithms import demodice, dwbc, isw_bc
from sdil.algorithms.weighing import discriminator_loss
from sdil.evaluation.scores import compare_with_truth
from sdil.judges.step_networks import AdvantageScorer, mixture_likelihood
from sdil.windows import Windows

QUICK = {"max_updates": 300, "min_updates": 200, "patience": 100}


def test_dwbc_discriminator_by_hand():
    """Eq. 8 of the paper with eta 0.5: 0.5 (-log d + log(1 - d)) on clean, -log(1 - d) on noisy."""
    clean, noisy = torch.tensor([0.9, 0.6]), torch.tensor([0.2, 0.5, 0.1])
    positive = [(-math.log(d) + math.log(1 - d)) for d in (0.9, 0.6)]
    expected = 0.5 * sum(positive) / 2 + sum(-math.log(1 - d) for d in (0.2, 0.5, 0.1)) / 3
    assert float(dwbc.discriminator_loss(clean, noisy, 0.5)) == pytest.approx(expected, rel=1e-6)


def test_dwbc_policy_by_hand():
    """Eq. 13 with alpha 7.5 and eta 0.5: a clean step at d = 0.5 weighs 7.5 - 0.5 / 0.25 = 5.5."""
    log_pi_clean, log_pi_noisy = torch.tensor([-1.0, -2.0]), torch.tensor([-3.0])
    clean, noisy = torch.tensor([0.5, 0.9]), torch.tensor([0.8])
    expected = (5.5 * 1.0 + (7.5 - 0.5 / 0.09) * 2.0) / 2 + 3.0 / 0.2
    loss = dwbc.policy_loss(log_pi_clean, log_pi_noisy, clean, noisy, 0.5, 7.5)
    assert float(loss) == pytest.approx(expected, rel=1e-5)


def test_isw_bc_by_hand():
    """`E_all[c / (1 - c) (-log pi)]`: with c = 0.75 a step weighs 3, with c = 0.2 a quarter."""
    weights = torch.logit(torch.tensor([0.75, 0.2])).exp()
    assert weights.tolist() == pytest.approx([3.0, 0.25], rel=1e-5)
    loss = isw_bc.weighted_nll(torch.tensor([1.0, 2.0]), weights)
    assert float(loss) == pytest.approx((3.0 * 1.0 + 0.25 * 2.0) / 2, rel=1e-5)


def test_the_discriminator_finds_the_ratio_of_densities():
    """A step seen 3 times as often among clean ones as among all: the best logit is log 3."""
    logit = torch.zeros(2, requires_grad=True)
    clean = torch.tensor([0] * 6 + [1] * 2)  # 3/4 and 1/4
    everyone = torch.tensor([0] * 2 + [1] * 6)
    optimiser = torch.optim.Adam([logit], lr=0.05)
    for _ in range(800):
        optimiser.zero_grad()
        discriminator_loss(logit[clean], logit[everyone]).backward()
        optimiser.step()
    assert logit.tolist() == pytest.approx([math.log(3), -math.log(3)], abs=1e-3)


def test_demodice_value_by_hand():
    """A fifth of all moments lie after an end, with weight 2; the steps weigh 1 and 3."""
    first, log_weight = torch.tensor([2.0, 4.0]), torch.tensor([0.0, math.log(3.0)])
    of_end = torch.tensor(math.log(2.0))
    expected = 0.1 * 3.0 + 1.5 * math.log(0.8 * (1 + 3) / 2 + 0.2 * 2.0)
    found = demodice.value_loss(first, log_weight, of_end, 0.2, 0.9, 0.5)
    assert float(found) == pytest.approx(expected)
    never = demodice.value_loss(first, log_weight, of_end, 0.0, 0.9, 0.5)
    assert float(never) == pytest.approx(0.1 * 3.0 + 1.5 * math.log(2.0))


@pytest.mark.slow
def test_demodice_on_clean_steps_alone_weighs_them_much_alike(fourrooms, monkeypatch):
    """Without the absorbing state, all weight went to steps that lead back to where they began."""
    demos = fourrooms[0].clean_only()
    made = []
    monkeypatch.setattr(
        "sdil.algorithms.demodice.AdvantageScorer",
        lambda *given, **more: made.append(AdvantageScorer(*given, **more)) or made[-1],
    )
    DemoDICE().fit(demos, seed=0)
    windows = Windows(demos.clean, 0)
    with torch.no_grad():
        weights = made[-1].log_weight(windows, torch.arange(len(windows))).softmax(0) * len(windows)
    assert weights.max() < 8
    assert (weights > 0.2).float().mean() > 0.9


def test_ileed_mixes_with_chance():
    logit = torch.tensor([math.log(3.0), -20.0])  # rho 0.75 and almost 0
    found = mixture_likelihood(logit, torch.tensor([0.8, 0.8]), 1 / 4)
    assert found.tolist() == pytest.approx([0.75 * 0.8 + 0.25 * 0.25, 0.25], rel=1e-5)


@pytest.mark.slow
def test_cail_trusts_what_makes_clean_steps_likelier(make_episode):
    """Two states; clean does 0 in both. Noisy steps that do 0 must end up above those that do 1."""
    rng = np.random.default_rng(0)

    def episode(action, name):
        states = rng.choice([-1.0, 1.0], (13, 1)).astype(np.float32)
        return sdil.Trajectory(states, np.full(12, action), id=name)

    demos = sdil.Demonstrations(
        clean=[episode(0, str(i)) for i in range(4)],
        noisy=[episode(i % 2, str(i)) for i in range(12)],
    )
    policy = CAIL(max_updates=300, min_updates=300, batch_size=64).fit(demos, seed=0)
    good, bad = policy.score(demos.noisy[:2])
    assert good.optimality.mean() > bad.optimality.mean() + 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner", [WeightedBC(**QUICK), DWBC(**QUICK), ISWBC(**QUICK), DemoDICE(**QUICK)]
)
def test_judgements_are_better_than_chance(learner, fourrooms):
    demos, truth = fourrooms
    judged = np.concatenate([s.optimality for s in learner.fit(demos, seed=0).score(demos.noisy)])
    auroc, _ = compare_with_truth(judged, np.concatenate(truth.noisy_good))
    assert auroc > 0.53


def test_the_oracle_uses_what_it_is_told(fourrooms):
    demos, truth = fourrooms
    learner = Oracle(**QUICK)
    told = learner.fit(demos, seed=0, truth=truth.noisy_good)
    other = learner.fit(demos, seed=0, truth=[~g for g in truth.noisy_good])
    assert any(
        not torch.equal(a, b)
        for a, b in zip(told.tensors().values(), other.tensors().values(), strict=True)
    )
    with pytest.raises(InputError, match="needs the truth of every noisy step"):
        learner.fit(demos)
    with pytest.raises(InputError, match="does not fit the noisy set"):
        learner.fit(demos, truth=truth.noisy_good[:-1])
    assert replace(learner, max_updates=40).fit(demos.clean_only()).learner == "oracle"
