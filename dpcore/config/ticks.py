"""Lengths of time of a config as numbers of ticks of its clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir.dpcore.config.clock import ClockConfig
from weir.dpcore.config.durations import (
    MOST_TICKS,
    duration,
    is_length,
    months_of,
    show_duration,
    ticks_in_words,
)
from weir.dpcore.config.section import refusal
from weir.dpcore.config.validation import validate
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock, shown_unit


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


def ticks_of(field: str, value: int | str, clock: Clock, other: str = "") -> int:
    """A number of ticks, also in words, a duration, or months on a clock of months -> ticks.

    Args:
      field: where it is written, for messages. other: what else may stand there.

    Raises:
      ConfigError: no whole number of the clock's periods, or too many of them.
    """
    if isinstance(value, int):
        return _checked(field, value, value, other)
    ticks = ticks_in_words(value)
    if ticks is not None:
        return _checked(field, value, ticks, other)
    months, calendar = months_of(value), clock.calendar
    if months is not None or (calendar is not None and calendar.months):
        return _checked(field, value, _of_months(field, value, months, clock, other), other)
    try:
        ticks, rest = clock.ticks_in(duration(value))
    except ValueError as error:
        raise ConfigError(field, value, str(error)) from None
    if rest or not ticks:
        near = [n for n in (ticks, ticks + 1) if n > 0]
        shown = " or ".join(
            f"{show_ticks(clock, n)} ({n} tick{'s' if n > 1 else ''})" for n in near
        )
        raise ConfigError(
            field,
            value,
            f"must be a whole number of periods of {show_ticks(clock, 1)}: {shown}.",
        )
    return _checked(field, value, ticks, other)


def _of_months(field: str, value: str, months: int | None, clock: Clock, other: str) -> int:
    """Ticks of a length of months; ``months`` is None where it is a duration."""
    unit = 0 if clock.calendar is None else clock.calendar.months
    if not unit:
        raise ConfigError(
            field,
            value,
            f"is for a clock of months: ticks are {show_ticks(clock, 1)}; write a duration, like "
            "90d, or a number of ticks.",
        )
    if months is None or months % unit:
        also = f", a number of ticks, or {other}" if other else ", or a number of ticks"
        raise ConfigError(
            field,
            value,
            f"must be a whole number of ticks, which are {show_ticks(clock, 1)}; write months, "
            f"like {unit * 3} months{also}.",
        )
    return months // unit


def _checked(field: str, value: int | str, ticks: int, other: str) -> int:
    if ticks > MOST_TICKS:
        also = f"; write {other}" if other else ""
        raise ConfigError(field, value, f"must be at most 2^40 ticks, not {ticks}{also}.")
    return ticks


Path = tuple[str, ...]
"""Names of sections, the last that of a field; ``*`` is every entry of a mapping."""


def in_ticks(data: Mapping[str, Any], paths: Iterable[Path]) -> Mapping[str, Any]:
    """Plain values of a config, with lengths of time at some fields as numbers of ticks.

    A config whose clock cannot be read stays as it is: its own error is reported.

    Raises:
      PydanticCustomError: a length that is no whole number of ticks.
    """
    clock: Clock | None = None
    for path in paths:
        if _found(data, path):
            clock = clock or _clock(data.get("clock"))
            if clock is None:
                return data
            data = _counted(data, path, "", clock)
    return data


def _found(value: Any, path: Path) -> bool:
    """Whether a length stands at a path."""
    if not path:
        listed = value if isinstance(value, list | tuple) else [value]
        return any(map(is_length, listed))
    return isinstance(value, Mapping) and any(
        _found(item, path[1:]) for name, item in value.items() if path[0] in ("*", name)
    )


def _clock(written: Any) -> Clock | None:
    if isinstance(written, ClockConfig):
        return written.to_clock()
    try:
        return validate(ClockConfig, written).to_clock()
    except (ConfigError, TypeError, ValueError):
        return None


def _counted(value: Any, path: Path, at: str, clock: Clock) -> Any:
    """A copy in which lengths at a path are ticks."""
    if path and isinstance(value, Mapping):
        return {
            name: _counted(item, path[1:], f"{at}.{name}".lstrip("."), clock)
            if path[0] in ("*", name)
            else item
            for name, item in value.items()
        }
    if path:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return type(value)([_counted(item, (), at, clock) for item in value])  # type: ignore[call-arg]
    if not is_length(value):
        return value
    try:
        return ticks_of(at, value, clock)
    except ConfigError as error:
        raise refusal(error.field, error.value, error.remedy) from None
