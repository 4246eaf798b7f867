"""A box: an interval for each coordinate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import (
    ConvexSet,
    Scales,
    check_exponent,
    l2_norms,
    norm_of,
    rows,
    scales_of,
)


@dataclass(frozen=True)
class Box(ConvexSet):
    """{x : low <= x <= high}. Has a local linear oracle with rho = sqrt(d).

    Attributes:
      lowest, highest: d numbers each, lowest[i] <= highest[i].
    """

    name: ClassVar[str] = "box"
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.lowest or len(self.lowest) != len(self.highest):
            raise ConfigError(
                "box",
                [self.lowest, self.highest],
                "needs as many lower as upper bounds, 1 or more.",
            )
        for low, high in zip(self.lowest, self.highest, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ConfigError("box", [low, high], "must be two finite numbers, low <= high.")

    @classmethod
    def uniform(cls, low: float, high: float, dimension: int) -> Box:
        """The same interval for every coordinate."""
        return cls((float(low),) * dimension, (float(high),) * dimension)

    @cached_property
    def low(self) -> Floats:
        """(d,)."""
        return np.array(self.lowest, dtype=np.float64)

    @cached_property
    def high(self) -> Floats:
        """(d,)."""
        return np.array(self.highest, dtype=np.float64)

    @property
    def dimension(self) -> int:
        return len(self.lowest)

    def project(self, points: Floats) -> Floats:
        return np.asarray(np.clip(rows(points), self.low, self.high))

    def linear_oracle(self, costs: Floats) -> Floats:
        return np.where(costs >= 0, self.low, self.high)

    def start(self) -> Floats:
        return self.low / 2 + self.high / 2

    @property
    def diameter(self) -> float:
        return float(l2_norms((self.high - self.low)[None])[0])

    @property
    def symmetric(self) -> bool:
        return all(low == -high for low, high in zip(self.lowest, self.highest, strict=True))

    def farthest_in(self, p: float) -> float:
        return norm_of(np.maximum(np.abs(self.low), np.abs(self.high)), p)

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return norm_of(self.high - self.low, p)

    def farthest(self, centre: Floats) -> float:
        away = np.maximum(np.abs(self.low - centre), np.abs(self.high - centre))
        return float(l2_norms(away[None])[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        inside = (points >= self.low - slack) & (points <= self.high + slack)
        return np.asarray(np.all(inside, axis=1))

    def scales(self, points: Floats) -> Scales:
        left = np.concatenate([points, -points], axis=1)
        return scales_of(left, np.concatenate([self.high, -self.low]))

    def gaussian_width(self) -> float:
        return math.fsum(self.high - self.low) / math.sqrt(2 * math.pi)

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "low": [float(x).hex() for x in self.lowest],
            "high": [float(x).hex() for x in self.highest],
        }
