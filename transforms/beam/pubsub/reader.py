"""One reader of a subscription: always one question on its way, its answers kept until safe.

The question waits at the server for its first message. While it waits, short ones that do not wait
are sent next to it: only their answers tell a silent stream from a slow server.

Readers live in the worker process, not in a DoFn: a runner makes and drops DoFns as it likes, but
between two turns of a reader in the same process nothing has been lost. A turn that does not follow
the last one here means that the job started, or went back to a checkpoint: what was sent on since
then comes again, so it is given back and the watermark is held for one ack deadline, or for less
where it is known since when nobody has pulled.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from weir.transforms.beam.pubsub.leases import MOVED, Confirmations, Leases
from weir.transforms.beam.pubsub.messages import Message, Subscription
from weir.transforms.beam.pubsub.watermark import Frontier, SteadyTime
from weir.transforms.runtime import counters
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.acked import Acknowledged, Outdated, ReadTurn
from weir.transforms.runtime.fence import OPEN, Fatal, Fence
from weir.transforms.runtime.pubsub_client import REFUSALS, Gone, gone, replaced, subscriber
from weir.transforms.runtime.pull_notes import PullNotes

MESSAGES = 1_000
"""Messages of one answer, at most: what the server allows."""
BYTES = 8 << 20
"""Bytes of one answer, about, at most: Pub/Sub's own answers hold 10 MB."""
FIRST = 100
"""Messages of the first answer: how large they are is not known yet."""
QUESTION = 20.0
"""Seconds that a question waits for its first message."""
PROBE = 0.1
"""Seconds that a question waits before a short one goes next to it, and between short ones."""
LONGEST_PAUSE = 5.0
"""Seconds between questions while the server is away, at most."""

_log = logging.getLogger("weir.pubsub")


class Pulled(NamedTuple):
    """One answer.

    Attributes:
      messages: what it holds. ids: their ack ids. full: as many as were asked for.
      first: the earliest arrival that one of them may bear, microseconds in stream time.
    """

    messages: list[Message]
    ids: list[str]
    full: bool
    first: int


@dataclass
class Question:
    """A call to the server.

    Attributes:
      call: future of the answer. asked: wall time, microseconds. count: messages asked for.
      done: its answer was taken.
    """

    call: Any
    asked: int
    count: int
    done: bool = False


class Reader:
    """See above.

    Args:
      subscription: what to read.
      later: whether to believe a bundle safe one checkpoint later than the runner says.
      number: of this reader. fence: around its job.
      client: a SubscriberClient, for tests. now: wall seconds since 1970, for tests; else those
        that no step of the machine's clock moves on.
    """

    def __init__(
        self,
        subscription: Subscription,
        later: bool = False,
        number: int = 0,
        fence: Fence = OPEN,
        client: Any = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._from, self._steady = subscription, SteadyTime()
        self._now = now or self._steady
        self._fence, folder = fence, fence.reachable
        self._noted = None if folder is None else Acknowledged(folder, subscription.name, number)
        self._pulls = PullNotes(fence, subscription.name, number)
        self._client = client or subscriber(subscription.host)
        self.leases = Leases(
            self._client, subscription.name, subscription.ack_seconds, self._may_extend
        )
        self.confirmations = Confirmations(self._acknowledge, later)
        self.frontier = self._new_frontier()
        self._ask_server = pull_call(self._client)
        self._open: Question | None = None
        self._probe: Question | None = None
        self._next_probe = 0
        self._next_turn: int | None = None
        self._mean = BYTES / FIRST
        self._failures = 0
        self._refused_since: int | None = None
        self._was_there = False
        self._vanished_at: int | None = None
        self._closed = threading.Event()

    def _new_frontier(self, before: int | None = None) -> Frontier:
        hold = self._from.ack_seconds * 1_000_000
        return Frontier(self._from.earliest, self._from.slack, hold, self.wall(), before)

    def wall(self) -> int:
        """Microseconds since 1970."""
        return int(self._now() * 1e6)

    def begin(self, turn: int) -> None:
        """A turn begins; one that is not the next is a start.

        Raises:
          Outdated: the job went back further than it may. Fenced: a newer job has taken over.
          Removed: the folder of the state or of the releases is gone.
        """
        try:
            self._fence.look()
        except Fatal:
            self.leases.give_back()
            raise
        if turn != self._next_turn:
            if self._noted is not None:
                try:
                    self._noted.check(turn)
                except Outdated as outdated:
                    self._fence.fail(outdated)
                self._fence.goes_on()
            self.confirmations.restart()
            self.leases.give_back()
            self.frontier = self._new_frontier(self._pulls.before())
        self._next_turn = turn + 1

    def _acknowledge(self, ids: Sequence[str], turn: ReadTurn) -> None:
        """Notes first, then looks whether a newer job has taken over: who takes over claims first,
        then reads the note. So it knows what was acknowledged, or nothing is."""
        if self._noted is not None:
            self._noted.note(turn)
        try:
            self._fence.check()
        except Fatal:
            return  # the next turn says so; the messages come again, to anyone who goes on
        kept_counts.flush(self._fence)
        self.leases.acknowledge(ids)

    def take(self, wait: float) -> Pulled | None:
        """The next answer, or None if there was none within ``wait`` seconds, or it is closed.

        Raises:
          Gone: the server refuses, and has done so for as long as that is doubted.
        """
        if self._closed.is_set() or not self._may_ask(wait):
            return None
        question, probe = self._open, self._probe
        if question is None:
            question = self._open = self._ask(False)
        if probe is not None and probe.call.done():
            self._probe = None
            # What the open question got by now is older than what the short one did not get.
            pulled = self._answer(probe, 0.0, says_silence=not question.call.done())
            if pulled is not None:
                return pulled
        pulled = self._answer(question, wait)
        if self._closed.is_set():  # by another thread, while this one waited
            return pulled
        if question.done:
            self._next_probe = self.wall() + int(PROBE * 1e6)
            self._open = None if self._failures else self._ask(False)
        elif self._probe is None and self.wall() >= self._next_probe:
            self._next_probe = self.wall() + int(PROBE * 1e6)
            self._probe = self._ask(True)
        return pulled

    def reached(self) -> int | None:
        """The frontier, but not past what a short question may be bringing."""
        cap, probe = None, self._probe
        if probe is not None and not _brought_nothing(probe.call):
            cap = self._from.earliest.at(probe.asked - self._from.slack)
        return self.frontier.at(self.wall(), cap)

    def _answer(self, question: Question, wait: float, says_silence: bool = True) -> Pulled | None:
        """What a question brought; None if nothing yet, or nothing at all (then it is done)."""
        import grpc

        try:
            answer = question.call.result(timeout=wait)
        except grpc.FutureTimeoutError:
            return None
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            question.done = True
            if not self._closed.is_set():
                self._note_failure(error)
            return None
        question.done, self._failures, self._refused_since = True, 0, None
        self._was_there = True
        if self._vanished_at is not None and question.asked > self._vanished_at:
            self._fail(replaced(self._from.name))
        result = answer.received_messages
        if not result:
            if says_silence:
                self.frontier.silent(question.asked)
            return None
        messages = [self._message(item.message) for item in result]
        size = sum(len(message.data) for message in messages)
        self._mean = max(1.0, (self._mean + size / len(messages)) / 2)
        counters.add("messages", len(messages))
        counters.add("bytes", size)
        ids, full = [item.ack_id for item in result], len(result) >= question.count
        first = min(_published(item.message) for item in result)
        return Pulled(messages, ids, full, self._from.earliest.at(first))

    @property
    def is_well(self) -> bool:
        """Whether the last answer was one, and more are asked for."""
        return not self._failures and not self._closed.is_set()

    @property
    def pause(self) -> float:
        """Seconds to wait before the next turn: longer while the server is away."""
        if self._failures:
            return float(min(LONGEST_PAUSE, 0.1 * 2 ** min(self._failures, 10)))
        return 0.05

    def close(self) -> None:
        """Reads no more: what nobody took is given back, what was sent on may be acknowledged."""
        self._closed.set()
        for question in (self._open, self._probe):
            if question is None or question.done or question.call.cancel():
                continue
            if question.call.exception() is None:
                result = question.call.result().received_messages
                self.leases.give_back([item.ack_id for item in result])
        self._open = self._probe = None
        self.leases.close()

    def _may_ask(self, wait: float) -> bool:
        """Whether it is noted that a question asked within ``wait`` seconds may be answered."""
        try:
            self._pulls.covers(self.wall() + int((wait + QUESTION) * 1e6))
        except Fatal:
            self.leases.give_back()
            raise
        except OSError as error:
            self._fails(f"is not read, as that cannot be noted ({type(error).__name__})")
            return False
        return True

    def _may_extend(self) -> bool:
        """Whether deadlines may be moved on now: not once a newer job has taken over.

        They are where it cannot be noted: else what is held would come again for sure.
        """
        try:
            self._pulls.covers(self.wall() + int(MOVED * 1e6))
        except Fatal:
            return False
        except OSError:
            pass
        return True

    def _fails(self, why: str) -> None:
        """One more turn without an answer."""
        self._failures += 1
        counters.add("source_errors")
        if self._failures & (self._failures - 1) == 0:  # the 1st, 2nd, 4th, 8th ...
            _log.warning("%s %s; trying on", self._from.name, why)

    def _ask(self, at_once: bool) -> Question:
        count = min(MESSAGES, max(1, round(BYTES / self._mean)))
        asked = self.wall()
        question = Question(self._ask_server(self._from.name, count, at_once), asked, count)
        question.call.add_done_callback(self._hold)
        return question

    def _hold(self, call: Any) -> None:
        """As soon as they are here: a turn may be long in coming."""
        if call.cancelled() or call.exception() is not None:
            return
        ids = [message.ack_id for message in call.result().received_messages]
        if ids and not self._closed.is_set():
            self.leases.hold(ids)

    def _note_failure(self, error: Any) -> None:
        import grpc

        code = error.code() if isinstance(error, grpc.Call) else None
        if code == grpc.StatusCode.DEADLINE_EXCEEDED:  # it waited, and nothing came
            return
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:  # an answer too large, or too many of them
            self._mean *= 2
        self.frontier.failed(self.wall())
        name = "UNKNOWN" if code is None else code.name
        self._fails(f"cannot be read ({name})")
        if name in REFUSALS:
            self._refuse(name)

    def _refuse(self, code: str) -> None:
        """An answer that no other try will change, if it stands for long enough."""
        if self._was_there and code == "NOT_FOUND":
            self._vanished_at = self.wall()
        if self._refused_since is None:
            self._refused_since = self.wall()
        if self.wall() - self._refused_since >= REFUSALS[code] * 1e6:
            self._fail(gone(self._from.name, code))

    def _fail(self, error: Gone) -> NoReturn:
        self.leases.give_back()
        kept_counts.flush(self._fence)
        self._fence.fail(error)

    def _message(self, message: Any) -> Message:
        wall = _published(message)
        self._steady.prove(wall / 1e6)
        return self._from.message(message.message_id, message.data, message.attributes, wall)


def _published(message: Any) -> int:
    """When, by the server's clock, microseconds since 1970."""
    at = message.publish_time
    return int(at.seconds) * 1_000_000 + int(at.nanos) // 1000


def _brought_nothing(call: Any) -> bool:
    """Whether a call is done and what it says holds no message, anyone who takes it later."""
    if not call.done() or call.cancelled() or call.exception() is not None:
        return False
    return not call.result().received_messages


def pull_call(client: Any) -> Callable[[str, int, bool], Any]:
    """(subscription, count, at once) -> future of an answer, as plain protocol messages."""
    from google.pubsub_v1.types import PullRequest, PullResponse

    pull = client.transport.grpc_channel.unary_unary(
        "/google.pubsub.v1.Subscriber/Pull",
        request_serializer=PullRequest.serialize,
        response_deserializer=PullResponse.pb().FromString,
    )

    def ask(subscription: str, count: int, at_once: bool) -> Any:
        request = PullRequest(
            subscription=subscription, max_messages=count, return_immediately=at_once
        )
        route = (("x-goog-request-params", f"subscription={subscription}"),)
        return pull.future(request, timeout=QUESTION, metadata=route)

    return ask
