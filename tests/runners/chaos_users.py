"""Users as the unit, through the death of a part of each kind. Started by ``make chaos``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runners.test_users import survives
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer


@pytest.mark.parametrize("program", ["active", "private"])
def test_a_stream_survives_the_death_of_workers_and_goes_on_from_a_checkpoint(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path, program: str
) -> None:
    survives(flink_cluster, pubsub_server.host, tmp_path, program)
