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

import os
import platform
import shlex
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdil.algorithms import load_judge
from sdil.algorithms.learner import Learner
from sdil.arguments import FORMAT_VERSION, Arguments, arguments_of, is_finished, read_run
from sdil.checkpoints import Listener, checkpoints, kept_of_each_phase, last_checkpoint
from sdil.cores import computing_on, resolve_device, wanted_threads
from sdil.cores import threads as so_many_threads
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import (
    refuse_existing,
    replaced_name,
    set_aside,
    waiting,
    write_json,
)
from sdil.formats.data import absolute, describe, load_demonstrations, load_truth
from sdil.judges.fitted import EvidenceJudge
from sdil.judging import AnyJudge, FittedJudge
from sdil.labels import Label
from sdil.limits import Count, check_fields, check_value
from sdil.locks import locked, refuse_locked
from sdil.policy import Policy
from sdil.progress import following
from sdil.simulators import trusted_environment
from sdil.spaces import Array
from sdil.states import State
from sdil.training import Epoch, OnEpoch, check_seed

_PACKAGES = ("sdil", "torch", "numpy", "gymnasium", "minigrid", "minari", "scikit-learn")
_JUDGE_FOLDER = "judge"


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
    threads: int | None = None,
    device: str = "cpu",
    tensorboard: bool = False,
    overwrite: bool = False,
    on_epoch: OnEpoch | None = None,
    progress: bool | None = None,
    named: str | None = None,
) -> Finished:
    """Train in a new run folder; after an interruption of any kind, `resume` goes on with it.

    `data` and `valid` are folders of demonstrations, or other people's data with what is chosen of
    it (`robomimic:lift.hdf5?clean=better`); `judge` is a fitted one or its folder, for learners
    that take one. It computes with one CPU thread unless `threads`, or `sdil.threads(n)`, says
    more, on the `device` "cpu", "cuda" or "auto", a GPU where there is one; `progress` shows how
    far it is, where None in a notebook alone. `env` is where a learner practises that can, by
    default where the demonstrations came from; "none" for the records alone.
    `named` is the import path of a learner of your own, such as "my_module:MyLearner".
    """
    if judge is not None and not learner.takes_judge:
        raise InputError(f"{learner.name} has no use for a judge; scored-bc and sdil have")
    if judge is not None and clean_only:
        raise InputError("a judge says nothing where only the clean set is learned from")
    given = judge if judge is None or isinstance(judge, FittedJudge) else load_judge(judge)
    arguments = Arguments(
        makes="policy",
        name=named or learner.name,
        hyperparameters=asdict(learner),  # type: ignore[call-overload]
        data=absolute(data),
        seed=seed,
        valid=None if valid is None else absolute(valid),
        clean_only=clean_only,
        env=env,
        judge=None if given is None else given.name,
        judge_folder=str(Path(judge).absolute()) if isinstance(judge, str | Path) else None,
        threads=wanted_threads() if threads is None else threads,
        tensorboard=tensorboard,
        device=resolve_device(device),
    )
    check_fields(learner, learner.name)
    with following(f"training {learner.name}", on_epoch, progress) as heard:
        return _start(arguments, learner, Path(out), given, overwrite, heard)


def judge(
    judge: AnyJudge,
    data: str | Path,
    out: str | Path,
    *,
    valid: str | Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    device: str = "cpu",
    overwrite: bool = False,
    on_epoch: OnEpoch | None = None,
    progress: bool | None = None,
    named: str | None = None,
) -> Finished:
    """Fit a judge in a new judgement folder; `resume` goes on with it after an interruption.

    `named` is the import path of a judge of your own, such as "my_module:MyJudge".
    """
    fields: Any = getattr(judge, "learner", judge)  # those of the learner that it is inside of
    arguments = Arguments(
        makes="judge",
        name=named or judge.name,
        hyperparameters=asdict(fields),
        data=absolute(data),
        seed=seed,
        valid=None if valid is None else absolute(valid),
        threads=wanted_threads() if threads is None else threads,
        device=resolve_device(device),
    )
    check_fields(fields, judge.name)
    with following(f"judging by {judge.name}", on_epoch, progress) as heard:
        return _start(arguments, judge, Path(out), None, overwrite, heard)


def resume(
    folder: str | Path,
    *,
    env: str | None = None,
    makes: Literal["policy", "judge"] | None = None,
    named: str | None = None,
    on_epoch: OnEpoch | None = None,
    progress: bool | None = None,
) -> Finished:
    """Go on from the last checkpoint of an interrupted run or judgement: bit for bit what it would
    have come to without the interruption.

    `env` is the environment that it practises in, which must be named again where it is not ours;
    `makes` is what it must come to, where only one of the two will do; `named` is the import path
    of a learner or judge of your own, which must be said again too.
    """
    out = Path(folder)
    about = read_run(out)
    arguments = arguments_of(about, out, named)
    if makes not in (None, arguments.makes):
        command = "train" if arguments.makes == "policy" else "judge"
        raise InputError(f"{out}: go on with it by: sdil {command} --resume {out}")
    with locked(out), so_many_threads(arguments.threads), computing_on(arguments.device):
        if is_finished(out):
            raise InputError(f"{out} is finished; there is nothing to resume")
        demos, valid, origin = _load(arguments)
        if demos.fingerprint() != about["fingerprint"]:
            raise InputError(f"{arguments.data} has changed since {out} was started; begin anew")
        if valid is not None and valid.fingerprint() != about["valid_fingerprint"]:
            raise InputError(f"{arguments.valid} has changed since {out} was started; begin anew")
        given = None if arguments.judge is None else load_judge(out / _JUDGE_FOLDER)
        practised = arguments.env or origin["environment"]
        if env not in (None, practised):
            raise InputError(
                f"{out} practises in {practised!r}, not in {env!r}; begin anew for that"
            )
        work = _Work(arguments, arguments.maker(), demos, valid, origin, given, out, env)
        with following(f"going on with {arguments.name}", on_epoch, progress) as heard:
            done = work.do(*last_checkpoint(out), heard)
        shutil.rmtree(replaced_name(out), ignore_errors=True)
    return done


def load_tellable(folder: str | Path) -> EvidenceJudge:
    """The judge of a judgement, of the kind that labels can be told."""
    fitted = load_judge(folder)
    if not isinstance(fitted, EvidenceJudge):
        raise InputError(f"{folder}: {fitted.name} takes no labels; the judge `evidence` does")
    return fitted


def tell(folder: str | Path, labels: Sequence[Label]) -> EvidenceJudge:
    """Tell a judgement what people say of steps, all that counts; the folder keeps what it is then.

    No network is trained again; without labels it is what it was before any.
    """
    folder = Path(folder)
    with locked(folder):
        fitted = load_tellable(folder).tell(labels)
        fitted.save_again(folder)
    return fitted


def _start(
    arguments: Arguments,
    maker: Learner | AnyJudge,
    out: Path,
    given: FittedJudge | None,
    overwrite: bool,
    on_epoch: OnEpoch | None,
) -> Finished:
    check_seed(arguments.seed)
    check_value(arguments.threads, Count, "threads")
    refuse_locked(out)
    _refuse(out, arguments.makes, overwrite=overwrite)
    demos, valid, origin = _load(arguments)
    replaced = replaced_name(out)
    with locked(out), so_many_threads(arguments.threads), computing_on(arguments.device):
        _refuse(out, arguments.makes, overwrite=overwrite)  # somebody may have been quicker
        try:
            if out.exists():
                set_aside(out, is_good=is_finished(out))
            if given is not None:
                given.save(out / _JUDGE_FOLDER)
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
            work = _Work(arguments, maker, demos, valid, origin, given, out, arguments.env)
            done = work.do(None, [], on_epoch)
        except Exception:
            if not checkpoints(out):  # nothing was learned: leave all as it was
                shutil.rmtree(out, ignore_errors=True)
                if replaced.exists():
                    replaced.rename(out)
            raise
        shutil.rmtree(replaced, ignore_errors=True)  # not before: it may be wanted back
    return done


def _refuse(out: Path, makes: str, *, overwrite: bool) -> None:
    """Raise where nothing may be written, and say what may be done instead."""
    interrupted = (out / "run.json").exists() and not is_finished(out)
    if interrupted and not overwrite:
        command = "train" if makes == "policy" else "judge"
        raise InputError(
            f"{out} holds an interrupted run; go on with `sdil {command} --resume "
            f"{shlex.quote(str(out))}`, or pass overwrite=True{waiting(out)}"
        )
    refuse_existing(out, overwrite=overwrite, marker="run.json")


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
    maker: Any
    """The learner or the judge."""
    demos: Demonstrations
    valid: Demonstrations | None
    origin: dict[str, Any]
    """Of the demonstrations."""
    judge: FittedJudge | None
    out: Path
    named: str | None
    """The environment that the user names, now, not a file."""

    def do(
        self, state: State | None, before: list[dict[str, Any]], on_epoch: OnEpoch | None
    ) -> Finished:
        """Train to the end, from a checkpoint's `state` and the epochs `before` it."""
        out, tensorboard = self.out, self.arguments.tensorboard
        listener = Listener(out, before, _good_steps(self), tensorboard=tensorboard)
        began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")

        def hear(epoch: Epoch) -> None:
            listener.hear(epoch)
            if on_epoch is not None:
                on_epoch(epoch)

        maker = self.maker
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
        for file in checkpoints(out):
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
            more["env"] = self._environment()
        return more

    def _environment(self) -> str | None:
        """Where to practise: any environment that the user names, or one of ours."""
        env = self.arguments.env or self.origin["environment"]
        if env == "none":
            return None
        if env == self.named:
            return self.named
        of_data = Path(self.arguments.data) / "sdil.json"
        return trusted_environment(env, self.out / "run.json" if self.arguments.env else of_data)


def _good_steps(work: _Work) -> Array | None:
    """The truth about each noisy training step, where it is known: recorded, used for nothing."""
    truth, demos = load_truth(work.arguments.data), work.demos
    if truth is None or not len(demos.noisy):
        return None
    return np.concatenate(truth.noisy_good)
