"""Where steps lead on a map, cell by cell: the arrows of the paper's Figs. 8 and 9."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sdil.spaces import Array


@dataclass(frozen=True)
class Arrow:
    """The move that most steps from one cell make."""

    column: int
    row: int
    dx: int
    dy: int
    skill: int | None
    """The one that most of those moves show; None where skills are not known."""
    consistency: float
    """The share of the steps leaving the cell that make this move with this skill."""
    steps: int
    """How many steps leave the cell."""


def cell_arrows(
    positions: Array,
    moves: Array,
    skill: Array | None = None,
    *,
    least_share: float = 0.5,
    least_steps: int = 2,
) -> list[Arrow]:
    """An arrow for each cell that steps leave, most of them in the same direction.

    `positions` and `moves` are (n, 2), columns and rows; `skill` is (n,). Steps that do not move
    count for nothing. A cell is left out where fewer than `least_share` of the steps that leave it
    make the same move, or where fewer than `least_steps` do.
    """
    leaves = (moves != 0).any(1)
    skills = np.zeros(len(moves), np.int64) if skill is None else skill.astype(np.int64)
    rows = np.column_stack([positions[leaves], moves[leaves], skills[leaves]]).astype(np.int64)
    arrows = []
    cells, of_cell = np.unique(rows[:, :2], axis=0, return_inverse=True)
    for i, (column, row) in enumerate(cells.tolist()):
        here = rows[of_cell.ravel() == i]
        move, count = _commonest(here[:, 2:4])
        if count < least_steps or count < least_share * len(here):
            continue
        alike = here[(here[:, 2:4] == move).all(1)]
        shown, of_skill = _commonest(alike[:, 4:])
        arrows.append(
            Arrow(
                column=column,
                row=row,
                dx=int(move[0]),
                dy=int(move[1]),
                skill=None if skill is None else int(shown[0]),
                consistency=of_skill / len(here),
                steps=len(here),
            )
        )
    return arrows


def _commonest(rows: Array) -> tuple[Array, int]:
    """The row that occurs most often, and how often."""
    values, counts = np.unique(rows, axis=0, return_counts=True)
    best = int(counts.argmax())
    return values[best], int(counts[best])
