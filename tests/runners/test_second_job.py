"""A second start of a stream that runs is refused, and takes no message from the first."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from tests.runners.live import Device, Live
from tests.runners.messages import Post
from weir.pipelines.engines.servers import PubSubServer
from weir.transforms.runtime.fence import FOLDER

TICKS = 6


def refused(job: Live, why: str) -> None:
    """A start that must be refused."""
    with job.launch("prism") as other:
        assert other.wait(60) == 2, other.account
        assert why in " ".join(other.text.split())


def test_a_second_job_on_prism_is_refused_and_the_first_counts_every_event(
    prism_location: Path, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    with Post(pubsub_server.host, "second") as post:
        job = Live(tmp_path, post, TICKS)
        device = Device(post, "device", 0.1, itertools.repeat((None, None)))
        with job.launch("prism") as first:
            with device.sending():
                first.until((job.out / FOLDER / "000001").exists, 60)
                refused(job, "has not ended")
                first.until(lambda: job.files() >= 2, 90)
                refused(job, "there are releases in")
                first.until(lambda: job.files() == TICKS, 60)
            assert first.wait(60) == 0, first.account
            counts = json.loads(first.told)["operator"]
    assert counts["events"] == device.sent
    assert not {"overdue", "divergent", "duplicate"} & counts.keys()
