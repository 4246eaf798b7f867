"""Sensitivity when one privacy unit contributes at several ticks.

**Formal guarantees.** A unit contributes at most p vectors x_j, each of l2 norm at most Delta, at
ticks i_j at least g apart. A release of C x + noise with C >= 0 then has l2 sensitivity at most
Delta times the factor returned here: || sum_j C[:, i_j] x_j || <= Delta || sum_j C[:, i_j] ||,
since no inner product of columns of C is negative. All x_j equal attains it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from weir.dpcore.errors import ConfigError, at_least_one


def toeplitz_participation(c: NDArray[np.float64], p: int, g: int, horizon: int) -> float:
    """Largest || sum_j C[:, i_j] ||_2 over admissible tick sets, rows 0 .. horizon - 1; rounded up.

    C is lower-triangular Toeplitz with coefficients c. For c non-negative and non-increasing the
    worst set is 0, g, 2g, ...: the inner product of columns a < b inside n rows is
    sum over m < n - b of c[m + b - a] c[m], which only falls when b or b - a grows, and in any
    admissible set the j-th tick is at least j g and the i-th and j-th at least |i - j| g apart.

    Args:
      c: (m,) coefficients, m >= horizon.
      p: most contributions of a unit.
      g: fewest ticks between two of them (1: at most one a tick).
      horizon: number of rows, from the first contribution on, against which the unit is protected.

    Raises:
      ConfigError: c is negative, increases, is not finite or is shorter than the horizon (the
        worst set is then another one, and this formula would be wrong).

    Source: Kalinin, Lampert (2024), "Banded square root matrix factorization for differentially
      private model training", Theorem 2; proof above.
    """
    at_least_one(p=p, g=g, horizon=horizon)
    c = np.asarray(c, dtype=np.float64)
    if c.ndim != 1 or c.size < horizon:
        raise ConfigError("c", c.shape, f"must have at least horizon = {horizon} coefficients.")
    c = c[:horizon]
    if not np.isfinite(c).all() or (c < 0).any() or (np.diff(c) > 0).any():
        raise ConfigError("c", "coefficients", "must be finite, non-negative and non-increasing.")
    column = np.zeros(horizon)
    for start in range(0, min(horizon, p * g), g):
        column[start:] += c[: horizon - start]
    # Rounds up: p additions and the sum of squares each lose at most 2^-53 relative.
    return math.sqrt(math.fsum((column * column).tolist())) * (1 + (p + 4) * 2.0**-52)


def shared_counts(levels: int, p: int, g: int) -> tuple[int, ...]:
    """Per level of a dyadic tree, from the leaves up: most contributions of a unit in one node.

    A node of level l holds 2^l ticks, and of these at most ceil(2^l / g) are g apart. Exact.
    """
    at_least_one(levels=levels, p=p, g=g)
    return tuple(min(p, -(-(1 << level) // g)) for level in range(levels))


def tree_participation(levels: int, p: int, g: int, trees: int = 1) -> float:
    """Largest l2 norm, over all nodes, of how often a unit contributes to each; rounded up.

    At each level the p contributions split into nodes of at most ``shared_counts`` each; a sum of
    squares under a cap is largest when as many nodes as possible are full. Attained by p
    consecutive multiples of g when g is a power of two (all levels at once); an upper bound
    otherwise.

    Args:
      levels: number of levels, 1 + log2 of the number of leaves under the highest node.
      p: most contributions of a unit to the ticks of the tree.
      g: fewest ticks between two of them.
      trees: how many consecutive trees these ticks can reach (2 for W ticks over the blocks of a
        window tree).
    """
    at_least_one(trees=trees)
    counts = shared_counts(levels, p, g)
    inside = min(p, -(-trees * (1 << (levels - 1)) // g))
    square = sum((inside // m) * m * m + (inside % m) ** 2 for m in counts)
    root = math.isqrt(square)
    return float(root) if root * root == square else math.sqrt(square) * (1 + 2.0**-50)
