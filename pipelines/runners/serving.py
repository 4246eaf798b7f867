"""Beam's job server for Flink, for as long as a job is submitted and followed from here."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

from weir.pipelines.engines.processes import Process

READY = 60.0
"""Seconds for it to answer."""


@contextlib.contextmanager
def serving(folder: Path, jar: str, master: str, port: int) -> Iterator[Process]:
    """The job server, and inside it an embedded Flink. Not in our group: Ctrl-C is ours.

    Args:
      folder: for its files; ``conf`` in it has Flink's settings. master: where jobs go.
      port: on which it takes them.
    """
    command = [
        "java",
        f"-Djava.io.tmpdir={folder}",
        "-jar",
        jar,
        *("--flink-master", master),
        *("--flink-conf-dir", str(folder / "conf")),
        *("--artifacts-dir", str(folder / "artifacts")),
        *("--job-port", str(port)),
        *("--artifact-port", "0", "--expansion-port", "-1"),
    ]
    server = Process("Flink's job server", command, folder / "job-server.log")
    try:
        server.wait_until(lambda: _listens(port), READY, "it answered")
        yield server
    finally:
        server.stop(3.0)


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(0.5)
        return one.connect_ex(("127.0.0.1", port)) == 0
