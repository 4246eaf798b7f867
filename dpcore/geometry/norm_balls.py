"""Balls of the lp norms, and of the trace norm of matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.geometry.convex_set import (
    NormBall,
    by_chunks,
    check_exponent,
    l2_norms,
    norm_bound,
    rows,
)

LEAST_P, MOST_P = 1.05, 40.0
"""Exponents between which the projection is exact to about 50 bits."""
_ROUNDS, _STEPS = 100, 60
_DONE = 2.0**-50


class _Powers(NamedTuple):
    """What a multiplier c makes of |x|: z + c z^(p - 1) = |x|.

    Attributes:
      point: (K, d) z. power: (K, d) z^(p - 1).
    """

    point: Floats
    power: Floats


@dataclass(frozen=True)
class LpBall(NormBall):
    """{x : sum |x_i|^p <= radius^p}, 1 < p < infinity; it projects for 1.05 <= p <= 40.

    Closer to 1 or to infinity it is all but the l1 ball or the box, and known by its linear oracle.

    Powers are numpy's, which may differ in the last bit between kinds of CPU; the same row gives
    the same bits wherever it stands, on one kind.

    Attributes:
      size: d. p: the exponent; q = p / (p - 1) is its dual.
    """

    name: ClassVar[str] = "lp_ball"
    no_oracle: ClassVar[str] = "an lp ball"
    p: float
    size: int

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(size=self.size)
        if not 1 < self.p < math.inf:
            raise ConfigError("p", self.p, "must be above 1 and finite; else take l1_ball or box.")

    @property
    def dimension(self) -> int:
        return self.size

    @property
    def projects(self) -> bool:
        return LEAST_P <= self.p <= MOST_P

    @property
    def dual(self) -> float:
        """q."""
        return self.p / (self.p - 1)

    def project(self, points: Floats) -> Floats:
        """z with z_i + c z_i^(p - 1) = |x_i| and the sign of x_i, c such that z is on the sphere.

        c lies between ||x||_q - max ||z||_q and ||x||_q (for radius 1), and is found by Newton's
        method on ||z||_p^-(p - 1), all but linear in c, with bisection where it would leave what is
        known. To about 50 bits.
        """
        if not self.projects:
            return super().project(points)
        return by_chunks(self._project, rows(points))

    def _project(self, points: Floats) -> Floats:
        out = points.copy()
        outside = np.flatnonzero(lp_norms(points, self.p) > self.radius)
        if outside.size:
            x = points[outside]
            out[outside] = np.copysign(self._onto(np.abs(x) / self.radius) * self.radius, x)
        return out

    def _onto(self, x: Floats) -> Floats:
        """x: (m, d) >= 0 with ||x||_p > 1 -> (m, d) with ||z||_p = 1."""
        p, q = self.p, self.dual
        out = np.empty_like(x)
        high = lp_norms(x, q)
        low = np.maximum(high - self.size ** max(0.0, 1 / q - 1 / p), 0.0)  # c's own bounds
        guess = low / 2 + high / 2
        live = np.arange(len(x))
        for _ in range(_ROUNDS):
            z, w = self._parts(x, guess)
            total = np.add.reduce(z * w, axis=1)
            fall = guess[:, None] * (p - 1) * w + z
            share = np.where(fall > 0, w / np.where(fall > 0, fall, 1.0), 0.0)
            slope = np.add.reduce(z * w * share, axis=1)
            inside = total <= 1
            high, low = np.where(inside, guess, high), np.where(inside, low, guess)
            # r = total^(-(p - 1) / p) is 1 at the root; dr/dc = (p - 1) r slope / total.
            r = total ** (-(p - 1) / p)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                new = guess + (1 - r) * total / ((p - 1) * r * slope)
            between = (new > low) & (new < high)
            new = np.where(between, new, low / 2 + high / 2)
            done = (np.abs(total - 1) <= _DONE) | (high - low <= _DONE * high) | (new == guess)
            out[live[done]] = z[done]
            keep = ~done
            live, x, guess, low, high = live[keep], x[keep], new[keep], low[keep], high[keep]
            if not live.size:
                return out
        out[live] = self._parts(x, guess).point
        return out

    def _parts(self, x: Floats, c: Floats) -> _Powers:
        """Both powers of z by Newton's method on u^s + b u = a, s >= 1, which falls to the root.

        For p >= 2 u is z and s = p - 1, else u is z^(p - 1) and s = 1 / (p - 1). It starts where
        one of the two terms is a.
        """
        c = np.broadcast_to(c[:, None], x.shape)
        wide = self.p >= 2
        s = self.p - 1 if wide else 1 / (self.p - 1)
        first, second = (c, np.ones_like(x)) if wide else (np.ones_like(x), c)
        with np.errstate(divide="ignore", over="ignore"):
            u = np.minimum(x / second, (x / first) ** (1 / s))
        power = u ** (s - 1)
        for _ in range(_STEPS):
            over = first * (power * u) + second * u - x
            slope = s * first * power + second
            new = np.maximum(u - np.maximum(over, 0.0) / slope, 0.0)
            moves = u - new > _DONE * u
            if not moves.any():
                break
            u = np.where(moves, new, u)  # each entry stops by itself, anyone who is next to it
            power = u ** (s - 1)
        return _Powers(u, power * u) if wide else _Powers(power * u, u)

    def linear_oracle(self, costs: Floats) -> Floats:
        """-radius sign(c) |c|^(q - 1), of lp norm radius; a row of zeros gives radius e_1."""
        return by_chunks(self._oracle, rows(costs))

    def _oracle(self, costs: Floats) -> Floats:
        size = np.abs(costs)
        largest = np.max(size, axis=1, initial=0.0)
        zero = largest == 0
        unit = size / np.where(zero, 1.0, largest)[:, None]
        power = unit ** (self.dual - 1)
        norms = lp_norms(power, self.p)
        out = power * (-self.radius / np.where(zero, 1.0, norms))[:, None]
        np.copysign(out, -costs, out=out)
        out[zero] = 0.0
        out[zero, 0] = self.radius
        return out

    @property
    def _longest(self) -> float:
        """Largest l2 norm: on an axis for p <= 2, else on a diagonal."""
        return self.radius * math.pow(self.size, max(0.0, 0.5 - 1 / self.p))

    @property
    def diameter(self) -> float:
        return 2 * self._longest

    def diameter_in(self, p: float) -> float:
        """Along an axis for p >= the ball's own exponent, else along a diagonal."""
        check_exponent(p)
        return 2 * self.radius * math.pow(self.size, max(0.0, 1 / p - 1 / self.p))

    def farthest(self, centre: Floats) -> float:
        """A bound above it, exact at the origin."""
        return self._longest + float(lp_norms(np.asarray(centre, dtype=np.float64)[None], 2.0)[0])

    def norms(self, points: Floats) -> Floats:
        return lp_norms(points, self.p)

    def gaussian_width(self) -> float:
        """A bound above radius E ||g||_q: the least Jensen bound of all exponents up to q."""
        return self.radius * norm_bound(self.size, self.dual)

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "radius": float(self.radius).hex(),
            "p": float(self.p).hex(),
            "dimension": self.size,
        }


def lp_norms(points: Floats, p: float) -> Floats:
    """(K, d) -> (K,), without overflow: entries are divided by the largest of their row."""
    size = np.abs(rows(points))
    largest = np.max(size, axis=1, initial=0.0)
    unit = size / np.where(largest > 0, largest, 1.0)[:, None]
    return np.asarray(largest * np.add.reduce(unit**p, axis=1) ** (1 / p))


@dataclass(frozen=True)
class TraceNormBall(NormBall):
    """{X in R^(m x n) : sum of its singular values <= radius}, X as a row of m n numbers.

    Known by its linear oracle only: one singular pair a row, found by LAPACK. The same row gives
    the same bits wherever it stands, on one machine with one build of LAPACK; another build may
    differ in the last bits, which rounding to a public grid hides except at its edges. Unlike for
    the other sets, a tie between singular values goes to whichever LAPACK lists first.

    Source: Jaggi (2013), "Revisiting Frank-Wolfe", section 4.3 for the oracle.
    """

    name: ClassVar[str] = "trace_norm_ball"
    no_oracle: ClassVar[str] = "the trace-norm ball"
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least_one(rows=self.shape[0], columns=self.shape[1])

    @property
    def dimension(self) -> int:
        return self.shape[0] * self.shape[1]

    def linear_oracle(self, costs: Floats) -> Floats:
        """-radius u v^T of the largest singular value: a matrix of rank one."""
        left, _, right = np.linalg.svd(self._matrices(costs), full_matrices=False)
        best = -self.radius * left[:, :, 0, None] * right[:, 0, None, :]
        return np.asarray(best.reshape(len(costs), self.dimension))

    def diameter_in(self, p: float) -> float:
        """Between u v^T and -u v^T of norm ``radius``: ||u||_p ||v||_p is largest for even ones."""
        check_exponent(p)
        return self.diameter * math.pow(self.dimension, max(0.0, 1 / p - 0.5))

    def farthest(self, centre: Floats) -> float:
        """||C - radius u v^T||^2 is ||C||^2 + radius^2 - 2 radius <C, u v^T>: the oracle's pair."""
        away = self.linear_oracle(rows(centre[None])) - centre
        return float(l2_norms(away)[0])

    def gaussian_width(self) -> float:
        """A bound above it: the mean largest singular value is at most sqrt(m) + sqrt(n).

        Source: Gordon (1985); Davidson, Szarek (2001), Theorem II.13.
        """
        return self.radius * (math.sqrt(self.shape[0]) + math.sqrt(self.shape[1]))

    def canonical(self) -> Mapping[str, Any]:
        return {
            "set": self.name,
            "radius": float(self.radius).hex(),
            "shape": list(self.shape),
        }

    def _matrices(self, points: Floats) -> Floats:
        return rows(points).reshape(len(points), *self.shape)

    def norms(self, points: Floats) -> Floats:
        sizes = np.linalg.svd(self._matrices(points), compute_uv=False)
        return np.asarray(np.add.reduce(np.ascontiguousarray(sizes), axis=1))
