"""What a key must have before its first model, and whether the clock is long enough for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.cut import Blocks, ByCount, ByTicks
from weir.dpcore.models.blocks.cut_users import ByUsers
from weir.dpcore.models.blocks.schedule import Schedule
from weir.dpcore.pricing.terms import Terms


@dataclass(frozen=True)
class Waits:
    """Before the first model of a key there is none (null). Public.

    Attributes:
      ticks: that must be over, at least. records: that the key must have; None: any number will do.
      cap: records of a key and tick that count, at most.
    """

    ticks: int
    records: int | None = None
    cap: int = 1

    @classmethod
    def of_blocks(cls, schedule: Schedule, cut: Blocks, cap: int) -> Waits:
        """Until enough blocks are complete."""
        blocks = 1
        while schedule.shown(blocks) is None:
            blocks += 1
        if isinstance(cut, ByCount):
            return cls.of_records(blocks * cut.records, cap)
        assert isinstance(cut, ByTicks | ByUsers)
        return cls(blocks * cut.ticks)

    @classmethod
    def of_records(cls, records: int, cap: int) -> Waits:
        """Until there are so many."""
        return cls(-(-records // cap), records, cap)

    def check(self, field: str, value: object, terms: Terms) -> None:
        """Refuses a model that the clock ends before.

        Args:
          field, value: what sets how long it waits.

        Raises:
          ConfigError: there is none by the end of the clock, whatever the events are.
        """
        end = terms.horizon
        if end is None or self.ticks <= end:
            return
        if self.records is None:
            raise ConfigError(
                field,
                value,
                f"never gives a model: the first is fitted after {self.ticks:,} ticks, and the "
                f"clock has {end:,}. Take shorter or fewer blocks, or a later clock.end.",
            )
        raise ConfigError(
            field,
            value,
            f"never gives a model: the first is fitted to {self.records:,} records of a key, and "
            f"at most {end * self.cap:,} count by the end of the clock (model.cap of "
            f"{self.cap:,} in each of {end:,} ticks). Take fewer records, a larger model.cap, or a "
            "later clock.end.",
        )

    def doubts(self, terms: Terms) -> Iterator[str]:
        """A clock that is too short for the events that are expected."""
        end, events = terms.horizon, terms.events
        if self.records is None or end is None or events is None or self.records <= events * end:
            return
        yield (
            f"Of the events that are expected no model comes by the end of the clock: the first is "
            f"fitted to {self.records:,} records of a key, and {events * end:,.0f} are expected. "
            "Take fewer records, or a later clock.end."
        )
