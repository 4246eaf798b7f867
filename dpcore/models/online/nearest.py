"""The point of a set nearest to another: exactly, or by some calls of its linear oracle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.kit.grid import row_dot, to_grid
from weir.dpcore.models.online.oracle_step import OracleStep


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
