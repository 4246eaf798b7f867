"""Which solver makes a model of private moments, and how far it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from weir.dpcore.arrays import Floats
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.regression import accelerated, noisy_gradient
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

Name = Literal["accelerated", "noisy_projected_gradient"]


@dataclass(frozen=True)
class Solver:
    """Minimises private quadratics over a set. Post-processing.

    Attributes:
      name: of the algorithm. tolerance: gap at which the accelerated one stops, relative to the
        objective's size. steps: most steps; None: its own rule.
    """

    name: Name = "accelerated"
    tolerance: float = accelerated.TOLERANCE
    steps: int | None = None

    def __call__(
        self, quadratic: PrivateQuadratic, convex_set: ConvexSet, stddev: Floats
    ) -> Floats:
        """theta in the set: (n, k, d). stddev: (n,) of the noise of a coordinate of (svec(Q), q).

        Raises:
          ConfigError: the set has no projection.
        """
        if self.name == "accelerated":
            steps = accelerated.STEPS if self.steps is None else self.steps
            return accelerated.solve(quadratic, convex_set, self.tolerance, steps).theta
        steps = noisy_gradient.STEPS if self.steps is None else self.steps
        plan = noisy_gradient.schedule(quadratic, convex_set, stddev, steps)
        return noisy_gradient.noisy_projected_gradient(
            quadratic, convex_set, plan.bound, plan.steps
        )

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "tolerance": self.tolerance.hex(), "steps": self.steps}
