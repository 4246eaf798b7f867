"""What a reader of Kafka keeps between its calls: the next offset of each of its partitions.

Offsets have holes (aborted records, control records, compaction), so what is kept is the offset to
read next, and never a count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from weir.dpcore.errors import in_words
from weir.transforms.beam.restriction import ReaderCoder, ReaderProvider, ReaderTracker


@dataclass(frozen=True)
class TopicPosition:
    """Where a reader stands.

    Attributes:
      topic: id of the topic, "" before the first look at it.
      offsets: partition -> offset to read next.
      done: no call follows.
    """

    topic: str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)
    done: bool = False

    def at(self, offsets: Mapping[int, int]) -> TopicPosition:
        """The same, with some partitions further on."""
        return replace(self, offsets={**self.offsets, **offsets})


class PositionCoder(ReaderCoder):
    """JSON with sorted names."""

    def encode(self, value: TopicPosition) -> bytes:
        """To bytes."""
        offsets = {str(partition): value.offsets[partition] for partition in sorted(value.offsets)}
        fields = {"done": value.done, "offsets": offsets, "topic": value.topic}
        return json.dumps(fields, separators=(",", ":")).encode()

    @in_words
    def decode(self, encoded: bytes) -> TopicPosition:
        """From bytes."""
        fields = json.loads(encoded)
        offsets = {int(partition): offset for partition, offset in fields["offsets"].items()}
        return TopicPosition(fields["topic"], offsets, fields["done"])


class PositionTracker(ReaderTracker):
    """Splits off what follows the offsets that were claimed."""

    def claimed(self, position: TopicPosition) -> TopicPosition:
        """The position itself."""
        return position


class PositionProvider(ReaderProvider):
    """Begins before the first look at the topic."""

    first: ClassVar[TopicPosition] = TopicPosition()
    tracker = PositionTracker
    coder = PositionCoder


__all__ = ["TopicPosition", "PositionCoder", "PositionProvider", "PositionTracker"]
