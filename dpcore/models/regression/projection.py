"""A public random projection whose products are whole numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.noise.gaussian import PublicNormals

GRID = 16
"""Entries are multiples of 2^-16: normals of fewer than 20 bits."""
MOST = 1 << 16
"""Coordinates, of numbers up to 2^16: sums of 2^16 products below 2^36 stay below 2^53."""
_SPARSE = 1 / 16
"""Share of entries that are not 0, below which they are multiplied one by one."""


@dataclass(frozen=True)
class RandomProjection:
    """Phi: m x p, entries N(0, 1/m) rounded to the grid, a function of the seed alone.

    It is public and drawn without looking at data: nothing private is spent on it. Products with
    whole numbers are exact in float64 whatever the order of summation, so bits never depend on a
    BLAS.

    Source: Kasiviswanathan, Nissim, Jin (2017), Algorithm 3, step 2.

    Attributes:
      dimension: m. size: p. seed: in [0, 2^63).
    """

    dimension: int
    size: int
    seed: int

    def __post_init__(self) -> None:
        at_least_one(dimension=self.dimension, size=self.size)
        if self.size > MOST:
            raise ConfigError("model.features", self.size, f"must be at most {MOST:,}.")

    @property
    def integers(self) -> Floats:
        """(m, p) whole numbers: sqrt(m) 2^16 Phi."""
        return _integers(self.dimension, self.size, self.seed)

    @property
    def matrix(self) -> Floats:
        """(m, p) Phi."""
        return _matrix(self.dimension, self.size, self.seed)

    def multiply(self, x: Floats) -> Floats:
        """sqrt(m) 2^16 Phi x, exactly: (p, n) whole numbers up to 2^16 -> (m, n).

        Where most entries are 0 the others are multiplied one by one, to the same bits.
        """
        if not x.size or np.count_nonzero(x) > _SPARSE * x.size:
            return np.asarray(self.integers @ x)
        flat = np.flatnonzero(x)
        row, column = np.divmod(flat, x.shape[1])
        few = sparse.csr_array((x[row, column], (column, row)), shape=x.shape[::-1])
        return np.asarray((few @ self.integers.T).T)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "dimension": self.dimension,
            "size": self.size,
            "seed": self.seed,
            "grid": GRID,
        }


@lru_cache(maxsize=8)
def _integers(m: int, p: int, seed: int) -> Floats:
    drawn = PublicNormals(b"random projection", seed).draw(0, m, p)
    out = np.rint(np.ldexp(drawn, GRID))
    out.flags.writeable = False
    return np.asarray(out)


@lru_cache(maxsize=8)
def _matrix(m: int, p: int, seed: int) -> Floats:
    out = np.ldexp(_integers(m, p, seed), -GRID) / np.sqrt(m)
    out.flags.writeable = False
    return np.asarray(out)
