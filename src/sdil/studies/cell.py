"""A cell: one learner on one seed's demonstrations of one task, and its address.

The address is a hash of everything that decides what is measured: the demonstrations asked for,
every field of the learner, the seed, and the source of the modules that take part. Equal addresses
mean equal records; a change in any of them gives another address.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from sdil.errors import InputError
from sdil.limits import Between, Count, CountOrNone, Share, check_value
from sdil.moved import refuse_moved
from sdil.named import is_import_path
from sdil.studies.source import Sources, Written
from sdil.tasks import TASK_MODULES, TASK_NAMES

MIMIC = "mimic"
_FIELDS = ("fields", "judge_fields")
Value = bool | int | float | str
Seed = Annotated[int, Between(0, 1_000_000_000)]


@dataclass(frozen=True)
class Cell:
    """What is to be measured."""

    task: str
    """A benchmark task, or "mimic" for a folder of demonstrations."""
    learner: str
    seed: Seed
    """Decides demonstrations, split, initialisation and episodes."""
    clean: Count | None
    """Clean trajectories to train on; None: all there are (mimic)."""
    noisy: CountOrNone | None
    """Noisy ones; 0 is the paper's setting "clean only", None: all there are (mimic)."""
    fields: tuple[tuple[str, Value], ...] = ()
    """The learner's fields that differ from its defaults, sorted by name."""
    noise: Literal["paper", "segments", "worst"] = "paper"
    """What is wrong with the noisy set."""
    noisy_random_steps: Share | None = None
    """The share of random steps in noisy episodes; None: the task's own."""
    expert_share: Share = 0.0
    """The share of noisy trajectories that an expert's take the place of."""
    judge: str | None = None
    """The judge that the learner is given; None: it brings its own, where it needs one."""
    judge_fields: tuple[tuple[str, Value], ...] = ()
    """The judge's fields that differ from its defaults, sorted by name."""
    valid: bool = True
    """Whether clean demonstrations are given for validation beside those to train on; otherwise the
    latter are all there are."""
    offline: bool = False
    """Whether a learner that could practise in the environment may not."""
    measured: Literal["all", "validation"] = "all"
    """Everything, or what a search for hyper-parameters may look at."""
    data: str | None = None
    """The folder of demonstrations of "mimic"."""

    def __post_init__(self) -> None:
        for name, hint in _hints().items():
            value, kinds = getattr(self, name), _choices(hint)
            if value is not None or NoneType not in kinds:
                check_value(value, kinds[0], f"a cell's {name}")
        if self.task != MIMIC and (self.clean is None or self.noisy is None):
            raise InputError(f"a cell of {self.task} needs numbers of clean and noisy trajectories")

    def inputs(self, sources: Sources) -> dict[str, Any]:
        """All that decides the record, spelled out; its hash is the address."""
        fields = _checked(self.learner, self.fields, sources.learner(self.learner))
        asked = asdict(self) | {"fields": fields, "judge_fields": {}}
        if self.judge is not None:
            if not sources.learner(self.learner).class_variables["takes_judge"]:
                raise InputError(f"{self.learner} has no use for a judge")
            asked["judge_fields"] = _checked(
                self.judge, self.judge_fields, sources.judge(self.judge)
            )
        elif self.judge_fields:
            raise InputError(f'{self.learner}: judge_fields need a judge: judge = "evidence"')
        del asked["data"]
        if self.task == MIMIC:
            asked["data_hash"] = hash_of_folder(str(self.data))
        elif self.task not in TASK_NAMES and not is_import_path(self.task):
            raise InputError(f"there is no task {self.task!r}; there are {', '.join(TASK_NAMES)}")
        asked["source"] = sources.of_cell(self.learner, self.judge, _task_module(self.task))
        return asked

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads; fields that are as usual are left out."""
        usual = {f.name: f.default for f in fields(self)}
        asked = {k: v for k, v in asdict(self).items() if v != usual[k]}
        for name in _FIELDS:
            if name in asked:
                asked[name] = dict(getattr(self, name))
        return asked

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Cell:
        """The cell that `as_json` wrote; what else it may be is refused."""
        usual = {f.name: f.default for f in fields(cls)}
        for name in value:
            if name not in usual:
                raise InputError(f"a cell has no {name!r}; it has {', '.join(usual)}")
        for name, default in usual.items():
            if default is MISSING and name not in value:
                raise InputError(f"a cell's {name} is missing")
        for name in _FIELDS:
            given = value.get(name, {})
            if not isinstance(given, dict) or not all(isinstance(v, Value) for v in given.values()):
                raise InputError(f"a cell's {name} must be an object of numbers, texts and flags")
        return cls(**{**value, **{name: sorted_fields(value.get(name, {})) for name in _FIELDS}})

    def __str__(self) -> str:
        changed = "".join(f" {k}={v}" for k, v in (*self.fields, *self.judge_fields))
        sizes = "all" if self.clean is None else f"{self.clean}+{self.noisy}"
        return f"{self.task} {sizes} {self.learner}{changed} seed {self.seed}"


def check_asked(clean: int | None, noisy: int | None, seeds: Sequence[int]) -> None:
    """Refuse sizes and seeds that no cell can have, by the names of the options."""
    asked = [("--clean", clean, Count), ("--noisy", noisy, CountOrNone)]
    for option, value, hint in (*asked, *(("--seeds", seed, Seed) for seed in seeds)):
        if value is not None:
            check_value(value, hint, option)
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: each may be named once, not {' '.join(map(str, seeds))}")


@cache
def _hints() -> dict[str, Any]:
    """The type and the limits of each field but the learner's and the judge's own."""
    hints = get_type_hints(Cell, include_extras=True)
    return {name: hint for name, hint in hints.items() if name not in _FIELDS}


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def address_of(inputs: Mapping[str, Any]) -> str:
    """The hash of a cell's inputs."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sorted_fields(fields: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
    """Fields as a cell keeps them."""
    return tuple(sorted(fields.items()))


def _task_module(task: str) -> str:
    if task == MIMIC:
        return "sdil.formats.folder"
    if is_import_path(task):
        return task
    return TASK_MODULES.get(task, f"sdil.tasks.{task}")


def _checked(name: str, given: tuple[tuple[str, Value], ...], written: Written) -> dict[str, Any]:
    """All fields of a learner or a judge, those that are given checked against their limits."""
    chosen = dict(given)
    refuse_moved(name, chosen)
    for field, value in chosen.items():
        if field not in written.fields:
            known = ", ".join(written.fields)
            raise InputError(f"{name} has no field {field!r}; it has {known}")
        check_value(value, written.hints[field], f"{name}: {field}")
    return {k: _as(chosen.get(k, v), v) for k, v in written.fields.items()}


def _as(value: Any, default: Any) -> Any:
    """1 and 1.0 are the same number where a field is a float, and so have one address."""
    return float(value) if isinstance(default, float) else value


@cache
def hash_of_folder(folder: str) -> str:
    """A hash of every file in a folder of demonstrations."""
    if not (Path(folder) / "sdil.json").is_file():
        raise InputError(f"{folder} is not a folder of demonstrations: sdil.json is missing")
    whole = hashlib.sha256()
    for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
        whole.update(str(path.relative_to(folder)).encode())
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()
