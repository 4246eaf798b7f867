"""A stream on a Flink cluster that is there in time, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.runners.fitting import Fitting
from tests.runners.kills import Lead, Siege
from tests.runners.messages import Pace, Post, over_messages
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster

HOUR_A_SECOND = 3600.0


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
    for attempt in range(3):
        pace = Pace.soon(Lead.seconds, speed)
        with Post(host, "besieged") as post:
            place = folder / str(attempt)
            began = time.time()
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
                in_time = time.time() < pace.started - Lead.MARGIN
                Lead.learn(time.time() - began)
                if in_time:
                    yield siege, post
                    return
    raise AssertionError("no job in time")


def behind(
    cluster: FlinkCluster,
    post: Post,
    recording: Recording,
    folder: Path,
    every: int,
    speed: float,
) -> Siege:
    """A job whose messages are all there before its clock starts, which is before the job is there.

    It may come as late as it likes: ticks that are over by then are stepped at once.

    Args: as of ``besieged``. post: of this test alone.
    """
    messages = [data for data, _ in recording.messages(20, shuffled=True)]
    pace = Pace.soon(10, speed)
    post.publish(messages)
    assert time.time() < pace.started, "published too late"
    often = "engine: {checkpoint_every: 2s}\n"
    job = over_messages(folder, recording, post, pace, ", readers: 2", every=every, extra=often)
    return Siege(job, cluster, pace)
