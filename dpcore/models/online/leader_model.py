"""``online.follow_the_leader`` in a config."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.fields import ALGORITHM
from weir.dpcore.models.online.fading_section import FadingModel
from weir.dpcore.models.online.follow_the_leader import FollowTheLeader
from weir.dpcore.models.online.rule import Rule
from weir.dpcore.pricing.terms import Terms


class LeaderModel(FadingModel):
    """Window follow-the-leader: the minimiser of all clipped gradients so far."""

    algorithm: Literal["online.follow_the_leader"] = Field(
        description=ALGORITHM, examples=["online.follow_the_leader"]
    )

    title: ClassVar[str] = "window follow-the-leader, exact projection"
    about: ClassVar[str] = (
        "Each key's coefficients minimise the public curvature plus all clipped gradients so far, "
        "as a noisy running sum tells them, projected onto the set at every tick. Where it knows "
        "how many events to expect the curvature fades: the average of the leaders is played, or, "
        "where noise is small, models follow the curvature of the losses, summed beside them."
    )
    source: ClassVar[str] = (
        "Lou & Cheung 2020 (WDP-COCOP), corrected; Kairouz et al. 2021 (DP-FTRL)"
    )
    fades_from: ClassVar[int] = 1

    def linear(self, convex_set: ConvexSet, terms: Terms) -> Rule:
        """See FadingModel."""
        return FollowTheLeader(convex_set, self.mu(terms), self.middle, self.own_curvature)
