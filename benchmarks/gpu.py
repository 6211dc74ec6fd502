"""What a GPU does for sdil: five parts, each measured by itself, so that one that fails costs none.

- bc: BC with convolutions of its own on 64 x 64 pictures against a bare PyTorch loop with the same
  network, updates per second;
- discovery: SDIL's discovery against forward and backward of the same `f_bi` and `pi_low` alone;
- judging: frames in a memory-mapped file, from nothing to a judge: seconds, the most memory of the
  host, and the rate of encoding against that with all frames on the GPU already;
- seeds: five seeds of SDIL at once, a process each, against one;
- same: the same seed twice, and a run that goes on from its middle: are the weights the same?

The data is made up: squares that walk over a background. `--device cpu` runs all of it anywhere.
"""

from __future__ import annotations

import os

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before CUDA starts

import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from json import dumps as dump
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch
import tyro

import sdil
from common.report import Target, begin, finish, print_table
from sdil.algorithms import find_learner
from sdil.cores import computing_on, resolve_device, wanted_device
from sdil.demonstrations import Demonstrations, digest_of
from sdil.networks.observing import FRAMES_AT_ONCE, ObservationEncoder
from sdil.networks.policies import Architecture, PlainNetwork
from sdil.networks.seeing import forget_encoders, see
from sdil.skills.discovery import Discovery
from sdil.skills.steps import TrainingSteps, first_models
from sdil.spaces import Array, Spaces
from sdil.training import seeded
from sdil.trajectories import Trajectories
from sdil.windows import Windows

Part = Literal["bc", "discovery", "judging", "seeds", "same"]
PARTS: tuple[Part, ...] = ("bc", "discovery", "judging", "seeds", "same")
STEPS, ACTIONS, FEATURES = 100, 5, 60
MOVES = np.array([(0, 0), (0, 3), (0, -3), (3, 0), (-3, 0)])

Row = dict[str, Any]


def main(
    parts: tuple[Part, ...] = PARTS,
    device: str = "cuda",
    frames: int = 1_000_000,
    side: int = 64,
    pictures: int = 20_000,
    updates: int = 400,
    rounds: int = 5,
    seeds: int = 5,
    steps: int = 36_000,
    threads: int = 8,
    seed: int = 120,
    folder: Path | None = None,
    json: Path | None = None,
) -> None:
    """Measure what a GPU does.

    Args:
        parts: Which parts to measure.
        device: cuda, cpu or auto.
        frames: Memory-mapped frames to judge.
        side: Pixels along each side of a picture.
        pictures: Frames that BC is trained on.
        updates: Updates of each measurement of speed.
        rounds: Measurements of each speed, turn by turn; ratios are medians.
        seeds: Seeds of SDIL at once.
        steps: Steps of vectors that SDIL learns from.
        threads: CPU threads of the judge.
        seed: The data and all training follow from it.
        folder: Where the memory-mapped file is made and deleted; by default the temporary folder.
        json: Also save what was measured here.
    """
    chosen = resolve_device(device)
    name = torch.cuda.get_device_name() if chosen == "cuda" else "CPU"
    about = begin(device=name, seed=seed, pictures=f"{side} x {side} x 3 bytes")
    work: dict[Part, Callable[[], tuple[Row, list[Target]]]] = {
        "bc": lambda: train_bc(pictures, side, updates, rounds, seed),
        "discovery": lambda: discover(steps, updates, rounds, seed),
        "judging": lambda: judge_frames(frames, side, threads, seed, folder),
        "seeds": lambda: several_seeds(steps, seeds, seed, chosen),
        "same": lambda: same_again(side, seed),
    }
    rows: list[Row] = []
    targets: list[Target] = []
    for part in parts:
        begun = time.perf_counter()
        try:
            with computing_on(chosen):
                row, wanted = work[part]()
        except Exception:  # the others are measured all the same
            traceback.print_exc()
            row, wanted = {"failed": traceback.format_exc(limit=3)}, []
        rows.append({"part": part, **row, "seconds of this part": time.perf_counter() - begun})
        targets += wanted
        print_table([part, ""], [[k, _show(v)] for k, v in rows[-1].items() if k != "part"])
        print(flush=True)
        forget_encoders()
        if json is not None:  # what is measured is kept, whatever comes after
            json.write_text(dump({**about, "rows": rows}, indent=2) + "\n")
    finish(about, rows, targets, json)


def _show(value: Any) -> str:
    return f"{value:,.3g}" if isinstance(value, float) else str(value)


def train_bc(pictures: int, side: int, updates: int, rounds: int, seed: int) -> tuple[Row, Any]:
    """Updates per second, each from the end of the first epoch to the end of the last."""
    demos = walking_squares(pictures, side, seed)
    valid = Demonstrations(demos.clean[:1], demos.clean[:0], demos.spaces)
    learner = sdil.BC(images="trained", min_updates=updates, max_updates=updates, patience=updates)
    speeds: dict[str, list[float]] = {"sdil": [], "bare": [], "bare, deterministic": []}

    def ours() -> float:
        heard: list[tuple[int, float]] = []

        def hear(epoch: Any) -> None:
            _wait()
            heard.append((epoch.updates, time.perf_counter()))

        learner.fit(demos, valid=valid, seed=seed, on_epoch=hear)
        if len(heard) < 2:
            return updates / (heard[-1][1] - begun)
        return (heard[-1][0] - heard[0][0]) / (heard[-1][1] - heard[0][1])

    for _ in range(rounds + 1):  # the first sets everything up, and is left out
        begun = time.perf_counter()
        speeds["sdil"].append(ours())
        speeds["bare"].append(_bare_loop(demos, learner, updates, seed, deterministic=False))
        speeds["bare, deterministic"].append(
            _bare_loop(demos, learner, updates, seed, deterministic=True)
        )
    kept = {name: values[1:] for name, values in speeds.items()}
    ratio, steady = (
        statistics.median(a / b for a, b in zip(kept["sdil"], kept[other], strict=True))
        for other in ("bare", "bare, deterministic")
    )
    row = {f"{name}, updates per second": statistics.median(v) for name, v in kept.items()}
    row |= {"ratio": ratio, "ratio to the deterministic loop": steady}
    return row, [Target("BC on images / bare loop", ratio, at_least=0.9)]


def _bare_loop(
    demos: Demonstrations, learner: Any, updates: int, seed: int, *, deterministic: bool
) -> float:
    """The same network on frames that are on the device: gather, forward, backward, Adam."""
    device = wanted_device()
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(deterministic and device.type == "cuda")
    windows = Windows(demos.all, 0)
    architecture = Architecture(0, learner.hidden, learner.layers)
    torch.manual_seed(seed)
    network = PlainNetwork(demos.spaces, architecture)
    network.fit_to(windows)
    network.to(device)
    frames = windows.observations[windows.rows].to(device)
    actions = windows.actions[windows.steps].to(device)
    assert network.eyes is not None
    eyes, body, standardise = network.eyes, network.body, network.features.standardise
    optimiser = torch.optim.Adam(
        network.parameters(), lr=learner.learning_rate, weight_decay=5e-4, fused=True
    )
    order = torch.randint(len(frames), (updates, learner.batch_size), device=device)

    def update(index: torch.Tensor) -> None:
        outputs = body(standardise(eyes(frames[index])))
        loss = torch.nn.functional.cross_entropy(outputs, actions[index])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    for index in order[:5]:
        update(index)
    _wait()
    begun = time.perf_counter()
    for index in order:
        update(index)
    _wait()
    torch.use_deterministic_algorithms(before)
    return updates / (time.perf_counter() - begun)


def discover(steps: int, updates: int, rounds: int, seed: int) -> tuple[Row, Any]:
    """Whole epochs of discovery, pairs by embeddings, against two networks alone, eagerly."""
    demos, settings, device = vectors(steps, seed), sdil.SDIL(), wanted_device()
    settings = replace(settings, zeta_step=1e9)  # from the second epoch all pairs by embeddings
    made = TrainingSteps(demos, settings, seed)
    with seeded(seed) as generator:
        model, _, T = first_models(made, settings)
    made = made.to(device)
    for module in (model, T):
        module.to(device)
    luck = torch.rand(len(made.windows), generator=generator) * 2 - 1
    scores = made.with_clean_ones(luck)
    discovery = Discovery(made, model, T, settings, generator, scores)
    per_epoch = discovery.updates_per_epoch
    for _ in range(2):
        discovery._train_one_epoch()
        discovery.epoch += 1
    index = discovery._batches(1)[0]
    batch = discovery._batch(index)
    skills = torch.randn(len(index), settings.skill_size, device=device)

    def alone() -> None:
        embeddings = model.encoder.body(batch.features)
        outputs = model.pi_low.act(batch.states, skills)
        loss = embeddings.square().mean() + model.head.nll(outputs, batch.actions, "mean")
        model.zero_grad(set_to_none=True)
        loss.backward()

    for _ in range(5):
        alone()
    speeds: dict[str, list[float]] = {"discovery": [], "alone": []}
    for _ in range(rounds):
        _wait()
        begun = time.perf_counter()
        done = 0
        while done < updates:
            discovery._train_one_epoch()
            done += per_epoch
        _wait()
        middle = time.perf_counter()
        for _ in range(updates):
            alone()
        _wait()
        speeds["discovery"].append(done / (middle - begun))
        speeds["alone"].append(updates / (time.perf_counter() - middle))
    ratio = statistics.median(
        a / b for a, b in zip(speeds["discovery"], speeds["alone"], strict=True)
    )
    row: Row = {f"{name}, updates per second": statistics.median(v) for name, v in speeds.items()}
    recorded = [r._graph is not None for r in discovery._repeated.values()]
    row |= {"ratio": ratio, "updates are recorded": str(recorded)}
    return row, [Target("discovery / f_bi and pi_low alone", ratio, at_least=0.4)]


def judge_frames(
    frames: int, side: int, threads: int, seed: int, folder: Path | None
) -> tuple[Row, Any]:
    """From a file to a judge."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        begun = time.perf_counter()
        demos = walking_squares(frames, side, seed, Path(place) / "frames.npy")
        written = time.perf_counter() - begun
        with _Memory() as memory, sdil.threads(threads):
            begun = time.perf_counter()
            seen = see(demos, seed=seed)
            _wait()
            encoded = time.perf_counter() - begun
            sdil.Judge().fit(demos, seed=seed)
            whole = time.perf_counter() - begun
        rate, resident = _encoding_rates(seen.encoder, demos)
    row = {
        "frames": len(demos.clean.observations),
        "seconds to write them (not counted)": written,
        "seconds to a judge": whole,
        "of these: learning to see, and encoding": encoded,
        "most memory of the host, GB, anonymous": memory.most,
        "frames encoded per second, from the file": rate,
        "frames encoded per second, on the device already": resident,
        "ratio": rate / resident,
    }
    return row, [
        Target("seconds to judge the frames", whole, at_most=180.0),
        Target("host memory, GB", memory.most, at_most=8.0),
        Target("encoding, from the file / on the GPU", rate / resident, at_least=0.7),
    ]


def _encoding_rates(encoder: ObservationEncoder, demos: Demonstrations) -> tuple[float, float]:
    """Frames per second: from where they lie, and as if they were all on the device."""
    rows = demos.clean.observations
    encoder(rows[:FRAMES_AT_ONCE])
    fresh = ObservationEncoder(encoder.space, encoder.eyes)  # it remembers nothing
    fresh(rows[:FRAMES_AT_ONCE])
    _wait()
    begun = time.perf_counter()
    fresh(rows)
    _wait()
    from_file = len(rows) / (time.perf_counter() - begun)
    device = wanted_device()
    some = torch.from_numpy(np.array(rows[: min(len(rows), 200_000)])).to(device)
    eyes = fresh._eyes(device)
    size = FRAMES_AT_ONCE if device.type == "cuda" else 32
    _wait()
    begun = time.perf_counter()
    with torch.no_grad():
        for block in some.split(size):
            eyes(block).float()
    _wait()
    return from_file, len(some) / (time.perf_counter() - begun)


def several_seeds(steps: int, seeds: int, seed: int, device: str) -> tuple[Row, Any]:
    """Whole fits of SDIL, judge included, in processes that begin together; start-up apart."""
    one = _side_by_side(steps, [seed], device)
    many = _side_by_side(steps, [seed + i for i in range(seeds)], device)
    alone = _side_by_side(steps, [seed], "cpu")
    row = {
        "one, seconds": one,
        f"{seeds} at once, seconds": many,
        "ratio": many / one,
        "one on the CPU, seconds": alone,
    }
    return row, [Target(f"{seeds} seeds of SDIL at once / one", many / one, at_most=1.5)]


def _side_by_side(steps: int, seeds: list[int], device: str) -> float:
    """Seconds of the longest, after all are ready."""
    code = (
        "import sys, time; sys.path.insert(0, {here!r})\n"
        "import gpu, sdil, torch\n"
        "demos = gpu.vectors({steps}, 0)\n"
        "if {device!r} == 'cuda': torch.zeros(1, device='cuda')\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "begun = time.perf_counter()\n"
        "sdil.SDIL().fit(demos, seed={seed}, device={device!r})\n"
        "print(time.perf_counter() - begun, flush=True)\n"
    )
    here = str(Path(__file__).parent)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                code.format(here=here, steps=steps, seed=seed, device=device),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for seed in seeds
    ]
    try:
        for process in running:
            assert process.stdout is not None
            if "ready" not in process.stdout.readline():
                raise RuntimeError("a process did not get ready")
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        taken = []
        for process in running:
            assert process.stdout is not None
            taken.append(float(process.stdout.readline()))
    finally:
        for process in running:
            process.kill()
            process.wait()
    return max(taken)


def same_again(side: int, seed: int) -> tuple[Row, Any]:
    """Weights of the same seed twice, and of a run that goes on from its middle."""
    pictures = walking_squares(20 * (STEPS + 1), side, seed)
    numbers = vectors(4_000, seed)
    few: dict[str, Any] = {"min_updates": 60, "max_updates": 60, "patience": 60}
    short = {"discovery_epochs": 3, "discovery_min_updates": 60, **few}
    judge = {"clone_updates": 20, "distance_updates": 20, "outcome_updates": 20}
    cases: dict[str, tuple[Any, Demonstrations, dict[str, Any]]] = {
        "BC, its own convolutions": (replace(sdil.BC(images="trained"), **few), pictures, {}),
        "BC, features": (replace(sdil.BC(), **few), pictures, {}),
    }
    given = sdil.Judge(**judge).fit(numbers, seed=seed)  # type: ignore[arg-type]
    cases["SDIL"] = (find_learner("sdil")(**short), numbers, {"judge": given})
    row: Row = {}
    for name, (learner, demos, more) in cases.items():
        states: list[Any] = []

        def hear(epoch: Any, states: list[Any] = states) -> None:
            states.append(epoch.state())

        forget_encoders()
        first = learner.fit(demos, seed=seed, on_epoch=hear, **more)
        forget_encoders()
        again = learner.fit(demos, seed=seed, **more)
        forget_encoders()
        resumed = learner.fit(demos, seed=seed, resume=states[len(states) // 2], **more)
        for label, other in (("twice", again), ("resumed", resumed)):
            row[f"{name}: {label}"] = _same(first, other)
    held = all(value == "the same" for value in row.values())
    return row, [Target("same seed, same weights; also resumed", float(held), at_least=1.0)]


def _same(one: Any, other: Any) -> str:
    a, b = ({**p.tensors(), **(p.encoder.tensors() if p.encoder else {})} for p in (one, other))
    apart = max(float((a[k].double() - b[k].double()).abs().nan_to_num().max()) for k in a)
    return "the same" if apart == 0 else f"up to {apart:g} apart"


def walking_squares(
    frames: int, side: int, seed: int, file: Path | None = None, clean: float = 0.1
) -> Demonstrations:
    """Squares that walk: clean ones to the lower right corner, noisy ones as they like. One file
    of all frames where there is a name for it, which stays on disk."""
    rng = np.random.default_rng(seed)
    per = STEPS + 1
    episodes = max(4, frames // per)
    shape = (episodes * per, side, side, 3)
    rows: Any = np.empty(shape, np.uint8) if file is None else _mapped(file, shape)
    background = rng.integers(0, 60, (side, side, 3), np.uint8)
    size = max(2, side // 8)
    actions = np.empty((episodes, STEPS), np.int64)
    n_clean = max(3, int(clean * episodes))
    for episode in range(episodes):
        taken = rng.integers(0, ACTIONS, STEPS)
        if episode < n_clean:
            taken = np.where(rng.random(STEPS) < 0.9, rng.choice([1, 3], STEPS), taken)
        at = rng.integers(0, side - size, 2)
        places = np.empty((per, 2), np.int64)
        for t in range(per):
            places[t] = at
            if t < STEPS:
                at = np.clip(at + MOVES[taken[t]], 0, side - size)
        block = np.repeat(background[None], per, 0)
        block[:, 0, :4] = rng.integers(0, 256, (per, 4, 3), np.uint8)  # no two frames are equal
        for t, (y, x) in enumerate(places):
            block[t, y : y + size, x : x + size] = (250, 200, 40)
        rows[episode * per : (episode + 1) * per] = block
        actions[episode] = taken
    if file is not None:
        rows.flush()
        rows = np.lib.format.open_memmap(file, "r")
    every = rows.reshape(episodes, per, *rows.shape[1:])
    known = [digest_of(one) for one in every]  # a folder of demonstrations knows them, too
    return _packed(
        rows,
        actions.ravel(),
        episodes,
        n_clean,
        gym.spaces.Discrete(ACTIONS),
        np.frombuffer(b"".join(known), np.uint8).reshape(episodes, -1),
    )


def _mapped(file: Path, shape: tuple[int, ...]) -> Any:
    return np.lib.format.open_memmap(file, "w+", np.uint8, shape)


def vectors(steps: int, seed: int) -> Demonstrations:
    """Random walks of so many numbers."""
    rng = np.random.default_rng(seed)
    episodes = max(6, steps // STEPS)
    rows = rng.standard_normal((episodes * (STEPS + 1), FEATURES)).astype(np.float32)
    actions = rng.integers(0, ACTIONS, episodes * STEPS)
    known = rows[: len(actions), :ACTIONS].argmax(1)  # so that there is something to learn
    actions = np.where(rng.random(len(actions)) < 0.5, known, actions)
    return _packed(rows, actions, episodes, max(3, episodes // 10), gym.spaces.Discrete(ACTIONS))


def _packed(
    rows: Array,
    actions: Array,
    episodes: int,
    n_clean: int,
    space: gym.Space[Any],
    digests: Array | None = None,
) -> Demonstrations:
    """Demonstrations over these arrays; nothing is copied."""
    every = np.arange(episodes)
    rows.flags.writeable = False
    packed = Trajectories(
        observations=rows,
        actions=actions,
        rewards=np.full(len(actions), np.nan),
        first_row=every * (STEPS + 1),
        first_step=every * STEPS,
        lengths=np.full(episodes, STEPS),
        has_final=np.ones(episodes, bool),
        has_rewards=np.zeros(episodes, bool),
        terminated=np.zeros(episodes, bool),
        ids=tuple(f"episode-{i}" for i in every),
        groups=(None,) * episodes,
        digests=digests,
    )
    seen: Any = gym.spaces.Box(-np.inf, np.inf, rows.shape[1:], np.float32)
    if rows.dtype == np.uint8:
        seen = gym.spaces.Box(0, 255, rows.shape[1:], np.uint8)
    return Demonstrations(packed[:n_clean], packed[n_clean:], Spaces(seen, space))


class _Memory:
    """The most anonymous memory of this process, looked at while it lasts; in GB."""

    most = 0.0

    def __enter__(self) -> _Memory:
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._over.wait(0.05):
            status = Path("/proc/self/status").read_text()
            lines = [line for line in status.splitlines() if line.startswith("RssAnon:")]
            self.most = max([self.most, *(int(line.split()[1]) / 1e6 for line in lines)])


def _wait() -> None:
    if wanted_device().type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    tyro.cli(main)
