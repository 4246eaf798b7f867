"""A minimiser whose distance to the true one is certified for every block of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from dpcore.arrays import Floats
from dpcore.errors import ConfigError

Gradient = Callable[[Floats], Floats]
"""(D,) -> (D,), the gradient of F."""

MOST_STEPS = 1 << 16
FINENESS = 2.0**-10
"""tau / lambda over s: what the certificate costs in noise."""


class Minimiser(Protocol):
    """Iterations from the point that F is pulled to, as many for every block: a public number.

    Attributes:
      steps: how many.
    """

    @property
    def steps(self) -> int: ...

    def step(self, x: Floats, y: Floats, gradient: Gradient) -> tuple[Floats, Floats]:
        """One iteration. x: (D,), the iterate; y: (D,), what else is carried."""


@dataclass(frozen=True)
class Accelerated:
    """Nesterov's accelerated gradient with constant momentum.

    For F mu-strongly convex with beta-Lipschitz gradients, from x_0 within R of the minimiser:
    F(x_t) - F* <= (1 - sqrt(mu / beta))^t (beta + mu) R^2 / 2, and ||grad F||^2 <= 2 beta (F - F*).
    Source: Nesterov (2004), Theorem 2.2.3; Bubeck (2015), Theorem 3.18.

    Attributes:
      steps: how many. smoothness: beta. convexity: mu.
    """

    steps: int
    smoothness: float
    convexity: float

    def step(self, x: Floats, y: Floats, gradient: Gradient) -> tuple[Floats, Floats]:
        """See Minimiser."""
        root = math.sqrt(self.convexity / self.smoothness)
        new = y - gradient(y) / self.smoothness
        return new, new + (1 - root) / (1 + root) * (new - x)


def accelerated(smoothness: float, convexity: float, distance: float, tau: float) -> Accelerated:
    """Steps after which every such F has a gradient of at most tau / 2.

    Args:
      smoothness, convexity: of F, for every block. distance: R, from the start to any minimiser.

    Raises:
      ConfigError: they are too many.
    """
    square = (smoothness + convexity) * smoothness * distance * distance
    ratio = 4 * square / (tau * tau)
    rate = -math.log1p(-math.sqrt(convexity / smoothness)) if smoothness > convexity else math.inf
    steps = max(1, math.ceil(math.log(max(ratio, 1.0)) / rate * (1 + 1e-9)) + 1)
    if steps > MOST_STEPS:
        raise ConfigError(
            "model.regularise",
            convexity / 2,
            f"is so small beside the curvature of the loss that {steps:,} steps a fit would be "
            "needed; take a larger one, or smaller features (model.clip.features).",
        )
    return Accelerated(steps, smoothness, convexity)
