"""The schedule of models at several scales: of the last 1, 2, 4, ... blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from weir.dpcore.models.blocks.schedule import Fit, Period, Shown


@dataclass(frozen=True)
class Resolutions:
    """When t blocks are complete, a model of the last 2^k of them for each 2^k that divides t.

    The largest of them is released; each is kept in a slot of its own.

    **Formal guarantees**: a record is in one fit of each scale: 2^k divides the border on either
    side of it once. Source: Watson et al. (2021), Algorithm 2.

    Attributes:
      top: largest k.
    """

    top: int

    name: ClassVar[str] = "multi_resolution"

    @property
    def sizes(self) -> tuple[int, ...]:
        """See Schedule: 2^level."""
        return tuple(1 << level for level in range(self.top + 1))

    @property
    def slots(self) -> int:
        """See Schedule."""
        return self.top + 1

    @property
    def period(self) -> Period:
        """See Schedule."""
        return Period(1, 1 << self.top)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """See Schedule: one half, one quarter, ..."""
        return tuple(Fraction(1, 2 * size) for size in self.sizes)

    @property
    def even(self) -> tuple[Fraction, ...]:
        """See Schedule."""
        return (Fraction(1),) * (self.top + 1)

    def largest(self, complete: int) -> int:
        """The largest k whose 2^k divides a number of blocks."""
        return min(self.top, (complete & -complete).bit_length() - 1)

    def fits(self, complete: int) -> tuple[Fit, ...]:
        """See Schedule."""
        if complete < 1:
            return ()
        return tuple(
            Fit(level, complete - (1 << level), complete - 1, None, level)
            for level in reversed(range(self.largest(complete) + 1))
        )

    def shown(self, complete: int) -> Shown | None:
        """See Schedule."""
        if complete < 1:
            return None
        level = self.largest(complete)
        return Shown(level, complete - (1 << level), complete - 1)

    def oldest(self, complete: int) -> int:
        """See Schedule: no fit reaches over a multiple of the largest size."""
        return max(0, complete - 1) >> self.top << self.top

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "top": self.top}
