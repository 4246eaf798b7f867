"""Numbers in words, as every page and message spells them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


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


def plural(count: int, noun: str) -> str:
    """A count and its noun: ``1 tick``, ``365 ticks``, ``2 queries``, ``3 boxes``."""
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def listing(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def not_in_margin(left_out: str, margin: bool = True) -> str:
    """What bounds keep out of a figure, as the sentence that stands under it; "" for nothing.

    Args:
      left_out: as a plan says it. margin: whether the figure has a margin of error.
    """
    if not left_out:
        return ""
    return sentence(f"margin of noise only; {left_out}." if margin else f"{left_out}.")


def left_out_lines(releases: Iterable[tuple[str, str, bool]]) -> list[str]:
    """The same of several figures in a table: names, then their sentence; those of one together.

    Args:
      releases: name, what is left out, and whether there is a margin, of each.
    """
    names: dict[str, dict[str, None]] = {}
    for name, left_out, margin in releases:
        if left_out:
            names.setdefault(not_in_margin(left_out, margin), {})[name] = None
    return [f"{', '.join(own)}: {text[:1].lower()}{text[1:]}" for text, own in names.items()]


def sentence(text: str) -> str:
    """With a capital at its beginning."""
    return text[:1].upper() + text[1:]
