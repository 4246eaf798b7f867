"""Errors that are predicted before any data: bounds of the papers, in which the best settings are
looked for. Public."""

from __future__ import annotations

import math

from weir.dpcore.models.optimize.glm import Glm
from weir.dpcore.noise.generalised_gaussian import best_exponent, kappa


def regularity(dual: float, dimension: int) -> float:
    """kappa with E ||sum of independent Z_i||_q^2 <= kappa sum E ||Z_i||_q^2: the least over the
    exponents from 2 to q. 1 <= q."""
    if dual <= 2:
        return 1.0
    results = [best_exponent(dual, dimension)]
    if math.isinf(dual) and dimension > 1:
        results.append(max(2.0, 2 * math.log(dimension)))
    return min(kappa(r, dual, dimension) for r in results)


def length_of(dual: float, dimension: int) -> float:
    """E ||N(0, I)||_q at most: d^(1/q) (E |N|^q)^(1/q); for the largest of many sqrt(2 ln 2d)."""
    largest = math.sqrt(2 * math.log(2 * dimension))
    if math.isinf(dual):
        return largest
    moment = dual / 2 * math.log(2) + math.lgamma((dual + 1) / 2) - 0.5 * math.log(math.pi)
    return math.exp((moment + math.log(dimension)) / dual)


def tree_error(
    glm: Glm, diameter: float, batch: int, phases: int, noise: float, chosen: float = 0.0
) -> float:
    """Bound on E F(x) - F* after the last phase.

    Args:
      glm: loss and its constants. diameter: M. batch, phases: b, R.
      noise: E of the dual norm of the noise in a gradient. chosen: what selection adds to a step.

    Source: Bassily, Guzman, Nandi (2022), Theorem 5, re-derived (with gradients of b 2^-j records
    whose variances add up along a path); Asi, Feldman, Koren, Talwar (2021) for selection.
    """
    lipschitz, smoothness = glm.lipschitz, glm.smoothness
    spread = 2 * math.sqrt(regularity(glm.dual, glm.dimension) / batch)
    error = spread * (lipschitz + 2 * smoothness * diameter) + noise
    curved = smoothness * diameter * diameter * 2.0**-phases
    start = 2 * lipschitz * diameter / (4.0 ** (phases + 1) - 2.0 ** (phases + 1))
    return diameter * error + chosen + curved + start


def tree_guess(
    glm: Glm, diameter: float, batch: int, phases: int, noise: float, chosen: float = 0.0
) -> float:
    """What the error of features that are evenly spread may be, to choose R by: no bound.

    The bound has R too large: it takes all features to point one way, so that curvature is far
    above what a set of events has, and is paid 2^-R of. Here a feature has a size of A d^(-1/q), a
    gradient half of its slope, half of the diameter lies between models, and an eighth of the
    curvature is left at first, a quarter of that after every phase.

    Args: as of ``tree_error``.
    """
    dimension, dual = glm.dimension, glm.dual
    even = math.pow(dimension, 0.0 if math.isinf(dual) else -2 / dual)
    curved = glm.smoothness * diameter * diameter * even / 8 * 4.0**-phases
    spread = glm.slope / 2 * glm.reach * math.sqrt(even / batch) * length_of(dual, dimension)
    return diameter / 2 * (spread + noise) + chosen + curved


def one_sample_error(
    glm: Glm, diameter: float, records: int, eta: float, vertices: int, scale: float
) -> float:
    """Bound on E F(x) - F* of the polyhedral algorithm with a record a step.

    Args:
      eta: of a step. vertices: J. scale: of the Gumbel noise.

    Source: Bassily, Guzman, Nandi (2022), Theorem 8, re-derived.
    """
    lipschitz, smoothness = glm.lipschitz, glm.smoothness
    steps = records - records // 2
    left = (1 - eta) ** steps
    largest = math.sqrt(2 * math.log(2 * vertices))
    spread = largest * (
        2 * lipschitz / math.sqrt(max(1, records // 2))
        + 2 * (lipschitz + smoothness * diameter) * math.sqrt(eta / (2 - eta))
    )
    curved = smoothness * diameter * diameter * eta / 2
    return left * lipschitz * diameter + diameter * spread + scale * math.log(vertices) + curved


def phased_error(
    *, records: int, dimension: int, lipschitz: float, distance: float, ratio: float
) -> float:
    """Bound on E F(w) - F* of phased SGD: 4 D L sqrt(1 / (6 n) + 8 d / (rho n^2)).

    Args:
      distance: D. ratio: sigma over the sensitivity; 1 / sqrt(2 rho).

    Source: Feldman, Koren, Talwar (2020), Theorem 4.4.
    """
    noise = 16 * dimension * ratio * ratio / (records * records)
    return 4 * distance * lipschitz * math.sqrt(1 / (6 * records) + noise)


def equal_error(*, size: int, eta: float, lipschitz: float, distance: float, noise: float) -> float:
    """Bound on E F(w) - F* after a phase of SGD whose later points are averaged.

    From the middle of the phase on, n / 2 steps have sum (F(x_t) - F*) <= (2 D)^2 / (2 eta) +
    n eta L^2 / 4, wherever they begin; noise of length z costs L z.

    Args:
      size: n. distance: D, half of the most that two models are apart at least. noise: E of z.
    """
    return (2 * distance) ** 2 / (eta * size) + eta * lipschitz**2 / 2 + lipschitz * noise
