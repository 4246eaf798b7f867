"""Noise that costs exactly a budget, its price, and the 95 % margin of error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.groupings import CellPowers
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.joint import over_groupings
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.noise import is_pure, kind_of
from weir.dpcore.pricing.noises import must_be_exact
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.registry import CONTINUAL_SUMS

BAND = 1.959963984540054
"""Half the width of a 95 % margin of error, in standard deviations of Gaussian noise."""

LAPLACE_BAND = 2.1183
"""The same for Laplace noise (ln 20 / sqrt 2), the widest that K-norm noise can need."""


BANDS = {0.05: (BAND, LAPLACE_BAND), 0.025: (2.241402727604947, 2.6085)}
"""Share of the noise outside a margin -> half its width, for Gaussian and for Laplace noise."""


def band_of(noise: str, outside: float = 0.05) -> float:
    """Half the width of a margin of error in standard deviations of a noise, named as in a config.

    outside: share of the noise beyond it: 0.05, or 0.025.
    """
    gaussian, laplace = BANDS[outside]
    return laplace if is_pure(noise) else gaussian


MOST_STATE = 1 << 28
"""Bytes of state per key: every tick reads and writes all of it."""


@dataclass(frozen=True)
class Alternative:
    """One priced way to serve the plan.

    Attributes:
      mechanism: its name in the config. noise: gaussian, discrete_gaussian, k_norm
        or laplace.
      chosen: whether the plan uses it.
      score: worst predicted error relative to the best alternative (1.0 = best); inf when it cannot
        serve.
      state_bytes: per key.
      epsilon_10w: loss against everything released within ten windows (None: cannot serve).
      stddev: "name over=N" -> worst stddev, the user's unit.
      note: why it cannot serve, or what to know about it.
      loss: within the window, of one period where the unit is a user; None: cannot serve. Later
        periods, plans and ledgers add it up.
    """

    mechanism: str
    noise: str
    chosen: bool
    score: float
    state_bytes: int
    epsilon_10w: float | None
    stddev: dict[str, float]
    note: str = ""
    loss: PrivacyLoss | None = None


def budget_of(noise: str, epsilon: float, delta: float) -> PrivacyLoss:
    """The whole budget in the currency of a noise."""
    from weir.dpcore.accounting import calibrate

    kind = kind_of(noise)
    if kind == "gdp":
        return PrivacyLoss(kind, calibrate.gdp_mu(epsilon, delta))
    if kind == "zcdp":
        return PrivacyLoss(kind, calibrate.zcdp_rho(epsilon, delta))
    return PrivacyLoss(kind, epsilon)


def share(budget: PrivacyLoss, fraction: float) -> PrivacyLoss:
    """A fraction of a budget: mu in squares, rho and epsilon straight; rounded down."""
    value = budget.value * (math.sqrt(fraction) if budget.kind == "gdp" else fraction)
    return PrivacyLoss(budget.kind, value * (1 - 1e-12))


def within_memory(name: str, state: int) -> None:
    """Raises ConfigError when a key's state would be too large to be stepped at all."""
    if state > MOST_STATE:
        raise ConfigError(
            "mechanism.continual_sum",
            name,
            f"would keep {state / 2**20:,.0f} MiB of state per key, above {MOST_STATE >> 20} MiB; "
            "take another mechanism, a shorter `over` or window, or a longer clock.period.",
        )


def round_up(value: float, bits: int = 30) -> float:
    """The next larger number with ``bits`` significant bits.

    Calibrations go through the machine's exp and log, which differ in the last bit between kinds of
    CPU; plans must not. Larger scales mean more noise: the rounding is toward privacy.
    """
    if value == 0 or not math.isfinite(value):
        return value
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(mantissa * 2**bits), exponent - bits)


class SummedLeaf(Protocol):
    """What is summed, as far as a calibration looks at it."""

    @property
    def dimension(self) -> int:
        """D, coordinates."""

    @property
    def overs(self) -> tuple[int | None, ...]:
        """Which sums are asked: None: since the start, N: of the last N ticks."""

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """(D,) noise weights in lattice units. unit(): the mechanism at weights of 1, which tells
        how its noise spreads over time; ConfigError where it cannot serve."""

    @property
    def norm(self) -> int:
        """In which its sensitivity is measured: 2, or 1 for independent Laplace noise."""

    def sensitivity(self, scales: tuple[float, ...], add_up: bool) -> float:
        """Joint sensitivity of (leaf / scales) under the plan's relation.

        add_up: two changed cells cost the sum of their norms, not the root of the sum of squares.
        Where the unit is a user: of what one of the user's cells adds (``Terms.cell_relation``).
        """

    @property
    def once(self) -> bool:
        """Whether only the first cell of a key that a user has in a period adds anything. Asked
        where the unit is a user."""

    def powers(self, scales: tuple[float, ...]) -> CellPowers:
        """Squares of what a user adds to a cell, by what counts. Asked where a plan of users has
        several groupings."""


@dataclass(frozen=True)
class FixedLeaf:
    """A leaf whose noise is split the same way whatever the mechanism.

    Attributes:
      weights: (D,) noise weights in lattice units. overs: which sums are asked.
      in_squares, added_up: sensitivity where two changed cells add in squares, and where they add.
    """

    weights: tuple[float, ...]
    overs: tuple[int | None, ...]
    in_squares: float
    added_up: float

    once: ClassVar[bool] = False
    norm: ClassVar[int] = 2

    @property
    def dimension(self) -> int:
        """D, coordinates."""
        return len(self.weights)

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """The weights."""
        return self.weights

    def sensitivity(self, scales: tuple[float, ...], add_up: bool) -> float:
        return self.added_up if add_up else self.in_squares

    def powers(self, scales: tuple[float, ...]) -> CellPowers:
        """All of it may add up where keys meet."""
        return CellPowers(self.in_squares**2, 0.0, 0.0)


def _keys(terms: Terms, pattern: Pattern | None) -> int:
    """Most keys that two neighbours differ in: those of both versions, in every grouping."""
    return 2 * terms.groupings * (1 if pattern is None else pattern.touched)


def calibrated(
    named: str | type[ContinualSum], leaf: SummedLeaf, terms: Terms, budget: PrivacyLoss
) -> ContinualSum:
    """A continual sum, by its name or class, over a leaf, with the least noise within the budget.

    Formal guarantees:
      Two cells that one neighbour changes add in squares where losses do and no two columns of the
      strategy have a negative inner product; else their norms are added. The calibration is
      rounded toward more noise, to the same number on every CPU.
      Where the unit is a user, the sensitivity is that of one cell, and the mechanism gets the
      cells of a period that there may be (``Pattern``): twice as much where a user's period is
      replaced by another, as both are pairs of neighbours with a stream that has neither.
      Where an event counts in a key of each of several groupings, the sensitivity is what it moves
      in all of them (``over_groupings``); a user's cells may meet there, and the noise of groupings
      may differ (``KeyGroupings``).

    Raises:
      ConfigError: it cannot serve.
    """
    cls: type[ContinualSum] = CONTINUAL_SUMS[named] if isinstance(named, str) else named
    name = cls.name
    common: dict[str, Any] = {
        "dimension": leaf.dimension,
        "overs": leaf.overs,
        "window": terms.window,
        "horizon": terms.horizon,
        "budget": budget,
        "norm": leaf.norm,
        "exact": budget.kind == "gdp" and must_be_exact(terms),
        **{option: value for option, value in terms.options if option in cls.settings},
    }

    def unit() -> ContinualSum:
        built = cls.calibrated(scales=(1.0,) * leaf.dimension, sensitivity=1.0, **common)
        within_memory(name, built.state_bytes())
        return built

    if terms.person is not None:
        if not cls.patterned:
            raise ConfigError(
                "mechanism.continual_sum",
                name,
                "does not know what several contributions of a user move together; choose another "
                "mechanism, or privacy.unit: event.",
            )
        pattern = terms.person.pattern
        common["pattern"] = pattern.once() if leaf.once else pattern
        if "known_keys" in cls.settings:
            common["known_keys"] = terms.known_keys
    common["keys"] = _keys(terms, common.get("pattern"))
    scales = leaf.scales(unit)
    sensitivity = terms.factor * leaf.sensitivity(scales, budget.kind == "pure" or cls.signed)
    groups, kind = terms.groups, budget.kind
    if groups is None:
        sensitivity = over_groupings(sensitivity, terms.groupings, kind)
    elif terms.person is None or kind == "pure":
        sensitivity = groups.sensitivity(sensitivity, kind)
    else:
        own: Pattern = common["pattern"]
        common["pattern"] = groups.pattern(own, leaf.powers(scales), kind, leaf.once)
    created = cls.calibrated(scales=scales, sensitivity=sensitivity, **common)
    within_memory(name, created.state_bytes())
    return replace(created, noise_scale=round_up(created.noise_scale))
