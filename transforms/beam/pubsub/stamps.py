"""When a message arrived, as its sender says and within what the server knows of it.

A sender may say in an attribute, or in a column of its events, when they arrived. Its clock may be
wrong. So every such stamp is bounded by the publish time, which the server set: at most ``behind``
before it and at most ``ahead`` after it, else the nearest moment inside counts. That is a public
rule on one record alone: every reader, runner and repeat decides alike. In a replay messages are
published again, at other times than when the events arrived: there stamps are taken as they are, as
a run over files does. The watermark follows publish times less ``behind`` everywhere, so that no
stamp can hold it or move it on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from weir.transforms.decode.epoch import FIRST, LAST
from weir.transforms.decode.messages import STAMPS_AHEAD, STAMPS_BEHIND, Message
from weir.transforms.runtime import counters
from weir.transforms.runtime.stream_time import PRESENT, StreamTime


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
            found = int(text) * 1000
        else:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                return None
            found = int(moment.timestamp() * 1e6)
    except (ValueError, OverflowError):
        return None
    return found if FIRST <= found <= LAST else None


__all__ = ["Subscription", "read_stamp"]
