"""Between a network and actions: densities that are densities, actions that lie in their space."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from sdil import BC, InputError
from sdil.heads import FLOOR, Categorical, Mixture, Regression, make_head
from sdil.nested import shape_actions

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
    assert BC().floor == FLOOR
    wider = make_head(BOX, floor=0.4)
    wider.fit(torch.from_numpy(data(np.random.default_rng(3))))
    assert float(wider.log_prob(sure, wider.mode(sure))) < float(at_most) - 0.5
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


PARTS = gym.spaces.Dict(
    {
        "arm": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
        "grip": gym.spaces.Discrete(2),
        "keys": gym.spaces.MultiDiscrete([3, 2], start=[1, 0]),
    }
)


def rows_of_parts(rng, n=400):
    arm = rng.uniform(-1, 1, (n, 2))
    columns = [arm, rng.integers(0, 2, n), rng.integers(1, 4, n), rng.integers(0, 2, n)]
    return torch.from_numpy(np.column_stack(columns).astype(np.float32))


def test_probabilities_of_parts_sum_to_one():
    head = make_head(gym.spaces.MultiDiscrete([3, 2]))
    assert head.size == 5 * (1 + 3 + 2)
    outputs = torch.randn(4, head.size, dtype=torch.float64)
    every = torch.tensor([[i, j] for i in range(3) for j in range(2)])
    likely = torch.stack([head.log_prob(outputs, a.expand(4, 2)) for a in every]).exp()
    torch.testing.assert_close(likely.sum(0), torch.ones(4, dtype=torch.float64))
    best = head.mode(outputs)
    assert best.dtype == torch.int64
    # the best of the ways of acting, so never worse than half as likely as the very best
    assert (head.log_prob(outputs, best).exp() > 0.5 * likely.amax(0)).all()
    drawn = head.sample(outputs[:1].expand(20_000, -1), torch.Generator().manual_seed(0))
    share = torch.stack([(drawn == a).all(1).double().mean() for a in every])
    torch.testing.assert_close(share, likely[:, 0], atol=0.015, rtol=0)


def test_a_composite_head_knows_that_parts_go_together():
    """Left and open, or right and shut: never left and shut."""
    head = make_head(gym.spaces.MultiDiscrete([2, 2]))
    actions = torch.randint(0, 2, (256,), generator=torch.Generator().manual_seed(0))
    pairs = torch.stack([actions, 1 - actions], 1)
    outputs = torch.randn(head.size, generator=torch.Generator().manual_seed(0)).requires_grad_()
    optimiser = torch.optim.Adam([outputs], lr=0.1)
    for _ in range(150):
        loss = head.nll(outputs.expand(256, -1), pairs, "mean")
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert float(loss.detach()) < np.log(2) + 0.05  # apart from one another it would be log 4


def test_the_density_of_parts_and_what_others_see_of_them():
    rng = np.random.default_rng(6)
    rows = rows_of_parts(rng)
    head = make_head(PARTS)
    head.fit(rows)
    assert head.encoded == 2 + 2 + 3 + 2
    seen = head.encode(rows)
    assert seen.shape == (400, 9)
    torch.testing.assert_close(seen[:, :2].std(0, correction=0), torch.ones(2))
    assert set(seen[:, 2:].flatten().tolist()) == {0.0, 1.0}
    outputs = torch.randn(7, head.size)
    drawn = head.sample(outputs)
    assert drawn.shape == (7, 5)
    for row in drawn.numpy():
        assert PARTS.contains(shape_actions(PARTS, row))
    assert head.log_prob(outputs, drawn).isfinite().all()
    mixed = head.mix(torch.zeros(7, 1).log_softmax(1), outputs[:, None])
    torch.testing.assert_close(head.log_prob(mixed, drawn), head.log_prob(outputs, drawn))
    usual = head.usual(rows).expand(400, -1)
    assert float(head.nll(usual, rows, "mean")) < -head.log_uniform + 0.5
    assert head.error(usual, rows).shape == (400,)
    assert (
        (head.plausibility(outputs, drawn) >= 0) & (head.plausibility(outputs, drawn) <= 1)
    ).all()
    sure = head.log_prob(outputs, drawn, 1.0)
    assert not torch.equal(sure, head.log_prob(outputs, drawn, 3.0))
    softer = head.log_prob(outputs, drawn, 3.0)
    head.soften(torch.nn.Sequential(), 3.0)
    torch.testing.assert_close(head.log_prob(outputs, drawn), softer)


def test_the_distance_of_parts_by_hand():
    head = make_head(PARTS)
    one = torch.tensor([[0.0, 0.0, 1.0, 2.0, 0.0]])
    other = torch.tensor([[0.5, 0.0, 0.0, 2.0, 1.0]])
    assert head.apart(one, other).tolist() == [[-0.5, 0.0, 1.0, 0.0, 1.0]]
    assert head.square_distance(one, other).tolist() == pytest.approx([(0.25 + 2 + 2) / 5])


@pytest.mark.parametrize(
    "space", [gym.spaces.Discrete(4), BOX, gym.spaces.MultiDiscrete([3, 2]), PARTS]
)
def test_what_is_picked_is_as_likely_as_it_is_weighed(space):
    """The entropy is the mean of -log p over what is picked, or above it for several Gaussians."""
    head = make_head(space, modes=1)
    outputs = torch.randn(1, head.size, generator=torch.Generator().manual_seed(1)).double()
    rows = outputs.expand(20_000, -1)
    noise = head.noise((20_000,), torch.Generator().manual_seed(0)).double()
    log_prob, entropy = head.weigh(rows, head.pick(rows, noise))
    assert float(entropy[0]) == pytest.approx(-float(log_prob.mean()), abs=0.03)
    several = make_head(space)
    outputs = torch.randn(1, several.size, generator=torch.Generator().manual_seed(1)).double()
    rows = outputs.expand(20_000, -1)
    noise = several.noise((20_000,), torch.Generator().manual_seed(0)).double()
    log_prob, entropy = several.weigh(rows, several.pick(rows, noise))
    assert float(entropy[0]) > -float(log_prob.mean()) - 0.03


@pytest.mark.parametrize("kind", ["mixture", "parts"])
def test_how_plausible_an_action_is_depends_on_no_other_step(kind):
    real = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    head = make_head(real if kind == "mixture" else gym.spaces.Dict(arm=real))
    rng = np.random.default_rng(0)
    actions = torch.from_numpy(rng.uniform(-1, 1, (6, 2)).astype(np.float32))
    head.fit(actions)
    outputs = torch.from_numpy(rng.normal(size=(6, head.size)).astype(np.float32))
    together = head.plausibility(outputs, actions)
    alone = torch.cat([head.plausibility(outputs[[i]], actions[[i]]) for i in range(6)])
    assert torch.equal(together, alone)
    assert 0 < together.mean() < 1
