"""``OracleStep`` over an l1 ball by a kernel: one pass over a key in place of fifty over all keys.

Its sums are added up in the order in which numpy adds them up, which is numpy's own matter and may
be another on another processor. So the kernel is tried beside numpy, on public numbers, before it
is used: where one bit differs, numpy steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball
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
        """See ``Step``."""
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
        given = _plain(x, data_sum, last, weight, gap)
        _kernels().ball_follow(*given, numbers, scratch, fresh, after, bound)
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
            _agrees[self._size] = all(one.tobytes() == other.tobytes() for one, other in pairs)
        return _agrees[self._size]


def _kernels() -> Any:
    assert kernels is not None
    return kernels


def _plain(*arrays: Floats) -> list[Floats]:
    """Contiguous doubles, where doubles may lie."""
    aligned = (one if one.flags.aligned else one.copy() for one in arrays)
    return [np.ascontiguousarray(one, dtype=np.float64) for one in aligned]


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
