"""The regularised objective of a fit, and predictions of its models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError
from weir.dpcore.leaves.sparse_rows import SparseRows
from weir.dpcore.models.kit.inputs import Inputs, class_text
from weir.dpcore.models.kit.loss import Huber, PredictionLoss
from weir.dpcore.models.kit.rows import is_void
from weir.dpcore.models.prediction import Given, Predicted, shares

CHUNK = 1 << 10
"""Rows that are multiplied at once, at most: what rounding does grows with it."""
PRODUCTS = 1 << 18
"""Products that are made at once: few enough that OpenBLAS makes them on one thread, so that bits
do not hang on how many there are, and small fits do not wait for each other."""
SPAN = 2.0
"""How far a prediction within the target's range is from it at most, in scaled units."""
ABREAST = 4
"""Such pieces whose slopes are taken together."""


@dataclass(frozen=True)
class Softmax:
    """-ln of the share that softmax gives to the row's class; targets: 0, 1, ..., m - 1.

    Its derivative p - e_y has l2 norm below sqrt(2); the Hessian diag(p) - p p^T is at most 1/2.

    Attributes:
      outputs: m, scores of a row.
    """

    outputs: int

    name: ClassVar[str] = "softmax"
    smoothness: ClassVar[float] = 0.5

    def slope(self, reach: float) -> float:
        """Lipschitz constant in the scores, l2; the same for any reach. Rounded up."""
        return math.sqrt(2.0) * (1 + 2.0**-50)

    def derivatives(self, scores: Floats, targets: Floats) -> Floats:
        """(n, m), (n,) -> (n, m), each row of l2 norm at most ``slope``."""
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        shares[np.arange(len(shares)), targets.astype(np.int64)] -= 1.0
        return np.asarray(shares)

    def canonical(self) -> list[Any]:
        """Its name and every public number."""
        numbers = {"slope": self.slope(math.inf), "curve": self.smoothness}
        own = {"outputs": self.outputs, "name": self.name, **numbers}
        return [self.name, canonical_value(own)]


RowLoss = PredictionLoss | Softmax
"""A loss of the scores of a row."""


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
class Objective:
    """F(w) = (1/N) sum over rows of v loss(W (x, 1); y) + lambda ||w - w_g||^2, w the stacked W.

    A row's weight v is 1, or what its user's rows of a block share. F is 2 lambda strongly convex,
    and smooth with (sum of v / N) beta A^2 + 2 lambda, beta that of the loss. A row's gradient has
    l2 norm at most L = slope A over the stacked weights, as ||(x, 1)||_2 <= A; slope holds for any
    prediction, as w is in no bounded set.

    **Formal guarantees**: of two blocks that differ in one row swapped for another, the minimisers
    for the same w_g are at most s = 2 L / (2 lambda N) = L / (lambda N) apart; N is public. (Exact:
    the gradients of the two F differ by at most 2 L / N everywhere.)
    No constant below s serves every N. By Huber's loss of width h a row of length A among void
    rows, whose target goes from 1 to -1, moves the minimiser by s min(1, c / h), c = 2 lambda N /
    (2 lambda N + A^2): it is at +- t (x, 1), where 2 lambda N t = min(h, 1 - A^2 t). So a constant
    for each N could divide the noise by 1 / c at most where h <= 1: 2 % at N = 500, lambda = 0.1.
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
        return self.loss.outputs

    @property
    def loss_name(self) -> str:
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
        return self.loss.slope(math.inf) * self.reach * (1 + 2.0**-50)

    @property
    def smoothness(self) -> float:
        """Of the loss of one row."""
        return self.loss.smoothness * self.reach * self.reach * (1 + 2.0**-50)

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
        name, own = self.loss.canonical()
        return {
            "loss": [name, own if self.outputs > 1 else {"loss": own, "outputs": 1}],
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
    if loss.labels:
        if classes != 2:
            raise ConfigError(
                "model.loss", loss.name, f"is for two classes, not {classes}; write loss: softmax."
            )
        return loss
    if loss.quadratic:  # its gradient has no bound: Huber's is the same for every residual up to it
        loss = Huber(SPAN)
    if loss.cornered:
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
    return loss


def predict(inputs: Inputs, objective: Scored, given: Given, theta: Floats) -> Predicted:
    """Predictions for events that are clipped, mapped and shortened as those it learned from.

    Args:
      given: the features. theta: (D,), scaled.

    Returns:
      Of classes the likelier one, and their shares unless the loss has none (hinge: the score of
      the second); of a number itself, in the user's units.
    """
    n = len(next(iter(given.values())))
    low, high = inputs.target_ends
    middle: Any = (low + high) / 2
    if inputs.classes:
        middle = 0.0 if inputs.texts else inputs.classes[0]
    # Rows have a target: any that is none of theirs to see.
    rows = inputs.bound({**given, inputs.target: np.full(n, middle)}, n).rows
    weights = theta.reshape(objective.outputs, objective.width)
    if isinstance(rows, SparseRows):
        void, features = np.isnan(rows.last), rows.features.csr
    else:
        void, features = is_void(rows), rows[:, :-1]
    scores = np.asarray(objective.points(features) @ weights.T)
    scores[void] = np.nan
    name = f"predicted.{inputs.target}"
    if not inputs.classes:
        return Predicted({name: (low + high) / 2 + scores[:, 0] * ((high - low) / 2)})
    likely = shares(scores)
    columns: dict[str, NDArray[Any]] = {
        name: np.where(void, -1, np.nan_to_num(likely, nan=-1.0).argmax(axis=1))
    }
    if objective.loss_name in ("logistic", "softmax"):
        classes: Any = inputs.classes
        names = [f"share.{class_text(item)}" for item in classes]
        columns |= {name: likely[:, place] for place, name in enumerate(names)}
    else:
        columns[f"score.{class_text(inputs.classes[1])}"] = scores[:, 0]
    return Predicted(columns, inputs.classes)
