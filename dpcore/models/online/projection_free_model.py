"""``online.conditional_gradient`` in a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from dpcore.geometry.convex_set import ConvexSet
from dpcore.geometry.parse import parse_set
from dpcore.models.fields import ALGORITHM, ConvexSetSpec
from dpcore.models.model import RADIUS
from dpcore.models.online.conditional_gradient import ConditionalGradient
from dpcore.models.online.learner_section import LearnerModel
from dpcore.models.online.rule import Rule
from dpcore.pricing.terms import Terms
from dpcore.program import Program


class ProjectionFreeModel(LearnerModel):
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

    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> Rule:
        """See LearnerModel."""
        return ConditionalGradient(
            convex_set, self.mu(terms), self.middle, self.own_curvature, self.step
        )

    def step_facts(self) -> Iterator[tuple[str, str]]:
        """The step."""
        yield "step", self.step.replace("_", " ")

    def warnings(self, program: Program) -> Iterator[str]:
        """See Algorithm."""
        lost = parse_set(self.set, self.dimension).guarantee_lost
        if lost:
            yield lost
        yield from super().warnings(program)
