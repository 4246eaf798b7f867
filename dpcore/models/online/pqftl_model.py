"""``online.pqftl`` in a config."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.fields import ALGORITHM, SquaredLoss
from weir.dpcore.models.moments_leaf import leaf_of
from weir.dpcore.models.online.pqftl import LATTICE, Pqftl, moments_of
from weir.dpcore.models.online.pull import pull_of_second_order
from weir.dpcore.models.online.ridge_leader import RidgeLeader
from weir.dpcore.models.online.section import OnlineModel
from weir.dpcore.models.online.spaced_pqftl import SpacedPqftl
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.models.second_moments import typical_reach
from weir.dpcore.models.words import centre_words
from weir.dpcore.pricing.alternatives import Offer, best_sum, check_named
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program
from weir.dpcore.words import number


class PqftlModel(OnlineModel):
    """Follow the leader of squared losses, from noisy moments."""

    algorithm: Literal["online.pqftl"] = Field(description=ALGORITHM, examples=["online.pqftl"])
    loss: SquaredLoss = Field(default="squared", description="squared.", examples=["squared"])

    title: ClassVar[str] = "follow the leader of squared losses, from noisy moments"
    about: ClassVar[str] = (
        "The baseline: running sums of the products of features and target, then the ridge "
        "solution, projected onto the set. Where curvature is not given the ridge is as large as "
        "the noise needs, and fades beside the events."
    )
    source: ClassVar[str] = "Jain, Kothari & Thakurta 2012"
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> tuple[Pqftl, tuple[Alternative, ...]]:
        """Over the best continual sum for it.

        Raises:
          ConfigError: what it cannot serve: a set without projection, or what the continual sum
            refuses.
        """
        check_named(terms)
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        convex_set = parse_set(self.set, self.dimension)
        fades = self.curvature is None
        reach = typical_reach(len(self.features), self.intercept) * (1 + 2.0**-30)
        ticks = terms.ticks()
        RidgeLeader(convex_set, 1.0, self.middle)  # what it refuses does not depend on the sum

        def build(mechanism: ContinualSum) -> Offer[Pqftl]:
            worst = float(mechanism.stddev(ticks, None)[:, -1].max()) * LATTICE.resolution**2
            if fades:
                ridge = pull_of_second_order(None, math.sqrt(self.dimension) * worst)
                rule = RidgeLeader(convex_set, ridge, self.middle, "constant")
            else:
                rule = RidgeLeader(convex_set, self.mu(terms), self.middle)
            program = Pqftl(scaling, rule, mechanism, reach, self.intercept)
            return Offer(program, worst**2, {"moments over=all": worst})

        leaf = leaf_of(moments_of(self.dimension, reach), None, terms)
        return best_sum(leaf, terms, build)

    def spaced(self, program: Program, every: int) -> Program | None:
        """See Algorithm."""
        return SpacedPqftl.of(program, every) if isinstance(program, Pqftl) else None

    def own_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """Curvature, length of events, and regret."""
        if not isinstance(program, Pqftl) or program.rule.growth == "linear":
            yield from super().own_facts(program)
            return
        around = centre_words(program.curvature, self.centre).partition(" a tick")[2]
        pull = f"{number(program.curvature)} in all{around}: it fades beside the events"
        yield "curvature", pull
        yield "events", f"of more than length {number(program.reach)} (scaled) are shortened to it"
        yield "regret", program.regret
