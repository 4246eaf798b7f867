"""Doubly stochastic matrices: mixtures of permutations, for rankings and matchings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import at_least_one
from weir.dpcore.geometry.convex_set import (
    NO_LOCAL_ORACLE,
    RELATIVE,
    ConvexSet,
    Scales,
    check_exponent,
    l2_norms,
    rows,
)
from weir.dpcore.geometry.widths import hull_bound, largest_of


@dataclass(frozen=True)
class Permutations(ConvexSet):
    """The hull of the n x n permutation matrices, each as a row of n^2 numbers.

    Known by its linear oracle only: one assignment problem a row, solved exactly in O(n^3), rows
    one after the other. Ties go as the method of Jonker and Volgenant meets them, which depends
    on the row alone.
    """

    name: ClassVar[str] = "permutations"
    items: int

    def __post_init__(self) -> None:
        at_least_one(items=self.items)

    @property
    def dimension(self) -> int:
        return self.items**2

    @property
    def projects(self) -> bool:
        return False

    @property
    def guarantee_lost(self) -> str:
        return NO_LOCAL_ORACLE.format("the permutation polytope")

    def linear_oracle(self, costs: Floats) -> Floats:
        from scipy.optimize import linear_sum_assignment  # a tenth of a second, for this set alone

        n = self.items
        out = np.zeros((len(costs), n, n))
        for matrix, cost in zip(out, rows(costs).reshape(len(costs), n, n), strict=True):
            matrix[linear_sum_assignment(cost)] = 1.0
        return out.reshape(len(costs), self.dimension)

    def start(self) -> Floats:
        return np.full(self.dimension, 1 / self.items)

    @property
    def diameter(self) -> float:
        return 0.0 if self.items == 1 else math.sqrt(2 * self.items)

    def diameter_in(self, p: float) -> float:
        """Of two permutations without a place in common, 2 n entries differ by 1."""
        check_exponent(p)
        return 0.0 if self.items == 1 else float((2 * self.items) ** (1 / p))

    def farthest(self, centre: Floats) -> float:
        """||P - C||^2 is n + ||C||^2 - 2 <P, C>: an assignment problem."""
        away = self.linear_oracle(rows(centre[None])) - centre
        return float(l2_norms(away)[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        lines = self._lines(points)
        inside: NDArray[np.bool_] = np.min(points, axis=1) >= -slack
        inside &= np.max(np.abs(lines - 1), axis=1) <= slack
        return inside

    def scales(self, points: Floats) -> Scales:
        lines = self._lines(points)
        size = RELATIVE * np.max(np.abs(lines), axis=1)
        at = np.maximum(lines[:, 0], 0.0)
        missed = np.max(np.abs(lines - at[:, None]), axis=1) > size
        missed |= np.min(points, axis=1) < -size
        return Scales(np.where(missed, np.inf, at), np.where(missed, 0.0, at))

    def gaussian_width(self) -> float:
        """A bound above it: each line takes its own largest entry, or that of n! vertices."""
        n = self.items
        return min(n * largest_of(n), hull_bound(self.diameter, math.lgamma(n + 1)))

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "items": self.items}

    def _lines(self, points: Floats) -> Floats:
        """Sums of lines and columns: (K, n^2) -> (K, 2n)."""
        matrices = rows(points).reshape(len(points), self.items, self.items)
        across = np.add.reduce(matrices, axis=2)
        return np.concatenate([across, np.add.reduce(matrices, axis=1)], axis=1)
