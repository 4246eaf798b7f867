"""The programs that a stream runs on, real ones, each started once a session."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components import needed
from tests.runners.account import account
from weir.pipelines.engines import flink_config, job_server, kafka, servers
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.kafka import KafkaBroker
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.engines.servers import PubSubServer

JOBS_A_TASKMANAGER = 12
"""Every job loads its classes again; a TaskManager is replaced before they fill its memory."""

# JVMs live for minutes here: what their second compiler takes is not paid back, nor is a second
# look at classes that releases of Flink, Beam and Kafka hold. Three tenths less of their time.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)


@pytest.fixture(scope="session")
def prism_location() -> Path:
    """Prism's binary."""
    return needed(job_server.location)


@pytest.fixture(scope="session")
def job_server_jar() -> Path:
    """The job server's jar."""
    return needed(job_server.jar)


@pytest.fixture(scope="session")
def running_pubsub() -> Iterator[PubSubServer]:
    needed(servers.pubsub_binary)
    with PubSubServer() as server:
        yield server


@pytest.fixture
def pubsub_server(
    running_pubsub: PubSubServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[PubSubServer]:
    """A Pub/Sub server without messages, to which clients of this process and its children go.

    Topics and subscriptions of earlier tests are still there: name yours after your test.
    """
    running_pubsub.clear()
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", running_pubsub.host)
    yield running_pubsub
    running_pubsub.up()


@pytest.fixture(scope="session")
def running_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    needed(kafka.jars)
    from tests.runners.kafka_security import LISTENER, settings

    folder = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(folder, settings(folder), {LISTENER: "SASL_SSL"}) as broker:
        yield broker


@pytest.fixture
def kafka_broker(running_kafka: KafkaBroker) -> KafkaBroker:
    """A Kafka broker that answers. Topics of earlier tests are still there; it may be killed."""
    from tests.runners.topics import await_answers

    running_kafka.start()
    await_answers(running_kafka)
    return running_kafka


@pytest.fixture(scope="session")
def running_flink(running_pubsub: PubSubServer) -> Iterator[FlinkCluster]:
    needed(flink_config.home)
    with FlinkCluster(environment={"PUBSUB_EMULATOR_HOST": running_pubsub.host}) as cluster:
        yield cluster


@pytest.fixture
def flink_cluster(running_flink: FlinkCluster, job_server_jar: Path) -> Iterator[FlinkCluster]:
    """A JobManager and two TaskManagers of one slot, all alive, without a job.

    Python workers go to the server of ``pubsub_server``. A test may kill what it likes.
    """
    heal(running_flink)
    yield running_flink
    for job in running_flink.rest.jobs(live=True) if running_flink.alive else ():
        running_flink.rest.cancel(job["jid"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test that fails on a cluster says what became of its jobs."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("flink_cluster")
    if report.when == "call" and report.failed and cluster is not None:
        report.sections.append(("Flink", account(cluster)))
    return report


def heal(cluster: FlinkCluster) -> None:
    """Brings a cluster back to what a new one is."""
    if cluster.jobmanager is None or not cluster.jobmanager.alive:
        cluster.start_jobmanager(wait=False)
    worn = cluster.is_worn(JOBS_A_TASKMANAGER)
    for number in (0, 1):
        process = cluster.taskmanagers.get(number)
        if worn or process is None or not process.alive:
            cluster.start_taskmanager(number, wait=False)
    try:
        cluster.wait_for_taskmanagers(2, 30.0)
    except EngineFailed:  # one is alive and the JobManager has given it up: it never comes back
        for number in (0, 1):
            cluster.start_taskmanager(number, wait=False)
        cluster.wait_for_taskmanagers(2)
    for job in cluster.rest.jobs(live=True):
        cluster.rest.cancel(job["jid"])
        cluster.rest.wait_for(job["jid"], "CANCELED", "FAILED", "FINISHED")
