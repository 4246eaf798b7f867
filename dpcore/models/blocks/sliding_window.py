"""Models of a sliding window of blocks, and their schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.schedule import FitSchedule, Period, PlannedFit, ShownFit
from weir.dpcore.models.blocks.section import BlockModel
from weir.dpcore.models.fields import algorithm_field


@dataclass(frozen=True)
class SlidingBlocks(FitSchedule):
    """Models of the last 2^k - 1 blocks, once so many are complete.

    After r new blocks since the last reset, 0 <= r < h = 2^(k-1), the window is cut into the base
    of h blocks; right of it the r newest blocks, split by the bits of r, the largest piece (the
    oldest) first; left of it h - 1 - r blocks, split by the other bits, the largest next to the
    base. So each size 1, 2, ..., h/2 occurs once, on either side. Pieces are fitted in order of
    size, each pulled to the one before, the base first; the last is released. At r = h the right
    part becomes the base, and the old base the left part. A piece is fitted once, when it first
    appears.

    **Formal guarantees**: a record is in one base and in one piece of each other size in its life
    (on the right where that bit of its place is 0, on the left where it is 1), and no model is
    pulled to one that learned from the same record. Checked by brute force.
    Source: Watson, Kulkarni, Schmidt, Raskar (2021), Algorithm 5.

    Attributes:
      exponent: k, 1 or more.
    """

    exponent: int

    name: ClassVar[str] = "sliding_window"

    def __post_init__(self) -> None:
        if not 1 <= self.exponent <= 12:
            raise ConfigError("model.window", self.window, "must be 2^k - 1 for a k from 1 to 12.")

    @property
    def half(self) -> int:
        """h, blocks of the base."""
        return 1 << (self.exponent - 1)

    @property
    def window(self) -> int:
        """Blocks of the window."""
        return (1 << self.exponent) - 1

    @property
    def sizes(self) -> tuple[int, ...]:
        """See Schedule: 2^level."""
        return tuple(1 << level for level in range(self.exponent))

    @property
    def slots(self) -> int:
        """See Schedule: a slot a size."""
        return self.exponent

    @property
    def period(self) -> Period:
        return Period(self.window, self.half)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """See Schedule: half for the base, a quarter over the size for each update."""
        if self.exponent == 1:
            return (Fraction(1),)
        return (*(Fraction(1, 4 * size) for size in self.sizes[:-1]), Fraction(1, 2))

    @property
    def even(self) -> tuple[Fraction, ...]:
        """See Schedule: half for the base, the other half in equal parts."""
        if self.exponent == 1:
            return (Fraction(1),)
        updates = self.exponent - 1
        return (*(Fraction(1, 2 * updates) for _ in range(updates)), Fraction(1, 2))

    def chain(self, complete: int) -> tuple[PlannedFit, ...]:
        """All pieces of the window, in the order in which they follow each other."""
        if complete < self.window:
            return ()
        cycle, new = divmod(complete - self.window, self.half)
        base = cycle * self.half + self.half - 1
        top = self.exponent - 1
        results = [PlannedFit(top, base, base + self.half - 1, None, top)]
        right, left = base + self.half, base
        for level in reversed(range(top)):
            size = 1 << level
            if new & size:
                first = right
                right += size
            else:
                left -= size
                first = left
            results.append(PlannedFit(level, first, first + size - 1, level + 1, level))
        return tuple(results)

    def fits(self, complete: int) -> tuple[PlannedFit, ...]:
        before = set(self.chain(complete - 1))
        return tuple(fit for fit in self.chain(complete) if fit not in before)

    def shown(self, complete: int) -> ShownFit | None:
        """See Schedule: all of the window."""
        if complete < self.window:
            return None
        return ShownFit(0, complete - self.window, complete - 1)

    def oldest(self, complete: int) -> int:
        return max(0, complete - self.window)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "exponent": self.exponent}


Window = Annotated[
    int, Field(ge=1, le=4095), Says("must be 2^k - 1 blocks: 1, 3, 7, 15, 31, ... up to 4,095.")
]


class SlidingWindowModel(BlockModel):
    """A model of the last blocks, updated with every block: a base, and updates around it."""

    algorithm: Literal["erm.sliding_window"] = algorithm_field("erm.sliding_window")
    window: Window = Field(
        default=7,
        description="Blocks of the window, 2^k - 1. Nothing is released before it is full.",
        examples=[7],
    )

    title: ClassVar[str] = "a model of a sliding window of blocks"
    about: ClassVar[str] = (
        "A base model of half of the window, and updates of sizes that halve on both sides of it, "
        "each pulled to the released one before; a record is in one fit of each size."
    )
    source: ClassVar[str] = "Watson, Kulkarni, Schmidt & Raskar 2021 (PSWERM), totals corrected"

    def schedule(self) -> SlidingBlocks:
        """Which blocks are fitted when."""
        if self.window & (self.window + 1):
            raise ConfigError(
                "model.window", self.window, "must be 2^k - 1 blocks: 1, 3, 7, 15, 31, ..."
            )
        return SlidingBlocks(self.window.bit_length())
