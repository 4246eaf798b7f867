"""A record of Kafka is read alone: whatever its producer puts in its place, the others stay as they
are, and so do the offsets that are claimed and the watermark."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts import alone_cells
from tests.contracts.test_alone import _by_place
from tests.transforms.kafka_double import T0, Cluster, S, Tracker, Watermark
from tests.transforms.schema_registry import registry
from tests.transforms.test_kafka_values import framed
from weir.dpcore.leaves.clock import Clock
from weir.transforms.beam.kafka import source
from weir.transforms.beam.kafka.position import TopicPosition
from weir.transforms.beam.kafka.reader import BY_BROKER, BY_PRODUCER
from weir.transforms.beam.pubsub.messages import MessageDecoder
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.schema import EventSchema, Stamp
from weir.transforms.runtime.dead_letters import DEAD
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.registry import SchemaRegistry
from weir.transforms.sources.kafka.topic import KafkaTopic
from weir.transforms.sources.kafka.values import ConfluentAvro

EXAMPLES = int(os.environ.get("ALONE_EXAMPLES", "60"))
AHEAD = 60 * S


def read(
    records: Sequence[Any], kind: int, schema: EventSchema, form: str, values: Any = None
) -> tuple[Any, ...]:
    """What becomes of records (value, stamp): by place; and position and watermark after it."""
    cluster = Cluster(2)
    for at, (value, stamp) in enumerate(records):
        # A producer chooses its stamp; a broker's is its own.
        cluster.append(value, at % 2, stamp if kind == BY_PRODUCER else T0 - 90 * S + at * S, kind)
    for partition in (0, 1):  # an open transaction, so that no end is reached
        cluster.stable[partition] = cluster.ends[partition]
        cluster.append(b"open", partition, T0 - 10 * S)
    reader = cluster.reader(ahead=AHEAD, values=values)
    topic, clock = (
        KafkaTopic("t", ClientProperties("b:1"), ahead=AHEAD),
        Clock(T0 - 100 * S, S // 2),
    )
    decoder = MessageDecoder(form, schema, "t")
    tracker, watermark = Tracker(TopicPosition()), Watermark()
    outputs: list[Decoded] = []
    with pytest.MonkeyPatch.context() as patch:
        readers = SimpleNamespace(reader=lambda *_: reader)
        patch.setattr(source.ReadRecords, "readers", readers)
        for _ in range(2):
            finalizer = SimpleNamespace(register=lambda _: None)
            turn = source.ReadRecords(topic, decoder, clock).process
            for output in turn("0", finalizer, tracker, watermark):
                if isinstance(output, beam.pvalue.TaggedOutput):
                    assert output.tag == DEAD
                    outputs.append(Decoded(None, output.value.value))
                else:
                    outputs.append(Decoded(output.value, None))
            cluster.now += S
            left = tracker.current_restriction()
            tracker = Tracker(TopicPosition(left.topic, left.offsets))
    return _by_place(outputs), left, watermark.at


def check(data: Any, values: Sequence[bytes | None], kind: int, *how: Any) -> None:
    """Puts another record in the place of one, and looks at all others."""
    stamps = st.integers(T0 - 10**9 * S, T0 + 10**9 * S).map(lambda at: at // 1000 * 1000)
    near = st.sampled_from([T0 - 80 * S, T0 + AHEAD, T0 + AHEAD + 1000])
    record = st.tuples(st.sampled_from(values), stamps | near)
    records = data.draw(st.lists(record, min_size=2, max_size=8))
    at = data.draw(st.integers(0, len(records) - 1))
    other = [*records[:at], data.draw(record), *records[at + 1 :]]
    mine = f"t#{at % 2}@{at // 2}"
    (cells, *rest), (changed, *others) = (read(some, kind, *how) for some in (records, other))
    assert rest == others
    assert {place: what for place, what in cells.items() if place[0] != mine} == {
        place: what for place, what in changed.items() if place[0] != mine
    }


SEARCH = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BY_BROKER, BY_PRODUCER])
@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_a_record_moves_nothing_but_itself(kind: int, form: str) -> None:
    @SEARCH
    @given(st.data())
    def run(data: Any) -> None:
        schema = data.draw(alone_cells.schemas())
        lines = data.draw(alone_cells.json_lines(schema, False))
        more = [None, b"", b"\x00poison\xff", lines[0] + b"\n" + lines[-1]]
        check(data, [*lines, *more], kind, schema, form)

    run()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [BY_BROKER, BY_PRODUCER])
def test_a_record_of_a_registry_moves_nothing_but_itself(kind: int) -> None:
    schema = EventSchema.build(Stamp("at", "epoch_us"), id="id", numbers=["x"])
    row = {"id": "a", "at": T0, "x": 1.0}
    fields = [{"name": "id", "type": "string"}, {"name": "at", "type": "long"}]
    texts, numbers = (
        {"type": "record", "name": "event", "fields": [*fields, {"name": "x", "type": of}]}
        for of in ("string", "double")
    )
    values = [framed(1, numbers, row), framed(2, texts, {**row, "x": "2.5"})]
    values += [
        framed(3, numbers, row),
        values[0][:-3],
        values[0] + b"more",
        b"\0\0\0\0\1",
        b"",
        b"x",
    ]
    with registry() as held:
        for id, schema_of in ((1, numbers), (2, texts)):
            held.schemas[id] = {"schema": json.dumps(schema_of)}
        reader = ConfluentAvro(SchemaRegistry(held.url))

        @SEARCH
        @given(st.data())
        def run(data: Any) -> None:
            check(data, [*values, None], kind, schema, "avro", reader)

        run()
