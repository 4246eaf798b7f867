"""What a job adds to its guarantee: told by `weir plan`, kept in _plan.json, and what then runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.pipelines.conftest import Weir
from weir.dpcore.accounting.guarantee import RuntimeAssumptions
from weir.dpcore.errors import ConfigError
from weir.pipelines.config.job import JobConfig, load
from weir.pipelines.graph.checks import horizon_of, plan_under
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.results import plan_file
from weir.pipelines.sources.source import PUBLICATION
from weir.pipelines.terminal import number
from weir.transforms.beam.private_releases import PrivateReleases

STREAM = "source={pubsub: {subscription: projects/acme-1/subscriptions/all}}"


def job_of(small: Path, *sets: str) -> JobConfig:
    return load(small, sets)


def test_a_horizon_is_a_streams_and_rounded_up(small: Path) -> None:
    def ticks(*sets: str) -> int | None:
        job = job_of(small, *sets)
        return horizon_of(job.source, job.deduplicate, plan_under(job).clock)

    assert ticks(STREAM, "deduplicate.horizon=90m") == 2
    assert ticks("deduplicate.horizon=90m") is None
    assert ticks(STREAM) is None


def test_the_statement_tells_the_horizon_that_the_graph_keeps(small: Path) -> None:
    job = job_of(small, STREAM, "deduplicate.horizon=3h")
    plan = plan_under(job)
    assert plan.circumstances.id_horizon == 3
    assert "remembered for 3 ticks" in plan.guarantee.statement
    assert plan.digest == plan_under(job_of(small)).digest
    with pytest.raises(TypeError):  # no second way to say it, which the statement would not know
        PrivateReleases(plan, horizon=3)  # type: ignore[call-arg]


def test_plan_and_its_json_show_what_copies_cost(weir: Weir, small: Path) -> None:
    words = ("plan", small, "--set", STREAM, "--set", "deduplicate.horizon=3h")
    facts = json.loads(weir(*words, "--json").stdout)
    assert facts["id_horizon"] == 3
    two, ten = facts["copies"]
    assert 1 < two["epsilon"] < ten["epsilon"]
    page = " ".join(weir(*words).stdout.split())
    assert "an id is remembered for 3 ticks (3 hours)" in page
    assert f"2 copies that count: epsilon {number(two['epsilon'])}" in page
    plain = json.loads(weir("plan", small, "--json").stdout)
    assert plain["id_horizon"] is None and plain["copies"] == []


def test_files_are_published_as_a_whole_and_the_statement_leaves_that_open(small: Path) -> None:
    assert plan_under(job_of(small)).guarantee.statement.endswith(PUBLICATION)
    assert PUBLICATION not in plan_under(job_of(small, STREAM)).guarantee.statement


def test_a_folder_keeps_one_horizon(small: Path) -> None:
    def begun(*sets: str) -> None:
        parts = parts_of(job_of(small, STREAM, *sets))
        parts.sink.prepare(parts.plan, parts.secrets, False)

    begun("deduplicate.horizon=3h")
    begun("deduplicate.horizon=3h")
    for changed in ((), ("deduplicate.horizon=4h",)):
        with pytest.raises(ConfigError, match=r"deduplicate\.horizon.*for 3 ticks") as refused:
            parts = parts_of(job_of(small, STREAM, *changed))
            parts.sink.check(parts.plan, parts.secrets)
        assert refused.value.field == "deduplicate.horizon"
    job = job_of(small, STREAM, "deduplicate.horizon=4h")
    stored = plan_file.plan_json(plan_under(job)) | {"id_horizon": None}
    with pytest.raises(ConfigError, match="for the whole run"):
        plan_file.refuse_changed(stored, plan_under(job), "engine.checkpoints", "state")


def test_a_stream_keeps_the_shards_that_its_ids_are_stored_in(small: Path) -> None:
    def shards(*sets: str) -> int:
        return plan_under(job_of(small, STREAM, *sets)).circumstances.id_shards

    assert (
        shards() == shards("deduplicate.horizon=3h") == 8 and shards("deduplicate.shards=64") == 64
    )
    before, now = (plan_under(job_of(small, STREAM, *s)) for s in ((), ("deduplicate.shards=64",)))
    stored = plan_file.plan_json(before)
    assert before.digest == now.digest and stored["id_shards"] == 8
    plan_file.refuse_changed(stored, before, "engine.checkpoints", "state")
    with pytest.raises(ConfigError, match="= 64: differs from state, where ids are in 8 shards"):
        plan_file.refuse_changed(stored, now, "engine.checkpoints", "state")
    with pytest.raises(ConfigError, match=r"deduplicate\.shards"):
        shards("deduplicate.shards=0")
    with pytest.raises(ConfigError, match="from 1 to 4,096"):
        RuntimeAssumptions(id_shards=5000)


def test_the_statement_tells_what_an_open_quote_takes(small: Path) -> None:
    sets = ("source.quoted_newlines=true", "limits.line_bytes=4096")
    told = plan_under(job_of(small, *sets)).guarantee.statement
    assert "close the quotes that they open within 4,096 bytes" in told
    assert "quotes" not in plan_under(job_of(small)).guarantee.statement
    assert plan_under(job_of(small, *sets)).digest == plan_under(job_of(small)).digest


USERS = (
    "privacy={epsilon: 1, delta: 1e-6, protect_for: all, unit: user, per: all, "
    "contributions: {ticks: 2, keys: 1, events: 3}}",
    "schema.unit=who",
)


def test_users_have_shards_and_no_horizon(small: Path) -> None:
    def shards(*sets: str) -> int:
        return plan_under(job_of(small, *USERS, *sets)).circumstances.id_shards

    assert shards() == 8 and shards(STREAM) == 256
    assert shards(STREAM, "deduplicate.shards=8") == 8 and shards("deduplicate.shards=3") == 3
    with pytest.raises(ConfigError, match="where privacy.unit is user") as refused:
        job_of(small, *USERS, STREAM, "deduplicate.horizon=3h")
    assert refused.value.field == "deduplicate.horizon"
