"""Partial leaves where every step is in this process: kept aside, a name in their place.

The name begins as encoded leaves do, with the range of ticks, so that whoever only keeps it for its
ticks reads both alike.
"""

from __future__ import annotations

import numpy as np

from weir.transforms.operators import partial_sums as partial
from weir.transforms.operators.partial_sums import PartialLeaf
from weir.transforms.runtime.aside import Aside
from weir.transforms.runtime.codec import kind_of, pack, unpack

KIND = b"I"
Kept = Aside[PartialLeaf, None]


def opened(run: str) -> Kept:
    """What this process keeps aside of a run."""
    return Aside.of(run, type(None))


def put_aside(leaf: PartialLeaf, run: str) -> bytes:
    """Keeps a leaf, as narrow as its numbers are. Returns what stands for it, for ``taken``."""
    span = np.array([leaf.ticks[0], leaf.ticks[-1]], dtype=np.int64)
    ticks, rows, counts = map(partial.narrow, leaf[:3])
    values = leaf.values
    if leaf.is_summed and (least := partial.narrow(values)).dtype != np.int32:
        values = least  # four bytes would be the mark of events that are not summed
    name = opened(run).put(PartialLeaf(ticks, rows, counts, values, leaf.names))
    return pack(KIND, [span, *(np.frombuffer(text, np.uint8) for text in (run.encode(), name))])


def taken(data: bytes) -> PartialLeaf:
    """A leaf from its bytes, or from aside, where it is then no more.

    Raises:
      CodecError: damaged bytes; it is not there.
    """
    if kind_of(data) != KIND:
        return partial.decode(data)
    _, run, name = unpack(KIND, data)
    return opened(run.tobytes().decode()).take(name.tobytes())
