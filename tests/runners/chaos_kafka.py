"""Kafka on Flink: the whole set of what may happen to a stream. Started by ``make chaos``."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

from tests.runners.besieged import HOUR_A_SECOND
from tests.runners.jobs import differences, differences_until, last_tick, on
from tests.runners.messages import Pace
from tests.runners.recording import Recording
from tests.runners.test_replaced import detached, live, refused, stop, third_worker
from tests.runners.topics import LINES, Feed, Topic, besieged_topic, over_topic
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.runners.state_folder import StateFolder


def test_a_stream_survives_the_death_of_each_of_its_parts(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """Transactions are aborted and a partition is added meanwhile."""
    recording = Recording(ticks=120)
    with besieged_topic(
        flink_cluster, kafka_broker, recording, tmp_path, 1, led=True, fed=True
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


def test_many_jobs_one_after_the_other_release_what_one_would_have(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    """A second job on the same output, two workers, one, three, and an older savepoint."""
    recording = Recording("sums", ticks=900, events=40_000)
    pace = Pace.soon(5, HOUR_A_SECOND)
    topic = Topic(kafka_broker, "replaced", 3)
    feed = Feed(topic, recording, pace)
    feed.start()
    often = "engine: {checkpoint_every: 1s}\n"
    job = over_topic(tmp_path, recording, topic, pace, ", readers: 3", every=1, extra=often)
    state = StateFolder(str(tmp_path / ".weir" / "rehearsal"))
    with third_worker(flink_cluster):
        with job.start("flink", *on(flink_cluster)) as client:
            client.until(lambda: last_tick(job) >= 1)
            second = refused(job, flink_cluster, 2, "--parallelism=1")
            assert "--resume is missing" in " ".join(second.split())
            stop(client)
        savepoint = state.latest()
        assert savepoint is not None and "savepoint" in savepoint
        for workers in (1, 3):
            fresh = detached(job, flink_cluster, "--resume", f"--parallelism={workers}")
            assert live(flink_cluster) == [(fresh, workers)]
        flags = f"--flink-master={flink_cluster.master}", "--parallelism=2"
        with job.start("flink", "--resume", savepoint, *flags) as client:
            client.until(lambda: [count for _, count in live(flink_cluster)] == [2])
            taken = last_tick(job)
            client.until(lambda: last_tick(job) > taken + 10)
            stop(client)
            counted = json.loads(client.told)["operator"]
    feed.stop()
    last, cells = last_tick(job), job.cells()
    assert last > taken + 10
    assert not differences_until(last, cells, recording.releases)
    assert not {"overdue", "divergent"} & counted.keys()


def test_records_that_retention_removed_during_an_outage_are_refused_by_name(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    recording = Recording("sums", ticks=900)
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
        assert running.wait(180) == 1, running.account
        said = " ".join(running.text.split())
        assert f"of topic {topic.name} begins at offset" in said, said[-3000:]
    assert job.cells() == before, "something was published past the gap"


def test_a_topic_that_is_deleted_ends_the_job_with_its_cause(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    recording = Recording("sums", ticks=900)
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
        assert siege.client.wait(90) == 1, siege.client.account
        said = " ".join(siege.client.text.split())
        assert f"topic {topic.name} was deleted and created again" in said, said[-3000:]
        flink_cluster.rest.wait_for(siege.id, "CANCELED", "FAILED", seconds=20)
    before = job.cells()
    expected = {cell: recording.releases[cell] for cell in before}
    assert not differences(before, expected), "what was published is not of the records"
    time.sleep(2)
    assert job.cells() == before
