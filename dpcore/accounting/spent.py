"""What is spent of a scope's budget, in which of its periods, and what still fits.

Losses and slacks are added exactly, as fractions, and rounded up once. The charges that meet a
period change only where one of them begins or ends, so a sweep over those ends sees every sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from weir.dpcore.accounting.price import Price
from weir.dpcore.accounting.scope import Charge, Scope, charge


@dataclass(frozen=True)
class Span:
    """Periods first .. last (None: without end) that the same charges meet, and their sum."""

    first: int
    last: int | None
    loss: float
    slack: float


def sweep(charges: Sequence[Charge]) -> tuple[Span, ...]:
    """Sums of all charges period by period, in order; periods that none meets are left out."""
    steps: dict[int, tuple[Fraction, Fraction, int]] = {}

    def add(where: int, loss: Fraction, slack: Fraction, many: int) -> None:
        before = steps.get(where, (Fraction(0), Fraction(0), 0))
        steps[where] = (before[0] + loss, before[1] + slack, before[2] + many)

    for one in charges:
        loss, slack = Fraction(one.loss), Fraction(one.slack)
        add(one.first, loss, slack, 1)
        if one.last is not None:
            add(one.last + 1, -loss, -slack, -1)
    return tuple(_spans(sorted(steps.items())))


def _spans(steps: Sequence[tuple[int, tuple[Fraction, Fraction, int]]]) -> Iterator[Span]:
    loss, slack, many = Fraction(0), Fraction(0), 0
    for place, (where, step) in enumerate(steps):
        loss, slack, many = loss + step[0], slack + step[1], many + step[2]
        if many:
            last = steps[place + 1][0] - 1 if place + 1 < len(steps) else None
            yield Span(where, last, _float_up(loss), _float_up(slack))


def _float_up(value: Fraction) -> float:
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


def worst(scope: Scope, spans: Sequence[Span], within: Charge | None = None) -> Span | None:
    """The span of which the least is left, among those that ``within`` meets; None: none.

    Its epsilon at the budget's delta is the largest.
    """
    met = [span for span in spans if within is None or _overlaps(span, within)]
    return min(met, key=lambda span: scope.limit(span.slack) - span.loss, default=None)


def room(scope: Scope, spans: Sequence[Span], asked: Charge) -> float:
    """The most that a charge over the periods and with the slack of ``asked`` may lose; rounded
    down. Below 0: not even nothing fits."""
    found = scope.limit(asked.slack)
    for span in spans:
        if _overlaps(span, asked):
            limit = scope.limit(_float_up(Fraction(span.slack) + Fraction(asked.slack)))
            rest = Fraction(limit) - Fraction(span.loss)
            found = min(found, -_float_up(-rest))
    return found


def fits(scope: Scope, charges: Sequence[Charge], asked: Charge) -> bool:
    """Whether a charge stays within the budget in every period, beside those that are there.

    The gate: plans may be chosen after seeing what earlier ones released (``scope``).
    """
    return asked.loss <= room(scope, sweep(charges), asked)


def fitting(scope: Scope, charges: Sequence[Charge], price: Price) -> float:
    """Largest factor s <= 1 such that a plan with 1 / s times the noise fits, rounded down; 0:
    there is none.

    Its losses are s times as large (rho: s^2); slack stays.
    """
    spans = sweep(charges)

    def allowed(factor: float) -> bool:
        asked = charge(price.scaled(factor), scope)
        return asked.loss <= room(scope, spans, asked)

    if allowed(1.0):
        return 1.0
    if not allowed(0.0):
        return 0.0
    low, high = 0.0, 1.0
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


def _overlaps(span: Span, other: Charge) -> bool:
    return (other.last is None or span.first <= other.last) and (
        span.last is None or other.first <= span.last
    )
