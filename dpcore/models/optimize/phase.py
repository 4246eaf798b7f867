"""A phase of records that ends in one noisy point: its numbers, and the noise that they need."""

from __future__ import annotations

import math
from typing import NamedTuple

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.accounting.precision import refuse_coarse
from weir.dpcore.continual.unit import lattice_variances, noise_scale_for
from weir.dpcore.errors import ConfigError
from weir.dpcore.noise.discrete_gaussian import MAX_VARIANCE
from weir.dpcore.pricing.calibration import round_up

ROOM = 1 << 60
FINENESS = 2.0**-12
"""Step of the lattice that an average is rounded to, over its sensitivity."""


class Phase(NamedTuple):
    """One phase.

    Attributes:
      start, size: its records within the run. eta: of its steps.
      resolution: of its average's lattice. sensitivity, scale: of its noise, in lattice steps.
    """

    start: int
    size: int
    eta: float
    resolution: float
    sensitivity: float
    scale: float


def phase_for(
    dimension: int,
    start: int,
    size: int,
    eta: float,
    moved: float,
    kind: str,
    budget: PrivacyLoss,
    name: str = "a model",
) -> Phase:
    """A phase whose noisy point costs a budget.

    Args:
      dimension: d, of the point. moved: most that a record moves it in l2, before the lattice,
        which adds sqrt(d) steps. name: of what is released, for people.

    Raises:
      ConfigError: noise that cannot be drawn.
    """
    resolution = math.ldexp(1.0, math.frexp(moved * FINENESS / math.sqrt(dimension))[1] - 1)
    sensitivity = round_up(moved / resolution + math.sqrt(dimension) + 1)
    scale = round_up(noise_scale_for(1, sensitivity, budget))
    refuse_coarse(name, kind, scale)
    exact = lattice_variances(scale, (1.0,)) if kind == "discrete_gaussian" else (0,)
    if exact[0] > MAX_VARIANCE or not scale < ROOM / 64:
        raise ConfigError("privacy.epsilon", None, "leaves too little; raise epsilon or delta.")
    return Phase(start, size, eta, resolution, sensitivity, scale)
