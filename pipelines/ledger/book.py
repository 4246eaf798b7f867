"""The records of a scope, read: what was opened, what was entered, and how it stands."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Charge, Scope, charge
from weir.dpcore.accounting.spent import Span, sweep
from weir.dpcore.errors import ConfigError
from weir.pipelines.ledger.chain import Row, verify
from weir.pipelines.ledger.store import Store

RESERVED, RUNNING, CLOSED, RELEASED = "reserved", "running", "closed", "released"
"""How an entry stands. It is spent in each but the last."""


@dataclass(frozen=True)
class Entry:
    """One spending.

    Attributes:
      id: in its scope. name: of the release, or of another system. digest: of the plan; "": by
        hand. mark: of the secret, keyed. price: what it costs. note: in words.
      state: reserved (nothing was submitted), running (submitted, or left to itself), closed (over)
        or released (given back by hand).
      turn: number of the record that last reserved it.
      places: where releases of it went, as far as it ran. running: those that may still run.
      source: keyed digest of the events behind it; None: nobody knows.
      at: when it was entered. reason: of who closed it by hand.
    """

    id: str
    name: str
    digest: str
    mark: str
    price: Price
    note: str
    at: str
    state: str = RESERVED
    turn: int = 0
    places: tuple[Mapping[str, Any], ...] = ()
    running: tuple[str, ...] = ()
    source: str | None = None
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is spent."""
        return self.state != RELEASED


@dataclass(frozen=True)
class Book:
    """A scope as its records tell it.

    Attributes:
      name: of the scope. scope: its terms; None: not opened. entries: in order, by id.
      hashes: of its records.
    """

    name: str
    scope: Scope | None = None
    entries: Mapping[str, Entry] = field(default_factory=dict)
    hashes: tuple[str, ...] = ()

    @classmethod
    def read(cls, name: str, rows: Sequence[Row], store: str) -> Book:
        """Verifies the records and reads them.

        Args:
          name: of the scope. store: of the ledger, for messages.

        Raises:
          ConfigError: they have been changed.
        """
        verify(name, rows, store)
        scope: Scope | None = None
        entries: dict[str, Entry] = {}
        for row in rows:
            body = json.loads(row.body)
            if body["kind"] == "scope":
                scope = Scope.from_json(body["scope"])
            elif body["kind"] == "entry":
                entries[body["entry"]] = _entered(body)
            else:
                entries[body["entry"]] = _moved(entries[body["entry"]], body, row.number)
        return cls(name, scope, entries, tuple(row.hash for row in rows))

    @property
    def records(self) -> int:
        """How many there are."""
        return len(self.hashes)

    @property
    def head(self) -> str:
        """Hash of the last; "": there is none."""
        return self.hashes[-1] if self.hashes else ""

    @cached_property
    def charges(self) -> Mapping[str, Charge]:
        """What each entry that counts takes of the budget."""
        if self.scope is None:
            return {}
        return {
            entry.id: charge(entry.price, self.scope)
            for entry in self.entries.values()
            if entry.counts
        }

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """What is spent, period by period."""
        return sweep(list(self.charges.values()))

    def same(self, digest: str, mark: str) -> Entry | None:
        """The entry of a plan and a secret, unless it was given back."""
        found = [
            entry
            for entry in self.entries.values()
            if entry.counts and digest and (entry.digest, entry.mark) == (digest, mark)
        ]
        return found[-1] if found else None

    def with_entry(self, body: Mapping[str, Any]) -> Book:
        """The same with an entry that is about to be written."""
        return replace(self, entries={**self.entries, body["entry"]: _entered(body)})

    def of_plan(self, digest: str) -> Entry | None:
        """The last entry of a plan that counts, whatever its secret."""
        found = [one for one in self.entries.values() if one.counts and one.digest == digest]
        return found[-1] if found else None

    def entry(self, name: str) -> Entry:
        """The entry whose id begins so.

        Raises:
          ConfigError: none, or several.
        """
        found = [entry for entry in self.entries.values() if name and entry.id.startswith(name)]
        if len(found) != 1:
            known = ", ".join(self.entries) or "none"
            what = "is no entry" if not found else "begins the ids of several entries"
            raise ConfigError(
                "--entry", name, f"{what} of the scope {self.name!r}; it has {known}."
            )
        return found[0]


def book_of(store: Store | None, scope: str) -> Book:
    """A scope as it is now; without entries where there is no ledger yet."""
    return Book(scope) if store is None else Book.read(scope, store.rows(scope), store.name)


def _entered(body: Mapping[str, Any]) -> Entry:
    return Entry(
        body["entry"],
        body["name"],
        body["digest"],
        body["mark"],
        Price.from_json(body["price"]),
        body["note"],
        body["at"],
    )


def _moved(entry: Entry, body: Mapping[str, Any], number: int) -> Entry:
    """An entry after a change of its state."""
    state = body["state"]
    if state == RESERVED:
        kept = RUNNING if entry.running else RESERVED
        return replace(entry, state=kept, turn=number, source=body["source"])
    if state == RUNNING:
        here = body["place"]
        places = (*(one for one in entry.places if one["place"] != here["place"]), here)
        running = tuple(dict.fromkeys((*entry.running, here["place"])))
        return replace(entry, state=RUNNING, places=places, running=running)
    gone = body.get("place")
    running = tuple(place for place in entry.running if gone is not None and place != gone)
    state = RUNNING if running else state
    return replace(entry, state=state, running=running, reason=body.get("reason") or entry.reason)


__all__ = ["CLOSED", "RELEASED", "RESERVED", "RUNNING", "Book", "Entry", "book_of"]
