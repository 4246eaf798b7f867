"""Models fitted again every few ticks, or at every one by advanced composition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from pydantic import BeforeValidator, Field

from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Compiled
from weir.dpcore.config.section import Lengths
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.erm import tau
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.erm.schedule import RefitPhase, RefitSchedule, schedule_for
from weir.dpcore.models.erm.section import RefittedModel, refuse_sums, rule_of
from weir.dpcore.models.fields import algorithm_field
from weir.dpcore.models.kit.filter import constant_loss
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.solvers.noisy_steps import MOST_WIDTH, NoisySteps
from weir.dpcore.models.solvers.queries import Problem, gradient_stddev
from weir.dpcore.models.words import hidden
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.pricing.noises import noises_for
from weir.dpcore.pricing.terms import Terms


def _every(value: Any) -> Any:
    if isinstance(value, str):
        if value not in tau.RULES:
            raise ValueError(
                f"must be a number of ticks, a duration like 7d, or one of {', '.join(tau.RULES)}."
            )
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("must be a number of ticks, 1 or more, or the name of a rule.")
    return value


Every = Annotated[
    int | str,
    BeforeValidator(
        _every,
        json_schema_input_type=Annotated[int, Field(ge=1)]
        | Lengths
        | Literal["convex", "strongly_convex", "frank_wolfe"],
    ),
]


class ErmModel(RefittedModel):
    """Any convex loss, fitted again every few ticks to all rows so far."""

    algorithm: Literal["regression.erm"] = algorithm_field("regression.erm")
    every: Every | None = Field(
        default=None,
        description="Ticks between two runs of the private solver, or a rule: convex, "
        "strongly_convex, or frank_wolfe (of that solver). In between the last model is released "
        "again.",
        examples=[24],
    )

    title: ClassVar[str] = "any convex loss, fitted again every few ticks to all rows so far"
    about: ClassVar[str] = (
        "The rows of each key are kept, up to a public number; every tau ticks a private batch "
        "solver minimises their loss over the set, each time for a share of the budget."
    )
    source: ClassVar[str] = (
        "Kasiviswanathan, Nissim & Jin 2017 (PrivIncERM); Bassily, Smith & Thakurta 2014"
    )
    event_only: ClassVar[str] = ""

    @property
    def solver_name(self) -> str:
        """The named solver; without one steps, where they serve the loss and the coefficients."""
        if self.solver is not None:
            return self.solver
        return super().solver_name if self._unserved else NoisySteps.name

    @property
    def _unserved(self) -> str:
        """Why steps are not the default, for people; "": they are."""
        if self.dimension > MOST_WIDTH:
            return f"{self.dimension:,} coefficients are more than the {MOST_WIDTH} that steps take"
        loss = parse_loss(self.loss)
        return f"{loss.name} has a corner, which steps do not take" if loss.cornered else ""

    @property
    def _rule(self) -> int | str | None:
        """Ticks between runs, or the rule for them; each solver has its own.

        Raises:
          ConfigError: the rule of another solver.
        """
        own = self.solver_name == "frank_wolfe"
        if self.every == "frank_wolfe" and not own:
            raise ConfigError(
                "model.every",
                self.every,
                f"is for solver: frank_wolfe, not {self.solver_name}; set convex or a number of "
                "ticks.",
            )
        return "frank_wolfe" if own and self.every is None else self.every

    def compile(self, terms: Terms) -> Compiled:
        """Incremental ERM with the noise that serves best, and every noise that could.

        Raises:
          ConfigError: what it cannot serve.
        """
        if self.solver is None:
            whole = self.settled(terms).compile(terms)
            why = self._unserved or "the loss has no corner, and the coefficients are few"
            named = self.solver_name.replace("_", " ")
            own = {"fitted by": f"{named}, by default: {why}"}
            return replace(whole, facts=tuple((x, own.get(x, words)) for x, words in whole.facts))
        refuse_sums(terms, self.name)
        problem = self.problem(terms)
        every = rule_of(self._rule, problem, terms.epsilon)
        window = terms.lasting
        if terms.person is not None:
            window = terms.person.pattern.rows(window)
        return self.choose(
            terms,
            problem,
            lambda budget: schedule_for(every, window, terms.horizon, budget),
            noises_for(terms),
        )

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        """What speaks against it: next to the others, that noise may hide even its last fit."""
        yield from super().doubts(program, terms)
        solver, schedule = program.solver, program.schedule
        tick = schedule.last_run(terms.horizon)
        if not terms.events or tick is None:
            return
        rows = min(float(solver.problem.limit), terms.events * (tick + 1))
        share = schedule.share(tick)
        assert share is not None
        if isinstance(solver, NoisySteps):
            excess = solver.expected(schedule.budget, share, rows)
        else:
            excess = paths(solver.problem, schedule.budget, share, rows)
        labels = solver.problem.gradients.loss.labels
        yield from hidden(excess, constant_loss(labels, 1))


def paths(problem: Problem, budget: PrivacyLoss, share: Fraction, rows: float) -> float:
    """Excess that noise leaves in projected noisy steps over so many rows, about: R |noise| / n, R
    the radius of the set and noise that of one sum of gradients for the whole share, as that of T
    sums is sqrt(T) times as large, and their average sqrt(T) times as good."""
    noise = gradient_stddev(problem, budget, share) * math.sqrt(problem.dimension)
    return float(problem.set.farthest(np.zeros(problem.dimension))) * noise / rows


class NaiveModel(RefittedModel):
    """Fitted again at every tick, by advanced composition."""

    algorithm: Literal["regression.naive"] = algorithm_field("regression.naive")

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

    def compile(self, terms: Terms) -> Compiled:
        """Incremental ERM with a run at every tick, each (eps', delta')-private.

        Formal guarantees: eps' = eps / (2 sqrt(2 l ln(2 / delta))), delta' = delta / (2 l) for the
          l runs within the window: advanced composition makes (eps, delta) of them where 2 l eps'^2
          is at most eps / 2. A run's noise is Gaussian, whose losses compose exactly: what the plan
          guarantees is that exact loss, which is smaller; where eps is so large that it would not
          be, each run gets its share of the exact budget instead.
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
        phases = (RefitPhase(0, terms.horizon, 1, Fraction(1, runs)),)
        schedule = RefitSchedule(phases, budget)
        return self.choose(terms, self.problem(terms), lambda whole: schedule, ("gaussian",))

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        yield from super().doubts(program, terms)
        fields = self.model_dump(exclude_unset=True, by_alias=True)
        same = {"algorithm": "regression.erm", "solver": self.solver_name}
        better = ErmModel.model_validate({**fields, **same})
        with suppress(ConfigError):
            seldom = cast(IncrementalErm, better.compile(terms).program)
            own, other = (
                item.gradient_stddev(item.schedule.smallest) for item in (program, seldom)
            )
            yield (
                f"A baseline: regression.erm, fitted less often, has {own / other:.2g} times less "
                "noise in its gradients."
            )
