"""Fields and words of regressions from running moments, and the choice of their sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import numpy as np
from pydantic import Field

from weir.dpcore.algorithm import Error, Reading, Shown
from weir.dpcore.arrays import Ints
from weir.dpcore.config.section import NotNegative, Says, Section
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.continual.unit import NOISE_OF
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.fields import Count, Length, SquaredLoss, Tolerance
from weir.dpcore.models.kit.filter import constant_loss
from weir.dpcore.models.model import Model
from weir.dpcore.models.moments import SLACK, Moments, leaf_of
from weir.dpcore.models.regression.quadratic import ADASSP, Ridge, compare_clips, compare_ridges
from weir.dpcore.models.words import FEWER, OWN_UNITS, hidden, noisy_excess
from weir.dpcore.neighbours import Family
from weir.dpcore.pricing.alternatives import Offer, best_sum
from weir.dpcore.pricing.calibration import Alternative, budget_of, calibrated, share
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import OutputInfo, Program

P = TypeVar("P", bound=Program)


def choose_moments(
    over: int | None,
    terms: Terms,
    moments: Moments,
    build: Callable[..., P],
    scored: float = 0.0,
) -> tuple[P, tuple[Alternative, ...]]:
    """A program over the best continual sum for its moments: its error is that of a coordinate.

    Args:
      build: the sum that models are made of, and one more of the same leaves if they are scored.
      scored: share of the budget for that one.

    Raises:
      ConfigError: nothing (or not what the user named) can serve the plan.
    """
    ticks, leaf = terms.ticks(), leaf_of(moments, over, terms)

    def of_share(mechanism: ContinualSum, fraction: float) -> ContinualSum:
        noise = NOISE_OF[mechanism.loss(1).kind]
        budget = budget_of(noise, terms.epsilon, terms.delta)
        return calibrated(mechanism.name, leaf, terms, share(budget, fraction))

    def offer(mechanism: ContinualSum) -> Offer[P]:
        parts = [mechanism]
        if scored:
            parts = [of_share(mechanism, 1 - scored), of_share(mechanism, scored)]
        worst = float(np.sqrt(np.max(parts[0].unit_variance * parts[0].factor(ticks, over))))
        named = {f"moments over={'all' if over is None else over}": worst}
        return Offer(build(*parts), worst**2, named)

    return best_sum(leaf, terms, offer)


EVENTS = 10_000
"""Events in the span at which the error of a model is predicted."""

WORTH = 1.5
"""Times less noise that a bound must save to be worth a sentence."""

CLIPS = (0.8, 0.6)
"""Of the default clip: those that are priced next to it."""

FITTED = (
    "Every line is what was released; the events are not in this page. theta is the model of the "
    "events so far, with features and target scaled to the public ranges; coefficients is the same "
    "model in the units of the data."
)
BARE = "Models have no margin of error: the noise is in the steps of the solver."

SO_FAR = Shown("coefficients in scaled units, of the events so far", role="scaled_model")
"""The release ``theta``."""


class MomentsClip(Section):
    """Bounds of what one event may contribute, in scaled units. Public: never from the data."""

    features: Length | None = Field(
        default=None,
        description="X: an event whose features and constant have a larger l2 norm is scaled down "
        "to it as a whole, target and all, so that it counts for less and moves no model. Noise "
        "grows with its square. Without it: the length of an event spread evenly over the ranges, "
        "the root of a third of the features and one for the constant.",
        examples=[1.0],
    )
    target: Length | None = Field(
        default=None,
        description="Y: targets (the vector of them, where there are several) of a larger l2 norm "
        "are shortened to it. Without it: the root of the number of targets, which none exceeds.",
        examples=[1.0],
    )


RidgeRule = Annotated[
    Literal["default", "adassp"], Says("must be a number, 0 or more, or default or adassp.")
]


class MomentsModel(Model):
    """A regression whose model is solved from noisy running moments."""

    neighbours: ClassVar[Family] = Family(
        ("first", "window", "powers"), "canary", "products are largest for the longest row"
    )

    loss: SquaredLoss = Field(default="squared", description="squared.", examples=["squared"])
    clip: MomentsClip = Field(
        default=MomentsClip(),
        description="Bounds of the length of one event's features and target.",
        examples=["{features: 1.0}"],
    )
    ridge: NotNegative | RidgeRule | None = Field(
        default=None,
        description="Weight of the |x|^2 that is added to the sum of squared errors, in events of "
        "scaled units: what noise does to directions that few events show fades with it. Without "
        "it: for each direction by itself as much as the noise is worth there, which fades as "
        "events come, as default says "
        "too; adassp: one weight for all, less what is certain of the least eigenvalue (Wang "
        "2018); 0 adds none.",
        examples=[10.0, "adassp"],
    )
    tolerance: Tolerance = Field(
        default=1e-9,
        description="Gap at which the accelerated solver stops, relative to the objective's size.",
        examples=[1e-9],
    )
    steps: Count | None = Field(
        default=None,
        description="Most steps of the solver. Without it: its own rule.",
        examples=[1000],
    )
    statistics: bool = Field(
        default=False,
        description="Whether the noisy moments themselves are released too, as moments.",
        examples=[True],
    )

    reading: ClassVar[Reading] = Reading(
        FITTED,
        "Margins ({band} standard deviations on either side) cover the model that plain least "
        "squares over the set finds on the same events, in 95 of 100 cases, each coefficient by "
        "itself, large or small: what the known noise does, and what a ridge or the set took. Of "
        "what noise still hides they say only that it lies in the set. They do not say how well "
        "events tell the truth.",
        BARE,
    )
    outputs: ClassVar[Mapping[str, Shown]] = {
        "theta": SO_FAR,
        "coefficients": OWN_UNITS,
        "band": Shown("stddev of a prediction, from the noise"),
        "projected": Shown("coefficients of the projected features, scaled units"),
        "mse": Shown("mean squared error on those events", role="score", between=(0.0, None)),
        "r2": Shown("share of the variance explained", role="score", between=(None, 1.0)),
        "moments": Shown("noisy sums of products of columns", role="trace"),
    }

    def projectable_set(self) -> ConvexSet:
        """The set.

        Raises:
          ConfigError: it has no projection.
        """
        result = parse_set(self.set, self.dimension)
        if not result.projects:
            raise ConfigError("model.set", self.set, f"has no projection, which {self.name} needs.")
        return result

    @property
    def weight_of_ridge(self) -> Ridge:
        """The ridge; None: the default."""
        if self.ridge is None or self.ridge == "default":
            return None
        return ADASSP if self.ridge == ADASSP else float(self.ridge)

    def moments(self, squares: bool = False, typical: bool = False) -> Moments:
        """What a leaf holds, within its bounds; ``squares``: with the sum of squared targets.
        ``typical``: without a clip events are held to the length that is typical."""
        d, k = self.dimension, len(self.targets)
        reach, height = self.clip.features, self.clip.target
        if reach is None and typical:
            reach = self.typical
        return Moments(
            d,
            k,
            squares,
            math.sqrt(d) * SLACK if reach is None else min(float(reach), math.sqrt(d) * SLACK),
            math.sqrt(k) * SLACK if height is None else min(float(height), math.sqrt(k) * SLACK),
        )

    @property
    def typical(self) -> float:
        """Length of an event whose features are spread evenly over their ranges."""
        return math.sqrt(len(self.features) / 3 + self.intercept)

    def clips(self, program: Any) -> dict[str, float | None]:
        """See Predictor; without a clip events have the typical length at most."""
        moments = program.rows.moments
        longest = math.sqrt(moments.features) * SLACK
        reach = float(moments.reach)
        return {"features": reach if reach < longest else None, "target": self.clip.target}

    def expected_error(self, info: OutputInfo, ticks: Ints) -> Error:
        """A model's: the stddev of a coefficient, scaled units, at EVENTS events spread evenly over
        their ranges.

        Their moments are a third of EVENTS along every feature, and noise of stddev s in a sum
        moves the solution by s over that.
        """
        worst = info.inner_stddev
        if info.name == "theta" and not math.isnan(worst):
            return Error(3 * worst / EVENTS if math.isfinite(worst) else math.nan, "*")
        return super().expected_error(info, ticks)

    def doubts(self, program: Any, terms: Terms) -> Iterator[str]:
        """See Algorithm: noise of the worst model that may hide it."""
        yield from super().doubts(program, terms)
        over = getattr(self, "over", None)
        span = over if isinstance(over, int) else terms.horizon
        if terms.events is None or span is None:
            return
        worst = next(x.inner_stddev for x in program.describe(terms.ticks()) if x.name == "theta")
        shape = (len(self.features), self.intercept, worst, terms.events * span)
        yield from hidden(noisy_excess(*shape), constant_loss(False, 1), FEWER)

    def own_facts(self, program: Any) -> Iterator[tuple[str, str]]:
        """How models are solved for, and what is kept."""
        yield "solved", self.solver_words()
        yield "kept", f"{program.dimension:,} running sums a key; no row"

    def facts(self, program: Any, noise: Mapping[str, float]) -> Iterator[tuple[str, str]]:
        """See Algorithm; and other ridges and clips next to its own."""
        yield from super().facts(program, noise)
        std = max((item for item in noise.values() if math.isfinite(item)), default=0.0)
        if program.projected or not std > 0:
            return
        chosen = self.weight_of_ridge
        reported = compare_ridges(chosen, EVENTS, std, self.projectable_set())
        yield "ridges", f"{reported} (predicted excess of the mean squared error, scaled units*)"
        moments = program.rows.moments
        reported = compare_clips(moments, len(self.features), self.intercept, EVENTS, std)
        yield "clips", f"{reported} (clip.features, predicted std of a coefficient of theta*)"

    def solver_words(self) -> str:
        """How far, or by what."""
        return f"to a relative gap of {self.tolerance:g}"

    def notes(self, program: Any) -> Iterator[str]:
        yield (
            f"* at {EVENTS:,} events in the span, spread evenly over the ranges; with n events it "
            f"is {EVENTS:,} / n times this, and more where features hardly vary or go together. "
            "Every release comes with a margin of its own."
        )

    def length_notes(self, moments: Moments) -> Iterator[str]:
        """What other bounds on the length of events would cost, where none is set."""
        if self.clip.features is not None:
            return
        here = moments.sensitivity("replace_one")

        def times(reach: float) -> float:
            return here / replace(moments, reach=reach).sensitivity("replace_one")

        whole = math.sqrt(self.dimension) * SLACK
        if moments.reach < whole:
            lengths = [self.typical * share for share in CLIPS]
            priced = [f"{length:.3g} has {times(length):.2g}" for length in lengths]
            yield (
                f"Without model.clip.features events longer than {moments.reach:.3g}, the length "
                "of one spread evenly over the ranges, are shortened and count for less. A clip "
                f"of {', of '.join(priced)} times less noise; of {whole:.3g}, which no event "
                f"exceeds, {1 / times(whole):.2g} times more."
            )
        elif times(self.typical) >= WORTH:
            yield (
                f"Without model.clip.features the noise covers events of length "
                f"{moments.reach:.3g}, every feature at an end of its range. Events spread evenly "
                f"over their ranges have length {self.typical:.3g}: a clip there has "
                f"{times(self.typical):.2g} times less noise, and longer events count for less."
            )
