"""Where the messages of one run of an audit go: a topic and a subscription of its own.

They lie on the server that PUBSUB_EMULATOR_HOST names, or on one that lives as long as the run.
Google's own is never asked, and no topic or subscription of the config is.

All messages are published before the job starts, and its clock, a replay, begins after that: so no
event is late by its publish time and none comes behind a tick. From there on it is the live job: it
reads until nothing comes, its ticks end one after another, and it is drained behind the last.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from weir.dpcore.config import durations
from weir.dpcore.errors import ConfigError
from weir.pipelines.audit.malformed import payload_of
from weir.pipelines.config.job import JobConfig
from weir.pipelines.engines import job_server, servers
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.engines.tools import EngineMissing, need
from weir.pipelines.feed.targets import create
from weir.pipelines.sinks.dead_letters import DeadNdjson
from weir.pipelines.sources.pubsub import PubSubSource, Replay, SubscriptionConfig
from weir.transforms.beam.publish import CALL_BYTES, CALL_MESSAGES, Outgoing, publish
from weir.transforms.runtime.pubsub_client import EMULATOR, emulator, publisher, subscriber

PROJECT = "projects/weir-audit"
LEAD = 20.0
"""Seconds from the last message to the start of the clock: a job takes some ten to start, and then
waits as long as the ack deadline. Of one that is slower the first ticks end together."""
TICK, SHORTEST, LONGEST = 0.2, 2.0, 20.0
"""Seconds of a tick, and of the whole clock at least and at most."""
ANSWER = 5.0
"""Seconds in which a server must let itself be connected to."""
READERS = 2
"""Readers of a subscription, at most: all of them are in this process."""


def refuse_missing() -> None:
    """Refuses to begin where messages cannot be fed.

    Raises:
      ConfigError: there is neither a server nor one to start, or no Flink; says how to get it.
    """
    host = emulator()
    if host is not None:
        name, _, port = host.rpartition(":")
        try:
            socket.create_connection((name.strip("[]"), int(port)), ANSWER).close()
        except (OSError, ValueError):
            raise ConfigError(
                EMULATOR,
                host,
                "does not answer: start that server, or unset the variable, so that the audit "
                "starts one of its own (make pubsub installs it).",
            ) from None
    else:
        with _installed("feeds messages through a Pub/Sub server", f", or set {EMULATOR} to one"):
            servers.pubsub_binary()
    need("java", "Flink's job server")
    with _installed("runs on Flink", ""):
        job_server.jar()


@contextlib.contextmanager
def _installed(why: str, more: str) -> Iterator[None]:
    try:
        yield
    except EngineMissing as missing:
        raise ConfigError("--runner", "flink", f"{why}, and {missing}{more}.") from None


@contextlib.contextmanager
def server() -> Iterator[str]:
    """HOST:PORT of a server, to which clients of this process go meanwhile.

    Raises:
      WeirError: it is not installed, or did not start.
    """
    host = emulator()
    if host is not None:
        yield host
        return
    with PubSubServer() as own:
        os.environ[EMULATOR] = own.host
        try:
            yield own.host
        finally:
            del os.environ[EMULATOR]


@dataclass(frozen=True)
class PubSubHarness:
    """A topic and its subscription.

    Attributes:
      topic, subscription: full names. job: the config; its own subscription is not asked.
    """

    topic: str
    subscription: str
    job: JobConfig

    @classmethod
    @contextlib.contextmanager
    def opened(cls, job: JobConfig) -> Iterator[PubSubHarness]:
        """New ones, that are deleted on exit."""
        from google.api_core.exceptions import GoogleAPIError

        name = f"audit-{os.getpid()}-{time.time_ns()}"
        post = cls(f"{PROJECT}/topics/{name}", f"{PROJECT}/subscriptions/{name}", job)
        create(post.topic, PubSubSource(pubsub=SubscriptionConfig(subscription=post.subscription)))
        try:
            yield post
        finally:
            with contextlib.suppress(GoogleAPIError):
                subscriber(emulator()).delete_subscription(subscription=post.subscription)
                publisher(emulator()).delete_topic(topic=post.topic)

    def publish(self, payloads: Iterable[bytes]) -> int:
        """Publishes, and returns how many when the server has them.

        Each says, in the attribute by which the config knows arrivals, that it arrived when the
        clock began.
        """
        start = durations.show_timestamp(self.job.release_clock.start)
        attributes = {self._own.timestamp or "arrived": start}
        client = publisher(emulator())
        held: list[Outgoing] = []
        size = count = 0
        for data in payloads:
            if held and (len(held) >= CALL_MESSAGES or size + len(data) > CALL_BYTES):
                publish(client, self.topic, held)
                held, size = [], 0
            held.append(Outgoing(data, attributes))
            size += len(data) + 100
            count += 1
        if held:
            publish(client, self.topic, held)
        return count

    def over(self, job: JobConfig, place: Path) -> JobConfig:
        """A job over these messages, whose clock begins soon; state and dead letters lie in a
        folder."""
        clock = job.release_clock
        assert clock.ticks is not None
        length = clock.tick_start(clock.ticks) - clock.start + clock.delay
        seconds = min(LONGEST, max(SHORTEST, TICK * clock.ticks))
        replay = Replay(
            origin=durations.show_timestamp(clock.start),
            started=durations.show_timestamp(int((time.time() + LEAD) * 1e3) * 1000),
            speed=length / 1e6 / seconds,
        )
        section = SubscriptionConfig(
            subscription=self.subscription,
            payload=payload_of(self.job)[0],
            readers=min(READERS, self._own.readers),
            timestamp=self._own.timestamp,
            replay=replay,
        )
        engine = job.engine.model_copy(
            update={
                "checkpoints": str(place / "state"),
                "checkpoint_every": "2s",
                "parallelism": None,
            }
        )
        return job.model_copy(
            update={
                "source": PubSubSource(pubsub=section),
                "engine": engine,
                "dead_letters": DeadNdjson(ndjson=str(place / "dead")),
            }
        )

    @property
    def _own(self) -> SubscriptionConfig:
        """What the config says of its own subscription, if it has one."""
        if isinstance(self.job.source, PubSubSource):
            return self.job.source.pubsub
        return SubscriptionConfig(subscription=self.subscription)
