"""Channels that some outputs read, as a calibration looks at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weir.dpcore.accounting.groupings import CellPowers
from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.accounting.joint import ChannelGroup, joint_sensitivity
from weir.dpcore.aggregates.aggregate import AggregateOutput
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.split import split_groups
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.terms import Terms


@dataclass(frozen=True)
class ChannelLeaf:
    """The channels that some outputs read, their noise split optimally.

    Attributes:
      channels: of the whole plan. outputs: those that are served. overs: which sums.
      terms: relation and ticks.
      norm: in which its sensitivity is measured: 2, or 1 for independent Laplace noise.
    """

    channels: tuple[Channel, ...]
    outputs: tuple[AggregateOutput, ...]
    overs: tuple[int | None, ...]
    terms: Terms
    norm: int = 2

    @property
    def once(self) -> bool:
        """Whether only the first cell of a key that a user has in a period adds anything."""
        return all(self.channels[channel].takes == "newcomers" for channel in self.read)

    @cached_property
    def read(self) -> tuple[int, ...]:
        """Indices of the channels that the outputs read, in order."""
        return tuple(sorted({channel for output in self.outputs for channel in output.channels}))

    @property
    def dimension(self) -> int:
        """Coordinates of the channels that are read."""
        return sum(self.channels[channel].size for channel in self.read)

    @cached_property
    def coordinates(self) -> tuple[int, ...]:
        """Where those lie among all channels."""
        starts = np.cumsum([0, *(channel.size for channel in self.channels)])
        return tuple(
            int(starts[channel]) + i
            for channel in self.read
            for i in range(self.channels[channel].size)
        )

    @cached_property
    def groups(self) -> list[ChannelGroup]:
        """For the accountant, in the leaf's own coordinates."""
        groups: list[ChannelGroup] = []
        start = 0
        for channel in self.read:
            groups.append(self.channels[channel].group(start))
            start += self.channels[channel].size
        return groups

    def scales(self, unit: Callable[[], ContinualSum]) -> tuple[float, ...]:
        """Noise weights by how much each channel matters at the worst tick."""
        trial, ticks = unit(), self.terms.ticks()
        worst = {over: float(trial.factor(ticks, over).max()) for over in self.overs}
        importance = dict.fromkeys(self.read, 0.0)
        for output in self.outputs:
            for over in output.overs:
                for channel, weight in output.importance().items():
                    if over in worst:
                        importance[channel] += weight * worst[over]
        terms, groups = self.terms, self.groups
        steps = [self.channels[item].resolution for item in self.read]
        weights = list(importance.values())
        of = (terms.cell_relation, terms.may_vanish, self.norm)
        split = split_groups(groups, steps, weights, *of)
        return tuple(
            scale for scale, group in zip(split, groups, strict=True) for _ in range(group.size)
        )

    def powers(self, scales: Sequence[float]) -> CellPowers:
        """Squares of what a user adds to a cell, by what counts: a bound on each, attained."""
        parts: dict[str, tuple[list[ChannelGroup], list[float]]] = {}
        for channel, group in zip(self.read, self.groups, strict=True):
            once = "users" if not group.distinct else "bins"
            takes = "events" if self.channels[channel].takes == "events" else once
            groups, own = parts.setdefault(takes, ([], []))
            groups.append(replace(group, start=len(own)))
            own.extend(scales[group.start : group.start + group.size])
        terms = self.terms

        def square(takes: str) -> float:
            if takes not in parts:
                return 0.0
            groups, own = parts[takes]
            return joint_sensitivity(groups, own, terms.cell_relation, terms.may_vanish) ** 2

        return CellPowers(square("events"), square("users"), square("bins"))

    def sensitivity(self, scales: Sequence[float], add_up: bool) -> float:
        """Joint sensitivity: of an event, or of what a user adds to one cell.

        Under replace_anywhere the two versions of a record may lie in different ticks or keys. The
        bound max(same cell, sqrt(||v||^2 + ||v'||^2)) needs losses that add in squares and a
        strategy whose columns have no negative inner product; without (``add_up``) it is the sum
        of the norms.

        Raises:
          ConfigError: nothing changes.
        """
        relation: Relation = self.terms.cell_relation
        scale, may_vanish, times = np.asarray(scales), self.terms.may_vanish, 1
        if relation == "replace_anywhere" and add_up:
            times, relation = 2, "add_remove"
        result = times * joint_sensitivity(self.groups, scale, relation, may_vanish, self.norm)
        if result == 0:
            raise ConfigError(
                "aggregates",
                [output.name for output in self.outputs],
                "nothing here depends on what a neighbour changes: counts are public under "
                "replace_one. Use relation: add_remove to protect them.",
            )
        return result
