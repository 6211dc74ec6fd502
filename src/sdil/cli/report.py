"""`sdil report`: what a run has learned and what it says of its data, as a page and as figures."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from sdil.cli.console import (
    check_seed,
    parse,
    plain,
    print_json,
    print_wrapped,
    progress,
    set_threads,
)
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.explanation.record import Explanation
from sdil.files import new_file, read_json, refuse_existing
from sdil.formats.data import (
    describe,
    load_demonstrations,
    load_truth,
    name_of,
    origin_of,
    with_choices,
)
from sdil.formats.origin import Origin
from sdil.report.curves import curves_of
from sdil.studies.reading import read_published, read_study

if TYPE_CHECKING:
    from sdil.judging import FittedJudge
    from sdil.policy import Policy

_EPISODES = 1_000


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(report, arguments, "report")


def report(
    run: tyro.conf.Positional[Path],
    data: Annotated[str | None, tyro.conf.arg(metavar="PATH")] = None,
    clean: str | None = None,
    out: Path | None = None,
    record: Path | None = None,
    figures: Path | None = None,
    format: Literal["png", "svg", "pdf"] = "png",
    compare: tuple[Path, ...] = (),
    also: tuple[Path, ...] = (),
    studies: Path | None = None,
    show: tuple[str, ...] = (),
    place: tuple[str, str] | None = None,
    pictures: int = 100,
    env: str | None = None,
    no_rollouts: bool = False,
    did_it_help: bool = False,
    curated: Path | None = None,
    seed: int = 0,
    threads: int = 1,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Explain a run or a judgement: which steps are good or bad, and what skills there are.

    Args:
        run: A judgement of `sdil judge`, a run of `sdil train` whose learner judges steps, or what
            `policy.save` or `judge.save` wrote.
        data: Folder of demonstrations to look at, or other people's data; by default what the run
            was trained on.
        clean: Of data in another format: which episodes are trusted, as `sdil import` takes it.
        out: The HTML page to write.
        record: Also keep everything the page shows in this folder, for programs.
        figures: Also write each figure as a file into this folder (needs sdil[figures]).
        format: Of the figures.
        compare: Runs whose embeddings are shown beside this one's, such as one with --mi-weight 0.
        also: Runs that differ in the seed: are their skills the same?
        studies: Curves to show: a folder of studies, one study of it, or what `sdil study
            publish` wrote.
        show: Features of an observation to show in timelines, by name or number; by default the
            first that vary.
        place: Two features that are a place, for a plot of where each demonstration went.
        pictures: Of so many demonstrations, the worst and the best, show what cameras saw, where
            there are cameras; videos of imported data are decoded for these alone.
        env: A task's name or a Gymnasium id; by default where the demonstrations came from. none:
            the records alone.
        no_rollouts: Leave out the 1,000 episodes that measure the policy.
        did_it_help: End with whether dropping what scores below 0 helps: behaviour cloning with
            and without it, which takes seconds to minutes.
        curated: End with what `sdil curate` found of that, in the folder that it wrote.
        seed: Everything random follows from it.
        threads: CPU threads.
        overwrite: Replace what exists.
        as_json: Print the summary as JSON.
    """
    from sdil.algorithms import load_judging, load_policy  # PyTorch: --help need not wait for it
    from sdil.arguments import read_run
    from sdil.cli.health import health_for
    from sdil.cli.helped import helped_of
    from sdil.explanation.explain import explain
    from sdil.explanation.seen import names_of
    from sdil.formats.filmed import cameras_for
    from sdil.policy import Policy

    check_seed(seed)
    set_threads(threads)
    if pictures < 0:
        raise InputError(f"--pictures must be at least 0, not {pictures}")
    _refuse(out, record, figures, overwrite=overwrite)
    about = read_run(run) if (run / "run.json").exists() else None
    judge = load_judging(run)
    if data is None:
        if about is None:
            raise InputError(f"{run} does not say what it was made from; pass --data FOLDER")
        data = str(about["data"])
    data = with_choices(data, clean=clean)
    demos, truth = load_demonstrations(data), load_truth(data)
    where = None if env == "none" else env or _environment(run, about, data)
    if len({each.resolve() for each in (run, *also)}) <= len(also):
        raise InputError("--also takes other runs than the one to report on, each once")
    others = [load_policy(each) for each in compare]
    seeds = {str(each): load_policy(each) for each in also}
    curves = {} if studies is None else _curves(studies)
    origin = origin_of(data)
    filmed, missing = cameras_for(origin, demos) if pictures else (None, None)
    with progress("judging steps") as update:
        evaluation = None
        explanation = explain(
            judge,
            demos,
            about=_about(run, about, judge, data, demos, where),
            environment=where,
            truth=truth,
            compare=others,
            also=seeds,
            studies=curves,
            names=names_of(describe(data), demos.spaces),
            show=show,
            place=place or (),
            filmed=filmed,
            pictures=pictures,
            seed=seed,
            on_progress=update,
        )
        if not no_rollouts and where is not None and isinstance(judge, Policy):
            update(0, _EPISODES, "running episodes")
            evaluation = _evaluate(judge, where, seed, update)
        explanation.about["evaluation"] = evaluation
        if missing is not None:
            explanation.about["pictures"] = [missing]
        explanation.about["frames"] = None if origin is None else _frames(origin, demos)
        explanation.about["helped"] = helped_of(
            run, data, judge, demos, curated, seed, update if did_it_help else None
        )
        explanation.about["health"] = health_for(run, judge, demos).as_json()
        written = _write(explanation, out, record, figures, format, overwrite, update)
    _tell(explanation, written, as_json)


def _refuse(
    out: Path | None, record: Path | None, figures: Path | None, *, overwrite: bool
) -> None:
    """Nothing is computed where it could not be written afterwards."""
    if out is None and record is None and figures is None:
        raise InputError("say what to write: --out report.html, --record DIR or --figures DIR")
    if out is not None and (out.is_dir() or (out.exists() and not overwrite)):
        raise InputError(f"{out} exists already; choose another name or pass --overwrite")
    if record is not None:
        refuse_existing(record, overwrite=overwrite, marker="record.json")
    if figures is not None:
        if find_spec("matplotlib") is None:
            raise InputError("--figures needs Matplotlib: pip install 'sdil[figures]'")
        if figures.exists() and not figures.is_dir():
            raise InputError(f"{figures} is a file; --figures takes a folder")
        if figures.exists() and any(figures.iterdir()) and not overwrite:
            raise InputError(f"{figures} is not empty; choose another name or pass --overwrite")


def _environment(run: Path, about: dict[str, Any] | None, data: str) -> str | None:
    """Where the demonstrations came from, as the run or their own folder says."""
    from sdil.simulators import trusted_environment

    if about is not None and about.get("environment") is not None:
        return trusted_environment(about["environment"], run / "run.json")
    return trusted_environment(describe(data).get("environment"), Path(data) / "sdil.json")


def _frames(origin: Origin, demos: Demonstrations) -> dict[str, Any]:
    """How the source numbers the steps of each episode, where that is not 0, 1, 2, ..."""
    sets = {"clean": demos.clean, "noisy": demos.noisy}
    return {
        f"{name}/{episode}": origin.frames[episode].to_json()
        for name, trajectories in sets.items()
        for episode in trajectories.ids
        if episode in origin.frames
    }


def _about(
    run: Path,
    about: dict[str, Any] | None,
    judge: Policy | FittedJudge,
    data: str,
    demos: Demonstrations,
    environment: str | None,
) -> dict[str, Any]:
    """Where all of it comes from; `about` is the run's, None where it was saved by hand."""
    from sdil.acting import describe_acting
    from sdil.algorithms import JUDGES, LEARNERS
    from sdil.checkpoints import kept_of_each_phase, read_epochs
    from sdil.cli.answers import answers_of
    from sdil.judging import FittedJudge
    from sdil.policy import Policy

    policy = judge if isinstance(judge, Policy) else None
    by = judge if isinstance(judge, FittedJudge) else judge.judge
    assert by is not None
    name = by.name if policy is None else policy.learner
    known = {**LEARNERS, **({} if policy is not None else JUDGES)}
    task = describe(data)["task"]
    fingerprint = demos.fingerprint()
    warnings = []
    if about is not None:
        trained_on = demos.clean_only().fingerprint() if about["clean_only"] else fingerprint
        if trained_on != about["fingerprint"]:
            warnings.append("these are not the demonstrations that the run was trained on")
    return {
        "title": f"{name} on {task or name_of(data)}",
        "run": str(run),
        "learner": name,
        "reference": known[name].reference if name in known else "",
        "hyperparameters": judge.hyperparameters,
        "judge": by.name,
        **answers_of(by),
        "acting": None if policy is None else describe_acting(policy),
        "seed": by.seed if about is None else about["seed"],
        "task": task,
        "environment": environment,
        "data": str(data),
        "fingerprint": fingerprint,
        "versions": {"sdil": version("sdil")} if about is None else about["versions"],
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluation": None,
        "phases": {} if about is None else kept_of_each_phase(read_epochs(run)),
        "warnings": warnings,
        "command": "" if about is None else command_of(about, run),
    }


def command_of(about: dict[str, Any], run: Path) -> str:
    """The command that makes such a run, from the arguments that it was given."""
    from sdil.algorithms import JUDGES, LEARNERS

    makes_policy = about["makes"] == "policy"
    fields: Any = {**LEARNERS, **({} if makes_policy else JUDGES)}.get(about["name"])
    usual = {} if fields is None else asdict(fields())  # one of the user's own: all are spelled out
    words = ["sdil", "train" if makes_policy else "judge", about["name"]]
    words += ["--data", about["data"], "--out", str(run), "--seed", str(about["seed"])]
    for option in ("valid", "env"):
        if about[option] is not None:
            words += [f"--{option}", about[option]]
    if about["judge"] is not None:
        words += ["--judge", about["judge_folder"] or f"FOLDER OF {about['judge']}"]
    if about["threads"] != 1:
        words += ["--threads", str(about["threads"])]
    words += ["--tensorboard"] if about["tensorboard"] else []
    words += ["--clean-only"] if about["clean_only"] else []
    for name, value in about["hyperparameters"].items():
        option = name.replace("_", "-")
        if value == usual.get(name):
            continue
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        else:
            words += [f"--{option}", str(value)]
    return shlex.join(words)


def _evaluate(policy: Policy, environment: str, seed: int, update: Any) -> dict[str, Any]:
    from sdil.evaluation.rollout import evaluate

    ran = evaluate(
        policy,
        environment,
        episodes=_EPISODES,
        seed=seed,
        on_progress=lambda done, total: update(done, total, "running episodes"),
    )
    return {
        "reward_mean": ran.reward_mean,
        "reward_sem": ran.reward_sem,
        "success_rate": ran.success_rate,
        "success_interval": None if ran.success_interval is None else list(ran.success_interval),
        "n_episodes": ran.n_episodes,
    }


def _curves(place: Path) -> dict[str, Any]:
    """The curves of all studies there, finished or not, published or not; and curves as such."""
    if not place.exists():
        raise InputError(f"{place} does not exist; --studies takes a folder of studies")
    files = [place]
    if place.is_dir():
        among = ("*.json", "*/study.json", "records/*.json")
        files = sorted({path for pattern in among for path in place.glob(pattern)})
    curves: dict[str, Any] = {}
    for path in files:
        if path.name == "study.json":
            curves |= curves_of(read_study(path.parent))
            continue
        found = read_json(path, what="a folder of studies")
        names = set(found) if isinstance(found, dict) else set()
        if {"study", "cells"} <= names:
            curves |= curves_of(read_published(path))
        elif {"x", "series"} <= names:
            _check_curve(path, found)
            curves[path.stem] = found
    if not curves:
        raise InputError(
            f"{place} holds no curves: no study that varies something and is at least begun"
        )
    return curves


def _check_curve(path: Path, curve: dict[str, Any]) -> None:
    n = len(curve["x"])
    for name, series in curve["series"].items():
        for key in ("mean", "low", "high"):
            if len(series.get(key, ())) != n:
                raise InputError(f"{path}: {key!r} of {name!r} has not one value for each x")


def _write(
    explanation: Explanation,
    out: Path | None,
    record: Path | None,
    figures: Path | None,
    format: str,
    overwrite: bool,
    update: Any,
) -> list[str]:
    written = []
    if record is not None:
        explanation.save(record, overwrite=overwrite)
        written.append(str(record))
    if figures is not None:
        from sdil.report.figures import save_all

        written += [str(p) for p in save_all(explanation, figures, format, on_progress=update)]
    if out is not None:
        from sdil.report.page import render

        update(0, 1, "writing the page")
        with new_file(out) as temporary:
            temporary.write_text(render(explanation), "utf-8")
        written.append(str(out))
    return written


def _tell(explanation: Explanation, written: Sequence[str], as_json: bool) -> None:
    about = explanation.about
    if as_json:
        names = ("run", "data", "n_clean", "n_noisy", "evaluation", "truth", "warnings")
        print_json({**{name: about[name] for name in names}, "written": written})
        return
    for warning in (*about["warnings"], *about.get("pictures", ())):
        print_wrapped(f"note: {warning}")
    for path in written:
        print(plain(f"written: {path}"))
