"""What is minimised: public numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError, at_least_one
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.grid import centre_of
from weir.dpcore.pricing.calibration import round_up


@dataclass(frozen=True)
class Problem:
    """argmin over x in C of F(x) = sum over a key's rows f(x; row) + (lambda/2) ||x - centre||^2.

    f is the loss of a linear prediction, its derivative clipped so that every gradient has l2 norm
    at most L: convex and L-Lipschitz in x whatever the data are. lambda = ``curvature`` times the
    key's age in ticks, so both terms grow alike. F is a sum, not a mean: how many rows a key has is
    private, and a sum needs no divisor.

    Attributes:
      set: C, which projects. gradients: f, L, and how a row's gradient is put on the lattice.
      curvature: nu, 0 or more, strong convexity that every tick adds. centre: d numbers.
      changes: rows that one neighbour swaps, at most: 1; 2 where its key and tick may change; where
        the unit is a user, all rows that one has in a period (``rows_of_user``).
      limit: rows a key may have.
    """

    set: ConvexSet
    gradients: Gradients
    curvature: float
    centre: tuple[float, ...]
    changes: int
    limit: int

    def __post_init__(self) -> None:
        at_least_one(changes=self.changes, limit=self.limit)
        centre_of(self.set, self.centre)
        if self.gradients.loss_bound is not None:
            raise ValueError("gradients of a batch carry no running loss.")
        if not self.set.projects:
            raise ConfigError(
                "model.set", self.set.name, "has no projection, which this solver needs."
            )

    @property
    def dimension(self) -> int:
        """d."""
        return self.set.dimension

    @property
    def lipschitz(self) -> float:
        """L."""
        return self.gradients.clip

    @property
    def sensitivity(self) -> float:
        """l2 sensitivity of a sum of gradients, in steps of their lattice, rounded up."""
        return round_up(2 * self.changes * self.lipschitz / self.gradients.lattice.resolution)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        gradients = self.gradients
        return {
            "set": self.set.canonical(),
            "loss": [gradients.loss.name, canonical_value(gradients.loss)],
            "clip": gradients.clip.hex(),
            "resolution": gradients.lattice.resolution.hex(),
            "features": gradients.features,
            "intercept": gradients.intercept,
            "curvature": self.curvature.hex(),
            "centre": [float(value).hex() for value in self.centre],
            "changes": self.changes,
            "limit": self.limit,
        }
