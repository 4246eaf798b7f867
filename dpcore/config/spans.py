"""How long ticks are, as a config writes it."""

from __future__ import annotations

from dpcore.config.durations import show_duration
from dpcore.errors import ConfigError
from dpcore.leaves.calendar import shown_unit
from dpcore.leaves.clock import Clock


def show_ticks(clock: Clock, ticks: int) -> str:
    """So many ticks of a clock: ``6h``, ``3 months``, ``2 days of Europe/Berlin``."""
    calendar = clock.calendar
    if calendar is None:
        return show_duration(ticks * clock.period)
    return shown_unit(ticks * calendar.days, ticks * calendar.months, calendar.zone)


def spans_of(field: str, over: int, every: int) -> int:
    """N ticks as spans of n.

    Raises:
      ConfigError: they are no whole number of spans.
    """
    if over % every:
        raise ConfigError(
            field,
            over,
            f"must be a multiple of release_every: {every}, so that a release is of whole spans; "
            f"write {-(-over // every) * every}, or take a longer clock.period.",
        )
    return over // every
