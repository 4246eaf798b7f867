"""The schedule of windows: a model of the last blocks, at every block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from weir.dpcore.models.blocks.schedule import Fit, Period, Shown


@dataclass(frozen=True)
class Windows:
    """When t >= span blocks are complete, a model of the last span of them, by itself.

    Windows of one block are tumbling; of more they slide by a block.

    **Formal guarantees**: a record is in exactly span fits (``spent`` counts them), each of which
    costs 1 / span of the budget; nothing follows anything.

    Attributes:
      span: blocks of a window.
    """

    span: int

    name: ClassVar[str] = "windows"
    slots: ClassVar[int] = 1
    weights: ClassVar[tuple[Fraction, ...]] = (Fraction(1),)
    even: ClassVar[tuple[Fraction, ...]] = (Fraction(1),)

    @property
    def sizes(self) -> tuple[int, ...]:
        """See Schedule."""
        return (self.span,)

    @property
    def period(self) -> Period:
        """See Schedule."""
        return Period(self.span, 1)

    def fits(self, complete: int) -> tuple[Fit, ...]:
        """See Schedule."""
        if complete < self.span:
            return ()
        return (Fit(0, complete - self.span, complete - 1, None, 0),)

    def shown(self, complete: int) -> Shown | None:
        """See Schedule."""
        if complete < self.span:
            return None
        return Shown(0, complete - self.span, complete - 1)

    def oldest(self, complete: int) -> int:
        """See Schedule."""
        return max(0, complete - self.span)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "span": self.span}
