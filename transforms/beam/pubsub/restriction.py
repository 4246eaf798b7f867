"""What a reader of Pub/Sub keeps between its calls: how many there were, and whether it is done.

There is no position: the server knows what was read. The number only tells a reader that goes on
from one that was set back by a restart (see pubsub_reader).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from apache_beam import coders
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.transforms.core import RestrictionProvider


class Turn(NamedTuple):
    """One call of a reader.

    Attributes:
      number: from 0.
      done: no call follows.
    """

    number: int
    done: bool


class TurnCoder(coders.Coder):
    """Nine bytes."""

    _FORM = struct.Struct("<q?")

    def encode(self, value: Turn) -> bytes:
        """To bytes."""
        return self._FORM.pack(*value)

    def decode(self, encoded: bytes) -> Turn:
        """From bytes."""
        return Turn(*self._FORM.unpack(encoded))

    def is_deterministic(self) -> bool:
        """The same turn always gives the same bytes."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class TurnTracker(RestrictionTracker):
    """Splits off the turns that follow, never the one that runs: one reader stays one reader."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._split = False

    def current_restriction(self) -> Turn:
        """The turn, done once it ended or was split."""
        return self._turn

    def try_claim(self, position: object) -> bool:
        """Claims another pull; ``None`` claims that there will be none."""
        if self._split or self._turn.done:
            return False
        if position is None:
            self._turn = self._turn._replace(done=True)
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Turn, Turn] | None:
        """At fraction 0, what the runner asks for when a call ends; nowhere else."""
        if fraction_of_remainder != 0 or self._split or self._turn.done:
            return None
        self._split = True
        rest = Turn(self._turn.number + 1, False)
        self._turn = self._turn._replace(done=True)
        return self._turn, rest

    def check_done(self) -> bool:
        """Raises ValueError if the turn ended with neither a split nor an end."""
        if not self._turn.done:
            raise ValueError(f"turn {self._turn.number} of a reader was neither split nor ended.")
        return True

    def current_progress(self) -> RestrictionProgress:
        """All or half: a stream has no length."""
        return RestrictionProgress(fraction=1.0 if self._turn.done else 0.5)

    def is_bounded(self) -> bool:
        """A stream is not."""
        return False


class TurnProvider(RestrictionProvider):
    """Restrictions of a reader; its element is its number among the readers."""

    def initial_restriction(self, element: str) -> Turn:
        """The first turn."""
        return Turn(0, False)

    def create_tracker(self, restriction: Turn) -> TurnTracker:
        """See TurnTracker."""
        return TurnTracker(restriction)

    def restriction_size(self, element: str, restriction: Turn) -> int:
        """Nothing is known: one."""
        return 1

    def restriction_coder(self) -> TurnCoder:
        """See TurnCoder."""
        return TurnCoder()

    def truncate(self, element: str, restriction: Turn) -> None:
        """A drain reads nothing more: what is not acknowledged stays with the server."""
        return None
