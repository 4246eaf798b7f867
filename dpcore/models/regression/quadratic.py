"""Private quadratics, the ridge that is added to them, and how ridges and clips compare."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import ndtri

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.moments import SLACK, Moments, Statistics
from weir.dpcore.words import number

_ROUNDING = 2.0**-50


class Eigen(NamedTuple):
    """Symmetric matrices, taken apart: matrix = vectors diag(values) vectors'.

    Attributes:
      values: (n, d), ascending. vectors: (n, d, d), one a column.
    """

    values: Floats
    vectors: Floats


@dataclass(frozen=True, eq=False)
class PrivateQuadratic:
    """f(theta) = theta' A theta - 2 q' theta, n systems side by side, k targets each.

    A is the noisy sum of x x^T made symmetric, its negative eigenvalues (which only noise makes)
    set to 0, plus ``ridge`` times the identity; or, with ``lift``, each eigenvalue is lifted by
    itself (``lifted``). Post-processing of what was released: bits may
    differ between builds of LAPACK, never with how many systems are solved together.

    Source: Kasiviswanathan, Nissim, Jin (2017), Definition 5 and Algorithm 2; the clipping of
      eigenvalues makes f convex and moves it less than the noise did.

    Attributes:
      matrix: (n, d, d), as released. right: (n, k, d), rows q of every target.
      ridge: 0 or more; one for all, or (n,) one a system.
      lift: (n,), in place of a ridge: see ``lifted``; None: a ridge.
    """

    matrix: Floats
    right: Floats
    ridge: float | Floats = 0.0
    lift: Floats | None = None

    def __post_init__(self) -> None:
        n, d = self.matrix.shape[0], self.matrix.shape[-1]
        shape = self.right.shape
        if self.matrix.shape != (n, d, d) or len(shape) != 3 or (shape[0], shape[2]) != (n, d):
            raise ValueError("matrices are (n, d, d), right sides (n, k, d).")
        if not (np.isfinite(self.pull) & (self.pull >= 0)).all():
            raise ConfigError("model.ridge", self.ridge, "must be a finite number, 0 or more.")

    @cached_property
    def pull(self) -> Floats:
        """(n, 1): the ridge of every system."""
        return np.broadcast_to(np.asarray(self.ridge, dtype=float), len(self.matrix))[:, None]

    @property
    def dimension(self) -> int:
        """d."""
        return int(self.matrix.shape[-1])

    @cached_property
    def symmetric(self) -> Floats:
        """(n, d, d): the released matrix, made symmetric."""
        return np.asarray(self.matrix / 2 + self.matrix.transpose(0, 2, 1) / 2)

    @cached_property
    def released(self) -> Eigen:
        """Of the released matrix, made symmetric."""
        return Eigen(*np.linalg.eigh(self.symmetric))

    @cached_property
    def eigen(self) -> Eigen:
        """Of A."""
        values, vectors = self.released
        if self.lift is not None:
            return Eigen(lifted(values, self.lift[:, None]), vectors)
        return Eigen(np.maximum(values, 0.0) + self.pull, vectors)

    @property
    def added(self) -> Floats:
        """(n, d): what A has along each eigenvector beyond what was released."""
        return np.asarray(self.eigen.values - self.released.values)

    @cached_property
    def convex(self) -> Floats:
        """A: (n, d, d), symmetric and positive semi-definite."""
        d = self.dimension
        values, vectors = self.eigen
        if self.lift is not None:
            rebuilt = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
            return np.asarray(rebuilt / 2 + rebuilt.transpose(0, 2, 1) / 2)
        out = self.symmetric.copy()
        spoilt = np.flatnonzero(values[:, 0] <= self.pull[:, 0])
        if spoilt.size:
            some = vectors[spoilt]
            own = values[spoilt] - self.pull[spoilt]
            rebuilt = (some * own[:, None, :]) @ some.transpose(0, 2, 1)
            out[spoilt] = rebuilt / 2 + rebuilt.transpose(0, 2, 1) / 2
        out[:, np.arange(d), np.arange(d)] += self.pull
        return out

    @property
    def largest(self) -> Floats:
        """Largest eigenvalue of A: (n,)."""
        return np.asarray(self.eigen.values[:, -1])

    @property
    def least(self) -> Floats:
        """Least eigenvalue of A, 0 where rounding could have made it: (n,)."""
        low, high = self.eigen.values[:, 0], self.largest
        return np.where(low > _ROUNDING * self.dimension * high, low, 0.0)

    @cached_property
    def free(self) -> Floats:
        """Shortest minimiser over the whole space: (n, k, d).

        Directions along which A is 0 up to rounding are left alone: a solution there is one only
        where q has no part in them, as it has none without noise.
        """
        values, vectors = self.eigen
        retained = values > _ROUNDING * self.dimension * self.largest[:, None]
        inverse = np.where(retained, 1.0 / np.where(retained, values, 1.0), 0.0)
        return np.asarray(
            ((self.right @ vectors) * inverse[:, None, :]) @ vectors.transpose(0, 2, 1)
        )

    def value(self, theta: Floats) -> Floats:
        """f: (n, k, d) -> (n, k)."""
        return np.asarray(np.sum((theta @ self.convex - 2 * self.right) * theta, axis=2))


def lifted(values: Floats, lift: Floats) -> Floats:
    """m + lift^2 / m, m = max(value, lift): the ridge of least risk in each eigenvector's own
    direction, where an eigenvalue is above the lift; twice the lift where it is below.

    Write theta for the coefficient along an eigenvector of eigenvalue l, a draw of variance t^2,
    and q = l theta + z, z of variance k^2: then q / (l + (k / t)^2 / l) has the least mean squared
    error, for any weight on it. lift = k / t.

    Source: Hoerl, Kennard (1970), "Ridge regression", generalised form, with the known noise.
    """
    most = np.maximum(values, lift)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(most > 0, most + np.where(most > 0, lift * (lift / most), 0.0), 0.0)


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


SHARES = (0.6, 0.8, 1.0, 1.25)
"""Of the length of a typical event: clips that are shown."""
_POINTS = 200


def compare_ridges(chosen: Ridge, events: float, stddev: float, convex_set: ConvexSet) -> str:
    """Predicted excess under each rule, and under the config's own weight.

    Args:
      chosen: of the config. events: in the span. stddev: of a coordinate of the moments.
    """
    rules: dict[str, Ridge] = {"default": None, ADASSP: ADASSP}
    if chosen is not None and chosen != ADASSP:
        rules[f"{chosen:g}"] = chosen
    prior, d = prior_of(convex_set), convex_set.dimension
    reported = (
        f"{name}{' (this)' if rule == chosen else ''} "
        f"{number(predicted(rule, events, stddev, prior, d))}"
        for name, rule in rules.items()
    )
    return ", ".join(reported)


def kept_share(features: int, intercept: bool, clip: float) -> float:
    """Share of the weight of events spread evenly over their ranges that a clip of their length
    leaves: E min(1, (clip / |x|)^2), |x|^2 taken as normal."""
    middle, spread = features / 3 + intercept, math.sqrt(4 * features / 45)
    points = ndtri((np.arange(_POINTS) + 0.5) / _POINTS)
    square = np.clip(middle + spread * points, 1e-9 + intercept, features + intercept)
    return float(np.mean(np.minimum(1.0, clip**2 / square)))


def compare_clips(
    moments: Moments, features: int, intercept: bool, events: float, std: float
) -> str:
    """Predicted deviation of a coefficient under a few clips of events spread over their ranges.
    Noise is taken to grow as it does under replace_one; other relations differ by little.

    Args:
      moments: of the plan. features: p. events: in the span. std: of a coordinate of the moments.
    """
    typical, whole = math.sqrt(features / 3 + intercept), math.sqrt(features + intercept) * SLACK
    own = moments.sensitivity("replace_one")
    lengths = sorted({round(typical * share, 3) for share in SHARES} | {moments.reach, whole})
    reported, shown = [], set()
    for length in lengths:
        name = f"{length:.3g}"
        if length > whole or name in shown:
            continue
        shown.add(name)
        noise = std * replace(moments, reach=length).sensitivity("replace_one") / own
        error = 3 * noise / (events * kept_share(features, intercept, length))
        mine = " (this)" if name == f"{moments.reach:.3g}" else ""
        reported.append(f"{name}{mine} {number(error)}")
    return ", ".join(reported)
