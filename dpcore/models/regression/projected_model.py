"""``regression.projected`` in a config."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from weir.dpcore.algorithm import Compiled
from weir.dpcore.config.section import Positive, Says, Section
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.parse import InputsSpec
from weir.dpcore.models.fields import (
    MOST,
    MOST_COEFFICIENTS,
    OverSpan,
    Tolerance,
    algorithm_field,
    span_field,
)
from weir.dpcore.models.moments import SLACK, Moments
from weir.dpcore.models.regression.incremental import Incremental
from weir.dpcore.models.regression.projected import Projected
from weir.dpcore.models.regression.projection import (
    InputSet,
    ProjectedRows,
    RandomProjection,
    Sparse,
    dimension_for,
    parse_inputs,
)
from weir.dpcore.models.regression.rows import EventRows
from weir.dpcore.models.regression.section import MomentsModel, choose_moments
from weir.dpcore.models.regression.solver import Solver
from weir.dpcore.pricing.terms import Terms

Dimension = Annotated[
    int,
    Field(ge=1, le=MOST_COEFFICIENTS),
    Says(f"must be a number from 1 to {MOST_COEFFICIENTS:,}."),
]
Seed = Annotated[int, Field(ge=0, lt=1 << 63), Says("must be a whole number from 0 to 2^63 - 1.")]
InputsOf = Annotated[
    dict[str, Any], BeforeValidator(lambda spec: spec, json_schema_input_type=InputsSpec)
]


class Projection(Section):
    """A public random map of the features to fewer dimensions."""

    dimension: Dimension | None = Field(
        default=None,
        description="m, dimensions that are left. Without it: by the rule of the widths.",
        examples=[40],
    )
    constant: Positive = Field(
        default=1.0,
        description="Factor of the rule that chooses the dimension.",
        examples=[1.0],
    )
    seed: Seed = Field(
        default=0,
        description="Chooses the map, which is public and must not depend on the data.",
        examples=[0],
    )


@dataclass(frozen=True)
class Unprojected(Incremental):
    """Incremental regression in place of a projection that would save nothing.

    Attributes:
      notes: for the plan.
    """

    notes: tuple[str, ...] = ()


class ProjectedModel(MomentsModel):
    """Least squares in many dimensions, from noisy moments in few."""

    algorithm: Literal["regression.projected"] = algorithm_field("regression.projected")
    tolerance: Tolerance = Field(
        default=1e-7,
        description="Gap at which the solver stops, relative to the objective's size.",
        examples=[1e-7],
    )
    over: OverSpan = span_field()
    projection: Projection = Field(
        default=Projection(),
        description="The random map to fewer dimensions.",
        examples=["{dimension: 40}"],
    )
    inputs: InputsOf | None = Field(
        default=None,
        description="The set of small width that features are in, like {k_sparse: 10} or "
        "{l1_ball: 1}; an event outside counts as none, and is counted.",
        examples=["{k_sparse: 10}"],
    )

    title: ClassVar[str] = "least squares in many dimensions, from noisy moments in few"
    about: ClassVar[str] = (
        "Features are projected by a public random matrix, moments are released in the fewer "
        "dimensions, and the model of least size that they point to is lifted back: for sparse "
        "events and small sets."
    )
    source: ClassVar[str] = "Kasiviswanathan, Nissim & Jin 2017 (PrivIncReg2), joint release"
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> Compiled:
        """Projected regression over the best continual sum for it, and every alternative.

        Where the rule asks for as many dimensions as there are features, or more, it is incremental
        regression, and the plan says so.

        Raises:
          ConfigError: nothing (or not what the user named) can serve the plan.
        """
        p, k, constant = len(self.features), len(self.targets), self.intercept
        convex_set = self.projectable_set()
        inputs = parse_inputs(self.inputs, p)
        if isinstance(inputs, Sparse):
            self._check_middles()
        longest = math.sqrt(inputs.longest**2 + constant) * SLACK
        value = self.clip.features
        if value is None:
            value = math.sqrt(inputs.typical**2 + constant)
        reach = min(float(value), longest)
        m, why = self._dimension(terms, inputs, convex_set)
        if m >= p:
            why = f"{why}, but there are only {p} features"
            return self._unprojected(terms, convex_set, reach, why)
        height = self.moments().height
        whole = math.sqrt(p + constant) * SLACK
        rows = ProjectedRows(
            EventRows.of(self, Moments(p + constant, k, False, whole, height)),
            RandomProjection(m, p, self.projection.seed),
            inputs,
            Moments(m + constant, k, False, reach, height, entry=max(1.0, reach)),
        )
        notes = [
            f"{why}, of {p} features: noise falls on {rows.moments.dimension:,} sums a key. What "
            "the projection leaves out is not in any margin: lifted models have none."
        ]
        if self.inputs is not None:
            notes.append(
                "An event outside model.inputs counts as none. Only the operator learns how "
                "many were outside: it is as private as the events."
            )
        solver = self._solver()

        def build(mechanism: ContinualSum) -> Projected:
            return Projected(
                rows,
                mechanism,
                convex_set,
                self.weight_of_ridge,
                solver,
                self.statistics,
                tuple(notes),
            )

        return self.compiled(*choose_moments(self._over(), terms, rows.moments, build))

    def _over(self) -> int | None:
        return None if self.over == "all" else self.over

    def _solver(self) -> Solver:
        return Solver("accelerated", float(self.tolerance), self.steps)

    def _dimension(self, terms: Terms, inputs: InputSet, convex_set: ConvexSet) -> tuple[int, str]:
        """m, and where it comes from."""
        m = self.projection.dimension
        if m is not None:
            return m, f"model.projection.dimension asks for {m} dimensions"
        ticks = terms.horizon or terms.window
        if ticks is None:
            raise ConfigError(
                "model.projection.dimension",
                None,
                "is needed where the clock has no end: the rule that chooses it grows with the "
                "ticks.",
            )
        factor, size, of = float(self.projection.constant), ticks, "ticks"
        if terms.events is not None:
            size, of = max(1, math.ceil(min(terms.events * ticks, MOST))), "events (expect.events)"
        m = dimension_for(inputs, convex_set, size, factor)
        return m, f"The rule with constant {factor:g} asks for {m:,} dimensions at {size:,} {of}"

    def _unprojected(self, terms: Terms, convex_set: ConvexSet, reach: float, why: str) -> Compiled:
        """Incremental regression with the same bound on events."""
        notes = [
            f"{why}: a projection would save nothing, so this runs regression.incremental. A "
            "smaller model.projection.constant or dimension projects, at the price of an error "
            "that no noise explains."
        ]
        if self.inputs is not None:
            notes.append(
                "model.inputs chooses no events then: it bounds their length, and a longer event "
                "is scaled down."
            )
        clip = self.clip.model_copy(update={"features": reach})
        moments = self.model_copy(update={"clip": clip}).moments()
        rows, solver = EventRows.of(self, moments), self._solver()

        def build(mechanism: ContinualSum) -> Unprojected:
            return Unprojected(
                rows,
                (mechanism,),
                convex_set,
                self.weight_of_ridge,
                solver,
                False,
                self.statistics,
                self.name,
                notes=tuple(notes),
            )

        return self.compiled(*choose_moments(self._over(), terms, moments, build))

    def _check_middles(self) -> None:
        """Sparse features need 0 to stay 0 when they are scaled."""
        ranges = self.public_ranges
        for name in self.features:
            low, high = ranges[name]
            if low != -high:
                bound = max(abs(low), abs(high))
                raise ConfigError(
                    f"model.ranges.{name}",
                    [low, high],
                    "must have 0 in its middle where inputs are sparse: what counts as 0 is the "
                    f"middle of a range. Write [{-bound:g}, {bound:g}].",
                )

    def notes(self, program: Projected | Unprojected) -> Iterator[str]:
        if not program.projected:
            yield from super().notes(program)
            return
        yield (
            "A model is lifted from what its features were projected to. It has no margin of "
            "error: what the "
            "projection leaves out is no noise, and is not known."
        )
        yield (
            "What it was lifted from, projected, has margins: they cover the best model of the set "
            "for the projected events, as the projection shows it. So does margin cover what noise "
            "does to its predictions."
        )

    def refused(self) -> Iterator[str]:
        yield from super().refused()
        if self.inputs is not None:
            yield "an event outside model.inputs counts as none, where features are projected"

    def warnings(self, program: Projected | Unprojected) -> Iterator[str]:
        yield from super().warnings(program)
        if not program.projected:
            yield from self.length_notes(program.rows.moments)
        yield from program.notes
