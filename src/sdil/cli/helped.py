"""Whether curating helped, as commands print it and as the report shows it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sdil.cli.answers import fitted_of, good_share_for, unknown_of
from sdil.cli.console import print_table, print_wrapped, show
from sdil.curation import curate
from sdil.demonstrations import Demonstrations
from sdil.errors import InputError
from sdil.evaluation.comparisons import Estimate
from sdil.evaluation.helped import DRAWS, LABELS, Helped, did_it_help
from sdil.files import read_json
from sdil.formats.data import origin_of
from sdil.judging import FittedJudge
from sdil.policy import Policy

Shown = dict[str, Any]


def helped_of(
    run: Path,
    data: str,
    judge: FittedJudge | Policy,
    demos: Demonstrations,
    curated: Path | None,
    seed: int,
    measure: Callable[..., None] | None,
) -> Shown | None:
    """What the report's last section shows; None where there is none.

    `curated` is a folder of `sdil curate`; `measure` is told how far a measurement is. Where
    neither is given, imported data ends with the command that measures it.
    """
    command = shlex.join(["sdil", "curate", str(run), "--keep-above", "0", "--out", "CURATED"])
    if curated is not None:
        about = read_json(curated / "curated.json", what="a folder that `sdil curate` wrote")
        found = about.get("helped") if isinstance(about, dict) else None
        if not isinstance(found, dict):
            raise InputError(f"{curated}: whether it helped was not measured (--no-check)")
        return _shown(found, _rule(about))
    if measure is not None:
        fitted = fitted_of(judge)
        try:
            kept = curate(
                demos,
                judge.score(demos.noisy),
                keep_above=0.0,
                unknown=unknown_of(judge),
                good_share=good_share_for(run, judge, demos),
                cross_judged=None if fitted is None else fitted.cross_judged,
            )
        except InputError as error:
            return {"sentence": f"not measured: {error}", "rows": [], "rule": "", "command": None}
        found = asdict(did_it_help(demos, kept, seed=seed, on_progress=measure))
        return _shown(found, "Kept: segments that score at least 0.")
    if origin_of(data) is None:
        return None
    says = "Not measured yet. This does it, and writes what is kept:"
    return {"sentence": says, "rows": [], "rule": "", "command": command}


def _shown(found: Mapping[str, Any], rule: str) -> Shown:
    """The measurement as the page draws it."""
    rows = [{**row, "label": LABELS.get(row["name"], row["name"])} for row in found["rows"]]
    said = str(found["sentence"])
    best = found.get("recommended")
    if best is not None:
        how = found.get("power"), found.get("at_most")
        names = [row["name"] for row in found["rows"]]
        said += f". Recommended: {recommendation(best, *how)}, {why_recommended(best, names)}"
    return {"sentence": said[:1].upper() + said[1:], "rows": rows, "rule": rule, "command": None}


def _rule(about: Mapping[str, Any]) -> str:
    rules = {"keep_above": "score at least", "keep_share": "the best share of"}
    for name, words in rules.items():
        if about.get(name) is not None:
            return f"Kept by {about.get('by')}: {words} {about[name]}."
    if about.get("power") is not None:
        held = about.get("at_most")
        together = "" if held is None else f", together at most {held:g} times what clean ones do"
        return (
            f"Weighed by how probably each step is good, to the power {about['power']:g}{together}."
        )
    return f"Kept by {about.get('by')}."


def show_helped(helped: Helped) -> None:
    """The table, what its words mean, and the verdict."""
    if helped.rows:
        times, form, unit = (100, ".1f", "%") if helped.error_in == "shares" else (1, ".3f", "sd")
        print_table(
            f"does it help? behaviour cloning, on {helped.groups} clean groups in turn held out",
            ["learned on", "NLL", f"error, {unit}", "NLL minus all", "minus random"],
            [
                [
                    row.name,
                    _with_reach(row.nll),
                    _with_reach(row.error, times, form),
                    _with_reach(row.minus_all, form="+.3f"),
                    _with_reach(row.minus_random, form="+.3f"),
                ]
                for row in helped.rows
            ],
        )
        if unit == "sd":
            print("errors in standard deviations of the recorded actions, mean over their entries")
        print(
            f"mean over groups ± 95% interval; {helped.folds} folds, seed {helped.seed}\n"
            "all, curated, weighted: clean with all noisy steps, those kept, all weighed;\n"
            f"random: as much left out, or the same weights dealt, at random, best of {DRAWS}"
        )
    print_wrapped(helped.sentence)
    if helped.recommended is not None:
        how = helped.power, helped.at_most
        why = why_recommended(helped.recommended, [row.name for row in helped.rows])
        print_wrapped(f"recommended: {recommendation(helped.recommended, *how)}, {why}")


def recommendation(row: str, power: float | None, at_most: float | None) -> str:
    """What to learn from, in words."""
    what = LABELS.get(row, row)
    if row != "weighted" or power is None:
        return what
    held = "" if at_most is None else f" --at-most {at_most:g}"
    return f"{what} (--weights --power {power:g}{held})"


def why_recommended(row: str, rows: Sequence[str]) -> str:
    """The rule that was followed, which is not the verdict's. `rows`: the names of all."""
    ask = "the verdict asks for 95%"
    if "weighted" not in rows:
        return f"whose NLL is the lowest; {ask}, this does not"
    enough = "by more than one standard error of the difference over groups"
    if row == "weighted":
        others = " nor ".join(LABELS[name] for name in ("clean", "all") if name in rows)
        return f"since neither {others} has an NLL that is lower {enough}; {ask}"
    return f"whose NLL is lower than that of {LABELS['weighted']} {enough}; {ask}"


def _with_reach(estimate: Estimate | None, times: float = 1, form: str = ".3f") -> str:
    if estimate is None:
        return show(None)
    value = format(times * estimate.value, form)
    if estimate.high is None:
        return value
    return f"{value} ± {format(times * (estimate.high - estimate.value), form.lstrip('+'))}"
