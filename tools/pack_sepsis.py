"""How `src/sdil/tasks/data/icu_sepsis.npz` was made from PyPI's `icu-sepsis` 2.0.1.

    pip download icu-sepsis==2.0.1 --no-deps
    python tools/pack_sepsis.py icu_sepsis-2.0.1-py3-none-any.whl

Only its numbers are read, never its code, which imports the old `gym`. Kept are the rows of
admissible actions: those of the others are means of them, which `sdil.tasks.sepsis` makes again.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from scipy.sparse import csr_array

from sdil.tasks.sepsis import DATA, DEATH, SURVIVAL, sepsis_model

ASSETS = "icu_sepsis/envs/assets/"


def main(wheel: Path) -> None:
    """Pack the numbers, and check that they unpack to what the package holds."""
    with ZipFile(wheel) as archive:
        numbers = np.load(io.BytesIO(archive.read(ASSETS + "dynamics.npz")))
        lines = archive.read(ASSETS + "admissible_actions.txt").decode().splitlines()[1:]
    transition, paid = numbers["tx_mat"], numbers["r_mat"]  # (S, A, S) each
    n_states, n_actions, _ = transition.shape
    admissible = np.zeros((n_states, n_actions), bool)
    for state, line in enumerate(lines[:n_states]):
        admissible[state, [int(action) for action in line.split()]] = True
    # The reward is 1 for arriving at survival and 0 otherwise, so that it need not be stored.
    before = np.setdiff1d(np.arange(n_states), [DEATH, SURVIVAL, SURVIVAL + 1])
    assert (paid[before][..., SURVIVAL] == 1).all()
    assert (np.delete(paid[before], SURVIVAL, 2) == 0).all()
    rows = csr_array(transition[admissible])
    np.savez_compressed(
        DATA,
        admissible=admissible,
        probabilities=rows.data,
        next_states=rows.indices.astype(np.uint16),
        row_starts=rows.indptr.astype(np.uint32),
        start=numbers["d_0"],
        clinicians=numbers["expert_policy"],
        features=numbers["state_cluster_centers"].astype(np.float32),
    )
    sepsis_model.cache_clear()
    unpacked = sepsis_model().transition.toarray().reshape(transition.shape)
    print(f"{DATA}: {DATA.stat().st_size} bytes")
    print(f"largest difference from the package: {np.abs(unpacked - transition).max()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
