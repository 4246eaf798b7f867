"""The 95 % band of a release: one rule for results, plans and reports."""

from __future__ import annotations

BAND = 1.959963984540054
"""Half the width of a 95 % band, in standard deviations of Gaussian noise."""

LAPLACE_BAND = 2.1183
"""The same for Laplace noise (ln 20 / sqrt 2), the widest that K-norm noise can need."""


def band_of(noise: str) -> float:
    """Half the width of a 95 % band in standard deviations of a noise, named as in a config."""
    return LAPLACE_BAND if noise == "k_norm" else BAND
