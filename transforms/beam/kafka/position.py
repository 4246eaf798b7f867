"""What a reader of Kafka keeps between its calls: the next offset of each of its partitions.

Offsets have holes (aborted records, control records, compaction), so what is kept is the offset to
read next, and never a count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from apache_beam import coders
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.transforms.core import RestrictionProvider


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


class PositionCoder(coders.Coder):
    """JSON with sorted names."""

    def encode(self, value: TopicPosition) -> bytes:
        """To bytes."""
        offsets = {str(partition): value.offsets[partition] for partition in sorted(value.offsets)}
        fields = {"done": value.done, "offsets": offsets, "topic": value.topic}
        return json.dumps(fields, separators=(",", ":")).encode()

    def decode(self, encoded: bytes) -> TopicPosition:
        """From bytes."""
        fields = json.loads(encoded)
        offsets = {int(partition): offset for partition, offset in fields["offsets"].items()}
        return TopicPosition(fields["topic"], offsets, fields["done"])

    def is_deterministic(self) -> bool:
        """The same position always gives the same bytes."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class PositionTracker(RestrictionTracker):
    """Splits off what follows the offsets that were claimed; one reader stays one reader."""

    def __init__(self, position: TopicPosition) -> None:
        self._position = position
        self._split = False

    def current_restriction(self) -> TopicPosition:
        """The position, done once the call ended or was split."""
        return self._position

    def try_claim(self, position: TopicPosition | None) -> bool:
        """Claims all up to a position; ``None`` claims that nothing follows."""
        if self._split or self._position.done:
            return False
        self._position = replace(self._position, done=True) if position is None else position
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[TopicPosition, TopicPosition] | None:
        """At fraction 0, what a runner asks for when a call ends; nowhere else."""
        if fraction_of_remainder != 0 or self._split or self._position.done:
            return None
        self._split = True
        rest = self._position
        self._position = replace(rest, done=True)
        return self._position, rest

    def check_done(self) -> bool:
        """Raises ValueError if the call ended with neither a split nor an end."""
        if not self._position.done:
            raise ValueError("a call of a reader was neither split nor ended.")
        return True

    def current_progress(self) -> RestrictionProgress:
        """All or half: a stream has no length."""
        return RestrictionProgress(fraction=1.0 if self._position.done else 0.5)

    def is_bounded(self) -> bool:
        """A stream is not."""
        return False


class PositionProvider(RestrictionProvider):
    """Restrictions of a reader; its element is its number among the readers."""

    def initial_restriction(self, element: str) -> TopicPosition:
        """Before the first look at the topic."""
        return TopicPosition()

    def create_tracker(self, restriction: TopicPosition) -> PositionTracker:
        """See PositionTracker."""
        return PositionTracker(restriction)

    def restriction_size(self, element: str, restriction: TopicPosition) -> int:
        """Nothing is known: one."""
        return 1

    def restriction_coder(self) -> PositionCoder:
        """See PositionCoder."""
        return PositionCoder()

    def truncate(self, element: str, restriction: TopicPosition) -> None:
        """A drain reads nothing more: offsets say where it stopped."""
        return None


__all__ = ["TopicPosition", "PositionCoder", "PositionProvider", "PositionTracker"]
