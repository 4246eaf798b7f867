"""A recorded stream through a real Pub/Sub server: topics, and a publisher with a clock."""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import grpc
from google.pubsub_v1 import PublisherClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from tests.runners.jobs import Job, Stream
from tests.runners.recording import HOUR, START, show
from weir.dpcore.config import durations

PROJECT = "projects/rehearsal"
AHEAD = 3.0
"""Wall seconds that a paced message is published before its arrival stamp: a publisher that is
slow for a moment makes nothing overdue."""
_NUMBERS = itertools.count()


@dataclass
class Post:
    """Topics and subscriptions of one test on a server.

    Args:
      host: host:port of the server. name: of the test; numbered, so that no two meet.
    """

    host: str
    name: str = "rehearsal"
    ack_deadline: int = 10
    _channel: Any = field(init=False)

    def __post_init__(self) -> None:
        self.name = f"{self.name}-{os.getpid()}-{next(_NUMBERS)}"
        self._channel = grpc.insecure_channel(self.host)
        self.publisher = PublisherClient(transport=PublisherGrpcTransport(channel=self._channel))
        self.subscriber = SubscriberClient(transport=SubscriberGrpcTransport(channel=self._channel))
        self.topic = self.make("in")
        self.subscription = self.subscribe("in")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def make(self, name: str) -> str:
        """A topic."""
        topic = f"{PROJECT}/topics/{self.name}-{name}"
        self.publisher.create_topic(name=topic)
        return topic

    def subscribe(self, name: str) -> str:
        """A subscription to a topic that is there."""
        path = f"{PROJECT}/subscriptions/{self.name}-{name}"
        self.subscriber.create_subscription(
            request={
                "name": path,
                "topic": f"{PROJECT}/topics/{self.name}-{name}",
                "ack_deadline_seconds": self.ack_deadline,
            }
        )
        return path

    def publish(self, messages: Iterable[bytes], at_once: int = 200) -> int:
        """Publishes and waits until the server has them; returns how many."""
        count = 0
        for part in batched(messages, at_once):
            self.publisher.publish(topic=self.topic, messages=[{"data": data} for data in part])
            count += len(part)
        return count

    def drain(self, subscription: str, idle: float = 1.0, deadline: float = 30) -> list[Any]:
        """Pulls and acknowledges until nothing comes any more."""
        found: list[Any] = []
        end, last = time.monotonic() + deadline, time.monotonic()
        while time.monotonic() < end and time.monotonic() - last < idle:
            request = {"subscription": subscription, "max_messages": 1000}
            pulled = self.subscriber.pull(
                request={**request, "return_immediately": True}, timeout=10
            ).received_messages
            if not pulled:
                time.sleep(0.05)
                continue
            last = time.monotonic()
            ids = [one.ack_id for one in pulled]
            self.subscriber.acknowledge(subscription=subscription, ack_ids=ids)
            found += [one.message for one in pulled]
        return found


def batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Lists of at most ``size`` items."""
    left = iter(items)
    while part := list(itertools.islice(left, size)):
        yield part


@dataclass(frozen=True)
class Pace:
    """How a recording runs against the wall clock.

    Attributes:
      started: wall time at which stream time was the clock's start. speed: times real time.
    """

    started: float
    speed: float

    @classmethod
    def soon(cls, seconds: float = 4.0, speed: float = 6 * 3600) -> Pace:
        """A clock that starts in a few seconds; by default with six ticks a second."""
        return cls(round(time.time() + seconds, 3), speed)

    @property
    def replay(self) -> str:
        """What the source needs to know, as YAML."""
        started = show(int(self.started * 1e6))
        return f"{{origin: {START}, started: {started}, speed: {self.speed}}}"

    def wall(self, micros: int) -> float:
        """Wall time of a stream time."""
        return self.started + (micros - durations.timestamp(START)) / 1e6 / self.speed

    @staticmethod
    def start_of_tick(tick: int) -> int:
        """Stream time of the start of a tick."""
        return durations.timestamp(START) + tick * HOUR

    def wall_of_tick(self, tick: int) -> float:
        """Wall time of the start of a tick."""
        return self.wall(self.start_of_tick(tick))


def over_messages(
    folder: Path,
    recording: Stream,
    post: Post,
    pace: Pace,
    more: str = "",
    **job: Any,
) -> Job:
    """A job on a subscription and on the clock of ``pace``. ``more``: fields of the source."""
    source = f"subscription: {post.subscription}, payload: ndjson, replay: {pace.replay}{more}"
    return Job(folder, recording, f"{{pubsub: {{{source}}}}}", **job)


class Publisher(threading.Thread):
    """Publishes a recording in order of arrival, each message a little before its stamp."""

    def __init__(self, post: Post, recording: Stream, pace: Pace, size: int) -> None:
        super().__init__(daemon=True)
        self._post, self._pace = post, pace
        self._messages = list(recording.messages(size))
        self._halt = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Sleeps and publishes."""
        try:
            for data, arrival in self._messages:
                wait = self._pace.wall(arrival) - AHEAD - time.time()
                if wait > 0 and self._halt.wait(wait):
                    return
                self._post.publish([data])
        except BaseException as error:  # told by the thread that waits
            self.error = error

    def finish(self) -> None:
        """Waits until all is published; raises what went wrong."""
        self.join()
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Stops early."""
        self._halt.set()
        self.join()
