"""compose.yaml: of Compose's schema as far as we use it, and of one mind with the rest."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from tests.deploy.dockerfile import read
from weir.pipelines.cli.main import main
from weir.pipelines.config.job import load
from weir.pipelines.graph.checks import plan_of
from weir.pipelines.sources.pubsub import PubSubSource
from weir.transforms.runtime.secret import MOUNTS

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = YAML(typ="safe", pure=True).load(
    (ROOT / "deploy" / "compose.yaml").read_text()
)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CLUSTER = YAML(typ="safe", pure=True).load((ROOT / "deploy" / "flink" / "cluster.yaml").read_text())

TEXTS = {"type": "array", "items": {"type": "string"}}
CONDITIONS = ["service_started", "service_healthy", "service_completed_successfully"]
SERVICE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["image"],
    "properties": {
        "image": {"type": "string", "pattern": r"^[\w./-]+:[\w.-]+$"},
        "build": {
            "type": "object",
            "additionalProperties": False,
            "required": ["context", "dockerfile"],
            "properties": {
                "context": {"type": "string"},
                "dockerfile": {"type": "string"},
                "args": {"type": "object", "additionalProperties": {"type": "string"}},
                "additional_contexts": {
                    "type": "object",
                    "additionalProperties": {"type": "string"},
                },
            },
        },
        "command": TEXTS,
        "entrypoint": TEXTS,
        "working_dir": {"type": "string"},
        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
        "volumes": TEXTS,
        "ports": TEXTS,
        "network_mode": {"type": "string", "pattern": "^service:"},
        "depends_on": {
            "oneOf": [
                TEXTS,
                {
                    "type": "object",
                    "additionalProperties": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["condition"],
                        "properties": {"condition": {"enum": CONDITIONS}},
                    },
                },
            ]
        },
    },
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "services", "volumes"],
    "patternProperties": {"^x-": {}},
    "properties": {
        "name": {"type": "string"},
        "services": {"type": "object", "additionalProperties": SERVICE},
        "volumes": {"type": "object", "additionalProperties": {"type": "null"}},
    },
}


def words(service: str) -> list[str]:
    """A service's command, whether it is a list or one text for a shell."""
    given = SERVICES[service]["command"]
    text = given[0] if len(given) == 1 else shlex.join(given)
    text = re.sub(r"\$\$\(date [^)]*\)", "2026-01-01T00:00:00Z", text)
    found = shlex.split(text.replace("\\\n", " "))
    return found[found.index("weir") + 1 :] if "weir" in found else found


def test_file_is_of_its_schema() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(COMPOSE)
    with pytest.raises(jsonschema.ValidationError):
        wrong = {**COMPOSE, "services": {"x": {"image": "a:1", "comand": ["b"]}}}
        jsonschema.Draft202012Validator(SCHEMA).validate(wrong)


def test_what_services_name_is_there() -> None:
    for name, service in SERVICES.items():
        wanted = set(service.get("depends_on", ()))
        if "network_mode" in service:
            wanted.add(service["network_mode"].removeprefix("service:"))
        assert wanted <= set(SERVICES), name
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith("."):
                assert (ROOT / "deploy" / source).resolve().exists(), volume
            else:
                assert source in COMPOSE["volumes"], volume
        if "build" in service:
            assert (ROOT / service["build"]["dockerfile"]).exists()


def test_images_are_those_of_the_manifests() -> None:
    flink = {s["image"] for s in SERVICES.values() if s["image"].startswith("flink:")}
    assert flink == {CLUSTER["spec"]["image"]}
    tags = {
        s["image"].rpartition(":")[2] for s in SERVICES.values() if s["image"].startswith("weir")
    }
    assert len(tags) == 1
    latest = [s["image"] for s in SERVICES.values() if s["image"].endswith(":latest")]
    assert not latest


def here(path: str) -> Path:
    """Where a file of the services lies in the checkout: they mount its examples."""
    assert "../examples:/weir/examples:ro" in SERVICES["submit"]["volumes"]
    return ROOT / Path(path).relative_to("/weir")


@pytest.mark.parametrize("service", ["submit", "feed"])
def test_commands_are_those_of_weir(service: str) -> None:
    command, config, *rest = words(service)
    options = {o for p in main.commands[command].params for o in p.opts}
    beams = {"--environment_type", "--environment_config"}
    names = {word.partition("=")[0] for word in rest if word.startswith("--")}
    assert names <= options | beams
    assert here(config).exists()


def test_job_plans_and_its_places_are_mounted() -> None:
    rest = words("submit")
    sets = tuple(rest[place + 1] for place, word in enumerate(rest) if word == "--set")
    job = load(here(rest[1]), sets)
    plan_of(job)
    assert job.secret is not None and job.sink is not None and job.source is not None
    mounts = [v.split(":")[1] for v in SERVICES["submit"]["volumes"]]
    secret = f"{MOUNTS}/{job.secret.value.rpartition('/')[0]}"
    assert secret in mounts and job.engine.checkpoints in mounts
    assert any(str(job.sink.place).startswith(f"{mount}/") for mount in mounts)
    for name in ("workers-1", "workers-2"):
        assert [v for v in SERVICES[name]["volumes"] if v == f"secret:{secret}:ro"]
    # Flink's own processes do not see it.
    for name, service in SERVICES.items():
        if service["image"].startswith("flink:"):
            assert not [v for v in service.get("volumes", ()) if v.startswith("secret:")], name
    assert isinstance(job.source, PubSubSource)
    assert f'"{job.source.pubsub.subscription.replace("subscriptions", "topics")}"' in str(
        SERVICES["ready"]["command"]
    )


def test_each_taskmanager_has_a_pool_and_the_submitter_its_jar() -> None:
    pools = {s["network_mode"] for n, s in SERVICES.items() if n.startswith("workers")}
    managers = {f"service:{name}" for name in SERVICES if name.startswith("taskmanager")}
    assert pools == managers
    jar = words("submit")[words("submit").index("--flink-job-server-jar") + 1]
    copied = [w for s in read(ROOT / "deploy" / "flink" / "Dockerfile") for w in s.rest.split()]
    assert jar in copied


def test_ports_are_for_this_machine_only() -> None:
    ports = [port for s in SERVICES.values() for port in s.get("ports", ())]
    assert ports and all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in ports)
