"""What to read of Kafka, and when its records arrived.

A broker stamps each record: with the time at which it appended it (``LogAppendTime``), which is its
own clock's, or with what the producer says (``CreateTime``). An arrival that a column of the events
declares is bounded by that stamp, as with every other stream: a public rule on one record alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from weir.transforms.decode.time import FIRST, LAST
from weir.transforms.runtime.stream_time import PRESENT, StreamTime
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.values import ValueReader

Start = Literal["earliest", "latest"] | int


@dataclass(frozen=True)
class KafkaTopic:
    """A topic, and how it is read.

    Attributes:
      name: of the topic. properties: of librdkafka's clients.
      start: where a stream begins; an int is a time, microseconds since 1970.
      readers: over how many its partitions are spread.
      committed: whether only records of committed transactions count.
      slack: microseconds after which a record can be read that a broker has stamped.
      ahead: microseconds that a producer's stamp may lie after the reader's clock.
      stamps_behind, stamps_ahead: microseconds that a declared arrival may lie before and after the
        record's stamp; 0 where none is declared.
      stream: what wall time stands for.
      group: consumer group that offsets are committed for, or None.
      values: makes payloads of the values of records; None: they are payloads.
    """

    name: str
    properties: ClientProperties
    start: Start = "earliest"
    readers: int = 1
    committed: bool = True
    slack: int = 500_000
    ahead: int = 300_000_000
    stamps_behind: int = 0
    stamps_ahead: int = 0
    stream: StreamTime = PRESENT
    group: str | None = None
    values: ValueReader | None = None

    @property
    def earliest(self) -> StreamTime:
        """Wall time of a record's stamp -> the earliest arrival that its events may have."""
        return replace(self.stream, started=self.stream.started + self.stamps_behind)

    def partitions_of(self, reader: int, count: int) -> range:
        """The partitions of a reader, of as many as there are."""
        return range(reader, count, self.readers)

    def times(self, stamp: int) -> tuple[int, int, int]:
        """Of a record with this stamp: its arrival, and the bounds of what its events may declare.

        Args:
          stamp: wall time, microseconds since 1970.
        """
        first, last = FIRST, LAST
        if self.stream == PRESENT:
            first = _time(stamp - self.stamps_behind)
            last = _time(stamp + self.stamps_ahead)
        return _time(self.stream.at(stamp)), first, last


def _time(moment: int) -> int:
    """The nearest moment that is a time."""
    return min(max(moment, FIRST), LAST)


def record_id(partition: int, offset: int) -> str:
    """Names a record within its topic."""
    return f"{partition}@{offset}"


__all__ = ["KafkaTopic", "Start", "record_id"]
