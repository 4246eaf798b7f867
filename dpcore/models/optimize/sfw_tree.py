"""``optimize.sfw_tree`` in a config."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from weir.dpcore.config.section import Says
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.balls import L2Ball
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.norm_balls import LpBall
from weir.dpcore.models.fields import ConvexSetSpec, algorithm_field
from weir.dpcore.models.optimize.capped import capped, capped_notes, noisy_run
from weir.dpcore.models.optimize.course import OnePassAlgorithm
from weir.dpcore.models.optimize.one_pass import OnePass
from weir.dpcore.models.optimize.one_pass_model import OnePassModel, Phases
from weir.dpcore.models.optimize.sfw import Sfw
from weir.dpcore.models.optimize.tree import NODE_NOISES
from weir.dpcore.pricing.terms import Terms

NoiseName = Annotated[
    Literal["gaussian", "discrete_gaussian", "generalised_gaussian"],
    Says(f"must be one of {', '.join(NODE_NOISES)}."),
]


TreeForm = Annotated[
    Literal["projected", "frank_wolfe"], Says("must be one of projected, frank_wolfe.")
]


class SfwTreeModel(OnePassModel):
    """Noisy stochastic Frank-Wolfe over trees of phases, 1 < p <= 2."""

    algorithm: Literal["optimize.sfw_tree"] = algorithm_field("optimize.sfw_tree")
    set: ConvexSetSpec = Field(
        default={"l2_ball": 2.0},
        description="Where the coefficients lie, in scaled units: {lp_ball: {radius: r, p: 1.5}} "
        "with p up to 2, or {l2_ball: r}. Without it: {l2_ball: 2}.",
        examples=["{lp_ball: {radius: 2, p: 1.5}}"],
    )
    phases: Phases | None = Field(
        default=None,
        description="R: trees of a run, each of twice the steps. Without it: what "
        "serves every run best on a public problem of evenly spread features, tried in a dry run; "
        "of form: projected log2(records) - 7, from 1 to 7.",
        examples=[2],
    )
    form: TreeForm | None = Field(
        default=None,
        description="projected (gradient steps, projected and capped; the squared loss is Huber's "
        "of width 1) or frank_wolfe (the paper's steps towards corners, which end inside a set "
        "only after very many). Without it: projected over an l2_ball of at most 4,096 features, "
        "else frank_wolfe.",
        examples=["frank_wolfe"],
    )
    noise: NoiseName | None = Field(
        default=None,
        description="gaussian, discrete_gaussian or generalised_gaussian. Without it: what has the "
        "least predicted error.",
        examples=["generalised_gaussian"],
    )

    title: ClassVar[str] = "stochastic Frank-Wolfe in one pass, noisy gradients"
    about: ClassVar[str] = (
        "Stochastic convex optimisation over an lp ball, 1 < p <= 2, of streams too large to keep: "
        "each record is read once, state does not grow, and a model is released whenever the "
        "records have doubled."
    )
    source: ClassVar[str] = "Bassily, Guzman & Nandi 2022 (Algorithm 1)"
    noises: ClassVar[tuple[str, ...]] = NODE_NOISES

    @property
    def dual(self) -> float:
        """q of the set's p."""
        return _exponent(self.bounded_set)[1]

    @property
    def projected(self) -> bool:
        """Whether steps are projected and capped.

        Raises:
          ConfigError: they are asked for where they are not served.
        """
        fits = isinstance(self.bounded_set, L2Ball) and self.most_filled is None
        if self.form == "projected" and not fits:
            raise ConfigError(
                "model.form",
                self.form,
                "is for an l2_ball of at most 4,096 features; take form: frank_wolfe.",
            )
        return fits if self.form is None else self.form == "projected"

    def courses(self, terms: Terms) -> Mapping[tuple[str, str], Callable[[], OnePassAlgorithm]]:
        names = self.noises_asked(terms, self.noise)
        form, make = ("tree", self._course)
        if self.projected:
            form, make = ("projected", self._capped)
        return {(form, name): partial(make, terms, name) for name in names}

    def _course(self, terms: Terms, noise: str) -> Sfw:
        convex_set = self.bounded_set
        p, _ = _exponent(convex_set)
        radius = _radius(convex_set)
        make = partial(noisy_run, 2 * radius, noise, terms)
        runs = self.trees(convex_set, radius, make, self.phases, rehearse=True)
        return Sfw(convex_set, runs, self.records, None)

    def _capped(self, terms: Terms, noise: str) -> Sfw:
        convex_set = self.bounded_set
        return capped(self, convex_set, _radius(convex_set), terms, noise, self.phases)

    def notes(self, program: OnePass) -> Iterator[str]:
        yield from super().notes(program)
        if self.projected:
            yield from capped_notes(self.loss)


def _exponent(convex_set: ConvexSet) -> tuple[float, float]:
    """(p, q) of a ball.

    Raises:
      ConfigError: it is none with 1 < p <= 2.
    """
    if isinstance(convex_set, L2Ball):
        return 2.0, 2.0
    if isinstance(convex_set, LpBall) and convex_set.p <= 2:
        return convex_set.p, convex_set.dual
    raise ConfigError(
        "model.set",
        convex_set.name,
        "must be an l2_ball, or an lp_ball with p up to 2; take optimize.sfw_polyhedral for an "
        "l1_ball, a simplex or a polytope, optimize.phased_sgd for p above 2.",
    )


def _radius(convex_set: ConvexSet) -> float:
    assert isinstance(convex_set, L2Ball | LpBall)
    return convex_set.radius
