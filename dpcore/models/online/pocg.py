"""Implicit gradient descent with noise on every iterate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.accounting.contributions import Pattern
from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.algorithm import Compiled
from weir.dpcore.arrays import Floats, Ints, arrays_of
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.leaves.rows import RowLeaf
from weir.dpcore.models.fields import algorithm_field
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.kit.rows import (
    ScaledRows,
    Scaling,
    model_outputs,
    names_of_models,
    released_models,
)
from weir.dpcore.models.online.implicit_descent import DescentState, ImplicitDescent, smoothness_of
from weir.dpcore.models.online.regularisation import pull_of_iterates
from weir.dpcore.models.online.section import GradientModel
from weir.dpcore.models.users import rows_of_user
from weir.dpcore.models.words import centre_words
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import NoiseOf, OutputInfo, Released
from weir.dpcore.words import number

NAME = "online.pocg"


@dataclass(frozen=True)
class Pocg(ScaledRows):
    """A linear model per key that follows implicit gradient steps and is noised when released.

    At tick t theta_t is released: a noised iterate, made from earlier ticks' events. Noise of its
    own on each of T iterates costs a factor sqrt(T) that a continual sum does not pay.

    Formal guarantees: those of ``descent``. Rows are bounded by ``scaling`` to [-1, 1], so that
      ||a||_2 <= sqrt(d). theta and coefficients are post-processing.

    Attributes:
      scaling: the public ranges. descent: the algorithm. intercept: whether theta ends with one.
      pattern: of a user's cells, where the unit is one.
    """

    scaling: Scaling
    descent: ImplicitDescent
    intercept: bool
    pattern: Pattern | None = None

    @property
    def dimension(self) -> int:
        """d, length of theta."""
        return self.descent.dimension

    @property
    def doubles(self) -> tuple[str, ...]:
        """Noise of iterates is on no grid."""
        return ("online.pocg",)

    @property
    def cap(self) -> int:  # type: ignore[override]  # a field of other programs
        """Rows a key and tick."""
        return self.descent.cap

    @property
    def algorithm(self) -> str:
        """Its name in the config."""
        return NAME

    @property
    def curvature(self) -> float:
        """mu, which every tick adds."""
        return self.descent.curvature

    @property
    def regret(self) -> str:
        """What is known about its regret, for people."""
        if self.descent.fading is not None:
            return (
                "Noise on every iterate, of which the mean is released: its standard deviation "
                "falls as one over the root of the ticks, and so does the regularisation; regret "
                "grows as sqrt(T) times a power of the dimension."
            )
        return (
            "Noise on every iterate: its standard deviation falls as sqrt(T) / t, so that regret "
            "grows as sqrt(T) times a power of the dimension, whatever the window."
        )

    def init(self, n_keys: int) -> DescentState:
        """Every key starts at the set's public start."""
        return self.descent.init(n_keys)

    def step(
        self, state: DescentState, leaves: tuple[RowLeaf, ...], noise: NoiseOf
    ) -> tuple[DescentState, tuple[Floats, ...]]:
        """A stride -> new state, and theta (n, K, d) played at each tick."""
        new, played = self.descent.step(state, leaves, noise(0))
        return new, (played,)

    def solve(self, noisy: tuple[Floats, ...], ticks: Ints) -> tuple[Released, ...]:
        """The model in scaled and in the user's units."""
        theta, labels = noisy[0], self.descent.loss.labels
        return released_models(theta, self.scaling.coefficients(theta, self.intercept, labels))

    def loss(self, ticks: int | None) -> PrivacyLoss:
        """Loss of one record against everything released within ``ticks`` of its arrival; of a
        user in a period, from the period's last tick on, and before it."""
        return self.descent.privacy(ticks if self.pattern is None else self.pattern.rows(ticks))

    def every_nth(self, every: int) -> Pocg:
        """Compiled for ticks ``every`` times as long: the same, published so seldom. Iterates step
        at every tick, so that a tick has its share of the pull."""
        own = self.descent
        fading = None if own.fading is None else own.fading / math.sqrt(every)
        descent = replace(
            own,
            curvature=own.curvature / every,
            fading=fading,
            horizon=own.horizon * every,
            every=every,
        )
        return replace(self, descent=descent)

    def describe(self, ticks: Ints) -> tuple[OutputInfo, ...]:
        """What is released. The stddev after a projection is not additive: NaN."""
        moved = float(self.descent.sensitivity(np.zeros(1, dtype=np.int64))[0])
        return model_outputs(*names_of_models(self.scaling, self.intercept), moved)

    def state_bytes(self) -> int:
        """Bytes of state per key."""
        return sum(array.nbytes for array in arrays_of(self.init(1)))

    def canonical(self) -> Mapping[str, Any]:
        """Every public number that shapes a release."""
        return {
            "program": NAME,
            "scaling": self.scaling.canonical(),
            "intercept": self.intercept,
            "descent": self.descent.canonical(),
        }


MECHANISM = "output_perturbation"


class PocgModel(GradientModel):
    """Implicit gradient descent, noise on every iterate."""

    algorithm: Literal["online.pocg"] = algorithm_field("online.pocg")

    title: ClassVar[str] = "implicit gradient descent, noise on every iterate"
    about: ClassVar[str] = (
        "The baseline: every released iterate has noise of its own, and the iterates without noise "
        "never leave. Steps shrink as 1/t; or, where expect.events is given and curvature is not, "
        "as one over its root, and the mean of the noisy iterates is released."
    )
    source: ClassVar[str] = "Jain, Kothari & Thakurta 2012"
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> Compiled:
        """There is one way to run it.

        Raises:
          ConfigError: what it cannot serve: a clock without end, delta = 0, a loss with corners, a
            set without projection, a continual sum that was named.
        """
        named, noise = terms.continual_sum, terms.noise
        if named is not None:
            raise ConfigError(
                "mechanism.continual_sum", named, f"is not for {self.name}; remove it."
            )
        if noise not in (None, "gaussian"):
            raise ConfigError("mechanism.noise", noise, f"is not for {self.name}: gaussian only.")
        if terms.horizon is None:
            raise ConfigError(
                "clock.end", None, f"is needed: {self.name} spreads its budget over all ticks."
            )
        person, budget = terms.person, gdp_mu(terms.epsilon, terms.delta)
        pattern = None if person is None else person.pattern
        rows, spread = 1, None
        if person is not None and pattern is not None:
            rows = terms.factor * rows_of_user(pattern, person.caps.events, "gdp")
        if terms.lasting is not None:
            seen = terms.lasting if pattern is None else pattern.rows(terms.lasting)
            spread = None if seen is None else min(seen, terms.horizon)
        convex_set, loss = parse_set(self.set, self.dimension), parse_loss(self.loss)
        curvature, fading = self.mu(terms), None
        if self.curvature is None and terms.events is not None:
            felt = 2 * rows * float(self.clip.gradient) * math.sqrt(self.dimension) / budget
            curvature, fading = pull_of_iterates(
                terms.events,
                len(self.features),
                self.intercept,
                smoothness_of(loss),
                felt,
                convex_set.diameter / 2,
            )
        descent = ImplicitDescent(
            set=convex_set,
            curvature=curvature,
            centre=self.middle,
            loss=loss,
            gradient_bound=float(self.clip.gradient),
            reach=math.sqrt(self.dimension),
            cap=self.cap,
            horizon=terms.horizon,
            relation=terms.cell_relation,
            budget=budget,
            fading=fading,
            rows=rows,
            spread=spread,
        )
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        program = Pocg(scaling, descent, self.intercept, pattern)
        whole = program.loss(None).epsilon(terms.delta)
        first = float(descent.sigma(np.zeros(1, dtype=np.int64))[0])
        state, named_worst = program.state_bytes(), {"theta over=all": first}
        chosen = Alternative(MECHANISM, "gaussian", True, 1.0, state, whole, named_worst)
        return self.compiled(program, (chosen,))

    def fades(self, terms: Terms) -> bool | None:
        return None if self.curvature is not None else terms.events is not None

    def own_facts(self, program: Pocg) -> Iterator[tuple[str, str]]:
        """Curvature, what is played, what a user counts for, and regret."""
        descent = program.descent
        if descent.rows > 1:
            yield "one user counts for", f"{descent.rows:,} events that change"
        if descent.fading is None:
            yield from super().own_facts(program)
            return
        around = centre_words(descent.curvature, self.centre).partition(" a tick")[2]
        pull = (
            f"{number(descent.curvature)} and {number(descent.fading)} times the root of the ticks"
        )
        yield "curvature", f"{pull}, in all{around}: it fades relative to the events"
        yield (
            "played",
            "the mean of the noisy iterates, later ones counting for more, drawn to the centre by "
            "what its noise is worth",
        )
        yield "regret", program.regret
