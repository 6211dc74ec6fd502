from __future__ import annotations

import math

import pytest
import torch

from sdil.heads import Categorical
from sdil.networks.skills import Compatibility, SkillMatching, SkillPolicy, select


def test_matching_is_inverse_distance_by_hand():
    g = SkillMatching(3, 2)
    g.prototypes.data = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
    probs = g.log_probs(torch.tensor([[0.0, 1.0]])).exp()[0]
    inverse = [1 / math.sqrt(d + 1e-4) for d in (1.0, 18.0, 1.0)]
    assert probs.tolist() == pytest.approx([i / sum(inverse) for i in inverse], rel=1e-5)


def test_matching_as_released_is_the_softmax_of_inverse_distances_by_hand():
    g = SkillMatching(3, 2, "softmax")
    g.prototypes.data = torch.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 2.0]])
    probs = g.log_probs(torch.tensor([[0.0, 1.0]])).exp()[0]
    weights = [math.exp(1 / math.sqrt(d + 1e-4)) for d in (1.0, 18.0, 1.0)]
    assert probs.tolist() == pytest.approx([w / sum(weights) for w in weights], rel=1e-5)


@pytest.mark.parametrize("form", ["inverse", "softmax"])
def test_matching_is_finite_on_a_prototype_itself(form):
    g = SkillMatching(4, 3, form)
    embeddings = g.prototypes.detach().clone().requires_grad_()
    log_probs = g.log_probs(embeddings)
    assert (log_probs.argmax(1) == torch.arange(4)).all()
    log_probs.sum().backward()
    assert torch.isfinite(embeddings.grad).all()
    assert torch.isfinite(g.prototypes.grad).all()


def test_selection_frequencies_are_the_probabilities():
    probs = torch.tensor([0.5, 0.3, 0.15, 0.05])
    generator = torch.Generator().manual_seed(0)
    n = 40_000
    noise = -torch.empty(n, 4).exponential_(generator=generator).log()
    chosen = select(probs.log().expand(n, -1), noise, 1.0)
    assert ((chosen > 0.5).sum(1) == 1).all()
    torch.testing.assert_close(chosen.mean(0), probs, atol=0.01, rtol=0)


def test_selection_is_hard_with_the_soft_gradient():
    log_probs = torch.tensor([[-1.0, -0.5, -2.0]], requires_grad=True)
    noise = torch.tensor([[0.3, 0.0, 0.1]])
    chosen = select(log_probs, noise, 1.0)
    assert chosen.detach().tolist() == [[0.0, 1.0, 0.0]]
    weights = torch.tensor([[1.0, 2.0, 3.0]])
    (gradient,) = torch.autograd.grad((chosen * weights).sum(), log_probs)
    soft = (log_probs + noise).softmax(1)
    (expected,) = torch.autograd.grad((soft * weights).sum(), log_probs)
    torch.testing.assert_close(gradient, expected)


def test_a_soft_selection_is_the_same_before_it_is_made_hard():
    log_probs, noise = torch.tensor([[-1.0, -0.5, -2.0]]), torch.tensor([[0.3, 0.0, 0.1]])
    for temperature in (1.0, 0.5):
        soft = select(log_probs, noise, temperature, "soft")
        torch.testing.assert_close(soft, ((log_probs + noise) / temperature).softmax(1))
        hard = select(log_probs, noise, temperature)
        assert hard.argmax(1) == soft.argmax(1)


def test_the_split_layer_of_T_equals_one_plain_layer():
    torch.manual_seed(0)
    T = Compatibility(5 + 3, 4, 8)
    states, actions = torch.randn(6, 5), torch.tensor([0, 1, 2, 0, 1, 2])
    prototypes = torch.randn(7, 4)
    chosen = torch.nn.functional.one_hot(torch.tensor([0, 6, 3, 3, 1, 2]), 7).float()
    partners = torch.randint(6, (6, 10))
    one_hot = torch.nn.functional.one_hot(actions, 3).float()
    found = T(torch.cat([states, one_hot], 1), chosen, prototypes, partners)
    weight = torch.cat([T.of_step.weight, T.of_skill.weight], 1)
    for t in range(6):
        for j in range(10):
            skill = prototypes[chosen[partners[t, j]].argmax()]
            hidden = weight @ torch.cat([states[t], one_hot[t], skill]) + T.of_step.bias
            expected = T.out(torch.nn.functional.leaky_relu(hidden, 0.1))
            assert found[t, j].item() == pytest.approx(expected.item(), abs=1e-5)


def test_every_skill_at_once_equals_one_by_one():
    torch.manual_seed(0)
    pi_low = SkillPolicy(5, 4, Categorical(3), 8, 2)
    states, prototypes = torch.randn(6, 5), torch.randn(7, 4)
    together = pi_low.for_every_skill(states, prototypes)
    for k in range(7):
        alone = pi_low(states, prototypes[k].expand(6, -1))
        torch.testing.assert_close(together[:, k], alone)
