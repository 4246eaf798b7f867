"""Avro by the id of a schema, and protocol buffers: values that become payloads."""

from __future__ import annotations

import io
import json
import pickle
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.transforms.kafka_double import Cluster, S, turn, values
from tests.transforms.schema_registry import Registry, registry
from weir.dpcore.errors import ConfigError
from weir.transforms.beam.kafka.position import TopicPosition
from weir.transforms.runtime.references import PropertyReference
from weir.transforms.sources.kafka.registry import SchemaAway, SchemaRegistry
from weir.transforms.sources.kafka.values import ConfluentAvro, Protobuf

OLD = {
    "type": "record",
    "name": "event",
    "fields": [{"name": "id", "type": "string"}, {"name": "x", "type": "double"}],
}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "y", "type": ["null", "long"]}]}


def framed(id: int, schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), row)
    return b"\0" + id.to_bytes(4, "big") + body.getvalue()


def put(held: Registry, id: int, schema: dict[str, Any], **more: Any) -> None:
    held.schemas[id] = {"schema": json.dumps(schema), **more}


def rows(payload: bytes | None) -> list[Any] | None:
    return None if payload is None else list(fastavro.reader(io.BytesIO(payload)))


@pytest.mark.slow
def test_a_schema_that_evolves_in_mid_stream_is_read_by_its_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOGIN", "user:word")
    with registry() as held:
        put(held, 7, OLD)
        put(held, 300, NEW)
        reader = ConfluentAvro(SchemaRegistry(f"{held.url}/", PropertyReference(env="LOGIN")))
        before, after = {"id": "a", "x": 1.5}, {"id": "b", "x": 2.5, "y": 3}
        for _ in range(2):
            assert rows(reader.read(framed(7, OLD, before))) == [before]
            assert rows(reader.read(framed(300, NEW, after))) == [after]
        assert held.asked == [
            ("/schemas/ids/7", "Basic dXNlcjp3b3Jk"),
            ("/schemas/ids/300", "Basic dXNlcjp3b3Jk"),
        ]
        assert b"word" not in pickle.dumps(reader) and "word" not in repr(reader)


@pytest.mark.slow
def test_values_without_a_schema_are_malformed_and_asked_for_once() -> None:
    with registry() as held:
        put(held, 1, OLD, schemaType="PROTOBUF")
        put(held, 2, OLD, references=[{"name": "a", "subject": "a", "version": 1}])
        reader = ConfluentAvro(SchemaRegistry(held.url))
        for value in (b"", b"\0\0", b"{}", b"\1\0\0\0\1x"):
            assert reader.read(value) is None
        assert held.asked == []
        for id in (1, 2, 3, 3):
            assert reader.read(framed(id, OLD, {"id": "a", "x": 1.0})) is None
        assert len(held.asked) == 3


@pytest.mark.slow
def test_a_registry_that_is_down_holds_the_stream_and_loses_nothing() -> None:
    cluster = Cluster()
    with registry() as held:
        put(held, 1, OLD)
        first, second = (framed(1, OLD, {"id": name, "x": 1.0}) for name in "ab")
        reader = cluster.reader(values=ConfluentAvro(SchemaRegistry(held.url)))
        cluster.append(first)
        position, batches = turn(reader, TopicPosition())
        assert len(values(batches)) == 1
        put(held, 2, NEW)
        held.down = True
        cluster.append(second)
        cluster.append(framed(2, NEW, {"id": "c", "x": 1.0, "y": None}))
        for _ in range(3):
            cluster.now += S
            assert turn(reader, position) == (position, [])
            assert not reader.is_well and reader.pause > 0.1
        held.down = False
        position, batches = turn(reader, position)
        assert [(rows(value) or [{}])[0]["id"] for value in values(batches)] == ["b", "c"]
        assert reader.is_well


def test_a_registry_that_is_not_there_is_waited_for() -> None:
    with pytest.raises(SchemaAway):
        ConfluentAvro(SchemaRegistry("http://127.0.0.1:1")).read(
            framed(1, OLD, {"id": "a", "x": 1.0})
        )


def descriptors() -> bytes:
    """Of shop.Purchase."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    message = file.message_type.add(name="Purchase")
    kinds = {
        "id": field.TYPE_STRING,
        "amount": field.TYPE_DOUBLE,
        "big": field.TYPE_UINT64,
        "raw": field.TYPE_BYTES,
        "kind": field.TYPE_ENUM,
        "at": field.TYPE_MESSAGE,
        "tags": field.TYPE_STRING,
        "paid": field.TYPE_BOOL,
    }
    for number, (name, kind) in enumerate(kinds.items(), 1):
        added = message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
        if name == "tags":
            added.label = field.LABEL_REPEATED
    message.field[4].type_name = ".shop.Kind"
    message.field[5].type_name = ".google.protobuf.Timestamp"
    message.field[7].proto3_optional = True
    message.oneof_decl.add(name="_paid")
    message.field[7].oneof_index = 0
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(("SALE", "TEST")):
        kind.value.add(name=name, number=number)
    time = descriptor_pb2.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(time)
    return descriptor_pb2.FileDescriptorSet(file=[time, file]).SerializeToString()


def purchase(**fields: Any) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Purchase"))
    message = kind(**fields)
    message.at.FromMicroseconds(1_700_000_000_500_000)
    data: bytes = message.SerializeToString()
    return data


def test_protocol_buffers_become_json_by_the_names_of_their_fields() -> None:
    reader = pickle.loads(pickle.dumps(Protobuf(descriptors(), "shop.Purchase")))
    value = purchase(id="a", big=2**64 - 1, raw=b"\xff", kind=1, tags=["x", "y"])
    payload = reader.read(value)
    assert payload is not None and json.loads(payload) == {
        "id": "a", "amount": 0.0, "big": 2**64 - 1, "raw": "/w==", "kind": "TEST",
        "at": "2023-11-14T22:13:20.500Z", "tags": ["x", "y"], "paid": None,
    }  # fmt: skip
    assert reader.read(b"\0\0\0\0\x07\0" + value) == payload
    assert reader.read(b"\0\0\0\0\x07\x04\0\0" + value) == payload
    assert reader.read(b"\xff\xff") is None and reader.read(b"\0") is None


def test_descriptors_without_the_type_are_refused() -> None:
    for data, name in ((descriptors(), "shop.Other"), (b"\xff", "shop.Purchase")):
        with pytest.raises(ConfigError, match="is not in the descriptors"):
            Protobuf(data, name)


@settings(max_examples=200, suppress_health_check=list(HealthCheck), database=None, deadline=None)
@given(st.binary(max_size=64))
def test_no_value_raises_and_each_is_read_alone(value: bytes) -> None:
    reader = Protobuf(descriptors(), "shop.Purchase")
    right = purchase(id="a")
    before = reader.read(right)
    reader.read(value)
    reader.read(right[:-3] + value)
    assert reader.read(right) == before
