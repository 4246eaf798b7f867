"""How far a reader of Kafka has come: a moment before which nothing that it has not read arrived.

All of it is what brokers say; nothing that a producer says moves it, so no record can make another
one late. The moment of a reader is the least over its partitions, and the moment of a partition the
later of two:
- The latest append time of its records, where the broker stamps them (``LogAppendTime``), less the
  slack: a partition is in the order in which it was appended to.
- The moment at which its end (the high watermark) was asked for, less the slack, once all up to
  that end is read: what comes later was appended later. An idle partition follows the wall clock
  by this, and a partition with a backlog, or with an open transaction, does not.
It is never later than the last question, less the slack, which partitions the topic has: a new one
holds what was appended since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

ASKED = 16
"""Questions for ends that a reader may not have reached yet. Of more, the latest is replaced."""


class TopicFrontier:
    """The estimate of one reader. All times are wall time, microseconds since 1970.

    Args:
      slack: microseconds until a record can be read that a broker has stamped.
    """

    def __init__(self, slack: int) -> None:
        self._slack = slack
        self._reached: dict[int, int | None] = {}
        self._ends: deque[tuple[int, Mapping[int, int]]] = deque()
        self._listed: int | None = None

    def begin(self, partitions: Iterable[int]) -> None:
        """These partitions are read from now on, in addition to those that are."""
        for partition in partitions:
            self._reached.setdefault(partition, None)

    def listed(self, asked: int) -> None:
        """The topic had no other partitions at this moment."""
        self._listed = asked if self._listed is None else max(self._listed, asked)

    def appended(self, partition: int, stamp: int) -> None:
        """The broker appended a record at this moment, and it was read."""
        self._raise(partition, stamp - self._slack)

    def ended(self, asked: int, ends: Mapping[int, int]) -> None:
        """Where partitions ended at this moment: the offset after the last record."""
        if len(self._ends) == ASKED:
            self._ends.pop()
        self._ends.append((asked, ends))

    def read(self, offsets: Mapping[int, int]) -> None:
        """All before these offsets is read."""
        left: deque[tuple[int, Mapping[int, int]]] = deque()
        for asked, ends in self._ends:
            open_ends = {}
            for partition, end in ends.items():
                if offsets.get(partition, -1) >= end:
                    self._raise(partition, asked - self._slack)
                else:
                    open_ends[partition] = end
            if open_ends:
                left.append((asked, open_ends))
        self._ends = left

    def at(self) -> int | None:
        """The moment; None while nothing is known."""
        reached = self.unlisted()
        if reached is None or self._listed is None:
            return None
        return min(reached, self._listed - self._slack)

    def unlisted(self) -> int | None:
        """The moment as if the topic could get no other partition."""
        if not self._reached:
            return None if self._listed is None else self._listed - self._slack
        moments = [moment for moment in self._reached.values() if moment is not None]
        return min(moments) if len(moments) == len(self._reached) else None

    def _raise(self, partition: int, moment: int) -> None:
        before = self._reached.get(partition)
        self._reached[partition] = moment if before is None else max(before, moment)


__all__ = ["ASKED", "TopicFrontier"]
