"""Base class of convex sets, and their Gaussian widths."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainc, gammaincc, log_ndtr, ndtr

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, WeirError, at_least_one
from weir.dpcore.noise.gaussian import PublicNormals

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


_STEP = 2.0**-9
_FAR = 40.0
_NUMBERS = 1 << 20
"""Drawn at a time."""


def largest_of(n: int) -> float:
    """E max of n independent standard normals; absolute error below 1e-9."""
    t = np.arange(0.0, _FAR, _STEP) + _STEP / 2
    above = -np.expm1(n * log_ndtr(t))
    below = np.exp(n * log_ndtr(-t))
    return math.fsum(above - below) * _STEP


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


class Estimate(NamedTuple):
    """A mean of draws, and its standard error."""

    value: float
    error: float


def sparse_width(n: int, k: int, draws: int = 2000) -> Estimate:
    """The width that ``sparse_bound`` bounds, by Monte-Carlo: 2,000 draws give about 1.5% / sqrt k.

    The draws are public and the same at every call.
    """
    _at_most(n, k)

    def largest(g: Floats) -> Floats:
        top = np.partition(g * g, n - k, axis=1)[:, n - k :]
        return np.asarray(np.sqrt(np.sum(top, axis=1)))

    return monte_carlo(largest, n, draws)


def hull_width(points: Floats, draws: int = 2000) -> Estimate:
    """Width of the convex hull of ``points`` (n, d), by Monte-Carlo with its standard error.

    A pair g, -g is drawn at a time, so where the hull lies does not matter, only its shape.
    """
    points = np.atleast_2d(np.asarray(points, dtype=np.float64))

    def half_spread(g: Floats) -> Floats:
        reached = g @ points.T
        return np.asarray((np.max(reached, axis=1) - np.min(reached, axis=1)) / 2)

    return monte_carlo(half_spread, points.shape[1], draws)


def monte_carlo(function: Callable[[Floats], Floats], dimension: int, draws: int) -> Estimate:
    """Mean of function((m, d) standard normals) -> (m,), over public draws."""
    if draws < 2:
        raise ConfigError("draws", draws, "must be 2 or more.")
    normals = PublicNormals(b"gaussian width")
    most = max(1, _NUMBERS // dimension)
    found = [
        function(normals.draw(first // most, min(most, draws - first), dimension))
        for first in range(0, draws, most)
    ]
    values = np.concatenate(found)
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(draws))


def _at_most(n: int, k: int) -> None:
    at_least_one(n=n, k=k)
    if k > n:
        raise ConfigError("k_sparse", k, f"must be at most the {n} coordinates there are.")
