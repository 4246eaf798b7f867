"""Messages of one pull -> canonical batches, a few big ones; nothing that a message says can raise.

A dead letter's source is ``subscription#message id``: it stays the same when the message comes
again. Its position counts within the message (lines from 1, rows from 0); -1 is all of it.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.transforms.decode.arrow_together import read_together
from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.epoch import FIRST, LAST
from weir.transforms.decode.formats import ONE_LINE, concatenate, decode_payload
from weir.transforms.decode.lines import LINE_BYTES, chunks, without_marks
from weir.transforms.decode.ndjson import decode_ndjson
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.time import UTC_MICROSECONDS
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import SOURCE, WHOLE_FILE, dead_letters

STAMPS_BEHIND, STAMPS_AHEAD = "stamps_behind", "stamps_ahead"
"""Counters of arrival stamps before and after the bounds of their message."""

Ints = NDArray[np.int64]


class Message(NamedTuple):
    """One message.

    Attributes:
      id: given by the server; the same when it is delivered again.
      data: the payload.
      arrival: when it arrived, microseconds since 1970 in stream time.
      first, last: bounds of what its events may say of their arrival, alike.
    """

    id: str
    data: bytes
    arrival: int
    first: int = FIRST
    last: int = LAST


class MessageDecoder:
    """Decodes the messages of a subscription. Never raises for what they hold.

    Events get the columns ``@source`` (see above) and ``@arrival``: the declared column's within
    the bounds of the message, else the message's.

    Args:
      form: json, ndjson, avro or arrow.
      schema: the roles of columns.
      source: the subscription.
      line_bytes: longest line allowed in json and ndjson.
    """

    def __init__(
        self, form: str, schema: EventSchema, source: str, line_bytes: int = LINE_BYTES
    ) -> None:
        self._form, self._schema, self._source = form, schema.lenient(), source
        self._line_bytes = line_bytes
        self._outside: Counter[str] = Counter()

    @property
    def has_ids(self) -> bool:
        """Whether events have ids, so that a second delivery shows."""
        return self._schema.id is not None

    def decode(self, messages: Sequence[Message]) -> list[Decoded]:
        """One pull -> batches, in the order of the messages where they share their columns."""
        full = [message for message in messages if not _is_blank(message.data)]
        empty = [message for message in messages if _is_blank(message.data)]
        found = [*(self._lost(message) for message in empty), *self._decoded(full)]
        for name, count in self._outside.items():
            counters.add(name, count)
        return found

    def _decoded(self, messages: Sequence[Message]) -> list[Decoded]:
        self._outside.clear()
        if self._form in ("json", "ndjson"):
            try:
                return self._lines(messages)
            except Exception:
                # Whatever one message led a parser to: alone, it can hurt no other.
                self._outside.clear()
        return self._apart(messages)

    def _lines(self, messages: Sequence[Message]) -> list[Decoded]:
        """All lines of all messages at once."""
        if not messages:
            return []
        pieces, counts = [], []
        for message in messages:
            data = message.data
            if self._form == "json":
                data = data.translate(ONE_LINE)
            if not data.endswith(b"\n"):
                data += b"\n"
            pieces.append(data)
            counts.append(data.count(b"\n"))
        text = chunks(io.BytesIO(b"".join(pieces)).read, line_bytes=self._line_bytes)
        return [
            self._told(decoded, messages, counts, 1)
            for decoded in decode_ndjson(text, self._schema, self._source)
        ]

    def _told(
        self, decoded: Decoded, messages: Sequence[Message], counts: Sequence[int], first: int
    ) -> Decoded:
        """What was read of several messages at once, told by message and position in it.

        Args:
          decoded: positions counted through all messages, from 1.
          counts: how many each message holds. first: at which position a message begins.
        """
        events, dead, _ = decoded
        ends = np.cumsum(counts)
        starts = ends - counts + 1 - first
        if dead is not None:
            at = dead.column("position").to_numpy()
            rows = np.searchsorted(ends, at)
            reasons = dead.column("reason").indices.to_numpy().astype(np.int8)
            names = self._sources(messages, rows)
            dead = dead_letters(names, at - starts[rows], reasons, dead.column("field"))
        if events is not None:
            places = events.column("@position").to_numpy()
            rows = np.searchsorted(ends, places)
            events = self._marked(events, messages, rows, places - starts[rows])
        return Decoded(events, dead)

    def _apart(self, messages: Sequence[Message]) -> list[Decoded]:
        """Message by message; what has the same columns becomes one batch."""
        found: list[Decoded] = []
        if self._form == "arrow":
            payloads = [message.data for message in messages]
            together, left = read_together(payloads, self._schema, self._source)
            for read in together:
                held = [messages[i] for i in read.places]
                found.append(self._told(read.decoded, held, read.rows, 0))
            messages = [messages[i] for i in left]
        alike: dict[Any, list[tuple[int, pa.RecordBatch]]] = {}
        for place, message in enumerate(messages):
            try:
                parts = list(self._one(message))
            except Exception:
                # Types that cannot play their role, columns that are not there, and whatever a
                # parser is led to: its text may quote the message, so nothing of it is kept.
                parts = [self._lost(message)]
            for events, dead, _ in parts:
                if dead is not None:
                    found.append(Decoded(None, dead))
                if events is not None:
                    alike.setdefault(str(events.schema), []).append((place, events))
        for group in alike.values():
            batch = concatenate([events for _, events in group])
            sizes = [events.num_rows for _, events in group]
            rows = np.repeat([place for place, _ in group], sizes)
            positions = batch.column("@position").to_numpy()
            found.append(Decoded(self._marked(batch, messages, rows, positions), None))
        return found

    def _one(self, message: Message) -> Iterator[Decoded]:
        source = self._name(message)
        for events, dead, _ in decode_payload(
            message.data, self._form, self._schema, self._source, self._line_bytes
        ):
            if dead is not None:
                codes = dead.column("reason").indices.to_numpy().astype(np.int8)
                positions = dead.column("position").to_numpy()
                dead = dead_letters(source, positions, codes, dead.column("field"))
            yield Decoded(events, dead)

    def _marked(
        self, events: pa.RecordBatch, messages: Sequence[Message], rows: Ints, positions: Ints
    ) -> pa.RecordBatch:
        """Events with the message each came from (rows, (n,)), and when they arrived."""
        stamps = np.array([message.arrival for message in messages], dtype=np.int64)[rows]
        columns = dict(zip(events.schema.names, events.columns, strict=True))
        if "@arrival" in columns:
            stamps = self._bounded(columns["@arrival"], stamps, messages, rows)
        columns["@arrival"] = pa.array(stamps).view(UTC_MICROSECONDS)
        columns["@position"] = pa.array(np.ascontiguousarray(positions))
        columns[SOURCE] = self._sources(messages, rows)
        return pa.RecordBatch.from_arrays(
            list(columns.values()), names=list(columns), metadata={"source": self._source}
        )

    def _bounded(self, claimed: Any, stamps: Ints, messages: Sequence[Message], rows: Ints) -> Ints:
        """(n,) declared arrivals, each within the bounds of its message; where there is none, that
        of the message."""
        first, last = (
            np.array(bounds, dtype=np.int64)[rows]
            for bounds in zip(*((one.first, one.last) for one in messages), strict=True)
        )
        given: Ints = pc.coalesce(claimed.view(pa.int64()), pa.array(stamps)).to_numpy()
        self._outside[STAMPS_BEHIND] += int((given < first).sum())
        self._outside[STAMPS_AHEAD] += int((given > last).sum())
        bounded: Ints = np.clip(given, first, last)
        return bounded

    def _sources(self, messages: Sequence[Message], rows: Ints) -> pa.DictionaryArray:
        used, places = np.unique(rows, return_inverse=True)
        names = [self._name(messages[row]) for row in used.tolist()]
        return pa.DictionaryArray.from_arrays(
            pa.array(places.astype(np.int32)), pa.array(names, pa.string())
        )

    def _name(self, message: Message) -> str:
        return f"{self._source}#{message.id}"

    def _lost(self, message: Message) -> Decoded:
        at = np.array([WHOLE_FILE])
        return Decoded(None, dead_letters(self._name(message), at, "malformed"))


def _is_blank(data: bytes) -> bool:
    rest = without_marks(data)
    return not rest or rest.isspace()


__all__ = ["STAMPS_AHEAD", "STAMPS_BEHIND", "Message", "MessageDecoder"]
