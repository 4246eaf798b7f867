"""Decoders of messages and of values of Kafka: a payload costs no other message anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from tests.contracts import alone_cells, alone_columns
from tests.contracts.test_alone import _by_place
from tests.fuzz.decoders import AVRO, GOOD, OTHER, SCHEMAS, TIME, avro_row, line_of
from tests.fuzz.target import Target, require, without_kernels
from tests.transforms.avro_files import container, encoded
from tests.transforms.test_kafka_values import descriptors, purchase
from weir.transforms.beam.pubsub.messages import Message, MessageDecoder
from weir.transforms.formats.registry import FORMATS, message_formats
from weir.transforms.sources.kafka.values import ConfluentAvro, Protobuf


def message_target(form: str, value: Callable[[bytes], bytes | None], good: Sequence[bytes],
                   seeds: Sequence[bytes], first: int, single: bool) -> Target:  # fmt: skip
    """A payload between two good ones.

    Args:
      value: what a reader of values makes of a payload; None: nothing.
      first: position of the first record. single: whether a message holds exactly one.
    """

    def check(data: bytes) -> None:
        schema = SCHEMAS[data[0] % len(SCHEMAS)] if data else SCHEMAS[0]
        payload = data[1:]
        decoder = MessageDecoder(form, schema, "s")

        def read(payloads: Sequence[bytes]) -> Any:
            values = [(at, value(one)) for at, one in payloads]
            some = [Message(at, one, 1) for at, one in values if one is not None]
            return _by_place(decoder.decode(some))

        three = [("a", good[0]), ("m", payload), ("b", good[1])]
        alone: dict[Any, Any] = {}
        for one in three:
            alone |= read([one])
        mine = [place for place in alone if place[0] == "s#m"]
        if single and value(payload) is not None:
            require(len(mine) == 1, "a message gives one outcome", mine)
        for order in (three, three[::-1], [three[1], three[0], three[2]]):
            require(read(order) == alone, "a message is read alone", order)
        with without_kernels():
            slow = read(three)
            require(slow == alone, "numpy reads what kernels read", slow, alone)

    return Target(check, lambda: [bytes([at % len(SCHEMAS)]) + one for at, one in
                                  enumerate(seeds)])  # fmt: skip


def _payloads(form: str) -> Target:
    lines = [line_of("ndjson", cells) for cells in (GOOD, OTHER)]
    if form in ("json", "ndjson"):
        tokens = [
            b'{"t":"%b","x":%b}' % (TIME.encode(), one) for one in alone_cells.JSON_TOKENS[::3]
        ]
        more = [lines[0] + b"\n" + lines[1], b"\n", b"\n\n" + lines[0], b"[" + lines[0] + b"]"]
        return message_target(form, lambda data: data, lines, [*lines, *more, *tokens, b""], 1,
                              form == "json")  # fmt: skip
    if form == "avro":
        good = [container(AVRO[0], [encoded(cells, AVRO[0])]) for cells in (GOOD, OTHER)]
        more = [container(AVRO[at], [encoded(avro_row(GOOD, at), AVRO[at])]) for at in range(4)]
    else:
        tables = [pa.Table.from_pylist([cells]) for cells in (GOOD, OTHER)]
        good = [FORMATS[form].encode(table.to_batches()[0]) for table in tables]
        more = [alone_columns.arrow(tables[0].to_batches(), kind) for kind in (True, False)]
    damaged = [part for one in more for part in (one[:-7], one[9:], one + b"more")]
    return message_target(form, lambda data: data, good, [*good, *more, *damaged, b"", b" "], 0,
                          False)  # fmt: skip


class _Registry:
    """A registry of schemas without a server."""

    def schema(self, id: int) -> bytes | None:
        return json.dumps(AVRO[id]).encode() if id < len(AVRO) else None


def _confluent() -> Target:
    reader = ConfluentAvro(_Registry())  # type: ignore[arg-type]
    good = [b"\0\0\0\0\0" + encoded(cells, AVRO[0]) for cells in (GOOD, OTHER)]
    more = [bytes([0, 0, 0, 0, at]) + encoded(avro_row(GOOD, at), AVRO[at]) for at in range(4)]
    odd = [good[0] + b"more", good[0][:-3], b"\0\0\0\0\x09x", b"", b"{}", b"\0\0\0\0\0"]
    return message_target("avro", reader.read, good, [*good, *more, *odd], 0, True)


def _protobuf() -> Target:
    reader = Protobuf(descriptors(), "shop.Purchase")
    good = [purchase(id=name, amount=1.5, tags=["a"]) for name in "ab"]
    framed = [b"\0\0\0\0\1\0" + good[0], b"\0\0\0\0\1\2\0" + good[0], b"\0\0\0\0\1\xff\xff\xff"]
    odd = [b"", b"\0", b"\xff" * 12, good[0][:-2], good[0] + b"\x32\x02\x08\x01", b"\x32\x00"]
    odd += [b"\x32\x0b\x08" + b"\xff" * 9 + b"\x01", purchase(id="\0", big=2**64 - 1, kind=7)]
    schema = [*good, *framed, *odd]
    return message_target("json", reader.read, good, schema, 1, True)


VALUES: dict[str, Callable[[], Target]] = {"confluent_avro": _confluent, "protobuf": _protobuf}
"""Payloads that a reader of values turns into messages of a format."""


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target, of every registered format of messages and every payload of Kafka."""
    results: dict[str, Callable[[], Target]] = {
        f"{form}.message": partial(_payloads, form) for form in message_formats()
    }
    return results | {f"{name}.message": make for name, make in VALUES.items()}
