"""What a learner's gradients and losses cost in one private sum."""

from __future__ import annotations

import math

from dpcore.errors import ConfigError
from dpcore.models.gradients import Gradients
from dpcore.pricing.calibrate import FixedLeaf
from dpcore.pricing.price import round_up
from dpcore.pricing.terms import Terms


def leaf_of(gradients: Gradients, weight: float, terms: Terms) -> FixedLeaf:
    """(gradient, loss) as a continual sum carries it.

    Formal guarantees:
      One cell changes by at most (2 L, B) / scales =: Delta in l2, whichever relation (a cap makes
      rows compete). Under replace_anywhere two cells change, by at most Delta each: 2 Delta.
      Of a user: so of each cell (``Gradients.users``).
    """
    scales, sensitivity = split(gradients, weight)
    if terms.relation == "replace_anywhere":
        sensitivity *= 2
    return FixedLeaf(scales, (None,), sensitivity, sensitivity)


def split(gradients: Gradients, weight: float) -> tuple[tuple[float, ...], float]:
    """Noise weights of a leaf's coordinates, and its joint sensitivity in units of them.

    The loss takes the share ``weight`` of the squared sensitivity, the gradient the rest.

    Returns:
      scales (D,) in lattice units; l2 sensitivity of (leaf / scales), rounded up.

    Raises:
      ConfigError: the share is not inside (0, 1).
    """
    change = 2 * gradients.clip / gradients.lattice.resolution
    d = gradients.parameters
    if gradients.loss_bound is None:
        return (round_up(change),) * d, 1.0
    if not 0 < weight < 1:
        raise ConfigError("model.weight", weight, "must lie strictly inside (0, 1), like 0.05.")
    loss_change = float(gradients.loss_lattice.steps(gradients.loss_bound))
    scale = round_up(change / math.sqrt(1 - weight))
    loss_scale = round_up(loss_change / math.sqrt(weight))
    joint = math.hypot(change / scale, loss_change / loss_scale)
    return (*((scale,) * d), loss_scale), round_up(joint)
