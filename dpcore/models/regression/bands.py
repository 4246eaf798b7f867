"""Error bands of a regression of version 1: what the known noise does to its model."""

from __future__ import annotations

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

_CHUNK = 1 << 17


def stddev_along(
    quadratic: PrivateQuadratic,
    theta: Floats,
    stddev: Floats,
    directions: Floats,
    convex_set: ConvexSet | None = None,
) -> Floats:
    """Standard deviation of <a, theta> that the noise causes, for rows a: (n, k, p).

    A coefficient is a direction, and so is the prediction at a point. By the delta method, theta =
    A^-1 q moves by A^-1 (e - E theta) when (Q, q) do by (E, e). The covariance of E theta is
    s^2 (|theta|^2 I + theta theta') / 2, that of e is s^2 I, and e and E are independent.

    A plug-in: the released A and theta stand for the true ones. It holds where noise is small
    beside A's least eigenvalue, and is too wide where the set's bound stops theta; what lies in
    a set of width w along a never has a deviation above w / 2, so neither has the band. It says
    nothing of how well events tell the truth: with no noise it is 0.

    Args:
      quadratic: what was solved. theta: (n, k, d) its solution.
      stddev: (n,) s, of the noise of a coordinate of (svec(Q), q). directions: (p, d).
      convex_set: that theta was kept in.
    """
    n, k, d = theta.shape
    widest = np.full(len(directions), np.inf)
    if convex_set is not None:
        high = convex_set.linear_oracle(-directions)
        low = convex_set.linear_oracle(directions)
        widest = np.sum((high - low) * directions, axis=1) / 2
    out = np.empty((n, k, len(directions)))
    values, vectors = quadratic.eigen
    most = max(1, _CHUNK // (d * max(d, len(directions))))
    for first in range(0, n, most):
        at = slice(first, first + most)
        inverse = 1 / np.maximum(values[at], np.finfo(float).tiny)[:, None, :]
        along = directions @ vectors[at]
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = along * inverse
            length = np.sum(scaled * scaled, axis=2)[:, None, :]
            inner = (theta[at] @ vectors[at]) @ scaled.transpose(0, 2, 1)
            size = np.sum(theta[at] * theta[at], axis=2)[:, :, None]
            square = (size / 2 + 1) * length + inner * inner / 2
            found = np.sqrt(square) * stddev[at, None, None]
        quiet = stddev[at, None, None] == 0
        found = np.where(quiet, 0.0, np.where(np.isnan(found), np.inf, found))
        out[at] = np.minimum(found, widest)
    return out
