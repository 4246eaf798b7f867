"""How the channels of a leaf are shared between aggregates."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from dpcore.aggregates.channel import Channel


@dataclass
class Layout:
    """Channels as outputs ask for them: equal ones are one.

    Attributes:
      whole: counts live on the integers (discrete noise).
      centred: (column, low, high) whose middle is taken off: a sum over a column and clip whose
        mean is asked too is (centred sum) + centre * count, one channel less.
      channels: so far, in the order of a leaf.
    """

    whole: bool
    centred: Set[tuple[str, float, float]]
    channels: list[Channel] = field(default_factory=list)

    def add(self, channel: Channel) -> int:
        """Index of a channel."""
        if channel not in self.channels:
            self.channels.append(channel)
        return self.channels.index(channel)

    def count(self) -> int:
        """Index of the number of events."""
        return self.add(Channel.make("count", whole=self.whole))

    def value(self, column: str, low: float, high: float) -> tuple[int, float]:
        """Index of the sum of a clipped column, and what is taken off each value."""
        centre = (low + high) / 2 if (column, low, high) in self.centred else 0.0
        return self.add(Channel.make("value", column, (low, high), centre)), centre

    def square(self, column: str, low: float, high: float) -> int:
        """Index of the sum of squares of a centred column."""
        return self.add(Channel.make("square", column, (low, high), (low + high) / 2))

    def bins(self, column: str, edges: tuple[float, ...]) -> int:
        """Index of the counts of events by a column's value."""
        return self.add(Channel.make("bins", column, edges=edges, whole=self.whole))
