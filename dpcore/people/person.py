"""The user as privacy unit: what one may add, and in which span."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from weir.dpcore.accounting.pattern import Pattern
from weir.dpcore.errors import ConfigError
from weir.dpcore.people.caps import Caps
from weir.dpcore.people.periods import Periods


@dataclass(frozen=True)
class Person:
    """A user in a period: all that neighbouring streams differ in. Public.

    Attributes:
      caps: of a user in a period. periods: of the clock.

    Raises:
      ConfigError: more ticks than a period has room for.
    """

    caps: Caps
    periods: Periods

    def __post_init__(self) -> None:
        longest = self.periods.longest
        if longest is None:
            return
        room = 1 + (longest - 1) // self.caps.spacing
        if self.caps.ticks > room:
            apart = (
                "" if self.caps.spacing == 1 else f", with {self.caps.spacing} ticks between two,"
            )
            raise ConfigError(
                "privacy.contributions.ticks",
                self.caps.ticks,
                f"must be at most {room}: a period (privacy.per) of {longest:,} "
                f"tick{'' if longest == 1 else 's'}{apart} has room for no more.",
            )

    @property
    def pattern(self) -> Pattern:
        """For the accountant: cells that a user may contribute to in one period."""
        caps, periods = self.caps, self.periods
        return Pattern(
            periods.longest,
            periods.shortest,
            caps.ticks,
            caps.spacing,
            caps.keys,
            caps.key_ticks,
            caps.period_keys,
            caps.cells,
        )

    def canonical(self) -> dict[str, Any]:
        """Every public number of it, JSON-able."""
        per = self.periods.per
        return {
            "caps": asdict(self.caps),
            "per": per if per is None or isinstance(per, int) else str(per),
        }
