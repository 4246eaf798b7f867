"""A dry run for Dataflow asks nobody, and refuses names that the service would not take."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.deploy.test_dataflow_request import CONFIG, FLAGS
from weir.pipelines.cli.main import main

CONTACTS: list[str] = []
"""What this process has asked of a network while somebody listened."""
_listening = [False]


def _hear(event: str, words: tuple[Any, ...]) -> None:
    if _listening[0] and event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        CONTACTS.append(f"{event} {words[1:]}")


@cache
def _hook() -> None:
    """For good: there is no way back."""
    sys.addaudithook(_hear)


@pytest.fixture
def contacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a command asks of a network, with credentials at hand; libraries in C go to a proxy."""
    _hook()
    with socket.socket() as proxy:
        proxy.bind(("127.0.0.1", 0))
        proxy.listen()
        proxy.setblocking(False)
        for name in ("http_proxy", "https_proxy", "grpc_proxy"):
            monkeypatch.setenv(name, "http://{}:{}".format(*proxy.getsockname()))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(credentials(tmp_path)))
        CONTACTS.clear()
        _listening[0] = True
        yield CONTACTS
        _listening[0] = False
        with pytest.raises(BlockingIOError):
            proxy.accept()


def credentials(folder: Path) -> Path:
    """Of a service account that nobody has."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "account.json"
    account = {"type": "service_account", "client_email": "weir@acme-data.iam.gserviceaccount.com"}
    more = {"private_key": key.decode(), "token_uri": "https://oauth2.googleapis.com/token"}
    path.write_text(json.dumps({**account, **more, "project_id": "acme-data"}))
    return path


def dry(folder: Path, flags: Sequence[str] = FLAGS, **sections: str) -> Result:
    """The command over the config above, with other sections."""
    lines = [sections.get(line.partition(":")[0], line) for line in CONFIG.splitlines()]
    (folder / "job.yaml").write_text("\n".join(lines))
    job = str(folder / "job.yaml")
    return CliRunner().invoke(main, ["run", job, "--runner", "dataflow", "--dry-run", *flags])


ONE_DAY = "clock: {start: 2026-01-01T00:00:00Z, end: 2026-01-02T00:00:00Z, period: 1m}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"source": "source: {csv: 'gs://acme-weir/events/*.csv'}", "clock": ONE_DAY},
        {"source": "source: {parquet: gs://acme-weir/events/}", "clock": ONE_DAY},
        {"sink": "sink: {bigquery: 'acme-data:shop.releases'}"},
        {"sink": "sink: {pubsub: projects/acme-data/topics/releases}"},
    ],
    ids=["stream", "text", "parquet", "table", "topic"],
)
def test_a_dry_run_asks_nobody(
    tmp_path: Path,
    contacts: list[str],
    sections: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("weir.transforms.sinks.targets.MOST_ROWS", 1)  # files in several parts
    done = dry(tmp_path, **sections)
    assert done.exit_code == 0, done.output
    assert contacts == [] and json.loads(done.stdout)["job"]["name"] == "weir-shop"
    if "clock" in sections:
        assert "a dry run looks up no file" in done.stderr


def test_a_contact_would_be_heard(contacts: list[str]) -> None:
    with socket.socket() as one, pytest.raises(OSError):
        one.connect(("127.0.0.1", 1))
    assert len(contacts) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("--temp_location=gs://b/t", "'b' cannot be the name of one"),
        ("--temp_location=gs://Acme/t", "'Acme' cannot be"),
        ("--temp_location=gs://acme-weir", "Write gs://BUCKET/FOLDER"),
        ("--staging_location=s3://acme-weir/x", "Write gs://BUCKET/FOLDER"),
        ("--staging_location=hdfs://acme-weir/x", "hdfs:// is not supported"),
        ("--project=acme", "6 to 30 lower-case"),
        ("--project=123456789", "6 to 30 lower-case"),
        ("--job_name=Weir_1", "lower-case letters, digits and dashes"),
        ("--num_workers=-1", "refused by Beam"),
    ],
)
def test_names_that_the_service_would_not_take_are_refused(
    tmp_path: Path, contacts: list[str], flag: str, says: str
) -> None:
    name = flag.partition("=")[0]
    done = dry(tmp_path, [*(one for one in FLAGS if not one.startswith(f"{name}=")), flag])
    assert done.exit_code == 2 and contacts == [] and done.stdout == ""
    assert says in done.stderr and (name in done.stderr or "Beam" in says)
