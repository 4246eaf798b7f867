"""Steps of a linear oracle toward the nearest point of a set.

``OracleStep`` over an l1 ball by a kernel: one pass over a key in place of fifty over all keys.

Its sums are added up in the order in which numpy adds them up, which is numpy's own matter and may
be another on another processor. So the kernel is tried next to numpy, on public numbers, before it
is used: where one bit differs, numpy steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.local_oracle import LocalOracle, local_oracle
from weir.dpcore.models.kit.point import grid_of, rounding_of, row_dot, to_grid
from weir.dpcore.native import kernels

FEW = 1 << 12
"""Numbers that it is tried on, but for wide rows."""

Step = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]
"""x (K, d), bound (K,), y (K, d) -> fresh x (K, d), gap (K,): see ``OracleStep``."""

_agrees: dict[int, bool] = {}
"""d -> whether bits are the same in this process: a matter of numpy and of d alone."""


class BallStep:
    """Steps towards the points of a ball that are nearest to others.

    Args:
      ball: P. grid: of the points, a power of two.
      rate: what a step leaves of the squared distance, at most.
      slack: room for rounding, a unit of distance.
    """

    def __init__(self, ball: L1Ball, grid: float, rate: float, slack: float) -> None:
        self._size = ball.size
        self._ball = ball
        root, twice = math.sqrt(ball.size), 2 * ball.radius
        self._numbers = np.array([ball.radius, root, grid, 1.0 / grid, rate, slack, twice])

    def __call__(self, x: Floats, bound: Floats, y: Floats) -> tuple[Floats, Floats]:
        fresh, gap, scratch = np.empty(x.shape), np.empty(len(x)), self._scratch()
        _kernels().ball_step(*_plain(x, y, bound), self._numbers, scratch, fresh, gap)
        return fresh, gap

    def follow(
        self, x: Floats, data_sum: Floats, last: Floats, weight: Floats, gap: Floats, mu: float
    ) -> tuple[Floats, Floats, Floats]:
        """A tick of ``ConditionalGradient`` whose centre and start are 0, without own curvature.

        Args:
          x: (K, d). data_sum: (K, d) of the tick. last: (K, d), the sum of the tick before.
          weight: (K,) t + C0. gap: (K,) of the tick before. mu: curvature.

        Returns:
          fresh x (K, d), gap (K,), bound (K,).
        """
        fresh, after, bound = np.empty(x.shape), np.empty(len(x)), np.empty(len(x))
        numbers, scratch = np.append(self._numbers, mu), self._scratch()
        value = _plain(x, data_sum, last, weight, gap)
        _kernels().ball_follow(*value, numbers, scratch, fresh, after, bound)
        return fresh, after, bound

    def _scratch(self) -> Floats:
        return np.empty((6, self._size))

    def agrees(self, in_numpy: Step) -> bool:
        """Whether there is a kernel, and it gives the bits of ``in_numpy`` here."""
        if kernels is None:
            return False
        if self._size not in _agrees:
            tried = _points(self._ball)
            pairs = zip(self(*tried), in_numpy(*tried), strict=True)
            _agrees[self._size] = all(pair.tobytes() == other.tobytes() for pair, other in pairs)
        return _agrees[self._size]


def _kernels() -> Any:
    assert kernels is not None
    return kernels


def _plain(*arrays: Floats) -> list[Floats]:
    """Contiguous doubles, where doubles may lie."""
    aligned = (array if array.flags.aligned else array.copy() for array in arrays)
    return [np.ascontiguousarray(item, dtype=np.float64) for item in aligned]


def _points(ball: L1Ball) -> tuple[Floats, Floats, Floats]:
    """Points in a ball, some of them at its edge or sparse, bounds on how far they are from what
    is nearest to others, and these: x (K, d), bound (K,), y (K, d)."""
    count = max(4, min(64, FEW // ball.size))
    spread = np.arange(2 * count * ball.size, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x, y = ((spread >> np.uint64(11)) * 2.0**-52 - 1.0).reshape(2, count, ball.size)
    x = x * (np.abs(y) < np.linspace(0, 1, count)[:, None])  # from none of the coordinates to all
    size = np.add.reduce(np.abs(x), axis=1)
    share = np.where(np.arange(count) % 3 == 0, 1.0, 0.75)
    x = x * (ball.radius * share / np.maximum(size, 1e-300))[:, None]
    bound = np.asarray(ball.radius * 2.0 ** -(np.arange(count) % 8.0), dtype=np.float64)
    return np.asarray(x), bound, np.asarray(x + ball.radius * y / ball.size)


__all__ = ["BallStep"]


class OracleStepResult(NamedTuple):
    """Where a step led.

    Attributes:
      x: (K, d) on the grid. gap: (K,) bound on ||x - nearest||^2. aux: what the oracle keeps.
    """

    x: Floats
    gap: Floats
    aux: Any


@dataclass(frozen=True)
class OracleStep:
    """One conditional-gradient step on ||x - y||^2 / 2 over P, and a certificate of the distance
    that is left.

    p = LLOO(x, B, x - y); x <- x + g (p - x), g by exact line search or constant. Without a local
    oracle (sets known by a linear oracle only) p is the vertex of least cost.

    **Formal guarantees**: post-processing. ||x - Proj(y)|| <= B before it gives
      ||x - Proj(y)||^2 <= gap after it: the least of what the oracle's rate, the step's own
      progress and the duality gap certify. For utility only.

    Attributes:
      set: P. step: line_search, or constant (1 / (2 rho^2); local oracle only).
    """

    set: ConvexSet
    step: Literal["line_search", "constant"] = "line_search"

    @cached_property
    def oracle(self) -> LocalOracle | None:
        """The set's local linear oracle, if it has one."""
        return local_oracle(self.set)

    @cached_property
    def grid(self) -> float:
        """Of the points."""
        return grid_of(self.set)

    @property
    def rate(self) -> float:
        """The constant step 1 / (2 rho^2); 0 without a local oracle."""
        return 0.0 if self.oracle is None else 1 / (2 * self.oracle.rho**2)

    @property
    def least_gap(self) -> float:
        """Room for the rounding of a start."""
        return (4 * rounding_of(self.set, self.grid)) ** 2

    def init(self, n_keys: int) -> Any:
        """What the oracle keeps of points at ``set.start()``."""
        return () if self.oracle is None else self.oracle.init(n_keys)

    @cached_property
    def _left(self) -> float:
        """What the oracle's rate leaves of the squared distance, at most."""
        if self.oracle is None:
            return 1.0
        al, rho = self.rate, self.oracle.rho
        return (1 - al) + (al * rho) ** 2

    @cached_property
    def _slack(self) -> float:
        """Room for the rounding of iterates, a unit of distance."""
        return 8.0 * rounding_of(self.set, self.grid)

    @cached_property
    def _ball(self) -> BallStep | None:
        if not isinstance(self.set, L1Ball) or self.step != "line_search":
            return None
        return BallStep(self.set, self.grid, self._left, self._slack)

    def kernel(self) -> BallStep | None:
        """The same by a kernel; None: there is none for the set, or not one of the same bits."""
        ball = self._ball
        return ball if ball is not None and ball.agrees(self._plain) else None

    def __call__(self, x: Floats, bound: Floats, y: Floats, aux: Any) -> OracleStepResult:
        """x: (K, d) in P, within bound (K,) of the nearest point to y (K, d)."""
        kernel = self.kernel()
        if kernel is not None:
            return OracleStepResult(*kernel(x, bound, y), aux)
        return self._in_numpy(x, bound, y, aux)

    def _plain(self, x: Floats, bound: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Without what the oracle keeps."""
        return self._in_numpy(x, bound, y, self.init(len(x)))[:2]

    def _in_numpy(self, x: Floats, bound: Floats, y: Floats, aux: Any) -> OracleStepResult:
        """The step, whatever the set."""
        away = x - y
        result = None if self.oracle is None else self.oracle(x, bound, away, aux)
        point = self.set.linear_oracle(away) if result is None else result.point
        direction = point - x
        length = row_dot(direction, direction)
        slope = -row_dot(away, direction)
        if self.step == "constant":
            g = np.where(length > 0, self.rate, 0.0)
        else:
            g = np.clip(slope / np.where(length > 0, length, 1.0), 0.0, 1.0)
            g[length == 0] = 0.0
        direction *= g[:, None]
        direction += x
        fresh = to_grid(direction, self.grid)
        if self.oracle is not None and result is not None:
            aux = self.oracle.update(aux, g, result)
        gap = self._gap(bound, away, fresh, y, g * (2.0 * slope - g * length))
        return OracleStepResult(fresh, gap, aux)

    def _gap(self, bound: Floats, before: Floats, x: Floats, y: Floats, fallen: Floats) -> Floats:
        """Bp^2 >= 2 (F(x) - min F) >= ||x - nearest||^2, F half the squared distance to y.

        Args:
          bound: (K,) B. before: (K, d), what x was, less y. x: (K, d) after. y: (K, d).
          fallen: (K,) by how much ||x - y||^2 fell, before x was rounded.

        Returns:
          (K,), with room for the rounding of iterates.
        """
        square = bound * bound
        least = square - fallen
        if self.oracle is not None:
            np.minimum(least, square * self._left, out=least)
        after = x - y
        vertex = self.set.linear_oracle(after)
        np.minimum(least, 2.0 * row_dot(after, x - vertex), out=least)
        np.maximum(least, 0.0, out=least)
        reach = np.sqrt(row_dot(before, before)) + self.set.diameter
        least += self._slack * reach
        return least


class Near(NamedTuple):
    """What is kept of K keys between ticks, where points are found step by step.

    Attributes:
      point: (K, d) in the set. target: (K, d) what it is near to.
      gap: (K,) bound on the squared distance from ``point`` to the nearest. aux: the oracle's.
    """

    point: Floats
    target: Floats
    gap: Floats
    aux: Any


@dataclass(frozen=True)
class Nearest:
    """Proj_P(y) at every tick: exactly, or, with ``calls``, approached by that many steps a tick.

    A projection moves no farther than what is projected: with the point of the last tick within
    sqrt(gap) of Proj(y_before), it is within sqrt(gap) + ||y - y_before|| of Proj(y), which is the
    radius of the first local call. How many calls there are is public, so that the time of a tick
    tells nothing.

    **Formal guarantees**: post-processing.

    Attributes:
      set: P. calls: of its linear oracle; 0: P is projected onto.
    """

    set: ConvexSet
    calls: int = 0

    @cached_property
    def _step(self) -> OracleStep:
        return OracleStep(self.set)

    def init(self, n_keys: int) -> Any:
        """A Near at the set's start; nothing where projections are exact."""
        if not self.calls:
            return ()
        start = to_grid(np.repeat(self.set.start()[None], n_keys, axis=0), self._step.grid)
        gap = np.full(n_keys, self._step.least_gap)
        return Near(start, start.copy(), gap, self._step.init(n_keys))

    def __call__(self, y: Floats, kept: Any) -> tuple[Floats, Any]:
        """y: (K, d) -> points (K, d) of the set, and what is kept."""
        if not self.calls:
            return self.set.project(y), kept
        x, gap, aux = kept.point, kept.gap, kept.aux
        moved = y - kept.target
        bound = np.sqrt(gap) + np.sqrt(row_dot(moved, moved))
        for _ in range(self.calls):
            x, gap, aux = self._step(x, bound, y, aux)
            bound = np.sqrt(gap)
        return x, Near(x, y, gap, aux)
