"""The registry: every learner by name, and every kind of policy they save."""

from __future__ import annotations

from pathlib import Path

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
from sdil.algorithms.weighted_bc import WeightedBC
from sdil.networks.hierarchical import HierarchicalPolicy
from sdil.networks.judges import JudgingPolicy
from sdil.networks.policies import PlainPolicy
from sdil.policy import Policy, read_policy

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

_KINDS: dict[str, type[Policy]] = {
    policy.kind: policy for policy in (HierarchicalPolicy, PlainPolicy, JudgingPolicy)
}


def load_policy(folder: str | Path) -> Policy:
    """Read a policy that `policy.save` or `sdil train` wrote."""
    return read_policy(folder, _KINDS)
