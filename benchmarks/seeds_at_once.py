"""Behaviour cloning for several seeds: side by side by stacked weights against one after the other.

One CPU thread, the size of FourRooms. Every seed has its own weights and its own batches, as alone.
`one by one` is a bare loop per seed; `stacked` multiplies the layers of all seeds together
(`baddbmm`), with one Adam over the stack; `vmap` is `torch.func.functional_call` under `vmap`. What
a seed comes to side by side is compared with what it comes to alone.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import torch
import torch.nn.functional as F
import tyro
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from common.report import Target, begin, finish, print_table
from sdil.networks.encoders import mlp

FEATURES, ACTIONS, HIDDEN, LAYERS, BATCH = 147, 7, 64, 2, 256
RATE, DECAY, LEAK = 1e-3, 5e-4, 0.1


def main(
    seeds: int = 5,
    steps: int = 36_000,
    updates: int = 200,
    rounds: int = 5,
    seed: int = 120,
    json: Path | None = None,
) -> None:
    """Measure whether seeds are faster side by side.

    Args:
        seeds: How many.
        steps: Steps of made-up data.
        updates: Updates of each seed in each round.
        rounds: Rounds; ratios are medians within each.
        seed: The data and the first seed.
        json: Also save what was measured here.
    """
    torch.set_num_threads(1)
    about = begin(seeds=seeds, sizes=f"{steps} steps, {FEATURES} features, batch {BATCH}")
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(steps, FEATURES, generator=generator)
    actions = torch.randint(ACTIONS, (steps,), generator=generator)
    ways = {"one by one": _one_by_one, "stacked": _stacked, "vmap": _by_vmap}
    taken: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, list[Tensor]] = {}
    for _ in range(rounds + 1):  # the first sets everything up
        for name, way in ways.items():
            networks = [_network(seed + i) for i in range(seeds)]
            drawn = torch.stack([_batches(seed + i, steps, updates) for i in range(seeds)])
            begun = time.process_time()
            found[name] = way(networks, states, actions, drawn)
            taken[name].append(time.process_time() - begun)
    rows = []
    for name in ways:
        ratio = statistics.median(
            a / b for a, b in zip(taken["one by one"][1:], taken[name][1:], strict=True)
        )
        apart = max(
            float((a - b).abs().max())
            for a, b in zip(found[name], found["one by one"], strict=True)
        )
        rows.append(
            {
                "way": name,
                "ms per update of a seed": 1e3
                * statistics.median(taken[name][1:])
                / (updates * seeds),
                "times as fast": ratio,
                "weights differ by": apart,
            }
        )
    print_table(
        ["", "ms per update of a seed", "times as fast", "weights differ by"],
        [
            [
                str(row["way"]),
                f"{row['ms per update of a seed']:.3f}",
                f"{row['times as fast']:.2f}",
                f"{row['weights differ by']:.0e}",
            ]
            for row in rows
        ],
    )
    best = max(float(str(row["times as fast"])) for row in rows)
    finish(about, rows, [Target("side by side / one by one", best, at_least=1.5)], json)


def _network(seed: int) -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return mlp(FEATURES, HIDDEN, LAYERS, ACTIONS)


def _batches(seed: int, steps: int, updates: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(steps, (updates, BATCH), generator=generator)


def _one_by_one(
    networks: list[nn.Sequential], states: Tensor, actions: Tensor, drawn: Tensor
) -> list[Tensor]:
    for network, batches in zip(networks, drawn, strict=True):
        optimiser = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
        for index in batches:
            outputs = network(states.index_select(0, index))
            loss = F.cross_entropy(outputs, actions.index_select(0, index))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return [nn.utils.parameters_to_vector(n.parameters()).detach() for n in networks]


def _stacked(
    networks: list[nn.Sequential], states: Tensor, actions: Tensor, drawn: Tensor
) -> list[Tensor]:
    count = len(networks)
    layers = [[m for m in n if isinstance(m, nn.Linear)] for n in networks]
    weights = [
        nn.Parameter(torch.stack([n[i].weight.detach().T for n in layers]))
        for i in range(len(layers[0]))
    ]
    biases = [
        nn.Parameter(torch.stack([n[i].bias.detach()[None] for n in layers]))
        for i in range(len(layers[0]))
    ]
    optimiser = torch.optim.Adam([*weights, *biases], lr=RATE, weight_decay=DECAY, fused=True)
    for index in drawn.transpose(0, 1):  # (seeds, BATCH)
        flat = index.flatten()
        hidden = states.index_select(0, flat).view(count, BATCH, -1)
        for i, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            hidden = torch.baddbmm(bias, F.leaky_relu(hidden, LEAK) if i else hidden, weight)
        loss = F.cross_entropy(hidden.flatten(0, 1), actions.index_select(0, flat)) * count
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return [
        torch.cat(
            [
                part
                for w, b in zip(weights, biases, strict=True)
                for part in (w[s].detach().T.flatten(), b[s].detach().flatten())
            ]
        )
        for s in range(count)
    ]


def _by_vmap(
    networks: list[nn.Sequential], states: Tensor, actions: Tensor, drawn: Tensor
) -> list[Tensor]:
    stacked, _ = stack_module_state(networks)
    parameters = {k: v.detach() for k, v in stacked.items()}
    shape = networks[0]

    def loss(weights: dict[str, Tensor], seen: Tensor, taken: Tensor) -> Tensor:
        return F.cross_entropy(functional_call(shape, weights, (seen,)), taken)

    slopes = vmap(grad(loss))
    optimiser = torch.optim.Adam(parameters.values(), lr=RATE, weight_decay=DECAY, fused=True)
    for index in drawn.transpose(0, 1):
        found = slopes(parameters, states[index], actions[index])
        for name, value in parameters.items():
            value.grad = found[name]
        optimiser.step()
    return [
        torch.cat([value[s].flatten() for value in parameters.values()])
        for s in range(len(networks))
    ]


if __name__ == "__main__":
    tyro.cli(main)
