"""Releases and dead letters as messages: ids that a replay repeats, and nothing but releases."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.transforms.releases import PLAN, batch
from weir.dpcore.errors import WeirError
from weir.dpcore.program import Released
from weir.transforms.beam import publish as pubsub
from weir.transforms.beam import sinks as sinks_dead
from weir.transforms.beam.publish import Outgoing, Publish, PubSubTopic, to_messages
from weir.transforms.release.few import Shape, shape_for
from weir.transforms.release.table import PACKED_SCHEMA, RELEASE_SCHEMA, ReleaseWriter
from weir.transforms.runtime.codec import batch_from_bytes
from weir.transforms.runtime.dead_letters import dead_letters

TOPIC = "projects/acme-1/topics/t"


FLAT = shape_for(PLAN, "flat")


def messages(
    *batches: pa.RecordBatch, form: str = "ndjson", layout: str = "aa", shape: Shape | None = FLAT
) -> list[Outgoing]:
    return [one for some in batches for one in to_messages(some, layout, form, shape)]


def ids(found: list[Outgoing]) -> list[str]:
    return [one.attributes["id"] for one in found]


def test_a_message_holds_one_tick_and_at_most_five_hundred_rows() -> None:
    keys = [b"k%03d" % i for i in range(300)]
    found = messages(batch(5, 2, keys))
    assert [len(one.data.splitlines()) for one in found] == [500, 500, 200] * 2
    assert [one.attributes["first_tick"] for one in found] == [*"555666"]
    assert all(one.attributes["last_tick"] == one.attributes["first_tick"] for one in found)
    assert {one.attributes["release"] for one in found} == {PLAN.name}
    assert len(set(ids(found))) == 6 and {len(one) for one in ids(found)} == {32}
    rows = [json.loads(line) for one in found for line in one.data.splitlines()]
    names = ("key", "tick", "name", "over", "index")
    assert len({tuple(row[name] for name in names) for row in rows}) == 2400


def test_other_strides_and_values_make_the_same_ids_in_another_plan_others() -> None:
    whole = messages(batch(0, 6, [b"a", b"b"]))
    cut = messages(batch(0, 1, [b"a", b"b"]), batch(1, 5, [b"a", b"b"], add=7.0))
    assert ids(whole) == ids(cut)
    assert set(ids(whole)).isdisjoint(ids(messages(batch(0, 6, [b"a", b"b"]), layout="bb")))
    assert set(ids(whole)).isdisjoint(ids(messages(batch(0, 6, [b"c"], 1))))
    assert messages(batch(0, 3, [])) == []


def test_a_vector_of_a_thousand_is_cut_into_messages_with_ids_of_their_own() -> None:
    wide = [Released("theta", None, np.zeros((1, 1, 1200)), None)]
    found = messages(ReleaseWriter(PLAN).batch(0, 0, 1, [b"a"], wide))
    assert [len(one.data.splitlines()) for one in found] == [500, 500, 200]
    assert len(set(ids(found))) == 3
    rows = [json.loads(line) for one in found for line in one.data.splitlines()]
    assert [row["index"] for row in rows] == list(range(1200))


def test_packed_messages_are_those_of_the_version_before() -> None:
    found = messages(batch(5, 1, [b"k%03d" % i for i in range(300)]), shape=None)
    assert [len(one.data.splitlines()) for one in found] == [500, 400]
    assert ids(found)[0] == "57341cd091badfad18bb01ea47682b9f"
    row = json.loads(found[0].data.splitlines()[0])
    assert list(row) == PACKED_SCHEMA.names and row["value"] == [5000.0, -5000.0]
    assert set(ids(found)).isdisjoint(ids(messages(batch(5, 1, [b"k000"]))))


def test_arrow_messages_have_the_columns_of_the_design() -> None:
    lines, arrow = messages(batch(0, 2, [b"a"])), messages(batch(0, 2, [b"a"]), form="arrow")
    assert ids(lines) == ids(arrow)
    for text, data in zip(lines, arrow, strict=True):
        table = batch_from_bytes(data.data)
        assert table.schema.equals(RELEASE_SCHEMA)
        rows = [json.loads(line) for line in text.data.splitlines()]
        assert table.column("value").to_pylist() == [row["value"] for row in rows]
        assert table.column("over").to_pylist() == [row["over"] for row in rows]


class Client:
    """A publisher that may fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[list[Any]] = []
        self.error = error

    def publish(self, topic: str, messages: list[Any], **_: Any) -> None:
        assert topic == TOPIC
        if self.error:
            raise self.error
        self.calls.append(messages)


def started(monkeypatch: pytest.MonkeyPatch, make: Any, error: Exception | None = None) -> Any:
    client = Client(error)
    monkeypatch.setattr(pubsub, "publisher", lambda host: client)
    dofn = Publish(PubSubTopic(TOPIC), make, "published")
    dofn.setup()
    dofn.start_bundle()
    return dofn, client


def test_a_bundle_is_done_when_all_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    dofn, client = started(
        monkeypatch, lambda n: (Outgoing(b"x", {"id": str(i)}) for i in range(n))
    )
    dofn.process(1)
    assert client.calls == []
    dofn.process(2_400)
    dofn.finish_bundle()
    assert [len(call) for call in client.calls] == [1000, 1000, 401]
    dofn.finish_bundle()
    assert len(client.calls) == 3


def test_a_call_stays_below_what_the_server_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    dofn, client = started(monkeypatch, lambda n: [Outgoing(bytes(3 << 20), {}) for _ in range(n)])
    dofn.process(5)
    dofn.finish_bundle()
    assert [len(call) for call in client.calls] == [2, 2, 1]


def test_a_failure_fails_the_bundle_and_quotes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    dofn, _ = started(monkeypatch, lambda _: [Outgoing(b"x", {})], ValueError("quoted content"))
    dofn.process(0)
    with pytest.raises(WeirError, match="ValueError") as failed:
        dofn.finish_bundle()
    assert "quoted" not in str(failed.value)
    dofn.start_bundle()
    dofn.finish_bundle()


def test_dead_letters_say_where_and_why_with_an_id_that_repeats() -> None:
    letters = dead_letters("projects/acme-1/subscriptions/s#m1", np.arange(1_500), "late")
    first, again = list(sinks_dead.to_messages(letters)), list(sinks_dead.to_messages(letters))
    assert first == again and len(first) == 2
    assert first[0].attributes["id"] != first[1].attributes["id"]
    rows = [json.loads(line) for one in first for line in one.data.splitlines()]
    assert len(rows) == 1_500 and set(rows[0]) == {"source", "position", "field", "reason"}
    with pytest.raises(TypeError, match="only dead letters"):
        list(sinks_dead.to_messages(batch(0, 1, [b"a"])))


def test_only_releases_leave() -> None:
    with pytest.raises(WeirError, match="releases only"):
        messages(batch(0, 1, [b"a"]).replace_schema_metadata(None))
