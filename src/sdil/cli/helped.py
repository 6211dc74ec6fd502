"""Whether curating helped, as commands print it."""

from __future__ import annotations

from sdil.cli.console import plain, print_table, show
from sdil.evaluation.comparisons import Estimate
from sdil.evaluation.helped import DRAWS, LABELS, Helped


def show_helped(helped: Helped) -> None:
    """The table, what its words mean, and the verdict."""
    if helped.rows:
        print_table(
            f"does it help? behaviour cloning, on {helped.groups} clean groups in turn held out",
            ["learned on", "NLL", "error, %", "NLL minus all", "minus random"],
            [
                [
                    row.name,
                    _with_reach(row.nll),
                    _with_reach(row.error, 100, ".1f"),
                    _with_reach(row.minus_all, form="+.3f"),
                    _with_reach(row.minus_random, form="+.3f"),
                ]
                for row in helped.rows
            ],
        )
        print(
            f"mean over groups ± 95% interval; {helped.folds} folds, seed {helped.seed}\n"
            "all, curated, weighted: clean with all noisy steps, those kept, all weighed;\n"
            f"random: as much left out, or the same weights dealt, at random, best of {DRAWS}"
        )
    print(plain(helped.sentence))
    if helped.recommended is not None:
        print(f"lowest NLL, and so recommended: {LABELS[helped.recommended]}")


def _with_reach(estimate: Estimate | None, times: float = 1, form: str = ".3f") -> str:
    if estimate is None:
        return show(None)
    value = format(times * estimate.value, form)
    if estimate.high is None:
        return value
    return f"{value} ± {format(times * (estimate.high - estimate.value), form.lstrip('+'))}"
