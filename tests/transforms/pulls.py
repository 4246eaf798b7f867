"""Doubles of a subscription: its server, and a reader whose questions get the given answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from weir.transforms.beam.pubsub.messages import Subscription
from weir.transforms.beam.pubsub.reader import Reader
from weir.transforms.runtime.fence import OPEN, Fence

S = 1_000_000
T0 = 1_700_000_000 * S


class Server:
    """What the parts call of a client; remembers it."""

    def __init__(self) -> None:
        self.acked: list[list[str]] = []
        self.moved: list[tuple[list[str], int]] = []
        self.away = False

    def acknowledge(self, subscription: str, ack_ids: list[str], **_: Any) -> None:
        self.acked.append(ack_ids)

    def modify_ack_deadline(
        self, subscription: str, ack_ids: list[str], ack_deadline_seconds: int, **_: Any
    ) -> None:
        if self.away:
            raise ConnectionError
        self.moved.append((ack_ids, ack_deadline_seconds))


class Call:
    """A future of an answer: a list of messages, an error, or nothing yet."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.gone = False

    def result(self, timeout: float = 0) -> Any:
        if self.answer is None:
            raise grpc.FutureTimeoutError
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(received_messages=self.answer)

    def exception(self) -> Any:
        return self.answer if isinstance(self.answer, Exception) else None

    def cancelled(self) -> bool:
        return self.gone

    def done(self) -> bool:
        return self.answer is not None

    def cancel(self) -> bool:
        self.gone = self.answer is None
        return self.gone

    def add_done_callback(self, callback: Any) -> None:
        if self.answer is not None:
            callback(self)


class Failure(grpc.RpcError, grpc.Call):  # type: ignore[misc]
    """An error of the wire."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def _unused(self, *_: Any) -> Any:
        return None

    details = initial_metadata = trailing_metadata = is_active = time_remaining = _unused
    cancel = add_callback = _unused


Failure.__abstractmethods__ = frozenset()


def wire(name: str, data: bytes = b"x", at: int = T0, **attributes: str) -> Any:
    publish_time = SimpleNamespace(seconds=at // S, nanos=at % S * 1000)
    message = SimpleNamespace(
        message_id=f"id-{name}", data=data, attributes=attributes, publish_time=publish_time
    )
    return SimpleNamespace(ack_id=name, message=message)


def reader(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], **options: Any
) -> tuple[Reader, Server, list[float], list[int]]:
    server, clock, asked = Server(), [T0 / S], []
    queue, probes = list(answers), list(options.pop("probes", []))
    around: Fence = options.pop("around", OPEN)

    def ask(_: str, count: int, at_once: bool) -> Call:
        if at_once:
            return Call(probes.pop(0) if probes else None)
        asked.append(count)
        return Call(queue.pop(0) if queue else None)

    monkeypatch.setattr("weir.transforms.beam.pubsub.reader.pull_call", lambda client: ask)
    source = Subscription("s", **options)
    one = Reader(source, fence=around, client=server, now=lambda: clock[0])
    one.leases._closed.set()
    one.begin(0)
    return one, server, clock, asked
