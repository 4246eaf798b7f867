"""Properties of librdkafka's clients: plain ones, and secrets by reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from weir.transforms.runtime.references import PropertyReference

SECRETS = (
    "sasl.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
)
"""Properties whose values are secrets: given by reference only."""

_DEFAULTS: Mapping[str, Any] = {
    "client.id": "weir",
    "socket.keepalive.enable": True,
    "reconnect.backoff.max.ms": 2000,
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 100,
    # When a full queue is looked at again; a second, the default, is longer than emptying it takes.
    "fetch.queue.backoff.ms": 20,
    "queued.max.messages.kbytes": 16384,
    # The reader counts and logs failures itself.
    "log_level": 2,
}

_OF_CONSUMERS = ("fetch.", "queued.", "isolation.")


@dataclass(frozen=True)
class ClientProperties:
    """What clients of the brokers are made with.

    Attributes:
      brokers: HOST:PORT, separated by commas.
      plain: name -> value, as the config has it.
      secrets: name -> where the value is.
      section: of the config that they are from, for messages.
    """

    brokers: str
    plain: tuple[tuple[str, Any], ...] = ()
    secrets: tuple[tuple[str, PropertyReference], ...] = ()
    section: str = "source.kafka"

    def read(self) -> dict[str, Any]:
        """All of them, with the secrets: for a client, and for nothing else.

        Raises:
          ConfigError: a secret cannot be read.
        """
        return {
            **_DEFAULTS,
            **dict(self.plain),
            **{
                name: reference.read(f"{self.section}.options.{name}")
                for name, reference in self.secrets
            },
            "bootstrap.servers": self.brokers,
        }

    def of_producer(self) -> dict[str, Any]:
        """As ``read``, for one that writes: without those of consumers, of which it warns.

        Raises:
          ConfigError: a secret cannot be read.
        """
        return {
            name: value for name, value in self.read().items() if not name.startswith(_OF_CONSUMERS)
        }


__all__ = ["SECRETS", "ClientProperties"]
