"""``weir run --publish``: moves what a run over files held back into place. Reads no data."""

from __future__ import annotations

import time
from pathlib import Path

from weir.dpcore.errors import ConfigError
from weir.pipelines.graph.parts import Parts
from weir.pipelines.ledger.entries import OutputPlace, noted_in
from weir.pipelines.ledger.rules import refuse_uncounted
from weir.pipelines.results.verdict import Result
from weir.pipelines.terminal import count


def publish(parts: Parts) -> Result:
    """Publishes a run that is held back, and says what is there. A ledger that the config names
    must count it.

    Stopped in the middle, the same command goes on.

    Raises:
      ConfigError: nothing is held, the run is not over, or the folder is of another plan, complete
        or none of ours.
      WeirError: a file is in place already, and differs from the one that is held.
    """
    plan, sink, began = parts.plan, parts.sink, time.monotonic()
    if parts.streaming:
        raise ConfigError(
            "--publish",
            None,
            "is for runs over files into a folder; a stream publishes as it goes.",
        )
    if parts.ledger is not None:
        place = OutputPlace.of(sink)
        refuse_uncounted(parts.ledger, plan, place.name, noted_in(place))
    moved = sink.publish(plan)
    return Result(
        plan=plan,
        folder=None if sink.place is None else Path(sink.place),
        sink=sink.named,
        counters={},
        seconds=time.monotonic() - began,
        fresh_secret=False,
        notes=(f"Held back until now, and published: {count(moved, 'file')}.",),
    )
