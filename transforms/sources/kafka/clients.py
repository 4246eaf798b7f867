"""The few calls of librdkafka's clients that a reader needs, and their errors by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from weir.dpcore.errors import ConfigError
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.topic import KafkaTopic

NO_GROUP = "weir"
"""Group of a consumer that is in none: the client wants a name."""
EARLIEST, LATEST = "earliest", "latest"


class DescribedTopic(NamedTuple):
    """A topic as its brokers have it.

    Attributes:
      id: the same as long as it is not deleted. partitions: how many.
    """

    id: str
    partitions: int


class CallRefused(Exception):
    """A call that failed. Holds the code's name and nothing else."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def library(section: str = "source.kafka") -> Any:
    """The client library.

    Args:
      section: of the config that needs it.

    Raises:
      ConfigError: it is not installed.
    """
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise ConfigError(
            section, None, "needs confluent-kafka: pip install weir-dp[kafka]."
        ) from None
    return confluent_kafka


def refused_property(properties: ClientProperties, error: Any) -> ConfigError:
    """What librdkafka says of a property; its words may quote a value, so only names stay."""
    words, field = str(error.args[0].str() if error.args else ""), f"{properties.section}.options"
    for name, value in properties.plain:
        if f'"{name}"' in words:
            return ConfigError(
                f"{field}.{name}",
                value,
                "is not accepted by librdkafka. Correct the name or the value: its page "
                "CONFIGURATION.md lists them.",
            )
    return ConfigError(
        field,
        ", ".join(name for name, _ in properties.plain),
        "are not accepted by librdkafka together. Correct them: its page CONFIGURATION.md "
        "lists what each needs.",
    )


class KafkaClients:
    """A consumer of given partitions, in no group, and a client for questions.

    Args:
      topic: which.

    Raises:
      ConfigError: a secret cannot be read, or a property is none of librdkafka's.
    """

    def __init__(self, topic: KafkaTopic) -> None:
        self._topic, self._library = topic, library(topic.properties.section)
        self._errors: list[str] = []
        self._assigned = False
        properties = topic.properties.read()
        try:
            self._admin = self._library.admin.AdminClient(properties)
            self._consumer = self._library.Consumer(
                {
                    **properties,
                    "error_cb": lambda error: self._errors.append(str(error.name())),
                    "group.id": topic.group or NO_GROUP,
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "enable.partition.eof": True,
                    "isolation.level": "read_committed" if topic.committed else "read_uncommitted",
                }
            )
        except self._library.KafkaException as error:
            raise refused_property(topic.properties, error) from None

    def describe(self, seconds: float) -> Any:
        """Asks for the topic; ``described`` reads the answer."""
        names = self._library.TopicCollection([self._topic.name])
        futures = self._admin.describe_topics(names, request_timeout=seconds)
        return futures[self._topic.name]

    def described(self, future: Any) -> DescribedTopic:
        """An answer. Raises CallRefused."""
        topic = self._answer(future)
        return DescribedTopic(str(topic.topic_id), len(topic.partitions))

    def settings(self, seconds: float) -> dict[str, str]:
        """Settings of the topic by name; none where they may not be read."""
        place = self._library.admin.ConfigResource(
            self._library.admin.ConfigResource.Type.TOPIC, self._topic.name
        )
        try:
            answers = self._admin.describe_configs([place], request_timeout=seconds)
            entries = self._answer(answers[place])
        except CallRefused:
            return {}
        return {name: str(entry.value) for name, entry in entries.items()}

    def bounds(self, partitions: Iterable[int], which: str | int, seconds: float) -> Any:
        """Asks for offsets of partitions; ``offsets`` reads the answer.

        Args:
          which: EARLIEST, LATEST (after the last record, whether it is committed or not), or a
            time in milliseconds since 1970: of the first record that bears it or a later one.
        """
        spec = self._library.admin.OffsetSpec
        if isinstance(which, int):
            wanted = spec.for_timestamp(which)
        else:
            wanted = spec.earliest() if which == EARLIEST else spec.latest()
        places = {self._library.TopicPartition(self._topic.name, p): wanted for p in partitions}
        return self._admin.list_offsets(
            places,
            isolation_level=self._library.IsolationLevel.READ_UNCOMMITTED,
            request_timeout=seconds,
        )

    def offsets(self, futures: Mapping[Any, Any]) -> dict[int, int]:
        """Partition -> offset; -1: no such record. Raises CallRefused."""
        return {
            place.partition: int(self._answer(future).offset) for place, future in futures.items()
        }

    def _answer(self, future: Any) -> Any:
        try:
            return future.result()
        except self._library.KafkaException as error:
            raise CallRefused(str(error.args[0].name())) from None

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Reads from these offsets on."""
        place = self._library.TopicPartition
        self._assigned = True
        self._consumer.assign([place(self._topic.name, p, o) for p, o in offsets.items()])

    def consume(self, count: int, seconds: float) -> Sequence[Any]:
        """Up to so many records, and errors among them; waits no longer for the last of them."""
        records: Sequence[Any] = self._consumer.consume(count, seconds)
        return records

    def errors(self) -> list[str]:
        """Codes of what went wrong with connections since the last call."""
        if not self._assigned:
            self._consumer.poll(0)  # nothing comes but errors
        codes, self._errors[:] = list(self._errors), []
        return codes

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commits for monitors of the group; nothing depends on it, so it waits for nothing."""
        place = self._library.TopicPartition
        places = [place(self._topic.name, p, o) for p, o in offsets.items()]
        # A runner may have the offsets when the consumer is closed: RuntimeError.
        with contextlib.suppress(self._library.KafkaException, RuntimeError):
            self._consumer.commit(offsets=places, asynchronous=True)

    def close(self) -> None:
        """Ends the consumer."""
        self._consumer.close()


__all__ = [
    "EARLIEST",
    "LATEST",
    "CallRefused",
    "DescribedTopic",
    "KafkaClients",
    "library",
    "refused_property",
]
