"""Local linear oracles: the best point for a linear cost near where one is, at low cost.

For x in P, radius r >= 0 and cost c a local linear oracle gives p in P with
  <p, c> <= <y, c> for every y in P with ||y - x||_2 <= r, and ||p - x||_2 <= rho r.
A conditional-gradient step towards it converges at a linear rate, one toward the linear oracle of
all of P does not.

Source: Garber, Hazan (2016), "A linearly convergent variant of the conditional gradient algorithm
  under strong convexity".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.boxes import Box, Product, Simplex, take_largest_first
from weir.dpcore.geometry.convex_set import (
    ConvexSet,
    by_chunks,
    rows,
)
from weir.dpcore.geometry.polytope import Polytope


class OracleMemory(NamedTuple):
    """What an oracle keeps of each key's point from step to step.

    Attributes:
      weights: (K, n) float64, x = weights @ vertices of a polytope; n = 0 for other sets.
    """

    weights: Floats


class LocalPoint(NamedTuple):
    """An oracle's answer.

    Attributes:
      point: (K, d) p. weights: (K, n) of p, as in ``OracleMemory``.
    """

    point: Floats
    weights: Floats


class LocalOracle:
    """A local linear oracle of one set, for K rows at once; a row depends on that row alone.

    Attributes:
      rho: ||p - x|| <= rho r; 1 or more.
      columns: n, columns of the weights in ``OracleMemory``.
    """

    rho: float
    columns: int = 0

    def init(self, n_keys: int) -> OracleMemory:
        """Memory of ``n_keys`` keys that are at ``start()`` of the set."""
        return OracleMemory(np.zeros((n_keys, 0)))

    def __call__(
        self, x: Floats, radius: Floats, costs: Floats, memory: OracleMemory
    ) -> LocalPoint:
        """x: (K, d) in P; radius: (K,) >= 0, may be infinite; costs: (K, d)."""
        return LocalPoint(by_chunks(self._best, rows(x), rows(costs), radius), memory.weights)

    def _best(self, x: Floats, costs: Floats, radius: Floats) -> Floats:
        """The points of an oracle that keeps no weights: (K, d)."""
        raise AssertionError(f"{type(self).__name__} keeps weights: it has a call of its own.")

    def update(self, memory: OracleMemory, step: Floats, found: LocalPoint) -> OracleMemory:
        """Memory after x <- x + step (p - x). step: (K,) in [0, 1]."""
        moved = (1 - step[:, None]) * memory.weights + step[:, None] * found.weights
        return OracleMemory(np.asarray(moved))


@dataclass(frozen=True)
class SimplexOracle(LocalOracle):
    """Moves mass sqrt(d) r / 2 from the costliest coordinates to the least expensive.

    Points within r of x are within sqrt(d) r in l1, and no move of that much mass is less
    expensive; the move is at most sqrt(2) of its mass long.
    """

    set: Simplex

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", max(math.sqrt(self.set.size / 2), 1.0))

    def _best(self, x: Floats, costs: Floats, radius: Floats) -> Floats:
        row = np.arange(len(x))
        best = np.argmin(costs, axis=1)
        above = costs - costs[row, best][:, None]
        mass = np.minimum(math.sqrt(self.set.size) / 2 * radius, self.set.total)
        # Nothing moves between equal costs, so p = x where x is best already.
        p = x - take_largest_first(above, np.maximum(x, 0.0) * (above > 0), mass)
        # What is missing from the total, so that rounding of x does not add up.
        p[row, best] = np.maximum(p[row, best] + (self.set.total - np.add.reduce(p, axis=1)), 0.0)
        return p


@dataclass(frozen=True)
class L1BallOracle(LocalOracle):
    """The best point of the ball within sqrt(d) r of x in the l1 norm.

    With tau = sqrt(d) r and s = radius - ||x||_1 to spare: growth uses up what is spare first, and
    then every unit of it costs a unit of shrinking, (tau - s) / 2 of both.
    """

    set: L1Ball

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", math.sqrt(self.set.size))

    def _best(self, x: Floats, costs: Floats, radius: Floats) -> Floats:
        row = np.arange(len(x))
        size = np.abs(costs)
        best = np.argmax(size, axis=1)
        largest = size[row, best]
        held = np.abs(x)
        tau = math.sqrt(self.set.size) * np.minimum(radius, 2 * self.set.radius)
        spare = self.set.radius - np.add.reduce(held, axis=1)
        shrink = np.maximum((tau - spare) / 2, 0.0)
        # What shrinking x_j and growing at the best coordinate instead is worth.
        worth = np.copysign(1.0, x) * costs + largest[:, None]
        held *= worth > 0
        taken = take_largest_first(worth, held, shrink)
        total = np.add.reduce(taken, axis=1)
        grow = np.maximum(np.minimum(tau - total, spare + total), 0.0)
        p = x - np.copysign(taken, x)
        p[row, best] -= np.sign(costs[row, best]) * grow
        return p


@dataclass(frozen=True)
class BoxOracle(LocalOracle):
    """The best point of the box within r of x in the l-infinity norm: clip(x - r sign(c))."""

    set: Box

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", math.sqrt(self.set.dimension))

    def _best(self, x: Floats, costs: Floats, radius: Floats) -> Floats:
        reach = np.minimum(radius, self.set.diameter)[:, None]
        return np.asarray(np.clip(x - reach * np.sign(costs), self.set.low, self.set.high))


@dataclass(frozen=True)
class PolytopeOracle(LocalOracle):
    """Moves weight from the costliest vertices that carry x to the least expensive vertex of all.

    The weight is ratio r with ratio = sqrt(d) psi / xi of the polytope (``Polytope.ratio``); a
    step adds one vertex at most.
    """

    set: Polytope

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", max(self.set.ratio * self.set.diameter, 1.0))
        object.__setattr__(self, "columns", len(self.set.vertices))

    def init(self, n_keys: int) -> OracleMemory:
        return OracleMemory(np.full((n_keys, self.columns), 1 / self.columns))

    def __call__(
        self, x: Floats, radius: Floats, costs: Floats, memory: OracleMemory
    ) -> LocalPoint:
        row = np.arange(len(x))
        prices = self.set.prices(costs)
        best = np.argmin(prices, axis=1)
        above = prices - prices[row, best][:, None]
        held = memory.weights * (above > 0)
        moved = np.minimum(self.set.ratio * np.minimum(radius, self.set.diameter), 1.0)
        weights = memory.weights - take_largest_first(above, held, moved)
        weights[row, best] += 1 - np.add.reduce(weights, axis=1)
        np.maximum(weights, 0.0, out=weights)
        return LocalPoint(self.set.combine(weights), weights)


@dataclass(frozen=True)
class ProductOracle(LocalOracle):
    """Every part's own oracle, with the same radius."""

    set: Product
    oracles: tuple[LocalOracle, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", math.hypot(*(oracle.rho for oracle in self.oracles)))
        object.__setattr__(self, "columns", sum(oracle.columns for oracle in self.oracles))

    def init(self, n_keys: int) -> OracleMemory:
        parts = [oracle.init(n_keys).weights for oracle in self.oracles]
        return OracleMemory(np.concatenate(parts, axis=1))

    def __call__(
        self, x: Floats, radius: Floats, costs: Floats, memory: OracleMemory
    ) -> LocalPoint:
        points, weights, first = [], [], 0
        for oracle, (_, at) in zip(self.oracles, self.set.slices(), strict=True):
            own = OracleMemory(memory.weights[:, first : first + oracle.columns])
            result = oracle(x[:, at], radius, costs[:, at], own)
            points.append(result.point)
            weights.append(result.weights)
            first += oracle.columns
        return LocalPoint(np.concatenate(points, axis=1), np.concatenate(weights, axis=1))


def local_oracle(convex_set: ConvexSet) -> LocalOracle | None:
    """The local linear oracle of a set; None where none is known."""
    if isinstance(convex_set, Simplex):
        return SimplexOracle(convex_set)
    if isinstance(convex_set, L1Ball):
        return L1BallOracle(convex_set)
    if isinstance(convex_set, Box):
        return BoxOracle(convex_set)
    if isinstance(convex_set, Polytope) and math.isfinite(convex_set.ratio):
        return PolytopeOracle(convex_set)
    if isinstance(convex_set, Product):
        oracles = [local_oracle(part) for part in convex_set.parts]
        known = tuple(oracle for oracle in oracles if oracle is not None)
        return ProductOracle(convex_set, known) if len(known) == len(oracles) else None
    return None
