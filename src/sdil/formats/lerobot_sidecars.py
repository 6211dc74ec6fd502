"""Answers for LeRobot's own tools, beside a data set that stays as it is.

Frames are named by their `index`, the number that LeRobot's batches carry. Deleting episodes
numbers them anew: write these files after, for the data set that is left.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdil.errors import InputError
from sdil.files import new_file
from sdil.formats.lerobot import LeRobot
from sdil.formats.lerobot_layout import open_table, told_of
from sdil.formats.rows import RowAnswer
from sdil.spaces import Array

PROGRESS_FILE = "sarm_progress.parquet"
"""Where `lerobot-train` looks for it, in the folder of the data set."""
READ_BY = ("pi0", "pi05", "smolvla", "evo1", "molmoact2")
"""The policies of LeRobot 0.6.1 whose loss takes a weight per sample."""
QUALITY, WORST = "sdil/quality", "sdil/worst_segment"
_STEP = 1.0  # how far progress goes in a chunk that is kept: well above LeRobot's kappa of 0.01


def write_rabc(
    source: LeRobot, answers: Sequence[RowAnswer], path: Path, *, chunk: int | None = None
) -> None:
    """Progress of which LeRobot's `RABCWeights` makes weights: 1 where the coming chunk is good, 0
    where it is bad.

    It compares the progress at a frame with that `chunk_size` frames later. The sum of all scores
    before a frame gives each coming chunk the sum of its own scores, whatever the chunk size. For
    a known `chunk` each frame is kept or dropped exactly as the answers say (by the sign of its
    score where they drop nothing), apart from the last of an episode, whose chunk is empty. What
    is trusted or was not judged has no progress (NaN) and so weighs 1.
    """
    if chunk is not None and chunk < 1:
        raise InputError(f"the chunk size must be at least 1, not {chunk}")
    anything_dropped = not all(answer.is_whole for answer in answers)
    columns: dict[str, list[Array]] = {"index": [], "episode_index": [], "frame_index": []}
    progress = []
    for answer, number, frames, index in _numbered(source, answers):
        columns["index"].append(index)
        columns["episode_index"].append(np.full(len(index), number))
        columns["frame_index"].append(frames)
        is_judged = np.isfinite(answer.score).all() and not answer.trusted
        if chunk is not None and (is_judged or not answer.is_whole):
            keep = answer.keep if anything_dropped else answer.score > 0
            progress.append(progress_for_mask(keep, chunk))
        elif is_judged:
            progress.append(progress_of_scores(answer.score))
        else:
            progress.append(np.full(len(index), np.nan))
    _write_table(path, {**columns, "progress_sparse": progress})


def progress_of_scores(scores: Array) -> Array:
    """The sum of the scores before each frame, of (N,) in [-1, 1]. (N,)"""
    total = np.cumsum(np.asarray(scores, np.float64))
    return np.concatenate([[0.0], total[:-1]])


def progress_for_mask(keep: Array, chunk: int) -> Array:
    """Progress that rises over the coming `chunk` frames where `keep` (N,), and else falls. (N,)

    LeRobot takes the last frame where the chunk leaves the episode: filled in from there.
    """
    n = len(keep)
    progress = np.zeros(n)
    for t in range(n - 2, -1, -1):
        progress[t] = progress[min(t + chunk, n - 1)] - (_STEP if keep[t] else -_STEP)
    return progress


def write_weights(source: LeRobot, answers: Sequence[RowAnswer], path: Path) -> None:
    """A table of `index` and `weight`, 0 to 1, a row per frame; a frame that is dropped weighs 0.

    The form of the "static" sample weighter that is proposed for LeRobot (its pull request 4222).
    """
    columns: dict[str, list[Array]] = {"index": [], "weight": []}
    for answer, _, _, index in _numbered(source, answers):
        columns["index"].append(index)
        columns["weight"].append(np.asarray(answer.weight * answer.keep, np.float64))
    _write_table(path, columns)


def write_episode_columns(source: LeRobot, answers: Sequence[RowAnswer], out: Path) -> list[Path]:
    """Write `meta/episodes` into the folder `out` with two columns more; what was written.

    `sdil/quality` is how well an episode went, -1 to 1, and `sdil/worst_segment` the first frame of
    its worst segment and one past the last. Where nobody judged they are NaN and empty. `out` may
    be the data set itself. LeRobot picks episodes by them:
    `LeRobotDataset(..., episode_filter=lambda e: e["sdil/quality"] > 0)`.
    """
    told = {int(answer.id): _of_episode(answer) for answer in answers}
    layout = source.layout
    written = []
    if layout.major == 2:
        path = layout.root / "meta" / "episodes.jsonl"
        lines = []
        for line in path.read_text("utf-8").splitlines():
            if line.strip():
                row = json.loads(line)
                quality, worst = told.get(row["episode_index"], (np.nan, []))
                known = None if np.isnan(quality) else quality
                lines.append(json.dumps({**row, QUALITY: known, WORST: worst}, ensure_ascii=False))
        target = out / "meta" / "episodes.jsonl"
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_file(target) as temporary:
            temporary.write_text("\n".join(lines) + "\n", "utf-8")
        return [target]
    import pyarrow
    import pyarrow.parquet as parquet

    for path in dict.fromkeys(row.place[0] for row in layout.rows):
        with told_of(path):
            table = open_table(path).read()
        said = [told.get(n, (np.nan, [])) for n in table.column("episode_index").to_pylist()]
        left = [name for name in table.column_names if name not in (QUALITY, WORST)]
        table = table.select(left)
        table = table.append_column(QUALITY, pyarrow.array([q for q, _ in said], "float64"))
        spans = pyarrow.array([w for _, w in said], pyarrow.list_(pyarrow.int64()))
        table = table.append_column(WORST, spans).replace_schema_metadata(None)
        target = out / path.relative_to(layout.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        with new_file(target.absolute()) as temporary:
            parquet.write_table(table, temporary)
        written.append(target)
    return written


def _of_episode(answer: RowAnswer) -> tuple[float, list[int]]:
    if answer.quality is None:
        return float("nan"), []
    worst = min(answer.stretches, key=lambda stretch: stretch.optimality, default=None)
    if worst is None:
        return answer.quality, []
    frames = answer.frames
    return answer.quality, [int(frames[worst.start]), int(frames[worst.stop - 1]) + 1]


def delete_command(source: LeRobot, drop: Sequence[str], out: Path | None = None) -> str:
    """The command of LeRobot's own that leaves these episodes out, in a new data set.

    It numbers episodes and frames anew: files with an `index` are to be written after it.
    """
    known = [row.index for row in source.layout.rows]
    numbers = sorted(int(name) for name in drop)
    if not numbers:
        raise InputError("no episode is to be dropped")
    if unknown := set(numbers) - set(known):
        raise InputError(f"{source.location} has no episode {min(unknown)}")
    if len(numbers) == len(known):
        raise InputError("all episodes would be dropped")
    if source.layout.major == 2 and source.layout.version.lstrip("v") != "2.1":
        raise InputError(
            f"{source.location}: LeRobot converts version 2.1 to 3.0, not {source.layout.version}; "
            "write what is kept as a new data set instead"
        )
    root = Path(source.location).absolute()
    name = f"local/{root.name}"
    out = root.with_name(f"{root.name}-sdil") if out is None else out.absolute()
    lines = []
    if source.layout.major == 2:
        lines.append(
            "python -m lerobot.scripts.convert_dataset_v21_to_v30 "
            f"--repo-id={shlex.quote(name)} --root={shlex.quote(str(root))} --push-to-hub=false &&"
        )
    words = ["lerobot-edit-dataset", "--repo_id", name, "--root", str(root)]
    words += ["--new_repo_id", f"local/{out.name}", "--new_root", str(out)]
    words += ["--operation.type", "delete_episodes"]
    words += ["--operation.episode_indices", str(numbers)]
    lines.append(" ".join(shlex.quote(word) for word in words))
    return " \\\n  ".join(lines)


def train_command(source: LeRobot, path: Path) -> str:
    """The command that trains with what `write_rabc` wrote, and which policies listen to it."""
    root = Path(source.location).absolute()
    words = ["lerobot-train", f"--dataset.repo_id=local/{root.name}", f"--dataset.root={root}"]
    words += ["--policy.type=smolvla", "--sample_weighting.type=rabc"]
    words += [f"--sample_weighting.progress_path={path.absolute()}"]
    policies = f"{', '.join(READ_BY[:-1])} and {READ_BY[-1]}"
    return (
        " ".join(shlex.quote(word) for word in words)
        + f"\n# LeRobot 0.6.1 weighs samples for {policies}; not for ACT or Diffusion"
    )


def _numbered(
    source: LeRobot, answers: Sequence[RowAnswer]
) -> Iterator[tuple[RowAnswer, int, Array, Array]]:
    """Each answer, the number of its episode, and its frames within it and in the data set."""
    at = {episode.id: i for i, episode in enumerate(source.episodes)}
    for answer in answers:
        if answer.id not in at:
            raise InputError(f"{source.location} has no episode {answer.id!r}, which was judged")
        frames, index = source.frames_of(at[answer.id])
        if len(answer) != len(index):
            raise InputError(
                f"{source.location}: episode {answer.id} has {len(index)} frames, but "
                f"{len(answer)} answers; it was changed since it was judged"
            )
        yield answer, source.layout.rows[at[answer.id]].index, frames, index


def _write_table(path: Path, columns: dict[str, list[Any]]) -> None:
    import pyarrow
    import pyarrow.parquet as parquet

    joined = {name: np.concatenate(values) for name, values in columns.items()}
    order = np.argsort(joined["index"], kind="stable")
    with new_file(path.absolute()) as temporary:
        table = {name: values[order] for name, values in joined.items()}
        parquet.write_table(pyarrow.table(table), temporary)
