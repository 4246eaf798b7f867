"""The privacy loss of users in a plan, and what bounds on their contributions cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from weir.dpcore.plan import Plan
from weir.pipelines.terminal import count, number, table

CAPS = {
    "ticks": "ticks of a user",
    "spacing": "ticks apart",
    "keys": "keys in a tick",
    "events": "events of a key in a tick",
    "ticks_per_key": "ticks of a key",
    "period_keys": "keys in a period",
    "total": "pairs of key and tick",
}
"""Caps in words."""

CAPS_ONCE = CAPS | {
    "keys": "keys of a user",
    "events": "events of a key",
    "period_keys": "keys of a user",
    "total": "keys of a user",
}
"""The same where there is a single release."""

LOST = (
    "What each bound takes in events, these and others, is shown by `weir rehearse` for synthetic "
    "events of a known shape (--like) or of public ones (--on)."
)


def in_order(plan: Plan) -> str:
    """Which ticks bounds keep of a user who comes in all of them; "" where they keep every tick."""
    person = plan.person
    longest = None if person is None else person.periods.longest
    if person is None or longest is None or plan.clock.once:
        return ""
    caps = person.caps
    used = min(caps.ticks, caps.cells)  # one key a tick
    last = (used - 1) * caps.spacing + 1
    if caps.total is None and last >= longest - caps.spacing + 1:
        return ""
    if caps.by_hash:
        return (
            "Bounds keep the pairs of a key and a tick of the smallest hashes (order: hash): early "
            "and late ticks keep the same share."
        )
    whole = "" if last >= longest - caps.spacing + 1 else (
        f": of a user with a key in every tick of a period of {longest:,}, the first {last:,} keep "
        f"{used:,}, the others none"
    )  # fmt: skip
    return (
        f"Bounds are used up in order of time{whole}. Late ticks keep less than early ones, so "
        "that a series that does not change may fall. `weir rehearse` shows both shares; order: "
        "hash, for files and frames, keeps the same of all ticks."
    )


def promises(facts: Mapping[str, Any]) -> RenderableType:
    """Epsilon of one event, of a user in one period, and of a user in several."""
    user, reported = facts["user"], facts["guarantee"]
    rows = table(
        "what all releases reveal", "epsilon", "anywhere in a year", "delta",
        right=("epsilon", "anywhere in a year"),
    )  # fmt: skip
    delta = f"{reported['delta']:g}"
    if user["event_epsilon"] is not None:
        rows.add_row(
            "one event, where no contribution bound is binding",
            _epsilon(user["event_epsilon"]),
            "",
            delta,
        )
    rows.add_row("one user in one period", _epsilon(reported["epsilon"]), "", delta)
    for row in user["periods"]:
        rows.add_row(
            f"one user in {count(row['count'], 'period')} in a row",
            _epsilon(row["epsilon"]),
            _epsilon(row["epsilon_anywhere"]) if row["in_a_year"] else "",
            f"{row['delta']:g}",
        )
    every = user["every_period"]
    rows.add_row(every["who"], _epsilon(every["epsilon"]), "", f"{every['delta']:g}")
    return rows


def caps(facts: Mapping[str, Any]) -> RenderableType:
    """Noise for the same guarantee under other caps."""
    rows = table("bound (privacy.contributions)", "", "is", "noise if it were", right=("is",))
    words = CAPS_ONCE if "once" in facts["clock"] else CAPS
    prices: dict[str, list[str]] = {}
    values: dict[str, int] = {}
    for fact in facts["user"]["cap_prices"]:
        values[fact["cap"]] = fact["value"]
        prices.setdefault(fact["cap"], []).append(f"{fact['other']:,}: {fact['noise']:.2f} x")
    for cap, price in prices.items():
        rows.add_row(cap, words[cap], f"{values[cap]:,}", ",  ".join(price))
    return rows


def _epsilon(value: float | None) -> str:
    return "no bound" if value is None else number(value)
