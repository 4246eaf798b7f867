"""Releases as records of Kafka: keys, values that a replay repeats, and what a broker refuses."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Sequence
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from tests.transforms.releases import PLAN, batch
from tests.transforms.schema_registry import registry
from weir.dpcore.errors import WeirError
from weir.transforms.release.few import shape_for
from weir.transforms.release.table import PACKED_SCHEMA, RELEASE_SCHEMA
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sinks import kafka
from weir.transforms.sinks.kafka import (
    KeyedRecord,
    ReleaseRecords,
    TopicRefused,
    TopicServer,
    avro_schema,
    columns_of,
)
from weir.transforms.sources.kafka.faults import REFUSALS
from weir.transforms.sources.kafka.properties import ClientProperties
from weir.transforms.sources.kafka.registry import SchemaRegistry

FLAT = shape_for(PLAN, "flat")
PROPERTIES = ClientProperties("k:9092", section="sink.kafka")


def records(*batches: pa.RecordBatch, make: ReleaseRecords | None = None) -> list[KeyedRecord]:
    return [record for some in batches for record in (make or ReleaseRecords(FLAT))(some)]


def test_a_record_is_a_row_under_a_key_of_its_own() -> None:
    found = records(batch(5, 2, [b"a", b"b"]))
    assert len(found) == len({record.key for record in found}) == 2 * 2 * 4
    for record in found:
        key, value = json.loads(record.key or b""), json.loads(record.data)
        assert list(key) == ["release", "key", "tick", "name", "over", "index", "label"]
        assert key.items() <= value.items() and list(value) == RELEASE_SCHEMA.names
        assert b"\n" not in record.data
    assert records(batch(0, 3, [])) == []


def test_other_cuts_of_ticks_make_the_same_keys_and_a_repeat_the_same_bytes() -> None:
    whole = records(batch(0, 6, [b"a", b"b"]))
    cut = records(batch(0, 1, [b"a", b"b"]), batch(1, 5, [b"a", b"b"], add=7.0))
    assert sorted(record.key or b"" for record in whole) == sorted(r.key or b"" for r in cut)
    assert whole == records(batch(0, 6, [b"a", b"b"]))


def test_packed_rows_have_no_index_in_their_keys() -> None:
    found = records(batch(5, 1, [b"a"]), make=ReleaseRecords(None))
    assert [list(json.loads(record.key or b"")) for record in found] == [
        ["release", "key", "tick", "name", "over"]
    ] * 3
    assert list(json.loads(found[0].data)) == PACKED_SCHEMA.names


@pytest.mark.parametrize("layout", ["flat", "packed"])
def test_avro_values_say_the_same(layout: Any) -> None:
    shape = shape_for(PLAN, layout)
    columns = columns_of(PLAN, shape)
    schema = fastavro.parse_schema(avro_schema(columns))
    lines = records(batch(0, 2, [b"a"]), make=ReleaseRecords(shape))
    avro = records(batch(0, 2, [b"a"]), make=ReleaseRecords(shape, columns))
    for text, data in zip(lines, avro, strict=True):
        assert text.key == data.key
        row: Any = fastavro.schemaless_reader(io.BytesIO(data.data), schema, None)
        for name, value in json.loads(text.data).items():
            if name not in ("tick_start", "tick_end"):
                assert row[name] == value, name
            else:
                assert row[name].isoformat().replace("+00:00", "Z") == value


class Error:
    def __init__(self, code: str) -> None:
        self.code = code

    def name(self) -> str:
        return self.code

    def str(self) -> str:
        return "quoted content"


class KafkaException(Exception):
    pass


class Producer:
    """Takes records as a broker does that answers with a code, for a while."""

    code, refusals, full = "", 0, 0

    def __init__(self, properties: dict[str, Any]) -> None:
        self.properties = properties
        self.taken: list[tuple[bytes, bytes | None]] = []
        self.waiting: list[Any] = []
        made.append(self)

    def produce(self, topic: str, value: bytes, key: bytes | None, on_delivery: Any) -> None:
        assert topic == "out"
        if type(self).full:
            type(self).full -= 1
            raise BufferError
        if self.code == "_UNKNOWN_TOPIC" and type(self).refusals:
            type(self).refusals -= 1
            raise KafkaException(Error(self.code))
        self.waiting.append((value, key, on_delivery))

    def poll(self, _: float) -> None:
        self.flush()

    def flush(self) -> None:
        for value, key, note in self.waiting:
            if type(self).refusals:
                type(self).refusals -= 1
                note(Error(self.code), None)
            else:
                self.taken.append((value, key))
                note(None, None)
        self.waiting = []


made: list[Producer] = []


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> type[Producer]:
    made.clear()
    Producer.code, Producer.refusals, Producer.full = "", 0, 0
    library = type("Library", (), {"Producer": Producer, "KafkaException": KafkaException})
    monkeypatch.setattr(kafka, "library", lambda section: library)
    return Producer


def server(slept: list[float] | None = None, **more: Any) -> TopicServer:
    held = [] if slept is None else slept
    return TopicServer("out", PROPERTIES, now=lambda: sum(held), sleep=held.append, **more)


RECORDS: Sequence[KeyedRecord] = [KeyedRecord(b"k%d" % i, b"v%d" % i) for i in range(3)]


def test_what_was_sent_is_with_the_broker(broker: type[Producer]) -> None:
    one = pickle.loads(pickle.dumps(TopicServer("out", PROPERTIES)))
    one.connect()
    broker.full = 2
    one.send(RECORDS)
    (producer,) = made
    assert producer.taken == [(record.data, record.key) for record in RECORDS]
    assert producer.properties["enable.idempotence"] is True
    assert not any(name.startswith(("fetch.", "queued.")) for name in producer.properties)


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_doubted_and_then_ends_the_job(broker: type[Producer], code: str) -> None:
    broker.code, broker.refusals = code, 4
    slept: list[float] = []
    server(slept).send(RECORDS)
    assert sorted(made[0].taken) == sorted((record.data, record.key) for record in RECORDS)
    assert len(slept) >= 2, "what was refused alone is sent again"
    broker.refusals = 10**6
    slept.clear()
    with pytest.raises(TopicRefused, match=rf"^topic out answers {code}") as failed:
        server(slept).send(RECORDS)
    assert sum(slept) == pytest.approx(REFUSALS[code], abs=1.5)
    assert "quoted" not in str(failed.value)


def test_another_failure_is_the_bundles_and_the_next_try_connects_again(
    broker: type[Producer],
) -> None:
    broker.code, broker.refusals = "_MSG_TIMED_OUT", 1
    one = server()
    with pytest.raises(
        WeirError, match="topic out take no records, for 600 s by now ._MSG_TIMED_OUT"
    ) as failed:
        one.send(RECORDS)
    assert not isinstance(failed.value, TopicRefused)
    one.send(RECORDS)
    assert len(made) == 2 and len(made[1].taken) == 3
    broker.code, broker.refusals = "MSG_SIZE_TOO_LARGE", 1
    with pytest.raises(TopicRefused, match=r"Raise max\.message\.bytes"):
        server().send(RECORDS)


@pytest.mark.slow
def test_a_schema_is_registered_once_and_its_id_stands_before_each_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGIN", "user:word")
    with registry() as held:
        schemas = SchemaRegistry(held.url, PropertyReference(env="LOGIN"), "sink.kafka")
        one = server(registry=schemas, columns=RELEASE_SCHEMA)
        for _ in range(2):
            one.send(RECORDS)
        assert held.registered == [("/subjects/out-value/versions", "Basic dXNlcjp3b3Jk")]
        (entry,) = held.schemas.values()
        fastavro.parse_schema(json.loads(entry["schema"]))
        assert made[0].taken[0][0] == b"\0" + (1).to_bytes(4, "big") + b"v0"
        again = server(registry=schemas, columns=RELEASE_SCHEMA)
        again.send(RECORDS)
        assert len(held.schemas) == 1, "the same schema has the same id"


@pytest.mark.slow
def test_a_registry_that_is_away_is_waited_for_and_one_that_refuses_ends_the_job() -> None:
    slept: list[float] = []
    with registry() as held:
        schemas = SchemaRegistry(held.url)
        held.down = True
        one = server(slept, registry=schemas, columns=RELEASE_SCHEMA)
        with pytest.raises(WeirError, match="the schema registry does not answer: HTTP 503"):
            one.send(RECORDS)
        assert sum(slept) == pytest.approx(kafka.PATIENCE, abs=1.5) and not made
        held.down, held.refuses = False, 409
        with pytest.raises(TopicRefused, match="another one is there already"):
            server(registry=schemas, columns=RELEASE_SCHEMA).send(RECORDS)
