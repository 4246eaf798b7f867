"""What a server refuses for good ends the job with its cause, after a bounded wait."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions

from tests.transforms.pulls import Failure, reader, wire
from weir.dpcore.errors import WeirError
from weir.pipelines.runners.submitted import refusal_in
from weir.transforms.beam import publish as pubsub
from weir.transforms.beam.publish import Outgoing, Publish, PubSubTopic, publish
from weir.transforms.beam.pubsub.reader import Reader
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime.fence import Fence
from weir.transforms.runtime.pubsub_client import REFUSALS, Gone

CODES = {code: grpc.StatusCode[code] for code in REFUSALS}
PASSING = ("UNAVAILABLE", "INTERNAL", "UNKNOWN", "ABORTED", "CANCELLED", "RESOURCE_EXHAUSTED")


def pull(one: Reader, clock: list[float], seconds: float) -> float:
    """Asks for so long; returns the seconds that it took to fail."""
    began = clock[0]
    while clock[0] - began < seconds:
        one.take(0)
        clock[0] += max(one.pause, 0.5)
    return clock[0] - began


def failures(code: str, count: int = 1_000) -> list[Any]:
    return [Failure(grpc.StatusCode[code]) for _ in range(count)]


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_doubted_for_a_while_and_then_ends_the_job(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str
) -> None:
    asked: list[int] = []
    mine = Fence(fence.claim(str(tmp_path), "a"), stop=lambda: asked.append(1))
    one, _, clock, _ = reader(monkeypatch, failures(code), around=mine)
    counters.reset()
    with pytest.raises(Gone, match=rf"^s answers {code}, for {REFUSALS[code]:.0f} s by now: .+\.$"):
        pull(one, clock, 2 * REFUSALS[code] + 20)
    assert REFUSALS[code] <= clock[0] - 1_700_000_000 <= REFUSALS[code] + 10
    assert counters.snapshot()["source_errors"] > 1 and asked == [1]
    noted = fence.failure(mine.claims[0])
    assert noted is not None and noted.startswith(f"s answers {code}")
    assert noted == refusal_in(f"x\ntransforms.runtime.pubsub_client.Gone: {noted} [while ...]")


@pytest.mark.parametrize("code", PASSING)
def test_a_server_that_is_away_ends_no_job(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    one, _, clock, _ = reader(monkeypatch, failures(code))
    pull(one, clock, 3_000)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_that_passes_before_anything_was_read_ends_no_job(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """What has just been made, or granted, is not known to every server at once."""
    one, _, clock, _ = reader(monkeypatch, [*failures(code, 3), [wire("a")]])
    pull(one, clock, 100)


@pytest.mark.parametrize("code", [code for code in REFUSALS if code != "NOT_FOUND"])
def test_a_refusal_that_passes_later_ends_no_job(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    some = failures(code, 3)
    one, _, clock, _ = reader(monkeypatch, [[wire("a")], *some, [wire("b")], *some, []])
    pull(one, clock, 100)


def test_a_subscription_that_is_replaced_ends_the_job_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is there again within the bounded wait, and lacks what the old one held."""
    one, server, clock, _ = reader(
        monkeypatch, [[wire("a")], *failures("NOT_FOUND", 2), [wire("b")]]
    )
    assert one.take(0) is not None
    one.take(0)
    clock[0] += 1
    one.take(0)
    clock[0] += 1
    with pytest.raises(Gone, match="s answered NOT_FOUND, and is there again: it was replaced"):
        one.take(0)
    assert server.moved and server.moved[-1][1] == 0, "what it held is given back"


def test_an_answer_of_before_the_end_is_no_sign_of_another_subscription(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, _, clock, _ = reader(monkeypatch, [[wire("a")], None], probes=failures("NOT_FOUND", 1))
    assert one.take(0) is not None
    clock[0] += 1
    one.take(0)
    assert one._probe is not None and one._open is not None
    one.take(0)
    one._open.call.answer = [wire("b")]
    assert one.take(0) is not None


class Refusing:
    """A publisher whose topic is not there until it is."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.published = error, times, 0

    def publish(self, **_: Any) -> None:
        self.times -= 1
        if self.times >= 0:
            raise self.error
        self.published += 1


ERRORS = {
    "NOT_FOUND": exceptions.NotFound,
    "PERMISSION_DENIED": exceptions.PermissionDenied,
    "UNAUTHENTICATED": exceptions.Unauthenticated,
    "INVALID_ARGUMENT": exceptions.InvalidArgument,
    "FAILED_PRECONDITION": exceptions.FailedPrecondition,
    "UNIMPLEMENTED": exceptions.MethodNotImplemented,
}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that calls slept; nobody waits for them."""
    found: list[float] = []
    monkeypatch.setattr(pubsub.time, "sleep", found.append)
    monkeypatch.setattr(pubsub.time, "monotonic", lambda: sum(found))
    return found


@pytest.mark.parametrize("code", REFUSALS)
def test_a_topic_that_is_gone_ends_the_job_as_a_subscription_does(
    monkeypatch: pytest.MonkeyPatch, slept: list[float], code: str
) -> None:
    client = Refusing(ERRORS[code]("quoted content"), 3)
    publish(client, "t", [Outgoing(b"x", {})])
    assert client.published == 1 and len(slept) == 3, "a refusal that passes is waited for"
    monkeypatch.setattr(pubsub, "publisher", lambda host: Refusing(ERRORS[code]("quoted"), 10**6))
    asked: list[Fence] = []
    monkeypatch.setattr(Fence, "fail", lambda self, error: (_ for _ in ()).throw(error))
    step = Publish(PubSubTopic("t"), lambda _: iter([Outgoing(b"x", {})]), "n")
    step.setup()
    step.start_bundle()
    step.process(0)
    with pytest.raises(Gone, match=rf"^t answers {code}") as failed:
        step.finish_bundle()
    assert "quoted" not in str(failed.value) and not asked
    assert sum(slept) - 3 == pytest.approx(REFUSALS[code], abs=1.5)


def test_another_failure_of_a_topic_is_the_bundles(slept: list[float]) -> None:
    with pytest.raises(WeirError, match="ResourceExhausted") as failed:
        publish(Refusing(exceptions.ResourceExhausted("x"), 1), "t", [Outgoing(b"x", {})])
    assert not isinstance(failed.value, Gone) and not slept
