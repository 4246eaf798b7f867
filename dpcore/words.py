"""Numbers in words, as every page and message spells them."""

from __future__ import annotations

import math


def number(value: float | None, digits: int = 4) -> str:
    """A number for people: four significant digits, thousands separated."""
    if value is None or math.isinf(value):
        return "unbounded"
    if math.isnan(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10**15 or size < 10**-5:
        return f"{value:.{digits - 1}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    if text.startswith("-") and not text.strip("-0.,"):
        text = text[1:]
    return text.rstrip("0").rstrip(".") if "." in text else text


def bytes_text(size: int) -> str:
    """``96 B``, ``4.0 kB``, ``1.2 MB``."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError


def sentence(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]
