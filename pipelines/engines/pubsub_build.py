"""The Pub/Sub server: Google's in-memory server of the real protocol, built from its Go module.

One constant of the module is replaced while it is compiled: it forgets messages that nobody pulled
for ten minutes, where Pub/Sub keeps them for seven days.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from weir.pipelines.engines.cache import Component
from weir.pipelines.engines.tools import InstallFailed, need, run

MODULE = "cloud.google.com/go/pubsub/v2"
VERSION = "v2.7.0"
SOURCE = Path(__file__).with_name("pubsub_server")
BINARY = "pubsub-server"

FORGETS = "const retentionDuration = 10 * time.Minute"
KEEPS = "const retentionDuration = 7 * 24 * time.Hour"


def _make(folder: Path) -> None:
    go = need("go", "building the Pub/Sub server")
    build = folder / "build"
    shutil.copytree(SOURCE, build)
    run([go, "mod", "download"], "pubsub: go mod download", build)
    _patch(go, build)
    run(
        [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(folder / BINARY), "."],
        "pubsub: go build",
        build,
    )
    shutil.rmtree(build)


def _patch(go: str, build: Path) -> None:
    """Puts a changed copy of the module beside the program and has it compiled instead."""
    original = Path(_ask([go, "list", "-m", "-f", "{{.Dir}}", MODULE], build))
    copy = build / "pubsub"
    shutil.copytree(original, copy)
    for path in (copy, *copy.rglob("*")):  # Go keeps its modules read-only
        path.chmod(0o755 if path.is_dir() else 0o644)
    source = copy / "pstest" / "fake.go"
    text = source.read_text() if source.is_file() else ""
    if text.count(FORGETS) != 1:
        raise InstallFailed(f"pubsub: {MODULE} {VERSION} is not the source that was expected.")
    source.write_text(text.replace(FORGETS, KEEPS))
    _ask([go, "mod", "edit", f"-replace={MODULE}={copy}"], build)


def _ask(command: list[str], build: Path) -> str:
    done = subprocess.run(command, cwd=build, capture_output=True, text=True)
    if done.returncode:
        raise InstallFailed(f"pubsub: {' '.join(command)} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def _digest() -> str:
    parts = [(SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum")]
    return hashlib.sha256(b"\0".join([*parts, KEEPS.encode()])).hexdigest()[:8]


COMPONENT = Component(
    "pubsub",
    "pubsub",
    f"{VERSION}-{_digest()}-{platform.system().lower()}-{platform.machine()}",
    BINARY,
    _make,
)


def binary() -> Path:
    """The server.

    Raises:
      EngineMissing: it is not in the cache.
    """
    return COMPONENT.located()
