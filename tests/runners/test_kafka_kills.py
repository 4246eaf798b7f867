"""Kafka on Flink: kill -9 of three parts, then a stop, and half of the workers go on.

``chaos_kafka`` has the whole set.
"""

from __future__ import annotations

import signal
from pathlib import Path

from tests.runners.jobs import check_part, differences
from tests.runners.recording import Recording
from tests.runners.topics import besieged_topic
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker


def test_a_stream_survives_three_kills_and_a_stop(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Transactions are aborted and a partition is added meanwhile, and records come while no job is
    there."""
    recording = Recording("learner", ticks=128)
    with besieged_topic(
        flink_cluster, kafka_broker, recording, tmp_path, 1, led=True, fed=True
    ) as (siege, topic, feed):
        assert feed is not None
        siege.settle(1)
        siege.kill_worker(0)
        siege.settle(1)
        kafka_broker.kill()
        siege.kill_taskmanager(1)
        kafka_broker.start()
        topic.grow(5)
        siege.settle(2)
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        siege.client.process.send_signal(signal.SIGINT)
        siege.client.wait()
        assert "--resume" in siege.client.told
        flink_cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
    check_part(job.cells(), recording.releases)
    feed.finish()
    half = f"--flink-master={flink_cluster.master}", "--parallelism=1"
    outcome = job.run("flink", *half, "--resume")
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()
    assert topic.ends()[4] > 0, "nothing came into the partition that was added"
