"""Kafka on Flink: kill -9 of all parts, stop and resume, and what is refused by name."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.runners.jobs import differences, on
from tests.runners.messages import Pace
from tests.runners.recording import Recording
from tests.runners.topics import Feed, Topic, besieged_topic
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker

AHEAD = 28.0
"""Seconds that a record is published before its stamp: a broker may be away for so long."""
LEADS = (32.0, 240.0)
"""Seconds until the clock starts; the second where the machine is too busy for the first."""
LINES = 20


def feed_of(recording: Recording) -> Callable[[Topic, Pace], Feed]:
    """Feeds a recording from before its job on."""
    return lambda topic, pace: Feed(topic, recording, pace, LINES, AHEAD)


def test_a_stream_survives_the_death_of_each_of_its_parts(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Transactions are aborted and a partition is added meanwhile."""
    recording = Recording(ticks=52)
    with besieged_topic(
        flink_cluster, kafka_broker, recording, tmp_path, 1, leads=LEADS, feed_of=feed_of(recording)
    ) as (siege, topic, feed):
        assert feed is not None
        siege.settle(2)
        for number in (0, 1):
            siege.kill_worker(number)
        siege.settle(1)
        kafka_broker.kill()
        siege.kill_taskmanager(0)
        kafka_broker.start()
        topic.grow(5)
        siege.settle(2)
        siege.kill_client()
        siege.kill_jobmanager()
        feed.finish()
        outcome = siege.finish()
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()
    assert topic.ends()[4] > 0, "nothing came into the partition that was added"


def test_stopped_and_resumed_as_if_never_stopped(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Records come while no job is there, and it goes on with half of the workers."""
    recording = Recording("learner")
    with besieged_topic(
        flink_cluster, kafka_broker, recording, tmp_path, 4, leads=LEADS, feed_of=feed_of(recording)
    ) as (siege, _, feed):
        assert feed is not None
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        siege.client.process.send_signal(signal.SIGINT)
        siege.client.wait()
        assert "--resume" in siege.client.told
        flink_cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
    before = job.cells()
    assert before.items() < recording.releases.items()
    feed.finish()
    half = f"--flink-master={flink_cluster.master}", "--parallelism=1"
    outcome = job.run("flink", *half, "--resume")
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()


def test_records_that_retention_removed_during_an_outage_are_refused_by_name(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    recording = Recording("sums", ticks=240)
    values = [data for data, _ in recording.messages(LINES, shuffled=True)]
    with besieged_topic(flink_cluster, kafka_broker, recording, tmp_path, 1, values[:30]) as (
        siege,
        topic,
        _,
    ):
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        siege.client.process.send_signal(signal.SIGINT)
        siege.client.wait()
        flink_cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
    before = job.cells()
    topic.publish(values[30:])
    topic.remove(topic.ends())
    with job.start("flink", *on(flink_cluster), "--resume") as running:
        assert running.wait(180) == 1, running.text[-3000:]
        said = " ".join(running.text.split())
        assert f"of topic {topic.name} begins at offset" in said, said[-3000:]
    assert job.cells() == before, "something was published past the gap"


def test_a_topic_that_is_deleted_ends_the_job_with_its_cause(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    recording = Recording("sums", ticks=240)
    values = [data for data, _ in recording.messages(LINES, shuffled=True)]
    with besieged_topic(flink_cluster, kafka_broker, recording, tmp_path, 1, values) as (
        siege,
        topic,
        _,
    ):
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        topic.delete()
        topic.make()
        assert siege.client.wait(90) == 1, siege.client.text[-3000:]
        said = " ".join(siege.client.text.split())
        assert f"topic {topic.name} was deleted and created again" in said, said[-3000:]
        flink_cluster.rest.wait_for(siege.id, "CANCELED", "FAILED", seconds=20)
    before = job.cells()
    expected = {cell: recording.releases[cell] for cell in before}
    assert not differences(before, expected), "what was published is not of the records"
    time.sleep(2)
    assert job.cells() == before
