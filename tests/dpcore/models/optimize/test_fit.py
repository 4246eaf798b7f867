"""Private Frank-Wolfe as a function on arrays: dense and sparse, wide, odd and wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from tests.constant_noise import NoNoise
from weir.dpcore.errors import ConfigError
from weir.dpcore.models.optimize.fit import BatchPlan, fit
from weir.dpcore.models.optimize.packing import Range, pack

SECRET = bytes(range(32))


def plan(n: int, p: int, **more: Any) -> BatchPlan:
    given: dict[str, Any] = {
        "set": {"l1_ball": 1.0},
        "feature_range": (-1, 1),
        "target_range": (-1, 1),
        "epsilon": 2.0,
        "delta": 1e-6,
        **more,
    }
    return BatchPlan.of(n=n, features=p, **given)


def lasso(n: int, p: int, seed: int = 0) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.choice([-1.0, 1.0], (n, p))
    theta = np.zeros(p)
    theta[: min(p, 3)] = np.array([0.5, -0.3, 0.2])[: min(p, 3)]
    return x, np.clip(x @ theta + 0.05 * rng.standard_normal(n), -1, 1), theta


def excess(x: Any, y: Any, theta: Any, best: Any) -> float:
    return float(np.mean((x @ theta - y) ** 2 - (x @ best - y) ** 2) / 2)


@pytest.mark.slow
def test_the_excess_risk_is_below_its_bound_and_falls() -> None:
    found = []
    for n in (500, 8000):
        x, y, best = lasso(n, 60)
        made = plan(n, 60)
        risks = [excess(x, y, fit(x, y, made, bytes([i]) * 32).theta, best) for i in range(6)]
        assert np.mean(risks) <= made.way.error
        found.append(np.mean(risks))
    assert found[1] < found[0] / 3


def test_the_same_data_give_the_same_bits_and_others_all_new_noise() -> None:
    x, y, _ = lasso(300, 8)
    made = plan(300, 8)
    one, two = fit(x, y, made, SECRET), fit(x.copy(), list(y), made, SECRET)
    assert one.theta.tobytes() == two.theta.tobytes()
    other = x.copy()
    other[7, 3] *= -1
    assert fit(other, y, made, SECRET).theta.tobytes() != one.theta.tobytes()
    assert fit(x, y, made, bytes(32)).theta.tobytes() != one.theta.tobytes()


def test_sparse_is_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weir.dpcore.models.optimize.fit.KeyedNoise", lambda *_: NoNoise(0))
    rng = np.random.default_rng(1)
    x = rng.uniform(-3, 3, (120, 15)) * (rng.random((120, 15)) < 0.2)
    x[3, 2], x[9] = np.nan, 0.0
    y = np.where(rng.random(120) < 0.5, 1.0, -1.0)
    y[5] = np.inf
    for more in (
        {"loss": "logistic", "intercept": True},
        {"loss": {"huber": 0.5}, "norm": 0.8},
        {"set": {"l2_ball": 1.0}, "noise": "gaussian", "norm": 1.0},
        {"set": {"simplex": 1.0}},
    ):
        made = plan(120, 15, feature_range=(-2, 2), **more)
        whole = fit(x, y, made, SECRET).theta
        for form in (sparse.csr_array, sparse.csc_array, sparse.coo_matrix):
            assert fit(form(x), y, made, SECRET).theta.tobytes() == whole.tobytes()
        keep = np.setdiff1d(np.arange(120), [3, 5])
        again = fit(np.where(np.isfinite(x), x, 0.0)[keep], y[keep], _of(made, 118), SECRET)
        np.testing.assert_allclose(again.theta, whole, atol=0.2)  # another N, almost


def _of(made: BatchPlan, n: int) -> BatchPlan:
    return BatchPlan.of(
        n=n,
        features=15,
        set=made.linear.set,
        feature_range=(-2, 2),
        target_range=(-1, 1),
        epsilon=2.0,
        delta=1e-6,
        loss=made.linear.loss,
        intercept=made.linear.intercept,
        norm=None if math.isinf(made.linear.norm) else made.linear.norm,
        iterations=made.way.steps,
        noise=made.way.noise,
    )


def test_the_users_units() -> None:
    rng = np.random.default_rng(2)
    x = np.stack([rng.uniform(0, 10, 4000), rng.uniform(-5, 5, 4000)], axis=1)
    y = 100 + 3 * x[:, 0] - 2 * x[:, 1]
    made = plan(
        4000,
        2,
        feature_range=([0, -5], [10, 5]),
        target_range=(80, 150),
        set={"l1_ball": 2},
        intercept=True,
        epsilon=1e5,
        delta=1e-6,
        iterations=4000,
    )
    model = fit(x, y, made, SECRET)
    np.testing.assert_allclose(model.coefficients, [3, -2], atol=0.1)
    assert np.abs(model.predict(x) - y).mean() < 0.5
    assert model.sparse[0].tolist() == [0, 1]


def test_values_outside_their_range_and_missing_ones() -> None:
    x = np.array([[5.0, -9.0], [0.5, np.nan], [0.25, 0.5]])
    found = pack(
        x,
        np.array([9.0, 1.0, -0.5]),
        Range.of((-1, 1), 2, "f"),
        Range.of((-1, 1), 1, "t"),
        math.inf,
    )
    assert found.features.tolist() == [[1.0, -1.0], [0.25, 0.5]]
    assert found.targets.tolist() == [1.0, -0.5] and found.shape == (3, 2)
    short = pack(x[[0, 2]], np.zeros(2), Range.of((-1, 1), 2, "f"), Range.of((-1, 1), 1, "t"), 0.5)
    assert (np.linalg.norm(short.features, axis=1) <= 0.5).all()
    assert np.linalg.norm(short.features, axis=1).min() > 0.499


@pytest.mark.parametrize(
    "data",
    ["one feature", "all zero", "constant target", "one row", "nothing finite", "twins"],
)
def test_odd_data_give_models(data: str) -> None:
    rng = np.random.default_rng(3)
    n, p = (1, 4) if data == "one row" else (50, 1 if data == "one feature" else 4)
    x, y = rng.uniform(-1, 1, (n, p)), rng.uniform(-1, 1, n)
    if data == "all zero":
        x[:] = 0.0
    elif data == "constant target":
        y[:] = 0.5
    elif data == "nothing finite":
        x[:] = np.nan
    elif data == "twins":
        x[:, 1] = x[:, 0]
    for loss in ("squared", "logistic", {"huber": 0.5}):
        for spec in ({"l1_ball": 1.0}, {"l2_ball": 1.0}):
            made = plan(n, p, loss=loss, set=spec)
            theta = fit(x, y, made, SECRET).theta
            assert np.isfinite(theta).all() and made.linear.set.contains(theta[None], 1e-6).all()


def test_duplicated_vertices_count_once() -> None:
    corners = [[0.5, 0.5], [-1.0, 0.0], [0.5, 0.5], [0.0, -1.0]]
    once = plan(100, 2, set={"polytope": {"vertices": [corners[i] for i in (0, 1, 3)]}})
    twice = plan(100, 2, set={"polytope": {"vertices": corners}})
    assert once.way.scale == twice.way.scale
    x, y, _ = lasso(100, 2)
    theta = fit(x, y, twice, SECRET).theta
    assert twice.linear.set.contains(theta[None], 1e-9).all()


def test_very_wide_data_make_no_square_array() -> None:
    rng = np.random.default_rng(4)
    n, p = 300, 100_000
    at = rng.integers(0, p, (n, 20))
    x = sparse.csr_array(
        (rng.uniform(-1, 1, n * 20), (np.repeat(np.arange(n), 20), at.ravel())), (n, p)
    )
    made = plan(n, p, iterations=6)
    model = fit(x, rng.uniform(-1, 1, n), made, SECRET)
    assert 1 <= np.count_nonzero(model.theta) <= 6 and len(model.sparse[0]) <= 6


@pytest.mark.parametrize("noise", ["gumbel", "laplace", "gaussian", "discrete_gaussian", "k_norm"])
def test_every_noise_keeps_its_promise(noise: str) -> None:
    made = plan(200, 3, noise=noise, delta=0.0 if noise == "k_norm" else 1e-6)
    assert made.way.noise == noise and 1.9 < made.guarantee.epsilon <= 2.0
    x, y, _ = lasso(200, 3)
    assert np.isfinite(fit(x, y, made, SECRET).theta).all()


def test_without_delta_selections_are_pure() -> None:
    made = plan(200, 3, delta=0.0)
    assert made.way.kind == "pure" and made.way.noise == "gumbel"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"loss": "absolute"}, "has a corner"),
        ({"epsilon": 0.0}, "above 0"),
        ({"delta": 1.0}, "below 1"),
        ({"feature_range": 3}, "pair"),
        ({"feature_range": (1, -1)}, "low below high"),
        ({"feature_range": ([0, 0], [1, 1])}, "3 of them"),
        ({"set": {"l1_ball": -1}}, "above 0"),
        ({"norm": 0}, "above 0"),
        ({"noise": "cauchy"}, "must be one of"),
        ({"noise": "gumbel", "set": {"l2_ball": 1}}, "no list of vertices"),
        ({"noise": "gaussian", "delta": 0.0}, "above 0"),
        ({"set": {"simplex": 1.0}, "features": 1}, "single point"),
    ],
)
def test_what_cannot_be_served_is_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        plan(10, more.pop("features", 3), **more)


def test_arrays_that_do_not_fit_are_refused() -> None:
    made = plan(10, 3)
    for x, y in ((np.zeros((9, 3)), np.zeros(9)), (np.zeros((10, 2)), np.zeros(10))):
        with pytest.raises(ConfigError, match="must be 10 rows of 3"):
            fit(x, y, made, SECRET)
    with pytest.raises(ConfigError, match="with y"):
        fit(np.zeros((10, 3)), np.zeros(9), made, SECRET)
    with pytest.raises(ConfigError, match="around 0 for sparse"):
        fit(sparse.csr_array((10, 3)), np.zeros(10), plan(10, 3, feature_range=(0, 1)), SECRET)


@pytest.mark.parametrize("norm", [None, 1.5])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("features", [9, 1500, 5000])
def test_dense_and_sparse_rows_are_released_alike(
    loss: str, norm: float | None, features: int
) -> None:
    rng = np.random.default_rng(features)
    n = 60
    x = np.where(rng.random((n, features)) < 0.9, 0.0, rng.normal(size=(n, features)))
    x[3, 1], x[4, 2], x[5] = np.nan, -0.0, 0.0
    y = np.clip(x[:, 0], -1, 1)
    y[6] = np.nan
    plan = BatchPlan.of(
        n=n,
        features=features,
        set={"l1_ball": 1.0},
        feature_range=(-2, 2),
        target_range=(-1, 1),
        epsilon=50.0,
        delta=1e-6,
        loss=loss,
        intercept=features == 9,
        norm=norm,
        iterations=8,
    )
    shuffled = sparse.coo_array(x)
    order = rng.permutation(shuffled.nnz)
    row, column = shuffled.coords
    coo = sparse.coo_array(
        (shuffled.data[order], (row[order], column[order])), shape=shuffled.shape
    )
    forms = (x, np.asfortranarray(x), sparse.csr_matrix(x), sparse.csc_array(x), coo)
    released = [fit(one, y, plan, secret=bytes(range(32))).theta for one in forms]
    for one in released[1:]:
        np.testing.assert_array_equal(one, released[0])
    ends = Range((-2.0,), (2.0,)), Range((-1.0,), (1.0,)), plan.linear.norm
    digests = {pack(one, y, *ends).digest for one in forms}
    other = x.copy()
    other[8, -1] += 0.5
    assert len(digests) == 1 and pack(other, y, *ends).digest not in digests


def test_arrays_that_no_machine_holds_are_refused() -> None:
    huge = np.lib.stride_tricks.as_strided(np.zeros(1), (10_000, 100_000), (0, 0))
    plan = BatchPlan.of(
        n=10_000,
        features=100_000,
        set={"l1_ball": 1.0},
        feature_range=(-1, 1),
        target_range=(-1, 1),
        epsilon=1.0,
        delta=1e-6,
    )
    with pytest.raises(ConfigError, match=r"give it as scipy\.sparse"):
        fit(huge, np.zeros(10_000), plan, secret=bytes(32))
