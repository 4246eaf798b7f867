"""How a budget stands in a few numbers, as every command tells it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Charge, Scope, charge
from weir.dpcore.accounting.spent import fits, fitting, room, sweep, worst
from weir.dpcore.words import number
from weir.pipelines.ledger.book import Book, Entry


@dataclass(frozen=True)
class Standing:
    """What is spent, asked and left of a budget where least is left of it; epsilons at its delta.

    Attributes:
      epsilon, delta: the budget.
      spent: of all entries but the plan's own, in the periods that the plan meets.
      asked: of the plan alone, as the scope adds it; None: no plan is asked about.
      together: of both. left: beside both, or beside what is spent where both do not fit.
      slack: delta that is spent beside losses, the plan's included.
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
        told: dict[str, Any] = {**vars(self), "words": self.words}
        for name in ("spent", "asked", "together"):
            if told[name] == math.inf:
                told[name] = None
        return told

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


def standing(book: Book, scope: Scope) -> Standing:
    """How a scope stands, in the period of which least is left."""
    hard = worst(scope, book.spans)
    loss, slack = (0.0, 0.0) if hard is None else (hard.loss, hard.slack)
    spent = scope.epsilon_of(loss, slack)
    left = _left(scope, loss, slack)
    return Standing(book.name, scope.epsilon, scope.delta, spent, left=left, slack=slack)


def standing_with(
    book: Book,
    scope: Scope,
    price: Price,
    own: Entry | None,
    loss: PrivacyLoss,
    delta: float,
    beside: Sequence[Price] = (),
) -> Standing:
    """How it stands for a plan.

    Args:
      price: of the plan. own: its entry, if it has one.
      loss: of the plan at its own window, and delta: of its promise; for ``fitting``.
      beside: what else would be entered before it.

    Raises:
      ConfigError: the scope cannot add it.
    """
    asked = charge(price, scope)
    others = [one for name, one in book.charges.items() if own is None or name != own.id]
    others += [charge(one, scope) for one in beside]
    spans = sweep(others)
    hard = worst(scope, spans, asked)
    before, slack = (0.0, 0.0) if hard is None else (hard.loss, hard.slack)
    fine = own is not None or fits(scope, others, asked)
    both, wide = _with(scope, others, asked) if fine else (before, slack)
    likes = None if fine else fitting(scope, others, price)
    return Standing(
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
    """Epsilon, at the budget's delta, of what may still be lost beside so much."""
    rest = room(scope, (), Charge(0, 0, 0.0, slack)) - loss
    return 0.0 if rest <= 0 else scope.epsilon_of(rest, slack)


def _down(value: float | None) -> str:
    """Three digits, rounded down: what is written into a config must fit."""
    return f"{Context(prec=3, rounding=ROUND_FLOOR).create_decimal(Decimal(value or 0.0)):f}"


__all__ = ["Standing", "standing", "standing_with"]
