"""A phase of records that ends in one noisy point."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.models.kit.point import PointNoise


class Phase(NamedTuple):
    """One phase.

    Attributes:
      start, size: its records within the run. eta: of its steps. noise: of its average.
    """

    start: int
    size: int
    eta: float
    noise: PointNoise

    @classmethod
    def of(
        cls,
        dimension: int,
        start: int,
        size: int,
        eta: float,
        moved: float,
        budget: PrivacyLoss,
        name: str = "a model",
    ) -> Phase:
        """A phase whose noisy point costs a budget.

        Args:
          dimension: d, of the point. moved: most that a record moves it in l2, before the lattice.
          name: of what is released, for people.

        Raises:
          ConfigError: noise that cannot be drawn.
        """
        noise = PointNoise.calibrated(dimension, moved, budget, spare=1.0, name=name)
        return cls(start, size, eta, noise)

    def canonical(self) -> list[Any]:
        """Every public number."""
        numbers = (self.eta, self.noise.resolution, self.noise.sensitivity, self.noise.scale)
        return [self.start, self.size, *(value.hex() for value in numbers)]


def worst_of(phases: Iterable[Phase]) -> PrivacyLoss:
    """The most that a record of one of the phases pays."""
    return max((phase.noise.loss for phase in phases), key=lambda loss: loss.value)
