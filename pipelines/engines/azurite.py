"""Azurite, Microsoft's server of Azure Storage for tests: fetched with npm, and started."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from weir.pipelines.engines.processes import EngineFailed, Process, Workplace
from weir.pipelines.engines.tools import Component, need, run

VERSION = "3.35.0"
MAIN = "node_modules/azurite/dist/src/blob/main.js"
READY = 60.0
"""Seconds in which it must listen."""
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of every Azurite; its documentation has it."""
_LISTENS = re.compile(r"listens on (http://127\.0\.0\.1:\d+)")


def _make(folder: Path) -> None:
    npm = need("npm", "installing azurite")
    command = [npm, "install", "--no-save", "--no-audit", "--no-fund", f"azurite@{VERSION}"]
    run([*command, "--prefix", str(folder)], "azurite: npm install", folder)


COMPONENT = Component("azurite", "buckets", VERSION, MAIN, _make)


class AzuriteServer:
    """A server on this machine, with one account and objects in memory; a context manager."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._workplace: Workplace | None = None
        self.url = ""
        """Where it listens, with the account."""

    @property
    def connection(self) -> str:
        """What a client needs to read and write there."""
        return (
            f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
            f"BlobEndpoint={self.url};"
        )

    def __enter__(self) -> AzuriteServer:
        """Starts it and returns when it listens.

        Raises:
          EngineMissing: it is not in the cache.
          EngineFailed: it did not listen in time.
        """
        main = COMPONENT.located()
        self._workplace = Workplace("weir-azurite-")
        log = self._workplace.folder / "server.log"
        # The version of the protocol is that of the newest client, which a server may not know yet.
        command = [
            shutil.which("node") or "node", str(main), "--blobPort", "0", "--inMemoryPersistence",
            "--skipApiVersionCheck", "--disableTelemetry", "--silent",
        ]  # fmt: skip

        def listening() -> re.Match[str] | None:
            return _LISTENS.search(log.read_text(errors="replace"))

        try:
            self._process = Process("azurite", command, log, folder=self._workplace.folder)
            self.url = f"{self._process.wait_until(listening, READY, 'listening')[1]}/{ACCOUNT}"
        except EngineFailed:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it; its objects are gone."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        if self._workplace is not None:
            self._workplace.remove()
            self._workplace = None


__all__ = ["ACCOUNT", "COMPONENT", "AzuriteServer"]
