"""Entries of a ledger: what a run releases, from which events, with which secret."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Charge, Scope, Span, charge, sweep
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.clock import Clock
from weir.dpcore.noise.key_ring import first_difference
from weir.pipelines.connectors.paths import resolved
from weir.pipelines.ledger.store import LedgerStore, Row, verify
from weir.pipelines.sinks.sink import Sink


@dataclass(frozen=True)
class OutputPlace:
    """Where a run writes releases: a folder, or in words where it is none."""

    name: str
    folder: bool

    @classmethod
    def of(cls, sink: Sink) -> OutputPlace:
        """Of a sink."""
        if sink.place is None:
            return cls(sink.named, False)
        return cls(resolved(sink.place), True)

    def to_json(self) -> dict[str, Any]:
        """JSON-able."""
        return {"place": self.name, "folder": self.folder}


def plan_in(folder: str) -> Mapping[str, Any] | None:
    """What ``_plan.json`` of a folder of results holds; None where there is none."""
    from weir.transforms.sinks import place as folders

    try:
        return folders.json_in(folders.read(folders.join(folder, folders.PLAN_FILE)))
    except OSError:
        return None


def noted_in(place: OutputPlace) -> Mapping[str, Any] | None:
    """What a run has noted of its entry in its folder; None where none did."""
    begun = plan_in(place.name) if place.folder else None
    return None if begun is None else begun.get("ledger")


SKEW: Final = 60_000_000
"""Microseconds that clocks of workers may be ahead of this one."""


@dataclass(frozen=True)
class RunIdentity:
    """A run of a plan.

    Attributes:
      secrets: first tick -> mark of the secret that keys the noise from there on.
      output: where releases go.
      events: of files and memory a digest, of a stream its name; None: nobody knows.
      key: mark of the key of the digest; None: it is none.
      reading: digest of the public settings by which bytes become events; "" of a stream.
      state: where a stream keeps what it goes on from; None: it keeps nothing, or is none.
      bounded: whether all events are there from the start.
      live: whether a stream's time is the wall clock's: no tick is released before it is over.
      resumed: whether a stream goes on from its state.
    """

    secrets: Mapping[int, str]
    output: OutputPlace
    events: str | None = None
    key: str | None = None
    reading: str = ""
    state: str | None = None
    bounded: bool = True
    live: bool = False
    resumed: bool = False

    @property
    def mark(self) -> str:
        """Of the first secret."""
        return self.secrets[0]

    def shares_secret(self, other: RunIdentity) -> bool:
        """Whether any secret keys both."""
        return not set(self.secrets.values()).isdisjoint(other.secrets.values())

    def comparable(self, other: RunIdentity) -> bool:
        """Whether it is known if both read the same events."""
        return None not in (self.key, self.events, other.events) and self.key == other.key

    def same_events(self, other: RunIdentity) -> bool:
        """Whether both are known to read the same events."""
        one, two = (self.events, self.reading), (other.events, other.reading)
        return self.comparable(other) and one == two

    def same_stream(self, other: RunIdentity) -> bool:
        """Whether both are one stream at one place."""
        here = (self.events, self.state, self.output.name)
        streams = not (self.bounded or other.bounded)
        return streams and here == (other.events, other.state, other.output.name)

    def drawn(self, clock: Clock, now: int) -> float:
        """Ticks whose noise it may have drawn by now, from the first on.

        A run over files has all its events, so it may have come to its end, whatever is left of
        it. A stream draws the noise of a tick when the public clock has passed it.
        """
        return max(0, clock.tick_at(now + SKEW)) if self.live else math.inf

    def goes_on(self, before: RunIdentity, clock: Clock, now: int) -> bool:
        """Whether it draws nothing that an earlier run did not, for any tick that the earlier one
        may have drawn."""
        if not (self.same_events(before) or self.same_stream(before)):
            return False
        other = first_difference(before.secrets, self.secrets)
        if not self.bounded and not self.resumed:
            other = 0
        return other is None or other >= before.drawn(clock, now)

    def to_json(self) -> dict[str, Any]:
        """JSON-able, without where releases go."""
        secrets = {str(tick): mark for tick, mark in self.secrets.items()}
        fields = {name: value for name, value in vars(self).items() if name != "output"}
        return {**fields, "secrets": secrets}

    @classmethod
    def from_json(
        cls, stored: Mapping[str, Any] | None, place: Mapping[str, Any], mark: str
    ) -> RunIdentity:
        """As ``to_json`` wrote it.

        Args:
          stored: None: an earlier version wrote nothing but the place. place: where releases went.
          mark: of its first secret.
        """
        output = OutputPlace(str(place["place"]), bool(place["folder"]))
        if stored is None:
            return cls({0: mark}, output)
        secrets = {int(tick): str(item) for tick, item in stored["secrets"].items()}
        return cls(**{**stored, "secrets": secrets, "output": output})


NOT_AS_WRITTEN = (LookupError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)
"""What reading JSON raises that has other fields or types than were written."""
RESERVED, RUNNING, CLOSED, RELEASED = "reserved", "running", "closed", "released"
"""How an entry stands. It is spent in each but the last, which only one that never began takes."""


@dataclass(frozen=True)
class LedgerEntry:
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
    began: tuple[RunIdentity, ...] = ()
    running: tuple[str, ...] = ()
    reason: str = ""

    @property
    def counts(self) -> bool:
        """Whether it is spent."""
        return self.state != RELEASED

    @property
    def places(self) -> tuple[str, ...]:
        """Where releases of it went, each once."""
        return tuple(dict.fromkeys(item.output.name for item in self.began))


@dataclass(frozen=True)
class ScopeEntries:
    """A scope as its records tell it.

    Attributes:
      name: of the scope. scope: its terms; None: not opened. entries: in order, by id.
      hashes: of its records. shares: other scopes whose events hold people of this one too.
      at: when its last record was written; "": there is none.
    """

    name: str
    scope: Scope | None = None
    entries: Mapping[str, LedgerEntry] = field(default_factory=dict)
    hashes: tuple[str, ...] = ()
    shares: frozenset[str] = frozenset()
    at: str = ""

    @classmethod
    def read(cls, name: str, rows: Sequence[Row], store: str) -> ScopeEntries:
        """Verifies the records and reads them.

        Args:
          name: of the scope. store: of the ledger, for messages.

        Raises:
          ConfigError: they have been changed.
        """
        verify(name, rows, store)
        scope: Scope | None = None
        entries: dict[str, LedgerEntry] = {}
        shares: set[str] = set()
        at = ""
        for row in rows:
            try:
                body = json.loads(row.body)
                at = max(at, body.get("at", ""))
                if body["kind"] == "scope":
                    scope = Scope.from_json(body["scope"])
                    shares.update(body.get("shares", ()))
                elif body["kind"] == "entry":
                    entries[body["entry"]] = _entered(body)
                else:
                    entries[body["entry"]] = _moved(entries[body["entry"]], body, row.number)
            except (*NOT_AS_WRITTEN, ConfigError):
                raise ConfigError(
                    "ledger",
                    store,
                    f"holds record {row.number:,} of the scope {name!r}, which this Weir cannot "
                    "read, so it does not know what is spent. Use the version that wrote it.",
                ) from None
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
            entry.id: replace(charge(entry.price, self.scope), opaque=not entry.digest)
            for entry in self.entries.values()
            if entry.counts
        }

    @cached_property
    def spans(self) -> tuple[Span, ...]:
        """What is spent, period by period."""
        return sweep(list(self.charges.values()))

    def with_entry(self, body: Mapping[str, Any]) -> ScopeEntries:
        """The same with an entry that is about to be written."""
        return replace(self, entries={**self.entries, body["entry"]: _entered(body)})

    def of_plan(self, digest: str) -> LedgerEntry | None:
        """The last entry of a plan that counts, whatever its secret."""
        results = [
            entry for entry in self.entries.values() if entry.counts and entry.digest == digest
        ]
        return results[-1] if results else None

    def entry(self, name: str) -> LedgerEntry:
        """The entry whose id begins so.

        Raises:
          ConfigError: none, or several.
        """
        results = [entry for entry in self.entries.values() if name and entry.id.startswith(name)]
        if len(results) != 1:
            known = ", ".join(self.entries) or "none"
            what = "is no entry" if not results else "begins the ids of several entries"
            raise ConfigError(
                "--entry", name, f"{what} of the scope {self.name!r}; it has {known}."
            )
        return results[0]


def entries_of(store: LedgerStore | None, scope: str) -> ScopeEntries:
    """A scope as it is now; without entries where there is no ledger yet."""
    return (
        ScopeEntries(scope)
        if store is None
        else ScopeEntries.read(scope, store.rows(scope), store.name)
    )


def all_entries(store: LedgerStore | None) -> dict[str, ScopeEntries]:
    """All scopes as they are now. Inside a transaction of the store: as they are in it."""
    if store is None:
        return {}
    return {
        name: ScopeEntries.read(name, rows, store.name) for name, rows in store.chains().items()
    }


def _entered(body: Mapping[str, Any]) -> LedgerEntry:
    return LedgerEntry(
        body["entry"],
        body["name"],
        body["digest"],
        body["mark"],
        Price.from_json(body["price"]),
        body["note"],
        body["at"],
    )


def _moved(entry: LedgerEntry, body: Mapping[str, Any], number: int) -> LedgerEntry:
    """An entry after a change of its state."""
    state = body["state"]
    if state == RESERVED:
        return replace(entry, state=entry.state if entry.began else RESERVED, turn=number)
    if state == RUNNING:
        item = RunIdentity.from_json(body.get("began"), body["place"], entry.mark)
        running = tuple(dict.fromkeys((*entry.running, item.output.name)))
        return replace(entry, state=RUNNING, began=(*entry.began, item), running=running)
    gone = body.get("place")
    running = tuple(place for place in entry.running if gone is not None and place != gone)
    state = RUNNING if running else state
    return replace(entry, state=state, running=running, reason=body.get("reason") or entry.reason)
