"""Ids as versions before stored them: one cell a shard, in eight shards.

They move into slices where a job keeps eight shards, and are refused by name where it does not: a
shard can write to its own state only.
"""

from __future__ import annotations

import numpy as np

from weir.dpcore.errors import CodecError
from weir.dpcore.leaves.timed_set import Entries, entries
from weir.transforms.runtime.coders import unpack
from weir.transforms.select.seen_ids import NO_TICK

KIND = b"D"
SHARDS = 8


def old_entries(
    data: bytes, layout: bytes, shard: int, shards: int, horizon: int | None
) -> Entries:
    """What a cell of the old form holds.

    Args:
      data: of the cell. layout: 32 bytes: state belongs to it.
      shard: whose cell it is. shards, horizon: of the job that reads it.

    Raises:
      CodecError: of another plan; of other shards; kept for ever where this job forgets ids, or
        the other way round.
    """
    if shards != SHARDS:
        raise CodecError(
            f"the ids of shard {shard} are stored in the form of an earlier version, which had "
            f"{SHARDS} shards, and this job has {shards}: go on with deduplicate.shards: {SHARDS}."
        )
    high, low, ticks = unpack(KIND, data, layout)
    kept_for_ever = len(ticks) != len(high)
    if len(high) and kept_for_ever != (horizon is None):
        raise other_horizon(kept_for_ever)
    return entries(high, low, ticks if horizon is not None else np.zeros(len(high), NO_TICK))


def other_horizon(kept_for_ever: bool) -> CodecError:
    """Ids are stored with ticks by which they are forgotten, or without any."""
    if kept_for_ever:
        return CodecError(
            "ids are stored that this stream was to remember for ever: go on without "
            "deduplicate.horizon, as it was begun."
        )
    return CodecError(
        "ids are stored that this stream was to forget: go on with the deduplicate.horizon with "
        "which it was begun."
    )
