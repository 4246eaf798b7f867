"""Whether something is released at all, where that tells of events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from tests.audit.twins.twin import behind, config, patched, stepping, twin

COUNT = config("aggregates: {n: {count: events}}")


@contextmanager
def shown_where(which: Callable[[Any], Any]) -> Iterator[None]:
    """Releases leave where the exact count of a key and tick says so: the others have no row."""

    def gated(program: Any) -> Any:
        def after(leaves: Any, noisy: Any) -> Any:
            shown = which(leaves[:, :, :1] * program.channels[0].resolution)
            return tuple(np.where(shown, one, np.nan) for one in noisy)

        return stepping(program, after=after)

    def without(right: Any) -> Any:
        def batch(self: Any, *given: Any) -> Any:
            made = right(self, *given)
            numbers = made.column("value").flatten().to_numpy(zero_copy_only=False)
            return made.filter(pa.array(~np.isnan(numbers)))

        return batch

    with behind(gated), patched("weir.transforms.release.table.ReleaseWriter.batch", without):
        yield


@twin("a silent key skipped", COUNT, "other changes")
def silent_skipped() -> Iterator[None]:
    with shown_where(lambda counts: counts > 0):
        yield


@twin("a tick's releases gated on its exact count", COUNT, "all releases")
def gated_on_count() -> Iterator[None]:
    with shown_where(lambda counts: counts != 2):
        yield
