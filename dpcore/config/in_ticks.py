"""Lengths of time where a config counts ticks: ``over: 7d`` is so many ticks of the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weir.dpcore.config.durations import is_length
from weir.dpcore.config.promise import ClockConfig
from weir.dpcore.config.section import refusal, validate
from weir.dpcore.config.spans import ticks_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock

Path = tuple[str, ...]
"""Names of sections, the last that of a field; ``*`` is every entry of a mapping."""


def in_ticks(data: Mapping[str, Any], paths: Iterable[Path]) -> Mapping[str, Any]:
    """Plain values of a config, with lengths of time at some fields as numbers of ticks.

    A config whose clock cannot be read stays as it is: its own error is told.

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
        _found(one, path[1:]) for name, one in value.items() if path[0] in ("*", name)
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
            name: _counted(one, path[1:], f"{at}.{name}".lstrip("."), clock)
            if path[0] in ("*", name)
            else one
            for name, one in value.items()
        }
    if path:
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return type(value)([_counted(one, (), at, clock) for one in value])  # type: ignore[call-arg]
    if not is_length(value):
        return value
    try:
        return ticks_of(at, value, clock)
    except ConfigError as error:
        raise refusal(error.field, error.value, error.remedy) from None
