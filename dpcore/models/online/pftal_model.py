"""``online.pftal`` in a config."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.fields import ALGORITHM
from weir.dpcore.models.online.fading_section import FadingModel
from weir.dpcore.models.online.follow_the_leader import FollowTheLeader
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.online.rule import Rule
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms


class PftalModel(FadingModel):
    """Follow the approximate leader, over a full-history tree."""

    algorithm: Literal["online.pftal"] = Field(description=ALGORITHM, examples=["online.pftal"])

    title: ClassVar[str] = "follow the approximate leader, over a full-history tree"
    about: ClassVar[str] = (
        "The baseline: exact projection, with the noise of a binary tree that covers the whole "
        "stream, whatever the window."
    )
    source: ClassVar[str] = "Thakurta & Smith 2013"
    event_only: ClassVar[str] = ""

    def linear(self, convex_set: ConvexSet, terms: Terms) -> Rule:
        """See FadingModel."""
        return FollowTheLeader(convex_set, self.mu(terms), self.middle, self.own_curvature)

    def compile(self, terms: Terms) -> tuple[Learner, tuple[Alternative, ...]]:
        """As every learner, over the tree."""
        named = terms.continual_sum
        if named not in (None, "tree"):
            raise ConfigError(
                "mechanism.continual_sum",
                named,
                f"{self.name} runs over tree; use online.follow_the_leader.",
            )
        return super().compile(replace(terms, continual_sum="tree"))
