"""Log loss and calibration of predicted shares."""

from __future__ import annotations

import math

import numpy as np
import pytest

from weir.pipelines.predict.shares import ShareTally


def test_shares_that_are_frequencies_are_calibrated_and_bold_ones_are_not() -> None:
    rng = np.random.default_rng(1)
    upper = rng.uniform(0, 1, 20_000)
    actual = (rng.random(20_000) < upper).astype(np.int64)
    bold = np.where(upper > 0.5, 0.99, 0.01)
    errors, losses = [], []
    for own in (upper, bold):
        tally = ShareTally()
        for part in np.array_split(np.arange(20_000), 7):
            tally.add(np.stack([1 - own[part], own[part]], axis=1), actual[part])
        assert tally.events == 20_000
        assert tally.calibration_error is not None and tally.log_loss is not None
        errors.append(tally.calibration_error)
        losses.append(tally.log_loss)
    assert errors[0] < 0.02 and errors[1] == pytest.approx(0.24, abs=0.02)
    assert losses[0] == pytest.approx(0.5, abs=0.01) and losses[1] > 1.0


def test_what_is_not_known_is_left_out_and_certain_errors_stay_finite() -> None:
    tally = ShareTally()
    assert tally.log_loss is tally.guess is tally.calibration_error is None
    shares = np.array([[1.0, 0.0, 0.0], [0.2, 0.5, 0.3], [np.nan] * 3, [0.6, 0.3, 0.1]])
    tally.add(shares, np.array([1, 1, 0, -1]))
    assert tally.events == 2 and tally.guess == pytest.approx(math.log(3))
    assert tally.log_loss == pytest.approx((50 * math.log(2) + math.log(2)) / 2)
    assert tally.calibration_error == pytest.approx((1.0 + 0.5) / 2)
    assert [row["from"] for row in tally.table()] == [0.5, 0.9]
    assert tally.table()[1] == {
        "from": 0.9, "to": 1.0, "events": 1, "mean_share": 1.0, "right": 0.0,
    }  # fmt: skip
