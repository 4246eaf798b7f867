"""The simplest schedules: one model of the first block, or a model of every block by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from weir.dpcore.models.blocks.schedule import Fit, Period, Shown


@dataclass(frozen=True)
class Single:
    """Models of one block each; nothing follows anything.

    **Formal guarantees**: a record is in at most one fit.

    Attributes:
      again: whether every block is fitted; else the first alone.
    """

    again: bool

    sizes: ClassVar[tuple[int, ...]] = (1,)
    slots: ClassVar[int] = 1
    weights: ClassVar[tuple[Fraction, ...]] = (Fraction(1),)
    even: ClassVar[tuple[Fraction, ...]] = (Fraction(1),)

    @property
    def name(self) -> str:
        """See Schedule."""
        return "independent_batches" if self.again else "output_perturbation"

    @property
    def period(self) -> Period:
        """See Schedule."""
        return Period(1, 1)

    def fits(self, complete: int) -> tuple[Fit, ...]:
        """See Schedule."""
        if complete < 1 or (complete > 1 and not self.again):
            return ()
        return (Fit(0, complete - 1, complete - 1, None, 0),)

    def shown(self, complete: int) -> Shown | None:
        """See Schedule."""
        if complete < 1:
            return None
        block = complete - 1 if self.again else 0
        return Shown(0, block, block)

    def oldest(self, complete: int) -> int:
        """See Schedule."""
        return max(0, complete - 1)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name}
