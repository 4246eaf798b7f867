"""Kills while releases are written, for every sink that can be read back: nothing is lost, nothing
is there twice after the documented read, and the bits are those of a run without kills.

Started by ``make chaos``; ``WEIR_KILLS`` says how many kills (20).
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from tests.pipelines.ledger.postgres import PostgresServer
from tests.runners.jobs import differences
from tests.runners.recording import Cells, Recording, cells_of
from tests.runners.test_kafka_sink import of_keys
from tests.runners.topics import Topic, besieged_topic
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker
from weir.transforms.release.table import RELEASE_SCHEMA
from weir.transforms.sinks.iceberg import IcebergTable

KILLS = int(os.environ.get("WEIR_KILLS", 20))
TICKS = 60 + 12 * KILLS
"""A tick takes a second, and a kill with what follows about ten."""


class SinkInTest(NamedTuple):
    """A sink of a job.

    Attributes:
      text: as YAML; None: the folder of the job. read: its cells by now, None: of the folder.
      down: kills its server and starts it again; None where it has none.
    """

    text: str | None = None
    read: Callable[[], Cells] | None = None
    down: Callable[[], None] | None = None


@contextmanager
def folder(broker: KafkaBroker, place: Path) -> Iterator[SinkInTest]:
    yield SinkInTest()


@contextmanager
def topic(broker: KafkaBroker, place: Path) -> Iterator[SinkInTest]:
    out = Topic(broker, "released", 2, {"cleanup.policy": "compact"})

    def down() -> None:
        broker.kill()
        broker.start()

    yield SinkInTest(
        f"kafka: {{brokers: '{broker.address}', topic: {out.name}}}",
        lambda: cells_of([json.loads(value) for value in of_keys(out).values()]),
        down,
    )


@contextmanager
def database(broker: KafkaBroker, place: Path) -> Iterator[SinkInTest]:
    with PostgresServer() as server:

        def read() -> Cells:
            with psycopg.connect(server.address) as base:
                rows = base.execute("SELECT to_jsonb(r) FROM releases r").fetchall()
            return cells_of([row for (row,) in rows])

        def down() -> None:
            server.kill()
            server.start()

        text = f"postgresql: {{url: '{server.address}', table: releases}}"
        yield SinkInTest(text, read, down)


@contextmanager
def lake(broker: KafkaBroker, place: Path) -> Iterator[SinkInTest]:
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{place / 'catalog.db'}",
        "warehouse": f"file://{place / 'warehouse'}",
    }

    def read() -> Cells:
        content = IcebergTable("lab.releases", tuple(catalog.items())).load().scan().to_arrow()
        return cells_of(content.select(RELEASE_SCHEMA.names).to_pylist())

    yield SinkInTest(f"iceberg: {{table: lab.releases, catalog: {catalog}}}, every: 4", read)


SINKS: dict[str, Any] = {
    "parquet": folder, "kafka": topic, "postgresql": database, "iceberg": lake,
}  # fmt: skip


@pytest.mark.parametrize("sink", SINKS)
def test_releases_survive_kills(
    flink_cluster: FlinkCluster, kafka_broker: KafkaBroker, tmp_path: Path, sink: str
) -> None:
    recording = Recording("sums", ticks=TICKS)
    with (
        SINKS[sink](kafka_broker, tmp_path) as out,
        besieged_topic(
            flink_cluster,
            kafka_broker,
            recording,
            tmp_path,
            1,
            led=True,
            fed=True,
            published=out.text,
        ) as (siege, _, feed),
    ):
        assert feed is not None
        turns = itertools.cycle(
            [
                lambda: siege.kill_worker(0),
                lambda: siege.kill_taskmanager(1),
                *([out.down] if out.down else []),
                lambda: siege.kill_worker(1),
                lambda: siege.kill_taskmanager(0),
            ]
        )
        for kill in itertools.islice(turns, KILLS):
            siege.settle(1)
            kill()
        feed.finish()
        assert siege.client.wait(400) == 0, siege.client.account
        cells = siege.job.cells() if out.read is None else out.read()
    assert not differences(cells, recording.releases)
