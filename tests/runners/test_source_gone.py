"""A subscription that is deleted under a stream ends its job, and everybody is told why."""

from __future__ import annotations

import itertools
import time
from pathlib import Path

from tests.runners.jobs import on
from tests.runners.live import Device, Live
from tests.runners.messages import Post
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

TICKS = 300


def test_a_subscription_that_is_replaced_ends_the_job_with_its_cause(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    with Post(pubsub_server.host, "gone") as post:
        job = Live(tmp_path, post, TICKS)
        device = Device(post, "device", 0.1, itertools.repeat((None, None)))
        with job.launch("flink", *on(flink_cluster)) as running:
            running.until((job.state / "_job.json").exists, 120)  # else its messages are a backlog
            (id,) = [str(entry["jid"]) for entry in flink_cluster.rest.jobs(live=True)]
            with device.sending():
                running.until(lambda: job.files() >= 3, 120)
                post.subscriber.delete_subscription(subscription=post.subscription)
                time.sleep(3)
                post.subscribe("in")
                assert running.wait(60) == 1, running.account
            assert f"{post.subscription} answered NOT_FOUND" in running.text.replace("\n", " ")
        flink_cluster.rest.wait_for(id, "CANCELED", "FAILED", seconds=20)
        before = job.files()
        time.sleep(2)
        assert job.files() == before
