"""Calibration, written once: the least noise of a continual sum that keeps the terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from weir.dpcore.accounting.groupings import over_groupings
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.price import round_up, within_memory
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.registry import CONTINUAL_SUMS


class Leaf(Protocol):
    """What is summed, as far as a calibration looks at it."""

    @property
    def dimension(self) -> int:
        """D, coordinates."""

    @property
    def overs(self) -> tuple[int | None, ...]:
        """Which sums are asked: None: since the start, N: of the last N ticks."""

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """(D,) noise weights in lattice units. unit(): the mechanism at weights of 1, which tells
        how its noise spreads over time; ConfigError where it cannot serve."""

    def sensitivity(self, scales: tuple[float, ...], add_up: bool) -> float:
        """Joint l2 sensitivity of (leaf / scales) under the plan's relation.

        add_up: two changed cells cost the sum of their norms, not the root of the sum of squares.
        Where the unit is a user: of what one of the user's cells adds (``Terms.cell_relation``).
        """

    @property
    def once(self) -> bool:
        """Whether only the first cell of a key that a user has in a period adds anything. Asked
        where the unit is a user."""


@dataclass(frozen=True)
class FixedLeaf:
    """A leaf whose noise is split the same way whatever the mechanism.

    Attributes:
      weights: (D,) noise weights in lattice units. overs: which sums are asked.
      in_squares, added_up: sensitivity where two changed cells add in squares, and where they add.
    """

    weights: tuple[float, ...]
    overs: tuple[int | None, ...]
    in_squares: float
    added_up: float

    once: ClassVar[bool] = False

    @property
    def dimension(self) -> int:
        """D, coordinates."""
        return len(self.weights)

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """The weights."""
        return self.weights

    def sensitivity(self, scales: tuple[float, ...], add_up: bool) -> float:
        """See Leaf."""
        return self.added_up if add_up else self.in_squares


def calibrated(name: str, leaf: Leaf, terms: Terms, budget: PrivacyLoss) -> ContinualSum:
    """A continual sum of that name over a leaf, with the least noise within the budget.

    Formal guarantees:
      Two cells that one neighbour changes add in squares where losses do and no two columns of the
      strategy have a negative inner product; else their norms are added. The calibration is
      rounded toward more noise, to the same number on every CPU.
      Where the unit is a user, the sensitivity is that of one cell, and the mechanism is told which
      cells of a period there may be (``Pattern``): twice as much where a user's period is replaced
      by another, as both are pairs of neighbours with a stream that has neither.
      Where an event counts in a key of each of several groupings, the sensitivity is what it moves
      in all of them (``over_groupings``).

    Raises:
      ConfigError: it cannot serve.
    """
    cls: type[ContinualSum] = CONTINUAL_SUMS[name]
    common: dict[str, Any] = {
        "dimension": leaf.dimension,
        "overs": leaf.overs,
        "window": terms.window,
        "horizon": terms.horizon,
        "budget": budget,
        **{option: value for option, value in terms.options if option in cls.settings},
    }

    def unit() -> ContinualSum:
        made = cls.calibrated(scales=(1.0,) * leaf.dimension, sensitivity=1.0, **common)
        within_memory(name, made.state_bytes())
        return made

    if terms.person is not None:
        if not cls.patterned:
            raise ConfigError(
                "mechanism.continual_sum",
                name,
                "does not know what several contributions of a user move together; choose another "
                "mechanism, or privacy.unit: event.",
            )
        pattern = terms.person.pattern
        common["pattern"] = pattern.once() if leaf.once else pattern
    scales = leaf.scales(unit)
    sensitivity = terms.factor * leaf.sensitivity(scales, budget.kind == "pure" or cls.signed)
    sensitivity = over_groupings(sensitivity, terms.groupings, budget.kind)
    made = cls.calibrated(scales=scales, sensitivity=sensitivity, **common)
    within_memory(name, made.state_bytes())
    return replace(made, noise_scale=round_up(made.noise_scale))
