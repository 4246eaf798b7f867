"""How hard a regression pulls to 0: as the user says, or as hard as the noise pulls elsewhere."""

from __future__ import annotations

import math

from dpcore.mechanism import Floats


def ridge_for(ridge: float | None, stddev: Floats, dimension: int) -> float | Floats:
    """Weight of |theta|^2 in every system.

    Without a number: s sqrt(2 d), the size of the noise in the matrix (the largest eigenvalue of a
    symmetric matrix of such noise, for large d). Below it a direction cannot be told from noise;
    a direction that many events show has an eigenvalue far above, and is hardly moved. It is
    public, needs no budget, and is 0 where there is no noise.

    Args:
      ridge: of the config. stddev: (n,) s, of the noise of a coordinate of (svec(Q), q).
      dimension: d.

    Source: as in adaptive regularisation of private regression, Wang (2018), "Revisiting
      differentially private linear regression", with the known noise alone.
    """
    return stddev * math.sqrt(2 * dimension) if ridge is None else ridge


def canonical_ridge(ridge: float | None) -> str:
    """For the plan."""
    return "noise" if ridge is None else ridge.hex()
