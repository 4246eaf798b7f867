"""The events of an audit as payloads of messages, sound ones and spoilt ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from weir.pipelines.audit.spoilt import BYTES, OBJECTS, Form, Typed, spoil
from weir.pipelines.audit.streams import Maker, Rows
from weir.pipelines.config.job import JobConfig
from weir.pipelines.feed.targets import PER_MESSAGE
from weir.transforms.formats.registry import FORMATS, message_formats

INSTEAD = {"csv": "ndjson", "parquet": "arrow"}
"""What messages hold in place of a format that only files have."""
CHUNK = 1 << 16
"""Rows that are made at a time."""


def payload_of(job: JobConfig) -> tuple[str, str | None]:
    """What messages hold, and what that stands for; None: it is the config's own format."""
    source = job.source
    form = "csv" if source is None else source.payload or source.form
    if form in message_formats():
        return form, None
    return INSTEAD.get(form, "ndjson"), form


def messages(maker: Maker, rows: Rows, payload: str) -> Iterator[bytes]:
    """Events, as the config names its columns: tick after tick, several events a message."""
    order = np.argsort(rows.tick, kind="stable")
    for start in range(0, len(order), CHUNK):
        batch = maker.batch(rows.taken(order[start : start + CHUNK]))
        yield from _cut(batch, payload)


def spoilt_messages(
    batch: pa.RecordBatch, payload: str, places: Sequence[int], forms: Sequence[Form | Typed]
) -> list[bytes]:
    """Events of which row ``places[i]`` is spoilt by ``forms[i]``, and messages that hold none.

    A line, or a value of a typed row, is spoilt among its neighbours in a message; where bytes of a
    container are, it holds that row alone, as who sends other bytes sends them in a message.
    """
    if FORMATS[payload].is_text:
        lines = FORMATS[payload].encode(batch).split(b"\n")
        for place, form in zip(places, forms, strict=True):
            assert isinstance(form, Form)
            lines[place] = form.spoil(lines[place])
        step = _most(payload)
        parts = [lines[start : start + step] for start in range(0, len(lines), step)]
        return [*(b"\n".join(part) for part in parts), *strays()]
    pairs = list(zip(places, forms, strict=True))
    typed = [(place, form) for place, form in pairs if isinstance(form, Typed)]
    raw = [(place, form) for place, form in pairs if isinstance(form, Form)]
    batch = spoil(batch, [place for place, _ in typed], [form for _, form in typed])
    others = np.setdiff1d(np.arange(batch.num_rows), [place for place, _ in raw])
    found = list(_cut(batch.take(pa.array(others)), payload))
    found += [form.spoil(FORMATS[payload].encode(batch.slice(place, 1))) for place, form in raw]
    return [*found, *strays()]


def container_forms() -> Iterator[Form]:
    """Ways to spoil the bytes of a container."""
    yield Form("a container cut short", lambda data: data[: len(data) // 2])
    yield Form("a container without its last byte", lambda data: data[:-1])
    yield Form("a container twice", lambda data: data + data)
    yield Form("a container with bytes behind", lambda data: data + b"\xff\x00\xff")
    yield Form("a container with bytes before", lambda data: b"\xff\x00\xff" + data)
    yield Form("a container with another beginning", lambda data: b"\x00" * 8 + data[8:])


def strays() -> Iterator[bytes]:
    """Messages that are no event of anybody; each is to be a dead letter."""
    yield from (data for _, data in BYTES if data)
    yield from (data for _, data in OBJECTS)
    yield b"\n"


def _cut(batch: pa.RecordBatch, payload: str) -> Iterator[bytes]:
    step = _most(payload)
    for start in range(0, batch.num_rows, step):
        yield FORMATS[payload].encode(batch.slice(start, step))


def _most(payload: str) -> int:
    """Events of a message."""
    return FORMATS[payload].most_per_message or PER_MESSAGE


__all__ = ["container_forms", "messages", "payload_of", "spoilt_messages", "strays"]
