"""Releases of a Pub/Sub subscription as a folder of results: a file a message, named by its id."""

from __future__ import annotations

import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.paths import local
from weir.pipelines.results.verdict import COUNTERS
from weir.pipelines.show.status import Rates, lines_of
from weir.pipelines.show.status import look as status_of
from weir.pipelines.watch.server import HOST, Live, health, operator, releases, serve
from weir.transforms.runtime.codec import batch_from_bytes
from weir.transforms.runtime.pubsub_client import emulator, subscriber
from weir.transforms.runtime.reasons import by_field, words
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
            result = self._client.pull(request=request, timeout=SECONDS).received_messages
        except (exceptions.DeadlineExceeded, exceptions.ServiceUnavailable):
            return
        except exceptions.GoogleAPICallError as error:
            code = getattr(error, "code", None)
            raise ConfigError("--subscription", self._name, f"cannot be read ({code}).") from None
        for item in result:
            self._keep(item.message)
        if result:
            ids = [entry.ack_id for entry in result]
            self._client.acknowledge(request={"subscription": self._name, "ack_ids": ids})

    def _keep(self, message: Any) -> None:
        reported = dict(message.attributes)
        name, first, last = (str(reported.get(n, "")) for n in ("id", "first_tick", "last_tick"))
        whole = first.isdecimal() and last.isdecimal() and int(first) <= int(last) < _LAST
        if not _ID.match(name) or not whole:
            raise ConfigError(
                "--subscription",
                self._name,
                "holds a message that is no release; give a subscription of the sink's topic.",
            )
        stem = f"ticks-{int(first):0{DIGITS}d}-{int(last):0{DIGITS}d}-{name}"
        if message.data[:1] == b"{":
            built = self._folder / f"{stem}.ndjson"
            unfinished = built.with_suffix(".unfinished")
            unfinished.write_bytes(message.data)
        else:
            built = self._folder / f"{stem}.parquet"
            unfinished = built.with_suffix(".unfinished")
            import pyarrow as pa

            batch = batch_from_bytes(message.data)
            pq.write_table(pa.Table.from_batches([batch]), unfinished)
        unfinished.replace(built)


def watch(
    place: str | None,
    subscription: str | None,
    plan: Path | None,
    master: str | None,
    ports: tuple[int, int],
    private: bool,
    every: float,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Serves until Ctrl-C.

    Args:
      place: folder of releases. subscription: of the topic of a sink, in place of a folder.
      plan: what `weir plan --json` prints, for a subscription. master: Flink's REST, for --private.
      ports: of releases, and of the operator's page. private: whether there is one.
      every: seconds between two looks. say: tells a line. sleep: for tests; what it raises ends it.

    Raises:
      ConfigError: nothing to watch, a port that is taken, or a subscription that is none.
    """
    if (place is None) == (subscription is None):
        raise ConfigError(
            "PLACE",
            place or "",
            "is given, or --subscription, and not both: the folder that a run writes to (the "
            "status of a job on Flink has no releases; --private --flink-master shows it next to).",
        )
    if master is not None and not private:
        raise ConfigError(
            "--flink-master", master, "is for the operator's page alone: add --private."
        )
    with tempfile.TemporaryDirectory(prefix="weir-watch-") as spooled:
        if subscription is None:
            live = Live(Path(local(str(place))))
        else:
            live = _subscribed(subscription, Path(spooled), plan)
        live.look()
        server = serve(releases(live), ports[0])
        say(f"http://{HOST}:{server.server_address[1]}/  releases only")
        if private:
            token = secrets.token_urlsafe(24)
            asked = health(_health(place, master))
            other = serve(operator(asked, token, every), ports[1], "--private-port")
            say(f"http://{HOST}:{other.server_address[1]}/?token={token}  for the operator only")
        say("Ctrl-C ends it")
        try:
            while True:
                sleep(every)
                live.look()
        except KeyboardInterrupt:
            return
        finally:
            server.shutdown()
            if private:
                other.shutdown()


def _subscribed(name: str, folder: Path, plan: Path | None) -> Live:

    if plan is not None:
        try:
            shutil.copyfile(plan, folder / "_plan.json")
        except OSError as error:
            raise ConfigError("--plan", str(plan), f"cannot be read: {error.strerror}.") from None
    return Live(folder, Spool(name, folder))


def _health(place: str | None, master: str | None) -> Callable[[], list[dict[str, Any]]]:
    rates, lock = Rates(), threading.Lock()

    def asked() -> list[dict[str, Any]]:
        with lock:
            return [_told(entry) for entry in rates.added(status_of(place, master))]

    return asked


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of ``weir status`` as lines."""
    counts = entry.get("operator") or {}
    plain = [
        (COUNTERS.get(name, name.replace("_", " ")), f"{n:,}")
        for name, n in counts.items()
        if not by_field({name: n})
    ]
    reasons = [(words(*place), f"{n:,}") for place, n in by_field(counts).items()]
    return {
        "name": str(entry["name"]),
        "lines": lines_of(entry),
        "alarms": list(entry.get("alarms", ())),
        "counts": [*plain, *reasons],
    }
