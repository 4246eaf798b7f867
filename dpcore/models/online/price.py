"""What a learner's gradients and losses cost in one private sum."""

from __future__ import annotations

import math
from typing import NamedTuple

from weir.dpcore.errors import ConfigError
from weir.dpcore.models.gradients import Gradients
from weir.dpcore.models.second_moments import SecondMoments
from weir.dpcore.pricing.calibration import FixedLeaf, round_up
from weir.dpcore.pricing.terms import Terms


class Curving(NamedTuple):
    """Second moments beside the gradients. share: of the squared sensitivity."""

    moments: SecondMoments
    share: float


def leaf_of(
    gradients: Gradients, weight: float, terms: Terms, curving: Curving | None = None
) -> FixedLeaf:
    """(gradient, loss, second moments) as a continual sum carries it.

    Formal guarantees:
      One cell changes by at most (2 L, B, sqrt 2 X^2) / scales =: Delta in l2, whichever relation
      (a cap makes rows compete). Under replace_anywhere two cells change, by at most Delta each:
      2 Delta. Of a user: so of each cell (``Gradients.users``), without second moments.
    """
    scales, sensitivity = split(gradients, weight, curving)
    if terms.relation == "replace_anywhere":
        sensitivity *= 2
    return FixedLeaf(scales, (None,), sensitivity, sensitivity)


def split(
    gradients: Gradients, weight: float, curving: Curving | None = None
) -> tuple[tuple[float, ...], float]:
    """Noise weights of a leaf's coordinates, and its joint sensitivity in units of them.

    The loss takes the share ``weight`` of the squared sensitivity, second moments theirs, the
    gradient the rest.

    Returns:
      scales (D,) in lattice units; l2 sensitivity of (leaf / scales), rounded up.

    Raises:
      ConfigError: a share is not inside (0, 1), or nothing is left.
    """
    change, d = 2 * gradients.clip / gradients.lattice.resolution, gradients.parameters
    loss = 0.0 if gradients.loss_bound is None else weight
    second = 0.0 if curving is None else curving.share
    if gradients.loss_bound is not None and not 0 < weight < 1:
        raise ConfigError("model.weight", weight, "must lie strictly inside (0, 1), like 0.05.")
    rest = 1 - loss - second
    if not 0 < rest <= 1:
        raise ConfigError(
            "model.curvature_weight",
            second,
            "must leave a share for the gradients beside model.weight, like 0.2.",
        )
    scale = round_up(change / math.sqrt(rest))
    scales, norms = [scale] * d, [change / scale]
    if gradients.loss_bound is not None:
        loss_change = float(gradients.loss_lattice.steps(gradients.loss_bound))
        scales.append(round_up(loss_change / math.sqrt(loss)))
        norms.append(loss_change / scales[-1])
    if curving is not None:
        unit = round_up(curving.moments.change / math.sqrt(second))
        scales += [round_up(unit * one) for one in curving.moments.weights]
        norms.append(curving.moments.change / unit)
    if len(norms) == 1:
        return tuple(scales), 1.0
    return tuple(scales), round_up(math.hypot(*norms))
