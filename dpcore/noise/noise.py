"""What a mechanism may ask of noise, and what names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.arrays import Digests, Floats, Ints
from weir.dpcore.errors import ConfigError


class Noise(Protocol):
    """Keyed noise for one stride: bound to (plan, part, ticks, user keys) by anyone who makes it.

    K keys, n ticks starting at ``first_tick``. Draws are a function of (root key, part, purpose,
    label, user key, digest, counter) only: never of the position of a key in its block, nor of
    other keys' data.
    """

    @property
    def first_tick(self) -> int:
        """Index of the first tick of the stride (0 is the start of the clock)."""

    def at(self, first_tick: int, keys: slice | None = None) -> Noise:
        """The same noise for a stride that begins at another tick, for all keys or some of them."""

    def leaf_digests(self, leaves: Ints) -> Digests:
        """leaves: (n, K, d) int64 -> (n, K, 2) uint64, keyed digest of (tick, leaf); zero where
        leaf is 0."""

    def gaussian(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Standard normals. labels: (m, 2) uint64; digests: (m, K, 2) -> (m, K, dimension)."""

    def k_norm(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Density proportional to exp(-||x||_2): (m, K, dimension)."""

    def discrete_gaussian(
        self,
        labels: Digests,
        digests: Digests,
        variances: Sequence[int] | Sequence[tuple[int, ...]],
    ) -> Ints:
        """Exact discrete Gaussians, (m, K, d) int64: variances[i] is sigma^2 of coordinate i, or
        variances[l] those of label l."""

    def gumbel(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Standard Gumbel variables, for a selection: (m, K, dimension)."""

    def select(self, labels: Digests, digests: Digests, scores: Floats, scale: float) -> Ints:
        """Private selections for one key: of each the index of the least ``scores - scale * g``, g
        what ``gumbel`` draws; scores (m, J) -> (m,)."""

    def laplace(self, labels: Digests, digests: Digests, dimension: int) -> Floats:
        """Independent standard Laplace variables: (m, K, dimension)."""

    def generalised_gaussian(
        self, labels: Digests, digests: Digests, dimension: int, exponent: float
    ) -> Floats:
        """Density proportional to exp(-||x||_r^2 / 2), r the exponent: (m, K, dimension)."""


NoiseOf = Callable[[int], Noise]
"""Part index -> the keyed noise of that part for this stride (parts never share noise)."""


def label(level: NDArray[Any] | int, index: NDArray[Any] | int) -> Digests:
    """Labels of draws: (m, 2) uint64 of (level, index); no two of them share noise."""
    index = np.atleast_1d(np.asarray(index, dtype=np.uint64))
    out = np.empty((index.size, 2), dtype=np.uint64)
    out[:, 0] = level
    out[:, 1] = index
    return out


KINDS: Mapping[str, LossKind] = {
    "gaussian": "gdp",
    "discrete_gaussian": "zcdp",
    "k_norm": "pure",
    "laplace": "pure",
}
"""The accounting of each noise of a sum."""


def kind_of(noise: str) -> LossKind:
    """The accounting of a noise."""
    if noise not in KINDS:
        raise ConfigError("mechanism.noise", noise, f"must be one of {sorted(KINDS)}.")
    return KINDS[noise]


def is_pure(noise: str) -> bool:
    """Whether a noise gives a pure guarantee, with delta = 0."""
    return KINDS.get(noise) == "pure"


def k_norm_variance(dimension: int) -> float:
    """Variance per coordinate of density exp(-||x||_2) in d dimensions: E||x||^2 / d = d + 1."""
    return float(dimension + 1)
