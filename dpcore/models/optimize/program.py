"""The program: rows are gathered into windows, each is fitted once, models are released."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from weir.dpcore.accounting.guarantee import LossKind
from weir.dpcore.arrays import Ints
from weir.dpcore.models.blocks.cut import Blocks
from weir.dpcore.models.blocks.kept import KeptBlocks
from weir.dpcore.models.blocks.presence import ALONE, Presence
from weir.dpcore.models.blocks.schedule import Schedule
from weir.dpcore.models.kit.inputs import Inputs
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.selection import Selection
from weir.dpcore.models.optimize.width import Width
from weir.dpcore.program import SPARSE_FROM, OutputInfo

Way = Selection | Width
"""How windows are fitted."""


@dataclass(frozen=True)
class WindowProgram(KeptBlocks):
    """A model per key of a window of its records, by private steps over a set.

    Formal guarantees:
      Unit: one event, or a user in a period. Relation: as the cut says (``ByCount``, ``ByTicks``,
        ``ByUsers``); of a user's period in place of another twice as much is paid for.
      Sensitivity: of a fit, ``Selection`` or ``Width``. Guarantee: what a record pays is the sum of
        what the fits cost that its block is in, found by brute force (``schedule.spent``); costs
        of one currency add up, adaptively. It does not grow with time. A user is in several blocks
        (``Presence``).
      Source: Talwar, Thakurta, Zhang (2015), for each window.

    Attributes:
      inputs: from columns to rows. schedule, cut: see there. way: how windows are fitted.
      cap: rows a key and tick. algorithm: its name in the config. presence: of the unit.
    """

    inputs: Inputs
    schedule: Schedule
    cut: Blocks
    way: Way
    cap: int
    algorithm: str
    presence: Presence = ALONE

    @property
    def fitters(self) -> tuple[Way]:
        """See KeptBlocks."""
        return (self.way,)

    @property
    def scored(self) -> Linear:
        """See KeptBlocks."""
        return self.way.linear

    @property
    def kind(self) -> LossKind:
        """See KeptBlocks."""
        return self.way.kind

    @property
    def costs(self) -> list[Fraction]:
        """See KeptBlocks."""
        return [self.way.cost]

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. A model's error is not additive: NaN."""
        own = self.way.linear
        return self.outputs_of(own.set.diameter, own.set.sparse and own.dimension >= SPARSE_FROM)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release, and all that a prediction needs."""
        return {
            "program": self.algorithm,
            "inputs": self.inputs.canonical(),
            "linear": self.way.linear.canonical(),
            "schedule": self.schedule.canonical(),
            "cut": self.cut.canonical(),
            "way": self.way.canonical(),
            "cap": self.cap,
            **({} if self.presence == ALONE else {"presence": self.presence.canonical()}),
        }
