"""The ball of the group-l1 norm: few groups of coordinates, each used as a whole."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.geometry.convex_set import (
    NO_LOCAL_ORACLE,
    ConvexSet,
    Scales,
    by_chunks,
    check_exponent,
    rows,
)
from weir.dpcore.geometry.order import to_simplex
from weir.dpcore.geometry.widths import largest_length_of


@dataclass(frozen=True)
class GroupL1Ball(ConvexSet):
    """{x : sum over groups of ||x_group||_2 <= radius}, groups of neighbouring coordinates.

    Groups of one make it the l1 ball, one group makes it the l2 ball.

    Attributes:
      radius: above 0. groups: sizes of the groups, in order; d is their sum.
    """

    name: ClassVar[str] = "group_l1_ball"
    radius: float
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        positive(radius=self.radius)
        if not self.groups:
            raise ConfigError("groups", [], "needs one group or more.")
        for size in self.groups:
            at_least_one(groups=size)

    @classmethod
    def even(cls, radius: float, group: int, dimension: int) -> GroupL1Ball:
        """Groups of the same size; what is left over makes a smaller last one."""
        at_least_one(group=group, dimension=dimension)
        whole, rest = divmod(dimension, group)
        return cls(radius, (group,) * whole + ((rest,) if rest else ()))

    @property
    def dimension(self) -> int:
        return sum(self.groups)

    @property
    def guarantee_lost(self) -> str:
        return NO_LOCAL_ORACLE.format("the group-l1 ball")

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        return np.concatenate([[0], np.cumsum(self.groups)[:-1]]).astype(np.intp)

    @cached_property
    def _group_of(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(len(self.groups)), self.groups)

    def lengths(self, points: Floats) -> Floats:
        """l2 norms of the groups, without overflow: (K, d) -> (K, groups)."""
        points = rows(points)
        exponent = np.frexp(np.max(np.abs(points), axis=1, initial=0.0))[1]
        scaled = np.ldexp(points, -exponent[:, None])
        sums = np.add.reduceat(scaled * scaled, self._starts, axis=1)
        return np.asarray(np.ldexp(np.sqrt(sums), exponent[:, None]))

    def project(self, points: Floats) -> Floats:
        """Lengths of the groups are projected onto the l1 ball, directions stay."""
        return by_chunks(self._project, rows(points))

    def _project(self, points: Floats) -> Floats:
        lengths = self.lengths(points)
        inside = np.add.reduce(lengths, axis=1) <= self.radius
        kept = to_simplex(lengths, self.radius)
        factor = np.where(lengths > 0, kept / np.where(lengths > 0, lengths, 1.0), 0.0)
        out = points * factor[:, self._group_of]
        np.copyto(out, points, where=inside[:, None])
        return np.asarray(out)

    def linear_oracle(self, costs: Floats) -> Floats:
        """-radius c / ||c|| within the group of largest ||c||; zeros give radius e_1."""
        return by_chunks(self._oracle, rows(costs))

    def _oracle(self, costs: Floats) -> Floats:
        exponent = np.frexp(np.max(np.abs(costs), axis=1, initial=0.0))[1]
        unit = np.ldexp(costs, -exponent[:, None])
        lengths = self.lengths(unit)
        best = np.argmax(lengths, axis=1)
        length = lengths[np.arange(len(costs)), best]
        zero = length == 0
        factor = -self.radius / np.where(zero, 1.0, length)
        out = np.where(self._group_of == best[:, None], unit * factor[:, None], 0.0)
        out[zero, 0] = self.radius
        return out

    def start(self) -> Floats:
        return np.zeros(self.dimension)

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def symmetric(self) -> bool:
        return True

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return self.diameter * math.pow(max(self.groups), max(0.0, 1 / p - 0.5))

    def farthest(self, centre: Floats) -> float:
        # Within one group, opposite to the centre's part there: the one of largest length.
        lengths = self.lengths(np.asarray(centre, dtype=np.float64)[None])[0]
        best = int(np.argmax(lengths))
        lengths[best] += self.radius
        return float(math.hypot(*lengths))

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        return np.asarray(np.add.reduce(self.lengths(points), axis=1) <= self.radius + slack)

    def scales(self, points: Floats) -> Scales:
        sums = np.add.reduce(self.lengths(points), axis=1)
        return Scales(sums / self.radius, np.full(len(points), np.inf))

    def gaussian_width(self) -> float:
        return self.radius * largest_length_of(self.groups)

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "radius": float(self.radius).hex(),
            "groups": list(self.groups),
        }
