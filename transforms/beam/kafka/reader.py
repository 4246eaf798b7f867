"""One reader of a topic: some of its partitions through one consumer, and questions to the brokers.

A reader lives in the worker process (see ``in_process``). A call that does not go on from where the
last one here stood means that the job started, or went back to a checkpoint: the partitions are
assigned again from the offsets of the checkpoint, after a look whether they still hold them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from weir.transforms.beam.kafka.position import TopicPosition
from weir.transforms.beam.pubsub.messages import Message
from weir.transforms.beam.pubsub.watermark import SteadyTime
from weir.transforms.runtime import counters, stored_counts
from weir.transforms.runtime.fence import OPEN, Fatal, Fence
from weir.transforms.sources.kafka import faults, starts
from weir.transforms.sources.kafka.clients import EARLIEST, LATEST, CallRefused, KafkaClients
from weir.transforms.sources.kafka.registry import SchemaAway
from weir.transforms.sources.kafka.topic import KafkaTopic, record_id
from weir.transforms.sources.kafka.watermark import TopicFrontier

RECORDS = 5_000
"""Records of one batch, at most."""
BYTES = 8 << 20
"""Bytes of one batch, about, at most."""
FIRST = 100
"""Records of the first batch: how large they are is not known yet."""
ANSWER = 5.0
"""Seconds that brokers have for an answer."""
ASK_EVERY, ASK_EACH = 100_000, 2_000
"""Microseconds between two questions, at least; and for each partition of the topic."""
SHRUNK = 10.0
"""Seconds for which it is doubted that a partition has lost what was read."""
LONGEST_PAUSE = 5.0
"""Seconds between turns while the brokers are away, at most."""
FORGOTTEN = 2 * (ANSWER + LONGEST_PAUSE)
"""Seconds after which a refusal that did not come again is forgotten."""
BY_PRODUCER, BY_BROKER = 1, 2
"""librdkafka's kinds of stamps."""

_log = logging.getLogger("weir.kafka")


class TopicBatch(NamedTuple):
    """What was read at once.

    Attributes:
      messages: as the decoder takes them. dead: (record, reason) of those that are no event.
      offsets: partition -> offset to read next. appended: partition -> latest stamp of its broker.
    """

    messages: list[Message]
    dead: list[tuple[str, str]]
    offsets: dict[int, int]
    appended: dict[int, int]


class TopicQuestion(NamedTuple):
    """What was asked of the brokers: the topic, and the ends of the reader's partitions."""

    asked: int
    topic: Any
    ends: Mapping[Any, Any]


class TopicReader:
    """See above.

    Args:
      topic: what to read. number: of this reader. fence: around its job.
      connect: makes the clients. now: wall seconds since 1970, for tests.
    """

    def __init__(
        self,
        topic: KafkaTopic,
        number: int = 0,
        fence: Fence = OPEN,
        connect: Callable[[KafkaTopic], Any] = KafkaClients,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._topic, self._number, self._fence = topic, number, fence
        self._steady = SteadyTime()
        self._now = now or self._steady
        self._clients = connect(topic)
        self.frontier = TopicFrontier(topic.slack)
        self.position: TopicPosition | None = None
        self._assigned = False
        self._count = 0
        self._question: TopicQuestion | None = None
        self._next_question = self._asked = 0
        self._mean = BYTES / FIRST
        self._stamp, self._times = 0, topic.times(0)
        self._waiting: Sequence[Any] = ()
        self._schema_failures = 0
        self._failures = 0
        self._warned = 0
        self._refused: dict[str, tuple[str, int, int]] = {}
        self._shrunk_since: int | None = None

    def wall(self) -> int:
        """Microseconds since 1970."""
        return int(self._now() * 1e6)

    def begin(self, position: TopicPosition) -> None:
        """A call begins, from a position; one that is not where the last ended is a start.

        Raises:
          Fenced: a newer job has taken over. Removed: a folder of the job is gone.
        """
        self._fence.look()
        if position != self.position:
            self._fence.goes_on()
            self.position, self._assigned, self._waiting = position, False, ()
            self.frontier = TopicFrontier(self._topic.slack)
            self._question = None

    def look(self, due: int | None = None) -> TopicPosition | None:
        """Where the reader stands after the brokers were asked; None: they do not answer.

        It differs from where it stood at the first look, and where partitions were added. What it
        returns has to be claimed before anything is read.

        Args:
          due: wall microseconds at which a question is worth asking before its turn has come.

        Raises:
          TopicGone: the topic cannot be read.
          RecordsLost: records were removed before they were read.
        """
        assert self.position is not None
        try:
            if self._assigned:
                self._ask(due)
            else:
                self._prepare()
        except CallRefused as refused:
            self._fails("brokers", refused.code)
            for code in self._clients.errors():
                self._fails("client", code)
        return self.position if self._assigned else None

    def take(self, seconds: float) -> TopicBatch | None:
        """What there is to read, or None: nothing came in time.

        Raises:
          TopicGone: the topic may not be read.
        """
        assert self.position is not None
        if not self._assigned:
            return None
        count = min(RECORDS, max(1, round(BYTES / self._mean)))
        batch = TopicBatch([], [], {}, {})
        size, latest = 0, self.wall() + self._topic.ahead
        records = self._waiting or self._clients.consume(count, seconds)
        try:
            for record in records:
                error = record.error()
                if error is not None:
                    self._errs(batch, record, error)
                    continue
                size += self._add(batch, record, latest)
        except SchemaAway as away:
            self._waiting = records
            self._fails("registry", str(away))
            return None
        self._waiting, self._schema_failures = (), 0
        if not batch.offsets:
            return None
        self._refused.pop("records", None)
        records = len(batch.messages) + len(batch.dead)
        if records:
            self._mean = max(1.0, (self._mean + size / records) / 2)
            counters.add("messages", records)
            counters.add("bytes", size)
        return batch

    def took(self, batch: TopicBatch) -> None:
        """A batch was claimed and sent on."""
        assert self.position is not None
        self.position = self.position.at(batch.offsets)
        for partition, stamp in batch.appended.items():
            self.frontier.appended(partition, stamp)
            self._steady.prove(stamp / 1e6)
        self.frontier.read(self.position.offsets)

    def left(self) -> None:
        """A batch could not be claimed: it is read again, from the offsets of a checkpoint."""
        self.position = None

    def reached(self) -> int | None:
        """Stream time before which all arrivals are read; None while nothing is known."""
        moment = self.frontier.at()
        return None if moment is None else self._topic.earliest.at(moment)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """A checkpoint has these offsets: monitors of the group may know them."""
        if self._topic.group is not None and offsets:
            self._clients.commit(offsets)

    @property
    def is_well(self) -> bool:
        """Whether the brokers answer."""
        return self._assigned and not self._failures and not self._schema_failures

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn: longer while the brokers are away."""
        failures = max(self._failures, self._schema_failures)
        if failures:
            return float(min(LONGEST_PAUSE, 0.1 * 2 ** min(failures, 10)))
        return 0.05

    def close(self) -> None:
        """Reads no more."""
        self._assigned = False
        self._clients.close()

    def _add(self, batch: TopicBatch, record: Any, latest: int) -> int:
        """Adds a record to a batch; returns its bytes.

        Args:
          latest: that a producer may say, microseconds since 1970.
        """
        partition, offset, value = record.partition(), record.offset(), record.value()
        kind, milliseconds = record.timestamp()
        stamp = milliseconds * 1000
        batch.offsets[partition] = offset + 1
        if kind == BY_BROKER:
            batch.appended[partition] = max(stamp, batch.appended.get(partition, stamp))
        if value is None:
            batch.dead.append((record_id(partition, offset), "no_value"))
            return 0
        if kind == BY_PRODUCER and stamp > latest:
            batch.dead.append((record_id(partition, offset), "stamp_ahead"))
            return len(value)
        payload = value if self._topic.values is None else self._topic.values.read(value)
        if payload is None:
            batch.dead.append((record_id(partition, offset), "malformed"))
            return len(value)
        if stamp != self._stamp:  # brokers stamp many at once
            self._stamp, self._times = stamp, self._topic.times(stamp)
        batch.messages.append(Message(record_id(partition, offset), payload, *self._times))
        return len(value)

    def _errs(self, batch: TopicBatch, record: Any, error: Any) -> None:
        """What stands in the place of a record: the end of a partition, or a fault."""
        code = error.name()
        if code == "_PARTITION_EOF":  # behind control records and aborted ones, too
            if record.offset() >= 0:
                batch.offsets[record.partition()] = record.offset()
        elif code in faults.OUT_OF_RANGE:
            self._assigned = False  # ``_prepare`` says why
        else:
            self._fails("records", code)

    def _prepare(self) -> None:
        """Assigns the partitions, after a look whether they hold what is to be read."""
        assert self.position is not None
        asked = self.wall()
        topic = self._clients.described(self._clients.describe(ANSWER))
        mine = self._topic.partitions_of(self._number, topic.partitions)
        position = self.position
        if not position.topic:
            id, offsets = starts.noted(
                self._fence, self._topic.name, self._number, lambda: (topic.id, self._start(mine))
            )
            position = TopicPosition(id, offsets)
        if position.topic != topic.id:
            self._fail(faults.replaced(self._topic.name))
        offsets = {**dict.fromkeys(mine, 0), **position.offsets}
        if offsets:
            self._check(offsets)
            if self._shrunk_since is not None:
                return
        self._clients.assign(offsets)
        self._waiting = ()
        self.position, self._assigned = position.at(offsets), True
        self._count, self._question = topic.partitions, None
        self.frontier.begin(offsets)
        self.frontier.listed(asked)
        self._answered()

    def _start(self, partitions: range) -> dict[int, int]:
        """The offsets at which a new stream begins."""
        if not partitions:
            return {}
        start = self._topic.start
        which = start if isinstance(start, str) else start // 1000
        offsets: dict[int, int] = self._clients.offsets(
            self._clients.bounds(partitions, which, ANSWER)
        )
        if any(offset < 0 for offset in offsets.values()):
            ends = self._clients.offsets(self._clients.bounds(partitions, LATEST, ANSWER))
            offsets = {p: ends[p] if offset < 0 else offset for p, offset in offsets.items()}
        return offsets

    def _check(self, offsets: Mapping[int, int]) -> None:
        """Fails where partitions do not hold these offsets, or not any more."""
        lows = self._clients.offsets(self._clients.bounds(offsets, EARLIEST, ANSWER))
        ends = self._clients.offsets(self._clients.bounds(offsets, LATEST, ANSWER))
        shrunk = None
        for partition, offset in offsets.items():
            if offset < lows[partition]:
                self._fail(faults.lost(self._topic.name, partition, offset, lows[partition]))
            if offset > ends[partition]:
                shrunk = faults.shrunk(self._topic.name, partition, offset, ends[partition])
        if shrunk is None:
            self._shrunk_since = None
            return
        if self._shrunk_since is None:
            self._shrunk_since = self.wall()
        if self.wall() - self._shrunk_since >= SHRUNK * 1e6:
            self._fail(shrunk)

    def _ask(self, due: int | None) -> None:
        """Takes answers that have come, and asks the next question when it is due."""
        assert self.position is not None
        question = self._question
        if (
            question is not None
            and question.topic.done()
            and all(future.done() for future in question.ends.values())
        ):
            self._question = None
            self._take_answers(question)
        wall = self.wall()
        asks = wall >= self._next_question or (due is not None and self._asked < due <= wall)
        if self._question is None and self._assigned and asks:
            partitions = list(self.position.offsets)
            self._asked = wall
            self._next_question = wall + max(ASK_EVERY, ASK_EACH * self._count)
            ends = self._clients.bounds(partitions, LATEST, ANSWER) if partitions else {}
            self._question = TopicQuestion(wall, self._clients.describe(ANSWER), ends)

    def _take_answers(self, question: TopicQuestion) -> None:
        assert self.position is not None
        topic = self._clients.described(question.topic)
        if topic.id != self.position.topic:
            self._fail(faults.replaced(self._topic.name))
        if topic.partitions > self._count:
            self._assigned = False  # ``_prepare`` begins with the new ones
            self._prepare()
            return
        self.frontier.listed(question.asked)
        ends = self._clients.offsets(question.ends)
        self.frontier.ended(question.asked, ends)
        self.frontier.read(self.position.offsets)
        for partition, end in ends.items():
            unread = max(0, end - self.position.offsets.get(partition, end))
            counters.show(f"{counters.UNREAD}{partition}", unread)
        self._answered()

    def _answered(self) -> None:
        self._failures = self._warned = 0
        self._refused.pop("brokers", None)
        self._refused.pop("client", None)

    def _fails(self, what: str, code: str) -> None:
        """A call failed. what: brokers, for questions; records; client, for connections;
        registry, for schemas."""
        self._failures += what == "brokers"
        self._schema_failures += what == "registry"
        self._warned += 1
        counters.add("source_errors")
        if self._warned & (self._warned - 1) == 0:  # the 1st, 2nd, 4th, 8th ...
            _log.warning("topic %s cannot be read (%s); trying again", self._topic.name, code)
        if code == "_NOENT":  # of a topic that the client has just learned is not there
            code = "UNKNOWN_TOPIC_OR_PART"
        doubted = faults.REFUSALS.get(code)
        if doubted is None:
            return
        wall = self.wall()
        before, since, last = self._refused.get(what, ("", wall, wall))
        if before != code or wall - last > max(doubted, FORGOTTEN) * 1e6:
            since = wall
        self._refused[what] = (code, since, wall)
        if wall - since >= doubted * 1e6:
            self._fail(faults.gone(self._topic.name, code))

    def _fail(self, error: Fatal) -> NoReturn:
        self._assigned = False
        stored_counts.flush(self._fence)
        self._fence.fail(error)


__all__ = ["ANSWER", "TopicBatch", "TopicReader"]
