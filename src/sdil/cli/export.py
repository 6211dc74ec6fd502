"""`sdil export`: what was said of data, written back in the format that it came in."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import tyro

from sdil.algorithms import load_judging
from sdil.choosing import By, GoodShareLike
from sdil.cli.answers import data_for, fitted_of, good_share_for, unknown_of
from sdil.cli.console import parse, plain, print_json, print_wrapped
from sdil.cli.exporting import TO_HELP, Exporting, Written, prepare
from sdil.cli.health import health_for, print_health, refuse_unhealthy
from sdil.curation import SHORTEST, NothingKeptError, curate
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.rollout import check_spaces
from sdil.files import read_json
from sdil.formats.data import load_demonstrations
from sdil.formats.rows import RowAnswer
from sdil.formats.scores import ScoredSet, read_scores
from sdil.judging import FittedJudge
from sdil.policy import Policy
from sdil.scores import StepScores
from sdil.spaces import Array
from sdil.trajectories import Trajectories


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(export, arguments, "export")


def export(
    run: tyro.conf.Positional[Path],
    to: Annotated[tuple[str, ...], tyro.conf.arg(help=TO_HELP)],
    data: str | None = None,
    clean: str | None = None,
    curated: bool = False,
    by: By | None = None,
    keep_above: float | None = None,
    keep_share: float | None = None,
    selection: Path | None = None,
    min_length: int = SHORTEST,
    in_place: bool = False,
    chunk: int | None = None,
    source: str | None = None,
    overwrite: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Write what was said of data back, in the format that it came in.

    The source is copied with a score (-1 to 1) and a weight (0 to 1) of each row, or, with
    --curated, only what is kept of it, segments as episodes of their own. What came in goes out the
    same but for that; names of episodes and numbers of frames are the source's own. Trusted
    episodes are kept and weigh 1.

    Without a rule, what scores at least 0 is kept: whole episodes for robomimic's filter key and
    LeRobot's episodes, else segments.

    Args:
        run: A judgement of `sdil judge`, a run of `sdil train` whose learner judges steps, or a
            table that `sdil score --out` or `sdil curate` wrote (its column `kept` is obeyed).
        data: What was judged: a folder that `sdil import` wrote, or a source as --data of `sdil
            judge` took it; by default what the run was made of.
        clean: Of data in another format: which episodes are trusted, as `sdil import` takes it.
        curated: Only what is kept.
        by: What is kept or dropped whole.
        keep_above: Keep what scores at least this; 0 where no rule is given.
        keep_share: Keep the highest scored, until they are this share of the doubtful steps.
        selection: Keep what this file says: JSON that the page of `sdil report` downloads.
        min_length: Shortest run of steps to keep.
        in_place: Write into the source itself (robomimic's filter key and weights; LeRobot's
            columns of episodes); it is replaced once the new file is whole.
        chunk: For rabc: how many frames the policy predicts at once; each frame is then kept or
            dropped exactly.
        source: Where the source lies now, if it was moved since it was imported.
        overwrite: Replace files that exist.
        as_json: Print what was written as JSON.
    """
    if not to:
        raise InputError("say what to write: --to same:PATH, --to trim:PATH, ...")
    if sum(rule is not None for rule in (keep_above, keep_share, selection)) > 1:
        raise InputError("give one of --keep-above, --keep-share and --selection")
    if data is None and run.is_file():
        raise InputError(f"{run} is a table: say what was judged with --data")
    data = data_for(run, data, clean)
    exporting = prepare(
        to, data, source=source, in_place=in_place, overwrite=overwrite, chunk=chunk
    )
    exporting.check(curated=curated)
    demos = load_demonstrations(data)
    judged = judge_all(run, demos)
    if curated and judged.judge is not None and keep_share is None and selection is None:
        health = health_for(run, judged.judge, demos, threshold=keep_above or 0.0, may_refit=True)
        if not as_json:
            print_health(health)
        refuse_unhealthy(health)
    chosen = None if selection is None else read_json(selection, what="a selection")
    rule = Rule(by, keep_above, keep_share, chosen, min_length)
    written = write_judged(exporting, demos, judged, rule, curated=curated)
    if as_json:
        print_json({"run": str(run), "data": data, "written": [asdict(w) for w in written]})
    else:
        show_written(written)


@dataclass(frozen=True)
class Rule:
    """What is kept."""

    by: By | None = None
    keep_above: float | None = None
    keep_share: float | None = None
    selection: Any = None
    min_length: int = SHORTEST


@dataclass(frozen=True, eq=False)
class Judged:
    """What is said of both sets, and what is not."""

    scores: dict[str, list[StepScores]]
    """By set."""
    judge: FittedJudge | Policy | None = None
    good_share: GoodShareLike | None = None
    kept: dict[str, list[Array]] | None = None
    """What a table says is kept."""


def judge_all(run: Path, demos: Demonstrations) -> Judged:
    """The scores of both sets, by a judge or out of a table."""
    sets = {"clean": demos.clean, "noisy": demos.noisy}
    if run.is_file():
        return _from_table(run, sets)
    judge = load_judging(run)
    check_spaces(judge, demos.spaces)
    scores = {name: judge.score(t) if len(t) else [] for name, t in sets.items()}
    return Judged(scores, judge, good_share_for(run, judge, demos))


def _from_table(path: Path, sets: dict[str, Trajectories]) -> Judged:
    table = read_scores(path)
    scores: dict[str, list[StepScores]] = {}
    kept: dict[str, list[Array]] = {}
    for name, trajectories in sets.items():
        if name == "clean" and name not in table:  # nobody asked; they are trusted anyway
            scores[name] = [StepScores(np.ones(n, np.float32)) for n in trajectories.lengths]
            continue
        given = table.get(name, ScoredSet([], []))
        at = {episode: i for i, episode in enumerate(given.ids)}
        for episode, length in zip(trajectories.ids, trajectories.lengths, strict=True):
            if episode not in at or len(given.scores[at[episode]].optimality) != length:
                raise InputError(
                    f"{path}: it has not the {length} steps of {name} episode {episode!r}; give "
                    "the --data that it was made of"
                )
        order = [at[episode] for episode in trajectories.ids]
        scores[name] = [given.scores[i] for i in order]
        if "kept" in given.more:
            kept[name] = [np.asarray(given.more["kept"][i], bool) for i in order]
    return Judged(scores, kept=kept or None)


def write_judged(
    exporting: Exporting, demos: Demonstrations, judged: Judged, rule: Rule, *, curated: bool
) -> list[Written]:
    """Choose what is kept by a rule and write all targets."""
    sets = {"clean": demos.clean, "noisy": demos.noisy}

    def answers(unit: By) -> list[RowAnswer]:
        kept = choose(demos, judged, rule if rule.by is not None else replace(rule, by=unit))
        return exporting.answer(sets, judged.scores, kept)

    return exporting.write(answers, curated=curated)


def choose(demos: Demonstrations, judged: Judged, rule: Rule) -> dict[str, list[Array]]:
    """Which steps are kept of the noisy set, and where a table says so of the clean one."""
    ruled = any(r is not None for r in (rule.keep_above, rule.keep_share, rule.selection))
    if judged.kept is not None and not ruled:
        return judged.kept
    if not len(demos.noisy):
        return {}
    judge, by = judged.judge, rule.by or "segment"
    unknown = MappingProxyType({}) if judge is None else unknown_of(judge)
    if not ruled and by == "episode" and "episode" in unknown:
        by = "segment"
    fitted = None if judge is None else fitted_of(judge)
    try:
        found = curate(
            demos,
            judged.scores["noisy"],
            by=by,
            keep_above=rule.keep_above if ruled else 0.0,
            keep_share=rule.keep_share,
            selection=rule.selection,
            min_length=rule.min_length,
            unknown=unknown,
            good_share=judged.good_share,
            cross_judged=None if fitted is None else fitted.cross_judged,
        )
    except NothingKeptError:
        return {"noisy": [np.zeros(length, bool) for length in demos.noisy.lengths]}
    return {"noisy": found.kept}


def show_written(written: list[Written]) -> None:
    """What was written, and what to do with it."""
    for one in written:
        place = "" if one.path is None else f"written to {one.path}: "
        print_wrapped(f"{place}{one.says}")
        if one.command is not None:
            print(plain(one.command, lines=True))
