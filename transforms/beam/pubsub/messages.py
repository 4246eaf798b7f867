"""Messages of one pull -> canonical batches, a few big ones; nothing that a message says can raise.

A dead letter's source is ``subscription#message id``: it stays the same when the message comes
again. Its position counts within the message (lines from 1, rows from 0); -1 is all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from weir.transforms.decode.canonical import Decoded
from weir.transforms.decode.counted import concatenate
from weir.transforms.decode.encoding import TextForm
from weir.transforms.decode.lines import LINE_BYTES, without_marks
from weir.transforms.decode.schema import EventSchema
from weir.transforms.decode.time import FIRST, LAST, UTC_MICROSECONDS
from weir.transforms.formats.registry import FORMATS
from weir.transforms.runtime import counters
from weir.transforms.runtime.dead_letters import SOURCE, WHOLE_FILE, dead_letters
from weir.transforms.runtime.stream_time import PRESENT, StreamTime

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
      form: name of a format of messages.
      schema: the roles of columns.
      source: the subscription.
      line_bytes: longest line allowed in json and ndjson.
    """

    def __init__(
        self, form: str, schema: EventSchema, source: str, line_bytes: int = LINE_BYTES
    ) -> None:
        self._form = FORMATS.of(form, TextForm(line_bytes=line_bytes))
        self._schema, self._source = schema.lenient(), source
        self._outside: Counter[str] = Counter()

    @property
    def has_ids(self) -> bool:
        """Whether events have ids, so that a second delivery shows."""
        return self._schema.id is not None

    def decode(self, messages: Sequence[Message]) -> list[Decoded]:
        """One pull -> batches, in the order of the messages where they share their columns."""
        self._outside.clear()
        full = [message for message in messages if not _is_blank(message.data)]
        empty = [message for message in messages if _is_blank(message.data)]
        results = [*(self._lost(message) for message in empty), *self._apart(full)]
        for name, count in self._outside.items():
            counters.add(name, count)
        return results

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
        """Together where the format can, else message by message; what has the same columns becomes
        one batch."""
        decodeds: list[Decoded] = []
        payloads = [message.data for message in messages]
        together, left = self._form.decode_together(payloads, self._schema, self._source)
        for read in together:
            held = [messages[i] for i in read.places]
            decodeds.append(self._told(read.decoded, held, read.rows, read.first))
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
                    decodeds.append(Decoded(None, dead))
                if events is not None:
                    alike.setdefault(str(events.schema), []).append((place, events))
        for group in alike.values():
            batch = concatenate([events for _, events in group])
            sizes = [events.num_rows for _, events in group]
            rows = np.repeat([place for place, _ in group], sizes)
            positions = batch.column("@position").to_numpy()
            decodeds.append(Decoded(self._marked(batch, messages, rows, positions), None))
        return decodeds

    def _one(self, message: Message) -> Iterator[Decoded]:
        source = self._name(message)
        for events, dead, _ in self._form.decode_bytes(message.data, self._schema, self._source):
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
            for bounds in zip(*((message.first, message.last) for message in messages), strict=True)
        )
        value: Ints = pc.coalesce(claimed.view(pa.int64()), pa.array(stamps)).to_numpy()
        self._outside[STAMPS_BEHIND] += int((value < first).sum())
        self._outside[STAMPS_AHEAD] += int((value > last).sum())
        bounded: Ints = np.clip(value, first, last)
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


@dataclass(frozen=True)
class Subscription:
    """What to read, and how.

    Attributes:
      name: projects/P/subscriptions/S.
      ack_seconds: its ack deadline.
      slack: microseconds until a published message can be pulled, at most.
      timestamp: attribute that says when a message arrived, in place of its publish time: RFC 3339,
        or milliseconds since 1970.
      behind, ahead: wall microseconds that a stamp may lie before and after the publish time; 0
        where nothing but the publish time says when events arrived.
      stream: what wall time stands for. host: an emulator; None is Google's.
    """

    name: str
    ack_seconds: int = 10
    slack: int = 500_000
    timestamp: str | None = None
    behind: int = 0
    ahead: int = 0
    stream: StreamTime = PRESENT
    host: str | None = None

    @property
    def earliest(self) -> StreamTime:
        """Wall time of a publication -> the earliest arrival that its events may have."""
        return replace(self.stream, started=self.stream.started + self.behind)

    def message(self, id: str, data: bytes, attributes: Mapping[str, str], wall: int) -> Message:
        """A message as the decoder takes it. wall: microseconds since 1970 of its publication."""
        first, last = FIRST, LAST
        if self.stream == PRESENT:
            first, last = _time(wall - self.behind), _time(wall + self.ahead)
        claimed = None
        if self.timestamp is not None:
            claimed = read_stamp(attributes.get(self.timestamp))
        if claimed is None:
            return Message(id, data, _time(self.stream.at(wall)), first, last)
        counters.add(STAMPS_BEHIND, int(claimed < first))
        counters.add(STAMPS_AHEAD, int(claimed > last))
        return Message(id, data, min(max(claimed, first), last), first, last)


def _time(moment: int) -> int:
    """The nearest moment that is a time."""
    return min(max(moment, FIRST), LAST)


def read_stamp(text: str | None) -> int | None:
    """RFC 3339, or milliseconds since 1970 -> microseconds since 1970; None if it is neither."""
    if not text:
        return None
    try:
        if text.lstrip("-").isdigit():
            result = int(text) * 1000
        else:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                return None
            result = int(moment.timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None
    return result if FIRST <= result <= LAST else None
