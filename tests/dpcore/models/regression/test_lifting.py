"""Lifting: back to the sparse model that was projected, and to the least gauge for every set."""

from __future__ import annotations

import numpy as np
import pytest

from weir.dpcore.geometry.balls import GroupL1Ball, L1Ball, L2Ball
from weir.dpcore.geometry.boxes import Box, Simplex
from weir.dpcore.geometry.norm_balls import LpBall
from weir.dpcore.models.regression.lifting import LOOSE, Embedded, is_least, lift, solve_embedded
from weir.dpcore.models.regression.projection import RandomProjection
from weir.dpcore.models.regression.quadratic import PrivateQuadratic

D = 60
SETS = {
    "l1": L1Ball(2.0, D),
    "l2": L2Ball(2.0, D),
    "box": Box.uniform(-0.5, 0.7, D),
    "group": GroupL1Ball.even(2.0, 4, D),
    "lp": LpBall(2.0, 1.5, D),
}


def sparse_model(d: int, k: int, size: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    theta = np.zeros(d)
    theta[rng.choice(d, k, replace=False)] = rng.choice([-1.0, 1.0], k) * rng.uniform(0.5, 1, k)
    return theta * size / np.abs(theta).sum()


@pytest.mark.slow
@pytest.mark.parametrize(("d", "m", "k"), [(2000, 100, 8), (300, 60, 6), (50, 30, 4)])
def test_a_sparse_model_comes_back_when_m_is_enough(d: int, m: int, k: int) -> None:
    """From any model of the same image: the sparsest-looking one is the true one."""
    phi = RandomProjection(m, d, 1).matrix
    theta = sparse_model(d, k, 1.0)
    spread = np.linalg.lstsq(phi, phi @ theta, rcond=None)[0]
    ball = L1Ball(float(np.abs(spread).sum()), d)
    assert np.abs(spread - theta).max() > 0.01
    np.testing.assert_allclose(lift(spread[None], phi, ball)[0], theta, atol=1e-9)


def test_it_does_not_when_m_is_too_small() -> None:
    phi = RandomProjection(12, 300, 1).matrix
    theta = sparse_model(300, 6, 1.0)
    found = lift(theta[None], phi, L1Ball(1.0, 300))[0]
    assert np.abs(found - theta).max() > 0.05
    assert np.abs(found).sum() < 0.9
    np.testing.assert_allclose(phi @ found, phi @ theta, atol=1e-9)


def test_groups_come_back_too() -> None:
    phi = RandomProjection(48, 160, 2).matrix
    theta = np.zeros(160)
    theta[8:12], theta[40:44] = [0.3, -0.2, 0.5, 0.1], [0.2, 0.2, -0.2, 0.3]
    spread = np.linalg.lstsq(phi, phi @ theta, rcond=None)[0]
    ball = GroupL1Ball.even(10.0, 4, 160)
    assert np.linalg.norm(spread - theta) > 0.5 * np.linalg.norm(theta)
    assert np.linalg.norm(lift(spread[None], phi, ball)[0] - theta) < 0.02 * np.linalg.norm(theta)


@pytest.mark.parametrize("name", SETS)
def test_no_other_model_of_that_image_has_a_smaller_gauge(name: str) -> None:
    convex_set, phi = SETS[name], RandomProjection(20, D, 4).matrix
    rng = np.random.default_rng(1)
    point = convex_set.project(0.3 * rng.standard_normal((1, D)))[0]
    found = lift(point[None], phi, convex_set)[0]
    np.testing.assert_allclose(phi @ found, phi @ point, atol=1e-6)
    gauge = float(convex_set.gauge(found[None])[0])
    assert gauge < 0.97 * float(convex_set.gauge(point[None])[0])
    null = np.linalg.svd(phi)[2][20:]
    for size in (1e-3, 1e-2, 0.1, 1.0):
        others = found + size * rng.standard_normal((400, len(null))) @ null
        assert convex_set.gauge(others).min() >= gauge / (1 + LOOSE) - 1e-9


def test_both_ways_to_lift_agree() -> None:
    """The linear program of the l1 ball, and the root, which knows it as groups of one."""
    phi = RandomProjection(20, D, 4).matrix
    point = np.linalg.lstsq(phi, phi @ sparse_model(D, 12, 1.0), rcond=None)[0]
    ball = L1Ball(9.0, D)
    by_program = lift(point[None], phi, ball)[0]
    by_root = lift(point[None], phi, GroupL1Ball.even(9.0, 1, D))[0]
    least = np.abs(by_program).sum()
    assert least - 1e-9 <= np.abs(by_root).sum() <= (1 + LOOSE) * least + 1e-9
    np.testing.assert_allclose(phi @ by_root, phi @ by_program, atol=1e-9)


def test_a_set_without_zero_keeps_its_model() -> None:
    phi = RandomProjection(5, 12, 0).matrix
    point = np.full(12, 1 / 12)
    assert np.array_equal(lift(point[None], phi, Simplex(1.0, 12))[0], point)
    assert np.array_equal(lift(np.zeros(12)[None], phi, L1Ball(1.0, 12))[0], np.zeros(12))


def embedded(n: int, m: int, d: int, noise: float) -> tuple[PrivateQuadratic, np.ndarray]:
    rng = np.random.default_rng(m)
    phi = RandomProjection(m, d, 0).matrix
    z = rng.standard_normal((n, 200, m))
    error = noise * rng.standard_normal((n, m, m))
    theta = np.stack([sparse_model(d, 3, 1.5, seed=i) for i in range(n)])
    matrix = z.transpose(0, 2, 1) @ z + (error + error.transpose(0, 2, 1)) / 2
    right = z.transpose(0, 2, 1) @ (z @ (theta @ phi.T)[:, :, None])
    right += noise * rng.standard_normal(right.shape)
    return PrivateQuadratic(matrix, right.transpose(0, 2, 1).copy()), phi


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 60.0])
@pytest.mark.parametrize("radius", [1.0, 4.0])
@pytest.mark.parametrize("name", ["l1", "l2", "group"])
def test_models_over_the_projected_set(name: str, radius: float, noise: float) -> None:
    """Optimal over theta in the set, and least in gauge wherever it is said to be."""
    kinds = {"l1": L1Ball(radius, D), "l2": L2Ball(radius, D)}
    convex_set = kinds.get(name, GroupL1Ball.even(radius, 3, D))
    quadratic, phi = embedded(6, 20, D, noise)
    spread = float(np.linalg.norm(phi, ord=2))
    theta, gap = solve_embedded(quadratic, phi, spread, convex_set, 1e-7, 20_000)
    assert convex_set.contains(theta[:, 0]).all()
    values = quadratic.value(theta @ phi.T)
    best = quadratic.value(quadratic.free)
    size = quadratic.largest * radius**2 + np.linalg.norm(quadratic.right[:, 0], axis=1) * radius
    assert np.all(gap[:, 0] <= 1e-7 * size)
    rng = np.random.default_rng(0)
    others = convex_set.project(theta[:, 0].repeat(50, 0) + 0.1 * rng.standard_normal((300, D)))
    there = quadratic.value((others @ phi.T).reshape(6, 50, 20))
    problem = Embedded(phi, quadratic.convex, quadratic.right, *[np.zeros(6)] * 2, np.zeros((6, 1)))
    assert np.all(values <= there.min(axis=1, keepdims=True) + gap + 1e-9)
    settled = is_least(problem, theta, convex_set)[:, 0]
    for i in np.flatnonzero(settled):
        lifted = lift(theta[i, :1], phi, convex_set)
        assert float(convex_set.gauge(lifted)[0]) >= 1 - 2e-3
    if radius == 4.0 and not noise:
        assert not settled.any()
        assert np.all(values[:, 0] - best[:, 0] <= 1e-7 * size)
    if radius == 1.0 and noise:
        assert settled.all()


def test_a_model_does_not_depend_on_who_is_beside_it() -> None:
    quadratic, phi = embedded(12, 20, D, 30.0)
    spread, ball = float(np.linalg.norm(phi, ord=2)), L1Ball(1.0, D)
    whole = solve_embedded(quadratic, phi, spread, ball, 1e-7, 5000).theta
    for i in (0, 5, 11):
        part = PrivateQuadratic(quadratic.matrix[i : i + 1], quadratic.right[i : i + 1])
        assert np.array_equal(
            solve_embedded(part, phi, spread, ball, 1e-7, 5000).theta[0], whole[i]
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_a_lifted_model_does_not_depend_on_those_next_to_it(name: str) -> None:
    convex_set, phi = SETS[name], RandomProjection(20, D, 4).matrix
    sizes = np.array([[0.3], [0.0], [0.1], [1.0]])
    points = convex_set.project(sizes * np.random.default_rng(2).standard_normal((4, D)))
    alone = [lift(point[None], phi, convex_set)[0] for point in points]
    assert np.array_equal(lift(points, phi, convex_set), alone)
