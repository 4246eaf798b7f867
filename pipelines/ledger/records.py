"""The records of a ledger, and the transactions that add them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Scope
from weir.pipelines.ledger.book import RUNNING, Book
from weir.pipelines.ledger.chain import Row, next_row
from weir.pipelines.ledger.identity import Identity
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.store import Change, Store


def entry_id(scope: str, number: int, *fields: str) -> str:
    """Twelve hexadecimal digits that no other entry of the scope has."""
    text = "\0".join((scope, str(number), *fields))
    return sha256(text.encode()).hexdigest()[:12]


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


def begun(name: str, run: Identity) -> dict[str, Any]:
    """The record that a run begins: from now on it may draw noise."""
    return move(name, RUNNING, place=run.output.to_json(), began=run.to_json())


def open_body(scope: Scope, shares: Sequence[str] = ()) -> dict[str, Any]:
    """The record that opens a scope, or gives it other terms."""
    more = {"shares": sorted(shares)} if shares else {}
    return {"kind": "scope", "scope": scope.to_json(), "at": now(), **more}


def move(name: str, state: str, **more: Any) -> dict[str, Any]:
    """The record of a change of state."""
    return {"kind": "state", "entry": name, "state": state, "at": now(), **more}


def now() -> str:
    """The wall clock's time. Nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def with_book(
    ledger: Ledger,
    work: Callable[[Book, Store], tuple[Sequence[Mapping[str, Any]], Any]],
    heads: bool = False,
) -> Any:
    """One transaction on a ledger's scope; made where there is none. heads: the answer together
    with the hash of the last record after it."""
    store = ledger.store(create=True)
    assert store is not None
    try:
        return change(store, ledger.scope, lambda book: work(book, store), heads)
    finally:
        store.close()


def change(
    store: Store,
    scope: str,
    work: Callable[[Book], tuple[Sequence[Mapping[str, Any]], Any]],
    heads: bool = False,
) -> Any:
    """As ``with_book``, on a store that is open."""

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
    "begun",
    "change",
    "enter",
    "entry_id",
    "move",
    "now",
    "open_body",
    "with_book",
]
