"""Users as the unit, through the death of a part of each kind. Started by ``make chaos``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.besieged import besieged
from tests.runners.jobs import differences
from tests.runners.messages import Publisher
from tests.runners.recording import Recording
from tests.runners.test_users import FEW
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer


@pytest.mark.parametrize("program", ["users", "active", "private"])
def test_a_stream_survives_three_kills_and_goes_on_from_a_checkpoint(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path, program: str
) -> None:
    """Of a TaskManager, a worker and the JobManager."""
    recording = Recording(program, ticks=36)
    with besieged(flink_cluster, pubsub_server.host, recording, tmp_path, 1, extra=FEW) as (
        siege,
        post,
    ):
        publisher = Publisher(post, recording, siege.pace, 10)
        publisher.start()
        siege.settle(2)
        siege.kill_taskmanager(0)
        siege.settle(1)
        siege.kill_worker(1)
        siege.settle(1)
        siege.kill_jobmanager()
        publisher.finish()
        outcome = siege.finish()
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()
    assert "overdue" not in {letter["reason"] for letter in siege.job.letters()}
