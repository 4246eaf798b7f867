"""``weir ledger show``: what is spent, in which periods, and by which plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.text import Text

from weir.dpcore.accounting.scope import Scope, Span
from weir.dpcore.errors import ConfigError
from weir.pipelines.ledger.adjustments import moment, opened_scope
from weir.pipelines.ledger.balance import balance_of
from weir.pipelines.ledger.charge_request import shown_grid, shown_horizon
from weir.pipelines.ledger.entries import LedgerEntry, entries_of
from weir.pipelines.ledger.store import LedgerStore
from weir.pipelines.terminal import count, heading, indent, number, sentence, table

SPANS = 12
"""Spans of periods that a page lists; the JSON has all of them."""


@dataclass(frozen=True)
class Opened:
    """A ledger that was named on the command line. name: of it, without passwords."""

    store: LedgerStore
    name: str
    scope: str | None

    def __enter__(self) -> Opened:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.store.close()

    def scopes(self) -> list[str]:
        """The scope that was named, or all of them.

        Raises:
          ConfigError: there is no such.
        """
        known = self.store.scopes()
        if self.scope is not None and self.scope not in known:
            raise ConfigError(
                "--scope", self.scope, f"is not open here; open are {', '.join(known) or 'none'}."
            )
        return known if self.scope is None else [self.scope]

    def only(self) -> str:
        """The scope that was named, or the only one.

        Raises:
          ConfigError: there are several, or none.
        """
        result = self.scopes()
        if len(result) != 1:
            raise ConfigError(
                "--scope", None, f"is missing: give one of {', '.join(result) or '(none is open)'}."
            )
        return result[0]


def scope_facts(store: LedgerStore, name: str) -> dict[str, Any]:
    """A scope, JSON-able; its chain is verified.

    Raises:
      ConfigError: a record has been changed.
    """
    book = entries_of(store, name)
    scope = opened_scope(book)
    return {
        **balance_of(book, scope).to_json(),
        "unit": scope.unit,
        "per": shown_grid(scope.grid) if scope.unit == "user" else None,
        "relation": scope.relation,
        "protect_for": shown_horizon(scope),
        "accounting": scope.accounting,
        "shares": sorted(book.shares),
        "records": book.records,
        "head": book.head,
        "spans": [_span(scope, span) for span in book.spans],
        "entries": [_entry(scope, book.charges, entry) for entry in book.entries.values()],
    }


def _span(scope: Scope, span: Span) -> dict[str, Any]:
    spent = scope.epsilon_of(span.loss, span.slack)
    return {
        "from": _start(scope, span.first),
        "to": None if span.last is None else _start(scope, span.last + 1),
        "spent": spent if spent < float("inf") else None,
    }


def _start(scope: Scope, period: int) -> str | None:
    """When a period of a scope begins; None: before all events, or never."""
    if scope.grid is not None and scope.grid.is_all:
        return None
    at = period if scope.grid is None else scope.grid.first(period)
    try:
        return moment(at)
    except (OverflowError, ValueError):
        return None


def _entry(scope: Scope, charges: Mapping[str, Any], entry: LedgerEntry) -> dict[str, Any]:
    charged = charges.get(entry.id)
    alone = None if charged is None else scope.epsilon_of(charged.loss, charged.slack)
    return {
        "entry": entry.id,
        "name": entry.name,
        "state": entry.state,
        "at": entry.at,
        "from": moment(entry.price.first),
        "to": moment(entry.price.last),
        "alone": alone if alone is not None and alone < float("inf") else None,
        "plan": entry.digest,
        "began": len(entry.began),
        "places": list(entry.places),
        "note": entry.note,
        "reason": entry.reason,
    }


def render(name: str, scopes: Sequence[Mapping[str, Any]], out: Console) -> None:
    """For a person."""
    out.print(Text(name, style="bold"))
    for scope in scopes:
        whom = (
            "one event" if scope["unit"] == "event" else f"one user in a period of {scope['per']}"
        )
        lasting = "for ever" if scope["protect_for"] == "all" else f"for {scope['protect_for']}"
        out.print(heading(f"The budget of {scope['scope']}"))
        _put(out, Text(f"{sentence(scope['words'])}."))
        _put(
            out,
            Text(
                f"It is for {whom} ({scope['relation']}), {lasting}; {scope['accounting']} adds. "
                f"The chain of its {count(scope['records'], 'record')} is whole (head "
                f"{scope['head'][:12]}).",
                style="dim",
            ),
        )
        if scope["shares"]:
            shared = ", ".join(scope["shares"])
            _put(out, Text(f"The same events may be read under {shared}: they hold other people."))
        rows = table("entry", "what", "state", "event times", "alone", right=("alone",))
        for entry in scope["entries"]:
            rows.add_row(
                entry["entry"],
                entry["name"],
                entry["state"],
                _times(entry),
                "-" if entry["alone"] is None else number(entry["alone"]),
            )
        _put(out, rows)
        if len(scope["spans"]) > 1:
            rows = table("events of", "spent", right=("spent",))
            for span in scope["spans"][:SPANS]:
                rows.add_row(_times(span), number(span["spent"]))
            _put(out, Text(""))
            _put(out, rows)
            if len(scope["spans"]) > SPANS:
                _put(out, Text(f"and {len(scope['spans']) - SPANS:,} more (--json)", style="dim"))


def _times(row: Mapping[str, Any]) -> str:
    first, last = row["from"] or "the first", row["to"]
    return f"{first} on" if last is None else f"{first} to {last}"


def _put(out: Console, part: Any) -> None:
    out.print(indent(part))
