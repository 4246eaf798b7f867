"""What is minimised over a block: losses whose gradients are bounded whatever the model is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from weir.dpcore.arrays import Floats
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.losses import Hinge, Huber, Logistic, PredictionLoss, Squared, sign_of

CHUNK = 1 << 10
"""Rows that are multiplied at once, at most: what rounding does grows with it."""
PRODUCTS = 1 << 18
"""Products that are made at once: few enough that OpenBLAS makes them on one thread, so that bits
do not hang on how many there are, and small fits do not wait for each other."""
SPAN = 2.0
"""How far a prediction within the target's range is from it at most, in scaled units."""
ABREAST = 4
"""Such pieces whose slopes are taken together."""


class RowLoss(Protocol):
    """The loss of a row's scores, convex, and Lipschitz and smooth on all of R^m.

    Attributes:
      name: as in the config. outputs: m, scores of a row.
      slope: Lipschitz constant in the scores, l2. curve: that of the derivative.
    """

    @property
    def name(self) -> str: ...

    @property
    def outputs(self) -> int: ...

    @property
    def slope(self) -> float: ...

    @property
    def curve(self) -> float: ...

    def derivatives(self, scores: Floats, targets: Floats) -> Floats:
        """(n, m), (n,) -> (n, m), each row of l2 norm at most ``slope``."""


class Scored(Protocol):
    """What a model is of, as far as names, units and predictions go.

    Attributes:
      outputs: scores of a row. intercept: whether a 1 follows its features. width: numbers of both.
      loss_name: as in the config.
    """

    @property
    def outputs(self) -> int: ...

    @property
    def intercept(self) -> bool: ...

    @property
    def width(self) -> int: ...

    @property
    def loss_name(self) -> str: ...

    def points(self, features: Floats) -> Floats:
        """(n, features) -> (n, width)."""


@dataclass(frozen=True)
class OneScore:
    """A loss of one linear prediction: logistic, hinge with a smoothed corner, or Huber's.

    Slope 1 (Huber: its width); curve 1/4, 1 over the smoothing, or 1. The gradient of a squared
    error has no bound on all of R^d, so that its minimiser would have no sensitivity; clipping its
    slope at h makes it Huber's of width h, which is squared for every residual up to h.
    """

    loss: PredictionLoss
    outputs: int = field(default=1, init=False)

    @property
    def name(self) -> str:
        """See RowLoss."""
        return self.loss.name

    @property
    def slope(self) -> float:
        """See RowLoss."""
        if isinstance(self.loss, Huber):
            return self.loss.width
        assert isinstance(self.loss, Logistic | Hinge)
        return 1.0

    @property
    def curve(self) -> float:
        """See RowLoss."""
        return self.loss.smoothness

    def derivatives(self, scores: Floats, targets: Floats) -> Floats:
        """See RowLoss."""
        if isinstance(self.loss, Logistic):  # the same in one call: 1 / (1 + e^-s) - (1 + y) / 2
            return np.asarray(0.5 * (np.tanh(0.5 * scores) - sign_of(targets)[:, None]))
        return self.loss.derivative(scores[:, 0], targets)[:, None]


@dataclass(frozen=True)
class Softmax:
    """-ln of the share that softmax gives to the row's class; targets: 0, 1, ..., m - 1.

    Its derivative p - e_y has l2 norm below sqrt(2); the Hessian diag(p) - p p^T is at most 1/2.
    """

    outputs: int
    name: str = field(default="softmax", init=False)
    slope: float = field(default=math.sqrt(2.0) * (1 + 2.0**-50), init=False)
    curve: float = field(default=0.5, init=False)

    def derivatives(self, scores: Floats, targets: Floats) -> Floats:
        """See RowLoss."""
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(shares)), targets.astype(np.int64)] -= 1.0
        return np.asarray(shares)


@dataclass(frozen=True)
class Objective:
    """F(w) = (1/N) sum over rows of v loss(W (x, 1); y) + lambda ||w - w_g||^2, w the stacked W.

    A row's weight v is 1, or what its user's rows of a block share. F is 2 lambda strongly convex,
    and smooth with (sum of v / N) curve A^2 + 2 lambda. A row's gradient has
    l2 norm at most L = slope A over the stacked weights, as ||(x, 1)||_2 <= A.

    **Formal guarantees**: of two blocks that differ in one row swapped for another, the minimisers
    for the same w_g are at most s = 2 L / (2 lambda N) = L / (lambda N) apart; N is public. (Exact:
    the gradients of the two F differ by at most 2 L / N everywhere.)
    Source: Chaudhuri, Monteleoni, Sarwate (2011); Watson et al. (2021) use twice that.

    Attributes:
      loss: of the scores. features: numbers of x. intercept: whether a 1 follows it.
      norm: most that ||x||_2 is. strength: lambda.
    """

    loss: RowLoss
    features: int
    intercept: bool
    norm: float
    strength: float

    @property
    def outputs(self) -> int:
        """See Scored."""
        return self.loss.outputs

    @property
    def loss_name(self) -> str:
        """See Scored."""
        return self.loss.name

    @property
    def width(self) -> int:
        """Numbers of (x, 1)."""
        return self.features + self.intercept

    @property
    def dimension(self) -> int:
        """D, numbers of w."""
        return self.loss.outputs * self.width

    @property
    def reach(self) -> float:
        """A, rounded up."""
        squares = self.norm * self.norm + (1.0 if self.intercept else 0.0)
        return math.sqrt(squares) * (1 + 2.0**-50)

    @property
    def lipschitz(self) -> float:
        """L, rounded up."""
        return self.loss.slope * self.reach * (1 + 2.0**-50)

    @property
    def smoothness(self) -> float:
        """Of the loss of one row."""
        return self.loss.curve * self.reach * self.reach * (1 + 2.0**-50)

    @property
    def chunk(self) -> int:
        """Rows that are multiplied at once."""
        return min(CHUNK, max(16, PRODUCTS // self.dimension))

    def added(self, rows: int) -> int:
        """Numbers that are added one after the other, at most, where so many rows are."""
        return min(rows, self.chunk) + -(-rows // self.chunk)

    def moves(self, divisor: float) -> float:
        """s: how far a swap moves the minimiser over N = ``divisor`` rows."""
        return self.lipschitz / (self.strength * divisor)

    def points(self, features: Floats) -> Floats:
        """(n, features) -> (n, width)."""
        out = np.ones((len(features), self.width))
        out[:, : self.features] = features
        return out

    def targets_of(self, stored: Floats) -> Floats:
        """Targets as the loss takes them, of those that rows hold."""
        classes = self.loss.outputs
        return np.rint((stored + 1) * ((classes - 1) / 2)) if classes > 1 else stored

    def gradient(
        self,
        w: Floats,
        centre: Floats,
        points: Floats,
        targets: Floats,
        divisor: float,
        weights: Floats | None = None,
    ) -> Floats:
        """Gradient of F: (D,).

        Args:
          w, centre: (D,), the model and w_g. points: (n, width). targets: (n,).
          divisor: N. weights: (n,), of rows; None: 1 each.
        """
        matrix, total = w.reshape(self.loss.outputs, self.width).T, np.zeros(len(w))
        chunk = self.chunk
        for first in range(0, len(points), ABREAST * chunk):  # still in the cache when read again
            some = points[first : first + ABREAST * chunk]
            pieces = [slice(at, at + chunk) for at in range(0, len(some), chunk)]
            scores = np.empty((len(some), self.loss.outputs))
            for piece in pieces:
                np.matmul(some[piece], matrix, out=scores[piece])
            slopes = self.loss.derivatives(scores, targets[first : first + len(some)])
            if weights is not None:
                slopes *= weights[first : first + len(some), None]
            for piece in pieces:
                total += (slopes[piece].T @ some[piece]).reshape(-1)
        return np.asarray(total / divisor + 2 * self.strength * (w - centre))

    def rounding(self, w: Floats, rows: int, share: float) -> float:
        """Bound on what double precision does to the norm of a gradient over at most so many rows:
        sums over rows, then the scores that slopes are taken at, and the pull.

        share: of all weights together in N, at most.
        """
        size = float(np.sqrt(np.dot(w, w))) + 1.0
        sums = self.added(rows) * self.lipschitz + self.smoothness * self.width * size
        return 2.0**-50 * (share * sums + 4 * self.strength * size)

    def canonical(self) -> Mapping[str, Any]:
        """Every public number."""
        return {
            "loss": [self.loss.name, canonical_value(self.loss)],
            "features": self.features,
            "intercept": self.intercept,
            "norm": self.norm.hex(),
            "strength": self.strength.hex(),
        }


def row_loss(loss: PredictionLoss | None, classes: int) -> RowLoss:
    """The loss of a config.

    Args:
      loss: of one score; None: softmax. classes: declared ones; 0: a number is predicted.

    Raises:
      ConfigError: a loss that has no bounded gradient, or does not suit the target.
    """
    if loss is None:
        if classes < 2:
            raise ConfigError("model.loss", "softmax", "needs model.classes, two or more.")
        return Softmax(classes)
    if isinstance(loss, Logistic | Hinge):
        if classes != 2:
            raise ConfigError(
                "model.loss", loss.name, f"is for two classes, not {classes}; write loss: softmax."
            )
        return OneScore(loss)
    if isinstance(loss, Squared):
        loss = Huber(SPAN)
    if not isinstance(loss, Huber):
        raise ConfigError(
            "model.loss",
            loss.name,
            "is refused: the minimiser of a block is only private if gradients are bounded and "
            "smooth wherever the model goes; write loss: {huber: 0.5}, which is squared near the "
            "target and straight beyond a quarter of its range, or squared.",
        )
    if classes:
        raise ConfigError(
            "model.loss", loss.name, "is for numbers; with classes write logistic or softmax."
        )
    return OneScore(loss)
