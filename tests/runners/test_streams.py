"""The same stream through a real Pub/Sub server: the bits of simulate, whatever goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runners.jobs import check, differences, on, verify
from tests.runners.messages import Pace, Post, Publisher, over_messages
from tests.runners.recording import Recording
from weir.pipelines.engines.flink import FlinkCluster
from weir.pipelines.engines.servers import PubSubServer

LINES = 20
"""Lines of a message."""
POISON = [b"\xff\xfe\x00", b"{" * 5000, b'"a text"', b"[1, 2]"]
"""Messages that no decoder can read; each is one broken line."""


@pytest.fixture
def post(pubsub_server: PubSubServer, request: pytest.FixtureRequest) -> Iterator[Post]:
    """Topics and a subscription of this test alone."""
    with Post(pubsub_server.host, request.node.originalname.replace("_", "-")) as made:
        yield made


@pytest.mark.parametrize("program", ["sums", "learner", "fits"])
def test_prism(
    program: str, prism_location: Any, pubsub_server: PubSubServer, post: Post, tmp_path: Path
) -> None:
    recording = Recording(program)
    post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
    check(over_messages(tmp_path, recording, post, Pace.soon()).run("prism"), recording)
    counts = pubsub_server.counts(post.topic)
    assert counts["unacked"] == 0


def test_embedded_flink_and_a_message_that_nobody_can_read(
    job_server_jar: Any, pubsub_server: PubSubServer, post: Post, tmp_path: Path
) -> None:
    recording = Recording("learner", blocks=2)
    messages = [data for data, _ in recording.messages(LINES, shuffled=True)]
    post.publish([*messages[:50], *POISON, *messages[50:]])
    job = over_messages(tmp_path, recording, post, Pace.soon(12), more=", readers: 2")
    outcome = job.run("flink", "--parallelism=2")
    assert not differences(outcome.cells, recording.releases)
    expected = Counter(recording.counters) + Counter(malformed=len(POISON))
    assert outcome.counters == expected
    reasons = Counter(letter["reason"] for letter in job.letters())
    assert reasons["malformed"] == expected["malformed"]
    for message in pubsub_server.messages(post.topic):
        assert message.acks == 1, "a message was not acknowledged once"
        assert message.deliveries == 1, "a message came twice though nothing failed"


def test_checkpoints_in_the_middle_of_everything_hold_nothing_back(
    job_server_jar: Any, pubsub_server: PubSubServer, post: Post, tmp_path: Path
) -> None:
    """Flink's runner may send what a checkpoint interrupts behind the watermark, or never."""
    recording = Recording("sums")
    pace = Pace.soon(12)
    job = over_messages(tmp_path, recording, post, pace, ", readers: 2")
    publisher = Publisher(post, recording, pace, LINES)
    publisher.start()
    often = "--checkpointing_interval=50"
    outcome = job.run("flink", "--parallelism=2", often)
    publisher.finish()
    check(outcome, recording)


def test_flink_cluster_and_its_folder_verified_by_what_was_sent(
    flink_cluster: FlinkCluster, post: Post, tmp_path: Path
) -> None:
    recording = Recording("sums")
    post.publish(data for data, _ in recording.messages(LINES, shuffled=True))
    job = over_messages(tmp_path, recording, post, Pace.soon(15), more=", readers: 2")
    check(job.run("flink", *on(flink_cluster)), recording)
    lines = [delivery.line for delivery in recording.deliveries]
    result = verify(job, lines)
    assert result["faults"] == [] and result["rederived"]["differ"] == 0
    assert result["rederived"]["rows"] >= len(recording.releases)  # some are several numbers
    lines.remove(next(line for line in lines if b'"event-0"' in line))  # it came once, in time
    assert verify(job, lines)["rederived"]["differ"] > 0
