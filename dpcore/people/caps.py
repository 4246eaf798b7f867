"""What a user may add in a period: public caps, enforced before anything is summed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from weir.dpcore.errors import ConfigError

MOST: Final = (1 << 16) - 1
"""Largest cap: what a user has used up is stored in two bytes."""


@dataclass(frozen=True)
class Caps:
    """Caps on the events of a user in one period; a cell is a key and a tick. All public.

    Attributes:
      ticks: m, ticks with events of the user. keys: k, keys in one of them.
      events: e, events in a cell.
      spacing: g, fewest ticks from one of these ticks to the next: 1 sets no bound.
      ticks_per_key: q, ticks with events of one key. period_keys: K, keys. total: cells. None: no
        cap besides what the others say.

    Raises:
      ConfigError: a cap is below 1 or above 2^16 - 1.
    """

    ticks: int
    keys: int
    events: int
    spacing: int = 1
    ticks_per_key: int | None = None
    period_keys: int | None = None
    total: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and not 1 <= value <= MOST:
                raise ConfigError(
                    f"privacy.contributions.{field.name}", value, f"must be from 1 to {MOST:,}."
                )

    @property
    def key_ticks(self) -> int:
        """r, most ticks of one key."""
        return min(self.ticks, self.ticks_per_key or self.ticks)

    @property
    def cells(self) -> int:
        """N, most cells of a period."""
        most = self.ticks * self.keys
        if self.total is not None:
            most = min(most, self.total)
        if self.period_keys is not None:
            most = min(most, self.period_keys * self.key_ticks)
        return most

    @property
    def touched(self) -> int:
        """Most keys of a period."""
        return self.cells if self.period_keys is None else min(self.cells, self.period_keys)
