"""``online.follow_the_leader`` in a config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpcore.algorithm import Shown
from dpcore.config.numbers import Positive
from dpcore.config.section import Says, refusal
from dpcore.errors import ConfigError
from dpcore.geometry.convex_set import ConvexSet
from dpcore.models.fields import ALGORITHM
from dpcore.models.losses import parse_loss
from dpcore.models.online.averaged_leader import AveragedLeader
from dpcore.models.online.follow_the_leader import FollowTheLeader
from dpcore.models.online.learner_section import LearnerModel
from dpcore.models.online.program import Learner
from dpcore.models.online.pull import pull
from dpcore.models.online.rule import Rule
from dpcore.models.words import centre_words
from dpcore.pricing.terms import Terms
from dpcore.program import Program
from dpcore.words import number

MOMENTUM = 0.6
"""Where none is given; see ``pull``, with which it was chosen."""

LAST = Shown("where gradients were taken: nearer to the newest events", role="model")
"""The release ``last``."""


Momentum = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False),
    Says("must be a number from 0 to 1, like 0.6."),
]
Schedule = Literal["linear", "constant", "root"]


class LeaderModel(LearnerModel):
    """Window follow-the-leader: the minimiser of all clipped gradients so far."""

    algorithm: Literal["online.follow_the_leader"] = Field(
        description=ALGORITHM, examples=["online.follow_the_leader"]
    )

    curvature: Positive | None = Field(
        default=None,
        description="mu: weight of the public (mu/2) |x - centre|^2. With schedule: linear every "
        "tick adds it, empty ones too; about a tenth of the events that a key has in a tick is "
        "right, and 1 without it or expect.events. With constant and root it is the weight in all, "
        "or times the root of the ticks, and without it follows from expect.events and the noise.",
        examples=[1.0],
    )
    schedule: Schedule | None = Field(
        default=None,
        description="How the weight of the public curvature grows with the ticks: linear (it pulls "
        "for ever), constant or root (it fades beside the events; averages are played). Without "
        "it: constant where expect.events is given and curvature is not; else linear.",
        examples=["constant"],
    )
    momentum: Momentum | None = Field(
        default=None,
        description="With schedule: constant or root, how near to the average gradients are taken: "
        "0, at the newest leader; 1, at the average. Without it: 0.6.",
        examples=[0.6],
    )

    title: ClassVar[str] = "window follow-the-leader, exact projection"
    about: ClassVar[str] = (
        "Each key's coefficients minimise the public curvature plus all clipped gradients so far, "
        "as a noisy running sum tells them, projected onto the set at every tick. Where it knows "
        "how many events to expect the curvature fades, and the average of the leaders is played."
    )
    source: ClassVar[str] = (
        "Lou & Cheung 2020 (WDP-COCOP), corrected; Kairouz et al. 2021 (DP-FTRL)"
    )
    outputs: ClassVar[Mapping[str, Shown]] = {**LearnerModel.outputs, "last": LAST}

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        if self.momentum is not None and self.schedule == "linear":
            raise refusal("momentum", self.momentum, "is not for schedule: linear; remove it.")
        if self.own_curvature and self.schedule not in (None, "linear"):
            raise refusal(
                "schedule",
                self.schedule,
                "adds a curvature that own_curvature: true says is not needed; use linear.",
            )
        return self

    def growth(self, terms: Terms) -> Schedule:
        """The schedule; without one, what is known decides."""
        if self.schedule is not None:
            return self.schedule
        given = self.curvature is not None or self.own_curvature
        return "linear" if given or terms.events is None else "constant"

    def fades(self, terms: Terms) -> bool | None:
        """See Model."""
        if self.curvature is None and self.schedule is None and not self.own_curvature:
            return terms.events is not None
        return None if self.schedule in (None, "linear") else True

    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> Rule:
        """See LearnerModel."""
        growth = self.growth(terms)
        if growth == "linear":
            if self.momentum is not None:
                raise ConfigError(
                    "model.momentum",
                    self.momentum,
                    "is for a curvature that fades: set schedule: constant, or expect.events.",
                )
            return FollowTheLeader(convex_set, self.mu(terms), self.middle, self.own_curvature)
        weight = self._weight(convex_set, terms, noise)
        momentum = MOMENTUM if self.momentum is None else float(self.momentum)
        return AveragedLeader(convex_set, weight, self.middle, growth, momentum)

    def _weight(self, convex_set: ConvexSet, terms: Terms, noise: float) -> float:
        """The curvature in all; without one, what suits the events that are expected."""
        if self.curvature is not None:
            return float(self.curvature)
        if terms.events is None:
            raise ConfigError(
                "model.curvature",
                None,
                f"is needed with schedule: {self.schedule}: it is one over the length of a step, "
                "and right only beside the events of a tick. Say how many a key has, as "
                "`expect: {events: 2000}`, and it follows; or set about 0.7 of them times a third "
                "of the number of features.",
            )
        return pull(
            terms.events,
            len(self.features),
            self.intercept,
            parse_loss(self.loss).smoothness,
            math.sqrt(self.dimension) * noise,
            convex_set.diameter / 2,
        )

    def own_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """Curvature, what is played, and regret."""
        rule = program.rule if isinstance(program, Learner) else None
        if not isinstance(rule, AveragedLeader):
            yield from super().own_facts(program)
            return
        times = " times the root of the ticks" if rule.growth == "root" else " in all"
        around = centre_words(rule.curvature, self.centre).partition(" a tick")[2]
        yield "curvature", f"{number(rule.curvature)}{times}{around}: it fades beside the events"
        yield (
            "played",
            "the average of the leaders; gradients are taken at last, "
            f"{rule.momentum:g} of the way from the newest leader to it",
        )
        yield "regret", rule.regret
