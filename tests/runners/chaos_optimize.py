"""Models by private optimisation on Flink: wide lists in one pass, and windows, through a death."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tests.runners.jobs import last_tick
from tests.runners.kills import eventually
from tests.runners.messages import Pace, Post, over_messages
from tests.runners.optimizing import KEYS, MODELS, Optimizing, released
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

SPEED = 3600.0
"""A tick of an hour takes a second."""
EARLY = (0, 3)
"""Ticks of the events that are there before the deaths."""
AHEAD = 8
"""Ticks from the deaths to the next events: they are published before their ticks are over."""


def test_both_go_on_after_the_death_of_every_taskmanager(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    """Side by side, each job in a slot of its own, half of the events before and half after."""
    rest, jobs, posts = flink_cluster.rest, {}, {}
    with ExitStack() as stack:
        pace = Pace.soon(5, SPEED)
        for name in MODELS:
            posts[name] = post = stack.enter_context(Post(pubsub_server.host, "optimize"))
            stream, often = Optimizing(name, (EARLY,)), "engine: {checkpoint_every: 1s}\n"
            jobs[name] = over_messages(tmp_path / name, stream, post, pace, every=1, extra=often)
            post.publish(data for data, _ in stream.messages(10))
            flags = f"--flink-master={flink_cluster.master}", "--parallelism=1"
            stack.enter_context(jobs[name].start("flink", *flags))

        def all_at(tick: int) -> Callable[[], bool]:
            return lambda: all(last_tick(job) >= tick for job in jobs.values())

        eventually(all_at(EARLY[1] + 1), 180, "models of the first events")
        for number in (0, 1):
            flink_cluster.kill_taskmanager(number)
            flink_cluster.start_taskmanager(number, wait=False)
        late = int((time.time() - pace.started) * SPEED / 3600) + AHEAD
        spans = EARLY, (late, late + 3)
        streams = {name: Optimizing(name, spans) for name in MODELS}
        for name, stream in streams.items():
            posts[name].publish(data for data, _ in stream.messages(10, half=1))
        eventually(all_at(late + 4), 180, "models of the last events")
        for job in rest.jobs(live=True):
            rest.stop(job["jid"], drain=True)
            rest.wait_for(job["jid"], "FINISHED")
    for name, job in jobs.items():
        found, last = released(job.out), last_tick(job)
        want = streams[name].releases(last + 1)
        assert found.keys() == want.keys()
        for cell, value in want.items():
            assert np.array_equal(found[cell], value), cell
        for key in KEYS:
            theta = [want[tick, key, "theta"] for tick in (EARLY[1], late - 1, last)]
            assert theta[0] == theta[1] != theta[2] and theta[0], "nothing is learned"
