"""A maze seen from above: where a disc can be, and the shortest way round the walls.

Walls are squares of a lattice. The disc's centre keeps its radius away from them, so that a
shortest way is made of straight lines that touch rounded corners; each corner is two points, the
ends of a line that touches the round in its middle, which lengthens a turn of 90 degrees by 5% of
its arc. Between these points the lengths are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from scipy.sparse.csgraph import dijkstra

from sdil.spaces import Array

PUSHED_IN = 0.05  # how far a disc may be pressed into a wall: contacts in MuJoCo give a little
_TOUCH = np.deg2rad([22.5, 67.5])  # where the two points of a corner lie, seen from it
_AT_ONCE = 500  # places looked from at a time


@dataclass(frozen=True, eq=False)
class Maze:
    """Walls, the lattice they lie on, and the disc that moves between them."""

    walls: Array
    """True for a wall. (rows, columns)"""
    unit: float
    """The width of a cell."""
    origin: tuple[float, float]
    """x and y of the centre of the cell in row 0, column 0."""
    radius: float
    """Of the disc."""

    def centre(self, row: int, column: int) -> Array:
        """x and y of a cell's centre. (2,)"""
        return np.array([self.origin[0] + column * self.unit, self.origin[1] + row * self.unit])

    @cached_property
    def free_cells(self) -> list[tuple[int, int]]:
        """Rows and columns of the cells without a wall."""
        return [(int(r), int(c)) for r, c in np.argwhere(~self.walls)]

    @cached_property
    def corners(self) -> tuple[Array, Array]:
        """Corners of walls that a way can bend round, and the side that is free. (k, 2) each"""
        places, sides = [], []
        for row in range(len(self.walls) - 1):
            for column in range(self.walls.shape[1] - 1):
                block = self.walls[row : row + 2, column : column + 2]
                if block.sum() == 1:
                    dy, dx = np.argwhere(block)[0]
                    places.append(self.centre(row, column) + self.unit / 2)
                    sides.append((1.0 - 2.0 * dx, 1.0 - 2.0 * dy))
        return np.array(places).reshape(-1, 2), np.array(sides).reshape(-1, 2)

    @cached_property
    def bends(self) -> Array:
        """The points in which a shortest way can bend, two for each corner. (2 k, 2)"""
        places, sides = self.corners
        reach = self.radius / np.cos(_TOUCH[0])
        around = reach * np.stack([np.cos(_TOUCH), np.sin(_TOUCH)], 1)  # (2, 2)
        return (places[:, None] + sides[:, None] * around).reshape(-1, 2)

    @cached_property
    def _boxes(self) -> tuple[Array, Array]:
        """Low and high corners of the walls, joined along rows, grown sideways and upwards."""
        low, high = [], []
        grow = self.radius - PUSHED_IN
        for row, line in enumerate(self.walls):
            edges = np.flatnonzero(np.diff(np.concatenate([[0], line.astype(int), [0]])))
            for first, after in edges.reshape(-1, 2):
                a = self.centre(row, first) - self.unit / 2
                b = self.centre(row, after - 1) + self.unit / 2
                for wide in ((grow, 0.0), (0.0, grow)):
                    low.append(a - wide)
                    high.append(b + wide)
        return np.array(low), np.array(high)

    def sees(self, places: Array, targets: Array) -> Array:
        """Whether the disc can go straight from places (n, 2) to targets (n or 1, m, 2). (n, m)"""
        way = targets - places[:, None]
        way = np.where(way == 0, 1e-12, way)  # (n, m, 2)
        enters, leaves = np.zeros(1), np.ones(1)
        for axis in (0, 1):  # each axis by itself: sums over two numbers are slow
            per = 1.0 / way[:, :, None, axis]
            start = places[:, None, None, axis]
            one, other = ((edge[:, axis] - start) * per for edge in self._boxes)  # (n, m, boxes)
            enters = np.maximum(enters, np.minimum(one, other))
            leaves = np.minimum(leaves, np.maximum(one, other))
        hit = (enters < leaves - 1e-9).any(-1)
        dx, dy = (self.corners[0][:, axis] - places[:, None, axis] for axis in (0, 1))  # (n, k)
        wx, wy = way[:, :, None, 0], way[:, :, None, 1]  # (n, m, 1)
        dx, dy = dx[:, None], dy[:, None]
        along = np.clip((dx * wx + dy * wy) / (wx**2 + wy**2), 0.0, 1.0)  # (n, m, k)
        gap = (dx - along * wx) ** 2 + (dy - along * wy) ** 2  # squared
        near: Array = (gap < (self.radius - PUSHED_IN) ** 2).any(-1)
        return ~(hit | near)

    @cached_property
    def _between_bends(self) -> Array:
        """Straight ways between bends, inf where there is none. (m, m)"""
        lengths = np.linalg.norm(self.bends[:, None] - self.bends, axis=-1)
        return np.where(self.sees(self.bends, self.bends[None]), lengths, np.inf)

    @cache  # noqa: B019  # a maze lives as long as the program
    def rest(self, goal: tuple[float, float]) -> Array:
        """How long the way to a goal is from each bend. (m,)"""
        ends = self.bends - np.array(goal)
        seen = self.sees(self.bends, np.array(goal)[None, None])[:, 0]
        last = np.where(seen, np.linalg.norm(ends, axis=1), np.inf)
        graph = np.pad(self._between_bends, (0, 1), constant_values=np.inf)
        graph[-1, :-1] = graph[:-1, -1] = last
        ways = dijkstra(np.where(np.isfinite(graph), graph, 0.0), directed=False, indices=-1)
        return ways[:-1]

    def look(self, places: Array, goals: Array) -> tuple[Array, Array]:
        """Shortest ways from places (n, 2) to g goals of each (n, g, 2).

        Returns their lengths (n, g) and where they head at first, of length 1 (n, g, 2).
        """
        found = [
            self._look(places[i : i + _AT_ONCE], goals[i : i + _AT_ONCE])
            for i in range(0, len(places), _AT_ONCE)
        ]
        return np.concatenate([a for a, _ in found]), np.concatenate([b for _, b in found])

    def _look(self, places: Array, goals: Array) -> tuple[Array, Array]:
        m = len(self.bends)
        points = np.concatenate([np.broadcast_to(self.bends, (len(places), m, 2)), goals], 1)
        away = points - places[:, None]  # (n, m + g, 2)
        straight = np.sqrt(away[..., 0] ** 2 + away[..., 1] ** 2)
        seen = self.sees(places, points)
        seen |= ~seen.any(1, keepdims=True)  # pressed deep into a wall: as if there were none
        straight_seen = np.where(seen, straight, np.inf)
        rest = np.array([[self.rest((float(x), float(y))) for x, y in each] for each in goals])
        by_bend = straight_seen[:, None, :m] + rest  # (n, g, m)
        bend = by_bend.argmin(2)
        around = np.take_along_axis(by_bend, bend[..., None], 2)[..., 0]
        direct = straight_seen[:, m:]  # (n, g)
        first = np.where(direct <= around, np.arange(m, m + goals.shape[1]), bend)
        heading = np.take_along_axis(away, first[..., None], 1)
        near = np.take_along_axis(straight, first, 1)[..., None]
        return np.minimum(direct, around), heading / np.maximum(near, 1e-9)

    def clear(self, places: Array) -> Array:
        """Whether the disc touches no wall there. (n, 2) to (n,)"""
        low, high = (edge[::2] for edge in self._boxes)  # grown sideways: taken back below
        grown = np.array([self.radius - PUSHED_IN, 0.0])
        low, high = low + grown, high - grown
        apart = np.maximum(np.maximum(low - places[:, None], places[:, None] - high), 0.0)
        clear: Array = (np.sqrt((apart**2).sum(-1)) > self.radius + 1e-6).all(1)
        return clear
