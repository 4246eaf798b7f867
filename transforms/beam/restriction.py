"""What every reader of a stream keeps between its calls, as a restriction of Beam's.

A restriction is a frozen dataclass with a field ``done``: no call follows. One reader stays one
reader: only what follows a call is split off, when it ends, and never a part of it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar

from apache_beam import coders
from apache_beam.io.iobase import RestrictionProgress, RestrictionTracker
from apache_beam.transforms.core import RestrictionProvider


class ReaderCoder(coders.Coder):
    """Codes restrictions of one kind. A subclass encodes and decodes."""

    def is_deterministic(self) -> bool:
        """The same restriction always gives the same bytes."""
        return True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class ReaderTracker(RestrictionTracker):
    """Splits off what follows. A subclass says what a claim moves, and what is left after one."""

    def __init__(self, restriction: Any) -> None:
        self._restriction = restriction
        self._split = False

    def current_restriction(self) -> Any:
        """The restriction, done once the call ended or was split."""
        return self._restriction

    @abstractmethod
    def claimed(self, position: Any) -> Any:
        """The restriction after all up to a position was claimed."""

    def rest(self) -> Any:
        """What follows this call."""
        return self._restriction

    def try_claim(self, position: Any) -> bool:
        """Claims all up to a position; ``None`` claims that nothing follows."""
        if self._split or self._restriction.done:
            return False
        end = position is None
        self._restriction = self._ended() if end else self.claimed(position)
        return True

    def try_split(self, fraction_of_remainder: float) -> tuple[Any, Any] | None:
        """At fraction 0, what a runner asks for when a call ends; nowhere else."""
        if fraction_of_remainder != 0 or self._split or self._restriction.done:
            return None
        self._split = True
        rest = self.rest()
        self._restriction = self._ended()
        return self._restriction, rest

    def _ended(self) -> Any:
        return replace(self._restriction, done=True)

    def check_done(self) -> bool:
        """Raises ValueError if the call ended with neither a split nor an end."""
        if not self._restriction.done:
            raise ValueError("a call of a reader was neither split nor ended.")
        return True

    def current_progress(self) -> RestrictionProgress:
        """All or half: a stream has no length."""
        return RestrictionProgress(fraction=1.0 if self._restriction.done else 0.5)

    def is_bounded(self) -> bool:
        """A stream is not."""
        return False


class ReaderProvider(RestrictionProvider):
    """Restrictions of a reader; its element is its number among the readers.

    A subclass states:
      first: the restriction of a new stream. tracker, coder: of its kind.
    """

    first: ClassVar[Any]
    tracker: ClassVar[type[ReaderTracker]]
    coder: ClassVar[type[ReaderCoder]]

    def initial_restriction(self, element: str) -> Any:
        """That of a new stream."""
        return self.first

    def create_tracker(self, restriction: Any) -> ReaderTracker:
        """See ReaderTracker."""
        return self.tracker(restriction)

    def restriction_size(self, element: str, restriction: Any) -> int:
        """Nothing is known: one."""
        return 1

    def restriction_coder(self) -> ReaderCoder:
        """See ReaderCoder."""
        return self.coder()

    def truncate(self, element: str, restriction: Any) -> None:
        """A drain reads nothing more: the server knows what was read, or the restriction does."""
        return None


__all__ = ["ReaderCoder", "ReaderProvider", "ReaderTracker"]
