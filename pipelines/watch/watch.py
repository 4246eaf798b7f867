"""``weir watch``: the page of a report over HTTP on this machine, renewed as ticks come."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.paths import local
from weir.pipelines.results.result import COUNTERS
from weir.pipelines.show.status import Rates, lines_of
from weir.pipelines.show.status import look as status_of
from weir.pipelines.watch.live import Live, health
from weir.pipelines.watch.server import HOST, operator, releases, serve
from weir.transforms.runtime.reasons import by_field, words


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
            "is asked for, or --subscription, and not both: the folder that a run writes to (the "
            "status of a job on Flink has no releases; --private --flink-master shows it beside).",
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
    from weir.pipelines.watch.spool import Spool

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
