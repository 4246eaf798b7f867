"""What every connector of Kafka has: brokers, a topic, and properties of librdkafka's clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from weir.dpcore.config.section import Section, refusal
from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.references import Reference, properties_of, reference_of
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sources.kafka.properties import SECRETS, ClientProperties
from weir.transforms.sources.kafka.registry import SchemaRegistry

ANSWER = 10.0
"""Seconds to wait for brokers that are asked for a topic."""
_NAME = re.compile(r"(?!\.\.?\Z)[A-Za-z0-9._-]{1,249}")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:,\[\]]+):([0-9]{1,5})")


class TopicSection(Section):
    """A topic of Kafka, and how its brokers are reached.

    A subclass states:
      section: its dotted path in a config.
      ours: properties of clients that it sets itself -> what to write instead.
    """

    section: ClassVar[str]
    ours: ClassVar[Mapping[str, str]]

    brokers: str = Field(
        description="Brokers to ask first, HOST:PORT, separated by commas.",
        examples=["kafka-1.acme.example:9092,kafka-2.acme.example:9092"],
    )
    topic: str = Field(description="The name of the topic.", examples=["purchases"])
    options: dict[str, Any] = Field(
        default={},
        description="Further properties of librdkafka's clients. A secret is given as {file: PATH} "
        "or {env: NAME}, and read on the workers.",
        examples=[
            "{security.protocol: SASL_SSL, sasl.mechanism: SCRAM-SHA-512, sasl.username: weir, "
            "sasl.password: {file: /run/secrets/kafka}}"
        ],
    )

    @property
    def properties(self) -> ClientProperties:
        """Of the clients."""
        plain, secrets = self._split()
        return ClientProperties(
            self.brokers, tuple(plain.items()), tuple(secrets.items()), self.section
        )

    @model_validator(mode="after")
    def _check_topic(self) -> Self:
        for broker in self.brokers.split(","):
            place = _BROKER.fullmatch(broker.strip())
            if place is None or not 0 < int(place[2]) < 65_536:
                raise refusal(
                    "brokers",
                    self.brokers,
                    "must be HOST:PORT, or several separated by commas, like kafka.example:9092.",
                )
        if not _NAME.fullmatch(self.topic):
            raise refusal(
                "topic",
                self.topic,
                "cannot be the name of a topic. Write 1 to 249 letters, digits and any of . _ -",
            )
        self._split()
        return self

    def _split(self) -> tuple[dict[str, Any], dict[str, PropertyReference]]:
        """Plain properties, and those by reference; raises what validators raise."""
        role = self.section.partition(".")[0]
        ours = {
            name: f"is set by the {role}. {instead or 'Remove it.'}"
            for name, instead in self.ours.items()
        }
        return properties_of("options", self.options, ours, SECRETS)


class RegisteredTopic(TopicSection):
    """A topic whose records may have schemas in a registry."""

    registry: str | None = Field(
        default=None,
        description="Address of the schema registry; for confluent_avro.",
        examples=["https://registry.acme.example:8081"],
    )
    registry_login: Reference | None = Field(
        default=None,
        description="Where USER:PASSWORD of the registry is: {file: PATH} or {env: NAME}.",
        examples=["{env: REGISTRY_LOGIN}"],
    )

    @property
    def schemas(self) -> SchemaRegistry | None:
        """The registry; None where records need none."""
        if self.registry is None:
            return None
        return SchemaRegistry(self.registry, self._login(), self.section)

    def _login(self) -> PropertyReference | None:
        login = self.registry_login
        return None if login is None else reference_of("registry_login", login)

    @model_validator(mode="after")
    def _check_registry(self) -> Self:
        if self.registry is not None and not self.registry.startswith(("http://", "https://")):
            raise refusal(
                "registry", self.registry, "is no address. Write one like https://HOST:8081."
            )
        return self

    def _check_needs(self, form: str, needs: Mapping[str, tuple[str, ...]]) -> None:
        """Checks that an encoding has the fields that it needs, and none that is for another.

        Args:
          form: the encoding, as it is named to people. needs: encoding -> fields.
        """
        needed = needs.get(form.split()[-1], ())
        allowed = (*needed, "registry_login") if "registry" in needed else needed
        for name in dict.fromkeys(["registry", "registry_login", *sum(needs.values(), ())]):
            value = getattr(self, name)
            if value is not None and name not in allowed:
                raise refusal(name, value, f"is not for {form}. Remove it.")
            if value is None and name in needed:
                raise refusal(name, value, f"is missing. {form[:1].upper()}{form[1:]} needs it.")


def look_up(section: TopicSection) -> dict[str, str] | str:
    """Asks for a topic and its settings; brokers may be reachable for workers though not from here.

    Returns:
      Its settings by name, as far as they may be read; a note where it cannot be looked up.

    Raises:
      ConfigError: there is none of that name, or a property or a secret is wrong.
    """
    from weir.transforms.sources.kafka.clients import CallRefused, KafkaClients
    from weir.transforms.sources.kafka.topic import KafkaTopic

    clients = KafkaClients(KafkaTopic(section.topic, section.properties))
    try:
        clients.described(clients.describe(ANSWER))
        return clients.settings(ANSWER)
    except CallRefused as refused:
        if refused.code in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
            raise ConfigError(
                f"{section.section}.topic",
                section.topic,
                "does not exist. Create it, or correct the name.",
            ) from None
        return f"topic {section.topic} cannot be looked up from here ({refused.code})."
    finally:
        clients.close()


__all__ = ["RegisteredTopic", "TopicSection", "look_up"]
