"""A Kafka broker on this machine, for trying and testing: one node in KRaft mode, fetched by Maven.

Its records outlive a kill: a broker that starts again in the same folder has all of them.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import socket
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from weir.pipelines.engines.processes import EngineFailed, Process, Workplace, free_ports
from weir.pipelines.engines.tools import Component, need, run

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


READY = 120.0
"""Seconds in which it must listen; a busy machine needs them."""
MEMORY = ("-Xms128m", "-Xmx384m")

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "1000",
    "message.max.bytes": "16777216",
    # One node: internal topics with more copies than that would never be ready.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class KafkaBroker:
    """A broker; a context manager, started on entry and stopped on exit.

    Args:
      folder: for settings, log and records, kept at the end; None: a temporary one, removed then.
      settings: of the broker, over those of this module.
      listeners: further listeners by name, with their security protocol: ``{"SASL": "SASL_SSL"}``.
    """

    def __init__(
        self,
        folder: Path | None = None,
        settings: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = Workplace("weir-kafka-") if folder is None else None
        chosen = folder if self._temporary is None else self._temporary.folder
        assert chosen is not None
        self.folder = chosen.absolute()
        self._listeners = dict(listeners or {})
        self._settings = dict(settings or {})
        self._process: Process | None = None
        ports = free_ports(2 + len(self._listeners))
        self._ports = dict(zip(("PLAINTEXT", "CONTROLLER", *self._listeners), ports, strict=True))

    @property
    def address(self) -> str:
        """HOST:PORT, for ``bootstrap.servers``."""
        return self.address_of("PLAINTEXT")

    def address_of(self, listener: str) -> str:
        """HOST:PORT of a listener."""
        return f"127.0.0.1:{self._ports[listener]}"

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self._process is not None and self._process.alive

    def start(self) -> KafkaBroker:
        """Starts it, on what its folder holds, and returns when it listens.

        Raises:
          EngineMissing: it is not in the cache.
          InstallFailed: there is no Java.
          EngineFailed: it did not listen in time.
        """
        if self.alive:
            return self
        java, lib = need("java", "running Kafka"), jars()
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in self._all().items()))
        command = [
            java, *MEMORY, "-Djava.net.preferIPv4Stack=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{lib}/*",
        ]  # fmt: skip
        if not (self.folder / "data" / "meta.properties").exists():
            self._format([*command, "kafka.tools.StorageTool", "format", "-c", str(properties)])
        log = self.folder / "broker.log"
        self._process = Process("Kafka", [*command, "kafka.Kafka", str(properties)], log)
        try:
            self._process.wait_until(self._listens, READY, "listening")
        except EngineFailed:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Ends it; what it holds stays where a folder was given."""
        if self._process is not None:
            self._process.stop(5.0)
            self._process = None
        if self._temporary is not None:
            self._temporary.remove()

    def kill(self) -> None:
        """SIGKILL; ``start`` brings it back with its records."""
        if self._process is not None:
            self._process.kill()
            self._process.stop(0.0)
            self._process = None

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _all(self) -> dict[str, str]:
        places = {name: f"{name}://{self.address_of(name)}" for name in self._ports}
        public = [place for name, place in places.items() if name != "CONTROLLER"]
        kinds = [f"{name}:{protocol}" for name, protocol in self._listeners.items()]
        protocols = _SETTINGS["listener.security.protocol.map"]
        return {
            **_SETTINGS,
            "listeners": ",".join(places.values()),
            "advertised.listeners": ",".join(public),
            "listener.security.protocol.map": ",".join([protocols, *kinds]),
            "controller.quorum.voters": f"1@{self.address_of('CONTROLLER')}",
            "log.dirs": str(self.folder / "data"),
            **self._settings,
        }

    def _format(self, command: list[str]) -> None:
        """Makes the folder of records that a first start needs."""
        # Read as an option where it began with a dash, as one of 64 would.
        cluster = base64.b64encode(uuid.uuid4().bytes, b"ab").rstrip(b"=").decode()
        done = subprocess.run([*command, "-t", cluster], capture_output=True, text=True)
        if done.returncode:
            raise EngineFailed(f"Kafka's folder cannot be made: {done.stderr.strip()[-500:]}")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self._ports["PLAINTEXT"])) == 0


__all__ = ["COMPONENT", "VERSION", "KafkaBroker", "jars"]
