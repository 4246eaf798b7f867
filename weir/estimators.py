"""Private linear models for scikit-learn: ``pip install 'weir-dp[sklearn]'``.

>>> import numpy as np
>>> from weir.estimators import PrivateLasso
>>> rng = np.random.default_rng(0)
>>> X = rng.uniform(0, 10, (5000, 40))
>>> y = 3 * X[:, 7] + rng.normal(size=5000)
>>> model = PrivateLasso(
...     epsilon=2, delta=1e-6, radius=1.5, feature_bounds=(0, 10), target_bounds=(0, 30)
... ).fit(X, y)
>>> int(np.argmax(np.abs(model.coef_))), model.guarantee_.epsilon <= 2
(7, True)

They fit `optimize.frank_wolfe` once to all rows, for batches; on a stream it runs by a config. What
holds for all of them:

- Bounds have no default, and nothing is read off the data: no mean, no scale, no set of classes, no
  stopping rule. ``fit`` without a bound raises ``ConfigError``.
- One row is protected, the replacement of any one by any other; their number n is public. Each
  ``fit`` spends (epsilon, delta) again: a search over parameters adds up.
- A row with a number that is missing or not finite teaches the model nothing. It raises no error:
  that would tell of one row's content.
- ``score``, and all that reads the data next to ``fit``, is not private.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.optimize.fit import BatchPlan, Promise, fit
from weir.transforms.runtime.secret import SecretRef

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils.validation import (
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as missing:
    raise ImportError(
        "weir.estimators needs scikit-learn 1.6 or later: pip install 'weir-dp[sklearn]'."
    ) from missing

__all__ = ["PrivateLasso", "PrivateLogisticRegression"]

Bounds = tuple[Any, Any] | None
"""(low, high), numbers or arrays of one for each column. Public: never from the data."""


class _PrivateLinear(BaseEstimator):
    """What both have in common: bounds that must be given, one fit, a linear score."""

    epsilon: float | None
    delta: float | None
    feature_bounds: Bounds
    fit_intercept: bool
    max_iter: int | None
    noise: str | None
    secret: SecretRef | None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.secret is None
        return tags

    def _fit(self, X: Any, y: NDArray[np.float64], **of: Any) -> None:  # noqa: N803
        """Fits, and keeps what is released.

        Args:
          X: what ``validate_data`` returned. y: (n,), NaN where a row has no target.
          of: set, loss, target_range and norm of the plan.
        """
        for name in ("epsilon", "delta"):
            needed(self, name, "it has no default; delta: 0 is pure differential privacy")
        plan = BatchPlan.of(
            n=X.shape[0],
            features=X.shape[1],
            feature_range=needed(self, "feature_bounds", "the public range of every feature"),
            epsilon=float(self.epsilon or 0),
            delta=float(self.delta or 0),
            intercept=bool(self.fit_intercept),
            iterations=self.max_iter,
            noise=self.noise,
            **of,
        )
        secret = SecretRef.fresh() if self.secret is None else self.secret
        model = fit(X, y, plan, secret.resolve())
        self.coef_: Any = model.coefficients
        self.intercept_: Any = model.intercept
        self.n_iter_ = plan.way.steps
        self.plan_ = plan
        self.guarantee_: Promise = plan.guarantee

    def _rows(self, X: Any, reset: bool) -> Any:  # noqa: N803
        """X as numbers; missing ones stay: what they do is decided row by row."""
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
        )

    def _scores(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """X @ coef_ + intercept_: (n,)."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        return np.asarray(rows @ np.ravel(self.coef_) + np.ravel(self.intercept_)[0])


class PrivateLasso(RegressorMixin, _PrivateLinear):
    """Least squares over an l1 ball, by private Frank-Wolfe steps, or on columns that are selected.

    **Formal guarantees**
      Unit: one row of (X, y). Relation: replace_one; n is public. Guarantee: (epsilon, delta) of
      each fit. Sensitivity, noise, source: those of ``optimize.frank_wolfe``.

    The error grows with the logarithm of the number of features, so that p may exceed n; after
    Frank-Wolfe steps at most ``n_iter_`` coefficients are not 0.

    Args:
      epsilon, delta: the budget of a fit. delta = 0: pure differential privacy.
      radius: l1 norm of the coefficients, at most, where features and target are scaled so that
        their bounds are -1 and 1 (the constant term is one of them). Noise is in proportion to it.
      feature_bounds: (low, high) of the features, numbers or arrays (p,): values beyond are moved
        to the nearer. Of sparse X they lie around 0. target_bounds: (low, high) of y.
      fit_intercept: whether there is a constant term.
      max_iter: steps; None: as many as a public rule finds best.
      noise: gumbel, laplace (the paper's), gaussian, discrete_gaussian or k_norm; None: the one
        with the least bound on its error.
      form: frank_wolfe, or refit: columns are selected in private, then least squares on their
        noisy second moments; needs delta. None: refit where terms are given.
      terms: of a refit, coefficients that are not 0; None: by a public rule.
      secret: where one is kept, ``weir.Secret(file="secret.key")``, for the same bits from the same
        rows; anyone who reads it can take the noise off. None: a fresh one for every fit.

    Attributes:
      coef_: (p,), intercept_: in the units of X and y. n_iter_: steps. guarantee_: what was spent.
      plan_: every public number of the fit. n_features_in_, feature_names_in_: of X.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        radius: float | None = None,
        feature_bounds: Bounds = None,
        target_bounds: Bounds = None,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        noise: str | None = None,
        form: str | None = None,
        terms: int | None = None,
        secret: SecretRef | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.feature_bounds = feature_bounds
        self.target_bounds = target_bounds
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.noise = noise
        self.form = form
        self.terms = terms
        self.secret = secret

    def fit(self, X: Any, y: Any) -> PrivateLasso:  # noqa: N803
        """Spends (epsilon, delta) on a model of the rows.

        Args:
          X: (n, p), an array, a frame or a sparse matrix. y: (n,) numbers.

        Raises:
          ConfigError: a bound is missing or cannot be served. ValueError: shapes and types that are
          no rows of numbers.
        """
        rows = self._rows(X, reset=True)
        targets = _targets(rows, y).astype(np.float64)
        radius = needed(self, "radius", "the l1 norm of the scaled coefficients")
        ends = needed(self, "target_bounds", "the public range of y")
        more = {"form": self.form, "terms": self.terms}
        self._fit(rows, targets, set={"l1_ball": radius}, loss="squared", target_range=ends, **more)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """(n, p) -> (n,), in the units of y."""
        return self._scores(X)


class PrivateLogisticRegression(ClassifierMixin, _PrivateLinear):
    """Logistic regression of two classes over a convex set, by private Frank-Wolfe steps.

    **Formal guarantees**
      Unit: one row of (X, y). Relation: replace_one; n is public. Guarantee: (epsilon, delta) of
      each fit. Sensitivity, noise, source: those of ``optimize.frank_wolfe``.

    Args:
      epsilon, delta: the budget of a fit. delta = 0: pure differential privacy.
      set: of the scaled coefficients, as a config writes it: {"l1_ball": 5}, {"l2_ball": 5},
        {"lp_ball": {"radius": 5, "p": 1.5}}, ... It has no default: noise is in proportion to it.
      classes: both values of y, the second is the positive one. Public. A row of any other teaches
        the model nothing.
      feature_bounds: see ``PrivateLasso``. norm: l2 norm of a row of scaled features, at most:
        longer rows are shortened; None: the bounds alone hold them.
      observed_classes_are_public: takes the values of y for the classes, if which there are is no
        secret; ``classes`` is left out then.
      fit_intercept, max_iter, noise, secret: see ``PrivateLasso``.

    Attributes:
      classes_: (2,). coef_: (1, p), intercept_: (1,), in the units of X. n_iter_: steps.
      guarantee_: what was spent. plan_: every public number. n_features_in_, feature_names_in_.
    """

    def __init__(
        self,
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        set: Mapping[str, Any] | None = None,  # noqa: A002
        classes: Sequence[Any] | None = None,
        feature_bounds: Bounds = None,
        norm: float | None = None,
        observed_classes_are_public: bool = False,
        fit_intercept: bool = True,
        max_iter: int | None = None,
        noise: str | None = None,
        secret: SecretRef | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.set = set
        self.classes = classes
        self.feature_bounds = feature_bounds
        self.norm = norm
        self.observed_classes_are_public = observed_classes_are_public
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.noise = noise
        self.secret = secret

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> PrivateLogisticRegression:  # noqa: N803
        """Spends (epsilon, delta) on a model of the rows.

        Args:
          X: (n, p), an array, a frame or a sparse matrix. y: (n,), of the two classes.

        Raises:
          ConfigError: a bound is missing or cannot be served. ValueError: shapes and types that are
          no rows of numbers; not two classes where those observed are public.
        """
        rows = self._rows(X, reset=True)
        labels = _targets(rows, y)
        self.classes_ = self._classes(labels)
        signs = np.full(len(labels), np.nan)
        signs[labels == self.classes_[0]] = -1.0
        signs[labels == self.classes_[1]] = 1.0
        where = needed(self, "set", "where the scaled coefficients lie, like {'l1_ball': 5}")
        self._fit(rows, signs, set=where, loss="logistic", target_range=(-1.0, 1.0), norm=self.norm)
        self.coef_, self.intercept_ = self.coef_[None], np.array([self.intercept_])
        return self

    def _classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """(2,), as declared or, if they are public, as observed."""
        if self.observed_classes_are_public:
            if self.classes is not None:
                raise ConfigError(
                    "observed_classes_are_public",
                    True,
                    "cannot be combined with classes; keep one.",
                )
            from sklearn.utils.multiclass import check_classification_targets

            check_classification_targets(labels)
            result = np.unique(labels)
            if len(result) > 2:
                raise ValueError(
                    "Only binary classification is supported. The type of the target is "
                    f"multiclass, of {len(result)} classes."
                )
            if len(result) < 2:
                raise ValueError("y holds one class; a model of two classes needs both.")
            return result
        declared = needed(
            self, "classes", "both values of y; or observed_classes_are_public=True if they are"
        )
        result = np.asarray(declared)
        if result.shape != (2,) or result[0] == result[1]:
            raise ConfigError("classes", list(declared), "must be two values that differ.")
        return result

    def decision_function(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Scores, positive for the second class: (n, p) -> (n,)."""
        return self._scores(X)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likelier class: (n, p) -> (n,)."""
        scores = self._scores(X)
        return np.asarray(self.classes_[(scores > 0).astype(np.int64)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Of both classes: (n, p) -> (n, 2)."""
        from scipy.special import expit

        scores = self._scores(X)
        return np.stack([expit(-scores), expit(scores)], axis=1)


def needed(estimator: Any, name: str, what: str) -> Any:
    """A parameter that has no default.

    Raises:
      ConfigError: it was not given.
    """
    value = getattr(estimator, name)
    if value is None:
        raise ConfigError(
            name, None, f"must be given to {type(estimator).__name__}: {what}. Public, not from X."
        )
    return value


def _targets(rows: Any, y: Any) -> NDArray[Any]:
    """y as (n,); what its values are is not looked at.

    Raises:
      ValueError: y is missing, of another shape, or complex.
    """
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None.")
    targets = column_or_1d(y, warn=True)
    check_consistent_length(rows, targets)
    if np.iscomplexobj(targets):
        raise ValueError("Complex data not supported: y is of complex numbers.")
    return np.asarray(targets)
