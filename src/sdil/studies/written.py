"""A user's own study, written in TOML: a grid over tasks, learners, fields, sizes and seeds.

    title = "Does a wider network help?"
    tasks = ["fourrooms", "sepsis"]
    clean = [10, 30]            # every combination of these lists is measured
    noisy = 600
    seeds = [0, 1, 2, 3, 4]
    champion = "wide SDIL"      # the row compared with every other; the last one if not said
    measure = "reward"

    [[learners]]
    learner = "bc"
    setting = "clean only"      # or "both", the default

    [[learners]]
    row = "wide SDIL"
    learner = "sdil"
    fields = { hidden = 128 }

    [[learners]]
    learner = "sdil"
    fields = { mi_weight = [0.5, 1, 2] }     # a list: one row per value

    [[learners]]
    row = "SDIL by likelihood alone"
    learner = "sdil"            # a learner that takes a judge
    judge = "evidence"          # the one to give it, and its fields
    judge_fields = { signals = "likelihood" }

A list of several clean or noisy sizes becomes the axis of a curve.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from sdil.errors import InputError
from sdil.limits import fits
from sdil.named import is_import_path
from sdil.studies.cell import Cell, Seed, sorted_fields
from sdil.studies.grid import MEASURES, Entry, Study, check_name
from sdil.studies.source import Sources
from sdil.tasks import TASK_NAMES

_KEYS = (
    *("title", "tasks", "clean", "noisy", "seeds", "learners", "champion", "measure"),
    *("noise", "expert_share", "valid", "offline"),
)
_SETTINGS = ("both", "clean only")


def read_written(file: Path) -> Study:
    """The study that a TOML file describes."""
    try:
        about = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise InputError(f"{file} does not exist") from None
    except (OSError, ValueError, RecursionError) as error:  # of a huge number or depth, too
        raise InputError(f"{file}: cannot be read as TOML ({error})") from None
    return _Reader(file).study(about)


class _Reader:
    """Checks as it reads, so that every complaint names the file and the key."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.sources = Sources()

    def study(self, about: Mapping[str, Any]) -> Study:
        check_name(self.file.stem, f"{self.file}: the file's name, which is the study's,")
        self._only(about, _KEYS, "")
        tasks = self._list(about, "tasks", _a_task, "names of tasks: " + ", ".join(TASK_NAMES))
        clean = self._list(about, "clean", _a_count, "numbers of trajectories, at least 1")
        noisy = self._list(about, "noisy", _a_size, "numbers of trajectories", [600])
        seeds = self._list(about, "seeds", _a_seed, "whole numbers", [0, 1, 2, 3, 4])
        if len(clean) > 1 and len(noisy) > 1:
            self._complain("noisy", "one of clean and noisy may be a list of several, not both")
        measure = about.get("measure", "reward")
        if measure not in MEASURES:
            self._complain("measure", f"one of {', '.join(MEASURES)} is needed, not {measure!r}")
        more = {
            "noise": self._one(about, "noise", _a_noise, "paper"),
            "expert_share": float(self._one(about, "expert_share", _a_share, 0.0)),
            "valid": self._one(about, "valid", lambda v: isinstance(v, bool), True),
            "offline": self._one(about, "offline", lambda v: isinstance(v, bool), False),
        }
        rows = self._learners(about)
        champion = about.get("champion", list(rows)[-1])
        if not isinstance(champion, str) or champion not in rows:
            self._complain("champion", f"no row is called {champion!r}; there are {list(rows)}")
        axis, points = None, [None]
        for name, sizes in (("clean", clean), ("noisy", noisy)):
            if len(sizes) > 1:
                axis, points = f"{name} trajectories", sizes
        entries = []
        for seed, task, at, (row, one) in product(seeds, tasks, points, rows.items()):
            n_clean = at if axis == "clean trajectories" else clean[0]
            n_noisy = at if axis == "noisy trajectories" else noisy[0]
            if one["setting"] == "clean only":
                n_noisy = 0
            judging = {name: one[name] for name in ("judge", "judge_fields")}
            cell = Cell(
                task, one["learner"], seed, n_clean, n_noisy, one["fields"], **judging, **more
            )
            entries.append(Entry(row, cell, at))
        title = str(about.get("title", self.file.stem))
        measures = dict.fromkeys(tasks, str(measure))
        return Study(self.file.stem, title, tuple(entries), axis, measures, champion)

    def _learners(self, about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Rows by name: learner, fields and setting."""
        written: Any = about.get("learners")
        if not isinstance(written, list) or not written:
            self._complain("learners", "at least one [[learners]] is needed")
        rows: dict[str, dict[str, Any]] = {}
        for i, one in enumerate(written):
            place = f"learners[{i}]"
            if not isinstance(one, dict):
                self._complain(place, "[[learners]] with `learner = ...` is needed")
            keys = ("row", "learner", "preset", "fields", "setting", "judge", "judge_fields")
            self._only(one, keys, f"{place}.")
            name = one.get("learner")
            if name not in self.sources.learners and not is_import_path(name):
                known = ", ".join(self.sources.learners)
                self._complain(f"{place}.learner", f"{name!r} is none of {known}")
            setting = one.get("setting", "both")
            if setting not in _SETTINGS:
                self._complain(f"{place}.setting", f"one of {_SETTINGS} is needed")
            judging = self._judging(one, name, place)
            for fields in self._fields(one, name, place):
                varied = [k for k, v in one.get("fields", {}).items() if isinstance(v, list)]
                row = str(one.get("row", name))
                row += "".join(f", {k} {dict(fields)[k]}" for k in varied)
                row += "" if setting == "both" or "row" in one else ", clean only"
                if row in rows:
                    self._complain(f"{place}.row", f"two rows are called {row!r}; name them")
                rows[row] = {"learner": name, "fields": fields, "setting": setting, **judging}
        return rows

    def _judging(self, one: Mapping[str, Any], learner: str, place: str) -> dict[str, Any]:
        """The judge that a learner is given, and its fields."""
        fields = one.get("judge_fields", {})
        if not isinstance(fields, dict):
            self._complain(f"{place}.judge_fields", "a table { good_share = 0.3 } is needed")
        judging: dict[str, Any] = {
            "judge": one.get("judge", "evidence" if fields else None),
            "judge_fields": sorted_fields(fields),
        }
        try:
            Cell("fourrooms", learner, 0, 1, 0, **judging).inputs(self.sources)
        except InputError as error:
            self._complain(f"{place}.judge", str(error))
        return judging

    def _fields(
        self, one: Mapping[str, Any], learner: str, place: str
    ) -> list[tuple[tuple[str, Any], ...]]:
        """Every combination of the values given for a learner's fields, over those of a preset."""
        written: Any = one.get("fields", {})
        if not isinstance(written, dict):
            self._complain(f"{place}.fields", "a table such as { hidden = 128 } is needed")
        for name, values in written.items():
            if values == []:
                self._complain(f"{place}.fields", f"{name}: at least one value is needed")
        usual: dict[str, Any] = {}
        if "preset" in one:
            own = is_import_path(learner)  # its class is not read, but imported
            known = () if own else self.sources.learner(learner).presets
            if one["preset"] not in known:
                there_are = f"there are {', '.join(known)}" if known else "it has none"
                self._complain(f"{place}.preset", f"{learner}: {there_are}, not {one['preset']!r}")
            usual = self.sources.preset_of(learner, one["preset"])
        lists = [v if isinstance(v, list) else [v] for v in written.values()]
        made = [
            sorted_fields(usual | dict(zip(written, values, strict=True)))
            for values in product(*lists)
        ]
        for fields in made:
            try:
                Cell("fourrooms", learner, 0, 1, 0, fields).inputs(self.sources)
            except InputError as error:
                self._complain(f"{place}.fields", str(error))
        return made

    def _list(
        self,
        about: Mapping[str, Any],
        key: str,
        fits: Callable[[Any], bool],
        wanted: str,
        usual: list[Any] | None = None,
    ) -> list[Any]:
        values = about.get(key, usual)
        values = values if isinstance(values, list) else [values]
        if not values or not all(fits(v) for v in values) or len(set(values)) < len(values):
            self._complain(key, f"needs {wanted}, each once")
        return values

    def _one(
        self, about: Mapping[str, Any], key: str, fits: Callable[[Any], bool], usual: Any
    ) -> Any:
        value = about.get(key, usual)
        if not fits(value):
            self._complain(key, f"{value!r} makes no sense here")
        return value

    def _only(self, about: Mapping[str, Any], known: tuple[str, ...], place: str) -> None:
        for key in about:
            if key not in known:
                self._complain(place + key, f"not known; there are {', '.join(known)}")

    def _complain(self, key: str, text: str) -> Any:
        raise InputError(f"{self.file}: {key}: {text}")


def _a_task(value: Any) -> bool:
    return value in TASK_NAMES or is_import_path(value)


def _a_count(value: Any) -> bool:
    return _a_size(value) and value > 0


def _a_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _a_seed(value: Any) -> bool:
    return fits(value, Seed)


def _a_noise(value: object) -> bool:
    return value in ("paper", "segments", "worst")


def _a_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
