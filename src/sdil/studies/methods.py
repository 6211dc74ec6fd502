"""The rows of the studies that come with sdil: learners with their fields, and what a person may
change of every study.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdil.studies.cell import Cell, Value, check_asked, sorted_fields
from sdil.studies.source import Sources

FULL_SEEDS = (0, 1, 2, 3, 4)
QUICK_SEEDS = (0, 1)

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
        more.setdefault("valid", False)  # the clean demonstrations that are named are all there are
        return Cell(
            learner=self.learner,
            fields=sorted_fields(fields),
            judge=self.judge,
            judge_fields=self.judge_fields,
            **more,
        )


def method(row: str, learner: str, **fields: Value) -> Method:
    """A learner with these fields as a row."""
    return Method(row, learner, sorted_fields(fields))


def judged(row: str, **fields: Value) -> Method:
    """SDIL with our judge, some of whose fields are others."""
    return Method(row, "sdil", judge="evidence", judge_fields=sorted_fields(fields))


def clean_only(method: Method) -> Method:
    """The same without a noisy set."""
    return Method(f"{method.row}, clean only", method.learner, method.fields, clean_only=True)


BC = method("BC", "bc")
BC_BACK = method("BC, 5 steps back", "bc", look_back=5)
DWBC = method("DWBC", "dwbc")
ISW_BC = method("ISW-BC", "isw-bc")
DEMODICE = method("DemoDICE", "demodice")
WEIGHTED = method("weighted BC", "weighted-bc")
SCORED = method("scored BC", "scored-bc")
SDIL = method("SDIL", "sdil")
ORACLE = method("oracle (a limit)", "oracle")
SIMPLE = (clean_only(BC), BC, SCORED, clean_only(SDIL))
"""What stands in every curve beside SDIL."""
IMITATORS = (
    BC,
    BC_BACK,
    method("DensityIRL", "density-irl"),
    method("MCE IRL", "mce-irl"),
    method("AIRL", "airl"),
    method("GAIL", "gail"),
)


def presets() -> tuple[Method, ...]:
    """SDIL as in the paper, the same without L_adv, and as the authors released it."""
    paper, released = (Sources().preset_of("sdil", name) for name in ("paper", "released"))
    rows = {
        "SDIL as in the paper": paper,
        "SDIL as in the paper, no L_adv": paper | {"adv_weight": 0.0},
        "SDIL as released": released,
    }
    return tuple(Method(row, "sdil", sorted_fields(fields)) for row, fields in rows.items())
