"""kill -9 of every part of a running stream: nothing lost, nothing twice, the same bits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.runners.besieged import besieged
from tests.runners.jobs import differences
from tests.runners.kills import eventually
from tests.runners.messages import Post, Publisher
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.runners.ending import is_over


def wait_for_pulls(server: PubSubServer, post: Post, more: int, deadline: float) -> None:
    """Returns when so many more messages have gone out."""
    enough = server.counts(post.topic)["deliveries"] + more
    eventually(lambda: server.counts(post.topic)["deliveries"] >= enough, deadline, "pulls")


def test_a_stream_survives_the_death_of_each_of_its_parts(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    recording = Recording(ticks=60)
    with besieged(flink_cluster, pubsub_server.host, recording, tmp_path, 1) as (siege, post):
        publisher = Publisher(post, recording, siege.pace, 10)
        publisher.start()
        for more in (1, 100):  # soon, and when checkpoints and pulls have got in step
            wait_for_pulls(pubsub_server, post, more, siege.ahead + 60)
            for number in (0, 1):  # one of them has what was pulled, and no checkpoint has it
                siege.kill_worker(number)
            siege.settle(2)
        siege.kill_taskmanager(0)
        siege.settle(2)
        siege.kill_client()
        siege.settle(1)
        siege.kill_jobmanager()
        publisher.finish()
        outcome = siege.finish()
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()
    assert Counter(letter["reason"] for letter in siege.job.letters())["overdue"] == 0
    counts = pubsub_server.counts(post.topic)
    assert counts["deliveries"] > counts["messages"], "no message came a second time"
    assert counts["unacked"] == 0


def test_a_stream_that_was_over_when_all_died_ends_after_a_resume(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    recording = Recording(ticks=12)
    with besieged(flink_cluster, pubsub_server.host, recording, tmp_path, 1) as (siege, post):
        post.publish(data for data, _ in recording.messages(10, shuffled=True))
        siege.kill_client()
        eventually(lambda: is_over(flink_cluster.rest, siege.id), 400, "the end of the stream")
        siege.settle(2)
        siege.kill_jobmanager()
        outcome = siege.finish()
    assert not differences(outcome.cells, recording.releases)
    assert pubsub_server.counts(post.topic)["unacked"] == 0
