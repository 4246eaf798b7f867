"""How windows are fitted under a noise: by selections, or by noisy gradients."""

from __future__ import annotations

from fractions import Fraction

from weir.dpcore.accounting.guarantee import PrivacyLoss
from weir.dpcore.models.optimize.linear import Linear
from weir.dpcore.models.optimize.price import SELECTIONS
from weir.dpcore.models.optimize.program import Way
from weir.dpcore.models.optimize.selection import selection_for
from weir.dpcore.models.optimize.width import width_for


def way_for(
    linear: Linear,
    size: int,
    divisor: float,
    most: int,
    changes: int,
    share: Fraction,
    steps: int | None,
    noise: str,
    budget: PrivacyLoss,
    users: int = 0,
) -> Way:
    """See ``selection_for`` and ``width_for``."""
    if noise in SELECTIONS:
        shape = (linear, size, divisor, most, changes, noise, budget)
        return selection_for(*shape, share, steps, users)
    return width_for(linear, size, divisor, most, changes, budget, share, steps, users)
