"""Spending: a plan is entered before anything of it is submitted, and its entry closed at the end.

A run asks for its budget in one transaction: what is spent is added up, compared and entered as
*reserved*. Right before it is submitted the entry turns to *running*, and to *closed* when it is
over. Whatever stops in between leaves it spent, and the next run of the same plan under the same
secret goes on under the same entry. Only a run that is refused before it submits anything, in an
entry that nobody else has touched, gives it back.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Scope
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.ledger.asking import opened, price_of, refuse_other
from weir.pipelines.ledger.book import CLOSED, RELEASED, RESERVED, RUNNING, Book, Entry, book_of
from weir.pipelines.ledger.chain import Row
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.places import Place, is_untouched
from weir.pipelines.ledger.standing import Standing, standing_with
from weir.pipelines.ledger.store import Change, Store


def mark_of(secret: bytes) -> str:
    """What tells one secret from another in a ledger, and nothing more: HMAC(secret, "ledger")."""
    return hmac.new(secret, b"weir ledger", hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True)
class Asking:
    """Who asks.

    Attributes:
      plan: what would run. mark: of its first secret. place: where releases go.
      source: keyed digest of the events, where they can be looked at.
      noted: what an earlier run noted of its entry in that place.
    """

    plan: Plan
    mark: str
    place: Place
    source: str | None = None
    noted: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Spending:
    """An entry of a run.

    Attributes:
      ledger: where. entry: its id. turn: the record that reserved it. fresh: whether this run made
        it. standing: of the scope with it. head: the ledger's last hash then. asking: who asked.
    """

    ledger: Ledger
    entry: str
    turn: int
    fresh: bool
    standing: Standing
    head: str
    asking: Asking

    def facts(self) -> dict[str, Any]:
        """For ``_plan.json``: public numbers, and what a ledger that lost its end is found by."""
        return {
            **self.standing.to_json(),
            "entry": self.entry,
            "record": self.turn,
            "head": self.head,
        }

    def run(self) -> None:
        """Says that the job is about to be submitted.

        Raises:
          ConfigError: another run has taken the entry over for other events, or it was given back.
        """

        def work(book: Book) -> list[dict[str, Any]]:
            entry = book.entries[self.entry]
            if not entry.counts or entry.source != self.asking.source:
                raise ConfigError(
                    "ledger.scope",
                    self.standing.scope,
                    f"entry {self.entry} was {'given back' if not entry.counts else 'taken over'} "
                    "since this run asked for it: run again.",
                )
            return [move(self.entry, RUNNING, place=self.asking.place.to_json())]

        self._change(work)

    def close(self) -> None:
        """Says that the job is over: nothing more will be released."""
        self._change(lambda _: [move(self.entry, CLOSED, place=self.asking.place.name)])

    def give_back(self) -> None:
        """Gives back what this run alone has reserved and nothing was submitted for."""

        def work(book: Book) -> list[dict[str, Any]]:
            entry = book.entries[self.entry]
            untouched = entry.state == RESERVED and entry.turn == self.turn and not entry.places
            if not (self.fresh and untouched):
                return []
            return [move(self.entry, RELEASED, reason="refused before anything was submitted")]

        self._change(work)

    def _change(self, work: Callable[[Book], list[dict[str, Any]]]) -> None:
        with_book(self.ledger, lambda book: (work(book), None))


def reserve(ledger: Ledger, asking: Asking) -> Spending:
    """Enters a plan, or goes on under the entry that it has.

    Raises:
      ConfigError: there is no room (says what is spent, asked and left, and what would fit), the
        ledger cannot be read, or the secret was used for this plan on other events.
    """
    plan = asking.plan

    def work(book: Book) -> tuple[list[dict[str, Any]], Any]:
        refuse_shorter(book, asking, ledger.shown)
        bodies: list[dict[str, Any]] = []
        scope = book.scope
        if scope is None:
            scope = opened(ledger, plan)
            bodies.append({"kind": "scope", "scope": scope.to_json(), "at": now()})
        else:
            refuse_other(ledger, scope)
        price = price_of(plan, scope)
        own = book.same(plan.digest, asking.mark)
        if own is not None:
            refuse_other_events(own, asking)
        found = stands(book, scope, price, own, plan)
        if not found.fits:
            raise ConfigError(
                "ledger.budget",
                f"epsilon {scope.epsilon:g}, delta {scope.delta:g}",
                f"is not enough in the scope {book.name!r}: {found.words}.",
            )
        number = book.records + len(bodies)
        if own is None:
            name = entry_id(book.name, number, plan.digest, asking.mark)
            bodies.append(enter(name, plan.name, plan.digest, asking.mark, price, ""))
            number += 1
        else:
            name = own.id
        bodies.append(move(name, RESERVED, source=asking.source))
        return bodies, (name, number, own is None, replace(found, entry=name))

    (name, turn, fresh, found), head = with_book(ledger, work, heads=True)
    return Spending(ledger, name, turn, fresh, found, head, asking)


def look(ledger: Ledger, plan: Plan, beside: Plan | None = None) -> Standing:
    """How the budget stands for a plan that is not run. Writes nothing, makes nothing, and reads no
    secret.

    Args:
      beside: another plan, to be counted too if it has no entry yet.

    Raises:
      ConfigError: see ``reserve``; not where there is no room.
    """
    store = ledger.store(create=False)
    try:
        book = book_of(store, ledger.scope)
    finally:
        if store is not None:
            store.close()
    scope = book.scope
    if scope is None:
        scope = opened(ledger, beside or plan)
    else:
        refuse_other(ledger, scope)
    more = [] if beside is None or book.of_plan(beside.digest) else [price_of(beside, scope)]
    found = stands(book, scope, price_of(plan, scope), None, plan, more)
    known = book.of_plan(plan.digest)
    return replace(found, known=None if known is None else known.id)


def stands(
    book: Book,
    scope: Scope,
    price: Price,
    own: Entry | None,
    plan: Plan,
    beside: Sequence[Price] = (),
) -> Standing:
    """How the budget stands for a plan."""
    window, delta = plan.guarantee.window, plan.guarantee.delta - plan.guarantee.delta_sel
    return standing_with(book, scope, price, own, plan.program.loss(window), delta, beside)


def refuse_shorter(book: Book, asking: Asking, name: str) -> None:
    """Refuses a ledger that lacks what an earlier run has entered in it.

    Raises:
      ConfigError: its end was cut off, or it is another one.
    """
    noted = asking.noted or {}
    if noted.get("scope") != book.name or "head" not in noted:
        return
    number = int(noted["record"])
    if number >= book.records or book.hashes[number] != noted["head"]:
        raise ConfigError(
            "ledger",
            name,
            f"is not the one, or not all of the one, in which the run in {asking.place.name} was "
            f"entered: record {number:,} of the scope {book.name!r} differs. Bring it back from a "
            "copy; a new one would not know what was spent.",
        )


def refuse_other_events(own: Entry, asking: Asking) -> None:
    """Refuses a secret that this plan has been run under on other events, as far as that is known.

    Plan and secret give bit-identical releases up to the first difference, so what is different
    would stand out with certainty: no epsilon covers that.

    Raises:
      ConfigError: names ``secret``.
    """
    same = own.source is not None and own.source == asking.source
    here = any(place["place"] == asking.place.name for place in own.places)
    if same or not own.places or (here and own.source is None and asking.source is None):
        return
    if own.state != RUNNING and all(is_untouched(place) for place in own.places):
        return
    where = ", ".join(str(place["place"]) for place in own.places)
    if asking.source is None or own.source is None:
        what = f"and went to {where}; whether these are the same events cannot be known"
    else:
        what = f"over other events (see {where})"
    over = "; if that run is over, weir ledger close says so" if own.state == RUNNING else ""
    raise ConfigError(
        "secret",
        "(not shown)",
        f"was used for this very plan before, {what}. Releases of both would be the same up to "
        "the first difference, and show it with certainty. Take a new secret, which is an entry "
        f"of its own, or go on where that run stands{over}.",
    )


def entry_id(scope: str, number: int, *fields: str) -> str:
    """Twelve hexadecimal digits that no other entry of the scope has."""
    text = "\0".join((scope, str(number), *fields))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def enter(name: str, title: str, digest: str, mark: str, price: Price, note: str) -> dict[str, Any]:
    """The record of an entry."""
    return {
        "kind": "entry",
        "entry": name,
        "name": title,
        "digest": digest,
        "mark": mark,
        "price": price.to_json(),
        "note": note,
        "at": now(),
    }


def move(name: str, state: str, **more: Any) -> dict[str, Any]:
    """The record of a change of state."""
    return {"kind": "state", "entry": name, "state": state, "at": now(), **more}


def now() -> str:
    """The wall clock's time. Nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def with_book(
    ledger: Ledger,
    work: Callable[[Book], tuple[Sequence[Mapping[str, Any]], Any]],
    heads: bool = False,
) -> Any:
    """One transaction on a ledger's scope; made where there is none. heads: the answer together
    with the hash of the last record after it."""
    store = ledger.store(create=True)
    assert store is not None
    try:
        return change(store, ledger.scope, work, heads)
    finally:
        store.close()


def change(
    store: Store,
    scope: str,
    work: Callable[[Book], tuple[Sequence[Mapping[str, Any]], Any]],
    heads: bool = False,
) -> Any:
    """As ``with_book``, on a store that is open."""
    from weir.pipelines.ledger.chain import next_row

    def once(rows: Sequence[Row]) -> Change:
        bodies, answer = work(Book.read(scope, rows, store.name))
        if not heads:
            return Change(bodies, answer)
        after = list(rows)
        for body in bodies:
            after.append(next_row(scope, after, body))
        return Change(bodies, (answer, after[-1].hash))

    return store.change(scope, once)


__all__ = [
    "Asking",
    "Spending",
    "change",
    "enter",
    "entry_id",
    "look",
    "mark_of",
    "move",
    "now",
    "refuse_other_events",
    "reserve",
    "with_book",
]
