"""The events of an audit as payloads of messages, sound ones and spoilt ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from weir.pipelines.audit.malformed import BYTES, OBJECTS, MalformedForm, MalformedValue, malform
from weir.pipelines.audit.streams import EventMaker, StreamRows
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed.rows import lines_of
from weir.pipelines.feed.topic import PAYLOADS, PER_MESSAGE, encode

LINES = ("json", "ndjson")
"""Payloads that are lines, of which each is spoilt alone."""
INSTEAD = {"csv": "ndjson", "parquet": "arrow"}
"""What messages hold in place of a format that only files have."""
CHUNK = 1 << 16
"""Rows that are made at a time."""


def payload_of(job: JobConfig) -> tuple[str, str | None]:
    """What messages hold, and what that stands for; None: it is the config's own format."""
    source = job.source
    form = "csv" if source is None else source.payload or source.form
    if form in PAYLOADS:
        return form, None
    return INSTEAD.get(form, "ndjson"), form


def messages(maker: EventMaker, rows: StreamRows, payload: str) -> Iterator[bytes]:
    """Events, as the config names its columns: tick after tick, several events a message."""
    order = np.argsort(rows.tick, kind="stable")
    for start in range(0, len(order), CHUNK):
        batch = maker.batch(rows.taken(order[start : start + CHUNK]))
        yield from _cut(batch, payload)


def malformed_messages(
    batch: pa.RecordBatch,
    payload: str,
    places: Sequence[int],
    forms: Sequence[MalformedForm | MalformedValue],
) -> list[bytes]:
    """Events of which row ``places[i]`` is spoilt by ``forms[i]``, and messages that hold none.

    A line, or a value of a typed row, is spoilt among its neighbours in a message; where bytes of a
    container are, it holds that row alone, as who sends other bytes sends them in a message.
    """
    if payload in LINES:
        lines = lines_of(batch, "ndjson", [False] * batch.num_rows)
        for place, form in zip(places, forms, strict=True):
            assert isinstance(form, MalformedForm)
            lines[place] = form.spoil(lines[place])
        step = 1 if payload == "json" else PER_MESSAGE
        parts = [lines[start : start + step] for start in range(0, len(lines), step)]
        return [*(b"\n".join(part) for part in parts), *strays()]
    pairs = list(zip(places, forms, strict=True))
    typed = [(place, form) for place, form in pairs if isinstance(form, MalformedValue)]
    raw = [(place, form) for place, form in pairs if isinstance(form, MalformedForm)]
    batch = malform(batch, [place for place, _ in typed], [form for _, form in typed])
    others = np.setdiff1d(np.arange(batch.num_rows), [place for place, _ in raw])
    found = list(_cut(batch.take(pa.array(others)), payload))
    found += [form.spoil(encode(batch.slice(place, 1), payload, [False])) for place, form in raw]
    return [*found, *strays()]


def container_forms() -> Iterator[MalformedForm]:
    """Ways to spoil the bytes of a container."""
    yield MalformedForm("a container cut short", lambda data: data[: len(data) // 2])
    yield MalformedForm("a container without its last byte", lambda data: data[:-1])
    yield MalformedForm("a container twice", lambda data: data + data)
    yield MalformedForm("a container with bytes behind", lambda data: data + b"\xff\x00\xff")
    yield MalformedForm("a container with bytes before", lambda data: b"\xff\x00\xff" + data)
    yield MalformedForm("a container with another beginning", lambda data: b"\x00" * 8 + data[8:])


def strays() -> Iterator[bytes]:
    """Messages that are no event of anybody; each is to be a dead letter."""
    yield from (data for _, data in BYTES if data)
    yield from (data for _, data in OBJECTS)
    yield b"\n"


def _cut(batch: pa.RecordBatch, payload: str) -> Iterator[bytes]:
    step = 1 if payload == "json" else PER_MESSAGE
    for start in range(0, batch.num_rows, step):
        part: Any = batch.slice(start, step)
        yield encode(part, payload, [False] * part.num_rows)


__all__ = ["container_forms", "messages", "payload_of", "malformed_messages", "strays"]
