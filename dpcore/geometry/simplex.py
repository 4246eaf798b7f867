"""The simplex: non-negative weights with a fixed total."""

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
    RELATIVE,
    ConvexSet,
    Corners,
    Scales,
    by_chunks,
    check_exponent,
    l1_norms,
    l2_norms,
    rows,
)
from weir.dpcore.geometry.order import to_simplex
from weir.dpcore.geometry.widths import largest_of


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """{x >= 0 : sum x = total}. Has a local linear oracle with rho = sqrt(d / 2)."""

    name: ClassVar[str] = "simplex"
    total: float
    size: int

    def __post_init__(self) -> None:
        positive(total=self.total)
        at_least_one(size=self.size)

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def sparse(self) -> bool:
        return True

    def project(self, points: Floats) -> Floats:
        return by_chunks(lambda some: to_simplex(some, self.total), rows(points))

    def linear_oracle(self, costs: Floats) -> Floats:
        out = np.zeros(costs.shape)
        out[np.arange(len(costs)), np.argmin(costs, axis=1)] = self.total
        return out

    def start(self) -> Floats:
        return np.full(self.size, self.total / self.size)

    @property
    def diameter(self) -> float:
        return 0.0 if self.size == 1 else math.sqrt(2) * self.total

    def farthest_in(self, p: float) -> float:
        check_exponent(p)
        return self.total

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return 0.0 if self.size == 1 else 2.0 ** (1 / p) * self.total

    def corners(self) -> Corners:
        return Corners(self.total)

    def farthest(self, centre: Floats) -> float:
        # ||total e_i - c||^2 falls with c_i: the vertex of the smallest one.
        moved = np.array(centre, dtype=np.float64)
        moved[int(np.argmin(moved))] -= self.total
        return float(l2_norms(moved[None])[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        points = rows(points)
        sums = np.add.reduce(points, axis=1)
        inside: NDArray[np.bool_] = np.min(points, axis=1) >= -slack
        inside &= np.abs(sums - self.total) <= slack
        return inside

    def scales(self, points: Floats) -> Scales:
        points = rows(points)
        size = l1_norms(points)
        at = np.maximum(np.add.reduce(points, axis=1), 0.0) / self.total
        missed = np.min(points, axis=1) < -RELATIVE * size
        return Scales(np.where(missed, np.inf, at), np.where(missed, 0.0, at))

    def gaussian_width(self) -> float:
        return self.total * largest_of(self.size)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "total": float(self.total).hex(), "dimension": self.size}
