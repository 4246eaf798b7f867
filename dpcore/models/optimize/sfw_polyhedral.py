"""``optimize.sfw_polyhedral`` in a config."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.boxes import Simplex
from weir.dpcore.models.fields import ConvexSetSpec, algorithm_field
from weir.dpcore.models.optimize.capped import capped, capped_notes
from weir.dpcore.models.optimize.course import MOST_RUNS, OnePassAlgorithm
from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.one_pass_model import OnePassModel, Phases
from weir.dpcore.models.optimize.one_sample import OneSample, OneSampleRun
from weir.dpcore.models.optimize.predicted import tree_error, tree_guess
from weir.dpcore.models.optimize.sfw import Sfw, TreeRun
from weir.dpcore.models.optimize.tree import budget_for
from weir.dpcore.models.optimize.vertices import VertexChoice
from weir.dpcore.pricing.calibration import round_up
from weir.dpcore.pricing.noises import fine_enough
from weir.dpcore.pricing.terms import Terms

FORMS = ("projected", "tree", "one_sample")
Form = Annotated[
    Literal["projected", "tree", "one_sample"], Says(f"must be one of {', '.join(FORMS)}.")
]
NARROW = 16
"""Features up to which steps are projected by default."""
NODES = ("gaussian", "discrete_gaussian")
"""Noises of projected steps."""


class SfwPolyhedralModel(OnePassModel):
    """Stochastic Frank-Wolfe over a polytope whose vertices are chosen privately."""

    algorithm: Literal["optimize.sfw_polyhedral"] = algorithm_field("optimize.sfw_polyhedral")
    set: ConvexSetSpec = Field(
        default={"l1_ball": 2.0},
        description="Where the coefficients lie, in scaled units: {l1_ball: r}, {simplex: 1} or "
        "{polytope: {vertices: [...]}}. Without it: {l1_ball: 2}.",
        examples=["{l1_ball: 2}"],
    )
    form: Form | None = Field(
        default=None,
        description="projected (gradient steps with noise, projected and capped, over an l1_ball "
        "or a simplex; features are shortened in l2, the squared loss is Huber's of width 1; needs "
        "delta), tree (vertices are chosen, by variance-reduced gradients over trees of phases) or "
        "one_sample (the paper's, a step a record: its models were further away at 10,000 "
        f"records). Without it: projected of at most {NARROW} features, else tree.",
        examples=["tree"],
    )
    phases: Phases | None = Field(
        default=None,
        description="R of the tree: trees of a run, each of twice the steps. Without it: what "
        "serves every run best where features are evenly spread; of form: projected log2(records) "
        "- 7, from 1 to 7.",
        examples=[2],
    )

    title: ClassVar[str] = (
        "one-pass stochastic Frank-Wolfe over an l1 ball, a simplex or a polytope"
    )
    about: ClassVar[str] = (
        "Stochastic convex optimisation over an l1 ball, a simplex or a polytope, of streams too "
        "large to keep: error grows with the logarithm of the number of vertices. Each record is "
        "read once, and a model is released whenever the records have doubled. form: tree serves "
        "delta = 0."
    )
    source: ClassVar[str] = (
        "Asi, Feldman, Koren & Talwar 2021 (tree); Bassily, Guzman & Nandi 2022 (Algorithm 2)"
    )
    noises: ClassVar[tuple[str, ...]] = ("gumbel", *NODES)

    @property
    def dual(self) -> float:
        """q = infinity, of p = 1; of projected steps 2."""
        return 2.0 if self.chosen_form == "projected" else math.inf

    @property
    def chosen_form(self) -> str:
        """The form that is asked for, or the default.

        Raises:
          ConfigError: steps are to be projected where they cannot be.
        """
        convex_set = self.bounded_set
        fits = isinstance(convex_set, L1Ball | Simplex) and self.most_filled is None
        fits = fits and convex_set.diameter > 0
        if self.form == "projected" and not fits:
            raise ConfigError(
                "model.form",
                self.form,
                "is for an l1_ball or a simplex of at most 4,096 features; take form: tree.",
            )
        if self.form is None:
            return "projected" if fits and len(self.features) <= NARROW else "tree"
        return self.form

    def courses(self, terms: Terms) -> Mapping[tuple[str, str], Callable[[], OnePassAlgorithm]]:
        form = self.chosen_form
        names: tuple[str, ...] = NODES if form == "projected" else ("gumbel",)
        if terms.noise is not None:
            if terms.noise not in names:
                raise ConfigError(
                    "mechanism.noise",
                    terms.noise,
                    f"is not for form: {form}, which takes {' or '.join(names)}; set model.form: "
                    f"{'tree' if form == 'projected' else 'projected'}, or leave it out.",
                )
            names = (str(terms.noise),)
        if form != "projected":
            return {(form, "gumbel"): partial(self._course, terms, form)}
        if terms.delta == 0:
            raise ConfigError(
                "privacy.delta",
                terms.delta,
                "must be above 0 for form: projected; set 1e-6, or model.form: tree, which serves "
                "delta = 0.",
            )
        names = fine_enough(names, terms.delta)
        return {(form, name): partial(self._capped, terms, name) for name in names}

    def _capped(self, terms: Terms, noise: str) -> Sfw:
        convex_set = self.bounded_set
        radius = convex_set.farthest_in(2.0)
        return capped(self, convex_set, radius, terms, noise, self.phases)

    def notes(self, program: OnePass) -> Iterator[str]:
        yield from super().notes(program)
        if self.chosen_form == "projected":
            yield from capped_notes(self.loss)

    def _course(self, terms: Terms, form: str) -> OnePassAlgorithm:
        convex_set = self.bounded_set
        vertices = VertexChoice(convex_set)
        glms = self.glms(convex_set, vertices.radius)
        pure = terms.delta == 0
        budget = PrivacyLoss("pure", terms.epsilon)
        if not pure:
            budget = budget_for("discrete_gaussian", terms.epsilon, terms.delta)

        def one(records: int) -> OneSampleRun:
            def of(width: float) -> OneSampleRun:
                m, count = vertices.diameter, vertices.count
                return OneSampleRun.calibrated(glms(width), m, count, records, pure, budget.value)

            return self.best_width(of)

        if form == "tree":
            make = partial(chosen_run, vertices, budget)
            # Rehearsed, R is one or two too many here: benchmarks/studies/one_pass_phases.py.
            runs = self.trees(convex_set, vertices.radius, make, self.phases, rehearse=False)
            return Sfw(convex_set, runs, self.records, vertices)
        sizes = [self.records << k for k in range(MOST_RUNS)]
        return OneSample(convex_set, tuple(map(one, sizes)), self.records, vertices)


def chosen_run(
    vertices: VertexChoice, budget: PrivacyLoss, glm: Glm, batch: int, phases: int
) -> TreeRun:
    """A run whose leaves choose vertices.

    A leaf's scores move by a range of M times what ``TreeRun.means`` says. lambda_r is the largest
    sqrt(leaves / (8 rho)) times that, in pure epsilon leaves / epsilon times it.
    """
    m, pure = vertices.diameter, budget.kind == "pure"
    run = TreeRun(glm, m, batch, phases, None, None, (), pure, 0.0, 0.0)
    scales = []
    for r in range(1, phases + 1):
        if pure:
            scale = max(leaves * moved for leaves, moved in run.means(r)) * m / budget.value
        else:
            most = max(math.sqrt(leaves) * moved for leaves, moved in run.means(r))
            scale = most * m / math.sqrt(8 * budget.value)
        scales.append(round_up(scale * (1 + 2.0**-30)))
    chosen = scales[-1] * math.log(vertices.count)
    about = (glm, m, batch, phases, 0.0, chosen)
    return replace(
        run, scales=tuple(scales), predicted=tree_error(*about), guess=tree_guess(*about)
    )
