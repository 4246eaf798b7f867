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
from weir.pipelines.ledger.identity import Identity
from weir.pipelines.ledger.store import Store

RESERVED, RUNNING, CLOSED, RELEASED = "reserved", "running", "closed", "released"
"""How an entry stands. It is spent in each but the last, which only one that never began takes."""


@dataclass(frozen=True)
class Entry:
    """One spending.

    Attributes:
      id: in its scope. name: of the release, or of another system. digest: of the plan; "": by
        hand. mark: of the first secret, keyed. price: what it costs. note: in words.
      state: reserved (nothing was submitted), running (submitted, or left to itself), closed (over)
        or released (given back by hand).
      turn: number of the record that last reserved it.
      began: each run that began under it, in order: it may have drawn noise since.
      running: names of places of those that may still run.
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
    began: tuple[Identity, ...] = ()
    running: tuple[str, ...] = ()
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is spent."""
        return self.state != RELEASED

    @property
    def places(self) -> tuple[str, ...]:
        """Where releases of it went, each once."""
        return tuple(dict.fromkeys(one.output.name for one in self.began))


@dataclass(frozen=True)
class Book:
    """A scope as its records tell it.

    Attributes:
      name: of the scope. scope: its terms; None: not opened. entries: in order, by id.
      hashes: of its records. shares: other scopes whose events hold people of this one too.
      at: when its last record was written; "": there is none.
    """

    name: str
    scope: Scope | None = None
    entries: Mapping[str, Entry] = field(default_factory=dict)
    hashes: tuple[str, ...] = ()
    shares: frozenset[str] = frozenset()
    at: str = ""

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
        shares: set[str] = set()
        at = ""
        for row in rows:
            body = json.loads(row.body)
            at = max(at, body.get("at", ""))
            if body["kind"] == "scope":
                scope = Scope.from_json(body["scope"])
                shares.update(body.get("shares", ()))
            elif body["kind"] == "entry":
                entries[body["entry"]] = _entered(body)
            else:
                entries[body["entry"]] = _moved(entries[body["entry"]], body, row.number)
        hashes = tuple(row.hash for row in rows)
        return cls(name, scope, entries, hashes, frozenset(shares), at)

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


def books_of(store: Store | None) -> dict[str, Book]:
    """All scopes as they are now. Inside a transaction of the store: as they are in it."""
    if store is None:
        return {}
    return {name: Book.read(name, rows, store.name) for name, rows in store.chains().items()}


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
        return replace(entry, state=entry.state if entry.began else RESERVED, turn=number)
    if state == RUNNING:
        one = Identity.from_json(body.get("began"), body["place"], entry.mark)
        running = tuple(dict.fromkeys((*entry.running, one.output.name)))
        return replace(entry, state=RUNNING, began=(*entry.began, one), running=running)
    gone = body.get("place")
    running = tuple(place for place in entry.running if gone is not None and place != gone)
    state = RUNNING if running else state
    return replace(entry, state=state, running=running, reason=body.get("reason") or entry.reason)


__all__ = [
    "CLOSED",
    "RELEASED",
    "RESERVED",
    "RUNNING",
    "Book",
    "Entry",
    "book_of",
    "books_of",
]
