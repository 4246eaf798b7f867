"""Devices with wrong clocks neither hold a stream nor make the events of others late."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from tests.pipelines.result_rows import result_rows
from tests.runners.live import Device, Live, now
from tests.runners.messages import Post
from weir.pipelines.engines.servers import PubSubServer
from weir.transforms.beam.pubsub.messages import STAMPS_AHEAD, STAMPS_BEHIND

TICKS = 6
PAST, FUTURE = "1970-01-01T00:00:00Z", "9999-12-31T00:00:00Z"
WRONG: list[tuple[Any, str | None]] = [
    (PAST, None),
    (None, "0"),
    (FUTURE, None),
    (None, FUTURE),
    ("NaN", "soon"),
    (float("nan"), "9" * 40),
    (PAST, FUTURE),
]


def test_wrong_clocks_hold_no_release_and_make_no_other_event_overdue(
    prism_location: Path, pubsub_server: PubSubServer, tmp_path: Path
) -> None:
    with Post(pubsub_server.host, "wrong-clocks") as post:
        job = Live(tmp_path, post, TICKS)
        right = Device(post, "right", 0.1, ((now(), None) for _ in itertools.count()))
        wrong = Device(post, "wrong", 0.15, itertools.cycle(WRONG))
        stuck = Device(post, "stuck", 0.2, itertools.repeat((PAST, None)))
        with job.launch("prism") as running:
            with right.sending(), wrong.sending(), stuck.sending():
                running.until(lambda: job.files() == TICKS, 90)
            assert running.wait(60) == 0, running.account
            counts = json.loads(running.told)["operator"]
    read = counts["events"] + counts.get("malformed", 0)
    assert read == right.sent + wrong.sent + stuck.sent and "overdue" not in counts
    rounds = wrong.sent // len(WRONG)
    assert counts[STAMPS_BEHIND] >= 3 * rounds + stuck.sent
    assert counts[STAMPS_AHEAD] >= 2 * rounds
    assert 0 < counts["late"] <= 2 * (rounds + 1), "those that say so themselves, and no other"
    outside = sum(counts[reason] for reason in ("before_start", "late", "after_end"))
    ((last,),) = [row["value"] for row in result_rows(job.out) if row["tick"] == TICKS - 1]
    assert round(last) == counts["events"] - outside
