"""A Pub/Sub server of one's own, for trying and testing: the real protocol, messages in memory.

``PUBSUB_EMULATOR_HOST`` points every Google client at it. Messages last as long as the server.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64decode
from dataclasses import dataclass
from typing import Any

from weir.pipelines.engines import pubsub_build
from weir.pipelines.engines.processes import EngineFailed, Process
from weir.pipelines.engines.workplace import Workplace

READY = 20.0
"""Seconds in which it must listen."""


@dataclass(frozen=True)
class PubSubMessage:
    """A published message and what became of it.

    Attributes:
      deliveries: how often a subscriber got it. acks: how often one acknowledged it.
      published: time of publishing, RFC 3339.
    """

    id: str
    topic: str
    data: bytes
    attributes: dict[str, str]
    key: str
    published: str
    deliveries: int
    acks: int
    modacks: int


class PubSubServer:
    """A server on this machine; a context manager, started on entry and stopped on exit.

    Args:
      port: of the protocol; 0 chooses a free one.
      admin_port: of the admin pages; 0 chooses a free one.
    """

    def __init__(self, port: int = 0, admin_port: int = 0) -> None:
        self._ports = (port, admin_port)
        self._process: Process | None = None
        self._workplace: Workplace | None = None
        self.host = ""
        """HOST:PORT, for ``PUBSUB_EMULATOR_HOST``."""
        self.admin = ""
        """Base address of the admin pages."""

    def start(self) -> PubSubServer:
        """Starts it and returns when it listens.

        Raises:
          EngineMissing: it is not in the cache.
          EngineFailed: it did not listen in time, or a port is taken.
        """
        if self._process is not None:
            return self
        binary = pubsub_build.binary()
        self._workplace = Workplace("weir-pubsub-")
        log = self._workplace.folder / "server.log"
        port, admin = self._ports
        self._process = Process(
            "the Pub/Sub server", [str(binary), "-port", str(port), "-admin", str(admin)], log
        )

        def listening() -> dict[str, str] | None:
            first, end, _ = log.read_text(errors="replace").partition("\n")
            return json.loads(first) if end and first.startswith("{") else None

        try:
            places = self._process.wait_until(listening, READY, "listening")
        except EngineFailed:
            self.stop()
            raise
        self.host, self.admin = places["host"], f"http://{places['admin']}"
        return self

    def stop(self) -> None:
        """Ends it; its messages are gone."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._workplace is not None:
            self._workplace.remove()
            self._workplace = None

    def kill(self) -> None:
        """SIGKILL; its messages are gone."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def down(self) -> None:
        """Closes every connection and refuses new ones, as when a network fails; messages stay."""
        self._ask("/down", post=True)

    def up(self) -> None:
        """Serves again on the same port."""
        self._ask("/up", post=True)

    def clear(self) -> None:
        """Forgets every message; topics and subscriptions stay."""
        self._ask("/clear", post=True)

    def counts(self, topic: str | None = None) -> dict[str, int]:
        """messages, deliveries, acks, and unacked (messages never acknowledged)."""
        found: dict[str, int] = json.loads(self._ask("/counts" + _query(topic)))
        return found

    def messages(self, topic: str | None = None) -> list[PubSubMessage]:
        """Every message in order of publishing. ``topic``: in full, or its last part."""
        lines = self._ask("/messages" + _query(topic)).splitlines()
        return [_message(json.loads(line)) for line in lines]

    def __enter__(self) -> PubSubServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ask(self, path: str, post: bool = False) -> str:
        request = urllib.request.Request(self.admin + path, method="POST" if post else "GET")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, ValueError, OSError) as error:
            raise EngineFailed(f"the Pub/Sub server does not answer {path}: {error}") from None


def _query(topic: str | None) -> str:
    return "" if topic is None else f"?topic={topic}"


def _message(fields: dict[str, Any]) -> PubSubMessage:
    return PubSubMessage(
        **{
            **fields,
            "data": b64decode(fields["data"] or ""),
            "attributes": fields["attributes"] or {},
        }
    )
