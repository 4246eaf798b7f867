"""Random projections of events, the sets that events lie in, and how many dimensions are left."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.geometry.convex_set import ConvexSet, length_of, sparse_bound
from weir.dpcore.geometry.parse import SETS, parse_set
from weir.dpcore.models.moments import Moments
from weir.dpcore.models.regression.rows import EventRows, fit, room_for
from weir.dpcore.noise.gaussian import PublicNormals
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.program import Bounded

GRID = 16
"""Entries are multiples of 2^-16: normals of fewer than 20 bits."""
MOST = 1 << 16
"""Coordinates, of numbers up to 2^16: sums of 2^16 products below 2^36 stay below 2^53."""
_SPARSE = 1 / 16
"""Share of entries that are not 0, below which they are multiplied one by one."""


@dataclass(frozen=True)
class RandomProjection:
    """Phi: m x p, entries N(0, 1/m) rounded to the grid, a function of the seed alone.

    It is public and drawn without looking at data: nothing private is spent on it. Products with
    whole numbers are exact in float64 whatever the order of summation, so bits never depend on a
    BLAS.

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 2.

    Attributes:
      dimension: m. size: p. seed: in [0, 2^63).
    """

    dimension: int
    size: int
    seed: int

    def __post_init__(self) -> None:
        at_least_one(dimension=self.dimension, size=self.size)
        if self.size > MOST:
            raise ConfigError("model.features", self.size, f"must be at most {MOST:,}.")

    @property
    def integers(self) -> Floats:
        """(m, p) whole numbers: sqrt(m) 2^16 Phi."""
        return _integers(self.dimension, self.size, self.seed)

    @property
    def matrix(self) -> Floats:
        """(m, p) Phi."""
        return _matrix(self.dimension, self.size, self.seed)

    def multiply(self, x: Floats) -> Floats:
        """sqrt(m) 2^16 Phi x, exactly: (p, n) whole numbers up to 2^16 -> (m, n).

        Where most entries are 0 the others are multiplied one by one, to the same bits.
        """
        if not x.size or np.count_nonzero(x) > _SPARSE * x.size:
            return np.asarray(self.integers @ x)
        flat = np.flatnonzero(x)
        row, column = np.divmod(flat, x.shape[1])
        few = sparse.csr_array((x[row, column], (column, row)), shape=x.shape[::-1])
        return np.asarray((few @ self.integers.T).T)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "dimension": self.dimension,
            "size": self.size,
            "seed": self.seed,
            "grid": GRID,
        }


@lru_cache(maxsize=8)
def _integers(m: int, p: int, seed: int) -> Floats:
    drawn = PublicNormals(b"random projection", seed).draw(0, m, p)
    out = np.rint(np.ldexp(drawn, GRID))
    out.flags.writeable = False
    return np.asarray(out)


@lru_cache(maxsize=8)
def _matrix(m: int, p: int, seed: int) -> Floats:
    out = np.ldexp(_integers(m, p, seed), -GRID) / np.sqrt(m)
    out.flags.writeable = False
    return np.asarray(out)


SPARSE = "k_sparse"


class InputSet(ABC):
    """A set G of feature vectors, in scaled units and without the constant.

    An event outside counts as the zero event: who is in is decided for each event by itself, so
    that one neighbour still changes one event. That it happened is private, as any count is.

    Source: Kasiviswanathan, Nissim, Jin (2017), section 5.2, "not all inputs".
    """

    @property
    @abstractmethod
    def longest(self) -> float:
        """Largest l2 norm in G, or a bound above it."""

    @property
    def typical(self) -> float:
        """l2 norm of features in G that are spread evenly over their ranges; ``longest`` where G
        does not tell."""
        return self.longest

    @property
    @abstractmethod
    def width(self) -> float:
        """Gaussian width of G scaled to l2 norms up to 1, or a bound above it."""

    @abstractmethod
    def contains(self, x: Floats, bits: int) -> NDArray[np.bool_]:
        """(p, n) whole multiples of 2^-bits, one event a column -> (n,)."""

    @abstractmethod
    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""


@dataclass(frozen=True)
class Sparse(InputSet):
    """At most k of p features are not 0, each in [-1, 1]."""

    k: int
    size: int

    @property
    def longest(self) -> float:
        return math.sqrt(self.k)

    @property
    def typical(self) -> float:
        return math.sqrt(self.k / 3)

    @property
    def width(self) -> float:
        return sparse_bound(self.size, self.k)

    def contains(self, x: Floats, bits: int) -> NDArray[np.bool_]:
        return np.asarray(np.count_nonzero(x, axis=0) <= self.k)

    def canonical(self) -> Mapping[str, Any]:
        return {SPARSE: self.k, "size": self.size}


@dataclass(frozen=True)
class Within(InputSet):
    """Features lie in a convex set; what rounding to the lattice may move them is forgiven."""

    set: ConvexSet

    @property
    def longest(self) -> float:
        whole = math.sqrt(self.set.dimension)
        return min(whole, self.set.farthest(np.zeros(self.set.dimension)))

    @property
    def width(self) -> float:
        most = length_of(self.set.dimension)
        return min(most, self.set.gaussian_width() / max(self.longest, 2.0**-60))

    def contains(self, x: Floats, bits: int) -> NDArray[np.bool_]:
        slack = math.ldexp(self.set.dimension, -bits - 1)
        return self.set.contains(np.ldexp(np.ascontiguousarray(x.T), -bits), slack)

    def canonical(self) -> Mapping[str, Any]:
        return {"within": self.set.canonical()}


@dataclass(frozen=True)
class Everything(InputSet):
    """All vectors of features."""

    size: int

    @property
    def longest(self) -> float:
        return math.sqrt(self.size)

    @property
    def typical(self) -> float:
        return math.sqrt(self.size / 3)

    @property
    def width(self) -> float:
        return length_of(self.size)

    def contains(self, x: Floats, bits: int) -> NDArray[np.bool_]:
        return np.ones(x.shape[1], dtype=np.bool_)

    def canonical(self) -> Mapping[str, Any]:
        return {"all": self.size}


def parse_inputs(spec: Any, size: int, field: str = "model.inputs") -> InputSet:
    """None, {k_sparse: 10} or a set like {l1_ball: 1}, of ``size`` features.

    Raises:
      ConfigError: what is wrong, at its dotted path.
    """
    if spec is None:
        return Everything(size)
    if not isinstance(spec, Mapping) or len(spec) != 1:
        raise ConfigError(field, spec, "must be one set, like {k_sparse: 10} or {l1_ball: 1}.")
    ((name, value),) = spec.items()
    if name == SPARSE:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 1 <= value <= size:
            raise ConfigError(
                f"{field}.{SPARSE}", value, f"must be a whole number from 1 to {size}."
            )
        return Sparse(value, size)
    if name not in SETS:
        known = sorted([*SETS, SPARSE])
        raise ConfigError(f"{field}.{name}", value, nearest(str(name), known))
    return Within(parse_set(spec, size, field))


BETA = 0.05
"""Chance that the embedding fails, in the rule."""


def width_of(convex_set: ConvexSet) -> float:
    """Gaussian width of a set scaled to l2 norms up to 1, or a bound above it."""
    longest = convex_set.farthest(convex_set.start() * 0)
    return convex_set.gaussian_width() / longest if longest else 0.0


def dimension_for(
    inputs: InputSet, convex_set: ConvexSet, horizon: int, constant: float = 1.0
) -> int:
    """m = ceil(constant / gamma^2 max{W^2, ln(T / beta)}), gamma = (W / T)^(1/3).

    W = w(G) + w(C), both scaled to l2 norms up to 1, as what is to be embedded are directions.
    beta = 0.05. Widths are rounded up to 24 bits, so that a library's last bits do not show.

    Args:
      horizon: T, number of events; a plan that expects no number of them takes its ticks.

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 1, whose constant is not given;
      Gordon (1988), Theorem 5.1 there.
    """
    positive(constant=constant)
    at_least_one(horizon=horizon)
    width = round_up(inputs.width + width_of(convex_set), 24)
    gamma = (width / horizon) ** (1 / 3)
    most = max(width * width, math.log(horizon / BETA))
    return max(1, math.ceil(round_up(constant / (gamma * gamma) * most, 24) * (1 - 2.0**-20)))


_NUMBERS = 1 << 22
"""In a table of features, at most (32 MB)."""
_DIGITS = 20
"""Bits of a projected row, so that its squared length is a whole number below 2^53."""


@dataclass(frozen=True)
class ProjectedRows:
    """(x, y) -> ((|x| / |Phi x|) Phi x, [1], y) on the lattice; the zero event if x is outside G.

    The constant, where there is one, is not projected: it stays the last feature, of value 1.

    Formal guarantees:
      An event's row depends on that event alone (and on what is public), and ``moments`` hold
      ||x||_2 <= reach and ||y||_2 <= height exactly, whatever Phi does: the length that Phi changed
      is restored, the row rounded, and what is then too long is shortened (``rows.fit``).
      Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, steps 4 to 6, and section 5.2.

    Bits are the same on every machine: products with Phi are whole numbers, each row is then cut to
    20 bits, and what follows is one rounding at a time.

    Attributes:
      events: columns and ranges, before the projection. projection: Phi, of the features without
        the constant. inputs: G. moments: after it.
    """

    events: EventRows
    projection: RandomProjection
    inputs: InputSet
    moments: Moments

    def __post_init__(self) -> None:
        m = self.projection.dimension + self.events.intercept
        if self.projection.size != len(self.events.features) or self.moments.features != m:
            raise ConfigError(
                "model.projection", self.projection.dimension, "does not fit the features."
            )
        if m > 1 << 13:
            raise ConfigError("model.projection.dimension", m, f"must be at most {1 << 13:,}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Numeric columns that are read."""
        return self.events.columns

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns that are predicted."""
        return self.events.targets

    def bound(self, columns: Mapping[str, NDArray[Any]], n_events: int) -> Bounded:
        """Events -> rows (n_events, m + k) float64, whole numbers within the bounds; and counts.

        ``out_of_range`` counts events outside G.
        """
        table = room_for(self.moments.width, n_events)[:, :n_events]
        clipped = non_finite = outside = 0
        step = max(256, _NUMBERS // self.events.moments.width)
        for first in range(0, n_events, step):
            at = slice(first, min(first + step, n_events))
            some = {name: columns[name][at] for name in self.columns}
            wide = self.events.bound(some, at.stop - first)
            member = self._project(np.asarray(wide.rows).T, table[:, at])
            clipped += wide.clipped
            non_finite += wide.non_finite
            outside += int(np.count_nonzero(~member))
        clipped += fit(table, self.moments)
        return Bounded(table.T, clipped, non_finite, outside)

    def _project(self, wide: Floats, out: Floats) -> NDArray[np.bool_]:
        """(d + k, n) whole numbers -> (m + k, n) into ``out``; (n,) which are in G."""
        p, m = self.projection.size, self.projection.dimension
        x = wide[:p]
        member = self.inputs.contains(x, self.moments.bits)
        if not member.all():
            wide = wide * member
            x = wide[:p]
        product = self.projection.multiply(x)
        exponent = np.frexp(np.max(np.abs(product), axis=0, initial=0.0))[1]
        cut = np.rint(np.ldexp(product, _DIGITS - exponent))
        length = np.einsum("ij,ij->j", x, x)
        projected = np.einsum("ij,ij->j", cut, cut)
        lost = (projected == 0) & (length > 0)  # Phi x = 0: the zero event
        scale = np.sqrt(length) / np.sqrt(np.maximum(projected, 1.0))
        np.multiply(cut, scale, out=out[:m])
        out[m:] = wide[p:]
        out[:, lost] = 0.0
        return member

    def coefficients(self, theta: Floats) -> Floats:
        """Lifted models in the user's units: (..., k, d) -> (..., k, p + 1)."""
        return self.events.coefficients(theta)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a row."""
        return {
            "events": self.events.canonical(),
            "projection": self.projection.canonical(),
            "inputs": self.inputs.canonical(),
            "moments": self.moments.canonical(),
        }
