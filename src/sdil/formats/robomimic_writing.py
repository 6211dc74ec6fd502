"""robomimic's HDF5 files back: filter keys and weights in a copy, or the kept segments as demos.

In a copy, `mask/sdil_keep` lists the demos that are kept whole and `data/demo_k/sdil_weight` says
how much each step should weigh: `SequenceDataset(..., filter_by_attribute="sdil_keep",
dataset_keys=["actions", "sdil_weight"])`. In a curated file demos that are kept whole have their
own names; segments of others follow under new numbers and say where they come from.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file
from sdil.formats.hdf5_cutting import Rows, copy_attributes, copy_tree, opened, put
from sdil.formats.rows import FIRST, KEEP, SCORE, SOURCE, WEIGHT, RowAnswer


def write_scored(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same file with `mask/sdil_keep`, and `sdil_weight` and `sdil_score` in each demo."""
    with new_file(out, size=original.stat().st_size) as temporary:
        shutil.copyfile(original, temporary)
        with opened(temporary, "r+") as file:
            for answer in answers:
                demo = _demo(file, answer, original)
                for name, values in ((SCORE, answer.score), (WEIGHT, answer.weight)):
                    put(demo, name, values)
            _write_mask(file, KEEP, [a.id for a in answers if a.is_whole])


def write_curated(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """A file of the kept segments, each a demo; `env_args` and filter keys go along."""
    with (
        new_file(out, size=original.stat().st_size) as temporary,
        opened(original) as old,
        opened(temporary, "w") as new,
    ):
        _check_names(old, original)
        made: dict[str, list[str]] = {}
        number = 1 + max((_number(name) for name in old["data"]), default=-1)
        copy_attributes(old, new)
        copy_attributes(old["data"], new.create_group("data"))
        total = 0
        for answer in answers:
            demo = _demo(old, answer, original)
            for start, stop in answer.pieces:
                name = answer.id
                if not answer.is_whole:
                    name, number = f"demo_{number}", number + 1
                _copy_demo(demo, new["data"], name, start, stop, len(answer))
                made.setdefault(answer.id, []).append(name)
                total += stop - start
        if "total" in old["data"].attrs:
            kind = old["data"].attrs.get_id("total").dtype
            new["data"].attrs.create("total", total, dtype=kind)
        for name in old:
            if name not in ("data", "mask"):
                old.copy(old[name], new, name=name)
        masks = old.get("mask", {})
        for key in masks:
            names = [_text(name) for name in masks[key][()]]
            renamed = [new_name for name in names for new_name in made.get(name, [])]
            _write_mask(new, key, renamed, masks[key].dtype)
        _write_mask(new, KEEP, [name for names in made.values() for name in names])


def _copy_demo(demo: Any, parent: Any, name: str, start: int, stop: int, length: int) -> None:
    if (start, stop) == (0, length):
        parent.file.copy(demo, parent, name=name)
        new = parent[name]
    else:
        new = parent.create_group(name)

        def rows_of(_: str, item: Any) -> tuple[Rows | None, int]:
            if item.ndim and item.shape[0] == length:
                return [(start, stop)], 0
            if item.ndim and item.shape[0] == length + 1:  # with where it ended
                return [(start, stop + 1)], 0
            return None, 0

        copy_tree(demo, new, rows_of)
        new.attrs[SOURCE] = demo.name.rpartition("/")[2]
        new.attrs[FIRST] = start
    kind = np.dtype(np.int64)
    if "num_samples" in demo.attrs:
        kind = demo.attrs.get_id("num_samples").dtype
    new.attrs.create("num_samples", stop - start, dtype=kind)


def _demo(file: Any, answer: RowAnswer, path: Path) -> Any:
    demos = file.get("data", {})
    if answer.id not in demos:
        raise InputError(f"{path}: there is no data/{answer.id} any more; import the file again")
    return demos[answer.id]


def _write_mask(file: Any, key: str, names: Sequence[str], like: Any = None) -> None:
    """A filter key; `like` is the type of the one before: texts of any length, or bytes."""
    kind = "S" if like is None or like.kind == "S" else like
    put(file.require_group("mask"), key, np.array(names, dtype=kind))


def _check_names(file: Any, path: Path) -> None:
    for name in file["data"]:
        if _number(name) < 0:
            raise InputError(
                f"{path}: data/{name} is not called demo_ and a number, so that no new name can "
                "follow it; rename it, or write scores alone"
            )


def _number(name: str) -> int:
    found = re.fullmatch(r"demo_(\d+)", name)
    return int(found[1]) if found else -1


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)
