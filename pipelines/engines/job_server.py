"""Flink's job server for Beam: takes a portable pipeline and submits it to a cluster.

Maven assembles it from Beam's own published libraries with the ``pom.xml`` beside this file. An
official job-server jar of another Beam release does as well: ``--flink-job-server-jar PATH``.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from pipelines.engines.cache import Component
from pipelines.engines.tools import need, run

BEAM = "2.70.0"
"""Newest Beam release whose Flink runner for 1.19 is published with all that it needs."""

FORGETFUL = (
    f"the job server of `make flink` has Beam {BEAM}, with which a stream takes up to 40 kB of its "
    "worker's memory at every look at its sources and never gives it back: enough for minutes to "
    "hours. For longer name Apache's job server for Flink 1.19, Beam 2.76 or newer, from the first "
    "start on (--flink-job-server-jar JAR), or stay small (--max_parallelism=4). "
    "docs/operations.md, Capacity, has the figures."
)
"""What the user of a stream is told; ``transforms/runtime/flink_quirks.py`` says why."""

POM = Path(__file__).with_name("job_server_maven") / "pom.xml"
JAR = "flink-job-server.jar"


def _make(folder: Path) -> None:
    maven = need("mvn", "assembling Flink's job server")
    need("java", "assembling Flink's job server")
    build = folder / "build"
    build.mkdir()
    shutil.copy(POM, build)
    run(
        [maven, "--batch-mode", "-Dmaven.wagon.http.retryHandler.count=5", "package"],
        "job-server: mvn package",
        build,
    )
    (build / "target" / JAR).rename(folder / JAR)
    shutil.rmtree(build)


_DIGEST = hashlib.sha256(POM.read_bytes()).hexdigest()[:8]
COMPONENT = Component("job-server", "flink", f"{BEAM}-{_DIGEST}", JAR, _make)


def jar() -> Path:
    """The jar, for ``--flink_job_server_jar``.

    Raises:
      EngineMissing: it is not in the cache.
    """
    return COMPONENT.located()
