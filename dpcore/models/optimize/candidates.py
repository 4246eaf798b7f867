"""The vertices of a polytope as a private selection sees them: columns that rows are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet, norm_of
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.optimize.rows import Rows, grid_for, on_grid


@dataclass(frozen=True)
class Candidates:
    """Vertices +-radius e_j, radius e_j, or listed ones.

    A vertex predicts radius times a column of what ``rows`` makes of the rows: their own columns,
    or of listed vertices the products with each over ``radius``, rounded to the lattice of
    ``STEP``. So the 2 d vertices of an l1 ball are scored by one product, and none is ever made.

    Attributes:
      columns: J. signed: whether both signs of each are there. radius: see above.
      listed: J vertices of d numbers; (): multiples of unit vectors.
    """

    columns: int
    signed: bool
    radius: float
    listed: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, convex_set: ConvexSet) -> Candidates | None:
        """Those of a set; None where it has too many."""
        found = convex_set.corners()
        if found is None:
            return None
        if found.listed is None:
            return cls(convex_set.dimension, found.signed, found.radius)
        listed = tuple(tuple(vertex) for vertex in found.listed.tolist())
        radius = max((norm_of(vertex, 1.0) for vertex in found.listed), default=0.0)
        return cls(len(listed), False, radius or 1.0, listed)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.columns * (2 if self.signed else 1)

    @property
    def rounding(self) -> float:
        """Most that rounding adds to the range of what vertices predict for one row."""
        return self.radius * 2.0 * STEP if self.listed else 0.0

    def rows(self, rows: Rows) -> Rows:
        """As columns of candidates: (n, J)."""
        if not self.listed:
            return rows
        grid = grid_for(rows.p, 1.0)
        out = np.empty((rows.n, self.columns))
        for j, vertex in enumerate(self.listed):
            weights = on_grid(np.array(vertex) / self.radius, grid)
            out[:, j] = np.rint(rows.across(weights) * (1.0 / STEP)) * STEP
        return Rows(np.clip(out, -1.0, 1.0))

    def model(self, weights: Floats) -> Floats:
        """The mixture of vertices with weights (J,), negative for those of a negative sign: (d,).

        Weights add up to 1 in size.
        """
        if not self.listed:
            return np.asarray(weights * self.radius + 0.0)
        total = np.zeros(len(self.listed[0]))
        for weight, vertex in zip(weights.tolist(), self.listed, strict=True):
            total += weight * np.array(vertex)
        return total


def log_count(candidates: Candidates) -> float:
    """ln of how many there are."""
    return math.log(candidates.count)
