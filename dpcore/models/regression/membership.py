"""Which inputs a projected regression takes: a set of small width, and what tells who is in it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.config.section import nearest
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet, length_of, sparse_bound
from weir.dpcore.geometry.parse import SETS, parse_set

SPARSE = "k_sparse"


class Inputs(ABC):
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
class Sparse(Inputs):
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
class Within(Inputs):
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
class Everything(Inputs):
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


def parse_inputs(spec: Any, size: int, field: str = "model.inputs") -> Inputs:
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
