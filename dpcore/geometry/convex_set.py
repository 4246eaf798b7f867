"""What a solver may ask of a convex set; it never sees the geometry itself."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, WeirError

_CHUNK = 1 << 15

RELATIVE = 1e-9
"""Equalities hold up to this share of the size of a point."""

NO_LOCAL_ORACLE = (
    "No local linear oracle is known for {}: conditional gradient takes its general step there, "
    "and regret O(ln T) is not guaranteed; with one linear minimisation a tick O(T^(2/3)) is known."
)
"""Garber, Kretzu (2021), "Revisiting projection-free online learning: the strongly convex case"."""


class Scales(NamedTuple):
    """Numbers t with x in t P: those from low to high; none where low > high.

    Attributes:
      low, high: (K,) float64, 0 <= low; high may be infinite.
    """

    low: Floats
    high: Floats


class Corners(NamedTuple):
    """The vertices of a polytope with few enough of them to choose among.

    Attributes:
      radius: of vertices that are multiples of unit vectors. signed: whether both signs are there.
      listed: (J, d), vertices that are none such; None: there are none of this kind.
    """

    radius: float = 1.0
    signed: bool = False
    listed: Floats | None = None


class ConvexSet(ABC):
    """A compact convex set P in R^d. Everything about it is public.

    Points are (K, d) float64, finite, one row for each key. The result for a row depends on that
    row alone, bit for bit: not on K, not on its neighbours, and ties go to the lowest index.

    Attributes:
      name: what a config calls it.
    """

    name: ClassVar[str]

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d."""

    @property
    def projects(self) -> bool:
        """Whether ``project`` is there; where not, the set is known by its linear oracle only."""
        return True

    @property
    def guarantee_lost(self) -> str:
        """What projection-free learning over this set cannot promise, as a sentence; or ""."""
        return ""

    @property
    def sparse(self) -> bool:
        """Whether minimisers over it have few coordinates that are not 0: it is the convex hull of
        multiples of unit vectors."""
        return False

    def project(self, points: Floats) -> Floats:
        """argmin over p in P of ||p - x||_2, for each row x: (K, d) -> (K, d).

        Raises:
          WeirError: the set is known by its linear oracle only.
        """
        raise WeirError(f"{self.name} has no projection, only a linear oracle")

    @abstractmethod
    def linear_oracle(self, costs: Floats) -> Floats:
        """argmin over p in P of <p, c>, for each row c: (K, d) -> (K, d), extreme points of P."""

    @abstractmethod
    def start(self) -> Floats:
        """(d,) a point in the middle of P."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """Largest l2 distance of two points of P, or a bound above it where a class says so."""

    def diameter_in(self, p: float) -> float:
        """Largest lp distance of two points of P, 1 <= p <= inf, or a bound above it: exact where
        a class says nothing else. Here a bound that follows from the l2 diameter."""
        check_exponent(p)
        return self.diameter * math.pow(self.dimension, max(0.0, 1 / p - 0.5))

    @cached_property
    def reach(self) -> float:
        """Largest l2 norm of a point of P, or a bound above it."""
        return self.farthest(np.zeros(self.dimension))

    @property
    def symmetric(self) -> bool:
        """Whether -p lies in P wherever p does."""
        return False

    def farthest_in(self, p: float) -> float:
        """Largest lp norm of a point of P, 1 <= p <= inf, or a bound above it, as of diameters."""
        if self.symmetric:
            return self.diameter_in(p) / 2
        return norm_of(self.start(), p) + self.diameter_in(p)

    def support(self, costs: Floats) -> Floats:
        """max over p in P of <p, c>, for each row c: (K, d) -> (K,)."""
        best = self.linear_oracle(-rows(costs))
        return np.asarray(np.add.reduce(rows(best * costs), axis=1))

    def dual_norm(self, costs: Floats) -> Floats:
        """Half of the width of P along each row c: (K, d) -> (K,).

        It is dual to the norm whose unit ball is (P - P) / 2: of a ball of radius r, r times the
        dual norm of that ball's.
        """
        return (self.support(costs) + self.support(-costs)) / 2

    def corners(self) -> Corners | None:
        """The vertices, where P is a polytope with few of them; None otherwise."""
        return None

    @abstractmethod
    def farthest(self, centre: Floats) -> float:
        """Largest l2 distance of a point of P from ``centre`` (d,)."""

    @abstractmethod
    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        """(K, d) -> (K,), whether each defining constraint is missed by ``slack`` at most."""

    @abstractmethod
    def scales(self, points: Floats) -> Scales:
        """For each row x, the numbers t >= 0 with x in t P. Equalities up to ``RELATIVE``."""

    def gauge(self, points: Floats) -> Floats:
        """Least t >= 0 with x in t P, infinite where there is none: (K, d) -> (K,)."""
        low, high = self.scales(points)
        return np.where(low <= high * (1 + RELATIVE), low, np.inf)

    @abstractmethod
    def gaussian_width(self) -> float:
        """E max over p in P of <p, g>, g standard normal, or a bound above, if it says so."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every number that shapes the set, JSON-able; floats as hex strings."""


def check_exponent(p: float) -> None:
    """Raises ConfigError unless 1 <= p <= inf."""
    if not p >= 1:
        raise ConfigError("p", p, "must be 1 or more; inf is served too.")


def rows(points: Floats) -> Floats:
    """(K, d) in the one memory layout in which a row's sums do not depend on K."""
    return np.ascontiguousarray(points, dtype=np.float64)


def by_chunks(function: Callable[..., Floats], *arrays: Floats) -> Floats:
    """function(*arrays), (K, d), some rows at a time: faster, since these stay in the cache."""
    k, d = arrays[0].shape
    most = max(1, _CHUNK // max(d, 1))
    if k <= most:
        return function(*arrays)
    out = np.empty((k, d))
    for first in range(0, k, most):
        out[first : first + most] = function(*(a[first : first + most] for a in arrays))
    return out


def l1_norms(points: Floats) -> Floats:
    """(K, d) -> (K,)."""
    return np.asarray(np.add.reduce(np.abs(rows(points)), axis=1))


def l2_norms(points: Floats) -> Floats:
    """(K, d) -> (K,), without overflow: entries are scaled by a power of two."""
    points = rows(points)
    exponent = np.frexp(np.max(np.abs(points), axis=1, initial=0.0))[1]
    scaled = np.ldexp(points, -exponent[:, None])
    return np.asarray(np.ldexp(np.sqrt(np.add.reduce(scaled * scaled, axis=1)), exponent))


def norm_of(vector: Floats, p: float) -> float:
    """lp norm of one vector (d,), 1 <= p <= inf, without overflow."""
    size = np.abs(np.asarray(vector, dtype=np.float64))
    largest = float(np.max(size, initial=0.0))
    if math.isinf(p) or largest == 0:
        return largest
    return largest * math.pow(math.fsum((size / largest) ** p), 1 / p)


def products(points: Floats, vectors: Floats) -> Floats:
    """Inner products without BLAS: (K, d), (n, d) -> (K, n), coordinates added in order."""
    total = np.zeros((len(points), len(vectors)))
    for j in range(vectors.shape[1]):
        total += points[:, j, None] * vectors[:, j]
    return total


def scales_of(left: Floats, right: Floats) -> Scales:
    """Numbers t >= 0 with left <= t right in every column. left: (K, m), right: (m,) -> (K,) each.

    A column with right = 0 needs left <= 0 up to ``RELATIVE`` of the row's largest entry.
    """
    size = RELATIVE * np.max(np.abs(left), axis=1, initial=0.0)
    above, below, at = right > 0, right < 0, right == 0
    low = np.max(left[:, above] / right[above], axis=1, initial=0.0)
    high = np.min(left[:, below] / right[below], axis=1, initial=np.inf)
    missed = np.max(left[:, at], axis=1, initial=0.0) > size
    return Scales(np.where(missed, np.inf, low), np.where(missed, 0.0, high))
