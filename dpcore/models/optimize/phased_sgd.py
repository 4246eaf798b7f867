"""``optimize.phased_sgd`` in a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dpcore.config.numbers import Positive
from dpcore.continual.unit import noise_scale_for
from dpcore.errors import ConfigError
from dpcore.models.fields import ALGORITHM
from dpcore.models.optimize.course import Course
from dpcore.models.optimize.node_noise import budget_for
from dpcore.models.optimize.one_pass_section import OnePassModel
from dpcore.models.optimize.phased import Phased, PhasedRun, phased_run
from dpcore.models.optimize.runs import MOST_RUNS
from dpcore.pricing.terms import Terms

PHASED_NOISES = ("gaussian", "discrete_gaussian")


class PhasedSgdModel(OnePassModel):
    """Phased SGD over any set with a projection: for p >= 2."""

    algorithm: Literal["optimize.phased_sgd"] = Field(
        description=ALGORITHM, examples=["optimize.phased_sgd"]
    )
    step: Positive | None = Field(
        default=None,
        description="eta: the first phase steps by eta / 4, each next by a quarter of that. At "
        "most 8 / beta, beta the smoothness of the loss: a larger one is not private and is "
        "refused. Without it: what has the least bound on the error.",
        examples=[0.1],
    )
    title: ClassVar[str] = "phased SGD in one pass, noise on the average of each phase"
    about: ClassVar[str] = (
        "Stochastic convex optimisation over a box, an l2 ball, an lp ball with p above 2, or any "
        "set with a projection, of streams too large to keep: each record is read once, state does "
        "not grow, and a model is released whenever the records have doubled."
    )
    source: ClassVar[str] = "Feldman, Koren & Talwar 2020; Bassily, Guzman & Nandi 2022 (p > 2)"
    noises: ClassVar[tuple[str, ...]] = PHASED_NOISES

    def courses(self, terms: Terms) -> Mapping[tuple[str, str], Callable[[], Course]]:
        """See OnePassModel."""
        names = self.noises_asked(terms)
        return {("phased", name): partial(self._course, terms, name) for name in names}

    def _course(self, terms: Terms, noise: str) -> Phased:
        convex_set = self.bounded_set
        if not convex_set.projects:
            raise ConfigError(
                "model.set", convex_set.name, "has no projection, which optimize.phased_sgd needs."
            )
        origin = np.zeros(convex_set.dimension)
        radius, distance = convex_set.farthest(origin), convex_set.farthest(convex_set.start())
        if not distance > 0:
            raise ConfigError("model.set", self.set, "must be more than one point.")
        glms = self.glms(convex_set, radius)
        budget = budget_for(noise, terms.epsilon, terms.delta)
        ratio = noise_scale_for(1, 1.0, budget)
        step = None if self.step is None else float(self.step)

        def run(records: int) -> PhasedRun:
            glm = glms(1.0)
            if self.smooths:
                root = (records / 6 + 16 * glm.dimension * ratio * ratio) ** 0.5
                eta = 2 * distance / (glm.lipschitz * root) if step is None else step
                # eta <= 8 / beta for beta = A^2 / g; rounded up, so that it holds in doubles.
                glm = glms(eta * glm.reach * glm.reach / 8 * (1 + 2.0**-30))
            return phased_run(glm, convex_set, records, noise, budget, step, distance)

        runs = tuple(run(self.records << k) for k in range(MOST_RUNS))
        return Phased(convex_set, runs, self.records)
