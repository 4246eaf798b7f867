"""Frank and Wolfe's steps over a polytope, each vertex chosen by the least of noisy scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from numpy.typing import NDArray

from weir.dpcore.accounting.guarantee import LossKind, PrivacyLoss
from weir.dpcore.arrays import Floats
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.blocks.fitter import Draws
from weir.dpcore.models.losses import Squared
from weir.dpcore.models.optimize.candidates import Candidates
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.rows import FINE, Rows
from weir.dpcore.models.optimize.selecting import Selecting
from weir.dpcore.models.optimize.steps import best_steps, gap
from weir.dpcore.pricing.calibration import round_up

COST: Mapping[str, Fraction] = {"gumbel": Fraction(1, 8), "laplace": Fraction(1, 2)}
"""zCDP of one selection, over (range sensitivity / scale)^2: see ``dpcore.noise.selection``."""


@dataclass(frozen=True)
class Selection:
    """Makes fits of T steps: vertex argmin_v <v, grad L(theta_t)> - b noise_v, mu_t = 2 / (t + 2).

    **Formal guarantees**
      Unit: one event. A neighbour swaps at most ``changes`` rows of what is fitted for others (a
        void one among them), or adds or removes as many. L is a sum over rows over the public N.
      Sensitivity: a row moves the score of vertex v by s <v, x> / N, |s| <= ``slope``, so that the
        *range* of the changes of all scores, max_v c_v - min_v c_v, is at most
        2 changes slope diam / N, diam the largest difference of what two vertices predict. The
        slope is enforced: it is clipped (to a lattice), whatever the model and the row are, and one
        that is not finite is 0; of squared losses it follows from bounds that rows are held to, and
        ``slack`` covers what double precision does to their sums.
      Guarantee: a selection costs (D / b)^2 / 8 of zCDP with Gumbel noise (the exponential
        mechanism), (D / b)^2 / 2 with Laplace noise, and D / b of pure epsilon with either; T of
        them, adaptively, T times that. Only the choices are outputs: the model is a function of
        them and of public numbers, and has at most T vertices.
      Error: E gap <= 2 Gamma / (T + 2) + b ln(vertices) with Gumbel noise, whose largest of J has
        mean ln J above its own; b (ln(vertices) + 1) with Laplace noise (a harmonic number).
      The paper prints Laplace noise of scale L1 ||C||_1 sqrt(8 T ln(1/delta)) / (n eps), which
        costs about twice its epsilon where a record is replaced; ``laplace`` has its noise at the
        scale that is paid for here.
      Users: a row's slope is shared by its weight, cut toward zero to the lattice, so that the rows
        of a user in a block move the scores as one row does at most. In j blocks of the fit, j
        times as much (``Presence``).
      Source: Talwar, Thakurta, Zhang (2015), Algorithm 2.

    Attributes:
      linear: what is minimised. size: blocks of a fit. divisor: N. most: rows of a fit, at most.
      changes: rows that a neighbour swaps. steps: T. noise: gumbel or laplace.
      kind: the currency of the budget, zcdp or pure. scale: b, in the units of a mean's scores.
      users: whose rows have a weight of 1 together, at most; 0: each row has it.
    """

    linear: Linear
    size: int
    divisor: float
    most: int
    changes: int
    steps: int
    noise: str
    kind: LossKind
    scale: float
    users: int = 0

    way: ClassVar[str] = "selection"

    @cached_property
    def candidates(self) -> Candidates:
        """The vertices."""
        return candidates_of(self.linear)

    @property
    def dimension(self) -> int:
        """See Fitter."""
        return self.linear.dimension

    @property
    def sizes(self) -> tuple[int, int]:
        """See Fitter: weights of vertices, and sums of moments where the loss is squared."""
        columns = self.candidates.columns
        return columns, columns if self.quadratic else 0

    @property
    def quadratic(self) -> bool:
        """Whether gradients follow from moments of the rows, which have no weights."""
        return isinstance(self.linear.loss, Squared) and not self.users

    @property
    def work(self) -> int:
        """See Fitter."""
        return 2 * self.most * self.candidates.columns

    @property
    def unit(self) -> float:
        """Lattice of slopes."""
        return math.ldexp(1.0, math.ceil(math.log2(self.linear.slope))) / FINE

    @property
    def steepest(self) -> int:
        """Most steps of that lattice that a slope has."""
        return math.ceil(self.linear.slope / self.unit)

    @property
    def sensitivity(self) -> float:
        """Range sensitivity of the scores."""
        slope = self.linear.slope if self.quadratic else self.steepest * self.unit
        moved = self.linear.moved + self.candidates.rounding
        exact = 2 * self.changes * slope * moved / self.divisor
        return round_up(exact * (1 + self.slack))

    @property
    def slack(self) -> float:
        """Of squared losses: each of T sums of at most ``most`` terms is rounded, and so are the
        moments; twice that of what two neighbours differ by, over what one row may move."""
        return 2.0**-40 + (self.steps * self.most * 2.0**-49 if self.quadratic else 0.0)

    @property
    def loss(self) -> PrivacyLoss:
        """What a fit costs a record in it."""
        return loss_of(self.noise, self.kind, self.steps, self.sensitivity / self.scale)

    @property
    def cost(self) -> Fraction:
        """The same as a number that adds up: rho or eps."""
        return Fraction(self.loss.value)

    @property
    def error(self) -> float:
        """Bound on the expected gap of a fit of N rows."""
        return gap(self.linear.curvature, self.steps, self.scale * largest(self))

    def sample(self, draws: Draws) -> NDArray[Any] | None:
        """See Fitter: all rows."""
        return None

    def fit(self, features: Any, targets: Floats, after: Floats, draws: Draws) -> Selecting:
        """See Fitter: it starts anew, whatever was released before."""
        return self._made(features, targets, None, draws)

    def weighed(
        self, features: Any, targets: Floats, weights: Floats, after: Floats, draws: Draws
    ) -> Selecting:
        """See Weighing."""
        return self._made(features, targets, weights, draws)

    def _made(
        self, features: Any, targets: Floats, weights: Floats | None, draws: Draws
    ) -> Selecting:
        rows = Rows(self.linear.points(features))
        return Selecting(self, self.candidates.rows(rows), targets, draws, weights)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "way": self.way,
            "size": self.size,
            "divisor": self.divisor.hex(),
            "most": self.most,
            "changes": self.changes,
            "steps": self.steps,
            "noise": [self.noise, self.kind, self.scale.hex()],
            **({"users": self.users} if self.users else {}),
        }


def largest(made: Selection) -> float:
    """What noise of scale 1 adds to the expected score of a choice, at most."""
    logs = round_up(math.log(made.candidates.count))
    return logs if made.noise == "gumbel" else logs + 1


def candidates_of(linear: Linear) -> Candidates:
    """The vertices to choose among.

    Raises:
      ConfigError: there are none, or too many.
    """
    found = Candidates.of(linear.set)
    if found is None:
        raise ConfigError(
            "mechanism.noise",
            linear.set.name,
            "has no list of vertices to choose among; take l1_ball, simplex or polytope, or "
            "gaussian noise.",
        )
    if found.count < 2:
        raise ConfigError(
            "model.set", linear.set.name, "is a single point: there is nothing to learn."
        )
    return found


def loss_of(noise: str, kind: LossKind, steps: int, ratio: float) -> PrivacyLoss:
    """Of so many selections. ratio: range sensitivity over scale."""
    if kind == "pure":
        return PrivacyLoss(kind, steps * ratio)
    return PrivacyLoss(kind, steps * float(COST[noise]) * ratio * ratio)


def selection_for(
    linear: Linear,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    noise: str,
    budget: PrivacyLoss,
    share: Fraction,
    steps: int | None,
    users: int = 0,
) -> Selection:
    """Fits that cost at most a share of a budget each.

    Args:
      size, divisor, most, changes, users: see ``Selection``. noise: gumbel or laplace.
      budget: zcdp or pure. steps: T; None: by the rule.

    Raises:
      ConfigError: the set has no list of vertices, or the budget is none.
    """
    if not budget.value > 0:
        raise ConfigError("privacy.epsilon", None, "leaves no budget; raise epsilon or delta.")
    part = budget.value * float(share) * (1 - 2.0**-40)
    one = Selection(linear, size, divisor, most, changes, 1, noise, budget.kind, 1.0, users)
    straight = budget.kind == "pure"

    def scale(taken: int) -> float:
        """b at which so many selections cost the part."""
        made = _with(one, taken, 1.0)
        if straight:
            return made.sensitivity * taken / part
        return made.sensitivity * math.sqrt(taken * float(COST[noise]) / part)

    if steps is None:
        steps = best_steps(linear.curvature, round_up(scale(1) * largest(one)), straight)
    b = round_up(scale(steps))
    found = _with(one, steps, b)
    while found.loss.value > budget.value * float(share):
        b *= 1 + 2.0**-30
        found = _with(one, steps, round_up(b))
    return found


def _with(made: Selection, steps: int, scale: float) -> Selection:
    return replace(made, steps=steps, scale=scale)
