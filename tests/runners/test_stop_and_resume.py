"""Stop with a savepoint, go on, drain; what is refused on the way; and no trace of the secret."""

from __future__ import annotations

import base64
import signal
from pathlib import Path

from tests.runners.besieged import HOUR_A_SECOND, behind, besieged
from tests.runners.jobs import Job, check_part, differences, on
from tests.runners.messages import Post
from tests.runners.recording import SECRET, Recording
from tests.runners.secrets_search import forms_of, search, told_by
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer
from weir.pipelines.ledger.entries import entries_of
from weir.pipelines.ledger.sqlite import open_file

LINES = 20
BUDGET = "{epsilon: 9, delta: 1e-5}"


def refused(job: Job, cluster: FlinkCluster, *flags: str) -> str:
    """What a run says that must not start."""
    with job.start("flink", *on(cluster), *flags) as running:
        assert running.wait() == 2, running.account
        assert not cluster.rest.jobs(live=True)
        return running.text


def test_a_search_finds_what_is_there(tmp_path: Path) -> None:
    wanted = forms_of(SECRET)
    for i, form in enumerate([SECRET, SECRET.hex().encode(), SECRET.hex().upper().encode()]):
        (tmp_path / f"{i}").write_bytes(b"x" * i + form)
    for i in range(3):
        (tmp_path / f"b{i}").write_bytes(base64.b64encode(b"z" * i + SECRET + b"tail"))
        (tmp_path / f"u{i}").write_bytes(base64.urlsafe_b64encode(b"z" * i + SECRET))
    (tmp_path / "clean").write_bytes(SECRET[:8] + bytes(100))
    assert {path.name for path in search([tmp_path], wanted)} == {
        *"012", *(f"b{i}" for i in range(3)), *(f"u{i}" for i in range(3))
    }  # fmt: skip


def test_stopped_and_resumed_as_if_never_stopped(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    """Under a ledger, which counts it once."""
    recording = Recording("learner")
    ledger = f"ledger: {{sqlite: ledger.db, scope: people, budget: {BUDGET}}}\n"
    with besieged(flink_cluster, pubsub_server.host, recording, tmp_path, 4, extra=ledger) as (
        siege,
        post,
    ):
        job = siege.job
        post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 2)
        siege.client.process.send_signal(signal.SIGINT)
        siege.client.wait()
        assert "--resume" in siege.client.told
        flink_cluster.rest.wait_for(siege.id, "FINISHED", "CANCELED")
        told = told_by(flink_cluster.rest, siege.id)
    check_part(job.cells(), recording.releases)

    secret = job.secret.read_text()
    job.secret.write_text("ab" * 32)
    assert "secret" in refused(job, flink_cluster, "--resume")
    job.secret.write_text(secret)
    changed = "--set", "privacy.epsilon=2.0"
    assert "privacy.epsilon" in refused(job, flink_cluster, "--resume", *changed)

    out, checkpoints = job.out.rename(tmp_path / "out"), job.folder / ".weir"
    checkpoints.rename(tmp_path / "state")
    assert "a stream that begins again" in refused(job, flink_cluster)
    out.rename(job.out)
    (tmp_path / "state").rename(checkpoints)

    outcome = job.run("flink", *on(flink_cluster), "--resume")
    store = open_file(job.folder / "ledger.db", create=False)
    assert store is not None
    began = [len(one.began) for one in entries_of(store, "people").entries.values() if one.began]
    store.close()
    assert began == [2]
    assert not differences(outcome.cells, recording.releases)
    assert not {"overdue", "divergent"} & outcome.counters.keys()

    wanted = forms_of(SECRET)
    assert not [name for name, text in told.items() if any(form in text for form in wanted)]
    assert len(told) > 10
    found = search([tmp_path, flink_cluster.folder], wanted)
    assert {path.name for path in found} == {job.secret.name}
    assert search([tmp_path], [bytes.fromhex(recording.plan.layout)]), "no state was searched"


def test_a_drain_ends_at_the_last_announced_tick(
    flink_cluster: FlinkCluster, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    recording, speed = Recording("sums", ticks=240), HOUR_A_SECOND / 2
    with (
        Post(pubsub_server.host, "drained") as post,
        behind(flink_cluster, post, recording, tmp_path, 4, speed) as siege,
    ):
        job = siege.job
        siege.client.until(lambda: len(list(job.out.glob("ticks-*"))) >= 3)
        flink_cluster.rest.stop(siege.id, drain=True)
        flink_cluster.rest.wait_for(siege.id, "FINISHED")
    found = job.cells()
    last = max(cell[0] for cell in found)
    assert 11 <= last < recording.ticks - 1
    expected = {cell: value for cell, value in recording.releases.items() if cell[0] <= last}
    assert not differences(found, expected)
