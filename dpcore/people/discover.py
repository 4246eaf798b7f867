"""How keys are found while their existence is private: the public numbers of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from weir.dpcore.config.discover import MAX_BYTES, MAX_TRACKED, MIN_USERS, SHARE

DELTA = 0.5
"""Of delta, for what keys may tell by being found: 0.1 and 0.9 find a fiftieth fewer keys."""


@dataclass(frozen=True)
class Retire:
    """A key goes once its released count grew by fewer than ``below`` users in each of ``after``
    periods in a row. Public."""

    below: int
    after: int = 1


@dataclass(frozen=True)
class Discover:
    """How keys are found. Public.

    Attributes:
      min_users: n0, distinct users of a period before which a key is not even tested.
      share: of the budget, for the count of users where no aggregate releases it.
      sample: share of all keys that can be found at all, by a keyed hash of their names.
      max_bytes: of a key's name; events of longer ones do not count.
      max_tracked: keys of a block that may wait; the job stops where there are more. No part of
        what is released.
      retire: when a key goes again; None: never.
    """

    min_users: int = MIN_USERS
    share: float = SHARE
    sample: float = 1.0
    max_bytes: int = MAX_BYTES
    max_tracked: int = MAX_TRACKED
    retire: Retire | None = None

    @classmethod
    def of(cls, asked: Mapping[str, Any]) -> Self:
        """What a config says, field by field."""
        retire = asked.get("retire")
        return cls(**{**asked, "retire": None if retire is None else Retire(**retire)})

    def canonical(self) -> dict[str, Any]:
        """Every public number that shapes a release, JSON-able."""
        return {
            "min_users": self.min_users,
            "sample": float(self.sample).hex(),
            "max_bytes": self.max_bytes,
            **({} if self.retire is None else {"retire": asdict(self.retire)}),
        }
