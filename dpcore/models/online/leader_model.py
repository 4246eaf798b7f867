"""Learners that follow the leader, whose curvature may fade."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from weir.dpcore.algorithm import Compiled, Shown
from weir.dpcore.config.section import Positive, Says, refusal
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.local_oracle import local_oracle
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.fields import ConvexSetSpec, Share, algorithm_field
from weir.dpcore.models.gradients import MOST, Gradients, RowCounts, SecondMoments, typical_reach
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.model import RADIUS
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient, refuse_projected
from weir.dpcore.models.online.learner_section import Curving, LearnerModel, split
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.online.regularisation import pays, pull, pull_of_second_order
from weir.dpcore.models.online.rule import FollowTheLeader, LeaderRule
from weir.dpcore.models.online.second_order import AveragedLeader, CountedLeader, SecondOrderLeader
from weir.dpcore.models.words import centre_words
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.words import number

MOMENTUM = 0.6
"""Where none is given; see ``pull``, with which it was chosen."""
COUNT = 0.02
"""Share of the squared budget of a count of events."""
CURVED = 0.2
"""Share of the squared budget of second moments, where none is given."""

LAST = Shown("where gradients were taken: nearer to the newest events", role="model")
"""The release ``last``."""


Momentum = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False),
    Says("must be a number from 0 to 1, like 0.6."),
]
Schedule = Literal["linear", "constant", "root", "second_order"]


class FadingModel(LearnerModel):
    """A learner whose curvature may fade next to the events.

    Class attributes:
      calls: of a linear oracle a tick, in place of a projection; 0: it projects.
    """

    curvature: Positive | None = Field(
        default=None,
        description="mu: weight of the public (mu/2) |x - centre|^2. With schedule: linear every "
        "tick adds it, empty ones too; about a tenth of the events that a key has in a tick is "
        "right. With constant and root it is the weight in all, or times the root of the ticks; "
        "without it that follows from expect.events, or a noisy count of events, and the noise; "
        "with second_order it is the weight in all, and without it follows from the noise.",
        examples=[1.0],
    )
    schedule: Schedule | None = Field(
        default=None,
        description="How the weight of the public curvature grows with the ticks: linear (it pulls "
        "for ever), constant or root (it fades relative to the events; averages are released), or "
        "second_order (it fades, and models follow the curvature of the losses, summed in private "
        "next to the gradients). Without it: linear where curvature is given; else "
        "second_order where the noise of those sums is small compared with the events of "
        "a tick (squared loss), or constant.",
        examples=["constant"],
    )
    momentum: Momentum | None = Field(
        default=None,
        description="With schedule: constant or root, how near to the average gradients are taken: "
        "0, at the newest leader; 1, at the average. Without it: 0.6.",
        examples=[0.6],
    )
    curvature_weight: Share | None = Field(
        default=None,
        description="With schedule: second_order, the share of the squared budget that the sums of "
        "products of features take from the gradients. Without it: 0.2.",
        examples=[0.2],
    )

    calls: ClassVar[int] = 0
    outputs: ClassVar[Mapping[str, Shown]] = {**LearnerModel.outputs, "last": LAST}

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        if self.momentum is not None and self.schedule in ("linear", "second_order"):
            raise refusal(
                "momentum", self.momentum, f"is not for schedule: {self.schedule}; remove it."
            )
        if self.own_curvature and self.schedule not in (None, "linear"):
            raise refusal(
                "schedule",
                self.schedule,
                "adds a curvature that own_curvature: true says is not needed; use linear.",
            )
        if self.curvature_weight is not None and self.schedule not in (None, "second_order"):
            raise refusal(
                "curvature_weight",
                self.curvature_weight,
                f"is for schedule: second_order, not {self.schedule}; remove it.",
            )
        return self

    def lasting_pull(self) -> bool:
        """Whether what is given asks for a curvature that every tick adds."""
        return self.curvature is not None or self.own_curvature

    def growth(self, terms: Terms) -> Schedule:
        """The schedule; without one, what is known decides. ``curving`` may find better."""
        if self.schedule is not None:
            return self.schedule
        return "linear" if self.lasting_pull() else "constant"

    def counts(self, terms: Terms) -> bool:
        """Whether events are counted in private, as nothing says how many a tick has."""
        fades = self.growth(terms) in ("constant", "root")
        return fades and self.curvature is None and terms.events is None

    def fades(self, terms: Terms) -> bool | None:
        if self.schedule is None and not self.lasting_pull():
            return self.growth(terms) != "linear"
        return None if self.schedule in (None, "linear") else True

    def linear(self, convex_set: ConvexSet, terms: Terms) -> LeaderRule:
        """With a curvature that every tick adds."""
        raise AssertionError(f"{type(self).__name__} has no linear schedule.")

    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> LeaderRule:
        growth = self.growth(terms)
        if growth == "linear" or growth == "second_order":
            if self.momentum is not None:
                raise ConfigError(
                    "model.momentum",
                    self.momentum,
                    "is for a curvature that fades: set schedule: constant, or leave "
                    "model.curvature out.",
                )
            return self.linear(convex_set, terms)
        weight = self._weight(convex_set, terms, noise)
        momentum = MOMENTUM if self.momentum is None else float(self.momentum)
        return AveragedLeader(convex_set, weight, self.middle, growth, momentum, self.calls)

    def _weight(self, convex_set: ConvexSet, terms: Terms, noise: float) -> float:
        """The curvature in all; without one, what suits the events that are expected, or one."""
        if self.curvature is not None:
            return float(self.curvature)
        return self._pull(convex_set, terms.events or 1.0, noise)

    def _pull(self, convex_set: ConvexSet, events: float, noise: float) -> float:
        smoothness = parse_loss(self.loss).smoothness
        noise *= math.sqrt(self.dimension)
        shape = len(self.features), self.intercept, smoothness, noise, convex_set.diameter / 2
        return pull(events, *shape)

    def counted_rule(
        self, convex_set: ConvexSet, terms: Terms, noise: float, deviation: float
    ) -> LeaderRule:
        base = self.rule(convex_set, terms, noise)
        assert isinstance(base, AveragedLeader)
        own = {item.name: getattr(base, item.name) for item in fields(base) if item.init}
        each = self._pull(convex_set, 1.0, 0.0)
        return CountedLeader(**own, each=each, deviation=round_up(deviation, 24))

    def curving(self, terms: Terms, gradients: Gradients, noise: float | None) -> Curving | None:
        """See LearnerModel: second moments where the config says so, or where it is silent and they
        pay, of one event a tick where nothing is expected; then a count, where they do not."""
        share = CURVED if self.curvature_weight is None else float(self.curvature_weight)
        reach = typical_reach(len(self.features), self.intercept) * (1 + 2.0**-30)
        curving = Curving(SecondMoments(len(self.features), self.intercept, reach), share)
        if self.schedule == "second_order":
            self._refuse_second_order(terms)
            return curving if noise is None else None
        if noise is None:
            return None
        silent = self.schedule is None and self.momentum is None and self.growth(terms) != "linear"
        if silent and self.loss == "squared" and self.dimension <= MOST and terms.person is None:
            without, _ = split(gradients, self.weight)
            unit = noise / (without[0] * gradients.lattice.resolution)
            curved = unit * curving.moments.change / math.sqrt(share)
            if pays(terms.events or 1.0, math.sqrt(self.dimension) * curved):
                return curving
        return Curving(RowCounts(terms.person is not None), COUNT) if self.counts(terms) else None

    def _refuse_second_order(self, terms: Terms) -> None:
        loss = parse_loss(self.loss)
        if loss.cornered:
            raise ConfigError(
                "model.schedule",
                self.schedule,
                f"needs a loss that curves; {loss.name} has corners: use constant.",
            )
        if self.dimension > MOST:
            raise ConfigError(
                "model.schedule",
                self.schedule,
                f"solves a system at every tick, of at most {MOST} coefficients, not "
                f"{self.dimension:,}: use constant.",
            )
        if terms.person is not None:
            raise ConfigError(
                "model.schedule",
                self.schedule,
                "sums products of events one by one, of which a user has several in a tick; use "
                "constant, or privacy.unit: event.",
            )

    def curved_rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> LeaderRule:
        weight = self.curvature
        if weight is None:
            weight = pull_of_second_order(terms.events, math.sqrt(self.dimension) * noise)
        return SecondOrderLeader(convex_set, float(weight), self.middle, self.calls)

    def own_facts(self, program: Learner) -> Iterator[tuple[str, str]]:
        """Curvature, what is played, and regret."""
        rule = program.rule
        if not rule.fading:
            yield from super().own_facts(program)
            return
        around = centre_words(rule.curvature, self.centre).partition(" a tick")[2]
        more = ""
        if isinstance(rule, CountedLeader):
            more = f", and {number(rule.each)} for each event of a tick beyond the first"
        yield (
            "curvature",
            f"{number(rule.curvature)}{rule.fading}{more}{around}: it fades relative to the events",
        )
        if rule.calls:
            yield "step", f"{rule.calls} calls of a linear oracle a tick, by line search"
        if isinstance(program.second, SecondMoments):
            share = CURVED if self.curvature_weight is None else self.curvature_weight
            yield (
                "played",
                "the leader of all losses so far, by their curvature: sums of products of features "
                f"(events clipped to length {number(program.second.reach)}) take {share:g} of the "
                "squared budget",
            )
        else:
            yield "played", rule.played
        if isinstance(program.second, RowCounts):
            counted = "users" if program.second.users else "events"
            yield (
                f"{counted} a tick",
                f"counted in private, for {COUNT:g} of the squared budget; expect.events saves it",
            )
        yield "regret", rule.regret


class LeaderModel(FadingModel):
    """Window follow-the-leader: the minimiser of all clipped gradients so far."""

    algorithm: Literal["online.follow_the_leader"] = algorithm_field("online.follow_the_leader")

    title: ClassVar[str] = "window follow-the-leader, exact projection"
    about: ClassVar[str] = (
        "Each key's coefficients minimise the public curvature plus all clipped gradients so far, "
        "as a noisy running sum tells them, projected onto the set at every tick. The curvature "
        "fades relative to the events that are expected, or counted in private: the average of the "
        "leaders is released. Where many are expected and noise is small, models follow the "
        "curvature of the losses, summed next to them."
    )
    source: ClassVar[str] = (
        "Lou & Cheung 2020 (WDP-COCOP), corrected; Kairouz et al. 2021 (DP-FTRL)"
    )
    fades_from: ClassVar[int] = 1

    def linear(self, convex_set: ConvexSet, terms: Terms) -> LeaderRule:
        return FollowTheLeader(convex_set, self.mu(terms), self.middle, self.own_curvature)


class PftalModel(FadingModel):
    """Follow the approximate leader, over a full-history tree."""

    algorithm: Literal["online.pftal"] = algorithm_field("online.pftal")

    title: ClassVar[str] = "follow the approximate leader, over a full-history tree"
    about: ClassVar[str] = (
        "The baseline: exact projection, with the noise of a binary tree that covers the whole "
        "stream, whatever the window."
    )
    source: ClassVar[str] = "Thakurta & Smith 2013"
    event_only: ClassVar[str] = ""

    def linear(self, convex_set: ConvexSet, terms: Terms) -> LeaderRule:
        return FollowTheLeader(convex_set, self.mu(terms), self.middle, self.own_curvature)

    def compile(self, terms: Terms) -> Compiled:
        """As every learner, over the tree."""
        named = terms.continual_sum
        if named not in (None, "tree"):
            raise ConfigError(
                "mechanism.continual_sum",
                named,
                f"{self.name} runs over tree; use online.follow_the_leader.",
            )
        return super().compile(replace(terms, continual_sum="tree"))


class ProjectionFreeModel(FadingModel):
    """Window follow-the-leader without projections: a step of a local linear oracle a tick."""

    algorithm: Literal["online.conditional_gradient"] = algorithm_field(
        "online.conditional_gradient"
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
        "distance to the leader: for sets that are expensive to project onto."
    )
    source: ClassVar[str] = "Lou & Cheung 2020 (WDP-COCOL), corrected; Garber & Hazan 2016"

    calls: ClassVar[int] = 8

    def lasting_pull(self) -> bool:
        """The constant step is for the schedule of its theorem."""
        return self.step == "constant" or super().lasting_pull()

    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> LeaderRule:
        if self.step == "constant" and self.growth(terms) != "linear":
            raise ConfigError(
                "model.step",
                self.step,
                f"is the step of schedule: linear, not of {self.schedule}; remove it.",
            )
        refuse_projected(convex_set, local_oracle(convex_set))
        return super().rule(convex_set, terms, noise)

    def linear(self, convex_set: ConvexSet, terms: Terms) -> LeaderRule:
        return ConditionalGradient(
            convex_set, self.mu(terms), self.middle, self.own_curvature, self.step
        )

    def step_facts(self) -> Iterator[tuple[str, str]]:
        """The step."""
        yield "step", self.step.replace("_", " ")

    def warnings(self, program: Any) -> Iterator[str]:
        lost = parse_set(self.set, self.dimension).guarantee_lost
        if lost:
            yield lost
        yield from super().warnings(program)
