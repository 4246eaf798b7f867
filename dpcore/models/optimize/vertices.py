"""Vertices of a set that are chosen among in private."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weir.dpcore.arrays import Digests, Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet, Corners, norm_of
from weir.dpcore.models.kit.rows import STEP
from weir.dpcore.models.optimize.rows import RowMatrix, grid_for, on_grid
from weir.dpcore.noise import replay
from weir.dpcore.noise.noise import Noise
from weir.dpcore.noise.selection import select

MANY = 1 << 12
"""Vertices from which on logarithms are taken of few of them only."""


@dataclass(frozen=True)
class VertexChoice:
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
        result = self.set.corners()
        assert result is not None
        return result

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
        self,
        gradient: Floats,
        scale: float,
        moved: float,
        noise: Noise,
        labels: Digests,
        digest: Digests,
    ) -> Floats:
        """The same with noise of its own: of many vertices by few logarithms, the same choice.
        labels: (1, 2)."""
        if self.count < MANY:
            return self.choose(gradient, scale, moved, self.draw(noise, labels, digest)[0])
        scores = self.scores(gradient)
        chosen = int(noise.select(labels, digest[None, None], scores[None], scale)[0])
        return self._released(scores, chosen, scale, moved)

    def choose(self, gradient: Floats, scale: float, moved: float, gumbel: Floats) -> Floats:
        """The vertex of the private choice: (d,). moved: most that a record changes the range of
        the scores. gumbel: (J,)."""
        scores = self.scores(gradient)
        return self._released(scores, int(select(scores, scale, gumbel)), scale, moved)

    def _released(self, scores: Floats, chosen: int, scale: float, moved: float) -> Floats:
        index = replay.released(
            "vertex", "gumbel_choice", scores, chosen, sensitivity=moved, scale=scale, norm=math.inf
        )
        return self.vertex(int(index))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"vertices": self.count}


@dataclass(frozen=True)
class VertexCandidates:
    """Vertices +-radius e_j, radius e_j, or listed ones.

    A vertex predicts radius times a column of what ``rows`` makes of the rows: their own columns,
    or of listed vertices the products with each over ``radius``, rounded to the lattice of
    ``STEP``. So the 2 d vertices of an l1 ball are scored by one product, and none is ever made.

    Attributes:
      columns: J. signed: whether both signs of each are there. radius: see above.
      listed: J vertices of d numbers; (): multiples of unit vectors.
    """

    columns: int
    signed: bool
    radius: float
    listed: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def of(cls, convex_set: ConvexSet) -> VertexCandidates | None:
        """Those of a set; None where it has too many."""
        result = convex_set.corners()
        if result is None:
            return None
        if result.listed is None:
            return cls(convex_set.dimension, result.signed, result.radius)
        listed = tuple(tuple(vertex) for vertex in result.listed.tolist())
        radius = max((norm_of(vertex, 1.0) for vertex in result.listed), default=0.0)
        return cls(len(listed), False, radius or 1.0, listed)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.columns * (2 if self.signed else 1)

    @property
    def rounding(self) -> float:
        """Most that rounding adds to the range of what vertices predict for one row."""
        return self.radius * 2.0 * STEP if self.listed else 0.0

    def rows(self, rows: RowMatrix) -> RowMatrix:
        """As columns of candidates: (n, J)."""
        if not self.listed:
            return rows
        grid = grid_for(rows.p, 1.0)
        out = np.empty((rows.n, self.columns))
        for j, vertex in enumerate(self.listed):
            weights = on_grid(np.array(vertex) / self.radius, grid)
            out[:, j] = np.rint(rows.across(weights) * (1.0 / STEP)) * STEP
        return RowMatrix(np.clip(out, -1.0, 1.0))

    def model(self, weights: Floats) -> Floats:
        """The mixture of vertices with weights (J,), negative for those of a negative sign: (d,).

        Weights add up to 1 in size.
        """
        if not self.listed:
            return np.asarray(weights * self.radius + 0.0)
        total = np.zeros(len(self.listed[0]))
        for weight, vertex in zip(weights.tolist(), self.listed, strict=True):
            total += weight * np.array(vertex)
        return total
