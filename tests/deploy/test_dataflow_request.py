"""The request of a dry run is one that Dataflow takes, and holds nothing of this machine."""

from __future__ import annotations

import base64
import bz2
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as model
from click.testing import CliRunner
from google.cloud import dataflow_v1beta3
from google.protobuf import json_format

from weir.dpcore.errors import ConfigError
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import JobConfig, load, loads
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.runners import dataflow, dataflow_limits
from weir.pipelines.runners.pipeline import pipeline_for

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "europe-docker.pkg.dev/acme-data/weir/weir:0.1.0"
FLAGS = (
    "--project=acme-data",
    "--region=europe-west1",
    "--temp_location=gs://acme-weir/temp",
    f"--sdk_container_image={IMAGE}",
)
SUBSCRIPTION = "projects/acme-data/subscriptions/purchases"
SECRET = "projects/acme-data/secrets/weir/versions/1"
CONFIG = f"""
name: shop
source: {{pubsub: {{subscription: {SUBSCRIPTION}, id: id, timestamp: at}}}}
schema: {{time: at, id: purchase_id}}
key: {{column: store, declared: [north, south]}}
clock: {{start: 2026-01-01T00:00:00Z, period: 1m, delay: 10s}}
privacy: {{epsilon: 1.0, delta: 1e-6, protect_for: 1d}}
aggregates:
  purchases: {{count: events, over: [all]}}
  dollars: {{sum: amount, clip: [0, 200]}}
secret: {{gcp: {SECRET}}}
sink: {{parquet: gs://acme-weir/out/}}
dead_letters: {{parquet: gs://acme-weir/dead/}}
"""


def job(**changes: Any) -> JobConfig:
    made = loads(CONFIG)
    return made.model_copy(update=changes)


def request_of(made: JobConfig, *flags: str) -> dict[str, Any]:
    parts = parts_of(made, "dataflow", look=False)
    return dataflow.dry_run(pipeline_for(parts, "dataflow", [*FLAGS, *flags], dry=True))


def described(*flags: str, **changes: Any) -> dict[str, Any]:
    """The request for a stream of the config above."""
    return request_of(job(**changes), *flags)


@pytest.fixture(scope="module")
def request_of_stream() -> Iterator[dict[str, Any]]:
    """Made where every attempt to connect, and every look for credentials, fails."""
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: Any, **__: Any) -> None:
            raise AssertionError("a dry run must not connect")

        patch.setattr(socket.socket, "connect", refuse)
        patch.setattr("google.auth.default", refuse)
        patch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
        yield described()


def pipeline_of(request: dict[str, Any]) -> model.Pipeline:
    return json_format.ParseDict(request["pipeline"], model.Pipeline())


def step(request: dict[str, Any], end: str) -> dict[str, Any]:
    (found,) = [step for step in request["steps"] if step["name"].endswith(end)]
    return found


@pytest.mark.slow
def test_job_is_of_the_services_own_schema(request_of_stream: dict[str, Any]) -> None:
    body = dataflow_v1beta3.CreateJobRequest.pb(dataflow_v1beta3.CreateJobRequest())
    json_format.ParseDict(
        {
            "projectId": request_of_stream["projectId"],
            "location": request_of_stream["location"],
            "job": request_of_stream["job"],
        },
        body,
    )
    assert (body.project_id, body.location) == ("acme-data", "europe-west1")
    assert body.job.type_ == dataflow_v1beta3.JobType.JOB_TYPE_STREAMING


@pytest.mark.slow
def test_request_is_plain_json_and_complete(request_of_stream: dict[str, Any]) -> None:
    again = json.loads(json.dumps(request_of_stream))
    pipeline = pipeline_of(again)
    url = again["job"]["environment"]["sdkPipelineOptions"]["options"]["pipelineUrl"]
    (upload,) = again["uploads"]
    assert upload["url"] == url and url.startswith("gs://acme-weir/temp/weir-shop")
    assert upload["bytes"] == pipeline.ByteSize()
    assert dataflow_limits.problems(pipeline, again) == []


@pytest.mark.slow
def test_request_is_that_of_a_real_run(request_of_stream: dict[str, Any]) -> None:
    options = request_of_stream["job"]["environment"]["sdkPipelineOptions"]
    assert options["options"]["dry_run"] is False
    assert "dry_run" not in {item["key"] for item in options["display_data"]}


def test_streaming_engine_and_runner_v2_are_on(request_of_stream: dict[str, Any]) -> None:
    experiments = request_of_stream["job"]["environment"]["experiments"]
    assert {"use_runner_v2", "enable_streaming_engine"} <= set(experiments)


def test_pubsub_is_read_by_the_service_with_id_and_by_publish_time(
    request_of_stream: dict[str, Any],
) -> None:
    (read,) = [s for s in request_of_stream["steps"] if "pubsub" in s]
    assert read["urn"] == "beam:transform:pubsub_read:v1"
    assert read["pubsub"] == {
        "subscription": SUBSCRIPTION,
        "idAttribute": "id",
        "withAttributes": True,
    }


def test_tick_keeps_state_and_timers_that_the_service_has(
    request_of_stream: dict[str, Any],
) -> None:
    tick = step(request_of_stream, "ParDo(TickDoFn)")
    assert tick["state"] and set(tick["state"].values()) <= dataflow_limits.STATE
    assert set(tick["timers"].values()) == {"EVENT_TIME"}
    assert step(request_of_stream, "Clock/Follow")["splittable"]


def test_secret_travels_as_a_reference_and_image_as_a_name(
    request_of_stream: dict[str, Any],
) -> None:
    (pool,) = request_of_stream["job"]["environment"]["workerPools"]
    assert pool["workerHarnessContainerImage"] == IMAGE
    assert [i["containerImage"] for i in pool["sdkHarnessContainerImages"]] == [IMAGE]
    (environment,) = pipeline_of(request_of_stream).components.environments.values()
    assert not environment.dependencies
    assert SECRET.encode() in opened(request_of_stream)


def test_nothing_of_this_machine_is_in_it(request_of_stream: dict[str, Any]) -> None:
    everything = opened(request_of_stream) + json.dumps(request_of_stream["job"]).encode()
    # Lambdas of Beam carry the name of the file that they were compiled from.
    everything = everything.replace(str(Path(beam.__file__).parent).encode(), b"")
    for place in (str(ROOT), str(Path.home()) + "/", sys.prefix):
        assert place.encode() not in everything, place


def opened(request: dict[str, Any]) -> bytes:
    """All payloads, unpacked as a reader of the staging folder could."""
    shown = []
    for transform in pipeline_of(request).components.transforms.values():
        declared = dataflow_limits.par_do(transform)
        payload = transform.spec.payload if declared is None else declared.do_fn.payload
        try:
            shown.append(bz2.decompress(base64.b64decode(payload)))
        except (ValueError, OSError):
            shown.append(payload)
    return b"".join(shown)


def broken(request: dict[str, Any]) -> tuple[model.Pipeline, dict[str, Any]]:
    return pipeline_of(request), json.loads(json.dumps(request))


def test_unknown_requirement_is_a_problem(request_of_stream: dict[str, Any]) -> None:
    pipeline, request = broken(request_of_stream)
    pipeline.requirements.append(common_urns.requirements.REQUIRES_TIME_SORTED_INPUT.urn)
    (found,) = dataflow_limits.problems(pipeline, request)
    assert "time_sorted" in found


def test_unknown_step_is_a_problem(request_of_stream: dict[str, Any]) -> None:
    pipeline, request = broken(request_of_stream)
    for transform in pipeline.components.transforms.values():
        if transform.unique_name.endswith("TickDoFn)"):
            transform.spec.urn = "beam:transform:teststream:v1"
    assert any("teststream" in found for found in dataflow_limits.problems(pipeline, request))


def test_map_state_is_a_problem(request_of_stream: dict[str, Any]) -> None:
    pipeline, request = broken(request_of_stream)
    for transform in pipeline.components.transforms.values():
        if transform.unique_name.endswith("TickDoFn)"):
            payload = dataflow_limits.par_do(transform)
            assert payload is not None
            payload.state_specs["seen"].map_spec.key_coder_id = "bytes"
            transform.spec.payload = payload.SerializeToString()
    (found,) = dataflow_limits.problems(pipeline, request)
    assert "seen" in found


@pytest.mark.parametrize(
    ("image", "word"),
    [
        ("apache/beam_python3.11_sdk:2.77.0", "does not hold Weir"),
        ("gcr.io/cloud-dataflow/v1beta3/beam_python3.11_sdk:2.77.0", "does not hold Weir"),
        ("europe-docker.pkg.dev/acme-data/weir/weir", "no fixed tag"),
        ("europe-docker.pkg.dev/acme-data/weir/weir:latest", "no fixed tag"),
    ],
)
def test_image_without_weir_or_tag_is_a_problem(
    request_of_stream: dict[str, Any], image: str, word: str
) -> None:
    pipeline, request = broken(request_of_stream)
    for environment in pipeline.components.environments.values():
        environment.payload = model.DockerPayload(container_image=image).SerializeToString()
    (found,) = dataflow_limits.problems(pipeline, request)
    assert word in found


def test_other_environments_and_staged_files_are_problems(
    request_of_stream: dict[str, Any],
) -> None:
    pipeline, request = broken(request_of_stream)
    for environment in pipeline.components.environments.values():
        environment.dependencies.add(type_urn=common_urns.artifact_types.FILE.urn)
    assert any("staged" in found for found in dataflow_limits.problems(pipeline, request))
    for environment in pipeline.components.environments.values():
        environment.urn = common_urns.environments.PROCESS.urn
    assert any("not an image" in found for found in dataflow_limits.problems(pipeline, request))


def test_batch_job_of_a_stream_is_a_problem(request_of_stream: dict[str, Any]) -> None:
    pipeline, request = broken(request_of_stream)
    request["job"]["type"] = "JOB_TYPE_BATCH"
    (found,) = dataflow_limits.problems(pipeline, request)
    assert "unbounded" in found


def test_missing_streaming_engine_long_name_local_path_and_size_are_problems(
    request_of_stream: dict[str, Any],
) -> None:
    pipeline, request = broken(request_of_stream)
    request["job"]["environment"]["experiments"].remove("enable_streaming_engine")
    request["job"]["name"] = "Shop"
    request["job"]["environment"]["sdkPipelineOptions"]["options"]["temp_location"] = "/tmp/x"
    request["uploads"][0]["bytes"] = dataflow_limits.GRAPH_BYTES + 1
    found = " ".join(dataflow_limits.problems(pipeline, request))
    for word in ("enable_streaming_engine is off", "'Shop'", "temp_location", "more than"):
        assert word in found


@pytest.mark.parametrize(
    "flag", ["--project", "--region", "--temp_location", "--sdk_container_image"]
)
def test_missing_option_is_named(flag: str) -> None:
    options = PipelineOptions([given for given in FLAGS if not given.startswith(flag)])
    with pytest.raises(ConfigError) as error:
        dataflow.settle(options, "shop")
    assert error.value.field == flag


def test_local_temp_location_code_files_and_updates_are_refused() -> None:
    for flag in ("--temp_location=/tmp/x", "--setup_file=setup.py", "--update"):
        with pytest.raises(ConfigError):
            dataflow.settle(PipelineOptions([*FLAGS, flag]), "shop", dry=True)


def test_an_update_goes_on_under_a_version_that_is_said() -> None:
    for version in (None, 1):
        options = PipelineOptions([*FLAGS, "--update"])
        if version is None:
            with pytest.raises(ConfigError, match="needed with --update") as error:
                dataflow.settle(options, "shop")
            assert error.value.field == "version"
        else:
            dataflow.settle(options, "shop", version=version)


@pytest.mark.slow
def test_what_would_not_run_is_told_in_full() -> None:
    with pytest.raises(dataflow.Unsupported, match="has no fixed tag"):
        described("--sdk_container_image=europe-docker.pkg.dev/acme-data/weir/weir")


@pytest.mark.parametrize(
    ("section", "field"),
    [
        ("sink: {parquet: out/}", "sink.parquet"),
        ("sink: {stdout: true}", "sink.stdout"),
        ("dead_letters: {csv: dead/}", "dead_letters.csv"),
        ("secret: {file: secret.key}", "secret"),
        ("secret: {env: WEIR_SECRET}", "secret"),
        ("source: {csv: events.csv}", "source.csv"),
    ],
)
def test_what_workers_cannot_reach_is_refused(section: str, field: str) -> None:
    lines = [line for line in CONFIG.splitlines() if not line.startswith(section.split(":")[0])]
    text = "\n".join([*lines, section]).replace("delay: 10s", "end: 2026-02-01T00:00:00Z")
    with pytest.raises(ConfigError) as error:
        dataflow.check_job(parts_of(loads(text), look=False))
    assert error.value.field == field


def test_job_in_the_cloud_is_taken() -> None:
    dataflow.check_job(parts_of(job(), look=False))


def test_server_of_this_machine_and_later_local_secret_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rotated = f"{{gcp: {SECRET}, rotate: [{{from: 2026-02-01T00:00:00Z, file: b.key}}]}}"
    with pytest.raises(ConfigError) as error:
        dataflow.check_job(
            parts_of(loads(CONFIG.replace(f"{{gcp: {SECRET}}}", rotated)), look=False)
        )
    assert error.value.field == "secret"
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "localhost:8085")
    with pytest.raises(ConfigError) as error:
        dataflow.check_job(parts_of(job(), look=False))
    assert error.value.field == "PUBSUB_EMULATOR_HOST"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shop", "weir-shop"), ("A_b", "weir-a-b"), ("x" * 90, "weir-" + 58 * "x")],
)
def test_job_name_is_stable_and_one_that_the_service_takes(name: str, expected: str) -> None:
    assert dataflow.job_name(name) == expected
    assert dataflow_limits.JOB_NAME.fullmatch(expected)


@pytest.mark.slow
def test_command_prints_the_request(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(CONFIG)
    arguments = ["run", str(tmp_path / "job.yaml"), "--runner", "dataflow", "--dry-run", *FLAGS]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["job"]["name"] == "weir-shop"
    refused = CliRunner().invoke(main, arguments[:-1])
    assert refused.exit_code == 2 and "--sdk_container_image" in refused.output


@pytest.mark.slow
def test_pubsub_sinks_are_described_too() -> None:
    sink = "sink: {pubsub: projects/acme-data/topics/releases}"
    letters = "dead_letters: {pubsub: projects/acme-data/topics/dead}"
    lines = [line for line in CONFIG.splitlines() if not line.startswith(("sink", "dead"))]
    request = request_of(loads("\n".join([*lines, sink, letters])))
    assert dataflow_limits.problems(pipeline_of(request), request) == []


@pytest.mark.slow
def test_learners_job_is_described_too() -> None:
    config = ROOT / "examples" / "flights" / "flights.yaml"
    changes = (
        f"source={{pubsub: {{subscription: {SUBSCRIPTION}}}}}",
        f"secret={{gcp: {SECRET}}}",
        "sink={parquet: gs://acme-weir/flights/}",
    )
    request = request_of(load(config, changes))
    assert dataflow_limits.problems(pipeline_of(request), request) == []
