"""Models of all blocks so far, and their schedule of bases and updates."""

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

BASE, CURRENT = 0, 1
"""Slots: of the newest base model, and of the newest update."""


@dataclass(frozen=True)
class Growing(FitSchedule):
    """Base models at t = B, 2B, 4B, ... blocks of all so far, and an update at every block between.

    At t_g + 2^j, t_g the last base, the update learns from all blocks since t_g, pulled to the base
    (where ``larger``); at any other it learns from the newest block, pulled to the newest model. At
    ``turn`` = 2^doublings B blocks all begins again: rows before are let go, the base stays in
    force until the next, and the first base then is pulled to it.

    **Formal guarantees**: what a record pays is found by brute force over a turn (``spent``). With
    the paper's noise scales and exact sensitivities updates come to less than half of epsilon, and
    updates and bases to 0.69 in the first turn; the paper's Theorem 4 counts the updates alone.
    Source: Watson et al. (2021), Algorithm 4, and Appendix C without the larger updates.

    Attributes:
      base: B. doublings: of the base in a turn. larger: whether updates of several blocks are made.
    """

    base: int
    doublings: int
    larger: bool

    @property
    def name(self) -> str:
        return "continual" if self.larger else "basic_continual"

    @property
    def turn(self) -> int:
        """Blocks of a turn."""
        return self.base << self.doublings

    @property
    def updates(self) -> tuple[int, ...]:
        """Sizes of updates: below the last base but one."""
        most = self.turn // 2 if self.larger and self.doublings else 1
        return tuple(1 << j for j in range(max(1, (most - 1).bit_length())))

    @property
    def sizes(self) -> tuple[int, ...]:
        """See Schedule: bases, then updates."""
        return (*(self.base << k for k in range(self.doublings + 1)), *self.updates)

    @property
    def slots(self) -> int:
        return 2

    @property
    def period(self) -> Period:
        """See Schedule: the first turn has no base before it."""
        return Period(self.turn, self.turn)

    @property
    def weights(self) -> tuple[Fraction, ...]:
        """See Schedule: a quarter over the size, of bases in units of B."""
        bases = (Fraction(1, 4 << k) for k in range(self.doublings + 1))
        return (*bases, *(Fraction(1, 4 * size) for size in self.updates))

    def _place(self, complete: int) -> tuple[int, int]:
        """First block of the turn, and how many of it are complete (1 or more)."""
        turns, place = divmod(complete - 1, self.turn)
        return turns * self.turn, place + 1

    def _base(self, place: int) -> int | None:
        """k of the base that is made at a place of a turn; None: an update is."""
        times, rest = divmod(place, self.base)
        return None if rest or times & (times - 1) else times.bit_length() - 1

    def fits(self, complete: int) -> tuple[PlannedFit, ...]:
        if complete < self.base:
            return ()
        origin, place = self._place(complete)
        k = self._base(place)
        if k is not None:
            after = BASE if origin and k == 0 else None
            return (PlannedFit(BASE, origin, complete - 1, after, k),)
        built = place // self.base
        since = place - (self.base << (built.bit_length() - 1) if built else 0)
        first = self.doublings + 1
        if built and self.larger and not since & (since - 1):
            level = first + since.bit_length() - 1
            return (PlannedFit(CURRENT, complete - since, complete - 1, BASE, level),)
        return (
            PlannedFit(CURRENT, complete - 1, complete - 1, BASE if since == 1 else CURRENT, first),
        )

    def shown(self, complete: int) -> ShownFit | None:
        if complete < self.base:
            return None
        origin, place = self._place(complete)
        slot = CURRENT if self._base(place) is None else BASE
        first = origin - self.turn if origin and place < 2 * self.base else origin
        return ShownFit(slot, first, complete - 1)

    def oldest(self, complete: int) -> int:
        """See Schedule: the first block of the turn."""
        return self._place(complete)[0] if complete >= 1 else 0

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {"name": self.name, "base": self.base, "doublings": self.doublings}


MOST_TURN = 1 << 13

Base = Annotated[int, Field(ge=1, le=1 << 10), Says("must be a number of blocks from 1 to 1,024.")]
Doublings = Annotated[int, Field(ge=0, le=12), Says("must be a whole number from 0 to 12.")]


class GrowingModel(BlockModel):
    """Base models of all so far, fitted ever more seldom, and updates between them."""

    base: Base = Field(
        default=8,
        description="Blocks of the first base model; the next are of twice as many each.",
        examples=[8],
    )
    doublings: Doublings = Field(
        default=4,
        description="How often the base doubles before all begins again; rows of base * "
        "2^doublings blocks are kept.",
        examples=[4],
    )

    larger: ClassVar[bool]

    def schedule(self) -> Growing:
        """Which blocks are fitted when."""
        growing = Growing(self.base, self.doublings, self.larger)
        if growing.turn > MOST_TURN:
            raise ConfigError(
                "model.doublings",
                self.doublings,
                f"would make turns of {growing.turn:,} blocks; at most {MOST_TURN:,}: take fewer, "
                "or larger blocks.",
            )
        return growing


class ContinualModel(GrowingModel):
    """A model of all so far, updated with every block."""

    algorithm: Literal["erm.continual"] = algorithm_field("erm.continual")

    title: ClassVar[str] = "a model of all blocks so far, updated with each"
    about: ClassVar[str] = (
        "Base models of the first B, 2B, 4B, ... blocks; after a base, updates from all since then "
        "at 1, 2, 4, ... blocks, pulled to it, and from the newest block at the others."
    )
    source: ClassVar[str] = (
        "Watson, Kulkarni, Schmidt & Raskar 2021 (Algorithm 4), base models paid for too"
    )
    larger: ClassVar[bool] = True


class BasicContinualModel(GrowingModel):
    """The same with updates from the newest block alone."""

    algorithm: Literal["erm.basic_continual"] = algorithm_field("erm.basic_continual")

    title: ClassVar[str] = "the same, updated from the newest block alone"
    about: ClassVar[str] = (
        "As erm.continual without updates of several blocks: each is pulled to the one before, "
        "whose noise it inherits until the next base."
    )
    source: ClassVar[str] = "Watson, Kulkarni, Schmidt & Raskar 2021 (Appendix C)"
    larger: ClassVar[bool] = False
