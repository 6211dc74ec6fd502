"""A run folder: what was asked for, checkpoints while it trains, and the policy at the end.

runs/bc/
  run.json             learner, seed, data and its fingerprint, versions, command
  epochs.json          every loss term of every epoch
  timing.json          when, where and how long: apart, so that equal runs give equal records
  policy.json, policy.safetensors    only once training has finished
  checkpoint-N.safetensors           the last two; gone once training has finished
  tensorboard/                       with --tensorboard only
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
import warnings
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from sdil.algorithms import LEARNERS
from sdil.algorithms.learner import Epoch, Learner, State, check_fields, hold_out
from sdil.cli.console import progress
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.scores import compare_with_truth
from sdil.files import new_file, read_json, refuse_existing, write_json
from sdil.formats.folder import describe, load_demonstrations, load_truth
from sdil.spaces import Array

FORMAT_VERSION = 1
_PACKAGES = ("sdil", "torch", "numpy", "gymnasium", "minigrid", "minari", "scikit-learn")


@dataclass(frozen=True)
class RunInputs:
    """What a run was asked to do."""

    learner: str
    hyperparameters: dict[str, Any]
    seed: int
    data: str
    valid: str | None
    clean_only: bool
    command: list[str]
    threads: int = 1
    tensorboard: bool = False
    env: str | None = None


def start_run(inputs: RunInputs, out: Path, *, overwrite: bool) -> dict[str, Any]:
    """Train in a new folder."""
    interrupted = (out / "run.json").exists() and not (out / "policy.json").exists()
    if interrupted and not overwrite:
        raise InputError(
            f"{out} holds an interrupted run; go on with `sdil train --resume {out}`, "
            "or pass --overwrite"
        )
    refuse_existing(out, overwrite=overwrite, marker="run.json")
    check_fields(LEARNERS[inputs.learner](**inputs.hyperparameters))
    demos, valid, about = _load(inputs)
    replaced = out.with_name(f".{out.name}.replaced")
    if out.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        out.rename(replaced)
    write_json(
        out / "run.json",
        {
            "format": FORMAT_VERSION,
            **asdict(inputs),
            "task": about["task"],
            "environment": about["environment"],
            "fingerprint": demos.fingerprint(),
            "valid_fingerprint": None if valid is None else valid.fingerprint(),
            "versions": {name: version(name) for name in _PACKAGES},
        },
    )
    try:
        return _train(inputs, demos, valid, about, out, resume=None, before=[])
    except Exception:
        if not list(out.glob("checkpoint-*")):  # nothing was learned: leave all as it was
            shutil.rmtree(out)
            if replaced.exists():
                replaced.rename(out)
        raise
    finally:
        shutil.rmtree(replaced, ignore_errors=True)


def continue_run(out: Path) -> dict[str, Any]:
    """Go on from the last checkpoint of an interrupted run."""
    about = read_run(out)
    try:
        inputs = RunInputs(**{name: about[name] for name in RunInputs.__dataclass_fields__})
        LEARNERS[inputs.learner](**inputs.hyperparameters)
    except (KeyError, TypeError) as error:
        raise InputError(f"{out / 'run.json'}: damaged ({error!r})") from None
    if (out / "policy.json").exists():
        raise InputError(f"{out} is finished; there is nothing to resume")
    torch.set_num_threads(inputs.threads)
    demos, valid, origin = _load(inputs)
    if demos.fingerprint() != about["fingerprint"]:
        raise InputError(f"{inputs.data} has changed since {out} was started; train anew")
    if valid is not None and valid.fingerprint() != about["valid_fingerprint"]:
        raise InputError(f"{inputs.valid} has changed since {out} was started; train anew")
    saved = sorted(out.glob("checkpoint-*.safetensors"), key=_number)
    if not saved:
        return _train(inputs, demos, valid, origin, out, resume=None, before=[])
    try:
        with safe_open(saved[-1], framework="pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            before = json.loads(file.metadata()["epochs"])
    except Exception as error:  # safetensors raises its own kind
        raise InputError(
            f"{saved[-1]}: damaged ({error}); delete it to use the one before"
        ) from None
    return _train(inputs, demos, valid, origin, out, resume=state, before=before)


def read_run(folder: Path) -> dict[str, Any]:
    """The contents of `run.json`."""
    if not folder.exists():
        raise InputError(f"{folder} does not exist; `sdil train` makes a run folder")
    about = read_json(folder / "run.json", what="a run folder")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(f"{folder / 'run.json'}: format {version!r} is not known")
    return dict(about)


def _load(inputs: RunInputs) -> tuple[Demonstrations, Demonstrations | None, dict[str, Any]]:
    demos = load_demonstrations(inputs.data)
    valid = None if inputs.valid is None else load_demonstrations(inputs.valid)
    return demos.clean_only() if inputs.clean_only else demos, valid, describe(inputs.data)


def _train(
    inputs: RunInputs,
    demos: Demonstrations,
    valid: Demonstrations | None,
    origin: dict[str, Any],
    out: Path,
    *,
    resume: State | None,
    before: list[dict[str, Any]],
) -> dict[str, Any]:
    learner = LEARNERS[inputs.learner](**inputs.hyperparameters)
    more = _more_inputs(learner, inputs, demos, origin)
    listener = _Listener(inputs, demos, valid, out, before)
    began = time.perf_counter()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with progress(f"training {inputs.learner}") as update:

        def on_epoch(epoch: Epoch) -> None:
            listener.hear(epoch)
            update(epoch.index, epoch.total, f"{inputs.learner}: {epoch.phase}")

        try:
            policy = learner.fit(
                demos, valid=valid, seed=inputs.seed, on_epoch=on_epoch, resume=resume, **more
            )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"interrupted after epoch {len(listener.epochs)}; nothing is lost. "
                f"Go on with: sdil train --resume {out}"
            ) from None
    seconds = time.perf_counter() - began
    listener.close()
    write_json(out / "epochs.json", listener.epochs)
    machine = {"platform": platform.platform(), "cpus": os.cpu_count()}
    write_json(out / "timing.json", {"started": started, "seconds": seconds, **machine})
    policy.save(out)
    for file in out.glob("checkpoint-*.safetensors"):
        file.unlink()
    return {
        "epochs": len(listener.epochs),
        "seconds": seconds,
        "phases": kept_of_each_phase(listener.epochs),
    }


def _more_inputs(
    learner: Learner, inputs: RunInputs, demos: Demonstrations, origin: dict[str, Any]
) -> dict[str, Any]:
    """What some learners take beside demonstrations: an environment, or the truth."""
    if learner.name == "oracle" and len(demos.noisy):
        truth = load_truth(inputs.data)
        if truth is None:
            raise InputError(
                f"{inputs.data} has no truth.npz; the oracle needs to be told the truth"
            )
        return {"truth": truth.noisy_good}
    if learner.environment == "never":
        return {}
    env = inputs.env or origin["environment"]
    return {"env": None if env == "none" else env}


def kept_of_each_phase(epochs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was said of the weights that each phase keeps, and how many epochs it took."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for epoch in epochs:
        phases.setdefault(epoch["phase"], []).append(epoch)
    return {
        phase: {**([e for e in said if e["kept"]] or said)[-1], "epochs": said[-1]["epoch"]}
        for phase, said in phases.items()
    }


class _Listener:
    """Hears each epoch: keeps its figures, writes a checkpoint, compares scores with the truth.

    The truth is recorded beside the losses and used for nothing.
    """

    def __init__(
        self,
        inputs: RunInputs,
        demos: Demonstrations,
        valid: Demonstrations | None,
        out: Path,
        before: list[dict[str, Any]],
    ) -> None:
        self.epochs = list(before)
        self._out = out
        truth = load_truth(inputs.data)
        self._good: Array | None = None
        if truth is not None and len(demos.noisy):
            with warnings.catch_warnings():  # the learner itself will say what there is to say
                warnings.simplefilter("ignore")
                train, _ = hold_out(demos, valid, seed=inputs.seed)
            known = dict(zip(demos.noisy.ids, truth.noisy_good, strict=True))
            parts = [known[name] for name in train.noisy.ids]
            self._good = np.concatenate(parts) if parts else None
        self._board = _tensorboard(out) if inputs.tensorboard else None

    def hear(self, epoch: Epoch) -> None:
        state = epoch.state()
        entry = {
            "phase": epoch.phase,
            "epoch": epoch.index,
            "kept": epoch.kept,
            **epoch.losses,
            **epoch.figures,
        }
        scores = state.get("own.scores")
        if self._good is not None and scores is not None:
            noisy = scores[len(scores) - len(self._good) :].numpy()
            entry["score_auroc"], entry["score_average_precision"] = compare_with_truth(
                noisy, self._good
            )
        bad = state.get("bad_steps")
        if bad is not None:
            entry["bad_steps"] = len(bad)
            if self._good is not None and len(bad):
                first_noisy = len(state["result.scores"]) - len(self._good)
                entry["bad_steps_precision"] = float(1 - self._good[bad - first_noisy].mean())
        self.epochs.append(entry)
        if self._board is not None:
            for name, value in entry.items():
                if name not in ("phase", "epoch", "kept") and isinstance(value, int | float):
                    self._board.add_scalar(f"{epoch.phase}/{name}", value, epoch.index)
        _save_checkpoint(self._out, len(self.epochs), state, self.epochs)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def _tensorboard(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs: pip install 'sdil[tensorboard]'") from None
    return SummaryWriter(str(out / "tensorboard"))


def _save_checkpoint(out: Path, number: int, state: State, epochs: list[dict[str, Any]]) -> None:
    with new_file(out / f"checkpoint-{number}.safetensors") as temporary:
        save_file(state, temporary, metadata={"epochs": json.dumps(epochs)})
    for file in sorted(out.glob("checkpoint-*.safetensors"), key=_number)[:-2]:
        file.unlink()


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])
