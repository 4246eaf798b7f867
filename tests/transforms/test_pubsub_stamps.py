"""Arrival stamps of senders are bounded by publish times, and no stamp moves the watermark."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from weir.transforms.beam.pubsub import read as dataflow
from weir.transforms.beam.pubsub.messages import (
    STAMPS_AHEAD,
    STAMPS_BEHIND,
    Message,
    MessageDecoder,
    Subscription,
    read_stamp,
)
from weir.transforms.beam.pubsub.watermark import Frontier
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.decode.time import FIRST, LAST
from weir.transforms.formats.ndjson import Ndjson
from weir.transforms.runtime import counters
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

S = 1_000_000
T0 = 1_700_000_000 * S
SCHEMA = EventSchema.build(Stamp("at"), arrival=Stamp("seen", field="schema.arrival"))
MOMENTS = st.one_of(
    st.integers(T0 - 200 * S, T0 + 200 * S), st.sampled_from([0, -1, FIRST, LAST, T0 - 2 * S])
)
JUNK = st.one_of(st.text(max_size=30), st.sampled_from(["NaN", "inf", "-", "--5", "²", "9" * 5000]))
STREAMS = st.sampled_from(
    [PRESENT, StreamTime(5 * S, T0, 24.0), StreamTime(0, T0 + S, 0.5), StreamTime(0, T0, 1e6)]
)
LIMITS = st.sampled_from([0, 1, 2 * S, 3_600 * S, 1 << 61])


def iso(micros: int) -> str:
    return f"{np.datetime64(micros, 'us')}Z"


def stamp_of(moment: int) -> str:
    """As senders write it in an attribute."""
    return str(moment // 1000)


@given(
    claim=st.one_of(MOMENTS.map(stamp_of), MOMENTS.map(iso), JUNK, st.none()),
    wall=st.integers(T0 - 50 * S, T0 + 50 * S),
    behind=LIMITS,
    ahead=LIMITS,
    stream=STREAMS,
)
def test_an_attribute_counts_within_its_bounds_alone(
    claim: str | None, wall: int, behind: int, ahead: int, stream: StreamTime
) -> None:
    source = Subscription("s", timestamp="sent", behind=behind, ahead=ahead, stream=stream)
    counters.reset()
    message = source.message("1", b"", {} if claim is None else {"sent": claim}, wall)
    assert FIRST <= message.first <= message.arrival <= message.last <= LAST
    read = read_stamp(claim)
    published = min(max(stream.at(wall), FIRST), LAST)
    assert message.first <= published <= message.last
    bounds = (wall - behind, wall + ahead) if stream == PRESENT else (FIRST, LAST)
    assert (message.first, message.last) == (max(bounds[0], FIRST), min(bounds[1], LAST))
    if read is None:
        assert message.arrival == published and not counters.snapshot()
    else:
        assert message.arrival == min(max(read, message.first), message.last)
        outside = {STAMPS_BEHIND: int(read < message.first), STAMPS_AHEAD: int(read > message.last)}
        assert counters.snapshot() == {name: n for name, n in outside.items() if n}
    unread = Subscription("s", behind=behind, ahead=ahead, stream=stream)
    assert unread.message("1", b"", {"sent": str(claim)}, wall).arrival == published


CLAIMS = st.one_of(
    MOMENTS.map(iso),
    st.none(),
    st.floats(),
    st.booleans(),
    st.integers(),
    JUNK,
    st.just([1]),
    st.just({"a": 1}),
)


@pytest.mark.slow
@given(
    claims=st.lists(CLAIMS, min_size=1, max_size=6),
    walls=st.lists(st.integers(T0, T0 + 10 * S), min_size=6, max_size=6),
    together=st.booleans(),
)
def test_a_declared_arrival_counts_within_the_bounds_of_its_message(
    claims: list[Any], walls: list[int], together: bool
) -> None:
    """Whatever else is pulled with it."""
    source = Subscription("s", behind=2 * S, ahead=10 * S)
    lines = [json.dumps({"at": iso(T0), "seen": claim}).encode() for claim in claims]
    messages = [
        source.message(str(i), line, {}, wall)
        for i, (line, wall) in enumerate(zip(lines, walls, strict=False))
    ]
    decoder = MessageDecoder("ndjson", SCHEMA, "s")
    pulls = [messages] if together else [[message] for message in messages]
    counters.reset()
    rows = [
        row
        for pull in pulls
        for events, _, _ in decoder.decode(pull)
        if events is not None
        for row in events.set_column(
            events.schema.get_field_index("@arrival"),
            "@arrival",
            events.column("@arrival").view(pa.int64()),
        ).to_pylist()
    ]
    found = {row["@source"]: row["@arrival"] for row in rows}
    assert len(found) == len(messages), "a bad stamp loses no event"
    outside = {STAMPS_BEHIND: 0, STAMPS_AHEAD: 0}
    for message, claim in zip(messages, claims, strict=True):
        arrival = found[f"s#{message.id}"]
        assert message.first <= arrival <= message.last
        alone = MessageDecoder("ndjson", SCHEMA, "s").decode(
            [message._replace(first=FIRST, last=LAST)]
        )
        (said,) = [e.column("@arrival").view(pa.int64())[0].as_py() for e, _, _ in alone if e]
        assert arrival == min(max(said, message.first), message.last)
        outside[STAMPS_BEHIND] += said < message.first
        outside[STAMPS_AHEAD] += said > message.last
        if claim is None:
            assert arrival == message.arrival
    told = counters.snapshot()
    assert {name: told.get(name, 0) for name in outside} == outside


def test_a_pull_that_is_read_twice_counts_its_stamps_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where reading all lines together fails in the middle, each message is read by itself."""
    decoder = MessageDecoder("ndjson", SCHEMA, "s")
    read, told = (
        Ndjson._decode_all,
        [json.dumps({"at": iso(T0), "seen": "1970-01-01"}).encode()] * 3,
    )

    def broken(*words: Any) -> Any:
        yield from read(*words)
        raise MemoryError

    monkeypatch.setattr(Ndjson, "_decode_all", broken)
    monkeypatch.setattr(
        Ndjson,
        "decode_bytes",
        lambda self, data, schema, source: read(self, data, schema, source),
    )
    counters.reset()
    source = Subscription("s", behind=S)
    decoder.decode([source.message(str(i), line, {}, T0) for i, line in enumerate(told)])
    assert counters.snapshot()[STAMPS_BEHIND] == 3


Published = tuple[int, int, Any]
"""Wall time of a publication, microseconds until it is pulled, and what it says of its arrival."""


def run(
    sent: list[Published], source: Subscription, look: Callable[[Message, int | None], None]
) -> list[int | None]:
    """Frontiers of a reader at every tenth of a second. ``look`` sees each message as it is pulled,
    with the frontier before it."""
    frontier = Frontier(source.earliest, source.slack, 0, T0)
    left = sorted(sent, key=lambda one: one[0] + one[1])
    found: list[int | None] = []
    at: int | None = None
    for wall in range(T0, T0 + 12 * S, S // 10):
        pulled = [one for one in left if one[0] + one[1] <= wall]
        left = left[len(pulled) :]
        messages = [source.message("1", b"", {"sent": str(one[2])}, one[0]) for one in pulled]
        for message in messages:
            look(message, at)
        if messages:
            first = source.earliest.at(min(published for published, *_ in pulled))
            frontier.answered(wall, first, False)
        else:
            frontier.silent(wall)
        at = frontier.at(wall)
        found.append(at)
    return found


SENT = st.lists(
    st.tuples(
        st.integers(T0, T0 + 10 * S),
        st.integers(0, S // 2),
        st.one_of(MOMENTS.map(stamp_of), JUNK),
        st.one_of(MOMENTS.map(stamp_of), JUNK),
    ),
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=200)
@given(
    sent=SENT,
    behind=st.sampled_from([0, S, 3 * S]),
    ahead=st.sampled_from([0, S, 100 * S]),
    stream=st.sampled_from([PRESENT, StreamTime(5 * S, T0, 24.0)]),
)
def test_no_stamp_holds_the_frontier_nor_moves_it_on_and_none_comes_behind_it(
    sent: list[tuple[int, int, str, str]], behind: int, ahead: int, stream: StreamTime
) -> None:
    source = Subscription(
        "s", slack=S // 2, timestamp="sent", behind=behind, ahead=ahead, stream=stream
    )

    def look(message: Message, at: int | None) -> None:
        bounded = stream == PRESENT  # a replay takes stamps as they are
        assert at is None or not bounded or message.arrival >= at, "pulled in time, and behind"

    one = run([(wall, wait, claim) for wall, wait, claim, _ in sent], source, look)
    other = run([(wall, wait, claim) for wall, wait, _, claim in sent], source, look)
    assert one == other, "what messages say is seen in the watermark"
    last = one[-1]
    assert last is not None and last >= source.earliest.at(T0 + 12 * S - 2 * S)


def test_on_dataflow_the_service_is_not_told_of_stamps_and_they_are_bounded_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("apache_beam.io.gcp.pubsub.ReadFromPubSub", lambda **o: given.update(o))
    decoder = MessageDecoder("ndjson", EventSchema.build(Stamp("at")), "s")
    source = Subscription("s", timestamp="sent", behind=2 * S, ahead=S)
    with pytest.raises(TypeError):  # the double is no transform
        dataflow.ReadNative(source, decoder, None).expand(SimpleNamespace())
    assert given.get("timestamp_attribute") is None and given["with_attributes"]
    bundle = dataflow.DecodeBundle(source, decoder)
    line = json.dumps({"at": iso(T0)}).encode()
    moment = SimpleNamespace(timestamp=lambda: T0 / S)
    for sent in ("0", stamp_of(T0 - S), "9999-01-01T00:00:00Z", "junk"):
        list(
            bundle.process(
                SimpleNamespace(
                    message_id=sent, data=line, attributes={"sent": sent}, publish_time=moment
                ),
                Timestamp(micros=T0),
            )
        )
    arrivals = [message.arrival - T0 for message in bundle._held]
    assert arrivals == [-2 * S, -S, S, 0]
