"""A convex set as a linear map shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet


@dataclass(frozen=True, eq=False)
class Image:
    """{Phi theta: theta in P}, by its ends alone.

    Attributes:
      set: P, in d dimensions. phi: (m, d). spread: its largest singular value, or more.
    """

    set: ConvexSet
    phi: Floats
    spread: float

    @property
    def dimension(self) -> int:
        """d: the linear oracle is P's."""
        return self.set.dimension

    @property
    def diameter(self) -> float:
        """A bound above the largest distance of two points."""
        return self.spread * self.set.diameter

    @property
    def prior(self) -> float:
        """What a coordinate is taken to vary by: r / sqrt(2 m), r the length of P's farthest.

        A random map keeps lengths and spreads them over all m coordinates, whatever P's models
        look like.
        """
        reach = self.set.farthest(np.zeros(self.set.dimension))
        return float(reach / np.sqrt(2.0 * len(self.phi)))

    def linear_oracle(self, costs: Floats) -> Floats:
        """argmin over it of <cost, point>: (n, m) -> (n, m)."""
        return np.asarray(self.set.linear_oracle(costs @ self.phi) @ self.phi.T)
