"""Between a network and actions: densities that are densities, actions that lie in their space."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from sdil import InputError
from sdil.heads import FLOOR, Categorical, Mixture, Regression, make_head

PI = np.float32(np.pi)
BOX = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)


def fitted(kind, space, actions):
    head = kind(space)
    head.fit(torch.as_tensor(actions))
    return head


def data(rng, n=2_000):
    """A real number, and a gripper that is open or shut."""
    return np.column_stack(
        [rng.normal(0.2, 0.3, n).clip(-1, 1), np.where(rng.random(n) < 0.3, -1.0, 1.0)]
    ).astype(np.float32)


def test_the_density_of_a_mixture_sums_to_one():
    rng = np.random.default_rng(0)
    head = fitted(Mixture, BOX, data(rng)).double()
    assert head.is_choice.tolist() == [False, True]
    outputs = torch.from_numpy(rng.normal(size=(3, head.size)))
    grid = torch.linspace(-15, 15, 20_001, dtype=torch.float64)
    total = torch.zeros(3, dtype=torch.float64)
    for choice in (head.low[1], head.high[1]):
        units = torch.stack([grid, choice.expand(len(grid))], 1)
        for row in range(3):
            density = head.log_density(outputs[row].expand(len(grid), -1), units).exp()
            total[row] += torch.trapezoid(density, grid)
    torch.testing.assert_close(total, torch.ones(3, dtype=torch.float64), rtol=1e-4, atol=0)


@pytest.mark.parametrize("kind", [Mixture, Regression])
def test_what_is_done_lies_in_the_space_and_near_the_data(kind):
    rng = np.random.default_rng(1)
    head = fitted(kind, BOX, data(rng))
    outputs = torch.from_numpy(5 * rng.normal(size=(500, head.size))).float()
    for actions in (head.mode(outputs), head.sample(outputs), head.sample(outputs, t=10.0)):
        assert actions.dtype == torch.float32
        assert all(BOX.contains(a) for a in actions.numpy())
        assert set(actions[:, 1].tolist()) <= {-1.0, 1.0}
    assert head.log_prob(outputs, head.mode(outputs)).isfinite().all()


def test_draws_are_those_of_the_density():
    rng = np.random.default_rng(2)
    head = fitted(
        Mixture, gym.spaces.Box(-9.0, 9.0, (1,), np.float64), data(rng)[:, :1].astype(float)
    )
    head = head.double()
    outputs = torch.from_numpy(rng.normal(size=(1, head.size))).repeat(40_000, 1)
    drawn = head.encode(head.sample(outputs, torch.Generator().manual_seed(0)))[:, 0]
    edges = torch.linspace(-3, 3, 13, dtype=torch.float64)
    fine = torch.linspace(-3, 3, 1_201, dtype=torch.float64)
    density = head.log_density(outputs[: len(fine)], fine[:, None]).exp()
    expected = [
        torch.trapezoid(density[i : i + 101], fine[i : i + 101]) for i in range(0, 1_200, 100)
    ]
    counts = torch.histogram(drawn, edges).hist / len(drawn)
    np.testing.assert_allclose(counts, expected, atol=0.01)


def test_how_plausible_an_action_is():
    head = fitted(Mixture, gym.spaces.Box(-np.inf, np.inf, (1,), np.float32), torch.randn(500, 1))
    usual = head.usual(torch.randn(500, 1)).expand(3, -1)
    actions = torch.tensor([[0.0], [1.0], [4.0]])
    near, middling, far = head.plausibility(usual, actions).tolist()
    assert near > 0.8
    assert 0.1 < middling < 0.6
    assert far == 0.0
    counted = Categorical(3)
    torch.testing.assert_close(
        counted.plausibility(torch.zeros(2, 3), torch.tensor([0, 2])), torch.full((2,), 1 / 3)
    )


def test_angles_wrap():
    space = gym.spaces.Box(-PI, PI, (1,), np.float32)
    near_the_seam = torch.tensor([[3.1], [-3.1]])
    head = fitted(Mixture, space, near_the_seam)
    assert head.is_angle.all()
    assert not head.is_choice.any()
    outputs = head.usual(torch.tensor([[3.1], [3.1]])).expand(2, -1)
    one, other = head.log_prob(outputs, near_the_seam)
    assert one == pytest.approx(float(other), abs=0.5)
    assert float(head.error(outputs, near_the_seam).max()) < 0.2
    round_about = gym.spaces.Box(0.0, 2 * PI, (1,), np.float32)
    drawn = make_head(round_about).sample(torch.zeros(50, make_head(round_about).size))
    assert all(round_about.contains(a) for a in drawn.numpy())


def test_the_spread_has_a_floor_and_a_temperature_widens_it():
    head = fitted(Mixture, BOX, data(np.random.default_rng(3)))
    sure = torch.full((1, head.size), -50.0)
    at_most = head.log_prob(sure, head.mode(sure))
    assert float(at_most) <= -np.log(FLOOR * np.sqrt(2 * np.pi)) + 1e-4
    softer = head.log_prob(sure, head.mode(sure), temperature=3.0)
    assert float(softer) < float(at_most)
    head.soften(torch.nn.Sequential(), 3.0)
    torch.testing.assert_close(head.log_prob(sure, head.mode(sure)), softer)


@pytest.mark.parametrize("head", [Categorical(4), Mixture(BOX)], ids=["counted", "real"])
def test_a_mixture_of_outputs_is_the_mean_of_what_they_say(head):
    rng = np.random.default_rng(4)
    outputs = torch.from_numpy(rng.normal(size=(5, 3, head.size)))
    log_weights = torch.from_numpy(rng.normal(size=(5, 3))).log_softmax(1)
    actions = torch.tensor([0, 1, 2, 3, 0]) if head.encoded == 4 else torch.rand(5, 2)
    mixed = head.log_prob(head.mix(log_weights, outputs), actions)
    each = torch.stack([head.log_prob(outputs[:, k], actions) for k in range(3)], 1)
    torch.testing.assert_close(mixed, (log_weights + each).logsumexp(1))


@pytest.mark.parametrize("kind", [Mixture, Regression])
def test_whoever_does_as_usual(kind):
    actions = torch.from_numpy(data(np.random.default_rng(5)))
    head = fitted(kind, BOX, actions)
    usual = head.usual(actions).expand(len(actions), -1)
    others = head.usual(-actions).expand(len(actions), -1)
    assert float(head.nll(usual, actions, "mean")) < float(head.nll(others, actions, "mean"))
    assert float(head.error(usual, actions).mean()) < float(head.error(others, actions).mean())
    counted = Categorical(3)
    shares = counted.usual(torch.tensor([0, 0, 1])).exp()
    torch.testing.assert_close(shares, torch.tensor([3 / 6, 2 / 6, 1 / 6]))


def test_constant_entries_and_other_spaces():
    head = fitted(Mixture, BOX, torch.zeros(10, 2))
    outputs = torch.zeros(4, head.size)
    assert head.log_prob(outputs, torch.zeros(4, 2)).isfinite().all()
    assert head.mode(outputs).abs().max() < 0.1
    with pytest.raises(InputError, match="actions are Discrete, Box, MultiDiscrete"):
        make_head(gym.spaces.Text(3))
