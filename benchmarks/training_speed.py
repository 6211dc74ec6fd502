"""Training speed of behaviour cloning: sdil, a bare PyTorch loop, and two other libraries.

All train the same network on the same made-up data the size of FourRooms, with one thread, turn by
turn, so that a busy machine slows all alike. A speed is the median over the rounds, a ratio the
median of the ratios within each round.

What the time of sdil.BC holds: shuffling, windows, standardisation, loss, Adam, the mean of each
loss term, and after every epoch validation, early stopping's bookkeeping and the callback; from the
end of the first epoch to the end of the last. `whole fit` adds the first epoch and what is done
once: index arrays and the statistics for standardisation. Of the others, which have no validation
here, the training loop alone is timed; making the data set and the learner is not.
"""

from __future__ import annotations

import json as json_text
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn

from common.peers import FILE, PACKAGES, environment
from common.report import Target, begin, finish, print_table
from sdil import BC, Demonstrations, Spaces
from sdil.heads import make_head
from sdil.spaces import Array
from sdil.trajectories import Trajectories

N_FEATURES, N_ACTIONS, EPISODE = 147, 7, 20
REAL = " on Box"  # the same with seven real numbers as an action, and a mixture of Gaussians

Measure = Callable[[], dict[str, float]]
"""Trains once; transitions per second by name."""


def main(
    seed: int = 0,
    transitions: int = 36_000,
    epochs: int = 4,
    rounds: int = 9,
    peers: bool = True,
    json: Path | None = None,
) -> None:
    """Measure how fast behaviour cloning trains, in transitions per second.

    Args:
        seed: The data and all training follow from it.
        transitions: Steps to train on, at least 5,000; sdil validates on a quarter as many more.
        epochs: Passes over the data in each measurement.
        rounds: Measurements of each, taken in turn.
        peers: Also measure `imitation` and `d3rlpy`, each in an environment of its own.
        json: Save everything to this file.
    """
    torch.set_num_threads(1)
    learner = BC()
    about = begin(
        seed=seed,
        sizes=f"{transitions} transitions of {N_FEATURES} float32, {N_ACTIONS} actions, batch "
        f"{learner.batch_size}, network {N_FEATURES}-{learner.hidden}-{learner.hidden}-{N_ACTIONS}",
        rounds=f"{rounds} of {epochs} epochs, one thread; sdil validates on {transitions // 4}",
    )
    train = made_up(transitions, seed)
    valid = made_up(transitions // 4, seed + 1)
    real = made_up(transitions, seed, real=True)
    real_valid = made_up(transitions // 4, seed + 1, real=True)
    speeds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        measures: list[Measure] = [
            lambda: bare_loop(train, learner, epochs, seed),
            lambda: ours(train, valid, epochs, seed),
            lambda: bare_loop(real, learner, epochs, seed, REAL),
            lambda: ours(real, real_valid, epochs, seed, REAL),
        ]
        missing = {}
        if peers:
            data = stack.enter_context(tempfile.TemporaryDirectory())
            file = Path(data) / "data.npz"
            save_for_peers(train, learner, seed, file)
            updates = epochs * -(-transitions // learner.batch_size)
            for name in PACKAGES:
                try:
                    python = environment(name)
                    measures.append(
                        start_peer(stack, name, python, file, updates, learner.batch_size)
                    )
                except (OSError, RuntimeError) as error:
                    missing[name] = str(error)
        bare_loop(train, learner, 1, seed)
        ours(train, valid, 2, seed)
        ours(real, real_valid, 2, seed, REAL)
        for _ in range(rounds):
            for measure in measures:
                for name, speed in measure().items():
                    speeds.setdefault(name, []).append(speed)
    rows: list[dict[str, Any]] = []
    for name, values in speeds.items():
        us = speeds["sdil.BC" + (REAL if name.endswith(REAL) else "")]
        ratios = [mine / other for mine, other in zip(us, values, strict=True)]
        rows.append(
            {
                "name": name,
                "transitions_per_second": statistics.median(values),
                "lowest": min(values),
                "highest": max(values),
                "sdil_is_times_as_fast": statistics.median(ratios),
                "by_round": values,
            }
        )
    columns = ["", "transitions/s", "lowest", "highest", "sdil.BC is ... as fast"]
    keys = ("transitions_per_second", "lowest", "highest")
    print_table(
        columns,
        [
            [r["name"], *[f"{r[k]:,.0f}" for k in keys], f"{r['sdil_is_times_as_fast']:.2f}x"]
            for r in rows
        ],
    )
    for name, why in missing.items():
        print(f"{name}: not measured: {why}")
    ratio = {row["name"]: row["sdil_is_times_as_fast"] for row in rows}
    wanted = {
        "bare PyTorch loop": 0.85,
        f"bare PyTorch loop{REAL}": 0.9,
        "imitation": 5.0,
        "d3rlpy": 4.0,
    }
    targets = [
        Target(f"sdil.BC / {name}", ratio[name], at_least=least)
        for name, least in wanted.items()
        if name in ratio
    ]
    finish({**about, "missing": missing}, rows, targets, json)


def made_up(steps: int, seed: int, *, real: bool = False) -> Demonstrations:
    """Small whole numbers, as in MiniGrid's views, and the actions of a random linear policy; with
    `real` its values themselves."""
    rng = np.random.default_rng(seed)
    observations = rng.integers(0, 10, (steps, N_FEATURES)).astype(np.float32)
    teacher = np.random.default_rng(0).standard_normal((N_FEATURES, N_ACTIONS)).astype(np.float32)
    values = observations @ teacher
    firsts = np.arange(0, steps, EPISODE)
    nothing = np.zeros(len(firsts), bool)
    trajectories = Trajectories(
        observations=observations,
        actions=values if real else values.argmax(1),
        rewards=np.full(steps, np.nan),
        first_row=firsts,
        first_step=firsts,
        lengths=np.diff(np.append(firsts, steps)),
        has_final=nothing,
        has_rewards=nothing,
        terminated=~nothing,
        ids=tuple(str(i) for i in range(len(firsts))),
        groups=(None,) * len(firsts),
    )
    spaces = Spaces(
        gym.spaces.Box(-np.inf, np.inf, (N_FEATURES,), np.float32),
        gym.spaces.Box(-np.inf, np.inf, (N_ACTIONS,), np.float32)
        if real
        else gym.spaces.Discrete(N_ACTIONS),
    )
    return Demonstrations(trajectories, trajectories[:0], spaces)


def bare_loop(
    demos: Demonstrations, learner: BC, epochs: int, seed: int, kind: str = ""
) -> dict[str, float]:
    """The least that PyTorch can do: no windows, no standardisation, no losses kept; of real
    numbers with the same head."""
    torch.manual_seed(seed)
    inputs = torch.tensor(demos.clean.observations)
    actions = torch.tensor(demos.clean.actions)
    hidden, head = learner.hidden, make_head(demos.spaces.action)
    head.fit(actions)
    network = nn.Sequential(
        nn.Linear(N_FEATURES, hidden),
        nn.LeakyReLU(0.1),
        nn.Linear(hidden, hidden),
        nn.LeakyReLU(0.1),
        nn.Linear(hidden, head.size),
    )
    adam = torch.optim.Adam(
        network.parameters(),
        lr=learner.learning_rate,
        weight_decay=learner.weight_decay,
        fused=True,
    )
    began = time.perf_counter()
    for _ in range(epochs):
        for index in torch.randperm(len(inputs)).split(learner.batch_size):
            loss = head.nll(network(inputs[index]), actions[index], "mean")
            adam.zero_grad(set_to_none=True)
            loss.backward()
            adam.step()
    return {f"bare PyTorch loop{kind}": epochs * len(inputs) / (time.perf_counter() - began)}


def ours(
    demos: Demonstrations, valid: Demonstrations, epochs: int, seed: int, kind: str = ""
) -> dict[str, float]:
    """`sdil.BC`, for exactly so many epochs and one more to begin with."""
    updates = (epochs + 1) * -(-demos.clean.n_steps // BC.batch_size)
    ends: list[float] = []
    began = time.perf_counter()
    BC(min_updates=updates, max_updates=updates).fit(
        demos, valid=valid, seed=seed, on_epoch=lambda epoch: ends.append(time.perf_counter())
    )
    over = time.perf_counter()
    assert len(ends) == epochs + 1, "with fewer than 20 batches, an epoch is more than one pass"
    return {
        f"sdil.BC{kind}": epochs * demos.clean.n_steps / (ends[-1] - ends[0]),
        f"sdil.BC, whole fit{kind}": (epochs + 1) * demos.clean.n_steps / (over - began),
    }


def save_for_peers(demos: Demonstrations, learner: BC, seed: int, file: Path) -> None:
    """What `common/peers.py` reads."""
    ends: Array = np.zeros(demos.clean.n_steps, bool)
    ends[np.cumsum(demos.clean.lengths) - 1] = True
    setting = {
        "seed": seed,
        "n_actions": N_ACTIONS,
        "hidden": learner.hidden,
        "batch_size": learner.batch_size,
        "learning_rate": learner.learning_rate,
        "weight_decay": learner.weight_decay,
    }
    np.savez(
        file,
        observations=demos.clean.observations,
        actions=demos.clean.actions,
        ends=ends,
        setting=json_text.dumps(setting),
    )


def start_peer(
    stack: ExitStack, name: str, python: Path, data: Path, updates: int, batch_size: int
) -> Measure:
    """Start a peer, warm it up, and say how to measure it. Every batch of theirs is full."""
    log = stack.enter_context((data.parent / f"{name}.log").open("w+"))
    process = stack.enter_context(
        subprocess.Popen(
            [python, FILE, "time", name, data],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    )
    assert process.stdin is not None
    assert process.stdout is not None
    ask, answers = process.stdin, process.stdout

    def measure(updates: int) -> dict[str, float]:
        print(updates, file=ask, flush=True)
        line = answers.readline()
        if not line:
            log.seek(0)
            raise RuntimeError(f"it broke off: {log.read().strip().splitlines()[-1:]}")
        return {name: updates * batch_size / float(line)}

    measure(20)
    return lambda: measure(updates)


if __name__ == "__main__":
    tyro.cli(main)
