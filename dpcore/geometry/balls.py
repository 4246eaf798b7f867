"""Balls of the l1, l2 and group l1 norms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.geometry.boxes import to_simplex
from weir.dpcore.geometry.convex_set import (
    Corners,
    NormBall,
    by_chunks,
    check_exponent,
    l1_norms,
    l2_norms,
    largest_length_of,
    largest_size_of,
    length_of,
    rows,
)


@dataclass(frozen=True)
class L1Ball(NormBall):
    """{x : ||x||_1 <= radius}. Has a local linear oracle with rho = sqrt(d)."""

    name: ClassVar[str] = "l1_ball"
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
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
        retained = to_simplex(size, self.radius)
        np.copysign(retained, points, out=retained)
        np.copyto(retained, points, where=inside[:, None])
        return retained

    def linear_oracle(self, costs: Floats) -> Floats:
        out = np.zeros(costs.shape)
        row = np.arange(len(costs))
        at = np.argmax(np.abs(costs), axis=1)
        out[row, at] = np.where(costs[row, at] > 0, -self.radius, self.radius)
        return out

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

    def norms(self, points: Floats) -> Floats:
        return l1_norms(points)

    def gaussian_width(self) -> float:
        return self.radius * largest_size_of(self.size)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "radius": float(self.radius).hex(), "dimension": self.size}


@dataclass(frozen=True)
class L2Ball(NormBall):
    """{x : ||x||_2 <= radius}. Has no local linear oracle; its projection costs no more."""

    name: ClassVar[str] = "l2_ball"
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def farthest(self, centre: Floats) -> float:
        return float(l2_norms(centre[None])[0]) + self.radius

    def norms(self, points: Floats) -> Floats:
        return l2_norms(points)

    def gaussian_width(self) -> float:
        return self.radius * length_of(self.size)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "radius": float(self.radius).hex(), "dimension": self.size}


@dataclass(frozen=True)
class GroupL1Ball(NormBall):
    """{x : sum over groups of ||x_group||_2 <= radius}, groups of neighbouring coordinates.

    Groups of one make it the l1 ball, one group makes it the l2 ball.

    Attributes:
      groups: sizes of the groups, in order; d is their sum.
    """

    name: ClassVar[str] = "group_l1_ball"
    no_oracle: ClassVar[str] = "the group-l1 ball"
    groups: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
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
        retained = to_simplex(lengths, self.radius)
        factor = np.where(lengths > 0, retained / np.where(lengths > 0, lengths, 1.0), 0.0)
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

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return self.diameter * math.pow(max(self.groups), max(0.0, 1 / p - 0.5))

    def farthest(self, centre: Floats) -> float:
        # Within one group, opposite to the centre's part there: the one of largest length.
        lengths = self.lengths(np.asarray(centre, dtype=np.float64)[None])[0]
        best = int(np.argmax(lengths))
        lengths[best] += self.radius
        return float(math.hypot(*lengths))

    def norms(self, points: Floats) -> Floats:
        return np.asarray(np.add.reduce(self.lengths(points), axis=1))

    def gaussian_width(self) -> float:
        return self.radius * largest_length_of(self.groups)

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "radius": float(self.radius).hex(),
            "groups": list(self.groups),
        }
