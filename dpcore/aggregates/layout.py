"""Which channels the outputs of a plan read: equal ones are one, and some are sums of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from weir.dpcore.aggregates.channel import Channel, ChannelKind, Presence
from weir.dpcore.algorithm import Takes

Term = tuple[int, float]
"""Index of a channel, and what its sum is multiplied with."""

Centred = tuple[str | None, str, float, float]
"""A predicate, a column, and the clip whose middle is taken off."""


ByAbsent = Literal["never", "covered", "always"]


class Average(NamedTuple):
    """Values that are averaged, each event with one or none.

    Attributes:
      where: predicate of the events that count. takes: what counts.
      column, low, high: which number, and its clip. presence: see ``Channel``.
      overs: which spans are asked for.
    """

    where: str | None
    takes: Takes
    column: str
    low: float
    high: float
    presence: Presence | None
    overs: frozenset[int | None]

    @property
    def centred(self) -> Centred:
        """What the middle is taken off of, whatever it costs."""
        return self.where, self.column, self.low, self.high


@dataclass
class Layout:
    """Channels as outputs ask for them: equal ones are one.

    Attributes:
      averages: that are asked for. A sum over a column and clip whose mean is asked too is (centred
        sum) + centre * count, one channel less.
      events: of a user in a cell at most; 1 where the unit is an event.
      by_absent: when a count of all is a count of those with a number, which an average has, and of
        the others. Where units come and go each is of one side, so that the third channel costs no
        more than the larger of both (accounting/joint.py). covered: over spans of that average.
      middle: sums of all events whose middle is taken off in addition to those of averages.
      channels: so far, in the order of a leaf.
      where: predicate of the events that count in channels that are asked for; None: all do.
      span: the longest span of ticks for which active users are asked.
      users: whether the unit is a user.
    """

    averages: Sequence[Average]
    events: int = 1
    by_absent: ByAbsent = "never"
    middle: Set[Centred] = frozenset()
    channels: list[Channel] = field(default_factory=list)
    where: str | None = None
    span: int = 1
    users: bool = False

    def under(self, where: str | None) -> Layout:
        """The same channels, to be asked for those of the events that satisfy a predicate."""
        return replace(self, where=where)

    def add(self, kind: ChannelKind, **fields: Any) -> int:
        """Index of a channel; fields: as of ``Channel.make``."""
        channel = Channel.make(kind, events=self.events, where=self.where, **fields)
        if channel not in self.channels:
            self.channels.append(channel)
        return self.channels.index(channel)

    def count(
        self, takes: Takes = "events", column: str | None = None, presence: Presence | None = None
    ) -> int:
        """Index of the number of events, or of users: of all, or of those that have, or lack, a
        number in a column."""
        fields = {"column": column if presence else None, "presence": presence}
        span = self.span if takes == "active" else 1
        return self.add("count", takes=takes, span=span, **fields)

    def full(self) -> int:
        """Index of the number of users whose events in a cell are as many as they may be."""
        return self.add("count", takes="users", full=True)

    def everyone(self, takes: Takes, overs: Iterable[int | None]) -> tuple[int, ...]:
        """Indices of channels that add up to the number of events, or of users, over some spans."""
        for item in self.averages:
            ours = (item.where, item.takes, item.presence) == (self.where, takes, "present")
            covered = self.by_absent == "covered" and item.overs.issuperset(overs)
            if ours and (covered or self.by_absent == "always"):
                return self._sides(takes, item.column)
        return (self.count(takes),)

    def _sides(self, takes: Takes, column: str) -> tuple[int, int]:
        return self.count(takes, column, "present"), self.count(takes, column, "absent")

    def value(
        self,
        column: str,
        low: float,
        high: float,
        takes: Takes = "events",
        presence: Presence | None = None,
    ) -> tuple[int, float]:
        """Index of the sum of a clipped column, of each user's average or total of it; and what is
        taken off each value."""
        in_middle = (self.where, column, low, high) in self.middle
        averaged = self._averaged(column, low, high, presence)
        centred = takes == "users" or (takes == "events" and (averaged or in_middle))
        centre = (low + high) / 2 if centred else 0.0
        clip = (low, high)
        fields = {"clip": clip, "centre": centre, "takes": takes, "presence": presence}
        return self.add("value", column=column, **fields), centre

    def _averaged(self, column: str, low: float, high: float, presence: Presence | None) -> bool:
        """Whether the mean of such events is asked for."""
        of = (self.where, "events", column, low, high, presence)
        return any(item[:-1] == of for item in self.averages)

    def total(
        self,
        column: str,
        low: float,
        high: float,
        takes: Takes = "events",
        overs: Iterable[int | None] = (),
    ) -> tuple[int, tuple[Term, ...]]:
        """Index of a sum of a clipped column, and what is added to it for the sum of all events,
        in which one without a number counts as 0, moved into the clip; overs: its spans."""
        of_present = takes == "events" and self._averaged(column, low, high, "present")
        if not of_present or self._averaged(column, low, high, None):
            at, centre = self.value(column, low, high, takes)
            if not centre:
                return at, ()
            plain = self._averaged(column, low, high, None)
            counts = (self.count(),) if plain else self.everyone("events", overs)
            return at, tuple((count, centre) for count in counts)
        at, centre = self.value(column, low, high, takes, "present")
        empty = min(max(0.0, low), high)
        if empty and self.by_absent != "never":
            present, absent = self._sides("events", column)
            return at, _terms((present, centre), (absent, empty))
        factor = (self.count("events", column, "present"), centre - empty)
        return at, _terms(factor, *([(self.count(), empty)] if empty else []))

    def square(
        self,
        column: str,
        low: float,
        high: float,
        takes: Takes = "events",
        presence: Presence | None = None,
    ) -> int:
        """Index of the sum of squares of a centred column, or of each user's average of it."""
        fields = {"clip": (low, high), "centre": (low + high) / 2, "takes": takes}
        return self.add("square", column=column, presence=presence, **fields)

    def by_size(self, column: str, edges: tuple[float, ...]) -> tuple[int, int, int]:
        """Indices of what a learned clip reads: of events, or of the first one that a user has in a
        key and period, how many there are by size; sums by size; and signs."""
        fields: dict[str, Any] = {"column": column, "edges": (0.0, *edges)}
        takes: Takes = "newcomers" if self.users else "events"
        sizes = self.add("sizes", takes=takes, **fields)
        return sizes, self.add("parts", **fields), self.add("signs", **fields)

    def bins(self, column: str, edges: tuple[float, ...], takes: Takes = "events") -> int:
        """Index of the counts of events, or of users, by a column's value."""
        return self.add("bins", column=column, edges=edges, takes=takes)


def _terms(*terms: Term) -> tuple[Term, ...]:
    """Those that add anything."""
    return tuple(term for term in terms if term[1])
