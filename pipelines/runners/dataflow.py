"""Jobs for Google Dataflow: what is refused beforehand, and the request that would be sent.

``dry_run`` goes the way of Beam's DataflowRunner up to the moment of sending: the same overrides,
the same portable pipeline, the same description of the job. It needs no network and no
credentials. What Dataflow takes is in ``dataflow_limits``.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import (
    DebugOptions,
    GoogleCloudOptions,
    SetupOptions,
    TestOptions,
    WorkerOptions,
)
from google.protobuf import json_format

from weir.dpcore.errors import ConfigError, WeirError
from weir.pipelines.connectors.connector import PROJECT, PROJECT_RULE
from weir.pipelines.graph.parts import Parts
from weir.pipelines.runners import dataflow_limits
from weir.pipelines.runners.options import NO_LISTING
from weir.transforms.runtime import files

BUCKETS = ("gs://",)
EMULATOR = "PUBSUB_EMULATOR_HOST"


class Unsupported(WeirError):
    """A job that Dataflow would not run."""


def check_job(parts: Parts) -> None:
    """Refuses what workers in a data centre cannot reach.

    Raises:
      ConfigError: a path of this machine, a secret that is not in Secret Manager, or a table on
        the screen.
    """
    sink = parts.sink
    if os.environ.get(EMULATOR):
        raise ConfigError(
            EMULATOR,
            os.environ[EMULATOR],
            "names a server of this machine; unset it for --runner dataflow.",
        )
    for door in filter(None, (parts.source, sink, parts.letters)):
        for name in door.paths:
            path = getattr(door, name)
            if path is not None and not path.startswith(BUCKETS):
                raise ConfigError(
                    f"{door.role}.{name}",
                    path,
                    "is on this machine; workers of Dataflow reach buckets only: use gs://...",
                )
    if sink.needs_screen:
        raise ConfigError(
            sink.field,
            sink.value,
            "has no screen on Dataflow; use parquet, pubsub, kafka or bigquery.",
        )
    for _, secret in parts.secrets:
        if secret.gcp is None:
            raise ConfigError(
                "secret",
                secret.kind,
                "must be in Secret Manager for Dataflow, like "
                "`secret: {gcp: projects/acme-data/secrets/weir/versions/1}`; the workers' service "
                "account needs roles/secretmanager.secretAccessor on it.",
            )


def settle(options: Any, name: str, dry: bool = False, version: int | None = None) -> None:
    """Completes options before the pipeline is made, so that nothing of this machine is sent.

    The image has all code. So no main session is pickled, no package is staged, and the list of
    installed packages (which may hold paths) is not uploaded.

    Args:
      options: Beam's, changed in place.
      name: of the job's config. The service runs one job of a name at a time, so a stream that is
        started twice is refused there.
      dry: the job will be described, not sent.
      version: of the plan, where the config names one.

    Raises:
      ConfigError: names the option that is missing, or the version that an update needs.
    """
    cloud = options.view_as(GoogleCloudOptions)
    image = options.view_as(WorkerOptions).sdk_container_image
    for flag, value, example in (
        ("--project", cloud.project, "acme-data"),
        ("--region", cloud.region, "europe-west1"),
        ("--temp_location", cloud.temp_location, "gs://acme-weir/temp"),
        ("--sdk_container_image", image, "europe-docker.pkg.dev/acme-data/weir/weir:0.1.0"),
    ):
        if not value:
            raise ConfigError(flag, None, f"is missing for --runner dataflow; add {flag}={example}")
    if not PROJECT.fullmatch(cloud.project):
        raise ConfigError(
            "--project",
            cloud.project,
            f"cannot be the ID of a project. Write the project's ID: {PROJECT_RULE}.",
        )
    # Beam would ask Google for another bucket in place of one that it takes for a mistake.
    for flag, value in (
        ("--temp_location", cloud.temp_location),
        ("--staging_location", cloud.staging_location),
    ):
        if not value:
            continue
        wrong = files.fault(value)
        if wrong is not None:
            raise ConfigError(flag, value, wrong)
        if not value.startswith(BUCKETS) or not value.removeprefix("gs://").partition("/")[2]:
            raise ConfigError(flag, value, "must be in a bucket. Write gs://BUCKET/FOLDER.")
    if dry and cloud.update:
        raise ConfigError(
            "--update", True, "asks the service for the running job; leave it out of a dry run."
        )
    if cloud.update and version is None:
        raise ConfigError(
            "version",
            None,
            "is needed with --update, because the state of the running job belongs to one version "
            "of the plan: write the one whose digest (weir plan --json) its releases bear.",
        )
    setup = options.view_as(SetupOptions)
    for flag, value in (
        ("--setup_file", setup.setup_file),
        ("--requirements_file", setup.requirements_file),
        ("--extra_package", setup.extra_packages),
    ):
        if value:
            raise ConfigError(flag, str(value), "is not needed: the image holds all code.")
    if not cloud.job_name:
        cloud.job_name = job_name(name)
    if not dataflow_limits.JOB_NAME.fullmatch(cloud.job_name):
        raise ConfigError(
            "--job_name",
            cloud.job_name,
            "cannot be the name of a job. Write up to 63 lower-case letters, digits and dashes, "
            "with a letter first.",
        )
    setup.save_main_session = False
    setup.sdk_location = "container"
    options.view_as(DebugOptions).add_experiment(NO_LISTING)
    options.view_as(TestOptions).dry_run = dry


def job_name(name: str) -> str:
    """A config's name as Dataflow takes it: lower-case letters, digits and dashes."""
    return f"weir-{re.sub(r'[^a-z0-9]+', '-', name.lower()).strip('-')}"[:63].rstrip("-")


def dry_run(pipeline: beam.Pipeline) -> dict[str, Any]:
    """The complete request that a run would send.

    Args:
      pipeline: built for the DataflowRunner, with options that went through ``settle`` before, for
        a dry run.

    Returns:
      ``projectId``, ``location`` and ``job`` (the body of jobs.create), ``uploads`` (what is put
      into the staging folder first: url, sha256, bytes), ``pipeline`` (the uploaded portable
      pipeline in full) and ``steps`` (what runs: name, urn, state, timers).

    Raises:
      Unsupported: Dataflow would refuse the job, or run it wrongly; all reasons at once.
    """
    planned: Any = pipeline.run()  # Beam's dry run: it stops before it connects
    job = planned.job
    options = job.options
    options.view_as(TestOptions).dry_run = False  # as in the run that is described
    desk = _desk(options, job.root_staging_location)
    desk.create_job_description(job)
    cloud = options.view_as(GoogleCloudOptions)
    request = {
        "projectId": cloud.project,
        "location": cloud.region,
        "job": json_format.MessageToDict(type(job.proto).pb(job.proto)),
        "uploads": [
            {"url": url, "sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
            for url, data in desk.uploads.items()
        ],
        "pipeline": json_format.MessageToDict(job.proto_pipeline),
        "steps": dataflow_limits.steps(job.proto_pipeline),
    }
    result = dataflow_limits.problems(job.proto_pipeline, request)
    if result:
        raise Unsupported("Dataflow does not run this job: " + "; ".join(result) + ".")
    return request


def _desk(options: Any, root: str) -> Any:
    """Beam's client without its connections: it describes a job and keeps what it would upload."""
    from apache_beam.runners.dataflow.internal import apiclient

    class Desk(apiclient.DataflowApplicationClient):
        def __init__(self) -> None:  # the parent's asks for credentials
            self.google_cloud_options = options.view_as(GoogleCloudOptions)
            self.environment_version = apiclient._FNAPI_ENVIRONMENT_MAJOR_VERSION
            self._enable_caching = False
            self._root_staging_location = root
            self._sdk_image_overrides = self._get_sdk_image_overrides(options)
            self.uploads: dict[str, bytes] = {}

        def stage_file_with_retry(
            self, folder: str, name: str, content: Any, *_: Any, **__: Any
        ) -> None:
            if isinstance(content, (str, os.PathLike)):
                with open(content, "rb") as file:
                    content = io.BytesIO(file.read())
            self.uploads[f"{folder}/{name}"] = content.read()

    return Desk()
