"""``online.conditional_gradient`` in a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.local_oracle import local_oracle
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.fields import ALGORITHM, ConvexSetSpec
from weir.dpcore.models.model import RADIUS
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient, refuse_projected
from weir.dpcore.models.online.fading_section import FadingModel
from weir.dpcore.models.online.rule import Rule
from weir.dpcore.pricing.terms import Terms


class ProjectionFreeModel(FadingModel):
    """Window follow-the-leader without projections: a step of a local linear oracle a tick."""

    algorithm: Literal["online.conditional_gradient"] = Field(
        description=ALGORITHM, examples=["online.conditional_gradient"]
    )
    set: ConvexSetSpec = Field(
        default={"l1_ball": RADIUS},
        description="Where the coefficients lie, in scaled units: {l1_ball: r}, {simplex: 1}, "
        "{polytope: {vertices: [...]}}, {permutations: n}, {flow: ...} and more. Without it: "
        "{l1_ball: 2}.",
        examples=["{l1_ball: 5}"],
    )
    step: Literal["line_search", "constant"] = Field(
        default="line_search",
        description="Exact line search, or the constant step of the theorem.",
        examples=["line_search"],
    )

    title: ClassVar[str] = "window follow-the-leader without projections"
    about: ClassVar[str] = (
        "One step of a local linear oracle a tick instead of a projection, with a certified "
        "distance to the leader: for sets that are dear to project onto."
    )
    source: ClassVar[str] = "Lou & Cheung 2020 (WDP-COCOL), corrected; Garber & Hazan 2016"

    calls: ClassVar[int] = 8

    def lasting_pull(self) -> bool:
        """The constant step is for the schedule of its theorem."""
        return self.step == "constant" or super().lasting_pull()

    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> Rule:
        """See LearnerModel."""
        if self.step == "constant" and self.growth(terms) != "linear":
            raise ConfigError(
                "model.step",
                self.step,
                f"is the step of schedule: linear, not of {self.schedule}; remove it.",
            )
        refuse_projected(convex_set, local_oracle(convex_set))
        return super().rule(convex_set, terms, noise)

    def linear(self, convex_set: ConvexSet, terms: Terms) -> Rule:
        """See FadingModel."""
        return ConditionalGradient(
            convex_set, self.mu(terms), self.middle, self.own_curvature, self.step
        )

    def step_facts(self) -> Iterator[tuple[str, str]]:
        """The step."""
        yield "step", self.step.replace("_", " ")

    def warnings(self, program: Any) -> Iterator[str]:
        """See Algorithm."""
        lost = parse_set(self.set, self.dimension).guarantee_lost
        if lost:
            yield lost
        yield from super().warnings(program)
