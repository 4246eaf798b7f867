"""Rows of several keys as solvers' queries read them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.point import row_dot

WORK = 1 << 17
"""Numbers that are worked on at once: they stay in the cache."""
FEWEST = 1 << 10
"""Rows that are worked on at once, at least: fewer cost more in calls than they save."""


class Design(NamedTuple):
    """Rows of K keys, key after key, as the features of a linear prediction.

    Attributes:
      keys: (N,) int64, not decreasing, in [0, K).
      points: (d, N) float64, a row for each feature, then 1 for the intercept if there is one.
      targets: (N,). steepest: (N,), largest slope whose gradient is within the clip, L / ||point||.
      hashes: (N, 2) uint64, keyed hash of each row's event; secret.
    """

    keys: Ints
    points: Floats
    targets: Floats
    steepest: Floats
    hashes: Digests

    @classmethod
    def of(cls, keys: Ints, rows: Floats, hashes: Digests, gradients: Gradients) -> Design:
        """rows: (N, p + 1), features and target."""
        d = gradients.parameters
        points = np.ones((len(rows), d))
        points[:, : gradients.features] = rows[:, : gradients.features]
        length = np.sqrt(row_dot(points, points))
        clip = gradients.clip * (1 - (d + 16) * 2.0**-52)  # below by more than all rounding
        steepest = clip / np.where(length > 0, length, 1.0)
        targets = np.ascontiguousarray(rows[:, -1])
        return cls(keys, np.ascontiguousarray(points.T), targets, steepest, hashes)

    def where(self, rows: NDArray[np.bool_]) -> Design:
        """Some of the rows. rows: (N,)."""
        return Design(
            self.keys[rows],
            np.compress(rows, self.points, axis=1),
            self.targets[rows],
            self.steepest[rows],
            self.hashes[rows],
        )

    def sums(self, x: Floats, gradients: Gradients) -> Ints:
        """Sums of each key's clipped gradients at x (K, d): (K, d) int64, lattice steps.

        Each row's gradient has l2 norm at most the clip exactly: its slope is clipped to
        ``steepest``, which makes it the gradient of a convex loss, and the product is truncated
        toward zero. What is truncated are whole numbers up to 2^20, whose sums in float64 are exact
        in any order.
        """
        out = np.zeros(x.shape, dtype=np.int64)
        inverse, d = 1.0 / gradients.lattice.resolution, x.shape[1]
        step = max(FEWEST, WORK // d)
        columns = np.ascontiguousarray(x.T)
        for start in range(0, len(self.keys), step):
            piece = slice(start, start + step)
            keys, points, steepest = self.keys[piece], self.points[:, piece], self.steepest[piece]
            item = int(keys[0]) if keys[0] == keys[-1] else None
            prediction, part = np.zeros(len(keys)), np.empty(len(keys))
            for j in range(d):  # in order, number by number: the same bits whatever else is here
                weight = columns[j].take(keys) if item is None else columns[j, item]
                prediction += np.multiply(points[j], weight, out=part)
            slope = gradients.loss.derivative(prediction, self.targets[piece])
            slope = np.where(np.isfinite(slope), slope, 0.0)
            np.clip(slope, -steepest, steepest, out=slope)
            slope *= inverse  # a power of two
            values = points * slope
            np.trunc(values, out=values)
            if item is not None:
                out[item] += values.sum(axis=1).astype(np.int64)
                continue
            first = np.flatnonzero(np.diff(keys, prepend=-1))
            out[keys[first]] += np.add.reduceat(values, first, axis=1).T.astype(np.int64)
        return out
