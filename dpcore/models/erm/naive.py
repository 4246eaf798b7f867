"""The baseline: fit everything again at every tick, by advanced composition."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.erm.price import refuse_sums
from weir.dpcore.models.erm.schedule import Phase, Schedule
from weir.dpcore.models.erm.section import RefittedModel
from weir.dpcore.models.fields import ALGORITHM
from weir.dpcore.pricing.alternatives import noises_for
from weir.dpcore.pricing.calibration import Alternative, round_up
from weir.dpcore.pricing.terms import Terms


class NaiveModel(RefittedModel):
    """Fitted again at every tick, by advanced composition."""

    algorithm: Literal["regression.naive"] = Field(
        description=ALGORITHM, examples=["regression.naive"]
    )

    title: ClassVar[str] = "fitted again at every tick, by advanced composition"
    about: ClassVar[str] = (
        "The baseline: regression.erm with a run at every tick, each with its part of the budget "
        "by the theorem of advanced composition."
    )
    source: ClassVar[str] = "Kasiviswanathan, Nissim & Jin 2017; Dwork, Rothblum & Vadhan 2010"
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    event_only: ClassVar[str] = (
        "it is the paper's own composition, to compare with, of one event; take regression.erm, "
        "with every: 1 if need be"
    )

    def compile(self, terms: Terms) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
        """Incremental ERM with a run at every tick, each (eps', delta')-private.

        Formal guarantees: eps' = eps / (2 sqrt(2 l ln(2 / delta))), delta' = delta / (2 l) for the
          l runs within the window: advanced composition makes (eps, delta) of them where 2 l eps'^2
          is at most eps / 2. A run's noise is Gaussian, whose losses compose exactly: what the plan
          promises is that exact loss, which is smaller; where eps is so large that it would not be,
          each run gets its share of the exact budget instead.
        Source: Dwork, Rothblum, Vadhan (2010); Kasiviswanathan, Nissim, Jin (2017), section 3.

        Raises:
          ConfigError: what it cannot serve: neither an end of the clock nor of the protection, or
            another noise.
        """
        refuse_sums(terms, self.name)
        noise, delta, epsilon = terms.noise, terms.delta, terms.epsilon
        if noise not in (None, "gaussian"):
            raise ConfigError("mechanism.noise", noise, f"is not for {self.name}: gaussian only.")
        if noises_for(terms)[0] != "gaussian":
            raise ConfigError(
                "privacy.delta",
                delta,
                f"is too small for {self.name}, whose noise is Gaussian; set 1e-6.",
            )
        spans = [ticks for ticks in (terms.window, terms.horizon) if ticks is not None]
        if not spans:
            raise ConfigError(
                "clock.end", None, f"is needed: {self.name} spreads its budget over all ticks."
            )
        runs = min(spans)
        each = epsilon / (2 * math.sqrt(2 * runs * math.log(2 / delta)))
        total = gdp_mu(each, delta / (2 * runs)) * math.sqrt(runs)
        total = 1 / round_up(1 / total)  # the same on every CPU
        budget = PrivacyLoss("gdp", min(total, gdp_mu(epsilon, delta)))
        phases = (Phase(0, terms.horizon, 1, Fraction(1, runs)),)
        schedule = Schedule(phases, budget)
        return self.choose(terms, self.problem(terms), lambda whole: schedule, ("gaussian",))
