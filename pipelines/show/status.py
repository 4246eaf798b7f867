"""``weir status``: the status of a job on Flink, or what is in a folder of results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from weir.dpcore.errors import ConfigError
from weir.pipelines.connectors.paths import local
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.ledger.entries import plan_in
from weir.pipelines.results.files import HELD_FOLDER, result_files
from weir.pipelines.results.run import ResultFolder
from weir.pipelines.results.series import moment as moment_of
from weir.pipelines.results.verdict import COUNTERS
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.show.findings import moment, of_flink, of_state
from weir.pipelines.terminal import bytes_text, console, count, heading, indent, pairs
from weir.transforms.runtime import fence
from weir.transforms.runtime.reasons import by_field, words
from weir.transforms.sinks.place import json_in


def of_folder(folder: Path) -> dict[str, Any]:
    """What is in a folder of results, JSON-able.

    Raises:
      ConfigError: it is not one.
    """
    begun = folder / "_plan.json"
    if begun.exists() and not result_files(folder):
        plan = json_in(begun.read_bytes())
        if plan is None:
            raise ConfigError("directory", str(begun), "is not JSON; it was changed after the run.")
        return {
            "name": plan.get("name"),
            "folder": str(folder),
            "last_tick": None,
            "ticks": plan.get("ticks"),
            "complete": False,
            "behind_seconds": None,
            "held": len(result_files(folder / HELD_FOLDER)),
            **started_in(folder),
            **budget_in(plan),
        }
    run = ResultFolder.open(folder)
    # Without a row (no key was live yet) nothing says when its ticks end.
    end = None if run.is_empty or run.once else run.last_end
    ended = None if end is None else moment_of(end)
    if end is not None and ended is None:
        raise ConfigError(
            "directory",
            str(folder),
            f"holds releases of tick {run.last_tick:,} that end at no moment of a calendar: a file "
            "was damaged or changed. Put it back from a copy; weir verify says which were changed.",
        )
    behind = None if end is None or run.complete else max(0.0, round(time.time() - end / 1e6, 1))
    return {
        "name": run.name,
        "folder": str(folder),
        "last_tick": run.last_tick,
        "last_tick_end": None if ended is None else ended.isoformat(),
        "ticks": run.ticks_planned,
        "complete": run.complete,
        "behind_seconds": behind,
        **started_in(folder),
        **budget_in(run.plan),
    }


def started_in(folder: Path) -> dict[str, Any]:
    """When a stream was last started here; nothing where none was."""
    started = fence.moments(str(folder), fence.FOLDER)
    return {"started": moment(int(max(started.values()) * 1000))} if started else {}


def budget_in(plan: Mapping[str, Any]) -> dict[str, Any]:
    """How the budget stood when the run was entered; nothing where no ledger was asked."""
    return {"ledger": plan["ledger"]} if plan.get("ledger") else {}


def look(place: str | None, master: str | None) -> list[dict[str, Any]]:
    """Whatever a user points at.

    Args:
      place: folder of results, or of checkpoints (engine.checkpoints). master: Flink's REST.

    Raises:
      ConfigError: neither, or nothing to be seen there.
    """
    if master is not None:
        result = of_flink(master)
        if not result:
            raise ConfigError("--flink-master", master, "knows no job that `weir run` started.")
        return result
    if place is None:
        raise ConfigError(
            "PLACE",
            "",
            "is missing: a folder of results or of checkpoints, or --flink-master.",
        )
    state = StateFolder.of(place)
    noted = state.running()
    if noted is None and state.is_begun():
        raise ConfigError("status", place, "is a folder of checkpoints whose job never ran.")
    if noted is not None:
        return [of_state(state, noted) | budget_in(plan_in(state.path) or {})]
    return [of_folder(Path(local(place)))]


def watch(
    place: str | None,
    master: str | None,
    every: float,
    as_json: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Looks again and again, until Ctrl-C.

    Args:
      place, master: see ``look``. every: seconds between two looks.
      as_json: one line of JSON a look. sleep: for tests; what it raises ends it.

    Raises:
      ConfigError: at the first look. Later ones say it and go on: machines come back.
    """
    result: list[dict[str, Any]] | None = look(place, master)
    out, said = console(), ""
    rates = Rates()
    terminal = out.is_terminal and not as_json
    # The page takes the whole screen and gives it back, like other programs that watch.
    with Live(console=out, screen=True, auto_refresh=False) if terminal else nullcontext() as live:
        try:
            while True:
                if as_json:
                    entry = {"at": moment(int(time.time() * 1000)), "jobs": result, "error": said}
                    print(json.dumps(entry, ensure_ascii=False), flush=True)
                else:
                    drawn = Group(*_drawn(rates.added(result or [])), *_told(said, every))
                    if live is not None:
                        live.update(drawn, refresh=True)
                    else:
                        out.print(drawn)
                sleep(every)
                try:
                    result, said = look(place, master), ""
                except (ConfigError, EngineFailed) as error:
                    result, said = None, str(error)
        except KeyboardInterrupt:
            return


def _told(said: str, every: float) -> Iterator[Text]:
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    yield Text()
    if said:
        yield Text(f"{said} Read again every {every:g} s.", style="bold red")
    yield Text(f"{now}; every {every:g} s; Ctrl-C ends it", style="dim")


class Rates:
    """Events a second between two looks at the same job."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[float, int]] = {}

    def added(self, found: list[dict[str, Any]], now: float | None = None) -> list[dict[str, Any]]:
        """The same entries, with ``events_per_second`` where two looks know the events.

        now: seconds of a clock that only goes forward.
        """
        seconds = time.monotonic() if now is None else now
        out = []
        for entry in found:
            events = (entry.get("operator") or {}).get("events")
            if events is not None and "job" in entry:
                then, before = self._before.get(entry["job"], (seconds, events))
                self._before[entry["job"]] = (seconds, events)
                if seconds > then and events >= before:  # a restart may count again
                    rate = (events - before) / (seconds - then)
                    entry = {**entry, "events_per_second": round(rate, 1)}
            out.append(entry)
        return out


def render(found: list[dict[str, Any]], out: Console) -> None:
    """For people."""
    out.print(Group(*_drawn(found)))


def _drawn(found: list[dict[str, Any]]) -> Iterator[RenderableType]:
    for entry in found:
        yield heading(str(entry["name"]))
        yield indent(pairs(lines_of(entry)))
        for alarm in entry.get("alarms", ()):
            yield indent(Text(alarm, style="bold red"))
        counts = entry.get("operator") or {}
        if counts:
            yield Text("  For the operator only: private counts")
            rows = pairs((), ("",))
            fields = by_field(counts)
            for name, n in counts.items():
                if not by_field({name: n}):
                    rows.add_row(f"{n:,}", COUNTERS.get(name, name.replace("_", " ")))
            for (field, reason), n in fields.items():
                rows.add_row(f"{n:,}", words(field, reason))
            yield Padding(rows, (0, 0, 0, 4), expand=False)


def lines_of(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what, value) as words."""
    if "folder" in entry:
        of = f" of {entry['ticks']:,}" if entry["ticks"] else ""
        last = entry["last_tick"]
        results = [
            ("folder", entry["folder"]),
            ("released", "nothing yet" if last is None else f"{last + 1:,} ticks{of}"),
        ]
        if entry.get("held"):
            results.append(("held back", f"{count(entry['held'], 'file')}, not published"))
        if entry["behind_seconds"] is not None:
            results.append(("last tick ended", f"{entry['behind_seconds']:,.1f} s ago"))
        results.append(("complete", "yes" if entry["complete"] else "no"))
        if entry.get("started") and not entry["complete"]:
            there = "whether its job runs: weir status FOLDER OF ITS CHECKPOINTS"
            results.append(("last started", f"{entry['started']}; {there}"))
        return [*results, *budget_of(entry)]
    saved = entry["checkpoints"]
    lag, last = entry["watermark_lag_seconds"], entry["last_tick"]
    rate = entry.get("events_per_second")
    size = "" if saved["bytes"] is None else f", {bytes_text(saved['bytes'])}"
    took = "" if saved["milliseconds"] is None else f", {saved['milliseconds']:,} ms"
    since = "" if entry["since"] is None else f" since {entry['since']}"
    seen = saved["completed"] is not None
    whole = f"{saved['completed']:,} whole, {saved['failed']:,} failed{size}{took}" if seen else ""
    acked = entry.get("acknowledged")
    return [
        ("job", f"{entry['job']}, {entry['state']}{since}"),
        *([] if entry["restarts"] is None else [("restarts", f"{entry['restarts']:,}")]),
        ("last tick released", "none yet" if last is None else f"{last:,}"),
        ("watermark behind", "unknown" if lag is None else f"{lag:,.1f} s"),
        *unread_of(entry),
        *([] if rate is None else [("events read", f"{rate:,.0f} a second")]),
        *([("checkpoints", whole)] if seen else []),
        ("last checkpoint", f"{saved['last'] or 'none'} {saved['place'] or ''}".strip()),
        *([] if acked is None else [("last acknowledged", acked)]),
        *budget_of(entry),
    ]


def unread_of(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Records that wait in a topic, and the partition that has most; nothing of other sources."""
    unread = entry.get("unread") or {}
    if not unread:
        return []
    most = max(unread, key=lambda partition: unread[partition])
    where = f", {unread[most]:,} of them in partition {most}" if unread[most] else ""
    return [("records not read yet", f"{sum(unread.values()):,}{where}")]


def budget_of(entry: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How the budget stood when the job began; nothing where no ledger was asked."""
    reported = entry.get("ledger")
    return (
        []
        if not reported
        else [(f"budget of {reported['scope']}", f"{reported['words']} (as it began)")]
    )
