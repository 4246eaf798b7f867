"""Follow-the-leader that is pulled to its centre more strongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.online.learner_section import LearnerModel
from weir.dpcore.models.online.rule import FollowTheLeader, LeaderRule
from weir.dpcore.pricing.terms import Terms

Calm = Annotated[float, Field(ge=1, le=100), Says("must be a number from 1 to 100.")]


class CalmModel(LearnerModel):
    """Follow-the-leader that is pulled to its centre more strongly."""

    algorithm: Literal["toys.calm"] = Field(description="This one.", examples=["toys.calm"])
    calm: Calm = Field(default=2.0, description="Times the curvature.", examples=[2.0])

    title: ClassVar[str] = "follow-the-leader, calmer"
    about: ClassVar[str] = "As online.follow_the_leader, with a multiple of its curvature."
    source: ClassVar[str] = "an example"

    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> LeaderRule:
        """What follows from the private sum of gradients."""
        curvature = self.mu(terms) * self.calm
        return FollowTheLeader(convex_set, curvature, self.middle, self.own_curvature)

    def step_facts(self) -> Iterator[tuple[str, str]]:
        """For the plan."""
        yield "calm", f"{self.calm:g} times the curvature"
