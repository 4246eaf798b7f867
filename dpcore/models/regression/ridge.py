"""How hard a regression pulls to 0: as the user says, or as hard as the noise pulls elsewhere."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.moments import Statistics
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

ADASSP: Literal["adassp"] = "adassp"
Ridge = float | Literal["adassp"] | None
"""A weight; a rule; None: the default."""


def prior_of(convex_set: ConvexSet) -> float:
    """t: what a coefficient of a model in the set is taken to vary by, public.

    The models of a set whose farthest has length r are taken for ones of length r / sqrt 2 in any
    direction: t = r / sqrt(2 d). Those of a set of sparse ones have few coefficients or one, which
    are larger: t = r / sqrt(2.5 sqrt(d)), a little below halfway (in logarithms) to a single one.
    """
    d = convex_set.dimension
    share = 2.5 * math.sqrt(d) if convex_set.sparse else 2.0 * d
    return convex_set.farthest(np.zeros(d)) / math.sqrt(max(share, 2.0))


def lift_for(stddev: Floats, prior: float, dimension: int) -> Floats:
    """(n,) k / t of ``quadratic.lifted``: the default ridge, direction by direction.

    The noise along an eigenvector is k = s sqrt(1 + |theta|^2 / 2) at a model of that length, as
    (Q, q) move by (E, e) and the normal equations by E theta - e. It is public, needs no budget,
    and fades with the square of the noise: what many events show is not pulled at all, what few
    show is pulled by as much as the noise there is worth. A ridge of one weight for all directions
    is as large as the worst of them needs.

    Args:
      stddev: (n,) s, of the noise of a coordinate of (svec(Q), q). prior: t, as of ``prior_of``.
      dimension: of the matrix.
    """
    if not prior > 0:
        return np.zeros_like(stddev)
    size = dimension * prior * prior
    return np.asarray(stddev * (math.sqrt(1 + size / 2) / prior))


def adassp_for(stddev: Floats, least: Floats, dimension: int) -> Floats:
    """(n,) weight of |theta|^2 by the rule of AdaSSP, from what is released already.

    s sqrt(d ln(2 d^2 / 0.05)), which the noise of a matrix exceeds in one of twenty, less what is
    certain of its least eigenvalue: the released one less s sqrt(2 d), about the largest that the
    noise has. There it spends a third of the budget on that eigenvalue; the matrix tells it too.

    Args:
      stddev: (n,) s, of the noise of a coordinate of (svec(Q), q). least: (n,) least eigenvalue of
        the released matrix. dimension: d.

    Source: Wang (2018), "Revisiting differentially private linear regression", Algorithm 2.
    """
    wanted = math.sqrt(dimension * math.log(2 * dimension**2 / 0.05))
    certain = np.maximum(least - stddev * math.sqrt(2 * dimension), 0.0)
    return np.maximum(stddev * wanted - certain, 0.0)


def quadratic_for(
    rule: Ridge, statistics: Statistics, stddev: Floats, prior: float
) -> PrivateQuadratic:
    """The objective of noisy moments in d dimensions under a rule.

    Args:
      rule: None: ``lift_for``. statistics: n systems. stddev: (n,). prior: see ``lift_for``.
    """
    matrix, right = statistics.matrix, statistics.right
    d = matrix.shape[-1]
    if rule is None:
        return PrivateQuadratic(matrix, right, 0.0, lift_for(stddev, prior, d))
    if rule == ADASSP:
        least = PrivateQuadratic(matrix, right).released.values[:, 0]
        return PrivateQuadratic(matrix, right, adassp_for(stddev, least, d))
    return PrivateQuadratic(matrix, right, float(rule))


def predicted(rule: Ridge, events: float, stddev: float, prior: float, dimension: int) -> float:
    """Expected excess of the mean squared error, scaled units, of a model of so many events that
    are spread evenly over their ranges, whose coefficients vary by ``prior``.

    Along an eigenvector of eigenvalue l a ridge of D leaves l ((D t)^2 + k^2) / (l + D)^2, k^2 the
    noise of its normal equation. The set does not bind, and the constant counts as a feature.
    """
    eigenvalue = events / 3
    square = stddev**2 * (1 + dimension * prior**2 / 2)
    if rule is None:
        pull = square / (prior**2 * eigenvalue)
    elif rule == ADASSP:
        pull = float(adassp_for(np.array(stddev), np.array(eigenvalue), dimension))
    else:
        pull = float(rule)
    left = ((pull * prior) ** 2 + square) * eigenvalue / (eigenvalue + pull) ** 2
    return dimension * left / events


def canonical_ridge(ridge: Ridge) -> str:
    """For the plan."""
    if ridge == ADASSP:
        return ADASSP
    return "lift" if ridge is None else float(ridge).hex()
