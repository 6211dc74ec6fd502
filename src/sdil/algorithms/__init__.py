"""The registry: every learner and every judge by name, and what they save."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from sdil.acting import rule_of
from sdil.algorithms.acil import ACIL
from sdil.algorithms.airl import AIRL
from sdil.algorithms.bc import BC
from sdil.algorithms.cail import CAIL
from sdil.algorithms.demodice import DemoDICE
from sdil.algorithms.density_irl import DensityIRL
from sdil.algorithms.dwbc import DWBC
from sdil.algorithms.gail import GAIL
from sdil.algorithms.ileed import ILEED
from sdil.algorithms.isw_bc import ISWBC
from sdil.algorithms.learner import Learner
from sdil.algorithms.mce_irl import MCEIRL
from sdil.algorithms.oracle import Oracle
from sdil.algorithms.scored_bc import ScoredBC
from sdil.algorithms.sdil import SDIL
from sdil.algorithms.seeing import takes_images
from sdil.algorithms.weighing import InnerJudge, WeighingLearner
from sdil.algorithms.weighted_bc import WeightedBC
from sdil.errors import InputError
from sdil.judges.deminf import DemInf, DemInfJudge
from sdil.judges.fitted import EvidenceJudge
from sdil.judges.judge import Judge
from sdil.judges.pu import PU, SkillJudge
from sdil.judges.step_networks import NetworkJudge
from sdil.judging import JUDGE, AnyJudge, FittedJudge, read_judge
from sdil.named import check_has, find_named
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.networks.observing import Features, ObservationEncoder
from sdil.networks.policies import PlainPolicy
from sdil.policy import Policy, read_policy
from sdil.progress import shown_by_fit

LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner
    for learner in (
        SDIL,
        BC,
        DensityIRL,
        MCEIRL,
        AIRL,
        GAIL,
        ACIL,
        DWBC,
        ISWBC,
        DemoDICE,
        ILEED,
        CAIL,
        WeightedBC,
        ScoredBC,
        Oracle,
    )
}

JUDGES: dict[str, type[Any]] = {
    Judge.name: Judge,
    PU.name: PU,
    DemInf.name: DemInf,
    **{kind.name: kind for kind in (WeightedBC, DWBC, ISWBC, DemoDICE, ILEED, CAIL)},
}
"""Every judge by name: the dataclass of its fields. `make_judge` makes it."""

for _kind in (*LEARNERS.values(), *JUDGES.values(), InnerJudge):
    shown_by_fit(takes_images(_kind))

_POLICIES: dict[str, type[Policy]] = {
    policy.kind: policy for policy in (HierarchicalPolicy, PlainPolicy)
}
_FITTED: dict[str, type[FittedJudge]] = {
    judge.kind: judge for judge in (EvidenceJudge, SkillJudge, DemInfJudge, NetworkJudge)
}


_OF_LEARNERS = (
    *("fit", "name", "reference", "noisy_set", "environment", "judges_steps", "takes_judge"),
    *("takes_truth", "real_actions", "__dataclass_fields__"),
)


def find_learner(name: str) -> type[Learner]:
    """The learner of this name: one of ours, of an entry point, or `module:Class` of the user's."""
    if name in LEARNERS:
        return LEARNERS[name]
    found = find_named(name, "sdil.learners")
    if found is None:
        raise InputError(
            f"there is no learner {name!r}; there are {', '.join(LEARNERS)}, or your own as "
            "module:Class"
        )
    check_has(found, name, "learner", _OF_LEARNERS)
    return shown_by_fit(takes_images(found))


def find_judge(name: str) -> type[Any]:
    """The judge of this name, likewise."""
    if name in JUDGES:
        return JUDGES[name]
    found = find_named(name, "sdil.judges")
    if found is None:
        raise InputError(
            f"there is no judge {name!r}; there are {', '.join(JUDGES)}, or your own as "
            "module:Class"
        )
    check_has(found, name, "judge", ("fit", "name", "reference", "__dataclass_fields__"))
    own = getattr(found, "fitted", None)
    if own is not None:
        _FITTED.setdefault(own.kind, own)  # so that what it saves is read again
    return shown_by_fit(takes_images(found))


def make_judge(name: str, **fields: Any) -> AnyJudge:
    """The judge of this name; those that learners have inside take the learner's fields."""
    made = find_judge(name)(**fields)
    return InnerJudge(made) if isinstance(made, WeighingLearner) else made


def load_policy(folder: str | Path, *, features: Features | str | None = None) -> Policy:
    """Read a policy that `policy.save` or `sdil train` wrote; one that sees pictures by features of
    yours needs them again."""
    build = partial(ObservationEncoder.build, features=features)
    return read_policy(folder, _POLICIES, _FITTED, rule_of, build)


def load_judge(folder: str | Path, *, features: Features | str | None = None) -> FittedJudge:
    """Read a judge that `judge.save` or `sdil judge` wrote; `features` as `load_policy` takes
    them."""
    return read_judge(folder, _FITTED, partial(ObservationEncoder.build, features=features))


def load_judging(folder: str | Path) -> FittedJudge | Policy:
    """What judges steps in a folder: a judgement, or the policy of a run that has a judge."""
    folder = Path(folder)
    if (folder / f"{JUDGE}.json").exists():
        return load_judge(folder)
    policy = load_policy(folder)
    if policy.judge is None:
        raise InputError(
            f"{folder}: {policy.learner} does not judge steps, or had no noisy ones to learn it "
            "from; `sdil algorithms` says which learners do, and `sdil judge` needs no policy"
        )
    return policy
