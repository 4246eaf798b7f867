"""Servers of Pub/Sub and of buckets on this machine: built with Go, and started."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weir.pipelines.engines.processes import EngineFailed, Process, Workplace
from weir.pipelines.engines.tools import GO, Component, InstallFailed, need, run


def build(
    folder: Path,
    name: str,
    source: Path,
    binary: str,
    options: Sequence[str] = (),
    change: Callable[[str, Path], None] | None = None,
) -> None:
    """Builds a program into a folder.

    Args:
      name: for people. source: folder of the program, with go.mod and go.sum. options: of go build.
      change: changes the copy that is built, given the path of go.

    Raises:
      InstallFailed: a tool is missing, or a step failed.
    """
    go = need("go", f"building {name}")
    copy = folder / "build"
    shutil.copytree(source, copy)
    run([go, "mod", "download"], f"{name}: go mod download", copy)
    if change is not None:
        change(go, copy)
    flags = ["-trimpath", "-ldflags=-s -w", *options]
    with GO:
        run([go, "build", *flags, "-o", str(folder / binary), "."], f"{name}: go build", copy)
    shutil.rmtree(copy)


def ask(command: Sequence[str], folder: Path) -> str:
    """What a command prints. Raises InstallFailed."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise InstallFailed(f"{' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def version(number: str, source: Path, *more: str) -> str:
    """Of a program: changes whenever it would be another one."""
    parts = [(source / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"\0".join([*parts, *(item.encode() for item in more)])).hexdigest()[:8]
    return f"{number}-{digest}-{platform.system().lower()}-{platform.machine()}"


MODULE = "cloud.google.com/go/pubsub/v2"
VERSION = "v2.7.0"
PUBSUB_SOURCE = Path(__file__).with_name("pubsub_server")
PUBSUB_BINARY = "pubsub-server"

FORGETS = "const retentionDuration = 10 * time.Minute"
KEEPS = "const retentionDuration = 7 * 24 * time.Hour"


def _make_pubsub(folder: Path) -> None:
    build(folder, "the Pub/Sub server", PUBSUB_SOURCE, PUBSUB_BINARY, change=_patch)


def _patch(go: str, build: Path) -> None:
    """Puts a changed copy of the module next to the program and has it compiled instead."""
    original = Path(ask([go, "list", "-m", "-f", "{{.Dir}}", MODULE], build))
    copy = build / "pubsub"
    shutil.copytree(original, copy)
    for path in (copy, *copy.rglob("*")):  # Go keeps its modules read-only
        path.chmod(0o755 if path.is_dir() else 0o644)
    source = copy / "pstest" / "fake.go"
    text = source.read_text() if source.is_file() else ""
    if text.count(FORGETS) != 1:
        raise InstallFailed(f"pubsub: {MODULE} {VERSION} is not the source that was expected.")
    source.write_text(text.replace(FORGETS, KEEPS))
    ask([go, "mod", "edit", f"-replace={MODULE}={copy}"], build)


PUBSUB = Component(
    "pubsub", "pubsub", version(VERSION, PUBSUB_SOURCE, KEEPS), PUBSUB_BINARY, _make_pubsub
)


def pubsub_binary() -> Path:
    """The server.

    Raises:
      EngineMissing: it is not in the cache.
    """
    return PUBSUB.located()


PUBSUB_READY = 20.0
"""Seconds in which it must listen."""


@dataclass(frozen=True)
class PubSubMessage:
    """A published message and what became of it.

    Attributes:
      deliveries: how often a subscriber got it. acks: how often one acknowledged it.
      published: time of publishing, RFC 3339.
    """

    id: str
    topic: str
    data: bytes
    attributes: dict[str, str]
    key: str
    published: str
    deliveries: int
    acks: int
    modacks: int


class PubSubServer:
    """A server on this machine; a context manager, started on entry and stopped on exit.

    Args:
      port: of the protocol; 0 chooses a free one.
      admin_port: of the admin pages; 0 chooses a free one.
    """

    def __init__(self, port: int = 0, admin_port: int = 0) -> None:
        self._ports = (port, admin_port)
        self._process: Process | None = None
        self._workplace: Workplace | None = None
        self.host = ""
        """HOST:PORT, for ``PUBSUB_EMULATOR_HOST``."""
        self.admin = ""
        """Base address of the admin pages."""

    def start(self) -> PubSubServer:
        """Starts it and returns when it listens.

        Raises:
          EngineMissing: it is not in the cache.
          EngineFailed: it did not listen in time, or a port is taken.
        """
        if self._process is not None:
            return self
        binary = pubsub_binary()
        self._workplace = Workplace("weir-pubsub-")
        log = self._workplace.folder / "server.log"
        port, admin = self._ports
        self._process = Process(
            "the Pub/Sub server", [str(binary), "-port", str(port), "-admin", str(admin)], log
        )

        def listening() -> dict[str, str] | None:
            first, end, _ = log.read_text(errors="replace").partition("\n")
            return json.loads(first) if end and first.startswith("{") else None

        try:
            places = self._process.wait_until(listening, PUBSUB_READY, "listening")
        except EngineFailed:
            self.stop()
            raise
        self.host, self.admin = places["host"], f"http://{places['admin']}"
        return self

    def stop(self) -> None:
        """Ends it; its messages are gone."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._workplace is not None:
            self._workplace.remove()
            self._workplace = None

    def kill(self) -> None:
        """SIGKILL; its messages are gone."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def down(self) -> None:
        """Closes every connection and refuses new ones, as when a network fails; messages stay."""
        self._ask("/down", post=True)

    def up(self) -> None:
        """Serves again on the same port."""
        self._ask("/up", post=True)

    def clear(self) -> None:
        """Forgets every message; topics and subscriptions stay."""
        self._ask("/clear", post=True)

    def counts(self, topic: str | None = None) -> dict[str, int]:
        """messages, deliveries, acks, and unacked (messages never acknowledged)."""
        result: dict[str, int] = json.loads(self._ask("/counts" + _query(topic)))
        return result

    def messages(self, topic: str | None = None) -> list[PubSubMessage]:
        """Every message in order of publishing. ``topic``: in full, or its last part."""
        lines = self._ask("/messages" + _query(topic)).splitlines()
        return [_message(json.loads(line)) for line in lines]

    def __enter__(self) -> PubSubServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _ask(self, path: str, post: bool = False) -> str:
        request = urllib.request.Request(self.admin + path, method="POST" if post else "GET")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except (urllib.error.URLError, ValueError, OSError) as error:
            raise EngineFailed(f"the Pub/Sub server does not answer {path}: {error}") from None


def _query(topic: str | None) -> str:
    return "" if topic is None else f"?topic={topic}"


def _message(fields: dict[str, Any]) -> PubSubMessage:
    return PubSubMessage(
        **{
            **fields,
            "data": b64decode(fields["data"] or ""),
            "attributes": fields["attributes"] or {},
        }
    )


BUCKET_SOURCE = Path(__file__).with_name("bucket_server")
BUCKET_BINARY = "bucket-server"
LEAN = "-tags=disable_grpc_modules"
"""Google's client library, which the server brings, without what the server never calls."""
BUCKETS_READY = 20.0
"""Seconds in which it must listen."""


def _make_buckets(folder: Path) -> None:
    build(folder, "the bucket server", BUCKET_SOURCE, BUCKET_BINARY, [LEAN])


BUCKETS = Component(
    "buckets", "buckets", version("1", BUCKET_SOURCE, LEAN), BUCKET_BINARY, _make_buckets
)


class BucketServer:
    """A server on this machine; a context manager, started on entry and stopped on exit."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._workplace: Workplace | None = None
        self.places: dict[str, str] = {}
        """gs, s3 -> base address."""

    @property
    def environment(self) -> dict[str, str]:
        """What makes clients go there, and keeps them from looking for credentials."""
        return {
            "STORAGE_EMULATOR_HOST": self.places["gs"],
            "AWS_ENDPOINT_URL_S3": self.places["s3"],
            "AWS_ACCESS_KEY_ID": "weir",
            "AWS_SECRET_ACCESS_KEY": "weir",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> BucketServer:
        """Starts it and returns when it listens.

        Raises:
          EngineMissing: it is not in the cache.
          EngineFailed: it did not listen in time.
        """
        binary = BUCKETS.located()
        self._workplace = Workplace("weir-buckets-")
        log = self._workplace.folder / "server.log"
        self._process = Process("the bucket server", [str(binary)], log)

        def listening() -> dict[str, str] | None:
            first, end, _ = log.read_text(errors="replace").partition("\n")
            return json.loads(first) if end and first.startswith("{") else None

        try:
            self.places = self._process.wait_until(listening, BUCKETS_READY, "listening")
        except EngineFailed:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends it; its objects are gone."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._workplace is not None:
            self._workplace.remove()
            self._workplace = None

    def make(self, name: str) -> None:
        """Makes a bucket of that name in each service."""
        _send(f"{self.places['gs']}/storage/v1/b", "POST", json.dumps({"name": name}).encode())
        _send(f"{self.places['s3']}/{name}", "PUT")

    def lose(self, scheme: str) -> None:
        """Carries out the next request that writes there, and loses its answer."""
        _send(f"{self.places[scheme]}/lose", "POST")

    def __enter__(self) -> BucketServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _send(url: str, method: str, data: bytes | None = None) -> None:
    words = {"Content-Type": "application/json"}
    with urllib.request.urlopen(
        urllib.request.Request(url, data, words, method=method), timeout=30
    ):
        return
