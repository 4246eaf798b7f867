"""Base class of convex sets, and their Gaussian widths."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, log_ndtr, ndtr

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, WeirError, at_least_one, positive

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
      no_oracle: what it is, in words, where no local linear oracle is known for it.
    """

    name: ClassVar[str]
    no_oracle: ClassVar[str] = ""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """d."""

    @property
    def projects(self) -> bool:
        """Whether ``project`` is there; where not, the set is known by its linear oracle only."""
        return type(self).project is not ConvexSet.project

    @property
    def guarantee_lost(self) -> str:
        """What projection-free learning over this set cannot guarantee, as a sentence; or ""."""
        return NO_LOCAL_ORACLE.format(self.no_oracle) if self.no_oracle else ""

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


@dataclass(frozen=True)
class NormBall(ConvexSet):
    """{x : norm(x) <= radius}, symmetric about the origin.

    Attributes:
      radius: above 0.
    """

    radius: float

    def __post_init__(self) -> None:
        positive(radius=self.radius)

    @abstractmethod
    def norms(self, points: Floats) -> Floats:
        """The norm of each row: (K, d) -> (K,)."""

    def start(self) -> Floats:
        return np.zeros(self.dimension)

    @property
    def diameter(self) -> float:
        return 2 * self.radius

    @property
    def symmetric(self) -> bool:
        return True

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        return np.asarray(self.norms(points) <= self.radius + slack)

    def scales(self, points: Floats) -> Scales:
        return Scales(self.norms(points) / self.radius, np.full(len(points), np.inf))


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


_STEP = 2.0**-9
_FAR = 40.0


def largest_of(n: int) -> float:
    """E max of n independent standard normals; absolute error below 1e-9."""
    t = np.arange(0.0, _FAR, _STEP) + _STEP / 2
    above = -np.expm1(n * log_ndtr(t))
    below = np.exp(n * log_ndtr(-t))
    return math.fsum(above - below) * _STEP


@lru_cache(maxsize=256)
def largest_size_of(n: int) -> float:
    """E max |g_i| of n independent standard normals; absolute error below 1e-9."""
    if n == 1:
        return math.sqrt(2 / math.pi)
    t = np.arange(0.0, _FAR, _STEP) + _STEP / 2
    inside = np.log1p(-2 * ndtr(-t))
    return math.fsum(-np.expm1(n * inside)) * _STEP


def length_of(n: int) -> float:
    """E of the l2 norm of n independent standard normals."""
    return math.sqrt(2) * math.exp(math.lgamma((n + 1) / 2) - math.lgamma(n / 2))


def hull_bound(diameter: float, log_vertices: float) -> float:
    """A bound above the width of a hull of n points whose distances are at most ``diameter``.

    Their inner products with g differ by at most ``diameter`` in standard deviation, as those of
    n independent normals of deviation diameter / sqrt 2 do (Sudakov-Fernique), whose largest has
    mean at most diameter sqrt(ln n).
    """
    return diameter * math.sqrt(max(log_vertices, 0.0))


def largest_length_of(sizes: Sequence[int]) -> float:
    """E of the largest l2 norm of independent standard normal vectors of these sizes; absolute
    error below 1e-8."""
    far = math.sqrt(max(sizes)) + _FAR
    t = np.arange(0.0, far, _STEP) + _STEP / 2
    log_inside = np.zeros_like(t)
    with np.errstate(divide="ignore"):
        for size, count in sorted(Counter(sizes).items()):
            outside = gammaincc(size / 2, t * t / 2)
            log_inside += count * np.where(
                outside < 0.5, np.log1p(-outside), np.log(gammainc(size / 2, t * t / 2))
            )
    return math.fsum(-np.expm1(log_inside)) * _STEP


def norm_bound(n: int, q: float) -> float:
    """A bound above E ||g||_q of n standard normals, q >= 1.

    ||g||_q <= ||g||_r for r <= q, and E ||g||_r <= (n E |g|^r)^(1/r): the least over r in (0, q].
    For q that is not much above 2 ln n, r = q is best, and it is within a few per cent.
    """
    at_least_one(n=n)

    def jensen(r: float) -> float:
        moment = r / 2 * math.log(2) + math.lgamma((r + 1) / 2) - math.log(math.pi) / 2
        return math.exp((math.log(n) + moment) / r)

    return min(jensen(1 + (q - 1) * i / 64) for i in range(65))


def sparse_bound(n: int, k: int) -> float:
    """A bound above the width of {x in R^n : ||x||_2 <= 1, at most k entries are not 0}.

    The width is E sqrt(S), S the sum of the k largest g_i^2. S = min over t of k t +
    sum_i max(g_i^2 - t, 0), so E sqrt(S) <= sqrt(min over t of k t + n E max(g^2 - t, 0)).
    """
    _at_most(n, k)
    if k == n:
        return length_of(n)
    u = np.linspace(0.0, 12.0, 4097)
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    above = 2 * (u * density + (1 - u * u) * ndtr(-u))  # E max(g^2 - u^2, 0)
    return math.sqrt(float(np.min(k * u * u + n * above)))


def _at_most(n: int, k: int) -> None:
    at_least_one(n=n, k=k)
    if k > n:
        raise ConfigError("k_sparse", k, f"must be at most the {n} coordinates there are.")
