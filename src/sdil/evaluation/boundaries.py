"""How well segments were found, where their true borders are known."""

from __future__ import annotations

from collections.abc import Sequence

from sdil.spaces import Array


def boundary_f1(found: Sequence[Array], true: Sequence[Array], *, tolerance: int = 1) -> float:
    """F1 of borders over all demonstrations; each true one is matched at most once.

    A found border is right where a true one lies within `tolerance` steps of it.
    """
    right = n_found = n_true = 0
    for ours, theirs in zip(found, true, strict=True):
        n_found += len(ours)
        n_true += len(theirs)
        left = sorted(theirs.tolist())
        for border in sorted(ours.tolist()):
            near = [t for t in left if abs(t - border) <= tolerance]
            if near:
                left.remove(near[0])
                right += 1
    return 2 * right / (n_found + n_true) if n_found + n_true else 1.0
