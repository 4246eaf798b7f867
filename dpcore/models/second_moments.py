"""Sums of x x^T of a tick's rows, beside their gradients: how the losses curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.leaves.lattice import Lattice, clip_l2
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.moments import BITS, Moments
from weir.dpcore.models.scaling import is_void

LATTICE = Lattice(2.0**-BITS)
"""Of features; products are whole multiples of its square."""
MOST = 64
"""Coefficients up to which a d x d system a tick is worth its time and noise."""


@dataclass(frozen=True)
class SecondMoments:
    """What one row adds to a leaf: the upper triangle of x x^T, x its features and constant.

    Formal guarantees:
      Unit: one event. Each x is shortened to ``reach`` and truncated toward zero to a lattice,
        which lengthens neither, and sums of products are exact. A void row adds 0. Nothing depends
        on a model.
      Sensitivity: rows compete where they are capped, so that whatever the relation a neighbour
        replaces one row of a leaf by another: ||x x^T - z z^T||_F^2 = |x|^4 + |z|^4 - 2 <x, z>^2
        <= 2 reach^4, in svec's norm; see ``change``.

    Attributes:
      features: p, numbers in a row before the target. intercept: whether x ends with a constant.
      reach: bound on ||x||_2.
    """

    features: int
    intercept: bool
    reach: float

    @property
    def parameters(self) -> int:
        """d."""
        return self.features + self.intercept

    @property
    def dimension(self) -> int:
        """d (d + 1) / 2."""
        return self.parameters * (self.parameters + 1) // 2

    @property
    def resolution(self) -> float:
        """One step of a leaf, in scaled units."""
        return self._moments.resolution

    @property
    def change(self) -> float:
        """Largest change of a leaf in units of ``weights``, scaled units; rounded up."""
        return math.sqrt(2.0) * self.reach**2 * (1 + 2.0**-50)

    @property
    def weights(self) -> tuple[float, ...]:
        """Noise weights in lattice steps: (leaf / weights) has svec's l2 norm."""
        return self._moments.scales[: self.dimension]

    @cached_property
    def _moments(self) -> Moments:
        return Moments(self.parameters, 1, False, self.reach, 1.0)

    def sums(self, leaf: RowLeaf) -> Ints:
        """Rows of features and target, (N, p + 1), of K keys -> (K, dimension) int64."""
        rows = cast(Floats, leaf.rows)
        x = np.zeros((len(rows), self.parameters + 1))
        x[:, : self.features] = rows[:, : self.features]
        if self.intercept:
            x[:, self.features] = 1.0
        x[is_void(rows)] = 0.0
        x[:, :-1] = LATTICE.truncate(clip_l2(x[:, :-1], self.reach).values)
        found = self._moments.accumulate(x, leaf.keys, leaf.n_keys)
        return np.ascontiguousarray(found[:, : self.dimension])

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"reach": self.reach.hex(), "lattice": LATTICE.resolution.hex()}


def typical_reach(features: int, intercept: bool) -> float:
    """Length of events that are evenly spread over their ranges: sqrt(p / 3 + 1)."""
    return math.sqrt(features / 3 + intercept)
