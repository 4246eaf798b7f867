"""Private Frank-Wolfe on arrays: the plan of a batch, and a function that fits it.

>>> import numpy as np
>>> from weir.dpcore.models.optimize.fit import BatchPlan, fit
>>> plan = BatchPlan.of(
...     n=4000, features=30, set={"l1_ball": 1.0}, feature_range=(-1, 1), target_range=(-1, 1),
...     epsilon=2.0, delta=1e-6)
>>> signs = np.where(np.arange(30 * 4000).reshape(4000, 30) * 7919 % 104729 % 2, 1.0, -1.0)
>>> model = fit(signs, 0.9 * signs[:, 3], plan, secret=bytes(range(32)))
>>> int(np.argmax(np.abs(model.coefficients))), plan.guarantee.epsilon <= 2.0
(3, True)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.arrays import Floats
from weir.dpcore.continual.base import canonical_value
from weir.dpcore.errors import ConfigError
from weir.dpcore.geometry.convex_set import ConvexSet
from weir.dpcore.geometry.parse import parse_set
from weir.dpcore.models.blocks.fitter import Draws
from weir.dpcore.models.kit.loss import PredictionLoss
from weir.dpcore.models.kit.loss_spec import parse_loss
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.packing import Packed, Range, pack
from weir.dpcore.models.optimize.program import (
    SELECTIONS,
    best_strategy,
    budgets,
    refuse_pure,
    strategy_for,
)
from weir.dpcore.models.optimize.refit import refit_for
from weir.dpcore.models.optimize.width import FitStrategy
from weir.dpcore.noise.prf import KeyedNoise, RootKey

ROWS_VERSION = 2
"""How rows are named that noise is bound to: by their numbers, whether dense or sparse."""
NOISES = ("gumbel", "gaussian", "discrete_gaussian", "k_norm")
"""Tried where none is named; laplace, the paper's, is taken by name alone."""


@dataclass(frozen=True)
class Promise:
    """What a fit costs: (epsilon, delta) for the replacement of any one row."""

    epsilon: float
    delta: float
    relation: str = "replace_one"


@dataclass(frozen=True)
class BatchPlan:
    """Everything public about a fit to n rows. Make one by ``of``.

    **Formal guarantees**
      Unit: one row of (X, y). Relation: replace_one, n is public. Sensitivity, noise, source: those
        of ``Selection``, ``Width`` or ``Refit``, whose bounds rows are held to: entries outside
        their range are moved to its nearer end, longer rows are shortened, a row with a number that
        is missing or not finite teaches nothing. Nothing else is read off the data: not a range,
        not a scale, not the number of steps.

    Attributes:
      linear: the loss and the set. way: steps and noise. feature_range, target_range: public.
      epsilon, delta: what was asked for.
    """

    linear: Linear
    way: FitStrategy
    feature_range: Range
    target_range: Range
    epsilon: float
    delta: float

    @classmethod
    def of(
        cls,
        *,
        n: int,
        features: int,
        set: Mapping[str, Any] | ConvexSet,  # noqa: A002
        feature_range: Any,
        target_range: Any,
        epsilon: float,
        delta: float,
        loss: str | Mapping[str, Any] | PredictionLoss = "squared",
        intercept: bool = False,
        norm: float | None = None,
        iterations: int | None = None,
        noise: str | None = None,
        form: str | None = None,
        terms: int | None = None,
    ) -> BatchPlan:
        """A plan for n rows of so many features.

        Args:
          n, features: of X. set: of the scaled coefficients, as a config writes it.
          feature_range: (low, high) of every feature, numbers or arrays (features,); it is mapped
            onto [-1, 1]. Sparse features have ranges around 0. target_range: of y; of labels, whose
            sign counts, (-1, 1).
          loss: squared, logistic, {huber: width} or {hinge: smoothing}, of scaled numbers.
          norm: most that the l2 norm of a row is, scaled; None: the ranges alone bound it.
          iterations: T; None: by the rule. noise: None: that of the least error bound.
          form: frank_wolfe, or refit (see ``Refit``); None: refit where terms are given.
          terms: of a refit, coefficients that are not 0; None: by the rule.

        Raises:
          ConfigError: what cannot be served.
        """
        if n < 1:
            raise ConfigError("n", n, "must be 1 or more rows.")
        if features < 1:
            raise ConfigError("features", features, "must be 1 or more.")
        if not 0 <= delta < 1:
            raise ConfigError("delta", delta, "must be 0 or more and below 1.")
        if not (epsilon > 0 and math.isfinite(epsilon)):
            raise ConfigError("epsilon", epsilon, "must be a finite number above 0.")
        built = loss if isinstance(loss, PredictionLoss) else parse_loss(loss, "loss")
        dimension = features + intercept
        convex_set = set if isinstance(set, ConvexSet) else parse_set(set, dimension, "set")
        if convex_set.dimension != dimension:
            raise ConfigError("set", convex_set.dimension, f"must have dimension {dimension}.")
        length = math.inf if norm is None else float(norm)
        if not length > 0:
            raise ConfigError("norm", norm, "must be above 0.")
        linear = Linear(built, convex_set, features, intercept, length)

        def build(name: str, budget: Any) -> FitStrategy:
            return strategy_for(linear, 1, float(n), n, 1, Fraction(1), iterations, name, budget)

        if form == "refit" or (form is None and terms is not None):
            way = _refit(linear, n, epsilon, delta, terms, iterations, noise)
        else:
            if form not in (None, "frank_wolfe"):
                raise ConfigError("form", form, "must be frank_wolfe or refit.")
            if terms is not None:
                raise ConfigError("terms", terms, "is for form: refit; leave it out.")
            ways = [
                best_strategy(item, epsilon, delta, build) for item in _noises(linear, noise, delta)
            ]
            way = min(ways, key=lambda item: item.error)
        ranges = Range.of(feature_range, features, "feature_range")
        return cls(linear, way, ranges, Range.of(target_range, 1, "target_range"), epsilon, delta)

    @property
    def n(self) -> int:
        """Rows."""
        return self.way.most

    @property
    def guarantee(self) -> Promise:
        """What a fit costs, by what its noise adds up to."""
        return Promise(self.way.loss.epsilon(self.delta), self.delta)

    @cached_property
    def digest(self) -> str:
        """Names every public number: noise is bound to it."""
        parts = {
            "linear": self.linear.canonical(),
            "way": self.way.canonical(),
            "features": canonical_value(self.feature_range),
            "target": canonical_value(self.target_range),
            "rows": ROWS_VERSION,
        }
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class BatchModel:
    """What a fit released.

    Attributes:
      theta: (d,), scaled: of features mapped onto [-1, 1], the intercept last if there is one.
      coefficients: (features,), in the units of X and y. intercept: the constant in those of y.
      plan: of the fit.
    """

    theta: Floats
    coefficients: Floats
    intercept: float
    plan: BatchPlan

    @property
    def sparse(self) -> tuple[NDArray[np.int64], Floats]:
        """Indices of the coefficients that are not 0, and those."""
        at = np.flatnonzero(self.coefficients)
        return at, self.coefficients[at]

    def predict(self, X: Any) -> Floats:  # noqa: N803
        """X @ coefficients + intercept: (n,); a score, where the loss is of labels."""
        return np.asarray(X @ self.coefficients + self.intercept)


def fit(X: Any, y: Any, plan: BatchPlan, secret: bytes) -> BatchModel:  # noqa: N803
    """Fits a plan to rows. The same rows, plan and secret give the same bits.

    Args:
      X: (n, features), an array or a scipy.sparse matrix, in the user's units. y: (n,).
      secret: 32 bytes or more that nobody may guess: anyone who has them can take the noise off.

    Raises:
      ConfigError: shapes that the plan is not of.
    """
    packed = pack(X, y, plan.feature_range, plan.target_range, plan.linear.norm)
    if packed.shape != (plan.n, plan.linear.features):
        raise ConfigError(
            "X", packed.shape, f"must be {plan.n:,} rows of {plan.linear.features:,} features."
        )
    return fitted(packed, plan, secret)


def fitted(packed: Packed, plan: BatchPlan, secret: bytes) -> BatchModel:
    """``fit`` of rows that are packed already."""
    digest = bytes.fromhex(plan.digest)
    root = RootKey.derive(secret, "optimize.fit", digest)
    noise = KeyedNoise(root, 0, (b"",), 0)
    words = np.frombuffer(packed.digest, dtype=np.int64)[None, None]
    keyed = noise.leaf_digests(words)[0, 0]
    run = plan.way.fit(packed.features, packed.targets, np.zeros(0), Draws(noise, 0, 1, keyed))
    theta = run.finish(*run.advance(*run.start(), 0, plan.way.steps)).model
    coefficients, constant = _own(theta, plan)
    return BatchModel(theta, coefficients, constant, plan)


def _own(theta: Floats, plan: BatchPlan) -> tuple[Floats, float]:
    """In the user's units."""
    p, labels = plan.linear.features, plan.linear.loss.labels
    unit = 1.0 if labels else float(plan.target_range.half[0])
    coefficients = np.asarray(theta[:p] * (unit / plan.feature_range.half))
    constant = 0.0 if labels else float(plan.target_range.middle[0])
    if plan.linear.intercept:
        constant += unit * float(theta[p])
    constant -= math.fsum(coefficients * plan.feature_range.middle)
    return coefficients, constant


def _refit(
    linear: Linear,
    n: int,
    epsilon: float,
    delta: float,
    terms: int | None,
    iterations: int | None,
    noise: str | None,
) -> FitStrategy:
    """Selects and refits.

    Raises:
      ConfigError: what it does not take.
    """
    if iterations is not None:
        raise ConfigError("iterations", iterations, "is for form: frank_wolfe; leave it out.")
    if noise not in (None, "discrete_gaussian"):
        raise ConfigError("noise", noise, "must be discrete_gaussian for form: refit.")
    refuse_pure(delta, "delta")
    (budget,) = budgets("discrete_gaussian", epsilon, delta)
    return refit_for(linear, 1, float(n), n, 1, budget, Fraction(1), terms)


def _noises(linear: Linear, named: str | None, delta: float) -> tuple[str, ...]:
    """Noises to try."""
    if named is not None:
        known = (*NOISES, "laplace")
        if named not in known:
            raise ConfigError("noise", named, f"must be one of {', '.join(known)}.")
        return (named,)
    some = ("gumbel",) if linear.set.corners() is not None else ()
    return (*some, *(("gaussian",) if delta > 0 else ("k_norm",)))


__all__ = ["NOISES", "SELECTIONS", "BatchModel", "BatchPlan", "budgets", "fit", "fitted"]
