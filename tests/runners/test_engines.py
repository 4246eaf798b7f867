"""The components as installed run a stateful pipeline: Prism, Flink in one JVM, a Flink cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions

from tests.runners.counting import count, counted
from weir.pipelines.engines.flink import FlinkCluster

EXPECTED = {"k0": 50, "k1": 50, "k2": 50}


def on_prism(location: Path) -> PipelineOptions:
    flags = [
        "--runner=PrismRunner", f"--prism_location={location}", "--prism_log_level=warn",
        "--environment_type=LOOPBACK", "--streaming",
    ]  # fmt: skip
    return PipelineOptions(flags)


def test_prism_runs_state_and_timers(prism_location: Path, tmp_path: Path) -> None:
    count(on_prism(prism_location), tmp_path)
    assert counted(tmp_path) == EXPECTED


def test_prism_loses_no_state_of_a_slow_step(prism_location: Path, tmp_path: Path) -> None:
    """It would split a bundle that takes long, and run two of one key side by side."""
    count(on_prism(prism_location), tmp_path, keys=1, each=12, seconds=0.15)
    assert counted(tmp_path) == {"k0": 12}


def test_flink_in_the_job_server_runs_state_and_timers(
    job_server_jar: Path, tmp_path: Path
) -> None:
    flags = [
        "--runner=FlinkRunner", "--flink_master=[local]", "--environment_type=LOOPBACK",
        f"--flink_job_server_jar={job_server_jar}", "--parallelism=1",
    ]  # fmt: skip
    count(PipelineOptions(flags), tmp_path)
    assert counted(tmp_path) == EXPECTED


def test_a_cluster_runs_state_and_timers_in_worker_processes(
    flink_cluster: FlinkCluster, job_server_jar: Path, tmp_path: Path
) -> None:
    flags = [
        "--runner=FlinkRunner", f"--flink_master={flink_cluster.master}", "--parallelism=2",
        f"--flink_job_server_jar={job_server_jar}", "--environment_type=PROCESS",
        f"--environment_config={flink_cluster.environment_config()}",
    ]  # fmt: skip
    before = {job["jid"] for job in flink_cluster.rest.jobs()}
    count(PipelineOptions(flags), tmp_path)
    assert counted(tmp_path) == EXPECTED
    (job,) = [job for job in flink_cluster.rest.jobs() if job["jid"] not in before]
    assert job["state"] == "FINISHED"


def test_a_cluster_gets_a_killed_part_back(flink_cluster: FlinkCluster) -> None:
    flink_cluster.kill_taskmanager(1)
    flink_cluster.start_taskmanager(1)
    flink_cluster.kill_jobmanager()
    assert not flink_cluster.alive
    flink_cluster.start_jobmanager()
    assert flink_cluster.alive
    assert flink_cluster.rest.get("/overview")["slots-total"] >= 2


def test_a_stopped_cluster_leaves_no_process_and_no_folder(
    flink_cluster: FlinkCluster,
) -> None:
    with FlinkCluster(taskmanagers=0) as other:
        assert other.master != flink_cluster.master
        folder = other.folder
        pid = other.jobmanager.pid if other.jobmanager else 0
    assert not folder.exists()
    listed = subprocess.run(["ps", "-eo", "pgid="], capture_output=True, text=True, check=True)
    assert pid and str(pid) not in listed.stdout.split()
