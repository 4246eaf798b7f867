"""Axes and numbers for people: round steps, calendar steps, as many digits as the noise allows."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

_SECOND = 1_000_000
_STEPS = [
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * 60 * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * 3600 * _SECOND for n in (1, 2, 3, 6, 12)),
    *(n * 86400 * _SECOND for n in (1, 2, 5, 7, 14)),
]
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(microseconds: int) -> datetime | None:
    """A time in UTC; None beyond the year 9999."""
    try:
        return _EPOCH + timedelta(microseconds=int(microseconds))
    except OverflowError:
        return None


def show_time(microseconds: int, period: int) -> str:
    """A time as short as the period allows: the date alone for ticks of whole days."""
    when = moment(microseconds)
    if when is None:
        return f"{microseconds} us"
    if period % (86400 * _SECOND) == 0 and (when.hour, when.minute, when.second) == (0, 0, 0):
        return when.strftime("%Y-%m-%d")
    if period % (60 * _SECOND) == 0:
        return when.strftime("%Y-%m-%d %H:%M")
    text = when.strftime("%Y-%m-%d %H:%M:%S")
    return text if period % _SECOND == 0 else f"{text}.{when.microsecond:06d}"


def show_span(microseconds: int) -> str:
    """A length of time in its largest whole unit: "365 days", "15 minutes"."""
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    for name, seconds in units:
        if microseconds % (seconds * _SECOND) == 0:
            n = microseconds // (seconds * _SECOND)
            return f"{n:,} {name}{'' if n == 1 else 's'}"
    return f"{microseconds / 1000:,g} ms"


def number_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within [low, high]."""
    if not high > low:
        return [low]
    raw = (high - low) / max(1, about)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [i * step for i in range(first, last + 1)]


def show_numbers(ticks: list[float]) -> list[str]:
    """Labels of an axis: one unit and one number of decimals for all."""
    top = max((abs(t) for t in ticks), default=0.0)
    divisor, suffix = 1.0, ""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if top >= size:
            divisor, suffix = (1e3 if letter == "k" else size), letter
            break
    scaled = [t / divisor for t in ticks]
    step = min((abs(b - a) for a, b in zip(scaled, scaled[1:], strict=False)), default=1.0)
    decimals = 0 if step <= 0 else max(0, min(6, -math.floor(math.log10(step) + 1e-9)))
    if decimals <= 6 and any(abs(s - round(s, decimals)) > step * 1e-6 for s in scaled):
        decimals += 1
    return [
        "0" if s == 0 else f"{s:,.{decimals}f}{suffix}".replace("-", "\N{MINUS SIGN}")
        for s in scaled
    ]


def show_level(value: float) -> str:
    """A number of a scale of colours: two digits."""
    if 0 < abs(value) < 1:
        return f"{value:.2g}"
    return show_numbers([float(f"{value:.2g}")])[0]


def time_ticks(start: int, end: int, about: int = 6) -> list[tuple[int, str]]:
    """(microseconds, label) of calendar steps within [start, end]."""
    span = max(1, end - start)
    first = moment(start)
    if first is None or moment(end) is None:
        return [(start, "start"), (end, "end")]
    if span < _SECOND:
        return [(start, first.strftime("%H:%M:%S.%f"))]
    for step in _STEPS:
        if span / step <= about:
            begin = -(-start // step) * step
            return [(t, _clock_label(t, step, t == begin)) for t in range(begin, end + 1, step)]
    months = next((m for m in _MONTHS if span / (m * 30.44 * 86400 * _SECOND) <= about), 2400)
    at = (first.year * 12 + first.month - 1) // months * months
    found: list[tuple[int, str]] = []
    while at // 12 <= 9999:
        when = datetime(max(1, at // 12), at % 12 + 1, 1, tzinfo=UTC)
        stamp = (when - _EPOCH) // timedelta(microseconds=1)
        if stamp > end:
            break
        if stamp >= start:
            year = months >= 12 or when.month == 1 or not found
            label = when.strftime("%Y" if months >= 12 else "%b %Y" if year else "%b")
            found.append((stamp, label))
        at += months
    return found


def _clock_label(stamp: int, step: int, is_first: bool) -> str:
    when = moment(stamp)
    assert when is not None
    if step >= 86400 * _SECOND:
        return f"{when.day} {when:%b %Y}" if is_first else f"{when.day} {when:%b}"
    midnight = (when.hour, when.minute, when.second) == (0, 0, 0)
    if midnight or is_first:
        return f"{when.day} {when:%b}" if midnight else f"{when.day} {when:%b %H:%M}"
    return when.strftime("%H:%M" if step >= 60 * _SECOND else "%H:%M:%S")


def decimals_for(error: float, value: float) -> int:
    """Decimals that the noise leaves meaningful: two digits of the error."""
    scale = error if math.isfinite(error) and error > 0 else abs(value) / 100
    if not math.isfinite(scale) or scale <= 0:
        return 0
    return max(0, min(8, 1 - math.floor(math.log10(scale))))


def show_value(value: float, half: float) -> tuple[str, str]:
    """A value and its 95 % half width: ("69,612", "312"); ("", "") parts where there is none."""
    if not math.isfinite(value):
        return "no value", ""
    decimals = decimals_for(half, value)
    text = f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")
    if text.strip("\N{MINUS SIGN}0.,") == "":
        text = text.lstrip("\N{MINUS SIGN}")
    return text, (f"{half:,.{decimals}f}" if math.isfinite(half) else "")


def limits(value: NDArray[np.float64], half: NDArray[np.float64]) -> tuple[float, float, bool]:
    """Range of an axis for values and bands, and whether some of the widest bands are cut.

    A band that is wide only at its beginning (a mean of few events) must not flatten the rest.
    """
    fine = np.isfinite(value)
    if not fine.any():
        return 0.0, 1.0, False
    seen = value[fine]
    half = np.where(np.isfinite(half[fine]), half[fine], 0.0)
    usual = min(float(np.quantile(half, 0.9)), 4 * float(np.median(half)))
    trimmed = np.minimum(half, usual * 1.5)
    low, high = float((seen - trimmed).min()), float((seen + trimmed).max())
    calm = half <= usual * 1.5
    if calm.any() and not calm.all():
        inner_low, inner_high = (
            float((seen - half)[calm].min()),
            float((seen + half)[calm].max()),
        )
        reach = 0.5 * (inner_high - inner_low)
        low, high = max(low, inner_low - reach), min(high, inner_high + reach)
    if 0 < low < 0.4 * high:
        low = 0.0
    if not high > low:
        pad = abs(high) * 0.05 or 1.0
        low, high = low - pad, high + pad
    pad = 0.04 * (high - low)
    cut = bool(((seen + half) > high + pad).any() or ((seen - half) < low - pad).any())
    return low - (pad if low != 0 else 0.0), high + pad, cut
