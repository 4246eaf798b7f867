"""How the channels of a leaf are shared between aggregates."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace

from weir.dpcore.aggregates.channel import Channel
from weir.dpcore.algorithm import Takes


@dataclass
class Layout:
    """Channels as outputs ask for them: equal ones are one.

    Attributes:
      whole: counts live on the integers (discrete noise).
      centred: (where, column, low, high) whose middle is taken off: a sum over a column and clip
        whose mean is asked too is (centred sum) + centre * count, one channel less.
      events: of a user in a cell at most; 1 where the unit is an event.
      channels: so far, in the order of a leaf.
      where: predicate of the events that count in channels that are asked for; None: all do.
    """

    whole: bool
    centred: Set[tuple[str | None, str, float, float]]
    events: int = 1
    channels: list[Channel] = field(default_factory=list)
    where: str | None = None

    def under(self, where: str | None) -> Layout:
        """The same channels, to be asked for those of the events that satisfy a predicate."""
        return replace(self, where=where)

    def add(self, channel: Channel) -> int:
        """Index of a channel."""
        channel = replace(channel, where=self.where)
        if channel not in self.channels:
            self.channels.append(channel)
        return self.channels.index(channel)

    def count(self, takes: Takes = "events") -> int:
        """Index of the number of events, or of users."""
        made = Channel.make("count", whole=self.whole, takes=takes, events=self.events)
        return self.add(made)

    def value(
        self, column: str, low: float, high: float, takes: Takes = "events"
    ) -> tuple[int, float]:
        """Index of the sum of a clipped column, of each user's average or total of it; and what is
        taken off each value."""
        centred = takes == "users" or (
            takes == "events" and (self.where, column, low, high) in self.centred
        )
        centre = (low + high) / 2 if centred else 0.0
        clip = (low, high)
        made = Channel.make("value", column, clip, centre, takes=takes, events=self.events)
        return self.add(made), centre

    def square(self, column: str, low: float, high: float, takes: Takes = "events") -> int:
        """Index of the sum of squares of a centred column, or of each user's average of it."""
        clip, centre = (low, high), (low + high) / 2
        return self.add(
            Channel.make("square", column, clip, centre, takes=takes, events=self.events)
        )

    def bins(self, column: str, edges: tuple[float, ...], takes: Takes = "events") -> int:
        """Index of the counts of events, or of users, by a column's value."""
        whole = self.whole
        return self.add(
            Channel.make("bins", column, edges=edges, whole=whole, takes=takes, events=self.events)
        )
