"""What all rules have in common: the set, the public centre, where they start, the grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError, positive
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.kit.grid import centre_of, grid_of, start_of, to_grid


@dataclass(frozen=True)
class OverSet:
    """A rule over a convex set, whose iterates lie on a public grid.

    Attributes:
      set: P. curvature: mu or w, above 0. centre: d numbers, where the curvature pulls to.
    """

    set: ConvexSet
    curvature: float
    centre: tuple[float, ...]

    rule: ClassVar[str]

    def __post_init__(self) -> None:
        positive(curvature=self.curvature)
        centre_of(self.set, self.centre)

    def refuse_unprojected(self, field: str, value: str) -> None:
        """Raises ConfigError: the set has no projection, which the rule needs."""
        if not self.set.projects:
            raise ConfigError(
                field,
                value,
                f"needs a projection, which {self.set.name} has none of; use "
                "online.conditional_gradient, which needs a linear oracle only.",
            )

    @cached_property
    def _grid(self) -> float:
        return grid_of(self.set)

    @cached_property
    def _centre(self) -> Floats:
        return centre_of(self.set, self.centre)

    @property
    def from_centre(self) -> bool:
        """Whether x_1 is the centre, if the set holds it."""
        return True

    @cached_property
    def start(self) -> Floats:
        """(d,) x_1: the centre, if one is given and the set holds it; else the set's start."""
        found = start_of(self.set, self.centre) if self.from_centre else self.set.start()
        return np.asarray(to_grid(found[None], self._grid)[0])

    def at_start(self, n_keys: int) -> Floats:
        """(K, d): everyone starts at the public start."""
        return np.repeat(self.start[None], n_keys, axis=0)

    def numbers(self) -> Mapping[str, Any]:
        """Public numbers of the rule's own, JSON-able."""
        return {}

    def canonical(self) -> Mapping[str, Any]:
        """See Rule."""
        return {
            "rule": self.rule,
            "set": self.set.canonical(),
            "curvature": self.curvature.hex(),
            "centre": [value.hex() for value in self.centre],
            **self.numbers(),
            "grid": self._grid.hex(),
        }
