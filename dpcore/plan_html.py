"""A plan as a notebook shows it. Whatever a config may hold is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from weir.dpcore.words import left_out_lines


def table(titles: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """A table of texts and numbers; nothing in it is taken for HTML."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(words(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    reported = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{reported}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def words(value: Any) -> str:
    """A number in six digits, nothing as nothing, all else as it is."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def span_words(over: int | None) -> str:
    """What a release is over."""
    return "since the start" if over is None else f"last {over} ticks"


def paragraphs(texts: Iterable[str]) -> str:
    """Each text a paragraph."""
    return "".join(f"<p>{escape(text)}</p>" for text in texts)


def plan_html(facts: Mapping[str, Any]) -> str:
    """The guarantee, how it fades, what is released and how exact, and what to be warned of.

    Args:
      facts: ``Plan.to_json()``.
    """
    promise = facts["guarantee"]
    expiration = [
        ("for ever" if row["ticks"] is None else row["ticks"], row["epsilon"], row["delta"])
        for row in facts["expiration"]
    ]
    releases = [
        (
            fact["name"],
            span_words(fact["over"]) if "once" not in facts["clock"] else "all rows",
            fact["dimension"],
            fact["stddev_worst"],
            fact.get("unit"),
        )
        for fact in facts["releases"]
    ]
    once = "once" in facts["clock"]
    title = f"{facts['name']}: plan {facts['digest'][:12]}, {facts['algorithm']}"
    return "".join(
        (
            f"<div><p><strong>{escape(title)}</strong></p>",
            paragraphs([promise["statement"]]),
            ""
            if once
            else table(("within ticks", "epsilon", "delta"), expiration, "Privacy loss over time"),
            "" if once else _of_users(facts),
            table(
                ("release", "over", "numbers", "standard deviation at worst", "unit"),
                releases,
                "What is released",
            ),
            paragraphs(
                left_out_lines(
                    (
                        fact["name"],
                        ". ".join(filter(None, (fact["left_out"], fact["caveat"]))),
                        fact["stddev_worst"] is not None,
                    )
                    for fact in facts["releases"]
                )
            ),
            paragraphs(f"Warning: {text}" for text in facts["warnings"]),
            "</div>",
        )
    )


def _of_users(facts: Mapping[str, Any]) -> str:
    """What a user has in one period, in several and in every one; "" where the unit is an event."""
    user, promise = facts["user"], facts["guarantee"]
    if user is None:
        return ""
    every = user["every_period"]
    rows: list[tuple[Any, ...]] = [
        ("one user in one period", promise["epsilon"], promise["delta"]),
        *(
            (f"one user in {row['count']} periods in a row", row["epsilon"], row["delta"])
            for row in user["periods"]
        ),
        (every["who"], every["epsilon"], every["delta"]),
    ]
    shown = [(who, "no bound" if has is None else has, delta) for who, has, delta in rows]
    return table(("who", "epsilon", "delta"), shown, "Privacy loss of a user")
