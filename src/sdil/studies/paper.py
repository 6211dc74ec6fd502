"""The paper's experiments, and those it lacks, as data.

Table 1, the sensitivity to lambda, epsilon and the share of clean demonstrations (section 5) and
SDIL*; then the number of skills, the size of the noisy set, the share of bad steps, the curve over
clean trajectories, and what the step score is worth, part by part. "Clean only" is the paper's
first setting. Learners that weigh noisy steps are BC without any, and so appear in the second
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sdil.studies.cell import MIMIC
from sdil.studies.grid import Claim, Entry, Study
from sdil.studies.methods import (
    BC,
    DEMODICE,
    DWBC,
    IMITATORS,
    ISW_BC,
    ORACLE,
    SCORED,
    SDIL,
    SIMPLE,
    WEIGHTED,
    Method,
    Options,
    clean_only,
    judged,
    method,
    presets,
)

LAMBDAS = (0.0, 0.2, 0.5, 0.8, 1.0, 2.0, 3.0)
EPSILONS = (0.0, 0.1, 0.2, 0.4, 0.5)
CLEAN_SHARES = (0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)  # the paper's, and the half of its claim
SKILLS = (1, 2, 4, 8, 16, 32)
NOISY_SIZES = (0, 100, 300, 600, 1_200)
EXPERT_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
CLEAN_SIZES = (5, 10, 30, 100)  # those of the grid that asks whether SDIL is ever the wrong choice

BASE = "BC, clean only"
ALL_CLEAN = f"{BASE}, all of it"
NO_DEC = "SDIL, no DEC"

ACTING = (
    "All policies act by the same rule: greedily, without going round in circles, or by drawing "
    "actions; each is a column, and who is better is said within it. Clean demonstrations are all "
    "told: none are held back to validate, and there are no others."
)


def table1(options: Options) -> Study:
    """Every method, both settings, every task."""
    methods = [
        *(clean_only(m) for m in (*IMITATORS, SDIL)),
        *IMITATORS,
        method("ACIL", "acil"),
        DWBC,
        ISW_BC,
        DEMODICE,
        method("ILEED", "ileed"),
        method("CAIL", "cail"),
        WEIGHTED,
        SCORED,
        method("SDIL*", "sdil", next_state=False),
        *presets(),
        SDIL,
        ORACLE,
    ]
    clean, noisy = options.sizes(100, 600)
    entries = [
        Entry(m.row, m(options, task=task, clean=clean, noisy=noisy, seed=seed))
        for seed in options.all_seeds
        for task in ("fourrooms", "doorkey-5x5", "sepsis")
        for m in methods
    ]
    if options.data is not None:
        more: dict[str, Any] = {"task": MIMIC, "data": options.data, "clean": options.clean}
        entries += [
            Entry(m.row, m(options, seed=seed, noisy=options.noisy, **more))
            for seed in options.all_seeds
            for m in methods
            if m != ORACLE  # nobody knows the truth there
        ]
    title = "Table 1: every method, both settings"
    measures = {MIMIC: "macro_auroc"}
    return Study("table1", title, tuple(entries), measures=measures, remark=ACTING)


def sensitivity_to_lambda(options: Options) -> Study:
    """SDIL over lambda, with and without DEC, against clean BC."""
    return _sensitivity(options, "lambda", "lambda, the weight of L_mi", "mi_weight", LAMBDAS)


def sensitivity_to_epsilon(options: Options) -> Study:
    """SDIL over epsilon, with and without DEC, against clean BC."""
    return _sensitivity(options, "epsilon", "epsilon, the threshold of trust", "epsilon", EPSILONS)


def skills(options: Options) -> Study:
    """SDIL over the number of skills."""
    return _sensitivity(
        options,
        "skills",
        "K, the number of skills",
        "n_skills",
        SKILLS,
        with_dec_only=True,
        tasks=("fourrooms",),
    )


def clean_share(options: Options) -> Study:
    """SDIL on a share of the clean set, against BC on it and on all."""
    entries = []
    for task, (clean, noisy) in _places(options, 100, 100).items():
        for share in CLEAN_SHARES:
            for seed in options.all_seeds:
                part: dict[str, Any] = {"task": task, "noisy": noisy, "seed": seed}
                size = max(1, round(share * clean))
                base = clean_only(BC)
                cells = {
                    **{m.row: m(options, **part | {"clean": size}) for m in SIMPLE},
                    ALL_CLEAN: base(options, **part | {"clean": clean}),
                    NO_DEC: SDIL(options, **part, clean=size, fields={"zeta_step": 0.0}),
                    SDIL.row: SDIL(options, **part, clean=size),
                }
                entries += [Entry(row, cell, share) for row, cell in cells.items()]
    title = "Sensitivity to the share of clean demonstrations"
    made = _curve("clean-size", title, "share of the clean demonstrations", entries)
    claim = Claim("half of the clean demonstrations beat BC on all of them", ALL_CLEAN, 0.5)
    return replace(made, claim=claim)


def no_next_state(options: Options) -> Study:
    """SDIL and SDIL*, which is blind to the next state."""
    star = method("SDIL*", "sdil", next_state=False)
    sizes = options.clean_sizes((10, 30, 100), quick=(10,))
    return _over_clean(
        options,
        "no-next-state",
        "SDIL*: discovery without the next state",
        sizes,
        (star,),
        tasks=("fourrooms", "sepsis"),
    )


def curve(options: Options) -> Study:
    """The methods that matter most over clean sizes, and the limit."""
    sizes = options.clean_sizes(CLEAN_SIZES, quick=(10, 30))
    title = "From 5 to 100 clean trajectories"
    others = (WEIGHTED, DWBC, *presets())
    return _over_clean(options, "curve", title, sizes, others, (ORACLE,))


def noisy_size(options: Options) -> Study:
    """How much a larger noisy set helps."""
    methods = (*SIMPLE, WEIGHTED, DWBC, SDIL, ORACLE)
    clean, _ = options.sizes(30, 600)
    sizes: tuple[int, ...] = (0, 100) if options.quick else NOISY_SIZES
    sizes = sizes if options.noisy is None else (options.noisy,)
    entries = [
        Entry(m.row, m(options, task="fourrooms", clean=clean, noisy=size, seed=seed), size)
        for size in sizes
        for seed in options.all_seeds
        for m in methods
    ]
    return _curve("noisy-size", "The size of the noisy set", "noisy trajectories", entries)


def bad_share(options: Options) -> Study:
    """A share of the noisy set replaced by an expert's."""
    methods = (*SIMPLE, WEIGHTED, DWBC, SDIL, ORACLE)
    clean, noisy = options.sizes(30, 600)
    entries = [
        Entry(
            m.row,
            m(
                options,
                task="fourrooms",
                clean=clean,
                noisy=noisy,
                seed=seed,
                expert_share=0.0 if m.clean_only else share,
            ),
            share,
        )
        for share in EXPERT_SHARES
        for seed in options.all_seeds
        for m in methods
    ]
    axis = "share of noisy trajectories that are an expert's"
    return _curve("bad-share", "The share of bad steps in the noisy set", axis, entries)


def scores(options: Options) -> Study:
    """What the step score is worth: against other weights, and with each of its parts left out."""
    methods = (
        clean_only(BC),
        BC,
        DWBC,
        ISW_BC,
        DEMODICE,
        WEIGHTED,
        SCORED,
        *presets(),
        clean_only(SDIL),
        SDIL,
        ORACLE,
    )
    parts = (
        judged("SDIL, no likelihood", signals="progress+value"),
        judged("SDIL, no progress", signals="likelihood+value"),
        judged("SDIL, no value", signals="likelihood+progress"),
        method("SDIL, the paper's score", "sdil", score="pu"),
        method("SDIL, noisy steps imitated", "sdil", noisy_share=0.75),
        method("SDIL, no filter of pairs", "sdil", epsilon=1.0),
        method("SDIL, L_adv 0.1", "sdil", adv_weight=0.1),
    )
    usual = {"fourrooms": (10, 30, 100), "doorkey-6x6": (30,), "sepsis": (100,)}
    places = {task: options.clean_sizes(sizes, quick=(10,)) for task, sizes in usual.items()}
    taken_apart = {("fourrooms", 30 if 30 in places["fourrooms"] else places["fourrooms"][0])}
    _, noisy = options.sizes(0, 600)
    entries = [
        Entry(m.row, m(options, task=task, clean=size, noisy=noisy, seed=seed), size)
        for seed in options.all_seeds
        for task, sizes in places.items()
        for size in sizes
        for m in (*methods, *(parts if (task, size) in taken_apart else ()))
    ]
    return _curve("scores", "What the step score is worth", "clean trajectories", entries)


STUDIES: dict[str, Callable[[Options], Study]] = {
    "table1": table1,
    "lambda": sensitivity_to_lambda,
    "epsilon": sensitivity_to_epsilon,
    "clean-size": clean_share,
    "no-next-state": no_next_state,
    "skills": skills,
    "noisy-size": noisy_size,
    "bad-share": bad_share,
    "curve": curve,
    "scores": scores,
}
BY_NAME_ALONE = ("curve", "scores")
"""Not among "all", which takes less than four hours on two cores."""


def _places(options: Options, fourrooms: int, sepsis: int) -> dict[str, tuple[int, int]]:
    """The paper's two tasks of sensitivity, with clean and noisy sizes."""
    return {
        "fourrooms": options.sizes(fourrooms, 600),
        "sepsis": options.sizes(sepsis, 600),
    }


def _sensitivity(
    options: Options,
    name: str,
    axis: str,
    field: str,
    values: Sequence[float],
    *,
    with_dec_only: bool = False,
    tasks: Sequence[str] = ("fourrooms", "sepsis"),
) -> Study:
    entries = []
    places = _places(options, 30, 100)
    for task in tasks:
        clean, noisy = places[task]
        for value in values:
            for seed in options.all_seeds:
                place: dict[str, Any] = {"task": task, "clean": clean, "noisy": noisy, "seed": seed}
                cells = {
                    **{m.row: m(options, **place) for m in SIMPLE},
                    SDIL.row: SDIL(options, **place, fields={field: value}),
                }
                if not with_dec_only:
                    without = {field: value, "zeta_step": 0.0}
                    cells[NO_DEC] = SDIL(options, **place, fields=without)
                entries += [Entry(row, cell, value) for row, cell in cells.items()]
    return _curve(name, f"Sensitivity to {axis}", axis, entries)


def _over_clean(
    options: Options,
    name: str,
    title: str,
    sizes: Iterable[int],
    others: Sequence[Method],
    limits: Sequence[Method] = (),
    tasks: Sequence[str] = ("fourrooms", "doorkey-6x6"),
) -> Study:
    _, noisy = options.sizes(0, 600)
    entries = [
        Entry(m.row, m(options, task=task, clean=size, noisy=noisy, seed=seed), size)
        for size in sizes
        for task in tasks
        for seed in options.all_seeds
        for m in (*SIMPLE, *others, SDIL, *limits)
    ]
    return _curve(name, title, "clean trajectories", entries)


def _curve(name: str, title: str, axis: str, entries: Sequence[Entry]) -> Study:
    """In sepsis the paper looks at macro AUROC, elsewhere at the reward."""
    measures = {"sepsis": "macro_auroc"}
    return Study(name, title, tuple(entries), axis, measures, remark=ACTING)
