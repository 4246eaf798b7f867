"""Moments as a continual sum carries them."""

from __future__ import annotations

from weir.dpcore.models.moments import Moments
from weir.dpcore.pricing.calibration import FixedLeaf, round_up
from weir.dpcore.pricing.terms import Terms


def leaf_of(moments: Moments, over: int | None, terms: Terms) -> FixedLeaf:
    """Scales, and sensitivity in units of them.

    Formal guarantees:
      Under the scales a leaf's l2 norm is that of (svec(x x^T), x y^T[, y^2]) in units of the data:
      ``Moments.sensitivity``. An event that is filtered out after a change is the zero event, which
      is among the neighbours that it covers. Of a user, at most e rows a cell: e times one event,
      attained by e equal ones.
    """
    times = 1 if terms.person is None else terms.person.caps.events
    in_squares, added_up = (
        round_up(times * moments.sensitivity(terms.cell_relation, add_up))
        for add_up in (False, True)
    )
    rounded = {scale: round_up(scale) for scale in set(moments.scales)}
    scales = tuple(map(rounded.__getitem__, moments.scales))
    return FixedLeaf(scales, (over,), in_squares, added_up)
