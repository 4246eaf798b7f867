"""Matrices of small trace norm: what low-rank models are drawn from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import at_least_one, positive
from weir.dpcore.geometry.convex_set import (
    NO_LOCAL_ORACLE,
    ConvexSet,
    Scales,
    check_exponent,
    l2_norms,
    rows,
)


@dataclass(frozen=True)
class TraceNormBall(ConvexSet):
    """{X in R^(m x n) : sum of its singular values <= radius}, X as a row of m n numbers.

    Known by its linear oracle only: one singular pair a row, found by LAPACK. The same row gives
    the same bits wherever it stands, on one machine with one build of LAPACK; another build may
    differ in the last bits, which rounding to a public grid hides except at its edges. Unlike for
    the other sets, a tie between singular values goes to whichever LAPACK lists first.

    Source: Jaggi (2013), "Revisiting Frank-Wolfe", section 4.3 for the oracle.
    """

    name: ClassVar[str] = "trace_norm_ball"
    radius: float
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        positive(radius=self.radius)
        at_least_one(rows=self.shape[0], columns=self.shape[1])

    @property
    def dimension(self) -> int:
        return self.shape[0] * self.shape[1]

    @property
    def projects(self) -> bool:
        return False

    @property
    def guarantee_lost(self) -> str:
        return NO_LOCAL_ORACLE.format("the trace-norm ball")

    def linear_oracle(self, costs: Floats) -> Floats:
        """-radius u v^T of the largest singular value: a matrix of rank one."""
        left, _, right = np.linalg.svd(self._matrices(costs), full_matrices=False)
        best = -self.radius * left[:, :, 0, None] * right[:, 0, None, :]
        return np.asarray(best.reshape(len(costs), self.dimension))

    def start(self) -> Floats:
        return np.zeros(self.dimension)

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def symmetric(self) -> bool:
        return True

    def diameter_in(self, p: float) -> float:
        """Between u v^T and -u v^T of norm ``radius``: ||u||_p ||v||_p is largest for even ones."""
        check_exponent(p)
        return self.diameter * math.pow(self.dimension, max(0.0, 1 / p - 0.5))

    def farthest(self, centre: Floats) -> float:
        """||C - radius u v^T||^2 is ||C||^2 + radius^2 - 2 radius <C, u v^T>: the oracle's pair."""
        away = self.linear_oracle(rows(centre[None])) - centre
        return float(l2_norms(away)[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        return self._norms(points) <= self.radius + slack

    def scales(self, points: Floats) -> Scales:
        return Scales(self._norms(points) / self.radius, np.full(len(points), np.inf))

    def gaussian_width(self) -> float:
        """A bound above it: the mean largest singular value is at most sqrt(m) + sqrt(n).

        Source: Gordon (1985); Davidson, Szarek (2001), Theorem II.13.
        """
        return self.radius * (math.sqrt(self.shape[0]) + math.sqrt(self.shape[1]))

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "radius": float(self.radius).hex(),
            "shape": list(self.shape),
        }

    def _matrices(self, points: Floats) -> Floats:
        return rows(points).reshape(len(points), *self.shape)

    def _norms(self, points: Floats) -> Floats:
        sizes = np.linalg.svd(self._matrices(points), compute_uv=False)
        return np.asarray(np.add.reduce(np.ascontiguousarray(sizes), axis=1))
