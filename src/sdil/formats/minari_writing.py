"""Minari data sets back: what is said of each step in `infos`, or the kept segments as episodes.

Files are cut as they are, so that pictures stay the bytes that they were. Minari has one more row
of observations and infos than of actions; the last row of ours says nothing (NaN).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_folder, read_json
from sdil.formats import minari_arrow
from sdil.formats.hdf5_cutting import Rows, copy_attributes, copy_tree, opened, put
from sdil.formats.rows import FIRST, SCORE, SOURCE, WEIGHT, RowAnswer
from sdil.spaces import Array

_FILE, _ABOUT = "main_data.hdf5", "metadata.json"


def write_scored(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The same data set with `sdil_score` and `sdil_weight` in the infos of each episode."""
    inner, is_arrow = _inner(original)
    with new_folder(out, overwrite=False, marker="", size=_size(original)) as folder:
        shutil.copytree(original, folder, dirs_exist_ok=True)
        if is_arrow:
            minari_arrow.add_scores(folder / inner, answers, original)
            return
        with opened(folder / inner / _FILE, "r+") as file:
            for at, answer in enumerate(answers):
                episode = _episode(file, at, answer, original)
                infos = episode.require_group("infos")
                for name, values in ((SCORE, answer.score), (WEIGHT, answer.weight)):
                    put(infos, name, _with_last(values))
                if answer.quality is not None:
                    episode.attrs["sdil_quality"] = answer.quality


def write_curated(original: Path, answers: Sequence[RowAnswer], out: Path) -> None:
    """The kept segments, each an episode; one that is cut short is truncated, not terminated."""
    inner, is_arrow = _inner(original)

    def but_episodes(_: str, names: list[str]) -> list[str]:
        return [name for name in names if name == _FILE or (is_arrow and name.isdecimal())]

    with new_folder(out, overwrite=False, marker="", size=_size(original)) as folder:
        shutil.copytree(original, folder, dirs_exist_ok=True, ignore=but_episodes)
        write = minari_arrow.write_pieces if is_arrow else _write_pieces
        number, total = write(original / inner, answers, folder / inner)
        about = json.loads((original / inner / _ABOUT).read_text("utf-8"))
        about.update(total_episodes=number, total_steps=total)
        if "dataset_size" in about:
            about["dataset_size"] = round(_size(folder / inner) / 1_000_000, 1)
        (folder / inner / _ABOUT).write_text(json.dumps(about), "utf-8")


def _write_pieces(old: Path, answers: Sequence[RowAnswer], new: Path) -> tuple[int, int]:
    """The kept segments in a new HDF5 file; how many, and how many steps."""
    number = total = 0
    with opened(old / _FILE) as file, opened(new / _FILE, "w") as out:
        copy_attributes(file, out)
        for at, answer in enumerate(answers):
            episode = _episode(file, at, answer, old)
            for start, stop in answer.pieces:
                _copy_episode(episode, out, number, start, stop, len(answer))
                number, total = number + 1, total + stop - start
    return number, total


def _copy_episode(episode: Any, file: Any, number: int, start: int, stop: int, length: int) -> None:
    name = f"episode_{number}"
    whole = (start, stop) == (0, length)
    if whole:
        file.copy(episode, file, name=name)
    else:

        def rows_of(where: str, item: Any) -> tuple[Rows | None, int]:
            if item.ndim and item.shape[0] == length + 1:
                return [(start, stop + 1)], 0
            if item.ndim and item.shape[0] == length:
                return [(start, stop)], 0
            return None, 0

        copy_tree(episode, file.create_group(name), rows_of)
        new = file[name]
        if not new["terminations"][-1]:
            new["truncations"][-1] = True
    new = file[name]
    new.attrs["id"], new.attrs["total_steps"] = number, stop - start
    new.attrs[SOURCE], new.attrs[FIRST] = int(episode.name.rpartition("_")[2]), start
    if not whole and start and "seed" in new.attrs:
        del new.attrs["seed"]  # it does not begin where that seed begins


def _episode(file: Any, at: int, answer: RowAnswer, path: Path) -> Any:
    name = f"episode_{at}"
    if name not in file or len(file[name]["rewards"]) != len(answer):
        raise InputError(
            f"{path}: {name} is not the one that was judged (episode {answer.id!r}, "
            f"{len(answer)} steps); import and judge it again"
        )
    return file[name]


def _inner(folder: Path) -> tuple[str, bool]:
    """Where the files lie, in the folder `data` or in the folder itself; whether they are Arrow."""
    inner = "data" if (folder / "data" / _ABOUT).is_file() else "."
    about = read_json(folder / inner / _ABOUT, what="a Minari data set")
    if isinstance(about, dict) and about.get("data_format") in minari_arrow.FORMATS:
        return inner, True
    if not (folder / inner / _FILE).is_file():
        raise InputError(
            f"{folder}: it has no {_FILE} and says of no other form that it is in; write the "
            "scores as a table (sdil score --out scores.parquet) or a trim list"
        )
    return inner, False


def _with_last(values: Array) -> Array:
    return np.append(values, np.float32(np.nan))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
