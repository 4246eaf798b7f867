"""The private objective of least squares: noisy statistics made into a convex quadratic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError

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
        kept = values > _ROUNDING * self.dimension * self.largest[:, None]
        inverse = np.where(kept, 1.0 / np.where(kept, values, 1.0), 0.0)
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
