"""Margins of ratios of noisy sums: what is possible, and how often noise lies within."""

from __future__ import annotations

from typing import Any

import numpy as np

from weir.dpcore.aggregates.margins import ratio_margin, square_range
from weir.dpcore.pricing.calibration import band_of


def possible(v: float, n: float, v_std: float, n_std: float, z: float, between: Any) -> Any:
    """The same by a grid."""
    grid = np.linspace(*between, 40_001)
    some = np.flatnonzero(np.abs(v - grid * n) <= z * np.sqrt(v_std**2 + (grid * n_std) ** 2))
    return (grid[some[0]], grid[some[-1]]) if len(some) else between


def test_margins_of_ratios_are_those_of_a_grid() -> None:
    rng = np.random.default_rng(8)
    between, z = (-3.0, 3.0), 1.96
    kinds = set()
    for _ in range(300):
        n_std, v_std = np.exp(rng.normal(0, 1, 2))
        n = rng.normal(0, 4) * n_std
        v = rng.normal(0, 1.5) * abs(n) + rng.normal() * v_std * rng.choice([0.1, 1, 8])
        low, high = (
            float(end)
            for end in ratio_margin(
                np.array(v), np.array(n), np.array(v_std), np.array(n_std), between, z
            )
        )
        first, last = possible(v, n, v_std, n_std, z, between)
        assert abs(low - first) < 4e-4 and abs(high - last) < 4e-4, (v, n, v_std, n_std)
        kinds.add((low == -3, high == 3))
    assert len(kinds) == 4
    nothing = np.zeros(1)
    assert ratio_margin(nothing, nothing, nothing, nothing, between, z) == between
    assert square_range(np.array([-1.0, 2.0]), np.array([2.0, 3.0]))[0].tolist() == [0.0, 4.0]


def test_margins_of_several_laplace_noises_are_no_narrower_than_they_must_be() -> None:
    """Of a ratio two independent noises add up, in any proportion: their law is known."""
    for outside in (0.05, 0.025):
        z, gaussian = band_of("laplace", outside), band_of("gaussian", outside)
        assert z == band_of("k_norm", outside) > gaussian
        for b in (0.0, *np.linspace(0.01, 0.99, 99)):
            # |a X + b Y| for a = 1: exceeds t with (e^-t - b^2 e^(-t / b)) / (1 - b^2)
            t = z * np.sqrt(2 * (1 + b**2))
            second = b**2 * np.exp(-t / b) if b else 0.0
            assert (np.exp(-t) - second) / (1 - b**2) <= outside * 1.00001  # rounded
        assert np.exp(-gaussian * np.sqrt(2)) > outside  # a mutant: that of Gaussian noise
