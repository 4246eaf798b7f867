"""What a config says of keys that are found in the data while their existence is private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MIN_USERS = 1
MOST = 1 << 18
LONGEST = 256
SHARE = 0.6
"""Of mu^2, where the count that keys are found by is not released: 0.5 to 0.7 are alike."""
DELTA = 0.5
"""Of delta, for what keys may tell by being found: 0.1 and 0.9 find a fiftieth fewer keys."""


@dataclass(frozen=True)
class Discover:
    """How keys are found. Public.

    Attributes:
      min_users: n0, distinct users of a period before which a key is not even tested.
      share: of the budget, for the count of users where no aggregate releases it.
      sample: share of all keys that can be found at all, by a keyed hash of their names.
      longest: bytes of a key's name; events of longer ones do not count.
      most: keys of a block that may wait; the job stops where there are more. No part of what is
        released.
    """

    min_users: int = MIN_USERS
    share: float = SHARE
    sample: float = 1.0
    longest: int = LONGEST
    most: int = MOST

    def canonical(self) -> dict[str, Any]:
        """Every public number that shapes a release, JSON-able."""
        return {
            "min_users": self.min_users,
            "sample": float(self.sample).hex(),
            "longest": self.longest,
        }
