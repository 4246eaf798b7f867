"""What regressions that keep rows and fit them again have in common in a config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, model_validator

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.algorithm import Reading, Shown
from weir.dpcore.config.section import FARTHEST, NEAREST, Says, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.curved import GradientClipped
from weir.dpcore.models.erm.incremental import IncrementalErm
from weir.dpcore.models.erm.price import choose, fraction
from weir.dpcore.models.erm.schedule import Schedule
from weir.dpcore.models.fields import AnyLoss, Cap, Count, OneTarget
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.losses import parse_loss
from weir.dpcore.models.people import rows_of_user
from weir.dpcore.models.regression.section import BARE, FITTED, SO_FAR
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.models.solvers.problem import Problem
from weir.dpcore.models.words import OWN_UNITS
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.calibration import MOST_STATE, Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program
from weir.dpcore.registry import SOLVERS
from weir.dpcore.words import bytes_text, number

MOST_ITERATIONS = 1 << 16


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

    target: OneTarget = Field(
        description="Numeric column that is predicted; losses of labels read its sign once scaled.",
        examples=["arrival_delay"],
    )
    loss: AnyLoss = Field(
        default="squared",
        description="squared, absolute, {quantile: tau}, {huber: width}, logistic or hinge.",
        examples=["squared", "{quantile: 0.9}"],
    )
    curvature: Curvature = Field(
        default=0.0,
        description="nu: weight of the public (nu/2) |x - centre|^2 that every tick adds, empty "
        "ones too; none unless it is given.",
        examples=[1.0],
    )
    cap: Cap = Field(
        default=4096,
        description="Most events of a key and tick that are learned from; of more, a keyed hash "
        "chooses, and the others are counted as over capacity.",
        examples=[4096],
    )
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
    solver: Annotated[str, AfterValidator(_solver)] = Field(
        default="noisy_projected_gradient",
        description="The private batch solver: noisy_projected_gradient, with noise on every full "
        "gradient, noisy_sgd, on the gradients of batches, which have more noise: for few "
        "iterations over many rows, or frank_wolfe, whose noise costs the width of the set.",
        examples=["noisy_projected_gradient"],
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

    def choose(
        self,
        terms: Terms,
        problem: Problem,
        schedule_of: Callable[[PrivacyLoss], Schedule],
        noises: tuple[str, ...],
    ) -> tuple[IncrementalErm, tuple[Alternative, ...]]:
        """The program over the noise with the smallest error of a gradient; all are priced."""
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)

        def program(schedule: Schedule) -> IncrementalErm:
            kind = schedule.budget.kind
            most = PrivacyLoss(kind, schedule.budget.value * fraction(schedule))
            mine = replace(problem, changes=changes_of(terms, kind))
            solver = SOLVERS[self.solver].make(mine, self.iterations, most)
            pattern = None if terms.person is None else terms.person.pattern
            return IncrementalErm(scaling, mine, solver, schedule, self.cap, self.name, pattern)

        return choose(terms, noises, schedule_of, program, self.solver)

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

    @model_validator(mode="after")
    def _check_curvature(self) -> RefittedModel:
        if 0 < self.curvature < NEAREST:
            raise refusal("curvature", self.curvature, "must be a finite number above 0, like 1.0.")
        return self

    # ---- what it says

    def bounds_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """What one event may add."""
        shown = number(self.clip.gradient)
        yield "one event adds", f"a gradient of l2 norm at most {shown} (scaled units)"

    def own_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """What fits, and what is kept."""
        yield "fitted by", self.solver.replace("_", " ")
        yield "kept", f"rows, up to {bytes_text(program.state_bytes())} a key"

    def notes(self, program: Program) -> Iterator[str]:
        """See Algorithm."""
        yield (
            "A model follows from all rows so far and stands until the next run; the noise is in "
            "the solver's steps, so that its distance to the best model has no band."
        )

    def refused(self) -> Iterator[str]:
        """See Algorithm."""
        yield from super().refused()
        yield (
            f"of more than {self.cap:,} events of a key and tick, a keyed hash chooses {self.cap:,}"
        )

    def warnings(self, program: Program) -> Iterator[str]:
        """See Algorithm."""
        yield from super().warnings(program)
        if isinstance(program, IncrementalErm):
            yield from program.notes
