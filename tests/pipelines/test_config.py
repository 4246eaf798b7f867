"""A config file: variables, --set, paths, and the sections of a job."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.pipelines.conftest import SMALL, Weir
from weir.dpcore.config import yaml
from weir.dpcore.errors import ConfigError
from weir.dpcore.plan_config import PlanConfig
from weir.pipelines.config.job import JobConfig, load, loads
from weir.pipelines.config.sections import (
    Deduplicate,
    Secret,
)
from weir.pipelines.sinks.folder import CsvSink
from weir.pipelines.sinks.sink import DEAD_LETTERS, SINKS
from weir.pipelines.sources.pubsub import SubscriptionConfig
from weir.pipelines.sources.registry import SOURCES
from weir.pipelines.sources.source import Limits


def refusal(text: str = SMALL, sets: tuple[str, ...] = (), **environ: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        loads(text, sets, environ)
    return refused.value


def test_paths_are_relative_to_the_config(small: Path) -> None:
    job = load(small, ["secret.file=secret.key", "dead_letters.csv=/abs/dead"])
    assert job.source is not None and job.sink is not None
    assert job.source.path == str(small.parent / "events.csv")
    assert job.sink.place == str(small.parent / "out")
    assert job.secret is not None and job.secret.value == str(small.parent / "secret.key")
    assert job.dead_letters is not None and job.dead_letters.place == "/abs/dead"


def test_buckets_are_left_alone(small: Path) -> None:
    job = load(small, ["source.csv=gs://bucket/a*.csv"])
    assert job.source is not None and job.source.path == "gs://bucket/a*.csv"


def test_set_replaces_adds_and_removes() -> None:
    job = loads(
        SMALL,
        [
            "privacy.epsilon=2",
            "aggregates.visits.over=[all, 7]",
            "deduplicate.horizon=7d",
            "key=null",
            "sink={csv: elsewhere, every: 4}",
        ],
    )
    assert job.privacy.epsilon == 2.0
    assert job.aggregates["visits"].overs == (None, 7)
    assert job.deduplicate == Deduplicate(horizon="7d")
    assert job.key is None
    assert job.sink == CsvSink(csv="elsewhere", every=4)


@pytest.mark.parametrize(
    ("one", "says"),
    [
        ("privacy.epsilon", "field=value"),
        ("=1", "field=value"),
        ("a..b=1", "field=value"),
        ("name.x=1", "not a section"),
        ("privacy.epsilon={", "not YAML"),
        ("name=${NOPE}", "variable NOPE"),
    ],
)
def test_set_refusals(one: str, says: str) -> None:
    error = refusal(sets=(one,))
    assert error.field == "--set"
    assert says in error.remedy


def test_variables_come_from_the_environment() -> None:
    text = SMALL.replace("epsilon: 1.0", "epsilon: ${EPS}")
    assert loads(text, (), {"EPS": "0.25"}).privacy.epsilon == 0.25
    assert "variable EPS" in str(refusal(text))


def test_aliases_that_stand_for_too_much_are_refused_before_they_are_walked() -> None:
    lines = ["a0: &a0 [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    started = time.monotonic()
    error = refusal(SMALL + "\n".join(lines))
    assert time.monotonic() - started < 10, "ten billion values were walked over"
    assert "repeats more than" in error.remedy


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="weir init"):
        load(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path / "binary.yaml")
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("one", "field", "says"),
    [
        ("source={csv: a, ndjson: b}", "source", "exactly one"),
        ("source={}", "source", "exactly one"),
        ("source={cvs: a}", "source.cvs", "did you mean csv?"),
        ("source={csv: a, header: false}", "source.header", "needs columns next to it"),
        ("source={csv: a, columns: [a]}", "source.columns", "add header: false"),
        ("source={csv: a, header: false, columns: []}", "source.columns", "every field"),
        ("source={csv: a, header: false, columns: [a, a]}", "source.columns", "every field"),
        ("source={csv: a, header: false, columns: [a, ' ']}", "source.columns", "every field"),
        ("source={csv: a, encoding: klingon}", "source.encoding", "no encoding of text"),
        ("source={csv: a, encoding: utf-7}", "source.encoding", "convert the file first"),
        ("source={ndjson: a, encoding: latin-1}", "source.encoding", "is for csv only"),
        ("source={avro: a, quoted_newlines: true}", "source.quoted_newlines", "is for csv only"),
        ("source={ndjson: a, header: false, columns: [a]}", "source.columns", "is for csv only"),
        ("source={pubsub: {subscription: x}}", "source.pubsub.subscription", "projects/P"),
        ("source={pubsub: {}}", "source.pubsub.subscription", "is missing"),
        (
            "source={pubsub: {subscription: projects/acme-1/subscriptions/all, payload: xml}}",
            "source.pubsub.payload",
            "ndjson",
        ),
        ("sink={parquet: a, csv: b}", "sink", "exactly one"),
        ("sink={every: 3}", "sink", "exactly one"),
        ("sink.every=0", "sink.every", "1 or more"),
        ("sink={stdout: false}", "sink.stdout", "True"),
        ("secret={file: a, env: B}", "secret", "exactly one"),
        ("secret.fil=x", "secret.fil", "did you mean file?"),
        ("dead_letters={}", "dead_letters", "exactly one"),
        ("limits.line_bytes=1", "limits.line_bytes", "from 64"),
        ("limits.line_byte=1", "limits.line_byte", "did you mean line_bytes?"),
        ("schema={time: {column: at, zone: Mars}}", "schema.time.zone", "Europe/Berlin"),
        ("deduplicate={horizon: soon}", "deduplicate.horizon", "duration"),
        ("sinc={}", "sinc", "did you mean sink?"),
    ],
)
def test_job_refusals(one: str, field: str, says: str) -> None:
    error = refusal(sets=(one,))
    assert error.field == field
    assert says in error.remedy


def test_deduplicate_needs_an_id() -> None:
    error = refusal(sets=("schema={time: at}", "deduplicate.horizon=1d"))
    assert error.field == "deduplicate"
    assert "schema.id" in error.remedy


def test_the_plan_part_does_not_know_the_job() -> None:
    job = loads(SMALL)
    part = job.plan_config()
    assert type(part) is PlanConfig
    assert part == PlanConfig.from_yaml(SMALL)
    assert PlanConfig.from_dict(part.to_dict()) == part


def test_a_job_goes_round() -> None:
    job = loads(SMALL)
    assert JobConfig.from_dict(job.to_dict()) == job


@pytest.mark.parametrize(
    "section",
    [
        *(JobConfig, SubscriptionConfig, Secret, Deduplicate, Limits),
        *(*SOURCES.values(), *SINKS.values(), *DEAD_LETTERS.values()),
    ],
)
def test_every_field_has_a_description_and_an_example(section: Any) -> None:
    for name, info in section.model_fields.items():
        assert info.description, name
        assert info.examples, name


def test_columns_are_held_against_the_schema_before_any_data(weir: Weir, small: Path) -> None:
    source = "source={csv: e.csv, header: false, columns: [at, id, stores, amount]}"
    refused = weir("plan", small, "--set", source)
    assert refused.exit_code == 2
    assert "key.column = 'store': is not a column of source.columns; did you mean stores?" in (
        refused.stderr
    )
    assert weir("plan", small, "--set", source.replace("stores", "store")).exit_code == 0


def test_moments_that_python_holds_are_moments() -> None:
    """Of a config that is a dictionary, as readers of YAML 1.1 give it."""
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    job = JobConfig.from_dict(
        {
            **yaml.parse_mapping(SMALL, {}),
            "clock": {"start": date(2024, 1, 1), "period": "1d", "end": moment},
            "secret": {"file": "a", "rotate": [{"from": moment, "file": "b"}]},
            "source": {
                "pubsub": {
                    "subscription": "projects/acme-1/subscriptions/shop",
                    "replay": {"origin": moment, "started": date(2026, 1, 1)},
                }
            },
        }
    )
    assert job.clock.to_clock().ticks == 1 and job.secret is not None
    assert [one.start for one in job.secret.rotate] == ["2024-01-02T00:00:00+00:00"]
    assert job.to_dict()["clock"]["start"] == "2024-01-01"
