"""A topic in memory, and the calls of it that a reader makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from weir.transforms.beam.kafka.position import PositionTracker, TopicPosition
from weir.transforms.beam.kafka.reader import BY_BROKER, TopicReader
from weir.transforms.sources.kafka.clients import EARLIEST, LATEST, CallRefused, DescribedTopic
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.topic import KafkaTopic

S = 1_000_000
T0 = 1_700_000_000 * S


class Record:
    """What a client gives: a record, or an error in its place."""

    def __init__(
        self,
        partition: int,
        offset: int,
        value: bytes | None,
        stamp: int,
        kind: int,
        code: str = "",
    ) -> None:
        self._place, self._value = (partition, offset), value
        self._stamp, self._code = (kind, stamp // 1000), code

    def partition(self) -> int:
        return self._place[0]

    def offset(self) -> int:
        return self._place[1]

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return self._stamp

    def error(self) -> Any:
        return SimpleNamespace(name=lambda: self._code) if self._code else None


class Cluster:
    """Brokers of one topic, and the answers to questions of a reader.

    Attributes:
      now: wall time, microseconds. id: of the topic, None: it is not there.
      low: partition -> first offset that is left. ends: partition -> high watermark.
      stable: partition -> end of what committed reads see; None: the high watermark.
      slow: answers come when ``answer`` is called. away: a code that
        every call fails with.
    """

    def __init__(self, partitions: int = 1) -> None:
        self.now = T0
        self.id: str | None = "first"
        self.records: dict[int, dict[int, tuple[bytes | None, int, int]]] = {}
        self.low: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.stable: dict[int, int | None] = {}
        self.away: str | None = None
        self.slow = False
        self.committed: dict[int, int] = {}
        self.assigned: list[dict[int, int]] = []
        self._open: list[tuple[Future[Any], Any, Exception | None]] = []
        self.grow(partitions)

    def grow(self, partitions: int) -> None:
        """Adds partitions up to a number."""
        for partition in range(len(self.records), partitions):
            self.records[partition] = {}
            self.low[partition] = self.ends[partition] = 0
            self.stable[partition] = None

    def append(
        self, value: bytes | None, partition: int = 0, stamp: int | None = None,
        kind: int = BY_BROKER, holes: int = 0,
    ) -> int:  # fmt: skip
        """Appends a record, behind so many control records; returns its offset."""
        offset = self.ends[partition] + holes
        self.records[partition][offset] = (value, self.now if stamp is None else stamp, kind)
        self.ends[partition] = offset + 1
        return offset

    def remove(self, partition: int, below: int) -> None:
        """Retention."""
        self.low[partition] = below
        for offset in [at for at in self.records[partition] if at < below]:
            del self.records[partition][offset]

    def reader(self, number: int = 0, **options: Any) -> TopicReader:
        """A reader of the topic."""
        fence = options.pop("fence", None)
        topic = KafkaTopic("t", ClientProperties("b:1"), **{"slack": 0, **options})
        more = {} if fence is None else {"fence": fence}
        return TopicReader(
            topic, number, connect=lambda _: Client(self), now=lambda: self.now / S, **more
        )

    def describe(self, seconds: float) -> Future[Any]:
        gone = None if self.id is not None else CallRefused("UNKNOWN_TOPIC_OR_PART")
        return self._future(DescribedTopic(self.id or "", len(self.records)), gone)

    def described(self, future: Future[Any]) -> Any:
        return future.result()

    def bounds(self, partitions: Iterable[int], which: str | int, seconds: float) -> Any:
        return {p: self._future(self._bound(p, which), None) for p in partitions}

    def _bound(self, partition: int, which: str | int) -> int:
        if isinstance(which, str):
            return {EARLIEST: self.low, LATEST: self.ends}[which][partition]
        later = [o for o, (_, at, _) in self.records[partition].items() if at >= which * 1000]
        return min(later, default=-1)

    def offsets(self, futures: Mapping[int, Future[Any]]) -> dict[int, int]:
        return {partition: future.result() for partition, future in futures.items()}

    def _future(self, answer: Any, error: Exception | None) -> Future[Any]:
        future: Future[Any] = Future()
        error = CallRefused(self.away) if self.away else error
        self._open.append((future, answer, error))
        if not self.slow:
            self.answer()
        return future

    def answer(self) -> None:
        """What was asked is answered, as it was when it was asked."""
        for future, answer, error in self._open:
            if error is None:
                future.set_result(answer)
            else:
                future.set_exception(error)
        self._open = []

    def errors(self) -> list[str]:
        return []

    def commit(self, offsets: Mapping[int, int]) -> None:
        self.committed.update(offsets)

    def close(self) -> None:
        """Nothing is open."""


class Client:
    """The clients of one reader."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._next: dict[int, int] = {}
        self._ended: dict[int, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def assign(self, offsets: Mapping[int, int]) -> None:
        self._next, self._ended = dict(offsets), {}
        self._cluster.assigned.append(dict(offsets))

    def consume(self, count: int, seconds: float) -> list[Record]:
        records_read: list[Record] = []
        if self._cluster.away:
            return records_read
        for partition, at in self._next.items():
            if at < self._cluster.low[partition]:
                return [Record(partition, at, None, 0, 0, "_AUTO_OFFSET_RESET")]
            stable = self._cluster.stable[partition]
            end = self._cluster.ends[partition] if stable is None else stable
            for offset in sorted(self._cluster.records[partition]):
                if at <= offset < end and len(records_read) < count:
                    records_read.append(
                        Record(partition, offset, *self._cluster.records[partition][offset])
                    )
                    self._next[partition] = offset + 1
            left = [o for o in self._cluster.records[partition] if self._next[partition] <= o < end]
            if not left and self._ended.get(partition) != end:
                self._ended[partition] = self._next[partition] = end
                records_read.append(Record(partition, end, None, 0, 0, "_PARTITION_EOF"))
        return records_read


class Watermark:
    """What a turn calls of one."""

    def __init__(self) -> None:
        self.at: Any = None

    def current_watermark(self) -> Any:
        return self.at

    def set_watermark(self, at: Any) -> None:
        self.at = at


class Tracker(PositionTracker):
    """As a runner hands it to a turn."""

    def __init__(self, position: TopicPosition) -> None:
        super().__init__(position)
        self.waits: list[Any] = []

    def defer_remainder(self, wait: Any) -> None:
        self.waits.append(wait)
        self.try_split(0)


def turn(reader: TopicReader, position: Any) -> tuple[Any, list[Any]]:
    """A turn that takes all there is: the position after it, and the batches."""
    reader.begin(position)
    batches, silent = [], 0
    while silent < 3:  # a question, its answer, and what that brings
        batch = None if reader.look() is None else reader.take(0)
        silent = silent + 1 if batch is None else 0
        if batch is not None:
            reader.took(batch)
            batches.append(batch)
    return reader.position, batches


def values(batches: list[Any]) -> list[bytes]:
    """Payloads of what was read."""
    return [message.data for batch in batches for message in batch.messages]
