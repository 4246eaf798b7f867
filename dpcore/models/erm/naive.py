"""The baseline: fit everything again at every tick, by advanced composition."""

from __future__ import annotations

import math
from fractions import Fraction

from dpcore.accounting.calibrate import gdp_mu
from dpcore.accounting.guarantee import Loss
from dpcore.errors import ConfigError
from dpcore.models.erm.incremental import IncrementalErm
from dpcore.models.erm.price import choose, problem_of, refuse_sums
from dpcore.models.erm.schedule import Phase, Schedule
from dpcore.plan_config import PlanConfig
from dpcore.pricing.noises import noises_for
from dpcore.pricing.price import Alternative, round_up

NAME = "regression.naive"


def compile_naive(config: PlanConfig) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
    """Incremental ERM with a run at every tick, each (eps', delta')-private.

    Formal guarantees: eps' = eps / (2 sqrt(2 l ln(2 / delta))), delta' = delta / (2 l) for the l
      runs within the window: advanced composition makes (eps, delta) of them where 2 l eps'^2 is at
      most eps / 2. A run's noise is Gaussian, whose losses compose exactly: what the plan promises
      is that exact loss, which is smaller; where eps is so large that it would not be, each run
      gets its share of the exact budget instead.
    Source: Dwork, Rothblum, Vadhan (2010); Kasiviswanathan, Nissim, Jin (2017), section 3.

    Raises:
      ConfigError: what it cannot serve: neither an end of the clock nor of the protection, or
        another noise.
    """
    refuse_sums(config, NAME)
    noise, delta = config.mechanism.noise, config.privacy.delta
    if noise not in (None, "gaussian"):
        raise ConfigError("mechanism.noise", noise, f"is not for {NAME}: gaussian only.")
    if noises_for(config)[0] != "gaussian":
        raise ConfigError(
            "privacy.delta", delta, f"is too small for {NAME}, whose noise is Gaussian; set 1e-6."
        )
    clock = config.clock.to_clock()
    window = config.privacy.window_ticks(clock)
    spans = [ticks for ticks in (window, clock.ticks) if ticks is not None]
    if not spans:
        raise ConfigError(
            "clock.end", None, f"is needed: {NAME} spreads its budget over all ticks."
        )
    runs, epsilon = min(spans), config.privacy.epsilon
    each = epsilon / (2 * math.sqrt(2 * runs * math.log(2 / delta)))
    total = gdp_mu(each, delta / (2 * runs)) * math.sqrt(runs)
    total = 1 / round_up(1 / total)  # the same on every CPU
    budget = Loss("gdp", min(total, gdp_mu(epsilon, delta)))
    phases = (Phase(0, clock.ticks, 1, Fraction(1, runs)),)
    return choose(config, problem_of(config), lambda whole: Schedule(phases, budget), ("gaussian",))
