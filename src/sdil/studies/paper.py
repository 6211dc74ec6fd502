"""The paper's experiments, and those it lacks, as data.

Table 1, the sensitivity to lambda, epsilon and the share of clean demonstrations (section 5) and
SDIL*; then the number of skills, the size of the noisy set, the share of bad steps, the curve over
clean trajectories, and what the step score is worth, part by part. "Clean only" is the paper's
first setting. Learners that weigh noisy steps are BC without any, and so appear in the second
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sdil.studies.cell import MIMIC, Cell, Value, check_asked, sorted_fields
from sdil.studies.grid import Claim, Entry, Study
from sdil.studies.source import Sources

FULL_SEEDS = (0, 1, 2, 3, 4)
TEN_SEEDS = tuple(range(10))
QUICK_SEEDS = (0, 1)

LAMBDAS = (0.0, 0.2, 0.5, 0.8, 1.0, 2.0, 3.0)
EPSILONS = (0.0, 0.1, 0.2, 0.4, 0.5)
CLEAN_SHARES = (0.1, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0)  # the paper's, and the half of its claim
SKILLS = (1, 2, 4, 8, 16, 32)
NOISY_SIZES = (0, 100, 300, 600, 1_200)
EXPERT_SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
CLEAN_SIZES = (10, 30, 100, 300, 600)

BASE = "BC, clean only"
ALL_CLEAN = f"{BASE}, all of it"
NO_DEC = "SDIL, no DEC"

ACTING = (
    "Rewards are those of acting greedily, for everyone. Not going round in circles, a rule of "
    "acting that any policy can follow, brings most of them much: see the rewards without circles."
)

_PRACTISE: dict[str, Value] = {"env_steps": 50_000}
_QUICK: dict[str, dict[str, Value]] = {
    **dict.fromkeys(("airl", "gail", "acil", "density-irl"), _PRACTISE),
    "mce-irl": {"reward_min_updates": 10, "reward_max_updates": 30, "max_updates": 1_000},
}


@dataclass(frozen=True)
class Options:
    """What a person may change of every study."""

    seeds: tuple[int, ...] | None = None
    clean: int | None = None
    noisy: int | None = None
    quick: bool = False
    data: str | None = None
    """A folder of `sdil mimic build`: adds the task "mimic" to table 1."""

    def __post_init__(self) -> None:
        check_asked(self.clean, self.noisy, self.seeds or ())

    @property
    def all_seeds(self) -> tuple[int, ...]:
        return self.seeds or (QUICK_SEEDS if self.quick else FULL_SEEDS)

    def sizes(self, clean: int, noisy: int) -> tuple[int, int]:
        """Clean and noisy trajectories: as asked for, small where it must be quick, or these."""
        if self.quick:
            clean, noisy = 10, 100
        clean = clean if self.clean is None else self.clean
        return clean, noisy if self.noisy is None else self.noisy

    def clean_sizes(self, usual: tuple[int, ...], quick: tuple[int, ...]) -> tuple[int, ...]:
        """The points of a curve over clean trajectories; the one that is asked for alone."""
        if self.clean is not None:
            return (self.clean,)
        return quick if self.quick else usual


@dataclass(frozen=True)
class Method:
    """A learner as a row of a table."""

    row: str
    learner: str
    fields: tuple[tuple[str, Value], ...] = ()
    clean_only: bool = False
    judge: str | None = None
    judge_fields: tuple[tuple[str, Value], ...] = ()

    def __call__(self, options: Options, **more: Any) -> Cell:
        """Its cell."""
        fields = dict(self.fields) | more.pop("fields", {})
        if options.quick:
            fields = _QUICK.get(self.learner, {}) | fields
        if self.clean_only:
            more |= {"noisy": 0}
        return Cell(
            learner=self.learner,
            fields=sorted_fields(fields),
            judge=self.judge,
            judge_fields=self.judge_fields,
            **more,
        )


def _method(row: str, learner: str, **fields: Value) -> Method:
    return Method(row, learner, sorted_fields(fields))


def _judged(row: str, **fields: Value) -> Method:
    """SDIL with our judge, some of whose fields are others."""
    return Method(row, "sdil", judge="evidence", judge_fields=sorted_fields(fields))


def _clean(method: Method) -> Method:
    return Method(f"{method.row}, clean only", method.learner, method.fields, clean_only=True)


BC = _method("BC", "bc")
BC_BACK = _method("BC, 5 steps back", "bc", look_back=5)
DWBC = _method("DWBC", "dwbc")
ISW_BC = _method("ISW-BC", "isw-bc")
DEMODICE = _method("DemoDICE", "demodice")
WEIGHTED = _method("weighted BC", "weighted-bc")
SCORED = _method("scored BC", "scored-bc")
SDIL = _method("SDIL", "sdil")
ORACLE = _method("oracle (a limit)", "oracle")
_IMITATORS = (
    BC,
    BC_BACK,
    _method("DensityIRL", "density-irl"),
    _method("MCE IRL", "mce-irl"),
    _method("AIRL", "airl"),
    _method("GAIL", "gail"),
)


def _as_in_the_paper() -> Method:
    return Method(
        "SDIL as in the paper", "sdil", sorted_fields(Sources().preset_of("sdil", "paper"))
    )


def table1(options: Options) -> Study:
    """Every method, both settings, every task."""
    methods = [
        *(_clean(m) for m in (*_IMITATORS, SDIL)),
        *_IMITATORS,
        _method("ACIL", "acil"),
        DWBC,
        ISW_BC,
        DEMODICE,
        _method("ILEED", "ileed"),
        _method("CAIL", "cail"),
        WEIGHTED,
        SCORED,
        _method("SDIL*", "sdil", next_state=False),
        _as_in_the_paper(),
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
                base = _clean(BC)
                cells = {
                    BASE: base(options, **part | {"clean": size}),
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
    star = _method("SDIL*", "sdil", next_state=False)
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
    title = "From 10 to 600 clean trajectories"
    return _over_clean(options, "curve", title, sizes, (WEIGHTED, DWBC), (ORACLE,))


def noisy_size(options: Options) -> Study:
    """How much a larger noisy set helps."""
    methods = (_clean(BC), BC, WEIGHTED, DWBC, SDIL, ORACLE)
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
    methods = (_clean(BC), BC, WEIGHTED, DWBC, SDIL, ORACLE)
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
        _clean(BC),
        DWBC,
        ISW_BC,
        DEMODICE,
        WEIGHTED,
        SCORED,
        _as_in_the_paper(),
        SDIL,
        ORACLE,
    )
    parts = (
        _judged("SDIL, no likelihood", signals="progress+value"),
        _judged("SDIL, no progress", signals="likelihood+value"),
        _judged("SDIL, no value", signals="likelihood+progress"),
        _method("SDIL, the paper's score", "sdil", score="pu"),
        _method("SDIL, noisy steps imitated", "sdil", noisy_share=0.75),
        _method("SDIL, no filter of pairs", "sdil", epsilon=1.0),
        _method("SDIL, L_adv 0.1", "sdil", adv_weight=0.1),
    )
    usual = {"fourrooms": (10, 30, 100), "doorkey-6x6": (30,), "sepsis": (100,)}
    places = {task: options.clean_sizes(sizes, quick=(10,)) for task, sizes in usual.items()}
    taken_apart = {("fourrooms", 30 if 30 in places["fourrooms"] else places["fourrooms"][0])}
    _, noisy = options.sizes(0, 600)
    seeds = options.seeds or (QUICK_SEEDS if options.quick else TEN_SEEDS)
    entries = [
        Entry(m.row, m(options, task=task, clean=size, noisy=noisy, seed=seed), size)
        for seed in seeds
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
                    BASE: _clean(BC)(options, **place),
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
        for m in (_clean(BC), *others, SDIL, *limits)
    ]
    return _curve(name, title, "clean trajectories", entries)


def _curve(name: str, title: str, axis: str, entries: Sequence[Entry]) -> Study:
    """In sepsis the paper looks at macro AUROC, elsewhere at the reward."""
    measures = {"sepsis": "macro_auroc"}
    return Study(name, title, tuple(entries), axis, measures, remark=ACTING)
