"""A search for hyper-parameters by Optuna: clean validation decides, never reward or test data.

Each trial is a few cells, one per seed, measured where any study's are; its value is the mean
negative log-likelihood of clean validation actions. Trials are kept in SQLite, cells as records, so
a search that stops goes on where it stopped. The first trial is the learner as it is.

A space is a TOML file with a line per field:

    hidden = [32, 64, 128]                          # one of these
    mi_weight = { low = 0.1, high = 3, log = true } # a number in between
    n_skills = { low = 2, high = 16 }               # a whole one, as the field is
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.limits import check_value
from sdil.studies.cell import Cell, sorted_fields
from sdil.studies.grid import Entry, Progress, Study, run_study
from sdil.studies.runners import Run
from sdil.studies.source import Sources, Written

USUAL_SPACE: dict[str, Any] = {
    "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "weight_decay": {"low": 1e-6, "high": 1e-2, "log": True},
    "hidden": [32, 64, 128],
    "layers": [1, 2, 3],
}
"""Fields that every learner has."""


@dataclass(frozen=True)
class Trial:
    """One setting of the fields and what it came to."""

    number: int
    fields: dict[str, Any]
    valid_nll: float | None
    """Mean over seeds; None where a cell failed."""


def read_space(file: Path) -> dict[str, Any]:
    """The space that a TOML file describes."""
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:  # of a huge number or depth, too
        raise InputError(f"{file}: cannot be read as TOML ({error})") from None


def tune(
    cell: Cell,
    space: Mapping[str, Any],
    *,
    where: str,
    trials: int,
    seeds: tuple[int, ...],
    root: Path,
    run: Run,
    abreast: int,
    on_progress: Callable[[Progress], None] | None = None,
) -> list[Trial]:
    """Search until there are so many trials; all of them, best first.

    `cell` says task, sizes and learner; `where` the space was written, for complaints; `abreast`
    how many cells run at once.
    """
    try:
        import optuna
    except ImportError:
        raise InputError("sdil study tune needs Optuna: pip install 'sdil[tune]'") from None
    sources = Sources()
    cell.inputs(sources)  # what cannot be measured is refused before anything is written
    written = sources.learner(cell.learner)
    usual = written.fields
    choices = {
        name: _distribution(optuna, name, asked, written, where) for name, asked in space.items()
    }
    if not choices:
        raise InputError(f"{where}: names no field to search over")
    name = f"tune-{cell.learner}-{cell.task}"
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    search = optuna.create_study(
        storage=f"sqlite:///{folder / 'trials.db'}",
        study_name=_title(cell, space, seeds),
        load_if_exists=True,
        direction="minimize",
    )
    # another seed than that of the trials before, or it would draw the same ones again
    search.sampler = optuna.samplers.TPESampler(seed=len(search.trials))
    for left in search.get_trials(deepcopy=False, states=(optuna.trial.TrialState.RUNNING,)):
        search.tell(left.number, state=optuna.trial.TrialState.FAIL)  # it was interrupted:
        search.enqueue_trial(left.params)  # again; what its cells found is kept
    if not search.trials and all(_holds(choices[n], usual[n]) for n in choices):
        search.enqueue_trial({n: usual[n] for n in choices})
    done = optuna.trial.TrialState.COMPLETE
    batch = max(1, abreast // len(seeds))
    while (count := len(search.get_trials(deepcopy=False, states=(done,)))) < trials:
        asked = [search.ask(choices) for _ in range(min(batch, trials - count))]
        fields = {t.number: t.params for t in search.get_trials(deepcopy=False, states=(done,))}
        fields |= {t.number: t.params for t in asked}
        study = _study(name, cell, fields, seeds)
        results = run_study(study, root, run, on_progress=on_progress)
        failed = 0
        for trial in asked:
            values = results.values(f"trial {trial.number}", cell.task, "valid_nll")
            if len(values) == len(seeds):
                search.tell(trial, float(np.mean(list(values.values()))))
            else:
                search.tell(trial, state=optuna.trial.TrialState.FAIL)
                failed += 1
        if failed == len(asked):
            raise InputError(
                f"every cell of a trial failed; sdil study show {folder} --failures says why"
            )
    found = [Trial(t.number, dict(t.params), t.value) for t in search.trials if t.value is not None]
    return sorted(found, key=lambda trial: trial.valid_nll or 0.0)


def _title(cell: Cell, space: Mapping[str, Any], seeds: tuple[int, ...]) -> str:
    """What a search must have in common with one that it goes on from."""
    return repr((str(replace(cell, seed=0)), sorted(space.items(), key=str), seeds))


def _study(
    name: str, cell: Cell, trials: Mapping[int, Mapping[str, Any]], seeds: tuple[int, ...]
) -> Study:
    entries = [
        Entry(
            f"trial {number}",
            replace(
                cell,
                seed=seed,
                measured="validation",
                fields=sorted_fields(dict(cell.fields) | dict(fields)),
            ),
        )
        for number, fields in trials.items()
        for seed in seeds
    ]
    title = f"Search over the fields of {cell.learner} on {cell.task}"
    return Study(name, title, tuple(entries), measures={cell.task: "valid_nll"}, champion="")


def _distribution(optuna: Any, name: str, asked: Any, written: Written, where: str) -> Any:
    usual = written.fields
    if name not in usual:
        raise InputError(f"{where}: {name}: no such field; there are {', '.join(usual)}")
    if isinstance(asked, list) and asked:
        for value in asked:
            check_value(value, written.hints[name], f"{where}: {name}")
        return optuna.distributions.CategoricalDistribution(asked)
    if isinstance(asked, dict) and {"low", "high"} <= set(asked) <= {"low", "high", "log"}:
        for end in ("low", "high"):
            check_value(asked[end], written.hints[name], f"{where}: {name}: {end}")
        whole = isinstance(usual[name], int)
        kind = "IntDistribution" if whole else "FloatDistribution"
        try:
            return getattr(optuna.distributions, kind)(**asked)
        except (ValueError, TypeError) as error:
            raise InputError(f"{where}: {name}: {error}") from None
    raise InputError(f"{where}: {name}: a list, or {{ low = ..., high = ... }}, is needed")


def _holds(distribution: Any, value: Any) -> bool:
    if hasattr(distribution, "choices"):
        return value in distribution.choices
    return bool(distribution.low <= value <= distribution.high)
