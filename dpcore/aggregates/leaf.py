"""What the channels of some outputs cost and matter: the leaf that a continual sum carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from weir.dpcore.accounting.guarantee import Relation
from weir.dpcore.accounting.joint import (
    ChannelGroup,
    group_sensitivity,
    joint_sensitivity,
    split_scales,
)
from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.aggregates.output import Output
from weir.dpcore.continual.base import ContinualSum
from weir.dpcore.errors import ConfigError
from weir.dpcore.pricing.price import round_up
from weir.dpcore.pricing.terms import Terms


@dataclass(frozen=True)
class ChannelLeaf:
    """The channels that some outputs read, their noise split optimally.

    Attributes:
      channels: of the whole plan. outputs: those that are served. overs: which sums.
      terms: relation and ticks.
    """

    channels: tuple[Channel, ...]
    outputs: tuple[Output, ...]
    overs: tuple[int | None, ...]
    terms: Terms

    @property
    def once(self) -> bool:
        """Whether only the first cell of a key that a user has in a period adds anything."""
        return all(self.channels[channel].takes == "newcomers" for channel in self.read)

    @property
    def read(self) -> tuple[int, ...]:
        """Indices of the channels that the outputs read, in order."""
        return tuple(sorted({channel for output in self.outputs for channel in output.channels}))

    @property
    def dimension(self) -> int:
        """Coordinates of the channels that are read."""
        return sum(self.channels[channel].size for channel in self.read)

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Where those lie among all channels."""
        starts = np.cumsum([0, *(channel.size for channel in self.channels)])
        return tuple(
            int(starts[channel]) + i
            for channel in self.read
            for i in range(self.channels[channel].size)
        )

    @property
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
        groups, steps = self.groups, [self.channels[one].resolution for one in self.read]
        sensitivities = [
            group_sensitivity(group, self.terms.cell_relation, self.terms.may_vanish) * step
            for group, step in zip(groups, steps, strict=True)
        ]
        split = split_scales(np.asarray(sensitivities), np.asarray(list(importance.values())))
        return tuple(
            round_up(float(scale) / step)
            for scale, group, step in zip(split, groups, steps, strict=True)
            for _ in range(group.size)
        )

    def sensitivity(self, scales: Sequence[float], add_up: bool) -> float:
        """Joint l2 sensitivity: of an event, or of what a user adds to one cell.

        Under replace_anywhere the two versions of a record may lie in different ticks or keys. The
        bound max(same cell, sqrt(||v||^2 + ||v'||^2)) needs losses that add in squares and a
        strategy whose columns have no negative inner product; without (``add_up``) it is the sum
        of the norms.

        Raises:
          ConfigError: nothing changes.
        """
        terms, scale = self.terms, np.asarray(scales)
        relation: Relation = terms.cell_relation
        if relation == "replace_anywhere" and add_up:
            found = 2 * joint_sensitivity(self.groups, scale, "add_remove", terms.may_vanish)
        else:
            found = joint_sensitivity(self.groups, scale, relation, terms.may_vanish)
        if found == 0:
            raise ConfigError(
                "aggregates",
                [output.name for output in self.outputs],
                "nothing here depends on what a neighbour changes: counts are public under "
                "replace_one. Use relation: add_remove to protect them.",
            )
        return found
