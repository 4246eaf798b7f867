"""A recorded stream through a real Kafka broker: topics, transactions, and a feed with a clock."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.runners.besieged import HOUR_A_SECOND
from tests.runners.jobs import Job
from tests.runners.kills import Lead, Siege
from tests.runners.messages import Pace
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker

QUIET = {"log_level": 0}
AHEAD = 60.0
"""Seconds that a record is published before its stamp: a broker may be away for so long, and one
that is killed on a busy machine is away for half a minute."""
LATE = 40
"""Seconds after the start of the clock at which the job may have its first checkpoint: what it has
not read by then waits in the topic."""
LINES = 20
"""Of a record."""
_NUMBERS = itertools.count()


def await_answers(broker: KafkaBroker) -> None:
    """Returns when a broker answers, and its coordinator of transactions with it."""
    end = time.monotonic() + 120
    while True:
        producer = Producer(
            {"bootstrap.servers": broker.address, "transactional.id": "first", **QUIET}
        )
        try:
            return producer.init_transactions(10)
        except KafkaException:
            assert time.monotonic() < end, "Kafka does not answer"


def patiently(call: Callable[[], None], seconds: float = 120) -> None:
    """Calls again while a broker is away."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > end:
                raise


class Topic:
    """A topic of one test, numbered, so that no two meet.

    Args:
      broker: which is it is on.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        name: str,
        partitions: int = 2,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.name = f"{name}-{os.getpid()}-{next(_NUMBERS)}"
        self.broker, self.partitions = broker, partitions
        self._config = {"message.timestamp.type": "LogAppendTime", **(config or {})}
        common = {"bootstrap.servers": broker.address, **QUIET}
        self.admin = AdminClient(common)
        self._common = {**common, "message.max.bytes": 15_000_000}
        self.producer = Producer({**self._common, "enable.idempotence": True, "linger.ms": 1})
        self._turn = itertools.count()
        self.make()

    def make(self) -> None:
        """Makes it, with the partitions that it has now, and returns when brokers know it."""
        new = NewTopic(self.name, self.partitions, 1, config=self._config)
        self.admin.create_topics([new])[self.name].result()
        end = time.monotonic() + 30
        while self.name not in self.producer.list_topics(timeout=30).topics:
            assert time.monotonic() < end, f"{self.name}: made, and not there after 30 s"
            time.sleep(0.1)

    def delete(self) -> None:
        """Deletes it, and returns when it is gone."""
        self.admin.delete_topics([self.name])[self.name].result()
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                self.admin.describe_topics(TopicCollection([self.name]))[self.name].result()
            except KafkaException:
                return
            time.sleep(0.1)

    def grow(self, partitions: int) -> None:
        """Adds partitions up to a number."""
        self.admin.create_partitions([NewPartitions(self.name, partitions)])[self.name].result()
        self.partitions = partitions

    def remove(self, below: Mapping[int, int]) -> None:
        """Removes the first records of partitions, as retention does."""
        places = [TopicPartition(self.name, p, offset) for p, offset in below.items()]
        for future in self.admin.delete_records(places).values():
            future.result()

    def ends(self) -> dict[int, int]:
        """Partition -> high watermark."""
        places = {TopicPartition(self.name, p): OffsetSpec.latest() for p in range(self.partitions)}
        fresh = AdminClient(self._common)  # an older one may name a leader of before a restart
        futures = fresh.list_offsets(places)
        return {place.partition: future.result().offset for place, future in futures.items()}

    def written(self) -> list[tuple[bytes | None, bytes | None]]:
        """(key, value) of all records, in the order of each partition."""
        consumer = Consumer({**self._common, "group.id": "reader", "enable.partition.eof": True})
        consumer.assign([TopicPartition(self.name, p, 0) for p in range(self.partitions)])
        records, open_partitions = [], set(range(self.partitions))
        while open_partitions:
            for record in consumer.consume(1000, 1.0):
                if record.error() is None:
                    records.append((record.key(), record.value()))
                else:
                    open_partitions.discard(record.partition())
        consumer.close()
        return records

    def send(self, value: bytes | None, partition: int | None = None, **more: Any) -> None:
        """Sends without waiting; partitions take turns."""
        self._send(self.producer, value, partition, **more)

    def _send(
        self, producer: Any, value: bytes | None, partition: int | None = None, **more: Any
    ) -> None:
        chosen = next(self._turn) % self.partitions if partition is None else partition
        while True:
            try:
                return producer.produce(self.name, value, partition=chosen, **more)
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:  # a new one, that this producer has yet to hear of
                if error.args[0].name() != "_UNKNOWN_PARTITION":
                    raise
                producer.list_topics(self.name, timeout=10)

    def publish(self, values: Iterable[bytes], **more: Any) -> int:
        """Sends, and waits until the broker has all; returns how many."""
        count = 0
        for value in values:
            self.send(value, **more)
            count += 1
        assert self.producer.flush(120) == 0
        return count

    def transaction(self, values: Iterable[bytes], commit: bool) -> None:
        """Sends a transaction of its own and ends it."""
        with self.open_transaction(values) as end:
            end(commit)

    @contextmanager
    def open_transaction(self, values: Iterable[bytes]) -> Iterator[Callable[[bool], None]]:
        """Sends a transaction that stays open until what is yielded is called."""
        id = f"{self.name}-{next(_NUMBERS)}"
        producer = Producer({**self._common, "transactional.id": id})
        patiently(lambda: producer.init_transactions(60))
        producer.begin_transaction()
        for value in values:
            self._send(producer, value)
        producer.flush(30)
        ended = False

        def end(commit: bool) -> None:
            nonlocal ended
            ended = True
            over = producer.commit_transaction if commit else producer.abort_transaction
            patiently(lambda: over(60))

        try:
            yield end
        finally:
            if not ended:
                end(False)


class Feed(threading.Thread):
    """Publishes a recording in order of arrival, each record some time before its stamp.

    Every 20th comes in a transaction, and so does a copy with other ids that is aborted.
    """

    def __init__(
        self, topic: Topic, recording: Recording, pace: Pace, ahead: float = AHEAD
    ) -> None:
        super().__init__(daemon=True)
        self._topic, self._pace, self._ahead = topic, pace, ahead
        self._messages = list(recording.messages(LINES))
        self._halt = threading.Event()
        self.sent = 0
        self.late = -ahead
        self.error: BaseException | None = None

    def run(self) -> None:
        """Sleeps and publishes."""
        try:
            for i, (data, arrival) in enumerate(self._messages):
                wait = self._pace.wall(arrival) - self._ahead - time.time()
                if wait > 0 and self._halt.wait(wait):
                    return
                if i % 20 == 5:
                    other = data.replace(b'"event-', b'"aborted-')
                    self._topic.transaction([other], commit=False)
                    self._topic.transaction([data], commit=True)
                else:
                    self._topic.publish([data])
                self.sent = i + 1
                self.late = max(self.late, time.time() - self._pace.wall(arrival))
        except BaseException as error:  # raised by the thread that waits
            self.error = error

    def finish(self) -> None:
        """Waits until all is published; raises what went wrong."""
        self.join()
        if self.error is not None:
            raise self.error
        assert self.late < 0, f"a record came {self.late:.1f} s late: this machine is too slow"

    def stop(self) -> None:
        """Stops early."""
        self._halt.set()
        self.join()


def over_topic(
    folder: Path, recording: Recording, topic: Topic, pace: Pace, more: str = "", **job: Any
) -> Job:
    """A job on a topic and on the clock of ``pace``. ``more``: fields of the source."""
    source = (
        f"brokers: '{topic.broker.address}', topic: {topic.name}, payload: ndjson, "
        f"start: earliest, replay: {pace.replay}{more}"
    )
    return Job(folder, recording, f"{{kafka: {{{source}}}}}", **job)


@contextmanager
def besieged_topic(
    cluster: FlinkCluster,
    broker: KafkaBroker,
    recording: Recording,
    folder: Path,
    every: int,
    values: Iterable[bytes] = (),
    led: bool = False,
    partitions: int = 3,
    fed: bool = False,
    published: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[tuple[Siege, Topic, Feed | None]]:
    """A job that runs and has a checkpoint.

    Args:
      environment: for ``weir run``.
      published: a sink in place of files, as YAML.
      every: ticks of a file. values: what the topic holds before the job is there.
      led: whether the job has to be there when the clock starts; else that starts at once.
      fed: whether the recording is fed from before the job on.
    """
    held = list(values)
    for attempt in range(3 if led else 1):
        began = time.time()
        lead = max(Lead.seconds, AHEAD + 4 if fed else 0.0) if led else 5.0
        pace = Pace.soon(lead, HOUR_A_SECOND)
        topic = Topic(broker, "besieged", partitions)
        topic.publish(held)
        feed = Feed(topic, recording, pace) if fed else None
        if feed is not None:
            feed.start()
        extra = "engine: {checkpoint_every: 2s}\n"
        job = over_topic(
            folder / str(attempt),
            recording,
            topic,
            pace,
            ", readers: 2",
            every=every,
            extra=extra,
            published=published,
        )
        with Siege(job, cluster, pace, (), environment or {}) as siege:
            siege.settle(1)
            in_time = not led or time.time() < pace.started + LATE
            Lead.learn(time.time() - began)
            if in_time:
                yield siege, topic, feed
                return
        if feed is not None:
            feed.stop()
    raise AssertionError("no job in time")
