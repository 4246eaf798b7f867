"""Servers that run Beam jobs: the Flink job server and Prism."""

from __future__ import annotations

import hashlib
import platform
import shutil
import zipfile
from enum import Enum
from pathlib import Path

from weir.pipelines.engines.tools import GO, Component, need, run

BEAM = "2.70.0"
"""Newest Beam release whose Flink runner for 1.19 is published with all that it needs."""

FORGETFUL = (
    "{jar} is a job server of a Beam before 2.76, with which a stream takes up to 40 kB of its "
    "worker's memory at every look at its sources and never gives it back: enough for minutes to "
    "hours. The one of `make flink` does not: leave out --flink-job-server-jar. Or stay small "
    "(--max_parallelism=4). docs/how-to/flink.md, Capacity, has the figures."
)
"""What the user of a stream is told; ``transforms/beam/runner_quirks.py`` says why."""

SOURCES = Path(__file__).with_name("job_server_maven")
JAR = "flink-job-server.jar"
STOCK = "stock"
"""Folder next to the jar: Beam's own class that ours stands in for, for tests that compare."""

HANDLER = (
    "org/apache/beam/runners/fnexecution/control/"
    "BundleCheckpointHandlers$StateAndTimerBundleCheckpointHandler.class"
)
"""What stores the rest of a call of a splittable DoFn until it is due."""
MAP_STATE = "sdf_checkpoint_residuals"
"""Name of the state in which Beam 2.76 and later keep them all."""


class ResidualStorage(Enum):
    """How a job server stores what calls of splittable DoFns left undone."""

    NEW_NAMES = "under a new name at every call"
    """Beam before 2.76. Each name costs memory for good."""
    FEW_NAMES = "under names of a ring"
    """Ours."""
    ONE_MAP = "in one map"
    """Beam 2.76 and later."""


def _make(folder: Path) -> None:
    maven = need("mvn", "assembling Flink's job server")
    need("java", "assembling Flink's job server")
    build = folder / "build"
    build.mkdir()
    shutil.copytree(SOURCES, build, dirs_exist_ok=True)
    run(
        [maven, "--batch-mode", "-Dmaven.wagon.http.retryHandler.count=5", "package"],
        "job-server: mvn package",
        build,
    )
    for built in (JAR, STOCK):
        (build / "target" / built).rename(folder / built)
    shutil.rmtree(build)


def _digest() -> str:
    """Of all that the jar is made from: another pom or class is another version in the cache."""
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    named = ((str(path.relative_to(SOURCES)).encode(), path.read_bytes()) for path in files)
    return hashlib.sha256(b"".join(part for pair in named for part in pair)).hexdigest()[:8]


COMPONENT = Component("job-server", "flink", f"{BEAM}-{_digest()}", JAR, _make)


def jar() -> Path:
    """The jar, for ``--flink_job_server_jar``.

    Raises:
      EngineMissing: it is not in the cache.
    """
    return COMPONENT.located()


def kept_by(jar: str | Path) -> ResidualStorage | None:
    """How a job server stores residuals, as its own class shows; None: it cannot be seen."""
    try:
        with zipfile.ZipFile(jar) as archive:
            code = archive.read(HANDLER)
    except (OSError, KeyError, zipfile.BadZipFile):
        return None
    if MAP_STATE.encode() in code:
        return ResidualStorage.ONE_MAP
    return ResidualStorage.NEW_NAMES if b"incrementingLongs" in code else ResidualStorage.FEW_NAMES


VERSION = "v2.77.0"
"""The Beam release that setup pins, so that runner and SDK speak the same protocol."""

MODULE = "github.com/apache/beam/sdks/v2/go/cmd/prism"


def _make_prism(folder: Path) -> None:
    go = need("go", "building prism")
    with GO:
        run(
            [go, "install", f"{MODULE}@{VERSION}"],
            "prism: go install",
            folder,
            {"GOBIN": str(folder), "GOFLAGS": "-trimpath"},
        )


PRISM = Component(
    "prism",
    "prism",
    f"{VERSION}-{platform.system().lower()}-{platform.machine()}",
    "prism",
    _make_prism,
)


def location() -> Path:
    """The binary, for ``--prism_location``.

    Raises:
      EngineMissing: prism is not in the cache.
    """
    return PRISM.located()
