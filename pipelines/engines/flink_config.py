"""The Flink distribution in the cache, and its configuration."""

from __future__ import annotations

import shutil
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from weir.pipelines.engines.tools import Component, need, run

VERSION = "1.19.3"
ARCHIVE = f"apache-flink-libraries-{VERSION}"
SHA256 = "4a58e3a1fb7d83340bc96b6c080624c6d792d69fae5d294b96224775204a9c60"

UNUSED = ("flink-table", "flink-scala", "flink-cep", "flink-sql")
"""Jars of Flink's own languages, which a Beam job never loads."""


def _make(folder: Path) -> None:
    need("java", "running Flink")
    build = folder / "build"
    build.mkdir()
    wanted = build / "wanted.txt"
    wanted.write_text(f"apache-flink-libraries=={VERSION} --hash=sha256:{SHA256}\n")
    run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "download"),
            *("--no-deps", "--no-binary", ":all:", "--require-hashes", "--progress-bar", "off"),
            *("--dest", str(build), "--requirement", str(wanted)),
        ],
        "flink: pip download",
        build,
    )
    with tarfile.open(build / f"{ARCHIVE}.tar.gz") as archive:
        # Early releases of Python 3.11 know no filter; the archive is the one that the hash names.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(build, **safe)  # type: ignore[arg-type]
    for name in ("lib", "opt", "licenses"):
        (build / ARCHIVE / "deps" / name).rename(folder / name)
    for name in ("LICENSE", "NOTICE"):
        (build / ARCHIVE / name).rename(folder / name)
    for jar in (folder / "lib").glob("*.jar"):
        if jar.name.startswith(UNUSED):
            jar.unlink()
    shutil.rmtree(build)


COMPONENT = Component("flink", "flink", VERSION, f"lib/flink-dist-{VERSION}.jar", _make)


def home() -> Path:
    """The folder that holds ``lib``.

    Raises:
      EngineMissing: Flink is not in the cache.
    """
    return COMPONENT.located().parents[1]


MB = 1 << 20

OPENED = (
    "lang", "lang.reflect", "net", "io", "nio", "text", "time", "util", "util.concurrent",
    "util.concurrent.atomic", "util.concurrent.locks",
)  # fmt: skip
"""Packages of java.* that Flink's serializers reach into."""

LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.file.ref = F
# Warns of every bundle that was finalized, which is what a reader acknowledges by.
logger.finalized.name = org.apache.beam.runners.fnexecution.control.FnApiControlClient
logger.finalized.level = ERROR
appender.file.name = F
appender.file.type = File
appender.file.fileName = ${sys:log.file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd HH:mm:ss,SSS} %-5p %c{1} - %m%n
"""


@dataclass(frozen=True)
class TaskManagerMemory:
    """Shares of a TaskManager, in bytes.

    Attributes:
      heap: of tasks: state, and bundles on their way to Python.
      metaspace: classes; every submitted job loads its jar again, and old ones go late.
    """

    heap: int = 512 * MB
    framework: int = 128 * MB
    off_heap: int = 128 * MB
    managed: int = 128 * MB
    network: int = 64 * MB
    metaspace: int = 1024 * MB
    overhead: int = 192 * MB


def settings(
    folder: Path, rest_port: int, rpc_port: int, slots: int, extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Flink's settings by dotted name.

    Args:
      folder: holds checkpoints, savepoints and temporary files.
      rest_port: of the web page and REST. rpc_port: where TaskManagers find the JobManager.
      slots: of one TaskManager.
      extra: overrides, by dotted name.
    """
    return {
        "jobmanager.rpc.address": "127.0.0.1",
        "jobmanager.rpc.port": rpc_port,
        "jobmanager.bind-host": "127.0.0.1",
        "jobmanager.memory.process.size": "1600m",
        "jobmanager.execution.failover-strategy": "region",
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.port": rest_port,
        "taskmanager.host": "127.0.0.1",
        "taskmanager.bind-host": "127.0.0.1",
        "taskmanager.numberOfTaskSlots": slots,
        "blob.server.port": 0,
        # A dead TaskManager is noticed in seconds: all of it runs on one machine.
        "heartbeat.interval": 2000,
        "heartbeat.timeout": 8000,
        "pekko.ask.timeout": "20 s",
        # Kills are survived as often as they come; an error that comes back at once ends the job.
        "restart-strategy.type": "failure-rate",
        "restart-strategy.failure-rate.max-failures-per-interval": 20,
        "restart-strategy.failure-rate.failure-rate-interval": "1 min",
        "restart-strategy.failure-rate.delay": "1 s",
        "state.backend.type": "hashmap",
        "state.checkpoints.dir": (folder / "checkpoints").as_uri(),
        "state.savepoints.dir": (folder / "savepoints").as_uri(),
        "state.checkpoints.num-retained": 3,
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "io.tmp.dirs": str(folder / "tmp"),
        "web.upload.dir": str(folder / "tmp"),
        **extra,
    }


def write(folder: Path, values: Mapping[str, Any]) -> None:
    """Writes what a JVM reads from ``--configDir``."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "config.yaml").open("w") as file:
        YAML(typ="safe").dump(dict(values), file)
    (folder / "log4j.properties").write_text(LOG4J)


def jobmanager_command(home: Path, config: Path, log: Path) -> list[str]:
    """Starts a JobManager that takes jobs one after the other (a session cluster)."""
    return [
        *_java(home, config, log, ["-Xmx1g", "-XX:MaxMetaspaceSize=256m"]),
        "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint",
        *("--configDir", str(config)),
    ]


def taskmanager_command(
    home: Path, config: Path, log: Path, name: str, memory: TaskManagerMemory
) -> list[str]:
    """Starts a TaskManager. ``name``: must be new after a kill, or the old one's slots haunt it."""
    shares = {
        "memory.framework.heap.size": memory.framework,
        "memory.task.heap.size": memory.heap,
        "memory.framework.off-heap.size": memory.off_heap,
        "memory.task.off-heap.size": 0,
        "memory.managed.size": memory.managed,
        "memory.network.min": memory.network,
        "memory.network.max": memory.network,
        "memory.jvm-metaspace.size": memory.metaspace,
        "memory.jvm-overhead.min": memory.overhead,
        "memory.jvm-overhead.max": memory.overhead,
    }
    options = [
        f"-Xmx{memory.framework + memory.heap}",
        f"-XX:MaxDirectMemorySize={memory.off_heap + memory.network + 256 * MB}",
        f"-XX:MaxMetaspaceSize={memory.metaspace}",
    ]
    argument = [f"taskmanager.{key}={value}b" for key, value in shares.items()]
    argument += ["taskmanager.cpu.cores=1.0", f"taskmanager.resource-id={name}"]
    return [
        *_java(home, config, log, options),
        "org.apache.flink.runtime.taskexecutor.TaskManagerRunner",
        *("--configDir", str(config)),
        *(word for setting in argument for word in ("-D", setting)),
    ]


def _java(home: Path, config: Path, log: Path, options: list[str]) -> list[str]:
    opened = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in OPENED]
    return [
        "java",
        *options,
        *opened,
        "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
        "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
        "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
        "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "-XX:+IgnoreUnrecognizedVMOptions",
        f"-Djava.io.tmpdir={log.parent.parent / 'tmp'}",
        f"-Dlog.file={log}",
        f"-Dlog4j.configurationFile={(config / 'log4j.properties').as_uri()}",
        *("-cp", f"{home}/lib/*"),
    ]
