"""Losses: derivatives against differences, convexity, and what a config may say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.kit.loss import Absolute, PinballLoss, PredictionLoss, exact_exp
from weir.dpcore.models.kit.loss_spec import LOSSES, parse_loss

SPECS: list[Any] = [
    "squared",
    "absolute",
    {"quantile": 0.9},
    {"huber": 0.3},
    "huber",
    "logistic",
    "hinge",
    {"hinge": 0.1},
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_derivatives_are_differences_of_values(spec: Any) -> None:
    loss = parse_loss(spec)
    rng = np.random.default_rng(1)
    prediction, target = rng.uniform(-4, 4, 4000), rng.uniform(-1, 1, 4000)
    step = 1e-6
    slope = (loss.value(prediction + step, target) - loss.value(prediction - step, target)) / (
        2 * step
    )
    smooth = np.abs(prediction - target) > 1e-5
    assert loss.derivative(prediction, target)[smooth] == pytest.approx(slope[smooth], abs=2e-5)
    assert (loss.value(prediction, target) >= 0).all()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_losses_are_convex(spec: Any) -> None:
    loss = parse_loss(spec)
    at = np.linspace(-50, 50, 4001)
    for target in (-1.0, -0.2, 0.0, 0.7):
        slopes = loss.derivative(at, np.full(at.size, target))
        assert (np.diff(slopes) >= -1e-15).all()


def test_the_exponential_is_right() -> None:
    x = -np.concatenate([[0.0, 1e-300, 800.0, 1e9], np.logspace(-18, 2.8, 5000)])
    assert exact_exp(x) == pytest.approx(np.exp(x), rel=4e-16, abs=5e-324)
    logistic = parse_loss("logistic")
    margin = np.array([1e4, -1e4, 0.0])
    assert logistic.value(margin, np.ones(3)) == pytest.approx([0.0, 1e4, np.log(2)])
    assert logistic.derivative(margin, np.ones(3)) == pytest.approx([0.0, -1.0, -0.5])


def test_minimisers_are_what_the_names_say() -> None:
    y = np.random.default_rng(2).exponential(size=801)
    at = np.linspace(0, 4, 4001)
    for loss, best in ((Absolute(), np.median(y)), (PinballLoss(0.9), np.quantile(y, 0.9))):
        total = [loss.value(np.full(y.size, p), y).sum() for p in at]
        assert at[int(np.argmin(total))] == pytest.approx(best, abs=2e-3)


@pytest.mark.parametrize(
    "spec",
    [
        "cubic",
        "quantile",
        {"quantile": 1.0},
        {"quantile": True},
        {"quantile": "x"},
        {"squared": 2.0},
        {"hinge": 0.0},
        {"huber": -1.0},
        {"hinge": 1, "huber": 2},
        7,
    ],
    ids=str,
)
def test_bad_losses_are_refused(spec: Any) -> None:
    with pytest.raises(ConfigError, match="loss"):
        parse_loss(spec)


EVERY = [*map(parse_loss, SPECS), PinballLoss(0.9).envelope(0.2), Absolute().envelope(0.05)]


@pytest.mark.parametrize("reach", [0.0, 0.3, 2.0, 50.0, math.inf])
@pytest.mark.parametrize("loss", EVERY, ids=lambda one: f"{one}")
def test_the_slope_holds_within_its_reach(loss: PredictionLoss, reach: float) -> None:
    at = np.linspace(-min(reach, 1e3), min(reach, 1e3), 4001)
    steepest = max(
        float(np.abs(loss.derivative(at, np.full(at.size, target))).max())
        for target in np.linspace(-1, 1, 21)
    )
    assert steepest <= loss.slope(reach) * (1 + 2.0**-50)
    assert (
        loss.labels
        or loss.name == "envelope"
        or reach == 0
        or steepest >= 0.9 * min(loss.slope(reach), 1e3)
    )


def test_a_logistic_model_of_a_bounded_set_is_less_steep() -> None:
    """What models of labels in one pass may gain: they take that of any reach today."""
    assert parse_loss("logistic").slope(math.inf) == 1.0
    assert parse_loss("logistic").slope(0.5 * math.sqrt(2)) == pytest.approx(0.67, abs=5e-3)


@pytest.mark.parametrize("loss", EVERY, ids=lambda one: f"{one}")
def test_the_scalar_form_has_the_bits_of_the_derivative(loss: PredictionLoss) -> None:
    rng, slope = np.random.default_rng(3), loss.scalar()
    if loss.cornered:
        loss = loss.envelope(0.3)
        slope = loss.scalar()
    prediction, target = rng.normal(0, 2, 500), rng.uniform(-1, 1, 500)
    found = [slope(*pair) for pair in zip(prediction.tolist(), target.tolist(), strict=True)]
    assert (np.array(found) == loss.derivative(prediction, target)).all()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_an_envelope_is_smooth_and_below_its_loss(spec: Any) -> None:
    loss = parse_loss(spec)
    if not loss.cornered:
        if loss.name != "hinge":
            with pytest.raises(ConfigError, match="no corner"):
                loss.envelope(0.1)
        return
    made, at = loss.envelope(0.1), np.linspace(-2, 2, 801)
    below = loss.value(at, np.zeros(801)) - made.value(at, np.zeros(801))
    assert made.smoothness == 10.0 and not made.cornered
    assert below.min() >= -1e-15 and below.max() <= 0.05 * loss.slope(math.inf) ** 2 + 1e-15


@pytest.mark.parametrize("name", LOSSES)
def test_the_derivative_is_no_steeper_than_it_says(name: str) -> None:
    loss = LOSSES[name].make(0.5 if LOSSES[name].parameter else None)
    assert isinstance(loss, PredictionLoss)
    at, target = np.linspace(-3, 3, 20001), np.full(20001, 0.5)
    steepest = float(np.max(np.abs(np.diff(loss.derivative(at, target)) / np.diff(at))))
    assert steepest <= loss.smoothness * (1 + 1e-6)
    assert math.isinf(loss.smoothness) or steepest >= 0.99 * loss.smoothness
