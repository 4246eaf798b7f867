"""``optimize.phased_sgd`` in a config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from weir.dpcore.config.section import Positive, Says
from weir.dpcore.continual.unit import noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.boxes import Box
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.models.fields import MOST_ROWS, algorithm_field
from weir.dpcore.models.kit.loss import Huber
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.optimize.adaptive_clipping import ASKED, STAGES, AdaptiveClipping, rungs_for
from weir.dpcore.models.optimize.course import MOST_RUNS, OnePassAlgorithm
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.one_pass_model import OnePassModel
from weir.dpcore.models.optimize.phased import Phased, PhasedRun, phased_run
from weir.dpcore.models.optimize.phased_erm import PhasedErm, erm_run, pieces_of
from weir.dpcore.models.optimize.tree import budget_for
from weir.dpcore.pricing.terms import Terms

PHASED_NOISES = ("gaussian", "discrete_gaussian")
MOST_PASSES = 64
PASSES, KEPT = 8, 1 << 12
"""Where none are given."""
RESIDUAL = 0.5
"""At which form: halving clips residuals of the squared loss: a quarter of the target's range."""
FORMS = ("halving", "learned", "erm")
Form = Annotated[Literal["halving", "learned", "erm"], Says(f"must be one of {', '.join(FORMS)}.")]


Passes = Annotated[
    int, Field(ge=1, le=MOST_PASSES), Says(f"must be a whole number from 1 to {MOST_PASSES}.")
]
Kept = Annotated[
    int, Field(ge=2, le=MOST_ROWS), Says(f"must be a whole number from 2 to {MOST_ROWS:,}.")
]


class PhasedSgdModel(OnePassModel):
    """Phased SGD over any set with a projection: for p >= 2."""

    algorithm: Literal["optimize.phased_sgd"] = algorithm_field("optimize.phased_sgd")
    form: Form | None = Field(
        default=None,
        description="halving (the paper's phases of n/2, n/4, ... records; residuals of the "
        "squared loss are clipped at a quarter of the target's range, as by {huber: 0.5}; the "
        "paper's are not, as by {huber: 100}), learned (four equal phases; an eighth of each says "
        "how large residuals are, and bounds them: the loss is "
        "Huber's, of a width that follows) or erm (halving phases, each gone over model.passes "
        "times: losses with a corner are not smoothed, and any step is private). Without it: "
        "learned for the squared loss in runs of 32 records and more, "
        "halving for others.",
        examples=["learned"],
    )
    step: Positive | None = Field(
        default=None,
        description="eta: the first phase steps by eta / 4, each next by a quarter of that. At "
        "most 8 / beta, beta the smoothness of the loss: a larger one is not private and is "
        "refused. Without it: what has the least bound on the error.",
        examples=[0.1],
    )
    passes: Passes | None = Field(
        default=None,
        description="Of form: erm, over the records of a phase. Above 1 they are kept until it "
        "ends. Without it: 8.",
        examples=[8],
    )
    keep: Kept | None = Field(
        default=None,
        description="Of form: erm with more than one pass: most records of a key that are kept. "
        "Runs double until their first phase has more; later records are not learned from. "
        "Without it: 4096.",
        examples=[4096],
    )
    title: ClassVar[str] = "phased SGD in one pass, noise on the average of each phase"
    about: ClassVar[str] = (
        "Stochastic convex optimisation over a box, an l2 ball, an lp ball with p above 2, or any "
        "set with a projection, of streams too large to keep: each record is read once, state does "
        "not grow, and a model is released whenever the records have doubled."
    )
    source: ClassVar[str] = "Feldman, Koren & Talwar 2020; Bassily, Guzman & Nandi 2022 (p > 2)"
    noises: ClassVar[tuple[str, ...]] = PHASED_NOISES

    def courses(self, terms: Terms) -> Mapping[tuple[str, str], Callable[[], OnePassAlgorithm]]:
        names = self.noises_asked(terms)
        for field in ("passes", "keep"):
            if getattr(self, field) is not None and self.form != "erm":
                raise ConfigError(
                    f"model.{field}", getattr(self, field), "is for model.form: erm; leave it out."
                )
        if self.form == "erm":
            return {("erm", name): partial(self._erm, terms, name) for name in names}
        if self._form(terms) == "learned":
            return {("learned", name): partial(self._learned, terms, name) for name in names}
        return {("phased", name): partial(self._course, terms, name) for name in names}

    @property
    def smaller(self) -> str:
        return "a smaller model.keep"

    def notes(self, program: OnePass) -> Iterator[str]:
        yield from super().notes(program)
        if program.course.canonical()["course"] == "phased" and parse_loss(self.loss).quadratic:
            yield (
                f"Residuals are clipped at {RESIDUAL:g} in scaled units: models are those of "
                f"{{huber: {RESIDUAL:g}}}. Without the clip noise is in proportion to the largest "
                "residual of the set."
            )

    def _form(self, terms: Terms) -> str:
        """The form that is asked for, or the default."""
        if self.form is not None:
            return self.form
        # A run below 32 records has no eighth of a quarter.
        able = self.records >= STAGES * ASKED and self.loss == "squared"
        return "learned" if able else "halving"

    def _where(self) -> tuple[ConvexSet, float, float]:
        """The set, its radius about 0, and D, in l2.

        Raises:
          ConfigError: it has no projection, or is one point.
        """
        convex_set = self.bounded_set
        if not convex_set.projects:
            raise ConfigError(
                "model.set", convex_set.name, "has no projection, which optimize.phased_sgd needs."
            )
        if self.most_filled is not None and not isinstance(convex_set, Box | L2Ball):
            raise ConfigError(
                "model.set",
                convex_set.name,
                f"must be {{l2_ball: r}} or {{box: [low, high]}} over {len(self.features):,} "
                "features: other projections add up all coefficients at every record, and noise "
                "would have to cover the rounding of every such sum. Over an l1_ball, a simplex or "
                "a polytope take optimize.sfw_polyhedral, over an lp_ball with p up to 2 "
                "optimize.sfw_tree.",
            )
        radius, distance = convex_set.reach, convex_set.farthest(convex_set.start())
        if not distance > 0:
            raise ConfigError("model.set", self.set, "must be more than one point.")
        return convex_set, radius, distance

    def _learned(self, terms: Terms, noise: str) -> AdaptiveClipping:
        convex_set, radius, distance = self._where()
        glm = self.glms(convex_set, radius)(1.0)
        budget = budget_for(noise, terms.epsilon, terms.delta)
        step = None if self.step is None else float(self.step)
        ladder = tuple(
            rungs_for(glm, convex_set, self.records << k, noise, budget, step, distance)
            for k in range(MOST_RUNS)
        )
        start = convex_set.start()
        largest = 1.0 + glm.reach * float(np.sqrt(start @ start)) * (1 + 2.0**-30)
        begin = max(
            i for i, item in enumerate(ladder[0]) if i == 0 or item.run.glm.slope >= largest
        )
        runs = tuple(rungs[0].run for rungs in ladder)
        return AdaptiveClipping(convex_set, runs, self.records, ladder, begin)

    def _erm(self, terms: Terms, noise: str) -> PhasedErm:
        convex_set, radius, distance = self._where()
        loss = parse_loss(self.loss)
        features = len(self.features)
        norm, most = float(self.clip.features), self.most_filled
        glm = Glm(loss, features, self.intercept, self.dual, norm, radius, most)
        pieces = pieces_of(loss, glm.slope, self.smooths)
        budget = budget_for(noise, terms.epsilon, terms.delta)
        step = None if self.step is None else float(self.step)
        passes = PASSES if self.passes is None else self.passes
        if most is not None and passes > 1:
            raise ConfigError(
                "model.passes",
                passes,
                f"must be 1 of form: erm over {features:,} features: more passes keep the rows of "
                "a phase, and those of more than 4,096 features are not kept; or take form: "
                "halving, or learned.",
            )
        keep = KEPT if self.keep is None else self.keep
        runs = MOST_RUNS
        if passes > 1:
            runs = min(MOST_RUNS, (2 * keep // self.records).bit_length())
        if not runs:
            raise ConfigError(
                "model.keep",
                keep,
                f"is less than the first phase of the first run has: {self.records // 2:,}; raise "
                "it, or lower model.records, or take model.passes: 1, which keeps none.",
            )
        built = tuple(
            erm_run(
                glm, pieces, convex_set, self.records << k, passes, noise, budget, step, distance
            )
            for k in range(runs)
        )
        held = self.records << (runs - 1) >> 1 if passes > 1 else 1
        return PhasedErm(convex_set, built, self.records, held)

    def _course(self, terms: Terms, noise: str) -> Phased:
        convex_set, radius, distance = self._where()
        glms = self.glms(convex_set, radius)
        budget = budget_for(noise, terms.epsilon, terms.delta)
        ratio = noise_scale_for(1, 1.0, budget)
        step = None if self.step is None else float(self.step)

        def run(records: int) -> PhasedRun:
            glm = glms(1.0)
            if glm.loss.quadratic:  # its slope over the whole set would set the noise
                glm = replace(glm, loss=Huber(RESIDUAL))
            if self.smooths:
                root = (records / 6 + 16 * glm.dimension * ratio * ratio) ** 0.5
                eta = 2 * distance / (glm.lipschitz * root) if step is None else step
                # eta <= 8 / beta for beta = A^2 / g; rounded up, so that it holds in doubles.
                glm = glms(eta * glm.reach * glm.reach / 8 * (1 + 2.0**-30))
            return phased_run(glm, convex_set, records, noise, budget, step, distance)

        runs = tuple(run(self.records << k) for k in range(MOST_RUNS))
        return Phased(convex_set, runs, self.records)
