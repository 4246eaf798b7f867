"""What Dataflow runs of a portable pipeline, as a check of a request that is not sent.

Sources: Beam's capability matrix and portable model (beam_runner_api.proto) for Runner v2, which
is the only one for Python since Beam 2.45; Dataflow's quotas for sizes. Streaming needs Streaming
Engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as model
from google.protobuf import json_format

PUBSUB_READ = common_urns.composites.PUBSUB_READ.urn
PUBSUB_WRITE = common_urns.composites.PUBSUB_WRITE.urn
PAR_DO = common_urns.primitives.PAR_DO.urn

PRIMITIVES = frozenset(
    {
        PAR_DO,
        PUBSUB_READ,
        PUBSUB_WRITE,
        common_urns.primitives.ASSIGN_WINDOWS.urn,
        common_urns.primitives.FLATTEN.urn,
        common_urns.primitives.GROUP_BY_KEY.urn,
        common_urns.primitives.IMPULSE.urn,
        common_urns.composites.COMBINE_PER_KEY.urn,
        common_urns.composites.RESHUFFLE.urn,
    }
)
"""Steps that the service runs."""

REQUIREMENTS = frozenset(
    {
        common_urns.requirements.REQUIRES_STATEFUL_PROCESSING.urn,
        common_urns.requirements.REQUIRES_SPLITTABLE_DOFN.urn,
        common_urns.requirements.REQUIRES_BUNDLE_FINALIZATION.urn,
        common_urns.requirements.REQUIRES_ON_WINDOW_EXPIRATION.urn,
    }
)
"""What a pipeline may demand. Input sorted by time is not among them."""

STATE = frozenset({"bag_spec", "read_modify_write_spec", "combining_spec"})
"""Cells. Maps, sets and ordered lists are not for Python streams."""

STREAMING = ("use_runner_v2", "enable_streaming_engine", "enable_windmill_service")
JOB_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
REQUEST_BYTES = 20 << 20
GRAPH_BYTES = 10 << 20
BEAM_IMAGES = re.compile(r"(^|/)(apache/beam_|beam_python)")
LOCAL = re.compile(r"^(file:|/|\./|\.\./|~)")


def leaves(pipeline: model.Pipeline) -> Iterator[model.PTransform]:
    """What runs: transforms that hold no others and do more than hand on their input."""
    for transform in pipeline.components.transforms.values():
        handed_on = set(transform.outputs.values()) <= set(transform.inputs.values())
        if not transform.subtransforms and not handed_on:
            yield transform


def par_do(transform: model.PTransform) -> model.ParDoPayload | None:
    """What a ParDo declares; None for other steps."""
    if transform.spec.urn != PAR_DO:
        return None
    payload: model.ParDoPayload = model.ParDoPayload.FromString(transform.spec.payload)
    return payload


def steps(pipeline: model.Pipeline) -> list[dict[str, Any]]:
    """Steps by name: urn, and for a ParDo its state, its timers and whether it is splittable."""
    listed = []
    for transform in sorted(leaves(pipeline), key=lambda t: t.unique_name):
        step: dict[str, Any] = {"name": transform.unique_name, "urn": transform.spec.urn}
        declared = par_do(transform)
        if declared is not None:
            step["state"] = {
                name: str(spec.WhichOneof("spec")) for name, spec in declared.state_specs.items()
            }
            step["timers"] = {
                name: model.TimeDomain.Enum.Name(spec.time_domain)
                for name, spec in declared.timer_family_specs.items()
            }
            step["splittable"] = bool(declared.restriction_coder_id)
            step["finalizes"] = declared.requests_finalization
        elif transform.spec.urn == PUBSUB_READ:
            read = model.PubSubReadPayload.FromString(transform.spec.payload)
            step["pubsub"] = json_format.MessageToDict(read)
        elif transform.spec.urn == PUBSUB_WRITE:
            write = model.PubSubWritePayload.FromString(transform.spec.payload)
            step["pubsub"] = json_format.MessageToDict(write)
        listed.append(step)
    return listed


def problems(pipeline: model.Pipeline, request: dict[str, Any]) -> list[str]:
    """Everything that Dataflow would refuse or run otherwise than meant; empty when all is well.

    Args:
      pipeline: portable, as it is uploaded.
      request: as ``dataflow.dry_run`` returns it.
    """
    return [
        *_graph(pipeline),
        *_environments(pipeline),
        *_job(pipeline, request["job"]),
        *_local(request["job"]),
        *_sizes(request),
    ]


def _graph(pipeline: model.Pipeline) -> Iterator[str]:
    for urn in sorted(set(pipeline.requirements) - REQUIREMENTS):
        yield f"it requires {urn}"
    for transform in leaves(pipeline):
        name = transform.unique_name
        if transform.spec.urn not in PRIMITIVES:
            yield f"step {name} is {transform.spec.urn}"
        declared = par_do(transform)
        if declared is None:
            continue
        for cell, spec in declared.state_specs.items():
            if spec.WhichOneof("spec") not in STATE:
                yield f"step {name} keeps {cell} as {spec.WhichOneof('spec')}"
        for timer, family in declared.timer_family_specs.items():
            if family.time_domain == model.TimeDomain.UNSPECIFIED:
                yield f"step {name} has a timer {timer} without a time domain"
        if declared.requires_time_sorted_input:
            yield f"step {name} wants its input sorted by time"
        if (declared.state_specs or declared.timer_family_specs) and not _keyed(
            pipeline, transform
        ):
            yield f"step {name} keeps state without a key"


def _keyed(pipeline: model.Pipeline, transform: model.PTransform) -> bool:
    parts = pipeline.components
    coders = [parts.coders[parts.pcollections[name].coder_id] for name in transform.inputs.values()]
    return any(coder.spec.urn == common_urns.coders.KV.urn for coder in coders)


def _environments(pipeline: model.Pipeline) -> Iterator[str]:
    for environment in pipeline.components.environments.values():
        if environment.urn != common_urns.environments.DOCKER.urn:
            yield f"an environment is {environment.urn}, not an image"
            continue
        image = model.DockerPayload.FromString(environment.payload).container_image
        if BEAM_IMAGES.search(image):
            yield f"the image {image} is Beam's own and does not hold Weir"
        if "@" not in image and not re.search(r":[^/]+$", image.replace(":latest", "")):
            yield f"the image {image} has no fixed tag, so a restart may run other code"
        for artifact in environment.dependencies:
            yield f"an artifact ({artifact.type_urn}) would be staged; the image holds all code"


def _job(pipeline: model.Pipeline, job: dict[str, Any]) -> Iterator[str]:
    unbounded = any(
        collection.is_bounded == model.IsBounded.UNBOUNDED
        for collection in pipeline.components.pcollections.values()
    )
    experiments = set(job["environment"].get("experiments", ()))
    if not JOB_NAME.fullmatch(job["name"]):
        yield f"the job name {job['name']!r} is not lower-case letters, digits and dashes"
    if unbounded != (job["type"] == "JOB_TYPE_STREAMING"):
        yield f"it is {'un' if unbounded else ''}bounded and sent as {job['type']}"
    for experiment in STREAMING if unbounded else STREAMING[:1]:
        if experiment not in experiments:
            yield f"{experiment} is off"
    if len(job["environment"]["workerPools"]) != 1:
        yield "it has not one worker pool"
    if not unbounded and any(t.spec.urn == PUBSUB_READ for t in leaves(pipeline)):
        yield "Pub/Sub is read by a batch job"


def _local(value: Any, where: str = "job") -> Iterator[str]:
    """Texts that are paths of the submitting machine."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _local(inner, f"{where}.{name}")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _local(inner, f"{where}[{place}]")
    elif isinstance(value, str) and LOCAL.match(value):
        yield f"{where} is a path of this machine"


def _sizes(request: dict[str, Any]) -> Iterator[str]:
    import json

    size = len(json.dumps(request["job"]))
    if size > REQUEST_BYTES:
        yield f"the request has {size} bytes, more than {REQUEST_BYTES}"
    for upload in request["uploads"]:
        if upload["bytes"] > GRAPH_BYTES:
            yield f"{upload['url']} has {upload['bytes']} bytes, more than {GRAPH_BYTES}"
