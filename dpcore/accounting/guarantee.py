"""Privacy loss as a number that composes, and the guarantee that a plan prints."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from weir.dpcore.accounting import calibrate
from weir.dpcore.errors import ConfigError, WeirError

SHARDS = 8
"""Shards of ids where a job does not say."""
USER_SHARDS = 256
"""Shards of users on a stream where a job does not say."""
MOST_SHARDS = 4096


@dataclass(frozen=True)
class RuntimeAssumptions:
    """Facts about how a plan is run. No release and no digest depends on them.

    Attributes:
      id_horizon: ticks of the clock after which the id of an event is forgotten, so that a copy of
        a later tick counts as an event of its own; None: ids are remembered for the whole run.
      id_shards: over how many pieces of state ids, or users, are spread; stored state hangs on it.
      limits: sentences that say what else the guarantee leaves open, in the order of the statement.
    """

    id_horizon: int | None = None
    limits: tuple[str, ...] = ()
    id_shards: int = SHARDS

    def __post_init__(self) -> None:
        if self.id_horizon is not None and self.id_horizon < 1:
            raise ConfigError(
                "deduplicate.horizon", self.id_horizon, "must be at least one tick of the clock."
            )
        if not 1 <= self.id_shards <= MOST_SHARDS:
            raise ConfigError(
                "deduplicate.shards", self.id_shards, f"must be from 1 to {MOST_SHARDS:,}."
            )


NO_ASSUMPTIONS = RuntimeAssumptions()
"""Ids are remembered for the whole run, and nothing else is to be said."""

Relation = Literal["add_remove", "replace_one", "replace_anywhere"]
LossKind = Literal["gdp", "zcdp", "pure"]


@dataclass(frozen=True)
class PrivacyLoss:
    """Privacy loss of one record against a set of releases.

    kind "gdp": value is mu of Gaussian DP; "zcdp": rho; "pure": epsilon. ``math.inf`` means no
    protection.
    """

    kind: LossKind
    value: float

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon (rounded up) such that the loss implies (epsilon, delta)-DP."""
        if self.value == 0:
            return 0.0
        if math.isinf(self.value):
            return math.inf
        if self.kind == "pure":
            return self.value
        if self.kind == "gdp":
            return calibrate.gdp_epsilon(self.value, delta)
        return calibrate.zcdp_epsilon(self.value, delta)

    def of_group(self, size: int) -> PrivacyLoss:
        """Loss of ``size`` records that change together, wherever they lie.

        Going from one stream to the other a record at a time passes ``size`` pairs of neighbours,
        and the loss holds for each of them: mu and epsilon add up, rho grows with the square.
        Sources: Dong, Roth, Su (2022), Theorem 2.14; Bun, Steinke (2016), Proposition 1.9.
        """
        times = size * size if self.kind == "zcdp" else size
        return PrivacyLoss(self.kind, self.value * times)

    def scaled(self, factor: float) -> PrivacyLoss:
        """Loss of the same mechanism with 1 / ``factor`` times as much noise."""
        times = factor * factor if self.kind == "zcdp" else factor
        return PrivacyLoss(self.kind, self.value * times if times and self.value else 0.0)

    def dp_event(self) -> Any:
        """The loss as an event of ``dp_accounting``, for other accountants to price.

        mu-GDP is what one Gaussian release with noise of 1 / mu sensitivities costs; of all that is
        eps-DP nothing costs more than randomized response does (Kairouz, Oh, Viswanath 2015),
        which its accountants price under ``NeighboringRelation.REPLACE_ONE`` alone. The neighbours
        are the plan's, whatever theirs are called.

        Raises:
          ImportError: dp-accounting is not installed.
        """
        try:
            import dp_accounting
        except ImportError:
            raise ImportError("needs dp-accounting: pip install 'weir-dp[accounting]'.") from None
        if self.value == 0:
            return dp_accounting.NoOpDpEvent()
        if math.isinf(self.value):
            return dp_accounting.NonPrivateDpEvent()
        if self.kind == "gdp":
            return dp_accounting.GaussianDpEvent(1 / self.value)
        if self.kind == "zcdp":
            return dp_accounting.ZCDpEvent(self.value)
        other = 1 / (1 + math.exp(self.value))  # chance of the other answer, of two
        return dp_accounting.RandomizedResponseDpEvent(2 * other, 2)


def compose(losses: tuple[PrivacyLoss, ...]) -> PrivacyLoss:
    """Adaptive composition of losses of one kind: mu adds in squares, rho and epsilon add."""
    kinds = {loss.kind for loss in losses}
    if len(kinds) != 1:
        raise WeirError(f"losses of different kinds do not compose here: {sorted(kinds)}.")
    kind = losses[0].kind
    if kind == "gdp":
        return PrivacyLoss(kind, math.sqrt(sum(loss.value**2 for loss in losses)))
    return PrivacyLoss(kind, sum(loss.value for loss in losses))


def added_up(
    loss: Callable[[int | None], PrivacyLoss],
    span: int,
    periods: int,
    ticks: int | None,
    among: int,
) -> PrivacyLoss:
    """Loss of a user in so many periods, any of ``among`` in a row: at most their losses together.

    Each period alone is a pair of neighbours: mu and epsilon add up, and so does the root of rho
    (the sources of ``PrivacyLoss.of_group``). The last period is followed for ``ticks`` ticks from
    its last one on, the others, as early as they may be, for as much longer.

    Args:
      loss: of one period within so many ticks. span: ticks of the longest period.
    """
    ends = [*(among - 1 - i for i in range(periods - 1)), 0]
    parts = [loss(None if ticks is None else ticks + end * span) for end in ends]
    kind = parts[0].kind
    if kind == "zcdp":
        return PrivacyLoss(kind, math.fsum(math.sqrt(part.value) for part in parts) ** 2)
    return PrivacyLoss(kind, math.fsum(part.value for part in parts))


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


@dataclass(frozen=True)
class Expiration:
    """A record's loss against all releases within ``ticks`` of its arrival (None: forever)."""

    ticks: int | None
    epsilon: float
    delta: float


@dataclass(frozen=True)
class Copies:
    """What ``count`` records of one id have together where each of them counts."""

    count: int
    epsilon: float
    delta: float


@dataclass(frozen=True)
class SeveralPeriods:
    """What a user has in ``count`` periods together.

    Attributes:
      epsilon: of periods in a row. anywhere: of any so many within a year; None: a year has fewer.
      delta: of either.
    """

    count: int
    epsilon: float
    anywhere: float | None
    delta: float

    def to_json(self) -> dict[str, Any]:
        """Plain values; an epsilon that nothing bounds is None."""
        return {
            "count": self.count,
            "epsilon": _finite(self.epsilon),
            "epsilon_anywhere": None if self.anywhere is None else _finite(self.anywhere),
            "in_a_year": self.anywhere is not None,
            "delta": self.delta,
        }


@dataclass(frozen=True)
class EveryPeriod:
    """What a user has who is present in every period of the clock.

    Attributes:
      count: periods of the clock; None: it has no end.
      epsilon: of all of them together, rounded up; infinite where nothing bounds it.
      delta: of them.
    """

    count: int | None
    epsilon: float
    delta: float

    @property
    def words(self) -> str:
        """Who that is: ``a user present in every period (6)``."""
        periods = "the clock has no end" if self.count is None else f"{self.count:,}"
        return f"a user present in every period ({periods})"

    def to_json(self) -> dict[str, Any]:
        """Plain values; an epsilon that nothing bounds is None."""
        return {**vars(self), "epsilon": _finite(self.epsilon), "who": self.words}


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a plan.

    Attributes:
      epsilon, delta: at the protection horizon.
      unit: the privacy unit: "event", or "user", which is a user in one period.
      relation: which neighbours.
      window: protection horizon in ticks; None: forever.
      expiration: losses at W, 2W, 10W, 100W ticks.
      statement: the guarantee in a sentence for people.
      copies: of an id that was forgotten; empty where ids are remembered for the whole run.
      together: of a user in several periods; empty where the unit is an event.
      every_period: of a user present in every period; None where the unit is an event.
      event: epsilon of one event of a user that moves no cap; None where the unit is an event.
      delta_sel: the part of delta that is spent on which keys are found; 0: none is.

        >>> from weir import Plan
        >>> guaranteed = Plan.from_yaml('''
        ... name: visits
        ... schema: {time: at}
        ... clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-08T00:00:00Z}
        ... privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
        ... aggregates: {visits: {count: events}}
        ... ''').guarantee
        >>> guaranteed.epsilon, guaranteed.delta, guaranteed.unit, guaranteed.relation
        (1.0, 1e-06, 'event', 'add_remove')
        >>> guaranteed.statement.partition(" that are")[0]
        'Take any two possible input streams'
    """

    epsilon: float
    delta: float
    unit: str
    relation: Relation
    window: int | None
    expiration: tuple[Expiration, ...]
    statement: str
    copies: tuple[Copies, ...] = ()
    together: tuple[SeveralPeriods, ...] = ()
    every_period: EveryPeriod | None = None
    event: float | None = None
    delta_sel: float = 0.0
