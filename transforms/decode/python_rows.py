"""Fields of Python values -> canonical batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weir.transforms.decode.canonical import Decoded, assemble
from weir.transforms.decode.mappings import columns_of
from weir.transforms.decode.schema import EventSchema
from weir.transforms.runtime.dead_letters import dead_letters

SOURCE = "rows"


def decode_rows(
    held: Sequence[dict[str, Any] | None], first: int, schema: EventSchema
) -> Iterator[Decoded]:
    """Fields of events -> batches; None is no event. first: position of the first."""
    events = [event for event in held if event is not None]
    good = np.array([event is not None for event in held], dtype=bool)
    positions = np.arange(first, first + len(held), dtype=np.int64)
    if len(events) < len(held):
        yield Decoded(None, dead_letters(SOURCE, positions[~good], "malformed"))
    if events:
        columns, spoilt = columns_of(events, schema)
        yield assemble(columns, positions[good], schema, SOURCE, spoilt)
