"""What a run owes by its plan, and did not release: a job that ends well has lost nothing."""

from __future__ import annotations

from collections.abc import Mapping

from weir.dpcore.plan import Plan
from weir.pipelines.sinks.sink import Sink
from weir.pipelines.terminal import count


def owed(sink: Sink, plan: Plan, counters: Mapping[str, int]) -> str | None:
    """What is missing of the releases of a clock with an end; None: nothing, or nobody can tell.

    Args:
      sink: is looked into; of one that cannot be, the counters tell what was on its way there.
      counters: of the whole run. One without ticks has a runner that does not tell.
    """
    ticks, blocks = plan.clock.ticks, len(plan.keys.live_blocks)
    if ticks is None:
        return None
    missing = sink.missing(plan)
    if missing:
        return (
            f"{count(len(missing), 'file')} of releases {'is' if len(missing) == 1 else 'are'} "
            f"not in {sink.named}, the first of them {missing[0]}"
        )
    released = counters.get("ticks_released", 0)
    if missing is None and 0 < released < ticks * blocks:
        short = ticks * blocks - released
        of = f"{ticks * blocks:,} ticks (of {count(blocks, 'block')} of keys)"
        return f"of {of} {short:,} never came"
    return None
