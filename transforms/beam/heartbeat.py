"""A heartbeat: which ticks are over, as bytes."""

from __future__ import annotations

import numpy as np

from weir.dpcore.errors import in_words
from weir.transforms.runtime.codec import kind_of, pack, unpack

KIND = b"H"


def encode(last_tick: int) -> bytes:
    """A heartbeat's payload."""
    return pack(KIND, [np.array([last_tick], dtype=np.int64)])


@in_words
def decode(data: bytes) -> int:
    """The last announced tick."""
    return int(unpack(KIND, data)[0][0])


def is_heartbeat(data: bytes) -> bool:
    """Whether a payload is a heartbeat; else it is a partial leaf."""
    return kind_of(data) == KIND
