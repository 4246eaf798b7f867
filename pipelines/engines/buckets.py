"""Buckets of one's own, for trying and testing: the real protocols of Google Cloud Storage and S3,
objects in memory.

Environment variables point every client of either at it. Objects last as long as the server.
"""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

from weir.pipelines.engines import go_build
from weir.pipelines.engines.cache import Component
from weir.pipelines.engines.processes import EngineFailed, Process
from weir.pipelines.engines.workplace import Workplace

SOURCE = Path(__file__).with_name("bucket_server")
BINARY = "bucket-server"
LEAN = "-tags=disable_grpc_modules"
"""Google's client library, which the server brings, without what the server never calls."""
READY = 20.0
"""Seconds in which it must listen."""


def _make(folder: Path) -> None:
    go_build.build(folder, "the bucket server", SOURCE, BINARY, [LEAN])


COMPONENT = Component("buckets", "buckets", go_build.version("1", SOURCE, LEAN), BINARY, _make)


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
        binary = COMPONENT.located()
        self._workplace = Workplace("weir-buckets-")
        log = self._workplace.folder / "server.log"
        self._process = Process("the bucket server", [str(binary)], log)

        def listening() -> dict[str, str] | None:
            first, end, _ = log.read_text(errors="replace").partition("\n")
            return json.loads(first) if end and first.startswith("{") else None

        try:
            self.places = self._process.wait_until(listening, READY, "listening")
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


__all__ = ["COMPONENT", "BucketServer"]
