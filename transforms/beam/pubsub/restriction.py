"""What a reader of Pub/Sub keeps between its calls: how many there were, and whether it is done.

There is no position: the server knows what was read. The number only tells a reader that goes on
from one that was set back by a restart (see pubsub_reader).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar

from weir.dpcore.errors import in_words
from weir.transforms.beam.restriction import ReaderCoder, ReaderProvider, ReaderTracker


@dataclass(frozen=True)
class Turn:
    """One call of a reader.

    Attributes:
      number: from 0.
      done: no call follows.
    """

    number: int
    done: bool


class TurnCoder(ReaderCoder):
    """Nine bytes."""

    _FORM = struct.Struct("<q?")

    def encode(self, value: Turn) -> bytes:
        """To bytes."""
        return self._FORM.pack(value.number, value.done)

    @in_words
    def decode(self, encoded: bytes) -> Turn:
        """From bytes."""
        return Turn(*self._FORM.unpack(encoded))


class TurnTracker(ReaderTracker):
    """Claims pulls, which move nothing, and splits off the turn that follows."""

    def claimed(self, position: object) -> Turn:
        """The same turn: another pull of it."""
        turn: Turn = self._restriction
        return turn

    def rest(self) -> Turn:
        """The next turn."""
        return Turn(self._restriction.number + 1, False)


class TurnProvider(ReaderProvider):
    """Begins with the first turn."""

    first: ClassVar[Turn] = Turn(0, False)
    tracker = TurnTracker
    coder = TurnCoder
