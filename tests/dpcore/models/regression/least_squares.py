"""Least squares without noise, to compare with: no pipeline runs it, and it is not private."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats, Ints
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression import accelerated
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

_CHUNK = 1 << 16


def least_squares(
    features: Floats,
    targets: Floats,
    ends: Ints,
    convex_set: ConvexSet | None = None,
    ridge: float = 0.0,
) -> Floats:
    """Models of the first ``end`` events, for each end: (m, k, d).

    argmin over the set (None: everywhere, the shortest if there are several) of
    sum_{t < end} ||Theta x_t - y_t||^2 + ridge |Theta|^2.

    Args:
      features: (T, d). targets: (T, k). ends: (m,) ascending, at most T.

    Raises:
      ValueError: ends that do not ascend, or lie outside.
    """
    ends = np.asarray(ends, dtype=np.int64)
    if ends.size and (ends[0] < 0 or ends[-1] > len(features) or (np.diff(ends) < 0).any()):
        raise ValueError("ends must ascend, from 0 to the number of events.")
    d, k = features.shape[1], targets.shape[1]
    matrix, right = np.zeros((len(ends), d, d)), np.zeros((len(ends), k, d))
    bend, pull, begin = np.zeros((d, d)), np.zeros((k, d)), 0
    for place, end in enumerate(ends.tolist()):
        for first in range(begin, end, _CHUNK):
            last = min(first + _CHUNK, end)
            x, y = features[first:last], targets[first:last]
            bend = bend + x.T @ x
            pull = pull + y.T @ x
        matrix[place], right[place], begin = bend, pull, end
    quadratic = PrivateQuadratic(matrix, right, ridge)
    if convex_set is None:
        return quadratic.free
    return accelerated.solve(quadratic, convex_set).theta
