"""The server between the feed and the job of ``make stack``: of Pub/Sub, or of Kafka."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import ClassVar

from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.feed.kafka import SCHEME
from weir.pipelines.feed.targets import create
from weir.pipelines.sources.pubsub import PubSubSource, SubscriptionConfig
from weir.transforms.sources.kafka.clients import LATEST, CallRefused, KafkaClients
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.topic import KafkaTopic

PROJECT = "weir-stack"
ACK_DEADLINE = 10
"""Seconds; Pub/Sub's least. For so long after its start a job waits for what comes again."""
NAME = "events"
ANSWER = 5.0
"""Seconds that a broker has for an answer."""


class StackStream(ABC):
    """A server and a topic on it.

    Attributes:
      kind: of the source, and of what ``install`` calls the server.
      hold: seconds after its start for which a job waits.
    """

    kind: ClassVar[str]
    hold: ClassVar[int] = 0

    @abstractmethod
    def start(self) -> None:
        """Starts the server and makes the topic."""

    @abstractmethod
    def stop(self) -> None:
        """Ends the server."""

    @property
    @abstractmethod
    def address(self) -> str:
        """HOST:PORT."""

    @property
    @abstractmethod
    def target(self) -> str:
        """``--to`` of the feed."""

    @property
    @abstractmethod
    def source(self) -> str:
        """Fields of the job's source, as YAML."""

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which clients find the server."""
        return {}

    @abstractmethod
    def counts(self) -> dict[str, int]:
        """messages: that were sent; others as the server has them."""


class PubSubStream(StackStream):
    """A subscription."""

    kind: ClassVar[str] = "pubsub"
    hold: ClassVar[int] = ACK_DEADLINE
    _subscription: ClassVar[str] = f"projects/{PROJECT}/subscriptions/{NAME}"

    def __init__(self) -> None:
        self._server = PubSubServer()

    def start(self) -> None:
        self._server.start()
        os.environ["PUBSUB_EMULATOR_HOST"] = self._server.host
        section = SubscriptionConfig(
            subscription=self._subscription, ack_deadline=f"{ACK_DEADLINE}s"
        )
        create(self.target, PubSubSource(pubsub=section))

    def stop(self) -> None:
        self._server.stop()

    @property
    def address(self) -> str:
        return self._server.host

    @property
    def target(self) -> str:
        return f"projects/{PROJECT}/topics/{NAME}"

    @property
    def source(self) -> str:
        return f"subscription: {self._subscription}, ack_deadline: {ACK_DEADLINE}s"

    @property
    def environment(self) -> dict[str, str]:
        return {"PUBSUB_EMULATOR_HOST": self._server.host}

    def counts(self) -> dict[str, int]:
        return self._server.counts(self.target)


class KafkaStream(StackStream):
    """A topic of several partitions, read by a reader for each TaskManager."""

    kind: ClassVar[str] = "kafka"

    def __init__(self) -> None:
        self._broker = KafkaBroker()
        self._clients: KafkaClients | None = None

    def start(self) -> None:
        self._broker.start()
        create(self.target, None)
        topic = KafkaTopic(NAME, ClientProperties(self._broker.address))
        self._clients = KafkaClients(topic)

    def stop(self) -> None:
        if self._clients is not None:
            self._clients.close()
            self._clients = None
        self._broker.stop()

    @property
    def address(self) -> str:
        return self._broker.address

    @property
    def target(self) -> str:
        return f"{SCHEME}{self._broker.address}/{NAME}"

    @property
    def source(self) -> str:
        return f"brokers: '{self._broker.address}', topic: {NAME}, start: earliest, readers: 2"

    def counts(self) -> dict[str, int]:
        clients = self._clients
        if clients is None:
            return {"messages": 0}
        try:
            topic = clients.described(clients.describe(ANSWER))
            ends = clients.offsets(clients.bounds(range(topic.partitions), LATEST, ANSWER))
        except CallRefused:
            return {"messages": 0}
        return {"messages": sum(ends.values())}


STREAMS: dict[str, type[StackStream]] = {"pubsub": PubSubStream, "kafka": KafkaStream}

__all__ = ["STREAMS", "KafkaStream", "PubSubStream", "StackStream"]
