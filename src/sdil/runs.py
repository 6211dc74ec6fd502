"""Run folders and judgement folders: train or judge into one, go on after a stop, read them again.

runs/bc/
  run.json             the arguments, the data and its fingerprint, versions
  epochs.json          every loss term of every epoch
  timing.json          when, where and how long: apart, so that equal runs give equal records
  policy.json, policy.safetensors    only once training has finished; judge.* in a judgement
  checkpoint-N.safetensors           the last two; gone once training has finished
  judge/                             a judge that was given, while training lasts
  tensorboard/                       where it was asked for
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from sdil.algorithms import LEARNERS, load_judge, make_judge
from sdil.algorithms.learner import Learner
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.scores import compare_with_truth
from sdil.files import new_file, read_json, refuse_existing, write_json
from sdil.formats.folder import describe, load_demonstrations, load_truth
from sdil.judging import AnyJudge, FittedJudge
from sdil.limits import check_fields
from sdil.policy import Policy
from sdil.spaces import Array
from sdil.training import Epoch, OnEpoch, State, check_seed, hold_out

FORMAT_VERSION = 2
_PACKAGES = ("sdil", "torch", "numpy", "gymnasium", "minigrid", "minari", "scikit-learn")
_JUDGE_FOLDER = "judge"


@dataclass(frozen=True)
class Arguments:
    """What was asked for."""

    makes: Literal["policy", "judge"]
    name: str
    """Of the learner, or of the judge."""
    hyperparameters: dict[str, Any]
    data: str
    """The folder of demonstrations, as an absolute path."""
    seed: int = 0
    valid: str | None = None
    clean_only: bool = False
    env: str | None = None
    judge: str | None = None
    """Of a learner that was given one: its name."""
    threads: int = 1
    tensorboard: bool = False

    def maker(self) -> Learner | AnyJudge:
        """The learner or the judge."""
        if self.makes == "judge":
            return make_judge(self.name, **self.hyperparameters)
        return LEARNERS[self.name](**self.hyperparameters)


@dataclass(frozen=True)
class Finished:
    """A run that has come to its end."""

    folder: Path
    epochs: int
    seconds: float
    """Of this part, where it was resumed."""
    phases: dict[str, dict[str, Any]] = field(repr=False)
    """What was said of the weights that each phase keeps, and how many epochs it took."""
    result: Policy | FittedJudge = field(repr=False)


def train(
    learner: Learner,
    data: str | Path,
    out: str | Path,
    *,
    judge: FittedJudge | str | Path | None = None,
    valid: str | Path | None = None,
    env: str | None = None,
    clean_only: bool = False,
    seed: int = 0,
    threads: int = 1,
    tensorboard: bool = False,
    overwrite: bool = False,
    on_epoch: OnEpoch | None = None,
) -> Finished:
    """Train in a new run folder; after an interruption of any kind, `resume` goes on with it.

    `data` and `valid` are folders of demonstrations, `judge` is a fitted one or its folder, for
    learners that take one. `env` is where a learner practises that can, by default where the
    demonstrations came from; "none" for the records alone.
    """
    if judge is not None and not learner.takes_judge:
        raise InputError(f"{learner.name} has no use for a judge; scored-bc and sdil have")
    if judge is not None and clean_only:
        raise InputError("a judge says nothing where only the clean set is learned from")
    given = judge if judge is None or isinstance(judge, FittedJudge) else load_judge(judge)
    arguments = Arguments(
        makes="policy",
        name=learner.name,
        hyperparameters=asdict(learner),  # type: ignore[call-overload]
        data=str(Path(data).absolute()),
        seed=seed,
        valid=None if valid is None else str(Path(valid).absolute()),
        clean_only=clean_only,
        env=env,
        judge=None if given is None else given.name,
        threads=threads,
        tensorboard=tensorboard,
    )
    check_fields(learner, learner.name)
    return _start(arguments, Path(out), given, overwrite=overwrite, on_epoch=on_epoch)


def judge(
    judge: AnyJudge,
    data: str | Path,
    out: str | Path,
    *,
    valid: str | Path | None = None,
    seed: int = 0,
    threads: int = 1,
    overwrite: bool = False,
    on_epoch: OnEpoch | None = None,
) -> Finished:
    """Fit a judge in a new judgement folder; `resume` goes on with it after an interruption."""
    fields: Any = getattr(judge, "learner", judge)  # those of the learner that it is inside of
    arguments = Arguments(
        makes="judge",
        name=judge.name,
        hyperparameters=asdict(fields),
        data=str(Path(data).absolute()),
        seed=seed,
        valid=None if valid is None else str(Path(valid).absolute()),
        threads=threads,
    )
    check_fields(fields, judge.name)
    return _start(arguments, Path(out), None, overwrite=overwrite, on_epoch=on_epoch)


def resume(folder: str | Path, *, on_epoch: OnEpoch | None = None) -> Finished:
    """Go on from the last checkpoint of an interrupted run or judgement: bit for bit what it would
    have come to without the interruption."""
    out = Path(folder)
    about = read_run(out)
    try:
        names = Arguments.__dataclass_fields__
        arguments = Arguments(**{name: about[name] for name in names})
        arguments.maker()
        kept = about["fingerprint"], about["valid_fingerprint"]
    except (KeyError, TypeError) as error:
        raise InputError(f"{out / 'run.json'}: damaged ({error!r})") from None
    if is_finished(out):
        raise InputError(f"{out} is finished; there is nothing to resume")
    torch.set_num_threads(arguments.threads)
    demos, valid, origin = _load(arguments)
    if demos.fingerprint() != kept[0]:
        raise InputError(f"{arguments.data} has changed since {out} was started; begin anew")
    if valid is not None and valid.fingerprint() != kept[1]:
        raise InputError(f"{arguments.valid} has changed since {out} was started; begin anew")
    given = None if arguments.judge is None else load_judge(out / _JUDGE_FOLDER)
    work = _Work(arguments, demos, valid, origin, given, out)
    saved = sorted(out.glob("checkpoint-*.safetensors"), key=_number)
    if not saved:
        return work.do(None, [], on_epoch)
    try:
        with safe_open(saved[-1], framework="pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            before = json.loads(file.metadata()["epochs"])
    except Exception as error:  # safetensors raises its own kind
        raise InputError(
            f"{saved[-1]}: damaged ({error}); delete it to use the one before"
        ) from None
    return work.do(state, before, on_epoch)


def read_run(folder: Path) -> dict[str, Any]:
    """The contents of `run.json`."""
    if not folder.exists():
        raise InputError(f"{folder} does not exist; `sdil train` makes a run folder")
    about = read_json(folder / "run.json", what="a run folder")
    version = about.get("format") if isinstance(about, dict) else None
    if version != FORMAT_VERSION:
        raise InputError(
            f"{folder / 'run.json'}: format {version!r} is not the one this version reads "
            f"({FORMAT_VERSION}); use the sdil it was made with, or make it again"
        )
    return dict(about)


def read_epochs(folder: Path) -> list[dict[str, Any]]:
    """What was said after each epoch of a finished run."""
    return list(read_json(folder / "epochs.json", what="a finished run"))


def is_finished(folder: Path) -> bool:
    """Whether there is a policy or a judge in it."""
    return any((folder / f"{kind}.json").exists() for kind in ("policy", "judge"))


def kept_of_each_phase(epochs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was said of the weights that each phase keeps, and how many epochs it took."""
    phases: dict[str, list[dict[str, Any]]] = {}
    for epoch in epochs:
        phases.setdefault(epoch["phase"], []).append(epoch)
    return {
        phase: {**([e for e in said if e["kept"]] or said)[-1], "epochs": said[-1]["epoch"]}
        for phase, said in phases.items()
    }


def _start(
    arguments: Arguments,
    out: Path,
    given: FittedJudge | None,
    *,
    overwrite: bool,
    on_epoch: OnEpoch | None,
) -> Finished:
    check_seed(arguments.seed)
    if arguments.threads < 1:
        raise InputError(f"threads must be at least 1, not {arguments.threads}")
    interrupted = (out / "run.json").exists() and not is_finished(out)
    if interrupted and not overwrite:
        command = "train" if arguments.makes == "policy" else "judge"
        raise InputError(
            f"{out} holds an interrupted run; go on with `sdil {command} --resume {out}`, "
            "or pass --overwrite"
        )
    refuse_existing(out, overwrite=overwrite, marker="run.json")
    torch.set_num_threads(arguments.threads)
    demos, valid, origin = _load(arguments)
    replaced = out.with_name(f".{out.name}.replaced")
    if out.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        out.rename(replaced)
    write_json(
        out / "run.json",
        {
            "format": FORMAT_VERSION,
            **asdict(arguments),
            "task": origin["task"],
            "environment": origin["environment"],
            "fingerprint": demos.fingerprint(),
            "valid_fingerprint": None if valid is None else valid.fingerprint(),
            "versions": {name: version(name) for name in _PACKAGES},
        },
    )
    try:
        if given is not None:
            given.save(out / _JUDGE_FOLDER)
        return _Work(arguments, demos, valid, origin, given, out).do(None, [], on_epoch)
    except Exception:
        if not list(out.glob("checkpoint-*")):  # nothing was learned: leave all as it was
            shutil.rmtree(out)
            if replaced.exists():
                replaced.rename(out)
        raise
    finally:
        shutil.rmtree(replaced, ignore_errors=True)


def _load(
    arguments: Arguments,
) -> tuple[Demonstrations, Demonstrations | None, dict[str, Any]]:
    demos = load_demonstrations(arguments.data)
    valid = None if arguments.valid is None else load_demonstrations(arguments.valid)
    return demos.clean_only() if arguments.clean_only else demos, valid, describe(arguments.data)


@dataclass(frozen=True)
class _Work:
    """All that goes into a run folder."""

    arguments: Arguments
    demos: Demonstrations
    valid: Demonstrations | None
    origin: dict[str, Any]
    """Of the demonstrations."""
    judge: FittedJudge | None
    out: Path

    def do(
        self, state: State | None, before: list[dict[str, Any]], on_epoch: OnEpoch | None
    ) -> Finished:
        """Train to the end, from a checkpoint's `state` and the epochs `before` it."""
        out, listener = self.out, _Listener(self, before)
        began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")

        def hear(epoch: Epoch) -> None:
            listener.hear(epoch)
            if on_epoch is not None:
                on_epoch(epoch)

        maker: Any = self.arguments.maker()
        result: Policy | FittedJudge = maker.fit(
            self.demos,
            valid=self.valid,
            seed=self.arguments.seed,
            on_epoch=hear,
            resume=state,
            **(self._more_inputs(maker) if self.arguments.makes == "policy" else {}),
        )
        seconds = time.perf_counter() - began
        listener.close()
        write_json(out / "epochs.json", listener.epochs)
        machine = {"platform": platform.platform(), "cpus": os.cpu_count()}
        write_json(out / "timing.json", {"started": started, "seconds": seconds, **machine})
        result.save(out)
        for file in out.glob("checkpoint-*.safetensors"):
            file.unlink()
        shutil.rmtree(out / _JUDGE_FOLDER, ignore_errors=True)  # the policy has it
        phases = kept_of_each_phase(listener.epochs)
        return Finished(out, len(listener.epochs), seconds, phases, result)

    def _more_inputs(self, learner: Learner) -> dict[str, Any]:
        """What some learners take beside demonstrations: a judge, the truth, an environment."""
        more: dict[str, Any] = {}
        if self.judge is not None:
            more["judge"] = self.judge
        if learner.takes_truth and len(self.demos.noisy):
            truth = load_truth(self.arguments.data)
            if truth is None:
                raise InputError(
                    f"{self.arguments.data} has no truth.npz; {learner.name} needs to be told the "
                    "truth"
                )
            more["truth"] = truth.noisy_good
        if learner.environment != "never":
            env = self.arguments.env or self.origin["environment"]
            more["env"] = None if env == "none" else env
        return more


class _Listener:
    """Hears each epoch: keeps its figures, writes a checkpoint, compares scores with the truth.

    The truth is recorded beside the losses and used for nothing.
    """

    def __init__(self, work: _Work, before: list[dict[str, Any]]) -> None:
        self.epochs = list(before)
        self._out = work.out
        truth, demos = load_truth(work.arguments.data), work.demos
        self._good: Array | None = None
        if truth is not None and len(demos.noisy):
            with warnings.catch_warnings():  # the learner itself will say what there is to say
                warnings.simplefilter("ignore")
                train, _ = hold_out(demos, work.valid, seed=work.arguments.seed)
            known = dict(zip(demos.noisy.ids, truth.noisy_good, strict=True))
            parts = [known[name] for name in train.noisy.ids]
            self._good = np.concatenate(parts) if parts else None
        self._board = _tensorboard(work.out) if work.arguments.tensorboard else None

    def hear(self, epoch: Epoch) -> None:
        entry = {
            "phase": epoch.phase,
            "epoch": epoch.index,
            "kept": epoch.kept,
            **epoch.losses,
            **epoch.figures,
        }
        if self._good is not None and epoch.scores is not None:
            entry["score_auroc"], entry["score_average_precision"] = compare_with_truth(
                epoch.scores.numpy(), self._good
            )
        if epoch.bad is not None:
            entry["bad_steps"] = len(epoch.bad)
            if self._good is not None and len(epoch.bad):
                entry["bad_steps_precision"] = float(1 - self._good[epoch.bad].mean())
        self.epochs.append(entry)
        if self._board is not None:
            for name, value in entry.items():
                if name not in ("phase", "epoch", "kept") and isinstance(value, int | float):
                    self._board.add_scalar(f"{epoch.phase}/{name}", value, epoch.index)
        _save_checkpoint(self._out, len(self.epochs), epoch.state, self.epochs)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()


def _tensorboard(out: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("--tensorboard needs: pip install 'sdil[tensorboard]'") from None
    return SummaryWriter(str(out / "tensorboard"))


def _save_checkpoint(
    out: Path, number: int, state: Callable[[], State], epochs: list[dict[str, Any]]
) -> None:
    with new_file(out / f"checkpoint-{number}.safetensors") as temporary:
        save_file(state(), temporary, metadata={"epochs": json.dumps(epochs)})
    for file in sorted(out.glob("checkpoint-*.safetensors"), key=_number)[:-2]:
        file.unlink()


def _number(path: Path) -> int:
    return int(path.stem.partition("-")[2])
