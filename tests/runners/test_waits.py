"""Our own class in Flink's job server: waits to the millisecond, and state that stays small."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from tests.runners.jobs import Job, differences
from tests.runners.kills import Siege, eventually
from tests.runners.messages import Pace, Post, over_messages
from tests.runners.recording import Recording
from tests.runners.waiting import DUE, STEP, WAIT, look, names_in, taken
from weir.pipelines.connectors.paths import local
from weir.pipelines.engines import job_server
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.job_server import ResidualStorage, kept_by
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.runners.flink import in_a_map

RING = 64
"""Names that the class of ours uses, as its source says."""
LOOKS = 12
BUNDLE = 0.05


@pytest.fixture(scope="session")
def stock_jar(job_server_jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job server as Beam made it: with Beam's own class where ours stands."""
    made = tmp_path_factory.mktemp("stock") / job_server.JAR
    shutil.copy(job_server_jar, made)
    stock = job_server_jar.with_name(job_server.STOCK)
    command = ["jar", "--update", "--file", str(made), "-C", str(stock), "org"]
    subprocess.run(command, check=True, capture_output=True)
    return made


def test_the_jar_shows_what_it_keeps(job_server_jar: Path, stock_jar: Path, tmp_path: Path) -> None:
    assert kept_by(job_server_jar) is ResidualStorage.FEW_NAMES
    assert kept_by(stock_jar) is ResidualStorage.NEW_NAMES
    (tmp_path / "text.jar").write_text("no archive")
    assert kept_by(tmp_path / "text.jar") is kept_by(tmp_path / "nowhere.jar") is None


def test_waits_and_watermarks_below_a_second_are_kept(
    flink_cluster: FlinkCluster, job_server_jar: Path, tmp_path: Path
) -> None:
    """Two elements are equal byte for byte and share their cells; the rest of neither is lost."""
    flags = [
        "--runner=FlinkRunner", f"--flink_master={flink_cluster.master}", "--parallelism=1",
        f"--flink_job_server_jar={job_server_jar}", "--environment_type=PROCESS", "--streaming",
        f"--environment_config={flink_cluster.environment_config()}",
        f"--max_bundle_time_mills={int(BUNDLE * 1000)}",
        "--checkpointing_interval=60000",  # with it Flink keeps a source that has nothing more
    ]  # fmt: skip
    twin, single = f"twin.{LOOKS}", f"single.{LOOKS}"
    look(PipelineOptions(flags), tmp_path, [twin, single, twin])

    def over() -> bool:
        return len(taken(tmp_path, single)) >= LOOKS and len(taken(tmp_path, twin)) >= 2 * LOOKS

    eventually(over, 120, "the last look")
    assert sorted(number for number, _ in taken(tmp_path, twin)) == sorted([*range(LOOKS)] * 2)
    looks = taken(tmp_path, single)
    assert [number for number, _ in looks] == list(range(LOOKS))
    for (_, one), (_, next_one) in itertools.pairwise(looks):
        assert next_one - one >= WAIT, "the wait was cut"
    fired = [line.split() for line in (tmp_path / "fired").read_text().splitlines()]
    assert sorted(key for key, _ in fired) == [single, twin]
    passed = next(number for number, _ in looks if STEP * number >= DUE)
    for _, at in fired:
        assert looks[passed][1] < float(at) < looks[-1][1], "the watermark was cut"


@pytest.mark.alone
def test_a_savepoint_of_beams_own_class_goes_on_and_grows_no_more(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, stock_jar: Path, tmp_path: Path
) -> None:
    recording = Recording("sums", ticks=240)
    with Post(pubsub_server.host, "stock") as post:
        pace = Pace.soon(8, 3600)
        often = "engine: {checkpoint_every: 2s}\n"
        job = over_messages(tmp_path, recording, post, pace, ", readers: 2", every=4, extra=often)
        post.publish(data for data, _ in recording.messages(20, shuffled=True))
        with Siege(job, flink_cluster, pace, ("--flink-job-server-jar", str(stock_jar))) as siege:
            siege.client.until(lambda: files(job) >= 12)
            siege.client.process.send_signal(signal.SIGINT)
            assert siege.client.wait() == 0, siege.client.account
            assert "before 2.76" in siege.client.text
            flink_cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
        (stopped,) = (metadata.parent for metadata in tmp_path.rglob("savepoints/*/_metadata"))
        assert in_a_map(stopped.as_uri()) is False
        before, written = names_in(stopped), files(job)
        assert len(before) > RING, "Beam's own class grew too little for the test to see"
        with Siege(job, flink_cluster, pace, ("--resume",)) as siege:
            siege.client.until(lambda: files(job) >= written + 3)
            assert "2.76" not in siege.client.text
            drained = flink_cluster.rest.stop(siege.id, drain=True)
            flink_cluster.rest.wait_for(siege.id, "FINISHED")
    ring = {f"sdf_checkpoint:{slot}:0".encode() for slot in range(RING)}
    assert names_in(Path(local(drained))) <= before | ring
    found = job.cells()
    last = max(cell[0] for cell in found)
    expected = {cell: value for cell, value in recording.releases.items() if cell[0] <= last}
    assert not differences(found, expected)


def files(job: Job) -> int:
    """Files of releases by now."""
    return len(list(job.out.glob("ticks-*")))
