"""``weir audit --runner flink``: messages to the live job, what they prove, and what a twin cannot
hide there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.audit.twins import TWINS, config
from tests.fixed_secrets import same_secrets  # noqa: F401
from weir.pipelines.audit import trial as once
from weir.pipelines.audit.attack import Report, attack
from weir.pipelines.audit.audit import Audited
from weir.pipelines.audit.choice import Choice
from weir.pipelines.audit.isolation import RecordFeed
from weir.pipelines.audit.malformed import strays
from weir.pipelines.audit.streams import StreamRows
from weir.pipelines.config.job import loads
from weir.pipelines.engines.servers import PubSubServer
from weir.transforms.runtime.pubsub_client import EMULATOR
from weir.transforms.runtime.secret import SecretRef

THEIRS = "projects/acme-data/subscriptions/purchases"
LIVE = config().replace(
    "{ndjson: nowhere/events.ndjson}", f"{{pubsub: {{subscription: {THEIRS}, timestamp: sent}}}}"
)
QUIET = next(twin for twin in TWINS if twin.name == "noise x 0.7")


def attacked(trials: int = 4_000, only: str = "all releases within 4 ticks") -> Report:
    return attack(loads(LIVE), trials=trials, only=only, runner="flink", rounds=0)


def test_messages_prove_nearly_the_claim_and_a_twin_passes_it(
    job_server_jar: Any, pubsub_server: PubSubServer
) -> None:
    first, *_ = attacked().audits
    assert first.what == "all releases within 4 ticks" and first.by == "likelihood ratio"
    assert 0 < first.proven < first.claim.epsilon and not first.broken
    assert first.tightness is not None and first.tightness > 0.85
    # Every message was read and acknowledged, and of the topics nothing is left.
    counts = pubsub_server.counts()
    assert counts["messages"] and counts["unacked"] == 0
    with QUIET.sabotage():
        assert "all releases within 4 ticks" in attacked().broken


def test_among_malformed_messages_are_the_bits_of_files_without_them(
    job_server_jar: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a server that the run starts by itself, in containers of which some are damaged."""
    monkeypatch.delenv(EMULATOR, raising=False)
    choice = Choice.of(Audited.of(loads(config(form="arrow", schema="{time: at, id: id}"))))
    maker = choice.maker
    forms = RecordFeed.of(maker.audited, "flink").forms(maker)
    assert "a container cut short" in [form.name for form in forms]
    numbers = np.arange(4 * len(forms))
    rows = StreamRows(numbers, numbers % 6, np.zeros(len(numbers), np.int64), numbers, numbers)
    bad = list(range(0, len(numbers), 4))
    good = np.setdiff1d(numbers, bad)
    secret, found = SecretRef.fresh(), []
    for runner in ("direct", "flink"):
        place = tmp_path / runner
        place.mkdir()
        way = RecordFeed.of(maker.audited, runner)
        more = way.written(maker, rows, place, bad, forms, with_them=runner == "flink")
        found.append(once.run_trials(maker, [], len(numbers), place, runner, secret, more))
    files, live = (done.transcripts[good] for done in found)
    assert np.isfinite(live).all() and np.array_equal(files, live)
    letters = [path.read_text() for path in (tmp_path / "flink" / "dead").glob("*.ndjson")]
    assert "".join(letters).count('"malformed"') >= len(list(strays()))
