"""Releases to a Pub/Sub topic, with an id that a consumer can drop copies by.

A retry, a restart or a resume publishes again what it released before, with the same ids: keep the
first message of an id. An id says what a message is about, not what it says: release, plan, tick,
and which keys, names and coordinates.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weir.dpcore.errors import WeirError
from weir.dpcore.plan import Plan
from weir.transforms.beam.step import Step
from weir.transforms.release.few import FEW_SCHEMA, INDICES, Shape, shape_for
from weir.transforms.release.flat import Layout
from weir.transforms.release.table import (
    INTERVAL,
    INTERVAL_SCHEMA,
    PACKED_SCHEMA,
    RELEASE_SCHEMA,
    releases_only,
)
from weir.transforms.runtime import counters, fence
from weir.transforms.runtime import stored_counts as kept_counts
from weir.transforms.runtime.codec import batch_to_bytes
from weir.transforms.runtime.pubsub_client import (
    PATIENCE,
    REFUSALS,
    emulator,
    gone,
    patiently,
    publisher,
)
from weir.transforms.sinks.formats import json_lines
from weir.transforms.sinks.sorted_table import file_table, sorted_table

ROWS = 500
"""Rows of one message."""
CALL_MESSAGES = 1_000
CALL_BYTES = 8 << 20
"""What one call may hold: the server takes 1,000 messages and 10 MB."""

AGAIN = 1.0
"""Seconds between tries of a call that was refused."""

FORMATS = ("ndjson", "arrow")


class Outgoing(NamedTuple):
    """A message to be published."""

    data: bytes
    attributes: dict[str, str]


class Server(Protocol):
    """What takes messages of one topic. It is sent to workers, and connects there."""

    def connect(self) -> None:
        """Makes ready on a worker."""

    def send(self, messages: Sequence[Any]) -> None:
        """Returns when the server has them all, and waits for one that is away.

        Raises:
          Fatal: it refuses, and does so for as long as that is doubted.
          WeirError: it failed; names the kind of error only.
        """


def to_messages(
    batch: pa.RecordBatch, layout: str, form: str, shape: Shape | None = None
) -> Iterator[Outgoing]:
    """A release batch -> messages of one tick and at most ROWS rows each.

    Cut by tick because a replay may step other numbers of ticks at once, and must make the same
    messages.

    Args:
      batch: releases. layout: of the plan, hex. form: ndjson or arrow.
      shape: how vectors become rows; None: as lists of every coordinate.
    """
    table = sorted_table([releases_only(batch)]).table
    if not table.num_rows:
        return
    if shape is not None:
        table = shape.table(table)
    ticks = pc.fill_null(table["tick"].cast(pa.int64()), 0).to_numpy()  # none without a clock
    edges = [0, *(np.flatnonzero(np.diff(ticks)) + 1).tolist(), table.num_rows]
    for first, stop in zip(edges, edges[1:], strict=False):
        for part, start in enumerate(range(first, stop, ROWS)):
            some = table.slice(start, min(ROWS, stop - start))
            tick = int(ticks[start])
            name = some["release"][0].as_py()
            attributes = {
                "id": message_id(some, name, layout, tick, part),
                "release": name,
                "first_tick": str(tick),
                "last_tick": str(tick),
            }
            yield Outgoing(encode(some, form), attributes)


def message_id(rows: pa.Table, release: str, layout: str, tick: int, part: int) -> str:
    """32 hexadecimal digits of what the message is about."""
    digest = hashlib.blake2b(f"{release}\0{layout}\0{tick}\0{part}".encode(), digest_size=16)
    for name in ("key", "name", "over", "index"):
        for value in rows[name].to_pylist() if name in rows.schema.names else ():
            digest.update(f"\0{value}".encode())
    return digest.hexdigest()


def encode(rows: pa.Table, form: str) -> bytes:
    """Rows as lines of JSON, or as an Arrow stream of RELEASE_SCHEMA, PACKED_SCHEMA,
    INTERVAL_SCHEMA or FEW_SCHEMA."""
    if form == "ndjson":
        return "".join(json_lines(rows)).encode()
    names = rows.schema.names
    lists = INTERVAL_SCHEMA if INTERVAL[0] in names else PACKED_SCHEMA
    packed = FEW_SCHEMA if INDICES in names else lists
    schema = RELEASE_SCHEMA if "index" in names else packed
    plain = file_table(rows).cast(schema).combine_chunks()
    return batch_to_bytes(plain.to_batches()[0])


class Publish(Step):
    """Elements -> a topic. A bundle is done when the server has all of its messages.

    Args:
      server: of the topic.
      make: element -> messages, whose ``data`` is most of what they take.
      count: name of the counter of published messages.
    """

    def __init__(self, server: Server, make: Callable[[Any], Iterator[Any]], count: str) -> None:
        self._server, self._make, self._count = server, make, count
        self._fence = fence.current().inner
        self._held: list[Any] = []
        self._bytes = 0

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": [], "_bytes": 0}

    def setup(self) -> None:
        """Connects."""
        self._server.connect()
        kept_counts.keep(self._fence)

    def teardown(self) -> None:
        """Keeps the last counts."""
        kept_counts.flush(self._fence)

    def start_bundle(self) -> None:
        """Drops what an abandoned bundle left."""
        self._held, self._bytes = [], 0

    def process(self, element: Any) -> None:
        """Gathers; a long bundle publishes in between."""
        for message in self._make(element):
            size = len(message.data) + 300
            if self._held and self._bytes + size > CALL_BYTES:
                self._flush()
            self._held.append(message)
            self._bytes += size
            if len(self._held) >= CALL_MESSAGES:
                self._flush()

    def finish_bundle(self) -> None:
        """Publishes what is left."""
        if self._held:
            self._flush()

    def _flush(self) -> None:
        self._fence.look()
        try:
            self._server.send(self._held)
        except fence.Fatal as error:
            self._fence.fail(error)
        counters.add(self._count, len(self._held))
        self._held, self._bytes = [], 0


class PubSubTopic:
    """See Server.

    Args:
      name: projects/P/topics/T.
    """

    def __init__(self, name: str) -> None:
        self._name, self._host = name, emulator()
        self._client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_client": None}

    def connect(self) -> None:
        self._client = publisher(self._host)

    def send(self, messages: Sequence[Outgoing]) -> None:
        publish(self._client, self._name, messages)


def publish(client: Any, topic: str, messages: Sequence[Outgoing]) -> None:
    """One call; tries for ten minutes while the server is away.

    Raises:
      Gone: the server refuses, and does so for as long as that is doubted.
      WeirError: it failed; names the kind of error only.
    """
    from google.pubsub_v1.types import PubsubMessage

    wire = [PubsubMessage(data=data, attributes=attributes) for data, attributes in messages]
    began = time.monotonic()
    while True:
        try:
            client.publish(topic=topic, messages=wire, retry=patiently(PATIENCE), timeout=30.0)
            return
        except Exception as error:  # the client's errors are many, and quote what was sent
            code = getattr(getattr(error, "grpc_status_code", None), "name", "")
            if code not in REFUSALS:
                raise WeirError(f"publishing to {topic} failed: {type(error).__name__}.") from None
            if time.monotonic() - began >= REFUSALS[code]:
                raise gone(topic, code) from None
        time.sleep(AGAIN)


class _Make(NamedTuple):
    layout: str
    form: str
    shape: Shape | None

    def __call__(self, batch: pa.RecordBatch) -> Iterator[Outgoing]:
        return to_messages(batch, self.layout, self.form, self.shape)


@beam.typehints.with_input_types(pa.RecordBatch)
class PublishReleases(beam.PTransform[Any, Any]):
    """Publishes releases on any runner. Attributes: id, release, first_tick, last_tick.

    Args:
      topic: projects/P/topics/T.
      plan: of the releases.
      form: ndjson or arrow.
      layout: of vectors: a row a coordinate (flat), or lists (packed).
    """

    def __init__(
        self, topic: str, plan: Plan, form: str = "ndjson", layout: Layout = "flat"
    ) -> None:
        super().__init__()
        self._topic = topic
        self._make = _Make(plan.layout, form, shape_for(plan, layout))

    def expand(self, releases: beam.PCollection[pa.RecordBatch]) -> Any:
        """Release batches -> messages."""
        # mypy takes no tuple for a callable, even where it has a __call__.
        publish = Publish(PubSubTopic(self._topic), self._make, "published")  # type: ignore[arg-type]
        return releases | "Publish" >> beam.ParDo(publish)
