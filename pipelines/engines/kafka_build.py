"""Apache Kafka's broker, fetched by Maven: a folder of jars that runs on Java 17."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from weir.pipelines.engines.cache import Component
from weir.pipelines.engines.tools import need, run

VERSION = "4.1.1"
POM = Path(__file__).with_name("kafka_maven") / "pom.xml"
JARS = "lib"


def _make(folder: Path) -> None:
    maven = need("mvn", "fetching Kafka's broker")
    need("java", "running Kafka's broker")
    build = folder / "build"
    build.mkdir()
    shutil.copy(POM, build)
    run(
        [
            maven, "--batch-mode", "-Dmaven.wagon.http.retryHandler.count=5",
            "dependency:copy-dependencies", "-DincludeScope=runtime",
            f"-DoutputDirectory={folder / JARS}",
        ],
        "kafka: mvn dependency:copy-dependencies",
        build,
    )  # fmt: skip
    shutil.rmtree(build)


def _digest() -> str:
    """Of the list of jars: another list is another version in the cache."""
    return hashlib.sha256(POM.read_bytes()).hexdigest()[:8]


COMPONENT = Component(
    "kafka", "kafka", f"{VERSION}-{_digest()}", f"{JARS}/kafka_2.13-{VERSION}.jar", _make
)


def jars() -> Path:
    """The folder of jars.

    Raises:
      EngineMissing: it is not in the cache.
    """
    return COMPONENT.located().parent


__all__ = ["COMPONENT", "VERSION", "jars"]
