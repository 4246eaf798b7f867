"""One reader of a subscription: always one question on its way, its answers kept until safe.

Readers live in the worker process, not in a DoFn: a runner makes and drops DoFns as it likes, but
between two turns of a reader in the same process nothing has been lost. A turn that does not follow
the last one here means that the job started, or went back to a checkpoint: what was sent on since
then comes again, so it is given back and the watermark is held for one ack deadline.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from transforms import tally
from transforms.decode_messages import Message
from transforms.pubsub_client import subscriber
from transforms.pubsub_frontier import Frontier
from transforms.pubsub_lease import Leases
from transforms.stream_time import PRESENT, StreamTime

MESSAGES = 1_000
"""Messages of one answer, at most: what the server allows."""
BYTES = 16 << 20
"""Bytes of one answer, about, at most."""
QUESTION = 30.0
"""Seconds that a question waits for its first message."""
LONGEST_PAUSE = 5.0
"""Seconds between questions while the server is away, at most."""

_log = logging.getLogger("weir.pubsub")


@dataclass(frozen=True)
class Subscription:
    """What to read, and how.

    Attributes:
      name: projects/P/subscriptions/S.
      ack_seconds: its ack deadline.
      slack: microseconds until a published message can be pulled, at most.
      timestamp: attribute that says when a message arrived, in place of its publish time: RFC 3339,
        or milliseconds since 1970.
      stream: what wall time stands for. host: an emulator; None is Google's.
    """

    name: str
    ack_seconds: int = 10
    slack: int = 500_000
    timestamp: str | None = None
    stream: StreamTime = PRESENT
    host: str | None = None


class Pulled(NamedTuple):
    """One answer.

    Attributes:
      messages: what it holds. ids: their ack ids. full: as many as were asked for.
    """

    messages: list[Message]
    ids: list[str]
    full: bool


class Reader:
    """See above.

    Args:
      subscription: what to read.
      client: a SubscriberClient, for tests. now: wall seconds since 1970, for tests.
    """

    def __init__(
        self,
        subscription: Subscription,
        client: Any = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._from, self._now = subscription, now
        self._client = client or subscriber(subscription.host)
        self.leases = Leases(self._client, subscription.name, subscription.ack_seconds)
        self.frontier = self._new_frontier()
        self._ask_server = pull_call(self._client)
        self._call: Any = None
        self._asked = (0, 0)
        self._next_turn: int | None = None
        self._mean = BYTES / MESSAGES
        self._failures = 0
        self._closed = False

    def _new_frontier(self) -> Frontier:
        hold = self._from.ack_seconds * 1_000_000
        return Frontier(self._from.stream, self._from.slack, hold, self.wall())

    def wall(self) -> int:
        """Microseconds since 1970."""
        return int(self._now() * 1e6)

    def begin(self, turn: int) -> None:
        """A turn begins; one that is not the next is a start."""
        if turn != self._next_turn:
            self.leases.give_back()
            self.frontier = self._new_frontier()
        self._next_turn = turn + 1

    def take(self, wait: float) -> Pulled | None:
        """The next answer, or None if there was none within ``wait`` seconds."""
        import grpc

        if self._call is None:
            self._ask()
        wall = self.wall()
        asked, count = self._asked
        try:
            answer = self._call.result(timeout=wait)
        except grpc.FutureTimeoutError:
            self.frontier.silent(wall, asked)
            return None
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            self._call = None
            self._note_failure(error, wall, asked)
            return None
        self._call, self._failures = None, 0
        found = answer.received_messages
        if not found:
            self.frontier.silent(wall, asked)
            self._ask()
            return None
        messages = [self._message(one.message) for one in found]
        size = sum(len(message.data) for message in messages)
        self._mean = max(1.0, (self._mean + size / len(messages)) / 2)
        self._ask()
        tally.add("messages", len(messages))
        tally.add("bytes", size)
        return Pulled(messages, [one.ack_id for one in found], len(found) >= count)

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn: longer while the server is away."""
        if self._failures:
            return float(min(LONGEST_PAUSE, 0.1 * 2 ** min(self._failures, 10)))
        return 0.05

    def close(self) -> None:
        """Reads no more: what nobody took is given back, what was sent on may be acknowledged."""
        self._closed = True
        call, self._call = self._call, None
        if call is not None and not call.cancel() and call.exception() is None:
            self.leases.give_back([one.ack_id for one in call.result().received_messages])
        self.leases.close()

    def _ask(self) -> None:
        count = min(MESSAGES, max(1, round(BYTES / self._mean)))
        self._asked = self.wall(), count
        self._call = self._ask_server(self._from.name, count)
        self._call.add_done_callback(self._hold)

    def _hold(self, call: Any) -> None:
        """As soon as they are here: a turn may be long in coming."""
        if call.cancelled() or call.exception() is not None:
            return
        ids = [one.ack_id for one in call.result().received_messages]
        if ids and not self._closed:
            self.leases.hold(ids)

    def _note_failure(self, error: Any, wall: int, asked: int) -> None:
        import grpc

        code = error.code() if isinstance(error, grpc.Call) else None
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:  # it waited, and nothing came
            self.frontier.silent(wall, asked)
            return
        self._failures += 1
        self.frontier.failed(wall)
        tally.add("source_errors")
        name = "UNKNOWN" if code is None else code.name
        if self._failures & (self._failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...
            _log.warning("%s cannot be read (%s); trying on", self._from.name, name)

    def _message(self, message: Any) -> Message:
        stamp = None
        if self._from.timestamp is not None:
            stamp = read_stamp(message.attributes.get(self._from.timestamp))
        if stamp is None:
            published = message.publish_time
            stamp = self._from.stream.at(published.seconds * 1_000_000 + published.nanos // 1000)
        return Message(message.message_id, message.data, stamp)


def read_stamp(text: str | None) -> int | None:
    """RFC 3339, or milliseconds since 1970 -> microseconds since 1970; None if it is neither."""
    if not text:
        return None
    try:
        if text.lstrip("-").isdigit():
            found = int(text) * 1000
        else:
            moment = datetime.fromisoformat(text)
            found = None if moment.tzinfo is None else int(moment.timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None
    return found if found is not None and abs(found) < 1 << 58 else None


def pull_call(client: Any) -> Callable[[str, int], Any]:
    """A function (subscription, count) -> future of an answer, as plain protocol messages."""
    from google.pubsub_v1.types import PullRequest, PullResponse

    pull = client.transport.grpc_channel.unary_unary(
        "/google.pubsub.v1.Subscriber/Pull",
        request_serializer=PullRequest.serialize,
        response_deserializer=PullResponse.pb().FromString,
    )

    def ask(subscription: str, count: int) -> Any:
        request = PullRequest(subscription=subscription, max_messages=count)
        route = (("x-goog-request-params", f"subscription={subscription}"),)
        return pull.future(request, timeout=QUESTION, metadata=route)

    return ask


class _Shelf:
    """Readers of this process, by run and number, each with its users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[tuple[str, int], Reader] = {}
        self._users: dict[str, int] = {}

    def join(self, run: str) -> None:
        """A DoFn of a run is set up."""
        with self._lock:
            self._users[run] = self._users.get(run, 0) + 1

    def leave(self, run: str) -> None:
        """A DoFn of a run is gone; with the last one its readers close."""
        with self._lock:
            self._users[run] -= 1
            if self._users[run]:
                return
            del self._users[run]
            closing = [self._readers.pop(key) for key in list(self._readers) if key[0] == run]
        for reader in closing:
            reader.close()

    def reader(self, run: str, number: int, subscription: Subscription) -> Reader:
        """The reader of a run with this number; made if this process has none."""
        with self._lock:
            found = self._readers.get((run, number))
            if found is None:
                found = self._readers[run, number] = Reader(subscription)
            return found


SHELF = _Shelf()
