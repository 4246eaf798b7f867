"""``online.pocg`` in a config."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dpcore.accounting.calibrate import gdp_mu
from dpcore.errors import ConfigError
from dpcore.geometry.parse import parse_set
from dpcore.models.fields import ALGORITHM
from dpcore.models.losses import parse_loss
from dpcore.models.online.implicit_descent import ImplicitDescent
from dpcore.models.online.pocg import Pocg
from dpcore.models.online.section import GradientModel
from dpcore.models.scaling import Scaling
from dpcore.pricing.price import Alternative
from dpcore.pricing.terms import Terms

MECHANISM = "output_perturbation"


class PocgModel(GradientModel):
    """Implicit gradient descent, noise on every iterate."""

    algorithm: Literal["online.pocg"] = Field(description=ALGORITHM, examples=["online.pocg"])

    title: ClassVar[str] = "implicit gradient descent, noise on every iterate"
    about: ClassVar[str] = (
        "The baseline: steps shrink as 1/t, every released iterate has noise of its own, and the "
        "iterates without noise never leave."
    )
    source: ClassVar[str] = "Jain, Kothari & Thakurta 2012"
    noises: ClassVar[tuple[str, ...]] = ("gaussian",)
    event_only: ClassVar[str] = (
        "every iterate has noise of its own, and what several ticks of a user do to the iterates "
        "after them is not derived; take online.follow_the_leader"
    )

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
        descent = ImplicitDescent(
            set=parse_set(self.set, self.dimension),
            curvature=self.mu(terms),
            centre=self.middle,
            loss=parse_loss(self.loss),
            gradient_bound=float(self.clip.gradient),
            reach=math.sqrt(self.dimension),
            cap=self.cap,
            horizon=terms.horizon,
            relation=terms.relation,
            budget=gdp_mu(terms.epsilon, terms.delta),
        )
        scaling = Scaling.of(self.features, self.targets[0], self.public_ranges)
        program = Pocg(scaling, descent, self.intercept)
        whole = program.loss(None).epsilon(terms.delta)
        first = float(descent.sigma(np.zeros(1, dtype=np.int64))[0])
        state, named_worst = program.state_bytes(), {"theta over=all": first}
        chosen = Alternative(MECHANISM, "gaussian", True, 1.0, state, whole, named_worst)
        return program, (chosen,)
