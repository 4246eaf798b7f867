"""A stream on a Flink cluster that is there in time, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.runners.fitting import Fitting
from tests.runners.kills import Siege
from tests.runners.messages import Pace, Post, over_messages
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster

HOUR_A_SECOND = 3600.0
LEADS = (45, 240)
"""Seconds from `weir run` to the start of the clock: by then the job must be there. On a machine
that is too busy for the first, the second is tried."""


@contextmanager
def besieged(
    cluster: FlinkCluster,
    host: str,
    recording: Recording | Fitting,
    folder: Path,
    every: int,
    speed: float = HOUR_A_SECOND,
    published: bool = False,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    extra: str = "",
) -> Iterator[tuple[Siege, Post]]:
    """A job that runs and has a checkpoint before its clock starts and any message is there.

    Args:
      host: of the Pub/Sub server. every: ticks of a file. speed: of the stream.
      extra: sections of the config.
      published: into the topic ``out`` of the post, in place of files; it has a subscription.
      flags, environment: for ``weir run``.
    """
    often = f"engine: {{checkpoint_every: 2s}}\n{extra}"
    for lead in LEADS:
        pace = Pace.soon(lead, speed)
        with Post(host, "besieged") as post:
            place = folder / str(lead)
            job = over_messages(
                place,
                recording,
                post,
                pace,
                ", readers: 2",
                every=every,
                extra=often,
                published=f"pubsub: {post.make('out')}" if published else None,
            )
            if published:
                post.subscribe("out")
            with Siege(job, cluster, pace, flags, environment or {}) as siege:
                siege.settle(1)
                if time.time() < pace.started - 5:
                    yield siege, post
                    return
                cluster.rest.cancel(siege.id)
    raise AssertionError(f"no job after {LEADS[-1]} s")
