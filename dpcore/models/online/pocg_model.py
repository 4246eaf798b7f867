"""``online.pocg`` in a config."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from weir.dpcore.accounting.calibrate import gdp_mu
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.fields import ALGORITHM
from weir.dpcore.models.losses import parse_loss
from weir.dpcore.models.online.implicit_descent import ImplicitDescent, smoothness_of
from weir.dpcore.models.online.pocg import Pocg
from weir.dpcore.models.online.pull import pull_of_iterates
from weir.dpcore.models.online.section import GradientModel
from weir.dpcore.models.people import rows_of_user
from weir.dpcore.models.scaling import Scaling
from weir.dpcore.models.words import centre_words
from weir.dpcore.pricing.calibration import Alternative
from weir.dpcore.pricing.terms import Terms
from weir.dpcore.program import Program
from weir.dpcore.words import number

MECHANISM = "output_perturbation"


class PocgModel(GradientModel):
    """Implicit gradient descent, noise on every iterate."""

    algorithm: Literal["online.pocg"] = Field(description=ALGORITHM, examples=["online.pocg"])

    title: ClassVar[str] = "implicit gradient descent, noise on every iterate"
    about: ClassVar[str] = (
        "The baseline: every released iterate has noise of its own, and the iterates without noise "
        "never leave. Steps shrink as 1/t; or, where expect.events is given and curvature is not, "
        "as one over its root, and the mean of the noisy iterates is played."
    )
    source: ClassVar[str] = "Jain, Kothari & Thakurta 2012"
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    event_only: ClassVar[str] = ""

    def compile(self, terms: Terms) -> tuple[Pocg, tuple[Alternative, ...]]:
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
        return program, (chosen,)

    def fades(self, terms: Terms) -> bool | None:
        """See Predictor."""
        return None if self.curvature is not None else terms.events is not None

    def spaced(self, program: Program, every: int) -> Program | None:
        """See Algorithm."""
        return program.spaced(every) if isinstance(program, Pocg) else None

    def own_facts(self, program: Program) -> Iterator[tuple[str, str]]:
        """Curvature, what is played, what a user counts for, and regret."""
        descent = program.descent if isinstance(program, Pocg) else None
        if descent is not None and descent.rows > 1:
            yield "one user counts for", f"{descent.rows:,} events that change"
        if descent is None or descent.fading is None:
            yield from super().own_facts(program)
            return
        around = centre_words(descent.curvature, self.centre).partition(" a tick")[2]
        pull = (
            f"{number(descent.curvature)} and {number(descent.fading)} times the root of the ticks"
        )
        yield "curvature", f"{pull}, in all{around}: it fades beside the events"
        yield (
            "played",
            "the mean of the noisy iterates, later ones counting for more, drawn to the centre by "
            "what its noise is worth",
        )
        yield "regret", program.regret if isinstance(program, Pocg) else "-"
