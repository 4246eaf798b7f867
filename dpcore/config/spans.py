"""How long ticks are, as a config writes it."""

from __future__ import annotations

from dpcore.config.durations import show_duration
from dpcore.leaves.calendar import shown_unit
from dpcore.leaves.clock import Clock


def show_ticks(clock: Clock, ticks: int) -> str:
    """So many ticks of a clock: ``6h``, ``3 months``, ``2 days of Europe/Berlin``."""
    calendar = clock.calendar
    if calendar is None:
        return show_duration(ticks * clock.period)
    return shown_unit(ticks * calendar.days, ticks * calendar.months, calendar.zone)
