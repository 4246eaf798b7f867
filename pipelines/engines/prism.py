"""Prism, Beam's portable runner for one machine: a Go program of Beam's own release."""

from __future__ import annotations

import platform
from pathlib import Path

from weir.pipelines.engines.cache import Component
from weir.pipelines.engines.tools import need, run

VERSION = "v2.77.0"
"""The Beam release that setup pins, so that runner and SDK speak the same protocol."""

MODULE = "github.com/apache/beam/sdks/v2/go/cmd/prism"


def _make(folder: Path) -> None:
    go = need("go", "building prism")
    run(
        [go, "install", f"{MODULE}@{VERSION}"],
        "prism: go install",
        folder,
        {"GOBIN": str(folder), "GOFLAGS": "-trimpath"},
    )


COMPONENT = Component(
    "prism", "prism", f"{VERSION}-{platform.system().lower()}-{platform.machine()}", "prism", _make
)


def location() -> Path:
    """The binary, for ``--prism_location``.

    Raises:
      EngineMissing: prism is not in the cache.
    """
    return COMPONENT.located()
