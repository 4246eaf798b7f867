"""A wheel in an environment of its own, on Flink, among a user's packages of our folders' names."""

from __future__ import annotations

from tests.wheel import installed
from weir.pipelines.engines.flink import FlinkCluster

CONFIG = """name: visits
source: {csv: visits.csv}
schema: {time: at}
clock: {start: 2025-01-01T00:00:00Z, period: 1d, end: 2025-01-03T00:00:00Z}
privacy: {epsilon: 1, delta: 1e-6, protect_for: all}
aggregates: {visits: {count: events}}
secret: {file: secret.key}
sink: {csv: flink/}
"""


def test_a_worker_process_of_flink_runs_the_wheel(flink_cluster: FlinkCluster) -> None:
    user = installed()
    (user.folder / "flink.yaml").write_text(CONFIG)
    (user.folder / "visits.csv").write_text("at\n2025-01-01T10:00:00Z\n")
    (user.folder / "secret.key").write_text("07" * 32)
    (user.folder / "secret.key").chmod(0o600)
    master = f"--flink-master={flink_cluster.master}"
    done = user.run("weir", "run", "flink.yaml", "--runner=flink", master, "--parallelism=1")
    assert done.returncode == 0, done.stderr
    assert (user.folder / "flink" / "_COMPLETE").exists()
