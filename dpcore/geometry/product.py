"""A product of sets: some coordinates in one, the next in another."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import (
    ConvexSet,
    Scales,
    check_exponent,
    norm_of,
)


@dataclass(frozen=True)
class Product(ConvexSet):
    """{(x_1, ..., x_m) : x_i in parts[i]}.

    Has a local linear oracle where every part has one: a point within r of x is within r of it in
    every part, so the parts answer one by one, and rho^2 is the sum of theirs.
    """

    name: ClassVar[str] = "product"
    parts: tuple[ConvexSet, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError("product", [], "needs one set or more.")

    def slices(self) -> Iterator[tuple[ConvexSet, slice]]:
        """Every part with its coordinates."""
        first = 0
        for part in self.parts:
            yield part, slice(first, first + part.dimension)
            first += part.dimension

    @property
    def dimension(self) -> int:
        return sum(part.dimension for part in self.parts)

    @property
    def projects(self) -> bool:
        return all(part.projects for part in self.parts)

    @property
    def guarantee_lost(self) -> str:
        lost = [part.guarantee_lost for part in self.parts if part.guarantee_lost]
        return " ".join(dict.fromkeys(lost))

    def project(self, points: Floats) -> Floats:
        return np.concatenate([part.project(points[:, at]) for part, at in self.slices()], axis=1)

    def linear_oracle(self, costs: Floats) -> Floats:
        found = [part.linear_oracle(costs[:, at]) for part, at in self.slices()]
        return np.concatenate(found, axis=1)

    def start(self) -> Floats:
        return np.concatenate([part.start() for part in self.parts])

    @property
    def diameter(self) -> float:
        return math.hypot(*(part.diameter for part in self.parts))

    @property
    def symmetric(self) -> bool:
        return all(part.symmetric for part in self.parts)

    def farthest_in(self, p: float) -> float:
        return norm_of(np.array([part.farthest_in(p) for part in self.parts]), p)

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return norm_of(np.array([part.diameter_in(p) for part in self.parts]), p)

    def farthest(self, centre: Floats) -> float:
        return math.hypot(*(part.farthest(centre[at]) for part, at in self.slices()))

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        inside = np.ones(len(points), dtype=bool)
        for part, at in self.slices():
            inside &= part.contains(points[:, at], slack)
        return inside

    def scales(self, points: Floats) -> Scales:
        found = [part.scales(points[:, at]) for part, at in self.slices()]
        low = np.max([scales.low for scales in found], axis=0)
        return Scales(low, np.min([scales.high for scales in found], axis=0))

    def gaussian_width(self) -> float:
        return math.fsum(part.gaussian_width() for part in self.parts)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "parts": [dict(part.canonical()) for part in self.parts]}
