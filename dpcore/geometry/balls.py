"""Balls around the origin in the l1 and l2 norms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import at_least_one, positive
from weir.dpcore.geometry.convex_set import (
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
from weir.dpcore.geometry.widths import largest_size_of, length_of


@dataclass(frozen=True)
class L1Ball(ConvexSet):
    """{x : ||x||_1 <= radius}. Has a local linear oracle with rho = sqrt(d)."""

    name: ClassVar[str] = "l1_ball"
    radius: float
    size: int

    def __post_init__(self) -> None:
        positive(radius=self.radius)
        at_least_one(size=self.size)

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def sparse(self) -> bool:
        return True

    def project(self, points: Floats) -> Floats:
        """Soft thresholding at the level that leaves an l1 norm of ``radius``."""
        return by_chunks(self._project, rows(points))

    def _project(self, points: Floats) -> Floats:
        size = np.abs(points)
        inside = np.add.reduce(size, axis=1) <= self.radius
        kept = to_simplex(size, self.radius)
        np.copysign(kept, points, out=kept)
        np.copyto(kept, points, where=inside[:, None])
        return kept

    def linear_oracle(self, costs: Floats) -> Floats:
        out = np.zeros(costs.shape)
        row = np.arange(len(costs))
        at = np.argmax(np.abs(costs), axis=1)
        out[row, at] = np.where(costs[row, at] > 0, -self.radius, self.radius)
        return out

    def start(self) -> Floats:
        return np.zeros(self.size)

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def symmetric(self) -> bool:
        return True

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return self.diameter

    def corners(self) -> Corners:
        return Corners(self.radius, signed=True)

    def farthest(self, centre: Floats) -> float:
        # At the vertex -sign(c_i) radius e_i of the largest |c_i|.
        size = np.sort(np.abs(centre))
        size[-1] += self.radius
        return float(l2_norms(size[None])[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        return l1_norms(points) <= self.radius + slack

    def scales(self, points: Floats) -> Scales:
        return Scales(l1_norms(points) / self.radius, np.full(len(points), np.inf))

    def gaussian_width(self) -> float:
        return self.radius * largest_size_of(self.size)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "radius": float(self.radius).hex(), "dimension": self.size}


@dataclass(frozen=True)
class L2Ball(ConvexSet):
    """{x : ||x||_2 <= radius}. Has no local linear oracle; its projection costs no more."""

    name: ClassVar[str] = "l2_ball"
    radius: float
    size: int

    def __post_init__(self) -> None:
        positive(radius=self.radius)
        at_least_one(size=self.size)

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def guarantee_lost(self) -> str:
        return (
            "The l2 ball has no local linear oracle: learn over it by exact projection, which "
            "costs no more there."
        )

    def project(self, points: Floats) -> Floats:
        return by_chunks(self._project, rows(points))

    def _project(self, points: Floats) -> Floats:
        norms = l2_norms(points)
        shrink = self.radius / np.maximum(norms, self.radius)
        return points * shrink[:, None]

    def linear_oracle(self, costs: Floats) -> Floats:
        """-radius c / ||c||; a row of zeros gives radius e_1."""
        return by_chunks(self._oracle, rows(costs))

    def _oracle(self, costs: Floats) -> Floats:
        # A power of two first, so that no quotient overflows.
        exponent = np.frexp(np.max(np.abs(costs), axis=1, initial=0.0))[1]
        unit = np.ldexp(costs, -exponent[:, None])
        norms = l2_norms(unit)
        zero = norms == 0
        out = unit * (-self.radius / np.where(zero, 1.0, norms))[:, None]
        out[zero, 0] = self.radius
        return np.asarray(out)

    def start(self) -> Floats:
        return np.zeros(self.size)

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def symmetric(self) -> bool:
        return True

    def farthest(self, centre: Floats) -> float:
        return float(l2_norms(centre[None])[0]) + self.radius

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        return l2_norms(points) <= self.radius + slack

    def scales(self, points: Floats) -> Scales:
        return Scales(l2_norms(points) / self.radius, np.full(len(points), np.inf))

    def gaussian_width(self) -> float:
        return self.radius * length_of(self.size)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "radius": float(self.radius).hex(), "dimension": self.size}
