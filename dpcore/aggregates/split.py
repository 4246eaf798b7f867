"""How the noise is split between channels that are released together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.accounting.joint import (
    ChannelGroup,
    group_powers,
    group_sensitivity,
    split_scales,
)
from weir.dpcore.pricing.calibration import round_up


def split_groups(
    groups: Sequence[ChannelGroup],
    steps: Sequence[float],
    importance: Sequence[float],
    relation: Relation,
    may_vanish: bool,
    norm: int = 2,
) -> list[float]:
    """Noise weight of each group in lattice units, by how much it matters; 0: it is public.

    What the joint sensitivity allows in addition costs nothing: an event that is replaced by
    another may move a count of present values by less than their sum, and an event that lacks a
    number is none of those that have it. So the count of the present ones has no more noise than
    fits under what their sums may change by, and that of the absent ones as much as makes an event
    without a number move all as far as one with it.

    Args:
      steps: of the lattice of each group. importance: weight of the noise variance of each.
      norm: in which changes add up: 2 in squares, 1 as they are.
    """
    paid = [at for at, group in enumerate(groups) if not group.absent]
    sensitivities = [
        group_sensitivity(groups[at], relation, may_vanish, norm) * steps[at] for at in paid
    ]
    weights = np.asarray([importance[at] for at in paid])
    split = split_scales(np.asarray(sensitivities), weights, norm)
    scales = [0.0] * len(groups)
    for at, scale in zip(paid, split, strict=True):
        scales[at] = round_up(float(scale) / steps[at])

    def powers(of: ChannelGroup) -> tuple[float, float]:
        """Of the present groups next to one: size of an event, and a change between two."""
        others = [
            group_powers(group, np.full(group.size, scale), norm)
            for group, scale in zip(groups, scales, strict=True)
            if (group.gate, group.column, group.absent) == (of.gate, of.column, False)
            and group is not of
        ]
        one, two = (math.fsum(part) for part in zip(*others, strict=True)) if others else (0.0, 0.0)
        return one, two

    def root(power: float) -> float:
        return math.sqrt(power) if norm == 2 else power

    for at, group in enumerate(groups):
        if relation == "replace_one" and group.column and group.low == group.high > 0:
            one, two = powers(group)
            if two > one:
                scales[at] = min(scales[at], round_up(group.high / root(two - one)))
    for at, group in enumerate(groups):
        if group.absent:
            one, _ = powers(group)
            scales[at] = round_up(group.events * group.high / root(one))
    return scales
