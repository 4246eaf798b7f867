"""Corners of Flink: another backend without a cache of state, and a job that nobody waits for."""

from __future__ import annotations

import time
from pathlib import Path

from tests.runners.besieged import HOUR_A_SECOND, besieged
from tests.runners.jobs import check_part, differences, on
from tests.runners.kills import eventually
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

LINES = 20
INCREMENTAL = {"state.backend.type": "rocksdb", "state.backend.incremental": True}
UNCACHED = "--max_cache_memory_usage_mb=0"
END = 120.0
"""Seconds in which a job that is over has ended itself."""


def test_rocksdb_in_increments_and_no_cache_give_the_same_bits(
    pubsub_server: PubSubServer, job_server_jar: Path, tmp_path: Path
) -> None:
    """Crashed and resumed from an increment, with every cell of state read from Flink."""
    recording, host = Recording("sums"), pubsub_server.host
    variables = {"PUBSUB_EMULATOR_HOST": host}
    with (
        FlinkCluster(environment=variables, settings=INCREMENTAL) as cluster,
        besieged(cluster, host, recording, tmp_path, 4, flags=[UNCACHED]) as (siege, post),
    ):
        job = siege.job
        told = cluster.rest.get(f"/jobs/{siege.id}/checkpoints/config")
        assert "RocksDB" in told["state_backend"], told
        post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        siege.kill_client()
        cluster.rest.cancel(siege.id)
        cluster.rest.wait_for(siege.id, "CANCELED")
        check_part(job.cells(), recording.releases)
        outcome = job.run("flink", *on(cluster), "--resume", UNCACHED)
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()


def test_a_job_whose_client_died_ends_itself(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    recording, speed = Recording("sums"), 2 * HOUR_A_SECOND
    host = pubsub_server.host
    with besieged(flink_cluster, host, recording, tmp_path, 4, speed) as (siege, post):
        post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
        siege.kill_client()
        done = siege.job.out / "_COMPLETE"
        last = siege.pace.wall_of_tick(recording.ticks) - time.time()
        eventually(done.exists, last + 60 + END, "the end of a job without a client")
        flink_cluster.rest.wait_for(siege.id, "FINISHED")
        assert not differences(siege.job.cells(), recording.releases)
