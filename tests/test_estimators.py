"""Estimators for scikit-learn: its own checks, and that nothing is read off the data."""

from __future__ import annotations

import doctest
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from weir import Secret, estimators
from weir.dpcore.errors import ConfigError
from weir.estimators import PrivateLasso, PrivateLogisticRegression

SECRET = Secret(env="WEIR_ESTIMATORS")
LASSO = PrivateLasso(
    epsilon=1e4,
    delta=1e-6,
    radius=2,
    feature_bounds=(-4, 4),
    target_bounds=(-4, 4),
    max_iter=100,
    secret=SECRET,
)
"""The instances that are checked: bounds of the data that the checks make, little noise, and a
secret of their own, so that equal fits are equal."""
LOGISTIC = PrivateLogisticRegression(
    epsilon=1e4,
    delta=1e-6,
    set={"l1_ball": 30},
    feature_bounds=(-4, 4),
    observed_classes_are_public=True,
    max_iter=100,
    secret=SECRET,
)

EXCEPTIONS = {
    (
        "PrivateLasso",
        "check_supervised_y_no_nan",
    ): "a target that is not finite teaches nothing; an error would tell of one row's content",
    ("PrivateLasso", "check_array_api_input"): "arrays are numpy's and scipy's",
    ("PrivateLogisticRegression", "check_array_api_input"): "arrays are numpy's and scipy's",
}
"""Checks of scikit-learn that are not held, and why."""


def checks(excepted: bool) -> list[Any]:
    """(estimator, check) of those that are held, or of the others."""
    found = []
    for one in (LASSO, LOGISTIC):
        for estimator, check in estimator_checks_generator(one):
            name = check.func.__name__
            if ((type(one).__name__, name) in EXCEPTIONS) == excepted:
                words = "-".join(f"{key}={value}" for key, value in check.keywords.items())
                case = f"{type(one).__name__}-{name}-{words}"
                found.append(pytest.param(estimator, check, id=case))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("estimator", "check"), checks(excepted=False))
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_exceptions_are_of_checks_that_there_are() -> None:
    known = {(type(one.values[0]).__name__, one.values[1].func.__name__) for one in checks(True)}
    assert known == EXCEPTIONS.keys()


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_ESTIMATORS", "5a" * 32)


def test_examples_hold() -> None:
    found = doctest.testmod(estimators)
    assert found.attempted > 3 and found.failed == 0


def data(n: int = 600, p: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.uniform(-10, 10, (n, p))
    return x, 0.5 * x[:, 2] + rng.normal(size=n)


@pytest.mark.parametrize("name", ["epsilon", "delta", "radius", "feature_bounds", "target_bounds"])
def test_a_lasso_needs_its_bounds(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        clone(LASSO).set_params(**{name: None}).fit(*data())


@pytest.mark.parametrize("name", ["epsilon", "delta", "set", "feature_bounds"])
def test_a_logistic_regression_needs_its_bounds(name: str) -> None:
    x, y = data()
    with pytest.raises(ConfigError, match=name):
        clone(LOGISTIC).set_params(**{name: None}).fit(x, y > 0)


def test_classes_are_declared_or_said_to_be_public() -> None:
    x, y = data()
    plain = clone(LOGISTIC).set_params(observed_classes_are_public=False)
    with pytest.raises(ConfigError, match="classes"):
        plain.fit(x, y > 0)
    with pytest.raises(ConfigError, match="keep one"):
        clone(LOGISTIC).set_params(classes=[False, True]).fit(x, y > 0)
    for wrong in ([1], [1, 1], [1, 2, 3]):
        with pytest.raises(ConfigError, match="two values that differ"):
            clone(plain).set_params(classes=wrong).fit(x, y > 0)
    names = np.where(y > 0, "yes", "no")
    model = clone(plain).set_params(classes=["no", "yes"]).fit(x, names)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(x, names) > 0.9
    assert np.allclose(model.predict_proba(x).sum(axis=1), 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_no_value_of_a_row_is_told_by_an_error(bad: float) -> None:
    x, y = data()
    wrong_x, wrong_y = x.copy(), y.copy()
    wrong_x[7, 3] = bad
    wrong_y[9] = bad
    for features, targets in ((wrong_x, y), (x, wrong_y), (wrong_x, wrong_y)):
        assert np.isfinite(clone(LASSO).fit(features, targets).coef_).all()
    declared = {"observed_classes_are_public": False, "classes": [0.0, 1.0]}
    signs = (y > 0).astype(np.float64)
    signs[9] = bad
    model = clone(LOGISTIC).set_params(**declared).fit(wrong_x, signs)
    assert np.isfinite(model.coef_).all()


def test_nothing_but_bounds_is_read_off_the_data() -> None:
    """The plan, steps and noise too, is the same whatever the rows hold."""
    x, y = data()
    first = clone(LASSO).fit(x, y)
    for features, targets in ((x * 100, y), (x * 0, y * 0), (x, y + 5)):
        other = clone(LASSO).fit(features, targets)
        assert other.plan_.digest == first.plan_.digest
        assert other.n_iter_ == first.n_iter_ and other.guarantee_ == first.guarantee_


def test_a_secret_repeats_bits_and_without_one_noise_is_fresh() -> None:
    x, y = data()
    once, again = clone(LASSO).fit(x, y), clone(LASSO).fit(x, y)
    assert (once.coef_ == again.coef_).all() and once.intercept_ == again.intercept_
    loud = clone(LASSO).set_params(secret=None, epsilon=0.5)
    assert (clone(loud).fit(x, y).coef_ != clone(loud).fit(x, y).coef_).any()


def test_what_is_spent_is_at_most_what_was_given() -> None:
    x, y = data()
    for epsilon, delta in ((0.5, 1e-6), (2.0, 0.0), (10.0, 1e-9)):
        model = clone(LASSO).set_params(epsilon=epsilon, delta=delta).fit(x, y)
        assert 0.9 * epsilon < model.guarantee_.epsilon <= epsilon
        assert model.guarantee_.delta == delta


def test_frames_sparse_and_dense_rows_fit_alike() -> None:
    x, y = data()
    x[np.abs(x) < 5] = 0
    dense = clone(LASSO).fit(x, y)
    for features in (
        scipy.sparse.csr_array(x),
        scipy.sparse.csc_matrix(x),
        pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])]),
    ):
        other = clone(LASSO).fit(features, y)
        assert np.allclose(other.coef_, dense.coef_, atol=0.1)
        assert np.allclose(other.predict(features), x @ other.coef_ + other.intercept_)
    assert other.feature_names_in_[0] == "x0"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_rows_are_fitted_without_their_zeros(form: str) -> None:
    """5,000 rows of 200,000 features would be 8 GB; ten numbers of each are 1 MB."""
    n, p, rng = 5000, 200_000, np.random.default_rng(3)
    at = np.repeat(np.arange(n), 10), rng.integers(0, p, 10 * n)
    x = scipy.sparse.csr_array((rng.choice([-1.0, 1.0], 10 * n), at), shape=(n, p))
    y = np.asarray(x[:, :20_000].sum(axis=1)).ravel()
    lasso = clone(LASSO).set_params(feature_bounds=(-1, 1), max_iter=10)
    logistic = clone(LOGISTIC).set_params(feature_bounds=(-1, 1), max_iter=10)
    for model, targets in ((lasso, y), (logistic, y > 0)):
        tracemalloc.start()
        try:
            model.fit(x.asformat(form), targets).predict(x)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 100e6


def test_more_features_than_rows() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (300, 2000))
    y = x[:, 1500]
    model = clone(LASSO).set_params(
        feature_bounds=(-1, 1), target_bounds=(-1, 1), radius=1, fit_intercept=False
    )
    model.fit(x, y)
    assert np.argmax(np.abs(model.coef_)) == 1500
    assert np.abs(model.coef_).sum() <= 1 + 1e-9
    assert np.count_nonzero(model.coef_) <= model.n_iter_


def test_a_fitted_model_travels() -> None:
    x, y = data()
    model = pickle.loads(pickle.dumps(clone(LASSO).fit(x, y)))
    assert model.predict(x).shape == (len(x),)
