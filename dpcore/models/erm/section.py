"""Fields of models that are fitted again, and the choice of their noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.algorithm import Compiled, Reading, Shown
from weir.dpcore.config.section import FARTHEST, NEAREST, Says, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.erm import tau
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.erm.schedule import RefitSchedule
from weir.dpcore.models.fields import (
    AnyLoss,
    Cap,
    Count,
    OneTarget,
    cap_field,
    cap_refusal,
    label_field,
    loss_of_rows,
)
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.kit.rows import Scaling
from weir.dpcore.models.model import GradientClipped
from weir.dpcore.models.regression.section import BARE, FITTED, SO_FAR
from weir.dpcore.models.solvers.frank_wolfe import refuse_corners
from weir.dpcore.models.solvers.noisy_gradient import NoisyGradient
from weir.dpcore.models.solvers.noisy_steps import NoisySteps
from weir.dpcore.models.solvers.queries import Problem
from weir.dpcore.models.users import rows_of_user
from weir.dpcore.models.words import OWN_UNITS
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.alternatives import Offer, Try, pick, tries
from weir.dpcore.pricing.calibration import MOST_STATE, Alternative, round_up
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.registry import SOLVERS
from weir.dpcore.words import bytes_text, number


def choose(
    terms: Terms,
    noises: tuple[str, ...],
    schedule_of: Callable[[PrivacyLoss], RefitSchedule],
    program_of: Callable[[RefitSchedule], IncrementalErm],
    solver: str,
) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
    """The program over the noise with the smallest error of a gradient; all are priced.

    Raises:
      ConfigError: none of them can serve; says why the first cannot.
    """

    def offer(budget: PrivacyLoss) -> Offer[IncrementalErm]:
        schedule = schedule_of(budget)
        program = program_of(schedule)
        error = program.gradient_stddev(schedule.smallest)
        return Offer(program, error**2, {"gradient over=all": error})

    tried = tries(terms, noises, lambda noise: {solver: offer})
    refuse_all(tried)
    return pick(terms, tried)


def fraction(schedule: RefitSchedule) -> float:
    """Of a budget's value, what its most generous run may spend."""
    share = float(schedule.largest)
    return math.sqrt(share) if schedule.budget.kind == "gdp" else share


def rule_of(every: int | str | None, problem: Problem, epsilon: float) -> Callable[[int], int]:
    """Ticks over which the budget is spread -> tau.

    Raises:
      ConfigError: no such rule, or one that the problem does not suit.
    """
    rule = every
    if rule is None:
        rule = "strongly_convex" if problem.curvature else "convex"
    if isinstance(rule, int):
        fixed = rule
        return lambda ticks: fixed
    size = round_up(problem.set.farthest(np.zeros(problem.dimension)))
    d, lipschitz = problem.dimension, problem.lipschitz
    if rule == "convex":
        return lambda ticks: tau.convex(ticks, d, epsilon)
    if rule == "strongly_convex":
        return lambda ticks: tau.strongly_convex(
            ticks, d, epsilon, lipschitz, problem.curvature, size
        )
    if rule == "frank_wolfe":
        width = round_up(problem.set.gaussian_width())
        curvature = curvature_of(problem)
        return lambda ticks: tau.frank_wolfe(ticks, epsilon, lipschitz, curvature, size, width)
    raise ConfigError(
        "model.every", rule, f"must be a number of ticks, or one of {', '.join(tau.RULES)}."
    )


def curvature_of(problem: Problem) -> float:
    """C_l: a bound on the curvature constant of one event's loss over the set. Features lie in
    [-1, 1], so that a row has l2 norm at most sqrt(d).

    Raises:
      ConfigError: a loss with a corner.
    """
    refuse_corners(problem)
    moved = problem.set.diameter * problem.set.diameter * problem.dimension
    return round_up(problem.gradients.loss.smoothness * moved)


def refuse_all(tried: Sequence[Try[Any]]) -> None:
    """Raises the first refusal where there is nothing else."""
    refused = [item.refusal for item in tried if item.refusal is not None]
    if len(refused) == len(tried):
        raise refused[0]


def refuse_sums(terms: Terms, name: str) -> None:
    """Raises ConfigError: settings of continual sums, of which there is none here."""
    named = terms.continual_sum
    if named is not None:
        raise ConfigError(
            "mechanism.continual_sum", named, f"is not for {name}, which sums nothing; remove it."
        )
    for setting, value in terms.options:
        raise ConfigError(f"mechanism.{setting}", value, f"is not for {name}; remove it.")


MOST_ITERATIONS = 1 << 16
WIDE = 10.0
"""Radius of the default set of preconditioned steps, in scaled units."""


def _solver(name: str) -> str:
    if name not in SOLVERS:
        raise ValueError(f"must be one of {', '.join(SOLVERS)}.")
    return name


def _solvers(schema: dict[str, Any]) -> None:
    """Their names, for the JSON Schema."""
    schema["enum"] = list(SOLVERS)


Curvature = Annotated[
    float,
    Field(ge=0, le=FARTHEST, allow_inf_nan=False),
    Says("must be a finite number above 0, like 1.0."),
]


def changes_of(terms: Terms, kind: LossKind) -> int:
    """Rows that one neighbour swaps, at most."""
    if terms.person is None:
        return 2 if terms.relation == "replace_anywhere" else 1
    person = terms.person
    return terms.factor * rows_of_user(person.pattern, person.caps.events, kind)


class RefittedModel(GradientClipped):
    """A model that a private batch solver fits to all rows so far, now and then."""

    neighbours: ClassVar[Family] = Family(
        ("first", "window", "powers"),
        "canary",
        "every fit reads all rows so far, and clips each gradient",
    )

    target: OneTarget = label_field()
    loss: AnyLoss = loss_of_rows()
    curvature: Curvature = Field(
        default=0.0,
        description="nu: weight of the public (nu/2) |x - centre|^2 that every tick adds, empty "
        "ones too; none unless it is given.",
        examples=[1.0],
    )
    cap: Cap = cap_field()
    rows: Count | None = Field(
        default=None,
        description="Most rows of a key that are kept. Public; needed where the clock has no end.",
        examples=[100000],
    )
    iterations: Count | None = Field(
        default=None,
        description="Most iterations of one run of the private solver.",
        examples=[200],
    )
    solver: Annotated[str, AfterValidator(_solver)] | None = Field(
        default=None,
        description="The private batch solver: steps, preconditioned by noisy second moments, "
        "which learns most, over {l2_ball: 10} where no set is given; noisy_projected_gradient, "
        "with noise on every full gradient; noisy_sgd, on the gradients of batches, which have "
        "more noise: for few iterations over many rows; or frank_wolfe, whose noise costs the "
        "width of the set. Without it: steps for regression.erm, of up to 256 coefficients and a "
        "loss without a corner, else noisy_projected_gradient.",
        examples=["steps"],
        json_schema_extra=_solvers,
    )

    reading: ClassVar[Reading] = Reading(FITTED, BARE, BARE)
    outputs: ClassVar[Mapping[str, Shown]] = {"theta": SO_FAR, "coefficients": OWN_UNITS}
    grows: ClassVar[bool] = True
    own_schedule: ClassVar[str] = (
        "model.every sets the ticks at which rows are fitted, fewer of them at less noise; in "
        "between nothing is paid"
    )

    @property
    def loss_spec(self) -> str | Mapping[str, Any]:
        """The loss as the config writes it."""
        return self.loss

    @property
    def solver_name(self) -> str:
        """The named solver, or the default."""
        return self.solver or NoisyGradient.name

    def settled(self, terms: Terms) -> Self:
        """See Predictor: with its solver named, and the set that follows from it."""
        if self.solver is not None:
            return self
        update: dict[str, Any] = {"solver": self.solver_name}
        if self.solver_name == NoisySteps.name and "set" not in self.model_fields_set:
            update["set"] = {"l2_ball": WIDE}
        return self.model_copy(update=update)

    def choose(
        self,
        terms: Terms,
        problem: Problem,
        schedule_of: Callable[[PrivacyLoss], RefitSchedule],
        noises: tuple[str, ...],
    ) -> Compiled:
        """The program over the noise with the smallest error of a gradient; all are priced."""
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        named = self.solver_name

        def program(schedule: RefitSchedule) -> IncrementalErm:
            kind = schedule.budget.kind
            most = PrivacyLoss(kind, schedule.budget.value * fraction(schedule))
            mine = replace(problem, changes=changes_of(terms, kind))
            solver = SOLVERS[named].make(mine, self.iterations, most)
            pattern = None if terms.person is None else terms.person.pattern
            return IncrementalErm(scaling, mine, solver, schedule, self.cap, self.name, pattern)

        return self.compiled(*choose(terms, noises, schedule_of, program, named))

    def problem(self, terms: Terms) -> Problem:
        """What is minimised for each key.

        Raises:
          ConfigError: a set without projection, or too many rows or iterations.
        """
        gradients = Gradients(
            parse_loss(self.loss),
            float(self.clip.gradient),
            None,
            len(self.features),
            self.intercept,
        )
        limit = self.limit(terms.horizon, 4 * (len(self.features) + 1) + 16)
        gradients.lattice.check_capacity(gradients.clip, limit, "model.rows")
        if self.iterations is not None and self.iterations > MOST_ITERATIONS:
            raise ConfigError(
                "model.iterations", self.iterations, f"must be at most {MOST_ITERATIONS:,}."
            )
        return Problem(
            set=parse_set(self.set, gradients.parameters),
            gradients=gradients,
            curvature=float(self.curvature),
            centre=self.middle,
            changes=changes_of(terms, "gdp"),
            limit=limit,
        )

    def limit(self, ticks: int | None, row_bytes: int) -> int:
        """R, most rows of a key that are kept.

        Raises:
          ConfigError: none is given where the clock has no end, or the state would be too large.
        """
        most = MOST_STATE // row_bytes
        if self.rows is not None and self.rows <= most:
            return self.rows
        if self.rows is None and ticks is None:
            raise ConfigError(
                "model.rows",
                None,
                f"is needed: the clock has no end, and {self.name} keeps the rows of each key, "
                f"{row_bytes} bytes a row; say how many it may keep, {most:,} at most.",
            )
        limit = self.rows or (ticks or 0) * self.cap
        if limit > most:
            raise ConfigError(
                "model.rows",
                self.rows,
                f"would let a key's state grow to {limit * row_bytes / 2**20:,.0f} MiB "
                f"({row_bytes} bytes a row); at most {most:,} rows fit, set that or less.",
            )
        return limit

    @model_validator(mode="before")
    @classmethod
    def _wide(cls, data: Any) -> Any:
        """The default set of preconditioned steps, whose noise does not follow from the set."""
        if isinstance(data, Mapping) and data.get("solver") == NoisySteps.name:
            return {"set": {"l2_ball": WIDE}, **data}
        return data

    @model_validator(mode="after")
    def _check_curvature(self) -> RefittedModel:
        if 0 < self.curvature < NEAREST:
            raise refusal("curvature", self.curvature, "must be a finite number above 0, like 1.0.")
        return self

    # ---- what it says

    def bounds_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        shown = number(self.clip.gradient)
        yield "one event adds", f"a gradient of l2 norm at most {shown} (scaled units)"

    def own_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """What fits, and what is kept."""
        yield "fitted by", self.solver_name.replace("_", " ")
        yield "kept", f"rows, up to {bytes_text(program.state_bytes())} a key"

    def notes(self, program: Any) -> Iterator[str]:
        yield (
            "A model follows from all rows so far and stands until the next run; the noise is in "
            "the solver's steps, so that its distance to the best model has no margin of error."
        )

    def refused(self) -> Iterator[str]:
        yield from super().refused()
        yield cap_refusal(self.cap)

    def warnings(self, program: IncrementalErm) -> Iterator[str]:
        yield from super().warnings(program)
        yield from program.notes
