"""Steps over an l1 ball by a kernel have the bits of those in numpy."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np
import pytest

from weir.dpcore.geometry.balls import L1Ball
from weir.dpcore.geometry.boxes import Simplex
from weir.dpcore.models.kit.point import to_grid
from weir.dpcore.models.online import oracle_step as ball_step
from weir.dpcore.models.online.conditional_gradient import ConditionalGradient
from weir.dpcore.models.online.oracle_step import BallStep, OracleStep

SIZES = (1, 2, 3, 7, 8, 9, 16, 17, 20, 63, 64, 65, 100, 127, 128, 129, 200, 257, 1000, 4099)
RADII = (5.0, 0.3, 1e6)


def kernel_of(step: OracleStep) -> BallStep:
    found = step.kernel()
    if found is None and not os.environ.get("CI"):
        pytest.skip("numpy adds up in another order on this machine")
    assert found is not None, "numpy adds up in another order here, so that no kernel is tested"
    return found


def points(step: OracleStep, n: int, kind: int, seed: int) -> tuple[Any, Any, Any]:
    """n points of a ball in one of several states, bounds, and what is to be near."""
    ball, rng = step.set, np.random.default_rng(seed)
    assert isinstance(ball, L1Ball)
    shape, radius = (n, ball.size), ball.radius
    x = rng.normal(size=shape) * rng.choice([0, 1e-3, 1], shape, p=[0.5, 0.2, 0.3])
    if kind % 3 == 0:
        x = rng.normal(size=shape) * 3 * radius  # onto the edge
    elif kind % 3 == 1:
        x = x * 0.9 * radius / max(1, ball.size)
    x = to_grid(ball.project(x), step.grid)
    y = rng.normal(size=shape) * radius * rng.choice([1e-6, 1e-2, 1, 100])
    if kind % 4 == 1:
        y = np.round(y / radius) * radius  # ties
    if kind % 4 == 2:
        y = x + y / 100
    if kind % 4 == 3:
        y[::2] = x[::2]  # nothing to do
    bound = np.abs(rng.normal(size=n)) * radius * rng.choice([0, 1e-9, 1e-3, 1, 100], n)
    return x, bound, y


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_a_step_is_the_same_to_the_bit(size: int, compiled: Any) -> None:
    for radius in RADII:
        step = OracleStep(L1Ball(radius, size))
        kernel = kernel_of(step)
        for kind in range(24):
            for n in (1, 3, 40) if size < 1000 else (1, 2):
                given = points(step, n, kind, kind + n)
                fresh, gap = kernel(*given)
                wanted, room = step._plain(*given)
                assert fresh.tobytes() == wanted.tobytes(), (radius, kind, n)
                assert gap.tobytes() == room.tobytes(), (radius, kind, n)


def run(rule: ConditionalGradient, n: int, ticks: int, noise: float) -> Any:
    """A rule along growing sums."""
    rng = np.random.default_rng(ticks)
    drift = rng.normal(size=(n, rule.set.dimension)) * rng.choice([0.0, 1.0], (n, 1))
    state, seen = rule.init(n), []
    for i in range(ticks):
        state = rule.update(state, drift * i + noise * rng.normal(size=drift.shape))
        seen.append(state)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 5, 20, 70, 300])
@pytest.mark.parametrize("noise", [0.0, 2.0, 500.0])
def test_learning_is_the_same_to_the_bit(
    size: int, noise: float, compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ball = L1Ball(2.0, size)
    off_centre = (0.01, *(0.0,) * (size - 1))
    rules = [
        ConditionalGradient(ball, 1.5, (0.0,) * size),
        ConditionalGradient(ball, 0.3, off_centre),
        ConditionalGradient(ball, 1.0, (0.0,) * size, own_curvature=True),
    ]
    kernel_of(OracleStep(ball))
    for rule in rules:
        fast = run(rule, 4, 60, noise)
        with monkeypatch.context() as without:
            without.setattr(ball_step, "kernels", None)
            slow = run(rule, 4, 60, noise)
        for one, other in zip(fast, slow, strict=True):
            for name, mine, theirs in zip(one._fields, one, other, strict=True):
                if name == "aux":
                    assert mine.weights.shape == theirs.weights.shape
                else:
                    assert mine.tobytes() == theirs.tobytes(), name


def test_other_bits_are_not_taken(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = OracleStep(L1Ball(1.0, 6))
    monkeypatch.setattr(ball_step, "_agrees", {})
    real = step._in_numpy

    def other(*given: Any) -> Any:
        found = real(*given)
        return found._replace(gap=np.nextafter(found.gap, 9.0))

    with monkeypatch.context() as odd:
        odd.setattr(OracleStep, "_in_numpy", lambda self, *given: other(*given))
        assert step.kernel() is None
        given = points(step, 2, 0, 1)
        assert step(*given, step.init(2)).gap.tobytes() == other(*given, step.init(2)).gap.tobytes()
    monkeypatch.setattr(ball_step, "_agrees", {})
    kernel_of(step)
    monkeypatch.setattr(ball_step, "kernels", None)
    assert step.kernel() is None


def test_each_process_asks_anew(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = OracleStep(L1Ball(1.0, 6))
    kernel_of(step)
    again = pickle.loads(pickle.dumps(step))
    monkeypatch.setattr(ball_step, "_agrees", {6: False})
    assert again.kernel() is None


def test_only_balls_and_line_search_have_one() -> None:
    assert OracleStep(Simplex(1.0, 6)).kernel() is None
    assert OracleStep(L1Ball(1.0, 6), "constant").kernel() is None


def test_no_keys(compiled: Any) -> None:
    step = OracleStep(L1Ball(1.0, 6))
    nothing = np.zeros((0, 6))
    fresh, gap = kernel_of(step)(nothing, np.zeros(0), nothing)
    assert fresh.shape == (0, 6) and gap.shape == (0,)


def test_buffers_that_do_not_fit_are_refused(compiled: Any) -> None:
    kernel = compiled
    x, row, numbers, scratch = np.zeros((2, 3)), np.zeros(2), np.zeros(7), np.zeros((6, 3))
    kernel.ball_step(x, x, row, numbers, scratch, x.copy(), row.copy())
    for place in range(7):
        given = [x, x, row, numbers, scratch, x.copy(), row.copy()]
        given[place] = np.zeros(given[place].size - 1)
        with pytest.raises(ValueError, match="x, y and fresh must be"):
            kernel.ball_step(*given)
    eight = np.zeros(8)
    kernel.ball_follow(x, x, x, row, row, eight, scratch, x.copy(), row.copy(), row.copy())
    for place in range(10):
        given = [x, x, x, row, row, eight, scratch, x.copy(), row.copy(), row.copy()]
        given[place] = np.zeros(given[place].size - 1)
        with pytest.raises(ValueError, match="x, sum, last and fresh must be"):
            kernel.ball_follow(*given)
    with pytest.raises((BufferError, ValueError)):
        x.flags.writeable = False
        kernel.ball_step(np.ones((2, 3)), x, row, numbers, scratch, x, row.copy())
