"""The Pub/Sub server: Google's in-memory server of the real protocol, built from its Go module.

One constant of the module is replaced while it is compiled: it forgets messages that nobody pulled
for ten minutes, where Pub/Sub keeps them for seven days.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from weir.pipelines.engines import go_build
from weir.pipelines.engines.cache import Component
from weir.pipelines.engines.tools import InstallFailed

MODULE = "cloud.google.com/go/pubsub/v2"
VERSION = "v2.7.0"
SOURCE = Path(__file__).with_name("pubsub_server")
BINARY = "pubsub-server"

FORGETS = "const retentionDuration = 10 * time.Minute"
KEEPS = "const retentionDuration = 7 * 24 * time.Hour"


def _make(folder: Path) -> None:
    go_build.build(folder, "the Pub/Sub server", SOURCE, BINARY, change=_patch)


def _patch(go: str, build: Path) -> None:
    """Puts a changed copy of the module beside the program and has it compiled instead."""
    original = Path(go_build.ask([go, "list", "-m", "-f", "{{.Dir}}", MODULE], build))
    copy = build / "pubsub"
    shutil.copytree(original, copy)
    for path in (copy, *copy.rglob("*")):  # Go keeps its modules read-only
        path.chmod(0o755 if path.is_dir() else 0o644)
    source = copy / "pstest" / "fake.go"
    text = source.read_text() if source.is_file() else ""
    if text.count(FORGETS) != 1:
        raise InstallFailed(f"pubsub: {MODULE} {VERSION} is not the source that was expected.")
    source.write_text(text.replace(FORGETS, KEEPS))
    go_build.ask([go, "mod", "edit", f"-replace={MODULE}={copy}"], build)


COMPONENT = Component("pubsub", "pubsub", go_build.version(VERSION, SOURCE, KEEPS), BINARY, _make)


def binary() -> Path:
    """The server.

    Raises:
      EngineMissing: it is not in the cache.
    """
    return COMPONENT.located()
