"""Releases of a Pub/Sub subscription as a folder of results: a file a message, named by its id."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from weir.dpcore.errors import ConfigError
from weir.transforms.runtime.codec import batch_from_bytes
from weir.transforms.runtime.pubsub_client import emulator, subscriber
from weir.transforms.sinks.place import DIGITS

MESSAGES = 500
SECONDS = 5.0
"""How long a question waits for messages."""
_ID = re.compile(r"[0-9a-f]{8,64}\Z")
_NAME = re.compile(r"projects/[^/]+/subscriptions/[^/]+\Z")
_LAST = 10**DIGITS


class Spool:
    """Takes messages from a subscription of its own and acknowledges them.

    A message that is delivered again has the same id, and the same file. What is no message of
    releases is refused: another program's subscription would be emptied.

    Args:
      name: projects/P/subscriptions/S. folder: where files go; it must be there.
      client: for tests.
    """

    def __init__(self, name: str, folder: Path, client: Any = None) -> None:
        if not _NAME.match(name):
            raise ConfigError("--subscription", name, "must look like projects/P/subscriptions/S.")
        self._name, self._folder = name, folder
        self._client = subscriber(emulator()) if client is None else client

    def __call__(self) -> None:
        """Brings in what is there.

        Raises:
          ConfigError: there is no such subscription, or a message that holds no releases.
        """
        from google.api_core import exceptions

        try:
            request = {"subscription": self._name, "max_messages": MESSAGES}
            found = self._client.pull(request=request, timeout=SECONDS).received_messages
        except (exceptions.DeadlineExceeded, exceptions.ServiceUnavailable):
            return
        except exceptions.GoogleAPICallError as error:
            code = getattr(error, "code", None)
            raise ConfigError("--subscription", self._name, f"cannot be read ({code}).") from None
        for one in found:
            self._keep(one.message)
        if found:
            ids = [one.ack_id for one in found]
            self._client.acknowledge(request={"subscription": self._name, "ack_ids": ids})

    def _keep(self, message: Any) -> None:
        told = dict(message.attributes)
        name, first, last = (str(told.get(n, "")) for n in ("id", "first_tick", "last_tick"))
        whole = first.isdecimal() and last.isdecimal() and int(first) <= int(last) < _LAST
        if not _ID.match(name) or not whole:
            raise ConfigError(
                "--subscription",
                self._name,
                "holds a message that is no release; give a subscription of the sink's topic.",
            )
        stem = f"ticks-{int(first):0{DIGITS}d}-{int(last):0{DIGITS}d}-{name}"
        if message.data[:1] == b"{":
            made = self._folder / f"{stem}.ndjson"
            unfinished = made.with_suffix(".unfinished")
            unfinished.write_bytes(message.data)
        else:
            made = self._folder / f"{stem}.parquet"
            unfinished = made.with_suffix(".unfinished")
            import pyarrow as pa

            batch = batch_from_bytes(message.data)
            pq.write_table(pa.Table.from_batches([batch]), unfinished)
        unfinished.replace(made)
