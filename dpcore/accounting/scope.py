"""Budgets of a group of people: what is spent, and what further plans may spend.

Whom a ledger's budget is for, and what a plan takes of it.

**Formal guarantees.** A scope fixes, before anything is released under it, one kind of neighbour
(unit, period, relation), one horizon and one way of adding: GDP (mu^2 adds), zCDP (rho adds) or
pure DP (epsilon adds), each with slacks that add next to it. Plans may be chosen after seeing what
earlier ones released: for each of the three, refusing what would pass a bound that was fixed
beforehand is a valid filter. *Which* of them is part of the bound, so it never changes with what is
asked later; and privacy loss distributions, which are no valid filter in general, gate nothing.
A guarantee of another kind is taken at a loss that bounds it:
  - pure in GDP: mu = 2 Phi^-1(e^eps / (1 + e^eps)), the smallest: the trade-off of eps-DP is made
    of two straight lines that meet where both errors are 1 / (1 + e^eps); a Gaussian curve through
    that point is convex, hence nowhere above them.
  - GDP in zCDP: rho = mu^2 / 2. Pure in zCDP: rho = eps^2 / 2.
Of another unit or relation:
  - a plan whose periods divide the scope's: the loss of as many of them as one period holds;
  - a change of a part of a plan's period (a finer period, or one event): one replacement of the
    whole period, as caps may keep other events then: twice, and the slack too;
  - add_remove in replace_one: a removal and an addition: twice.

Of a guarantee that somebody enters by hand, of a mechanism that nobody can look into:
  - losses over separate times are not added, slacks are: each of k mechanisms may announce at its
    start, with probability delta, that it will publish everything. Anyone who chooses the period
    of a person after looking takes one that was announced, with probability 1 - (1 - delta)^k. An
    adversary that stops unless it chose mechanism i attacks i alone, so that delta(eps) is at most
    the sum over all. Weir's own plans draw their noise after the data that it hides, row by row,
    and need no sum (docs/contributors/proofs.md, the row lemma).

Sources: Smith, Thakurta (2022), "Fully Adaptive Composition for Gaussian Differential Privacy";
Whitehouse, Ramdas, Rogers, Wu (2023), "Fully-Adaptive Composition in Differential Privacy"; Rogers,
Roth, Ullman, Vadhan (2016); Dong, Roth, Su (2022), Section 2; Bun, Steinke (2016), Proposition 1.4.

What is spent of a scope's budget, in which of its periods, and what still fits.

Losses and slacks are added exactly, as fractions, and rounded up once. The charges that meet a
period change only where one of them begins or ends, so a sweep over those ends sees every sum.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from scipy.special import ndtri_exp

from weir.dpcore.accounting import calibrate
from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss, Relation
from weir.dpcore.accounting.price import ANY_TIME, PeriodGrid, Price, Unit, word_of
from weir.dpcore.errors import ConfigError

GIVEN_UP: Final = 1 + 2.0**-37
"""Half of what calibration gives up of a budget: sums of doubles may use it."""


@dataclass(frozen=True)
class Scope:
    """One budget, and the neighbours that it is for. Fixed when a scope is opened.

    Attributes:
      unit, grid, relation: neighbours, as in ``Price``.
      epsilon, delta: the budget.
      horizon: microseconds after an event, or after a user's period, against whose releases it
        holds; None: for ever.
      accounting: what adds: gdp, zcdp or pure.
    """

    unit: Unit
    relation: Relation
    epsilon: float
    delta: float
    accounting: LossKind
    horizon: int | None = None
    grid: PeriodGrid | None = None

    def __post_init__(self) -> None:
        if self.accounting != "pure" and self.delta == 0:
            raise ConfigError(
                "ledger.budget.delta",
                self.delta,
                f"must be above 0 where {self.accounting} adds; accounting: pure serves delta = 0.",
            )

    def limit(self, slack: float) -> float:
        """The most that losses may add up to next to so much slack; rounded down. Below 0: nothing
        fits, not even a loss of 0."""
        rest = self.delta - slack
        if self.accounting == "pure":
            return self.epsilon if rest >= 0 else -1.0
        if rest <= 0:
            return 0.0 if rest == 0 else -1.0
        if self.accounting == "gdp":
            return (calibrate.gdp_mu(self.epsilon, rest) * GIVEN_UP) ** 2
        return calibrate.zcdp_rho(self.epsilon, rest) * GIVEN_UP

    def loss_of(self, total: float) -> PrivacyLoss:
        """Added up losses as one loss, rounded up."""
        if self.accounting == "gdp":
            return PrivacyLoss("gdp", math.sqrt(total) * (1 + 2.0**-51))
        return PrivacyLoss(self.accounting, total)

    def epsilon_of(self, total: float, slack: float) -> float:
        """The epsilon of a sum of losses at the budget's delta, rounded up."""
        rest = self.delta - slack
        if rest < 0 or (rest == 0 and total > 0 and self.accounting != "pure"):
            return math.inf
        return self.loss_of(total).epsilon(rest) if total > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON-able and exact."""
        grid = None if self.grid is None else self.grid.to_json()
        exact = {"epsilon": self.epsilon.hex(), "delta": self.delta.hex()}
        return {**vars(self), **exact, "grid": grid}

    @classmethod
    def from_json(cls, found: Any) -> Scope:
        """As ``to_json`` wrote it."""
        read = {name: float.fromhex(found[name]) for name in ("epsilon", "delta")}
        grid = None if found["grid"] is None else PeriodGrid(**found["grid"])
        for name, words in (("unit", Unit), ("relation", Relation), ("accounting", LossKind)):
            word_of(words, found[name])
        return cls(**{**found, **read, "grid": grid})


@dataclass(frozen=True)
class Charge:
    """What an entry takes of a scope's budget.

    Attributes:
      first, last: periods of the scope that it meets, both included (microseconds where the unit is
        an event); None: without end.
      loss: in numbers that add: mu^2, rho or epsilon; rounded up. slack: delta next to it.
      opaque: whether nobody can look into the mechanism: its slack counts in every period.
    """

    first: int
    last: int | None
    loss: float
    slack: float
    opaque: bool = False


def charge(price: Price, scope: Scope) -> Charge:
    """What a plan takes of a scope's budget.

    Raises:
      ConfigError: it protects another unit, relation or horizon, or adds in another way, and no
        bound is known for this scope.
    """
    count, partial = periods(price, scope)
    loss = price.at(count, scope.horizon)
    if loss is None:
        held = max((point.periods for point in price.points), default=0)
        raise ConfigError(
            "ledger.per",
            None if scope.grid is None else scope.grid.to_json(),
            f"holds {count:,} periods of privacy.per, and this plan prices {held:,} at most: "
            "open a scope of shorter periods.",
        )
    if not math.isfinite(loss.value):
        raise ConfigError(
            "ledger.protect_for",
            _shown(scope.horizon),
            "is longer than this plan protects anything: its mechanism tells all after its window. "
            "Take mechanism.continual_sum: blt, or a scope whose horizon is not longer than "
            "privacy.protect_for.",
        )
    slack = price.slack * count
    if _replaces(price, scope, partial):
        loss, slack = loss.of_group(2), slack * 2
    return Charge(*_meets(price, scope), _added(loss, scope), slack)


def periods(price: Price, scope: Scope) -> tuple[int, bool]:
    """Most periods of the plan that one of the scope's meets, and whether it may hold only a part
    of one.

    Raises:
      ConfigError: a plan of events under a scope of users, or periods without end.
    """
    if price.unit == "event":
        if scope.unit == "user":
            raise ConfigError(
                "privacy.unit",
                "event",
                "bounds what one event does, and a user has any number of them: a scope of users "
                "takes plans of users alone (privacy.unit: user), or another scope for this plan.",
            )
        return 1, False
    assert price.grid is not None
    if scope.grid is None:
        return 1, True
    if price.grid.is_all:
        return 1, not scope.grid.is_all
    if not scope.grid.is_all:
        return price.grid.met_by(scope.grid)
    if price.last is None:
        raise ConfigError(
            "ledger.per",
            "all",
            "holds every period of a plan without end, and nothing bounds what they tell together: "
            "open a scope with a period.",
        )
    return price.grid.of(price.last - 1) - price.grid.of(price.first) + 1, False


def _replaces(price: Price, scope: Scope, partial: bool) -> bool:
    """Whether what changes in the scope is a removal and an addition for the plan.

    Raises:
      ConfigError: relations that no bound is known between.
    """
    theirs, ours = price.relation, scope.relation
    moves = ours == "replace_anywhere" and theirs != ours
    if theirs == "add_remove" and not (moves and price.unit == "user"):
        return partial or ours != "add_remove"
    if theirs == ours or (theirs == "replace_anywhere" and ours == "replace_one"):
        return False
    raise ConfigError(
        "privacy.relation",
        theirs,
        f"says nothing of the neighbours of this scope, which are {ours}: give the plan relation: "
        f"{ours} (or add_remove), or a scope of its own.",
    )


def _meets(price: Price, scope: Scope) -> tuple[int, int | None]:
    """Periods of the scope with events of the plan."""
    if scope.relation == "replace_anywhere" or price.first == ANY_TIME:
        return _FIRST, None  # a record may lie in two periods, one in each stream; or in any
    of = (lambda moment: moment) if scope.grid is None else scope.grid.of
    return of(price.first), None if price.last is None else of(price.last - 1)


_FIRST: Final = -(2**62)
"""Before every period."""


def _added(loss: PrivacyLoss, scope: Scope) -> float:
    """A loss as the number that adds in a scope; rounded up.

    Raises:
      ConfigError: there is no such number.
    """
    kind, value, adds = loss.kind, loss.value, scope.accounting
    if kind == adds:
        return _up(value * value) if kind == "gdp" else value
    if adds == "zcdp":
        return _up(value * value / 2)
    if adds == "gdp" and kind == "pure":
        return _up(gdp_of_pure(value) ** 2)
    raise ConfigError(
        "ledger.accounting",
        adds,
        f"cannot add this plan, whose loss is {_NAMED[kind]}: give it a scope with accounting: "
        f"{'zcdp, which adds every kind' if kind == 'zcdp' else kind + ' or zcdp'}.",
    )


def gdp_of_pure(epsilon: float) -> float:
    """Least mu such that epsilon-DP implies mu-GDP: 2 Phi^-1(e^eps / (1 + e^eps)); rounded up."""
    if epsilon == 0:
        return 0.0
    log_tail = -epsilon - math.log1p(math.exp(-epsilon))
    return -2 * float(ndtri_exp(log_tail)) * (1 + 2.0**-36)


_NAMED: Final = {"gdp": "Gaussian", "zcdp": "known as zCDP", "pure": "pure"}


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _shown(microseconds: int | None) -> str:
    return "all" if microseconds is None else f"{microseconds / 86_400e6:g} days"


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

    for item in charges:
        loss, slack = Fraction(item.loss), Fraction(item.slack)
        if item.opaque and slack:
            add(_FIRST, Fraction(0), slack, 1)
            slack = Fraction(0)
        add(item.first, loss, slack, 1)
        if item.last is not None:
            add(item.last + 1, -loss, -slack, -1)
    return tuple(_spans(sorted(steps.items())))


def _spans(steps: Sequence[tuple[int, tuple[Fraction, Fraction, int]]]) -> Iterator[Span]:
    loss, slack, many = Fraction(0), Fraction(0), 0
    for place, (where, step) in enumerate(steps):
        loss, slack, many = loss + step[0], slack + step[1], many + step[2]
        if many:
            last = steps[place + 1][0] - 1 if place + 1 < len(steps) else None
            yield Span(where, last, _float_up(loss), _float_up(slack))


def _float_up(value: Fraction) -> float:
    result = float(value)
    return result if Fraction(result) >= value else math.nextafter(result, math.inf)


def worst(scope: Scope, spans: Sequence[Span], within: Charge | None = None) -> Span | None:
    """The span of which the least is left, among those that ``within`` meets; None: none.

    Its epsilon at the budget's delta is the largest.
    """
    met = [span for span in spans if within is None or _overlaps(span, within)]
    return min(met, key=lambda span: scope.limit(span.slack) - span.loss, default=None)


def room(scope: Scope, spans: Sequence[Span], asked: Charge) -> float:
    """The most that a charge over the periods and with the slack of ``asked`` may lose; rounded
    down. Below 0: not even nothing fits."""
    result = scope.limit(asked.slack)
    for span in spans:
        if _overlaps(span, asked):
            limit = scope.limit(_float_up(Fraction(span.slack) + Fraction(asked.slack)))
            rest = Fraction(limit) - Fraction(span.loss)
            result = min(result, -_float_up(-rest))
    return result


def fits(scope: Scope, charges: Sequence[Charge], asked: Charge) -> bool:
    """Whether a charge stays within the budget in every period, next to those that are there.

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
