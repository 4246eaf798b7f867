"""``online.pqftl`` in a config."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from dpcore.continual.base import ContinualSum
from dpcore.geometry.parse import parse_set
from dpcore.models.fields import ALGORITHM, SquaredLoss
from dpcore.models.moments_leaf import leaf_of
from dpcore.models.online.pqftl import LATTICE, Pqftl, moments_of
from dpcore.models.online.ridge_leader import RidgeLeader
from dpcore.models.online.section import OnlineModel
from dpcore.models.scaling import Scaling
from dpcore.pricing.best import Offer, best_sum, check_named
from dpcore.pricing.price import Alternative
from dpcore.pricing.terms import Terms


class PqftlModel(OnlineModel):
    """Follow the leader of squared losses, from noisy moments."""

    algorithm: Literal["online.pqftl"] = Field(description=ALGORITHM, examples=["online.pqftl"])
    loss: SquaredLoss = Field(default="squared", description="squared.", examples=["squared"])

    title: ClassVar[str] = "follow the leader of squared losses, from noisy moments"
    about: ClassVar[str] = (
        "The baseline: running sums of the products of features and target, then the ridge "
        "solution, projected onto the set."
    )
    source: ClassVar[str] = "Jain, Kothari & Thakurta 2012"
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> tuple[Pqftl, tuple[Alternative, ...]]:
        """Over a full-history tree unless another continual sum is named.

        Raises:
          ConfigError: what it cannot serve: a set without projection, or what the continual sum
            refuses.
        """
        named = terms.continual_sum or "tree"
        terms = replace(terms, continual_sum=named)
        check_named(terms)
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        rule = RidgeLeader(parse_set(self.set, self.dimension), self.mu(terms), self.middle)
        reach, ticks = math.sqrt(self.dimension) * (1 + 2.0**-30), terms.ticks()

        def build(mechanism: ContinualSum) -> Offer[Pqftl]:
            worst = float(mechanism.stddev(ticks, None)[:, -1].max()) * LATTICE.resolution**2
            program = Pqftl(scaling, rule, mechanism, reach, self.intercept)
            return Offer(program, worst**2, {"moments over=all": worst})

        leaf = leaf_of(moments_of(self.dimension, reach), None, terms)
        return best_sum(leaf, terms, build, among={named})
