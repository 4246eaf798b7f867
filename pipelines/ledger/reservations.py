"""Spending: a plan is entered before anything of it is submitted, and its entry closed at the end.

A run asks for its budget in one transaction: what is spent is added up, compared and entered as
*reserved*. Right before its job is submitted, and so before any noise is drawn, it enters that it
*began*: with which secrets, over which events, and where to. From then on the entry is spent for
good, whatever becomes of the folders: the same secrets over the same events go on under it, nothing
else does. An entry under which nothing began may be given back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Scope
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.ledger.balance import (
    Balance,
    balance_with,
    begun,
    enter,
    entry_id,
    move,
    open_body,
    with_book,
)
from weir.pipelines.ledger.charge_request import opened, price_of, refuse_other
from weir.pipelines.ledger.entries import (
    CLOSED,
    RELEASED,
    RESERVED,
    LedgerEntry,
    RunIdentity,
    ScopeEntries,
    all_entries,
    entries_of,
)
from weir.pipelines.ledger.ledger import Ledger, refuse_unknown
from weir.pipelines.ledger.rules import entry_of, refuse_elsewhere, refuse_exposing, refuse_shorter
from weir.pipelines.ledger.store import LedgerStore
from weir.transforms.runtime.secret import mark_of


@dataclass(frozen=True)
class ChargeRequest:
    """What asks.

    Attributes:
      plan: what would run. run: by what it is known.
      noted: what an earlier run noted of its entry where this one writes.
    """

    plan: Plan
    run: RunIdentity
    noted: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Reservation:
    """An entry of a run.

    Attributes:
      ledger: where. entry: its id. turn: the record that reserved it. fresh: whether this run made
        it. began: how many runs had begun under it. standing: of the scope with it. head: the
        ledger's last hash then. asking: what asked.
    """

    ledger: Ledger
    entry: str
    turn: int
    fresh: bool
    began: int
    standing: Balance
    head: str
    asking: ChargeRequest

    def facts(self) -> dict[str, Any]:
        """For ``_plan.json``: public numbers, and what a ledger that lost its end is found by."""
        return {
            **self.standing.to_json(),
            "entry": self.entry,
            "record": self.turn,
            "head": self.head,
        }

    def begin(self) -> None:
        """Enters that the run begins: to be called right before its job is submitted. Everything is
        decided again, because others may have begun since it asked.

        Raises:
          ConfigError: the entry was given back, another run began under it, or see ``reserve``.
        """
        plan, run = self.asking.plan, self.asking.run

        def work(book: ScopeEntries, store: LedgerStore) -> tuple[list[dict[str, Any]], None]:
            entry = book.entries[self.entry]
            if not entry.counts:
                raise self._lost("was given back")
            books = all_entries(store)
            refuse_elsewhere(books, book.name, run)
            refuse_exposing(books, plan, run, _goes_on(book, plan, run))
            own = entry_of(book, plan, run)
            # Of two jobs of one stream only one may go on, so they take turns.
            stale = not run.bounded and len(entry.began) != self.began
            if own is None or own.id != self.entry or stale:
                raise self._lost("is that of another run that began")
            return [begun(self.entry, run)], None

        with_book(self.ledger, work)

    def close(self) -> None:
        """Says that the job is over: nothing more will be released."""
        body = move(self.entry, CLOSED, place=self.asking.run.output.name)
        with_book(self.ledger, lambda _book, _store: ([body], None))

    def give_back(self) -> None:
        """Gives back what this run alone has reserved and nothing began under."""

        def work(book: ScopeEntries, _store: LedgerStore) -> tuple[list[dict[str, Any]], None]:
            entry = book.entries[self.entry]
            untouched = entry.state == RESERVED and entry.turn == self.turn and not entry.began
            if not (self.fresh and untouched):
                return [], None
            return [
                move(self.entry, RELEASED, reason="refused before anything was submitted")
            ], None

        with_book(self.ledger, work)

    def _lost(self, what: str) -> ConfigError:
        return ConfigError(
            "ledger.scope",
            self.standing.scope,
            f"entry {self.entry} {what} since this run requested it. Run again.",
        )


def key_of(ledger: Ledger) -> tuple[str, bytes]:
    """Mark and value of the key of digests of events; made where there is none yet.

    Raises:
      ConfigError: it is gone, and digests that it made are there.
    """
    store = ledger.store(create=True)
    assert store is not None
    try:
        used = any(
            run.key is not None
            for book in all_entries(store).values()
            for entry in book.entries.values()
            for run in entry.began
        )
        key = store.key(create=not used)
        if key is None:
            raise ConfigError(
                ledger.field,
                ledger.shown,
                f"has lost its key, {store.key_name}, without which nobody can say which events "
                "were read before. Bring it back from a copy; if there is none, put 32 new random "
                "bytes there: no run before is known again then, and each needs a new secret.",
            )
        return mark_of(key), key
    finally:
        store.close()


def refuse_full(ledger: Ledger, asking: ChargeRequest) -> None:
    """Refuses a plan that there is no room for, before its events are looked at. Writes nothing.

    Raises:
      ConfigError: see ``reserve``.
    """
    book, known = _read(ledger)
    scope = _scope_of(book, known, ledger, asking.plan)
    own = [entry for entry in book.entries.values() if entry.digest == asking.plan.digest]
    if not any(item.counts and item.mark == asking.run.mark for item in own):
        _refuse_no_room(book, scope, _stands(book, scope, None, asking.plan))


def reserve(ledger: Ledger, asking: ChargeRequest) -> Reservation:
    """Enters a plan, or goes on under the entry that it has.

    Raises:
      ConfigError: there is no room (says what is spent, asked and left, and what would fit), the
        ledger cannot be read, nobody has opened the scope, the events were read under another one,
        or the secret was used for this plan on other events.
    """
    plan, run = asking.plan, asking.run

    def work(book: ScopeEntries, store: LedgerStore) -> tuple[list[dict[str, Any]], Any]:
        refuse_shorter(book, asking.noted, run.output.name, ledger.shown)
        books = all_entries(store)
        bodies: list[dict[str, Any]] = []
        scope = _scope_of(book, list(books), ledger, plan)
        if book.scope is None:
            bodies.append(open_body(scope))
        refuse_elsewhere(books, book.name, run)
        refuse_exposing(books, plan, run, _goes_on(book, plan, run))
        own = entry_of(book, plan, run)
        result = _stands(book, scope, own, plan)
        _refuse_no_room(book, scope, result)
        number = book.records + len(bodies)
        if own is None:
            name = entry_id(book.name, number, plan.digest, run.mark)
            bodies.append(enter(name, plan.name, plan.digest, run.mark, price_of(plan, scope), ""))
            number += 1
        else:
            name = own.id
        bodies.append(move(name, RESERVED))
        began = 0 if own is None else len(own.began)
        return bodies, (name, number, own is None, began, replace(result, entry=name))

    (name, turn, fresh, began, results), head = with_book(ledger, work, heads=True)
    return Reservation(ledger, name, turn, fresh, began, results, head, asking)


def _read(ledger: Ledger) -> tuple[ScopeEntries, Sequence[str]]:
    """What the scope holds, and which scopes were open before that was read: one that another run
    opens meanwhile is never among them and empty."""
    store = ledger.store(create=False)
    try:
        known = [] if store is None else store.scopes()
        return entries_of(store, ledger.scope), known
    finally:
        if store is not None:
            store.close()


def _goes_on(book: ScopeEntries, plan: Plan, run: RunIdentity) -> str | None:
    """Id of the entry that a run goes on under though runs began under it."""
    own = entry_of(book, plan, run)
    return own.id if own is not None and own.began else None


def _scope_of(book: ScopeEntries, known: Sequence[str], ledger: Ledger, plan: Plan) -> Scope:
    """The terms of the scope: as opened, or as the first plan of a ledger opens it.

    Raises:
      ConfigError: others are open and this one is not, or it was opened with other terms.
    """
    if book.scope is None:
        if known:
            refuse_unknown(ledger.scope, known)
        return opened(ledger, plan)
    refuse_other(ledger, book.scope)
    return book.scope


def _refuse_no_room(book: ScopeEntries, scope: Scope, found: Balance) -> None:
    if not found.fits:
        raise ConfigError(
            "ledger.budget",
            f"epsilon {scope.epsilon:g}, delta {scope.delta:g}",
            f"is not enough in the scope {book.name!r}: {found.words}.",
        )


def look(ledger: Ledger, plan: Plan, beside: Plan | None = None) -> Balance:
    """How the budget stands for a plan that is not run. Writes nothing, makes nothing, and reads no
    secret.

    Args:
      next to: another plan, to be counted too if it has no entry yet.

    Raises:
      ConfigError: see ``reserve``; not where there is no room.
    """
    book, names = _read(ledger)
    scope = _scope_of(book, names, ledger, beside or plan)
    more = [] if beside is None or book.of_plan(beside.digest) else [price_of(beside, scope)]
    result = _stands(book, scope, None, plan, more)
    known = book.of_plan(plan.digest)
    return replace(result, known=None if known is None else known.id)


def _stands(
    book: ScopeEntries,
    scope: Scope,
    own: LedgerEntry | None,
    plan: Plan,
    beside: Sequence[Price] = (),
) -> Balance:
    """How the budget stands for a plan."""
    window, delta = plan.guarantee.window, plan.guarantee.delta - plan.guarantee.delta_sel
    price = price_of(plan, scope)
    return balance_with(book, scope, price, own, plan.program.loss(window), delta, beside)
