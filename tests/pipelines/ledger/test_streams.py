"""Streams: what a job without a folder of results says of its budget, and where it goes on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tests.pipelines.ledger.conftest import job_of, section
from tests.pipelines.ledger.test_run import entries
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import load
from weir.pipelines.graph.budget import entered
from weir.pipelines.graph.parts import Parts, parts_of
from weir.pipelines.ledger.places import plan_in
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.show.status import budget_in, budget_of

STREAM = "source={pubsub: {subscription: projects/p/subscriptions/s, payload: ndjson}}"


@pytest.fixture
def stream(tmp_path: Path) -> Parts:
    job = job_of(tmp_path / "job", section(("sqlite", str(tmp_path / "ledger.db"))))
    sets = [STREAM, "sink={pubsub: projects/p/topics/t}", "clock.end=null", "mechanism=null"]
    return parts_of(load(job, sets), "flink")


def test_its_budget_is_kept_beside_its_state(stream: Parts, tmp_path: Path) -> None:
    StateFolder.of(stream.state).begin(stream.plan, stream.secrets)
    with entered(stream) as spent:
        spent.start(stream)
    kept = budget_in(plan_in(stream.state) or {})
    assert kept["ledger"]["entry"] == entries(tmp_path / "job" / "shop.yaml")[0].id
    ((name, words),) = budget_of(kept)
    assert name == "budget of customers" and "1 is spent of epsilon 1.3" in words
    # It is still the state of that plan.
    assert StateFolder.of(stream.state).begin(stream.plan, stream.secrets)
    assert json.loads((Path(stream.state) / "_plan.json").read_text())["layout"]


def test_a_stream_goes_on_in_its_place_alone(stream: Parts, tmp_path: Path) -> None:
    """Which messages it has read nobody knows: elsewhere the same secret would show them."""
    for _ in range(2):
        with entered(stream) as spent:
            spent.start(stream)
    (entry,) = entries(tmp_path / "job" / "shop.yaml")
    assert entry.state == "running" and entry.price.last is None
    other = stream.sink.model_copy(update={"pubsub": "projects/p/topics/other"})
    with (
        pytest.raises(ConfigError, match="whether these are the same events cannot be known"),
        entered(dataclasses.replace(stream, sink=other)),
    ):
        pass
    assert not budget_of({})
