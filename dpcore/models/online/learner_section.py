"""Fields of learners that follow a sum of gradients, and what that sum is charged."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from weir.dpcore.algorithm import Compiled
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.fields import Share
from weir.dpcore.models.gradients import Gradients, RowCounts, SecondMoments
from weir.dpcore.models.kit.filter import constant_loss
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.kit.rows import Scaling
from weir.dpcore.models.online.program import Learner
from weir.dpcore.models.online.rule import LeaderRule
from weir.dpcore.models.online.section import GradientModel
from weir.dpcore.models.users import events_of, refuse_blind
from weir.dpcore.models.words import FEWER, hidden, noisy_excess
from weir.dpcore.pricing.alternatives import Offer, best_sum
from weir.dpcore.pricing.calibration import Alternative, FixedLeaf, round_up
from weir.dpcore.pricing.terms import Terms


class Curving(NamedTuple):
    """Second moments, or a count, next to the gradients. share: of the squared sensitivity."""

    moments: SecondMoments | RowCounts
    share: float


def leaf_of(
    gradients: Gradients, weight: float, terms: Terms, curving: Curving | None = None
) -> FixedLeaf:
    """(gradient, loss, second moments or count) as a continual sum carries it.

    Formal guarantees:
      One cell changes by at most (2 L, B, sqrt 2 X^2 or 1) / scales =: Delta in l2, whichever
      relation (a cap makes rows compete). Under replace_anywhere two cells change, by at most Delta
      each: 2 Delta. Of a user: so of each cell (``Gradients.users``), without second moments.
    """
    scales, sensitivity = split(gradients, weight, curving)
    if terms.relation == "replace_anywhere":
        sensitivity *= 2
    return FixedLeaf(scales, (None,), sensitivity, sensitivity)


def split(
    gradients: Gradients, weight: float, curving: Curving | None = None
) -> tuple[tuple[float, ...], float]:
    """Noise weights of a leaf's coordinates, and its joint sensitivity in units of them.

    The loss takes the share ``weight`` of the squared sensitivity, second moments theirs, the
    gradient the rest.

    Returns:
      scales (D,) in lattice units; l2 sensitivity of (leaf / scales), rounded up.

    Raises:
      ConfigError: a share is not inside (0, 1), or nothing is left.
    """
    change, d = 2 * gradients.clip / gradients.lattice.resolution, gradients.parameters
    loss = 0.0 if gradients.loss_bound is None else weight
    second = 0.0 if curving is None else curving.share
    if gradients.loss_bound is not None and not 0 < weight < 1:
        raise ConfigError("model.weight", weight, "must lie strictly inside (0, 1), like 0.05.")
    rest = 1 - loss - second
    if not 0 < rest <= 1:
        raise ConfigError(
            "model.curvature_weight",
            second,
            "must leave a share for the gradients next to model.weight, like 0.2.",
        )
    scale = round_up(change / math.sqrt(rest))
    scales, norms = [scale] * d, [change / scale]
    if gradients.loss_bound is not None:
        loss_change = float(gradients.loss_lattice.steps(gradients.loss_bound))
        scales.append(round_up(loss_change / math.sqrt(loss)))
        norms.append(loss_change / scales[-1])
    if curving is not None:
        unit = round_up(curving.moments.change / math.sqrt(second))
        scales += [round_up(unit * item) for item in curving.moments.weights]
        norms.append(curving.moments.change / unit)
    if len(norms) == 1:
        return tuple(scales), 1.0
    return tuple(scales), round_up(math.hypot(*norms))


class LearnerModel(GradientModel):
    """A model that follows one private running sum of gradients."""

    own_curvature: bool = Field(
        default=False,
        description="True: every tick's loss is mu-strongly convex by itself (one event a tick), "
        "so that no curvature is added.",
        examples=[False],
    )
    weight: Share = Field(
        default=0.1,
        description="Share of the squared budget that the running loss takes from the gradients.",
        examples=[0.1],
    )

    def mu(self, terms: Terms) -> float:
        """See Curved; a loss's own curvature is of one event, however many there are."""
        own = self.own_curvature and self.curvature is None
        return 1.0 if own else super().mu(terms)

    event_only: ClassVar[str] = ""

    @abstractmethod
    def rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> LeaderRule:
        """What follows from the sum. noise: worst stddev of a coordinate of it, gradient units.

        Raises:
          ConfigError: set or centre do not fit it.
        """

    def curving(self, terms: Terms, gradients: Gradients, noise: float | None) -> Curving | None:
        """Second moments that are summed next to the gradients, for ``curved_rule``; None: none.

        Args:
          noise: worst stddev of a coordinate of the gradient sum without them; None: not known yet,
            and what does not depend on it is asked.
        """
        return None

    def curved_rule(self, convex_set: ConvexSet, terms: Terms, noise: float) -> LeaderRule:
        """What follows from the sum and second moments. noise: worst stddev of one of them, in
        units of the losses' curvature."""
        raise AssertionError(f"{self.name} follows no second moments.")

    def counted_rule(
        self, convex_set: ConvexSet, terms: Terms, noise: float, deviation: float
    ) -> LeaderRule:
        """What follows from the sum and a count of events. noise: as in ``rule``. deviation: worst
        stddev of the count."""
        raise AssertionError(f"{self.name} follows no count.")

    def compile(self, terms: Terms) -> Compiled:
        """A learner over the best continual sum for it, and every alternative: its error is that of
        the gradient sum.

        Raises:
          ConfigError: nothing (or not what the user named) can serve the plan.
        """
        gradients = Gradients(
            parse_loss(self.loss),
            float(self.clip.gradient),
            float(self.clip.loss) if self.clip.loss else None,
            len(self.features),
            self.intercept,
            terms.person is not None,
        )
        curving = self.curving(terms, gradients, None)
        built = self._priced(terms, gradients, curving)
        if curving is None:
            worst = float(np.max(built[0].gradient_stddev(terms.ticks())))
            curving = self.curving(terms, gradients, worst)
            if curving is not None:
                built = self._priced(terms, gradients, curving)
        return self.compiled(*built)

    def _priced(
        self, terms: Terms, gradients: Gradients, curving: Curving | None
    ) -> tuple[Learner, tuple[Alternative, ...]]:
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        events = events_of(terms, self.cap)
        convex_set = parse_set(self.set, gradients.parameters)
        resolution = gradients.lattice.resolution
        ticks, second = terms.ticks(), None if curving is None else curving.moments

        def make(worst: float, noise: float) -> LeaderRule:
            if second is None:
                return self.rule(convex_set, terms, worst)
            if isinstance(second, RowCounts):
                return self.counted_rule(convex_set, terms, worst, noise)
            return self.curved_rule(convex_set, terms, noise)

        make(1.0, 1.0)  # what it refuses does not depend on the sum
        gradients.lattice.check_capacity(gradients.clip, self.cap, "model.cap")

        def build(mechanism: ContinualSum) -> Offer[Learner]:
            spread = np.max(mechanism.stddev(ticks, None), axis=0)
            worst = noise = float(spread[0]) * resolution
            if second is not None:
                noise = float(spread[gradients.dimension]) * second.unit(gradients.loss.smoothness)
            rule = make(worst, noise)
            refuse_blind(mechanism)
            own = (scaling, gradients, rule, mechanism, self.cap, self.name, events, second)
            learner = Learner(*own)
            named = {"gradient over=all": worst}
            if gradients.loss_bound is not None:
                named["loss over=all"] = float(np.max(learner.loss_stddev(ticks)))
            if second is not None:
                counted = isinstance(second, RowCounts)
                named["count over=all" if counted else "second moments over=all"] = noise
            return Offer(learner, worst**2, named)

        return best_sum(leaf_of(gradients, self.weight, terms, curving), terms, build)

    def bounds_facts(self, program: Learner) -> Iterator[tuple[str, str]]:
        """What one event, or one user, may add."""
        for name, words in super().bounds_facts(program):
            if program.gradients.users:
                yield "one user adds", f"to a key and tick, all events together, {words}"
            else:
                yield name, words

    def releases_loss(self, program: Learner) -> bool:
        """Whether a running loss is among what is released."""
        return program.gradients.loss_bound is not None

    def curvature_words(self, curvature: float) -> str:
        """The public regulariser, or that there is none."""
        if self.own_curvature:
            return f"{curvature:g}, the loss's own: nothing is added"
        return super().curvature_words(curvature)

    def notes(self, program: Learner) -> Iterator[str]:
        yield from super().notes(program)
        if self.releases_loss(program):
            yield (
                f"The loss is in scaled units, that of an event at most {self.clip.loss:g}; its "
                "noise is that of the total, per tick it is divided by the number of ticks."
            )

    def doubts(self, program: Learner, terms: Terms) -> Iterator[str]:
        """See Algorithm: noise of the last model that may hide it."""
        yield from super().doubts(program, terms)
        if terms.events is None or terms.horizon is None:
            return
        last = np.array([terms.horizon - 1])
        stddev = float(program.gradient_stddev(last)[0])
        loss, events = parse_loss(self.loss_spec), terms.events * terms.horizon
        curvature = 1.0 if loss.cornered else loss.smoothness
        shape = (len(self.features), self.intercept, stddev, events, curvature)
        yield from hidden(noisy_excess(*shape), constant_loss(loss.labels, 1), FEWER)

    def warnings(self, program: Learner) -> Iterator[str]:
        if self.releases_loss(program):
            dearer = 1 / math.sqrt(1 - self.weight) - 1
            yield (
                f"The running loss is paid from the same budget: it takes {self.weight:.3g} of its "
                f"square, so that the noise of the gradients is {dearer:.1%} larger; "
                "model.clip.loss: 0 releases none."
            )
        yield from super().warnings(program)
