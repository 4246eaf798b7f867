"""Pub/Sub's Terraform and gcloud script: parsed, with least rights, and saying the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import hcl2
import pytest

from weir.pipelines.config.job import loads
from weir.pipelines.sources.pubsub import PubSubSource

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "pubsub"
SCRIPT = (FOLDER / "set-up.sh").read_text()
BROAD = {"roles/owner", "roles/editor", "roles/viewer", "roles/pubsub.admin", "roles/pubsub.editor"}
GRANTS = (
    ("google_pubsub_subscription_iam_member", "subscription"),
    ("google_pubsub_topic_iam_member", "topic"),
    ("google_secret_manager_secret_iam_member", "secret_id"),
)


def plain(value: Any) -> Any:
    """Parsed HCL without the parser's own marks: quotes and single-entry lists of blocks."""
    if isinstance(value, dict):
        return {
            key.strip('"'): plain(inner) for key, inner in value.items() if not key.startswith("__")
        }
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value.strip('"') if isinstance(value, str) else value


def parsed(name: str) -> dict[str, Any]:
    with (FOLDER / name).open() as file:
        found: dict[str, Any] = plain(hcl2.load(file))
        return found


FILES = sorted(path.name for path in FOLDER.glob("*.tf"))
RESOURCES: dict[tuple[str, str], dict[str, Any]] = {
    (kind, name): body
    for file in FILES
    for block in parsed(file).get("resource", [])
    for kind, named in block.items()
    for name, body in named.items()
}
VARIABLES = {name for block in parsed("variables.tf")["variable"] for name in block}


def test_every_reference_leads_somewhere() -> None:
    text = "\n".join((FOLDER / name).read_text() for name in FILES)
    used = re.findall(r"\b(google_\w+)\.(\w+)\.\w+", re.sub(r"data\.google_project", "", text))
    assert used and {pair for pair in used if pair not in RESOURCES} == set()
    assert set(re.findall(r"\bvar\.(\w+)", text)) == VARIABLES


def test_every_variable_is_described_and_typed() -> None:
    for block in parsed("variables.tf")["variable"]:
        for body in block.values():
            assert body["description"].endswith(".") and "type" in body


def test_subscription_of_events_is_as_the_reader_needs_it() -> None:
    found = RESOURCES["google_pubsub_subscription", "events"]
    assert found["enable_exactly_once_delivery"] is False
    assert found["message_retention_duration"] == "604800s"
    assert "var.ack_deadline" in str(found["ack_deadline_seconds"])
    (letters,) = found["dead_letter_policy"]
    assert letters["max_delivery_attempts"] == 100
    (expiry,) = found["expiration_policy"]
    assert expiry["ttl"] == ""


def test_rights_are_least() -> None:
    kinds = {kind for kind, _ in RESOURCES if "iam" in kind}
    assert kinds == {kind for kind, _ in GRANTS}  # none on the project, none that takes others away
    for (kind, _), body in RESOURCES.items():
        if "iam" in kind:
            assert body["role"] not in BROAD
    roles = {
        body["role"]
        for (kind, _), body in RESOURCES.items()
        if "iam" in kind and "local.worker" in body["member"]
    }
    assert roles == {
        "roles/pubsub.subscriber",
        "roles/pubsub.viewer",
        "roles/pubsub.publisher",
        "roles/secretmanager.secretAccessor",
    }


def test_secret_has_no_value_in_terraform() -> None:
    assert not [kind for kind, _ in RESOURCES if kind == "google_secret_manager_secret_version"]


def grants_of_terraform() -> set[tuple[str, str, str]]:
    """(resource, member, role) of each grant, in the script's words."""
    names = {
        "google_pubsub_topic.events": "events",
        "google_pubsub_topic.undelivered": "undelivered",
        "google_pubsub_topic.dead": "dead",
        "google_pubsub_topic.releases": "releases",
        "google_pubsub_subscription.events": "weir",
        "google_pubsub_subscription.dead": "dead",
        "google_secret_manager_secret.noise": "noise",
    }
    found = set()
    for kind, target in GRANTS:
        for (other, name), body in RESOURCES.items():
            if other == kind:
                place = str(body[target]).strip("${}").rpartition(".")[0]
                member = str(body["member"]).strip("${}").removeprefix("local.")
                if member == "each.value":
                    member = {"publishers": "publisher", "readers": "reader"}.get(name, name)
                found.add((names[place], member, body["role"]))
    return found


def test_script_grants_what_terraform_grants() -> None:
    found = set(
        re.findall(r'^grant "[a-z ]+" "\$name-(\w+)" "\$(\w+)" (roles/\S+)$', SCRIPT, re.MULTILINE)
    )
    # Who among the people may look at dead letters, the script leaves to them.
    assert found == {g for g in grants_of_terraform() if g[1] != "operators_dead"}


def test_script_makes_what_terraform_makes() -> None:
    made = set(re.findall(r'^make "(?:pubsub )?(\w+)" "\$name-(\w+)"', SCRIPT, re.MULTILINE))
    words = {"google_pubsub_topic": "topics", "google_pubsub_subscription": "subscriptions"}
    wanted = {
        (words[kind], str(body["name"]).partition("}-")[2])
        for (kind, _), body in RESOURCES.items()
        if kind in words
    }
    assert made == wanted | {("secrets", "noise")}
    for flag in ("--no-enable-exactly-once-delivery", "--max-delivery-attempts 100", "never"):
        assert flag in SCRIPT


FAKE = """#!/bin/sh
echo "$@" >> "$LOG"
case "$*" in "projects describe"*) echo 12345 ;; *" describe "*) exit 1 ;; esac
"""


@pytest.fixture
def printed(tmp_path: Path) -> tuple[str, list[str]]:
    """What the script prints, and what it asks of a gcloud that only writes commands down."""
    fake = tmp_path / "gcloud"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    log = tmp_path / "log"
    environment = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "LOG": str(log),
        "PROJECT": "acme-data",
        "REGION": "europe-west1",
    }
    who = ["serviceAccount:till@acme-data.iam.gserviceaccount.com", "group:readers@acme.example"]
    done = subprocess.run(
        ["bash", str(FOLDER / "set-up.sh"), "shop", *who],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, log.read_text().splitlines()


def test_script_prints_sections_of_a_config(printed: tuple[str, list[str]]) -> None:
    sections = [line for line in printed[0].splitlines() if not line.startswith("workers")]
    rest = """
name: shop
schema: {time: at}
clock: {start: 2026-01-01T00:00:00Z, period: 1m}
privacy: {epsilon: 1.0, delta: 1e-6, protect_for: 1d}
aggregates: {purchases: {count: events}}
"""
    job = loads("\n".join(sections) + rest)
    assert isinstance(job.source, PubSubSource)
    assert job.source.pubsub.subscription == "projects/acme-data/subscriptions/shop-weir"


def test_script_does_not_touch_the_project_itself(printed: tuple[str, list[str]]) -> None:
    commands = printed[1]
    assert any("pubsub subscriptions create shop-weir" in command for command in commands)
    assert not [c for c in commands if c.startswith("projects add-iam")]
    assert all("--project acme-data" in c or c.startswith("projects describe") for c in commands)


def test_terraform_is_formatted() -> None:
    """By terraform where it is; elsewhere by what its formatter would change most often."""
    terraform = shutil.which("terraform")
    if terraform:
        done = subprocess.run(
            [terraform, "fmt", "-check", "-diff", str(FOLDER)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout
    for name in FILES:
        text = (FOLDER / name).read_text()
        assert "\t" not in text and text.endswith("\n") and " \n" not in text
