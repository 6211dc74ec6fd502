"""`sdil curate`: a new folder of demonstrations with only the good part of another; did it help?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import tyro

from sdil.choosing import By
from sdil.cli.console import (
    check_seed,
    parse,
    print_command,
    print_json,
    print_wrapped,
    progress,
    set_threads,
)
from sdil.cli.exporting import TO_HELP, frames_of, prepare
from sdil.cli.kept import show_kept, summarise
from sdil.curation import SHORTEST, Curated
from sdil.curation import curate as keep_what_is_good
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.files import read_json, refuse_existing, write_json
from sdil.formats.data import describe, is_source, load_demonstrations, load_truth, origin_of
from sdil.formats.folder import annotate_episodes, save_demonstrations
from sdil.formats.origin import Numbered, Origin
from sdil.formats.recognise import parse_address
from sdil.formats.scores import ScoredSet, write_scores
from sdil.trajectories import Trajectories
from sdil.truth import Truth

if TYPE_CHECKING:
    from sdil.evaluation.helped import Helped

FORMAT, VERSION = "sdil-curated", 1


def main(arguments: list[str]) -> None:
    """Parse and run."""
    parse(curate, arguments, "curate")


def curate(
    run: tyro.conf.Positional[Path],
    data: str | None = None,
    out: Path | None = None,
    to: Annotated[tuple[str, ...], tyro.conf.arg(help=TO_HELP)] = (),
    by: By = "segment",
    keep_above: float | None = None,
    keep_share: float | None = None,
    selection: Path | None = None,
    weights: bool = False,
    power: float = 1.0,
    at_most: float | None = None,
    min_length: int = SHORTEST,
    which: Annotated[Literal["noisy", "clean"], tyro.conf.arg(name="set")] = "noisy",
    clean: str | None = None,
    overwrite: bool = False,
    no_check: bool = False,
    seed: int = 0,
    threads: int = 1,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Write a new folder of demonstrations with only the good part of the noisy set.

    Runs of kept steps become episodes, named after where they come from: noisy-17[3:9]. The clean
    set is copied as it is, and the original is never touched. Beside the demonstrations lie
    curated.json (where each episode comes from) and scores.parquet (a row per step of the
    original). Give one of --keep-above, --keep-share and --selection.

    Then it says whether that helped: behaviour cloning of the clean set alone, with all noisy
    steps, with those kept, with all of them weighed and with as much left out at random, measured
    on clean groups that were held out.

    Args:
        run: A judgement of `sdil judge`, or a run of `sdil train` whose learner judges steps.
        data: Folder of demonstrations to curate, or other people's data, read where it lies; by
            default what the run was made of.
        out: The folder of demonstrations to write; it must not exist. With --to it may be left
            out.
        by: What is kept or dropped whole: segments by their mean score, episodes by how well they
            went, or single steps, which bends how often actions occur.
        keep_above: Keep what scores at least this; scores lie between -1 (bad) and 1 (good).
            Where the judge cannot tell the noisy set from a good one, everything is kept.
        keep_share: Keep the highest scored, until they are this share of the steps.
        selection: Keep what this file says: JSON that the page of `sdil report` downloads.
        weights: Keep every step; scores.parquet says how much each should weigh, 0 to 1.
        power: With --weights: a step weighs how probably it is good to this power.
        at_most: With --weights: all noisy steps together weigh at most so many times what the
            clean ones do.
        min_length: Shortest run of steps to keep. Whole episodes stay, and a selection is taken
            as it is.
        which: The set to curate.
        clean: Of data in another format: which episodes are trusted, as `sdil import` takes it.
        overwrite: Replace the folder if it exists.
        no_check: Do not say whether it helped, which takes seconds to a minute.
        seed: What is held out and the networks of that check follow from it.
        threads: CPU threads.
        as_json: Print the summary as JSON.
    """
    rules = [rule for rule in (keep_above, keep_share, selection) if rule is not None]
    if len(rules) > 1 or not (rules or weights):
        raise InputError("give one of --keep-above, --keep-share and --selection")
    if selection is not None and not selection.is_file():
        raise InputError(f"{selection} does not exist; the page of `sdil report` downloads it")
    check_seed(seed)
    set_threads(threads)
    if weights:
        _refuse_leaving_out(to)
    if out is None and not to:
        raise InputError("say what to write: --out FOLDER, --to same:PATH or both")
    from sdil.algorithms import load_judging  # PyTorch: seconds, which --help need not wait for
    from sdil.cli.answers import data_for, fitted_of, good_share_for, unknown_of
    from sdil.cli.chosen import print_chosen
    from sdil.cli.export import show_written
    from sdil.cli.health import health_for, print_health, refuse_unhealthy
    from sdil.cli.helped import show_helped
    from sdil.evaluation.rollout import check_spaces

    data = data_for(run, data, clean)
    exporting = prepare(to, data, overwrite=overwrite) if to else None
    if exporting is not None:
        exporting.check(curated=not weights)
    if out is not None:
        _refuse_touching(data, out)
        refuse_existing(out, overwrite=overwrite, marker="sdil.json")
    judge = load_judging(run)
    fitted = fitted_of(judge)
    name = getattr(judge, "learner", None) or getattr(judge, "name", "")
    demos, truth, about = load_demonstrations(data), load_truth(data), describe(data)
    check_spaces(judge, demos.spaces)
    sets = {"clean": demos.clean, "noisy": demos.noisy}
    scores = {name: judge.score(trajectories) for name, trajectories in sets.items()}
    try:
        curated = keep_what_is_good(
            demos,
            scores[which],
            by=by,
            keep_above=keep_above,
            keep_share=keep_share,
            selection=None if selection is None else read_json(selection, what="a selection"),
            weights=weights,
            power=power,
            at_most=at_most,
            min_length=min_length,
            which=which,
            unknown=unknown_of(judge),
            good_share=good_share_for(run, judge, demos),
            cross_judged=None if fitted is None else fitted.cross_judged,
        )
    except InputError as error:
        raise InputError(_as_options(str(error), selection)) from None
    by_threshold = keep_above is not None and which == "noisy"
    at = 0.0 if keep_above is None else keep_above
    health = health_for(run, judge, demos, threshold=at, may_refit=by_threshold)
    drops = curated.why_all is None and not all(mask.all() for mask in curated.kept)
    if by_threshold and drops and by != "episode":
        refuse_unhealthy(health)
    rule = {
        "by": curated.by,
        "keep_above": keep_above,
        "keep_share": keep_share,
        "selection": None if selection is None else str(selection),
        "weights": weights,
        "power": power if weights else None,
        "at_most": at_most if weights else None,
        "min_length": min_length,
    }
    summary = summarise(curated, sets[which], truth)
    made = {"run": str(run), "learner": name, "data": str(data), "set": which, **rule}
    source = origin_of(data)
    if not as_json:
        if clean is not None:
            print_chosen(data, demos)
        print_health(health)

    def write_more(folder: Path) -> None:
        _write_more(folder, made, demos.fingerprint(), curated, summary)
        table = {
            name: ScoredSet(
                sets[name].ids,
                scores[name],
                {**frames_of(source, sets[name]), **_columns(name, curated, sets[name])},
            )
            for name in sets
        }
        write_scores(folder / "scores.parquet", table)

    if out is not None:
        save_demonstrations(
            curated.demos,
            out,
            task=about["task"],
            environment=about["environment"],
            truth=None if truth is None else _cut_truth(truth, curated),
            origin={**about["origin"], "curated": f"{which} set of {data} by {name}"},
            source=None if source is None else _cut_origin(source, curated, sets),
            overwrite=overwrite,
            write_more=write_more,
        )
    written = []
    if exporting is not None:
        answers = exporting.answer(
            sets, scores, {which: curated.kept}, {which: curated.weights} if weights else {}
        )
        written = exporting.write(lambda _: answers, curated=not weights)
    if not as_json:
        show_kept(curated, summary, weights)
        if out is not None:
            print_wrapped(f"written to {out}; look at it with:")
            print_command(f"sdil inspect {shlex.quote(str(out))}")
        show_written(written)
    helped = None if no_check else _check(demos, curated, out, seed)
    if as_json:
        answer = None if helped is None else asdict(helped)
        to_where = {"out": None if out is None else str(out)}
        exported = {"written": [asdict(w) for w in written]} if to else {}
        told = {"health": health.as_json(), "helped": answer}
        print_json({**to_where, **made, **summary, **exported, **told})
    elif helped is not None:
        show_helped(helped)


def _check(demos: Demonstrations, curated: Curated, out: Path | None, seed: int) -> Helped:
    """Whether it helped, noted in the folder too, which is whole already."""
    from sdil.evaluation.helped import did_it_help

    try:
        with progress("does it help?") as update:
            helped = did_it_help(demos, curated, seed=seed, on_progress=update)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; {out or 'what was written'} is whole, but whether it helps was not "
            "measured"
        ) from None
    if out is None:
        return helped
    about = out / "curated.json"
    write_json(about, {**read_json(about, what="a curated folder"), "helped": asdict(helped)})
    return helped


def _refuse_leaving_out(to: Sequence[str]) -> None:
    """A list of what to leave out says nothing where every step is kept."""
    kinds = [text.partition(":")[0] for text in to]
    for kind in ("trim", "delete-command"):
        if kind in kinds:
            raise InputError(
                f"--to {kind} lists what to leave out, and --weights leaves nothing out: give "
                "--keep-above or --keep-share in the place of --weights, or write the weights with "
                "--to same:PATH (of LeRobot: weights:PATH)"
            )


def _refuse_touching(data: str, out: Path) -> None:
    if is_source(data):
        data = parse_address(data).location
    original, new = Path(data).resolve(), out.resolve()
    if new == original or new in original.parents or original in new.parents:
        raise InputError(
            f"{out} would lie in or over {data}, which is never touched; choose another place"
        )


def _as_options(message: str, selection: Path | None) -> str:
    """The same message in the words of the command line."""
    for name in ("keep_above", "keep_share", "min_length", "at_most"):
        message = message.replace(name, "--" + name.replace("_", "-"))
    message = re.sub(r'by="(\w+)"', r"--by \1", message)
    return message if selection is None else message.replace("selection", str(selection), 1)


def _columns(name: str, curated: Curated, trajectories: Trajectories) -> dict[str, Any]:
    if name == curated.which:
        return {"kept": curated.kept, "weight": curated.weights}
    whole = [np.ones(length) for length in trajectories.lengths]
    return {"kept": [w.astype(bool) for w in whole], "weight": whole}


def _write_more(
    folder: Path, made: dict[str, Any], fingerprint: str, curated: Curated, summary: dict[str, Any]
) -> None:
    episodes = [
        {
            "source": p.source,
            "start": p.start,
            "stop": p.stop,
            "optimality": p.optimality,
            "how_well": p.how_well,
        }
        for p in curated.pieces
    ]
    annotate_episodes(folder, curated.which, episodes)
    write_json(
        folder / "curated.json",
        {
            "format": FORMAT,
            "version": VERSION,
            **made,
            "fingerprint": fingerprint,
            "summary": summary,
            "helped": None,
            "episodes": [
                {"id": p.id, **told} for p, told in zip(curated.pieces, episodes, strict=True)
            ],
        },
    )


def _cut_origin(origin: Origin, curated: Curated, sets: Mapping[str, Trajectories]) -> Origin:
    """The source's own numbers of the frames of each piece."""
    lengths = dict(zip(sets[curated.which].ids, sets[curated.which].lengths, strict=True))
    frames = dict(origin.frames)
    for piece in curated.pieces:
        of_source = origin.frames_of(piece.source, int(lengths[piece.source]))
        numbered = Numbered.of(of_source[piece.start : piece.stop])
        if numbered != Numbered():
            frames[piece.id] = numbered
    return replace(origin, frames=frames)


def _cut_truth(truth: Truth, curated: Curated) -> Truth:
    if curated.which == "clean":
        skills = truth.clean_skill
        return replace(
            truth,
            clean_good=curated.take(truth.clean_good),
            clean_skill=None if skills is None else curated.take(skills),
        )
    segments, skills = truth.noisy_segment, truth.noisy_skill
    return replace(
        truth,
        noisy_good=curated.take(truth.noisy_good),
        noisy_segment=None if segments is None else curated.take(segments),
        noisy_skill=None if skills is None else curated.take(skills),
    )
