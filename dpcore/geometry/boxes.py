"""Boxes, simplices and products of sets, which share projections by sorting."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one, positive
from weir.dpcore.geometry.convex_set import (
    RELATIVE,
    ConvexSet,
    Corners,
    Scales,
    by_chunks,
    check_exponent,
    l1_norms,
    l2_norms,
    largest_of,
    norm_of,
    rows,
    scales_of,
)

_SHORT = 64
"""Rows of so few columns are not looked through for empty ones."""


def descending(keys: Floats, columns: int) -> NDArray[np.int64]:
    """For each row, its columns from the largest key to the smallest: (K, d) -> (K, d).

    One sort of integers: a key's leading bits, then its column. Keys that agree in their leading
    52 - ceil(log2 columns) bits (columns >= d) count as equal, and equal keys come in the order of
    their columns. So the order is the same on every machine, whichever sort it has.
    """
    d = keys.shape[1]
    mask = np.int64((1 << max(columns - 1, 0).bit_length()) - 1)
    ordered = np.subtract(0.0, keys)  # one zero only, unlike -keys
    bits = ordered.view(np.int64)
    bits ^= (bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)  # integers in the order of the floats
    bits &= ~mask
    bits |= np.arange(d, dtype=np.int64)
    bits.sort(axis=1)
    bits &= mask
    return bits


def running_sums(values: Floats) -> Floats:
    """Running sums of each row, in place and in order: (K, d) -> (K, d)."""
    k, d = values.shape
    if d > k:
        return np.cumsum(values, axis=1, out=values)
    for j in range(1, d):  # the same additions, a column at a time
        values[:, j] += values[:, j - 1]
    return values


def take_largest_first(keys: Floats, caps: Floats, amount: Floats) -> Floats:
    """Takes ``amount`` from each row, first where its key is largest, at most the cap of each.

    Args:
      keys: (K, d). caps: (K, d) >= 0. amount: (K,) >= 0; more than the caps hold takes them all.

    Returns:
      (K, d) what is taken of each column: the solution of
      maximise <keys, y> subject to 0 <= y <= caps, sum y = min(amount, sum caps), keys >= 0.
    """
    k, d = keys.shape
    if d > _SHORT:
        used = np.flatnonzero(np.any(caps > 0, axis=0))
        if 2 * len(used) < d:  # sums in order do not change when zeros are left out
            taken = np.zeros((k, d))
            taken[:, used] = _take(rows(keys[:, used]), rows(caps[:, used]), amount, d)
            return taken
    return _take(rows(keys), rows(caps), amount, d)


def _take(keys: Floats, caps: Floats, amount: Floats, columns: int) -> Floats:
    k, d = keys.shape
    place = descending(keys, columns)
    place += (np.arange(k, dtype=np.int64) * d)[:, None]
    ordered = np.take(caps.reshape(-1), place)
    left = np.zeros_like(ordered)  # what is left to take when a column's turn comes
    left[:, 1:] = ordered[:, :-1]
    np.subtract(amount[:, None], running_sums(left), out=left)
    np.maximum(left, 0.0, out=left)
    np.minimum(left, ordered, out=left)
    taken = np.empty_like(caps)
    taken.reshape(-1)[place] = left
    return taken


def to_simplex(values: Floats, total: float) -> Floats:
    """max(v - theta, 0) with theta such that each row adds to total > 0: (K, d) -> (K, d).

    Each row is moved first so that its largest entry is 0, which changes no result, and no huge
    entry swallows the total.

    Source: Held, Wolfe, Crowder (1974); the sort and the sums are Duchi et al. (2008), Figure 1.
    """
    k, d = values.shape
    ordered = np.negative(values)
    ordered.sort(axis=1)
    largest = -ordered[:, 0]
    ordered += largest[:, None]
    np.negative(ordered, out=ordered)
    excess = running_sums(ordered.copy())
    excess -= total
    ordered *= np.arange(1.0, d + 1)
    retained = np.maximum(np.count_nonzero(ordered > excess, axis=1), 1)
    theta = excess[np.arange(k), retained - 1] / retained
    out = values - largest[:, None]
    out -= theta[:, None]
    np.maximum(out, 0.0, out=out)
    return np.asarray(out)


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


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """{x >= 0 : sum x = total}. Has a local linear oracle with rho = sqrt(d / 2)."""

    name: ClassVar[str] = "simplex"
    total: float
    size: int

    def __post_init__(self) -> None:
        positive(total=self.total)
        at_least_one(size=self.size)

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def sparse(self) -> bool:
        return True

    def project(self, points: Floats) -> Floats:
        return by_chunks(lambda some: to_simplex(some, self.total), rows(points))

    def linear_oracle(self, costs: Floats) -> Floats:
        out = np.zeros(costs.shape)
        out[np.arange(len(costs)), np.argmin(costs, axis=1)] = self.total
        return out

    def start(self) -> Floats:
        return np.full(self.size, self.total / self.size)

    @property
    def diameter(self) -> float:
        return 0.0 if self.size == 1 else math.sqrt(2) * self.total

    def farthest_in(self, p: float) -> float:
        check_exponent(p)
        return self.total

    def diameter_in(self, p: float) -> float:
        check_exponent(p)
        return 0.0 if self.size == 1 else 2.0 ** (1 / p) * self.total

    def corners(self) -> Corners:
        return Corners(self.total)

    def farthest(self, centre: Floats) -> float:
        # ||total e_i - c||^2 falls with c_i: the vertex of the smallest one.
        moved = np.array(centre, dtype=np.float64)
        moved[int(np.argmin(moved))] -= self.total
        return float(l2_norms(moved[None])[0])

    def contains(self, points: Floats, slack: float = 1e-9) -> NDArray[np.bool_]:
        points = rows(points)
        sums = np.add.reduce(points, axis=1)
        inside: NDArray[np.bool_] = np.min(points, axis=1) >= -slack
        inside &= np.abs(sums - self.total) <= slack
        return inside

    def scales(self, points: Floats) -> Scales:
        points = rows(points)
        size = l1_norms(points)
        at = np.maximum(np.add.reduce(points, axis=1), 0.0) / self.total
        missed = np.min(points, axis=1) < -RELATIVE * size
        return Scales(np.where(missed, np.inf, at), np.where(missed, 0.0, at))

    def gaussian_width(self) -> float:
        return self.total * largest_of(self.size)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "total": float(self.total).hex(), "dimension": self.size}


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
        results = [part.linear_oracle(costs[:, at]) for part, at in self.slices()]
        return np.concatenate(results, axis=1)

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
        results = [part.scales(points[:, at]) for part, at in self.slices()]
        low = np.max([scales.low for scales in results], axis=0)
        return Scales(low, np.min([scales.high for scales in results], axis=0))

    def gaussian_width(self) -> float:
        return math.fsum(part.gaussian_width() for part in self.parts)

    def canonical(self) -> Mapping[str, Any]:
        return {"set": self.name, "parts": [dict(part.canonical()) for part in self.parts]}
