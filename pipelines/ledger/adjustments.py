"""What people do to a ledger by hand: enter what others spent, close, give back, set a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from weir.dpcore.accounting.price import ANY_TIME, Point, Price, known_bound
from weir.dpcore.accounting.scope import Scope
from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan import Plan
from weir.pipelines.ledger.balance import (
    Balance,
    balance_of,
    change,
    enter,
    entry_id,
    move,
    open_body,
    with_book,
)
from weir.pipelines.ledger.charge_request import opened
from weir.pipelines.ledger.entries import CLOSED, RELEASED, ScopeEntries, all_entries, entries_of
from weir.pipelines.ledger.ledger import Ledger, refuse_alike
from weir.pipelines.ledger.store import LedgerStore

SQLITE = b"SQLite format 3\0"


@dataclass(frozen=True)
class ExternalCharge:
    """What another system spent.

    Attributes:
      epsilon, delta: its guarantee to one unit of the scope, for ever. kind: pure: nothing else is
        known of it; gdp: Gaussian noise by its exact curve; zcdp: from zCDP.
      first, last: event times that it covers, as a config writes moments; None: since ever, and
        without end.
      drawn_after: whether its noise is drawn after the data that it hides, or its periods were
        fixed before anything was released. Without that a kind other than pure holds for a whole
        stream only, as an adversary may choose the period of a person after looking.
      note: in words, whose and what.
    """

    epsilon: float
    delta: float
    kind: Literal["pure", "gdp", "zcdp"]
    first: str | None
    last: str | None
    note: str
    drawn_after: bool = False

    @property
    def booked(self) -> Literal["pure", "gdp", "zcdp"]:
        """The kind under which it is added."""
        whole = self.first is None and self.last is None
        return self.kind if self.drawn_after or whole else "pure"

    def price(self, scope: Scope) -> Price:
        """Its price in a scope: in the scope's own unit, relation and periods."""
        if self.kind != "pure" and self.delta == 0:
            raise ConfigError("--delta", self.delta, f"must be above 0 for --kind {self.kind}.")
        loss, slack = known_bound(self.epsilon, self.delta, self.booked)
        first, last = (
            _moment(text, name) for text, name in ((self.first, "--from"), (self.last, "--to"))
        )
        if first is not None and last is not None and last <= first:
            raise ConfigError("--to", self.last, f"must be after --from {self.first}.")
        begin = EVER if first is None else first
        return Price(
            scope.unit, scope.relation, begin, last, (Point(1, None, loss),), slack, scope.grid
        )


EVER = durations.timestamp("1900-01-01T00:00:00Z")
"""Before all events."""


def _moment(text: str | None, option: str) -> int | None:
    if text is None:
        return None
    try:
        return durations.timestamp(text)
    except ValueError as error:
        raise ConfigError(option, text, str(error)) from None


def add(store: LedgerStore, scope: str, spent: ExternalCharge) -> Balance:
    """Enters what another system spent. It is spent already, so nothing is refused for it.

    Raises:
      ConfigError: there is no such scope, or it cannot add this.
    """

    def work(book: ScopeEntries) -> tuple[list[dict[str, Any]], Balance]:
        terms = opened_scope(book)
        price = spent.price(terms)
        name = entry_id(book.name, book.records, spent.note)
        bodies = [enter(name, spent.note.split("\n")[0], "", "", price, spent.note)]
        bodies.append(move(name, CLOSED, reason="by hand"))
        after = book.with_entry(bodies[0])
        return bodies, replace(balance_of(after, terms), known=None)

    balance: Balance = change(store, scope, work)
    return balance


def open_scope(ledger: Ledger, plan: Plan, shares: Sequence[str] = ()) -> Balance:
    """Opens the scope that a config names, with its terms.

    Args:
      plan: of the config: what its section leaves out is as there.
      shares: other scopes whose events hold people of this one too. A scope that is open already
        is given them.

    Raises:
      ConfigError: it is open, looks like another, or shares with one that is not open.
    """

    def work(book: ScopeEntries, store: LedgerStore) -> tuple[list[dict[str, Any]], Balance]:
        others = [name for name in all_entries(store) if name != book.name]
        missing = [name for name in shares if name not in others]
        if missing:
            raise ConfigError(
                "--shares",
                missing[0],
                f"is no other scope of this ledger. Write one of {', '.join(others) or '(none)'}.",
            )
        if book.scope is not None and not shares:
            raise ConfigError(
                "ledger.scope",
                book.name,
                "is open already. Run a job that names it, or say with --shares NAME whose events "
                "hold its people too.",
            )
        if book.scope is None:
            refuse_alike(book.name, others)
        terms = book.scope or opened(ledger, plan)
        return [open_body(terms, shares)], balance_of(replace(book, scope=terms), terms)

    balance: Balance = with_book(ledger, work)
    return balance


def rebudget(store: LedgerStore, scope: str, epsilon: float, delta: float) -> Balance:
    """Gives a scope another budget. A larger one is a weaker guarantee to its people.

    Raises:
      ConfigError: there is no such scope.
    """

    def work(book: ScopeEntries) -> tuple[list[dict[str, Any]], Balance]:
        terms = replace(opened_scope(book), epsilon=epsilon, delta=delta)
        return [open_body(terms)], balance_of(replace(book, scope=terms), terms)

    balance: Balance = change(store, scope, work)
    return balance


def close(store: LedgerStore, scope: str, entry: str, reason: str, release: bool) -> Balance:
    """Says that the job of an entry is over; it stays spent, unless it is given back.

    Args:
      entry: the beginning of its id. reason: in words, kept. release: whether it is given back,
        which is refused where a run began under it.

    Raises:
      ConfigError: no such entry, or noise may have been drawn under it.
    """

    def work(book: ScopeEntries) -> tuple[list[dict[str, Any]], Balance]:
        terms, result = opened_scope(book), book.entry(entry)
        if not result.counts:
            raise ConfigError("--entry", result.id, "was given back already.")
        if release and result.began:
            raise ConfigError(
                "--release",
                result.id,
                f"is refused: a run began under it ({', '.join(result.places)}), and noise may "
                "have been drawn and seen, whatever lies there now. What began stays spent; close "
                "it without --release.",
            )
        state = RELEASED if release else CLOSED
        body = move(result.id, state, reason=reason)
        retained = {
            name: item for name, item in book.entries.items() if not (release and item is result)
        }
        return [body], balance_of(replace(book, entries=retained), terms)

    answer: Balance = change(store, scope, work)
    return answer


def opened_scope(book: ScopeEntries) -> Scope:
    """The terms of a scope.

    Raises:
      ConfigError: nothing has opened it.
    """
    if book.scope is None:
        raise ConfigError(
            "--scope",
            book.name,
            "is not open. Open it with weir ledger open CONFIG.",
        )
    return book.scope


def exported(store: LedgerStore, scope: str) -> Iterator[dict[str, Any]]:
    """Every entry of a scope as plain values."""
    book = entries_of(store, scope)
    for entry in book.entries.values():
        price = entry.price
        charged = book.charges.get(entry.id)
        yield {
            "scope": scope,
            "entry": entry.id,
            "name": entry.name,
            "state": entry.state,
            "at": entry.at,
            "from": moment(price.first),
            "to": moment(price.last),
            "unit": price.unit,
            "relation": price.relation,
            "curve": [
                {
                    "periods": point.periods,
                    "within": None if point.horizon is None else point.horizon / 1e6,
                    "kind": point.loss.kind,
                    "value": None if point.loss.value == float("inf") else point.loss.value,
                }
                for point in price.points
            ],
            "delta": price.slack,
            "charged": None if charged is None else charged.loss,
            "plan": entry.digest,
            "secret": entry.mark,
            "began": len(entry.began),
            "places": list(entry.places),
            "note": entry.note,
            "reason": entry.reason,
        }


def moment(microseconds: int | None) -> str | None:
    """A moment as a config writes it; None: without end, or since ever."""
    if microseconds in (None, EVER, ANY_TIME):
        return None
    return durations.show_timestamp(microseconds)


def is_sqlite(path: Path) -> bool:
    """Whether a file is one of SQLite's, or empty."""
    try:
        with path.open("rb") as file:
            result = file.read(len(SQLITE))
    except OSError:
        return False
    return result == SQLITE
