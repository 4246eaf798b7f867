"""What a job adds to the promise of its plan: facts that shape no noise."""

from __future__ import annotations

from dataclasses import dataclass

from weir.dpcore.errors import ConfigError

SHARDS = 8
"""Shards of ids where a job does not say."""
USER_SHARDS = 256
"""Shards of users on a stream where a job does not say."""
MOST_SHARDS = 4096


@dataclass(frozen=True)
class Circumstances:
    """Facts about how a plan is run. No release and no digest depends on them.

    Attributes:
      id_horizon: ticks of the clock after which the id of an event is forgotten, so that a copy of
        a later tick counts as an event of its own; None: ids are remembered for the whole run.
      id_shards: over how many pieces of state ids, or users, are spread; stored state hangs on it.
      limits: sentences that say what else the promise leaves open, in the order of the statement.
    """

    id_horizon: int | None = None
    limits: tuple[str, ...] = ()
    id_shards: int = SHARDS

    def __post_init__(self) -> None:
        if self.id_horizon is not None and self.id_horizon < 1:
            raise ConfigError(
                "deduplicate.horizon", self.id_horizon, "must be at least one tick of the clock."
            )
        if not 1 <= self.id_shards <= MOST_SHARDS:
            raise ConfigError(
                "deduplicate.shards", self.id_shards, f"must be from 1 to {MOST_SHARDS:,}."
            )


NONE = Circumstances()
"""Ids are remembered for the whole run, and nothing else is to be said."""
