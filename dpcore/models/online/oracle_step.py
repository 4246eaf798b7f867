"""Toward the point of a set that is nearest to another, by its linear oracles alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.local_oracle import LocalOracle, local_oracle
from weir.dpcore.models.kit.grid import grid_of, rounding_of, row_dot, to_grid
from weir.dpcore.models.online.ball_step import BallStep


class Stepped(NamedTuple):
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

    def __call__(self, x: Floats, bound: Floats, y: Floats, aux: Any) -> Stepped:
        """x: (K, d) in P, within bound (K,) of the nearest point to y (K, d)."""
        kernel = self.kernel()
        if kernel is not None:
            return Stepped(*kernel(x, bound, y), aux)
        return self._in_numpy(x, bound, y, aux)

    def _plain(self, x: Floats, bound: Floats, y: Floats) -> tuple[Floats, Floats]:
        """Without what the oracle keeps."""
        return self._in_numpy(x, bound, y, self.init(len(x)))[:2]

    def _in_numpy(self, x: Floats, bound: Floats, y: Floats, aux: Any) -> Stepped:
        """The step, whatever the set."""
        away = x - y
        found = None if self.oracle is None else self.oracle(x, bound, away, aux)
        point = self.set.linear_oracle(away) if found is None else found.point
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
        if self.oracle is not None and found is not None:
            aux = self.oracle.update(aux, g, found)
        gap = self._gap(bound, away, fresh, y, g * (2.0 * slope - g * length))
        return Stepped(fresh, gap, aux)

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
