"""Private choice of a vertex with a small score: the leaf step over a polytope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet, Corners
from weir.dpcore.noise.noise import Noise
from weir.dpcore.noise.selection import select

MANY = 1 << 12
"""Vertices from which on logarithms are taken of few of them only."""


@dataclass(frozen=True)
class Vertices:
    """The vertices of an l1 ball, a simplex or a polytope, and noise that chooses among them.

    Attributes:
      set: of which they are.

    Raises:
      ConfigError: it has too many, or none.
    """

    set: ConvexSet

    def __post_init__(self) -> None:
        if self.set.corners() is None:
            raise ConfigError(
                "model.set",
                self.set.name,
                "must be an l1_ball, a simplex or a polytope: vertices are chosen among; take "
                "optimize.sfw_tree for an lp_ball, optimize.phased_sgd for others.",
            )

    @cached_property
    def _corners(self) -> Corners:
        found = self.set.corners()
        assert found is not None
        return found

    @property
    def count(self) -> int:
        """J."""
        if self._corners.listed is not None:
            return len(self._corners.listed)
        return self.set.dimension * (2 if self._corners.signed else 1)

    @property
    def radius(self) -> float:
        """Most that the l1 norm of a point is."""
        return self.set.farthest_in(1.0)

    @property
    def diameter(self) -> float:
        """M: most l1 distance of two points."""
        return self.set.diameter_in(1.0)

    def scores(self, gradient: Floats) -> Floats:
        """<v, gradient> of every vertex: (d,) -> (J,). No vertex of a ball is ever written out."""
        listed = self._corners.listed
        if listed is not None:
            total = np.zeros(len(listed))
            for j in range(len(gradient)):
                total += listed[:, j] * gradient[j]
            return total
        own = gradient * self._corners.radius
        return np.concatenate([own, -own]) if self._corners.signed else own

    def vertex(self, index: int) -> Floats:
        """(d,)."""
        if self._corners.listed is not None:
            return np.array(self._corners.listed[index])
        out = np.zeros(self.set.dimension)
        sign, at = divmod(index, self.set.dimension)
        out[at] = -self._corners.radius if sign else self._corners.radius
        return out

    def draw(self, noise: Noise, labels: Digests, digest: Digests) -> Floats:
        """Gumbel variables: labels (m, 2) -> (m, J). digest: (2,), of all data of the key."""
        where = np.broadcast_to(digest, (len(labels), 1, 2))
        return noise.gumbel(labels, where, self.count)[:, 0]

    def chosen(
        self, gradient: Floats, scale: float, noise: Noise, labels: Digests, digest: Digests
    ) -> Floats:
        """The same with noise of its own: of many vertices by few logarithms, the same choice.
        labels: (1, 2)."""
        if self.count < MANY:
            return self.choose(gradient, scale, self.draw(noise, labels, digest)[0])
        scores = self.scores(gradient)[None]
        return self.vertex(int(noise.select(labels, digest[None, None], scores, scale)[0]))

    def choose(self, gradient: Floats, scale: float, gumbel: Floats) -> Floats:
        """The vertex of the private choice: (d,). gumbel: (J,)."""
        return self.vertex(int(select(self.scores(gradient), scale, gumbel)))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"vertices": self.count}
