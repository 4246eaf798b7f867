"""What ``weir doctor`` and ``weir status`` find of a job, its input and its Flink cluster."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from weir.dpcore.errors import ConfigError, WeirError
from weir.dpcore.plan import Plan
from weir.pipelines.config.job import JobConfig, refuse_mixed
from weir.pipelines.config.sections import needed
from weir.pipelines.connectors.paths import STDIN
from weir.pipelines.connectors.secret_place import SecretPlace
from weir.pipelines.engines.flink import LIVE, FlinkRest, as_flink
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.graph.checks import check_runner, plan_of
from weir.pipelines.results.verdict import judge
from weir.pipelines.run.watch import added
from weir.pipelines.runners.ending import counters_of, metrics_of
from weir.pipelines.runners.state_folder import StateFolder
from weir.pipelines.sources.files import Files
from weir.pipelines.sources.source import Limits
from weir.pipelines.terminal import bytes_text, count
from weir.transforms.runtime.counters import UNREAD
from weir.transforms.runtime.reasons import MISSING, VALUES, by_field
from weir.transforms.sinks import place as sinks_place
from weir.transforms.sinks.place import is_remote

State = Literal["good", "absent", "wrong"]
"""absent: not there, and not needed for what was asked."""

LEAST_DISK = 1 << 30
"""Bytes that a run should find free."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
      group: of the page. what: its name. state: see ``State``. found: what is there, in words.
      remedy: what to do; empty where all is good. package: whether it is one of Python.
    """

    group: str
    what: str
    state: State
    found: str
    remedy: str = ""
    package: bool = False


def judged(group: str, what: str, good: bool, found: str, remedy: str) -> Finding:
    """Good, or wrong with what to do."""
    return Finding(group, what, "good" if good else "wrong", found, "" if good else remedy)


def space(group: str, what: str, folder: Path) -> Finding:
    """Whether a folder, or the one that it would be made in, can be written to and has room."""
    there = folder
    while not there.exists() and there != there.parent:
        there = there.parent
    if not os.access(there, os.W_OK):
        return Finding(group, what, "wrong", f"{folder} cannot be written", f"chmod u+w {there}")
    free = shutil.disk_usage(there).free
    return judged(
        group, what, free >= LEAST_DISK, f"{folder}, {bytes_text(free)} free",
        f"free space: {bytes_text(LEAST_DISK)} or more",
    )  # fmt: skip


def alarms_of(counters: Mapping[str, int], limit: float) -> tuple[str, ...]:
    """Sentences, the gravest first; none where all is well.

    Args:
      counters: by name. Private numbers, and so are the sentences.
      limit: ``limits.refused``.
    """
    results = []
    verdict = replace(judge(counters, limit), known=True)  # a stream may not have released yet
    if verdict.excess is not None:
        results.append(f"{verdict}.")
    events = counters.get("events", 0)
    unfilled: dict[str, int] = {}
    for (field, reason), n in by_field(counters).items():
        if reason == MISSING or reason in VALUES:
            unfilled[field] = unfilled.get(field, 0) + n
    for field, n in sorted(unfilled.items()):
        if n >= events > 0:
            results.append(
                f"{field}: no readable value in any of {events:,} events; correct its name, or the "
                "sender (a column that only `where` reads may be rare)."
            )
    return tuple(results)


OURS = "weir-"
"""How the jobs are named that ``weir run`` submits."""
NEVER = -(1 << 62)
NOT_KNOWN = dict.fromkeys(("completed", "failed", "last", "bytes", "milliseconds", "place"))
GONE: dict[str, Any] = {
    "state": "UNKNOWN",
    "since": None,
    "restarts": None,
    "checkpoints": NOT_KNOWN,
    "last_tick": None,
    "watermark_lag_seconds": None,
    "unread": {},
}
"""An entry of a job without what Flink adds."""


def of_flink(
    url: str, wanted: str | None = None, limit: float | None = None
) -> list[dict[str, Any]]:
    """Our jobs on a cluster, newest first, JSON-able.

    Args:
      url: of Flink's REST interface. wanted: one job's id; None: all of ours that run, and if none
        does, the last that did.
      limit: ``limits.refused`` of the job, its default where nobody knows.

    Raises:
      ConfigError: Flink does not answer there, or knows no such job.
    """
    try:
        return jobs_on(url, wanted, limit)
    except EngineFailed:
        raise ConfigError(
            "--flink-master",
            url,
            "does not answer: give HOST:PORT of Flink's REST interface. (An embedded Flink ends "
            "with its `weir run`.)",
        ) from None


@as_flink()
def jobs_on(url: str, wanted: str | None, limit: float | None) -> list[dict[str, Any]]:
    """As ``of_flink``. Raises EngineFailed where Flink does not answer."""
    rest = FlinkRest(url if "://" in url else f"http://{url}")
    jobs = [job for job in rest.jobs() if str(job["name"]).startswith(OURS)]
    if wanted is not None:
        jobs = [job for job in jobs if job["jid"] == wanted]
    live = [job for job in jobs if job["end-time"] < 0]
    return [job_of(rest, job, limit) for job in live or jobs[:1]]


def job_of(rest: FlinkRest, entry: Mapping[str, Any], limit: float | None = None) -> dict[str, Any]:
    """One job; limit: see ``of_flink``.

    Raises:
      EngineFailed: Flink does not answer.
    """
    job = str(entry["jid"])
    saved = rest.checkpoints(job)
    last = saved["latest"]["completed"] or {}
    running = metrics_of(rest, f"/jobs/{job}/metrics", ["numRestarts"])
    counts = counters_of(rest, job)
    partitions = sorted(int(name.removeprefix(UNREAD)) for name in counts if UNREAD in name)
    unread = {str(number): counts.pop(f"{UNREAD}{number}") for number in partitions}
    return {
        "name": entry["name"],
        "job": job,
        "state": entry["state"],
        "since": moment(entry["start-time"]),
        "restarts": int(running.get("numRestarts", 0)),
        "checkpoints": {
            "completed": saved["counts"]["completed"],
            "failed": saved["counts"]["failed"],
            "last": moment(last.get("latest_ack_timestamp")),
            "bytes": last.get("state_size"),
            "milliseconds": last.get("end_to_end_duration"),
            "place": last.get("external_path"),
        },
        "last_tick": counts.pop("last_tick", None),
        "watermark_lag_seconds": lag_of(rest, job),
        "unread": unread,
        "alarms": list(alarms_of(counts, Limits().refused if limit is None else limit)),
        "operator": counts,
    }


def lag_of(rest: FlinkRest, job: str, now: float | None = None) -> float | None:
    """Seconds that the slowest step's watermark is behind the wall clock; None where none has one.

    Raises:
      EngineFailed: Flink does not answer.
    """
    marks: list[int] = []
    for vertex in rest.get(f"/jobs/{job}")["vertices"]:
        path = f"/jobs/{job}/vertices/{vertex['id']}/watermarks"
        marks += [int(mark["value"]) for mark in rest.get(path)]
    known = [mark for mark in marks if mark > NEVER]
    if not known:
        return None
    wall = time.time() if now is None else now
    return max(0.0, round(wall - min(known) / 1000, 3))


def moment(milliseconds: int | None) -> str | None:
    """ISO text; None stays None."""
    if milliseconds is None or milliseconds < 0:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="seconds")


def of_state(state: StateFolder, noted: Mapping[str, Any]) -> dict[str, Any]:
    """The job that was last noted with the state: as Flink shows it, else as the folders of its
    state and of its releases do."""
    job, url, epoch = str(noted["job"]), str(noted["url"]), int(noted.get("epoch", 0))
    limit = Limits().refused if noted.get("refused") is None else float(noted["refused"])
    result, why = list[dict[str, Any]](), f"No job runs: Flink at {url} knows no job {job}"
    try:
        result = jobs_on(url, job, limit)
    except EngineFailed:
        why = f"No job is known to run: Flink at {url} does not answer"
    if result:
        (entry,) = result
        counts = added(entry["operator"], state.counted(epoch))
        why = f"No job runs: it is {entry['state']}"
    else:
        counts = state.counted()
        entry = {
            **GONE,
            "name": noted["name"],
            "job": job,
            "alarms": list(alarms_of(counts, limit)),
        }
        newest = state.newest()
        if newest is not None:
            at, uri = newest
            entry["checkpoints"] = {**NOT_KNOWN, "last": moment(int(at * 1000)), "place": uri}
    entry["operator"] = counts
    if entry["last_tick"] is None and noted.get("sink") is not None:
        entry["last_tick"] = last_in(str(noted["sink"]))
    acknowledged = state.acknowledged()
    if acknowledged is not None:
        entry["acknowledged"] = acknowledged.isoformat(timespec="seconds")
    if entry["state"] not in (*LIVE, "FINISHED"):
        cause = state.failure(epoch)
        more = "Start it again with --resume latest." if cause is None else f"It ended: {cause}"
        entry["alarms"] = [f"{why}. {more}", *entry["alarms"]]
    return entry


def last_in(sink: str) -> int | None:
    """The last tick of which a folder of results has a file; None where it has none."""
    ticks = 0
    with contextlib.suppress(ConfigError, OSError):
        ticks = sinks_place.ticks_in(sink)
    return ticks - 1 if ticks else None


SECRET_BYTES = {32, 44, 45, 46, 64, 65, 66}
"""How long a file of a secret may be: raw, base64 or hexadecimal, with or without a line's end."""


def findings_of(job: JobConfig, runner: str | None) -> Iterator[Finding]:
    """Whether it can be planned and run, and who can read and write what it names.

    Raises:
      ConfigError: the job cannot be planned.
    """
    plan = plan_of(job)
    yield Finding("Job", "plan", "good", plan.digest[:12])
    if runner is not None:
        yield _tried("Job", f"runner {runner}", lambda: _runs(job, runner))
    yield _tried("Job", "sink", lambda: _writes(job, plan))
    if job.sink is not None and job.sink.place is not None and not is_remote(job.sink.place):
        yield space("Job", "releases", Path(job.sink.place))
    if job.source is not None and isinstance(job.source, Files):
        yield _readable(job.source)
    for what, place in _written(job):
        yield space("Job", what, Path(place))
    if job.secret is None:
        yield _no_secret(runner)
    else:
        yield _secret("secret", job.secret)
        for at, later in enumerate(job.secret.rotate):
            yield _secret(f"secret.rotate[{at}]", later)
    if job.engine is not None and job.engine.checkpoints is not None:
        yield _checkpoints(job.engine.checkpoints)
    host = os.environ.get("PUBSUB_EMULATOR_HOST")
    if host is not None:
        yield Finding("Job", "Pub/Sub", "good", f"the emulator at {host}, as the environment says")


def _runs(job: JobConfig, runner: str) -> None:
    needed("sink", job.sink)
    check_runner(needed("source", job.source), job.secret, runner)


def _writes(job: JobConfig, plan: Plan) -> None:
    refuse_mixed(job.dead_letters, job.sink)
    if job.sink is not None:
        job.sink.check(plan, () if job.secret is None else job.secret.references(plan.clock))


def _tried(group: str, what: str, check: Any) -> Finding:
    try:
        check()
    except WeirError as error:
        return Finding(group, what, "wrong", str(error), "see what it says")
    return Finding(group, what, "good", "accepted")


def _written(job: JobConfig) -> Iterator[tuple[str, str]]:
    """Folders of this machine that a run writes to, next to that of its releases."""
    letters = None if job.dead_letters is None else job.dead_letters.place
    if letters is not None and not is_remote(letters):
        yield "dead letters", letters
    if job.ledger is not None and job.ledger.kind == "sqlite":
        yield "ledger", str(Path(job.ledger.value).absolute().parent)


def _readable(source: Files) -> Finding:
    """Whether there are files, and this user may read them. None is opened."""
    if source.path == STDIN:
        return Finding("Job", source.field, "good", "standard input")
    if any("://" in place for place in source.places):
        text = f"{source.path}, in a bucket that this machine did not ask"
        return Finding("Job", source.field, "good", text)
    files = source.local()
    if not files:
        remedy = "name a file or a glob that there is: relative paths start at the config's folder"
        return Finding("Job", source.field, "wrong", f"{source.path}: no such file", remedy)
    closed = [file for file in files if not os.access(file, os.R_OK)]
    text = f"{count(len(files), 'file')}, {bytes_text(sum(item.stat().st_size for item in files))}"
    if closed:
        text = f"{closed[0]} cannot be read by this user"
    return judged("Job", source.field, not closed, text, f"chmod u+r {closed[0] if closed else ''}")


def _no_secret(runner: str | None) -> Finding:
    """Whether a run can do without."""
    text = "none: each run draws a fresh one, and spends the budget again"
    remedy = "add secret: {file: secret.key}, made by openssl rand -hex 32 > secret.key"
    return judged("Job", "secret", runner in (None, "local", "direct"), text, remedy)


def _secret(field: str, section: SecretPlace) -> Finding:
    """Where it is, how long, and who may read it. Never what it is."""
    kind, value = section.kind, section.value
    what = f"{field}.{kind}"
    if kind == "env":
        return judged(
            "Job", what, value in os.environ, value, f"set {value}, where workers run too"
        )
    if kind != "file":
        return Finding("Job", what, "good", f"{value}; workers read it, this machine did not ask")
    try:
        result = Path(value).stat()
    except OSError as error:
        make = f"openssl rand -hex 32 > {value} && chmod 600 {value}"
        return Finding("Job", what, "wrong", f"{value}: {error.strerror}", make)
    mode = result.st_mode
    alone = os.name != "posix" or not mode & (stat.S_IRGRP | stat.S_IROTH)
    text = f"{value}, mode {stat.S_IMODE(mode):o}"
    if result.st_size not in SECRET_BYTES:
        remedy = "a secret is 64 hexadecimal digits, 44 characters of base64 or 32 bytes"
        return Finding("Job", what, "wrong", f"{value}, {result.st_size:,} bytes", remedy)
    if not os.access(value, os.R_OK):
        return Finding("Job", what, "wrong", f"{text}, not for this user", f"chown it: {value}")
    return judged("Job", what, alone, text, f"others can read it: chmod 600 {value}")


def _checkpoints(place: str) -> Finding:
    folder = Path(StateFolder.of(place).path)
    if is_remote(str(folder)) or not folder.exists():
        return Finding(
            "Job", "checkpoints", "good", f"{place}, not made yet or not on this machine"
        )
    mode = stat.S_IMODE(folder.stat().st_mode)
    alone = not mode & (stat.S_IRWXG | stat.S_IRWXO)
    remedy = f"it holds clean sums: chmod 700 {folder}"
    return judged("Job", "checkpoints", alone, f"{place}, mode {mode:o}", remedy)
