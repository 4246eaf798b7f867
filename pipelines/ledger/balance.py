"""What of a budget is spent, and the records of a ledger for people and programs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Context, Decimal
from hashlib import sha256
from typing import Any

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Charge, Scope, charge, fits, fitting, room, sweep, worst
from weir.dpcore.words import number
from weir.pipelines.ledger.entries import RUNNING, LedgerEntry, RunIdentity, ScopeEntries
from weir.pipelines.ledger.ledger import Ledger
from weir.pipelines.ledger.store import LedgerStore, Row, Transaction, next_row


@dataclass(frozen=True)
class Balance:
    """What is spent, asked and left of a budget where least is left of it; epsilons at its delta.

    Attributes:
      epsilon, delta: the budget.
      spent: of all entries but the plan's own, in the periods that the plan meets.
      asked: of the plan alone, as the scope adds it; None: no plan is asked about.
      together: of both. left: next to both, or next to what is spent where both do not fit.
      slack: delta that is spent next to losses, the plan's included.
      fits: whether the plan may run: it is entered already, or there is room for it.
      fitting: epsilon of the same plan that would fit, at the plan's own delta; 0: none.
      entry: id of the plan's own entry; None: it has none.
      known: id of an entry of the same plan, which may be its own: it is where the secret is the
        same. None: there is none.
    """

    scope: str
    epsilon: float
    delta: float
    spent: float
    asked: float | None = None
    together: float | None = None
    left: float = 0.0
    slack: float = 0.0
    fits: bool = True
    fitting: float | None = None
    entry: str | None = None
    known: str | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON-able; an epsilon that has no bound is None."""
        reported: dict[str, Any] = {**vars(self), "words": self.words}
        for name in ("spent", "asked", "together"):
            if reported[name] == math.inf:
                reported[name] = None
        return reported

    @property
    def words(self) -> str:
        """The same in a sentence or two."""
        if self.entry is None and self.known is not None:
            return (
                f"{self._words}. This plan is entered already ({self.known}): under the secret of "
                "that run and over its events it is the same entry, and costs nothing more"
            )
        return self._words

    @property
    def _words(self) -> str:
        budget = f"of epsilon {number(self.epsilon)}, delta {self.delta:g}"
        if self.asked is None:
            return f"{number(self.spent)} is spent {budget}; {number(self.left)} is left"
        if self.entry is not None:
            return (
                f"{number(self.together or 0.0)} is spent {budget}, this plan included (entry "
                f"{self.entry}); {number(self.left)} is left"
            )
        if self.fits:
            return (
                f"{number(self.spent)} is spent {budget}; this plan asks for "
                f"{number(self.asked)} and leaves {number(self.left)}"
            )
        rest = (
            f"a plan like this one fits with privacy.epsilon: {_down(self.fitting)} or less"
            if self.fitting
            else "no plan like this one fits, however much noise it has"
        )
        return (
            f"{number(self.spent)} is spent {budget}, this plan asks for {number(self.asked)}, and "
            f"{number(self.left)} is left: {rest}"
        )


def balance_of(book: ScopeEntries, scope: Scope) -> Balance:
    """How a scope stands, in the period of which least is left."""
    hard = worst(scope, book.spans)
    loss, slack = (0.0, 0.0) if hard is None else (hard.loss, hard.slack)
    spent = scope.epsilon_of(loss, slack)
    left = _left(scope, loss, slack)
    return Balance(book.name, scope.epsilon, scope.delta, spent, left=left, slack=slack)


def balance_with(
    book: ScopeEntries,
    scope: Scope,
    price: Price,
    own: LedgerEntry | None,
    loss: PrivacyLoss,
    delta: float,
    beside: Sequence[Price] = (),
) -> Balance:
    """How it stands for a plan.

    Args:
      price: of the plan. own: its entry, if it has one.
      loss: of the plan at its own window, and delta: of its guarantee; for ``fitting``.
      next to: what else would be entered before it.

    Raises:
      ConfigError: the scope cannot add it.
    """
    asked = charge(price, scope)
    others = [item for name, item in book.charges.items() if own is None or name != own.id]
    others += [charge(item, scope) for item in beside]
    spans = sweep(others)
    hard = worst(scope, spans, asked)
    before, slack = (0.0, 0.0) if hard is None else (hard.loss, hard.slack)
    fine = own is not None or fits(scope, others, asked)
    both, wide = _with(scope, others, asked) if fine else (before, slack)
    likes = None if fine else fitting(scope, others, price)
    return Balance(
        book.name,
        scope.epsilon,
        scope.delta,
        scope.epsilon_of(before, slack),
        scope.epsilon_of(asked.loss, asked.slack),
        scope.epsilon_of(both, wide) if fine else None,
        _left(scope, both, wide),
        wide,
        fine,
        None if likes is None else loss.scaled(likes).epsilon(delta),
        None if own is None else own.id,
    )


def _with(scope: Scope, others: Sequence[Charge], asked: Charge) -> tuple[float, float]:
    """Loss and slack where least is left once a charge is added, among the periods it meets."""
    hard = worst(scope, sweep([*others, asked]), asked)
    assert hard is not None
    return hard.loss, hard.slack


def _left(scope: Scope, loss: float, slack: float) -> float:
    """Epsilon, at the budget's delta, of what may still be lost next to so much."""
    rest = room(scope, (), Charge(0, 0, 0.0, slack)) - loss
    return 0.0 if rest <= 0 else scope.epsilon_of(rest, slack)


def _down(value: float | None) -> str:
    """Three digits, rounded down: what is written into a config must fit."""
    return f"{Context(prec=3, rounding=ROUND_FLOOR).create_decimal(Decimal(value or 0.0)):f}"


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


def begun(name: str, run: RunIdentity) -> dict[str, Any]:
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
    work: Callable[[ScopeEntries, LedgerStore], tuple[Sequence[Mapping[str, Any]], Any]],
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
    store: LedgerStore,
    scope: str,
    work: Callable[[ScopeEntries], tuple[Sequence[Mapping[str, Any]], Any]],
    heads: bool = False,
) -> Any:
    """As ``with_book``, on a store that is open."""

    def once(rows: Sequence[Row]) -> Transaction:
        bodies, answer = work(ScopeEntries.read(scope, rows, store.name))
        if not heads:
            return Transaction(bodies, answer)
        after = list(rows)
        for body in bodies:
            after.append(next_row(scope, after, body))
        return Transaction(bodies, (answer, after[-1].hash))

    return store.change(scope, once)
