"""Speed of SDIL's discovery phase against a bare PyTorch loop of behaviour cloning, one thread.

Both take turns on FourRooms demonstrations of about 36,000 steps, batch 256, pairs by embeddings
(DEC on, the costlier source). CPU time, median of the ratios within each round; then where the time
of an update goes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import tyro

import sdil
from common.report import Target, begin, finish, print_table
from sdil.losses import total
from sdil.skills.discovery import Discovery, discovery_loss
from sdil.skills.pairs import find_pairs
from sdil.skills.steps import TrainingSteps, first_models
from sdil.training import seeded
from sdil.windows import varying_inputs
from training_speed import bare_loop, made_up


def main(
    noisy: int = 2_350,
    clean: int = 100,
    updates: int = 140,
    rounds: int = 9,
    seed: int = 0,
    json: Path | None = None,
) -> None:
    """Measure how fast discovery is.

    Args:
        noisy: Noisy trajectories.
        clean: Clean trajectories.
        updates: Updates per round.
        rounds: Rounds.
        seed: Everything random follows from it.
        json: Also save what was measured here.
    """
    torch.set_num_threads(1)
    demos, _ = sdil.get_task("fourrooms").collect(clean=clean, noisy=noisy, seed=seed)
    settings = sdil.SDIL()
    about = begin(
        seed=seed,
        sizes=f"{demos.all.n_steps} steps, "
        f"{len(varying_inputs(demos.all))} of 153 float32 vary, batch {settings.batch_size}",
        rounds=f"{rounds} of {updates} updates, one thread, CPU time",
    )
    plain = made_up(demos.all.n_steps, seed)
    discovery = _discovery(demos, settings, seed)

    def discover() -> None:
        for index in discovery._batches(updates):
            random = discovery._draw(len(index), by_embedding=True)
            terms, _ = discovery_loss(
                discovery.model, discovery.T, discovery._batch(index), random, settings
            )
            discovery.optimisation.descend(total(terms))

    discover()
    speeds: dict[str, list[float]] = {"bare BC loop": [], "discovery": []}
    for _ in range(rounds):
        before = time.process_time()
        bare_loop(plain, sdil.BC(), 1, seed)
        middle = time.process_time()
        discover()
        after = time.process_time()
        speeds["bare BC loop"].append(demos.all.n_steps / (middle - before))
        speeds["discovery"].append(updates * settings.batch_size / (after - middle))
    ratio = statistics.median(
        d / b for d, b in zip(speeds["discovery"], speeds["bare BC loop"], strict=True)
    )
    rows = [
        {"name": name, "steps_per_second": statistics.median(values)}
        for name, values in speeds.items()
    ]
    print_table(
        ["", "steps per second"], [[str(r["name"]), f"{r['steps_per_second']:,.0f}"] for r in rows]
    )
    print()
    parts = _parts(discovery)
    whole = parts["whole update"]
    print_table(
        ["part of an update", "ms", "share"],
        [[name, f"{ms:.2f}", f"{ms / whole:.0%}"] for name, ms in parts.items()],
    )
    print()
    finish(
        {**about, "parts_ms": parts},
        rows,
        [Target("discovery / bare BC loop", ratio, at_least=1 / 6)],
        json,
    )


def _discovery(demos: sdil.Demonstrations, settings: sdil.SDIL, seed: int) -> Discovery:
    steps = TrainingSteps(demos, settings, seed)
    with seeded(seed) as generator:
        model, _, T = first_models(steps, settings)
    discovery = Discovery(steps, model, T, settings, generator)
    discovery.scores = torch.where(
        steps.is_clean, 1.0, torch.rand(len(steps.windows), generator=generator) * 2 - 1
    )
    return discovery


def _parts(discovery: Discovery) -> dict[str, float]:
    """Milliseconds of CPU time for each part of one update."""
    s, model, T = discovery.settings, discovery.model, discovery.T
    index = discovery._batches(1)[0]
    batch, random = discovery._batch(index), discovery._draw(len(index), by_embedding=True)
    embeddings = model.encoder.body(batch.features).detach()
    given = embeddings, batch.clusters, batch.scores, batch.is_clean
    drawn = random.positive, random.negative
    partners = find_pairs(*given, *drawn, s, by_embedding=True).partners
    chosen = torch.rand(len(index), s.n_skills, requires_grad=True)
    skills = torch.rand(len(index), s.skill_size, requires_grad=True)

    def update() -> None:
        fresh = discovery._draw(len(index), by_embedding=True)
        terms, _ = discovery_loss(model, T, discovery._batch(index), fresh, s)
        discovery.optimisation.descend(total(terms))

    def compatibility() -> None:
        T(batch.steps, chosen, model.g.prototypes, partners).sum().backward()

    def act() -> None:
        model.pi_low.act(batch.states, skills).sum().backward()

    update()
    return {
        "whole update": _ms(update),
        "gather the batch": _ms(lambda: discovery._batch(index)),
        "f_bi, forward and backward": _ms(
            lambda: model.encoder.body(batch.features).sum().backward()
        ),
        "pi_low, forward and backward": _ms(act),
        "pairs": _ms(lambda: find_pairs(*given, *drawn, s, by_embedding=True)),
        "T on ten partners, forward and backward": _ms(compatibility),
        "Adam": _ms(discovery.optimisation.optimiser.step),
    }


def _ms(work: Callable[[], object], repeats: int = 60) -> float:
    times = []
    for _ in range(repeats):
        before = time.process_time()
        work()
        times.append(time.process_time() - before)
    return 1000 * statistics.median(times)


if __name__ == "__main__":
    tyro.cli(main)
