"""One trial: a run over one stream, with restarts, and what an outsider sees of it."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow.parquet as pq

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import WeirError
from weir.pipelines.audit.malformed import messages, payload_of
from weir.pipelines.audit.pubsub_harness import PubSubHarness, server
from weir.pipelines.audit.streams import EventMaker, StreamRows, transcripts
from weir.pipelines.config.sections import Secret
from weir.pipelines.engines.flink import FlinkRest
from weir.pipelines.engines.processes import EngineFailed
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.results.verdict import COUNTERS, Result
from weir.pipelines.run.run import run
from weir.pipelines.runners.ending import metrics_of
from weir.pipelines.runners.local import LOCAL
from weir.pipelines.runners.options import DONE, FlinkTarget
from weir.pipelines.runners.state_folder import StateFolder
from weir.transforms.runtime.reasons import REASONS, by_field
from weir.transforms.runtime.secret import SecretRef
from weir.transforms.sinks import place, receipts

LOOK = 2.0
"""Seconds between two looks."""
TRIES = 3
"""Restarts after which a job is given up; before its first checkpoint the runner does so itself."""


class Restarts:
    """Looks at a job, in a thread, and cancels one that restarts too often.

    Args:
      state: folder in which the job is noted.
    """

    def __init__(self, state: str) -> None:
        self._state = StateFolder.of(state)
        self._halt = threading.Event()
        self._given_up = False
        self._thread = threading.Thread(target=self._watch, name="restarts", daemon=True)

    def refuse(self) -> None:
        """Tells of a job that was cancelled.

        Raises:
          WeirError: it was.
        """
        if self._given_up:
            raise WeirError(
                f"the job failed {TRIES} times over the messages of the audit and was cancelled: a "
                "record that stops a job takes the releases of all others with it (weir --debug "
                "audit ... shows why it fails)."
            )

    def _watch(self) -> None:
        while not self._halt.wait(LOOK):
            noted = self._state.running()
            if noted is None:
                continue
            rest, job = FlinkRest(str(noted["url"]), timeout=3.0), str(noted["job"])
            with contextlib.suppress(EngineFailed):
                result = metrics_of(rest, f"/jobs/{job}/metrics", ["numRestarts"])
                if result.get("numRestarts", 0) >= TRIES:
                    self._given_up = True
                    rest.cancel(job)
                    return

    def __enter__(self) -> Restarts:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._halt.set()
        self._thread.join()


OURS = "weir"
"""Whose lines a run writes."""


@dataclass(frozen=True)
class TrialRun:
    """What a run left.

    Attributes:
      transcripts: (K, T, m). result: as ``weir run`` tells it. folder: of releases. log: lines that
        it logged.
    """

    transcripts: Floats
    result: Result
    folder: Path
    log: tuple[str, ...]


def run_trials(
    maker: EventMaker,
    files: Sequence[StreamRows],
    keys: int,
    place: Path,
    runner: str = LOCAL,
    secret: SecretRef | None = None,
    more: Sequence[bytes] = (),
) -> TrialRun:
    """Writes files, or on Flink publishes messages, runs the job over them, and reads its sink.

    Args:
      files: events, a file each. keys: how many the job declares. place: an empty folder, but for
        files that are to be read too. runner: local, direct, or flink.
      secret: None: one that is drawn for this run. more: messages as they are.

    Raises:
      WeirError: the run failed.
    """
    out = place / "out"
    if runner == "flink":
        with server():
            done = _live(maker, files, keys, place, secret, more)
    else:
        for at, rows in enumerate(files):
            maker.write(rows, place, f"events-{at:03d}")
        parts = parts_of(maker.audited.at(place, keys, out), runner, look=False)
        if secret is not None:
            parts = replace(parts, secrets=((0, secret),))
        with _log() as lines:
            done = run(parts, runner, rehearsal=True), lines
    audited, (result, lines) = maker.audited, done
    results = transcripts(_folder(out), audited.plan, audited.key_texts(keys), audited.ticks)
    return TrialRun(results, result, out, tuple(lines))


def _live(
    maker: EventMaker,
    files: Sequence[StreamRows],
    keys: int,
    place: Path,
    secret: SecretRef | None,
    more: Sequence[bytes],
) -> tuple[Result, list[str]]:
    """The unbounded job over messages, to the end of its clock.

    Raises:
      WeirError: the run failed, or was stopped, or was too slow to take every event.
    """
    audited = maker.audited
    key = place / "audit.key"
    key.touch(mode=0o600)
    key.write_text((secret or SecretRef.fresh()).resolve().hex())
    with PubSubHarness.opened(audited.job) as post:
        payload, _ = payload_of(audited.job)
        for rows in files:
            post.publish(messages(maker, rows, payload))
        post.publish(more)
        job = post.over(audited.at(place, keys, place / "out"), place)
        job = job.model_copy(update={"secret": Secret(file=str(key))})
        parts = parts_of(job, "flink", look=False)
        with _log(live=True) as lines, Restarts(parts.state) as restarts:
            try:
                result = run(parts, "flink", flink=FlinkTarget(), rehearsal=True)
            finally:
                restarts.refuse()
    if result.state != DONE:
        raise WeirError("the audit was stopped; what was released until then proves nothing.")
    # Among messages as they are, some say themselves that they are late.
    lost = sum(result.counters.get(name, 0) for name in ("overdue", *(() if more else ("late",))))
    if lost:
        raise WeirError(
            f"{lost:,} events came late, or behind ticks that were released: this machine is too "
            "slow for so many at once. Ask for fewer --trials."
        )
    return result, lines


def _folder(out: Path) -> Path:
    held = out / "_held"
    return held if held.is_dir() and any(held.iterdir()) else out


@contextmanager
def _log(live: bool = False) -> Iterator[list[str]]:
    """The lines that are logged meanwhile; ``live``: warnings of ours alone. What a cluster's
    libraries say of connections differs from run to run, and no run writes it anywhere."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            ours = record.levelno >= logging.WARNING and record.name.partition(".")[0] == OURS
            if ours or not live:
                lines.append(f"{record.levelname} {record.name} {record.getMessage()}")

    root, handler = logging.getLogger(), Keep(logging.INFO)
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)


PRIVATE = frozenset({*COUNTERS, *REASONS, "bytes", "messages"}) - {"divergent"}
"""Counters of the operator's that may tell of events, in addition those by column."""
OWN = ("operator", "refused", "seconds", "sink")
"""Of a run's summary: the operator's counts, time, and where this run of an audit lies."""
_VARIES = re.compile(r"/\S*weir-audit-\S*|0x[0-9a-f]+|\d+\.\d+ ?m?s\b")
"""What of a log line is no fact about events: places of this run, and times."""


def public(counters: Mapping[str, int]) -> dict[str, int]:
    """The counters that may not tell of events: how much was released, what went wrong."""
    of_columns = {name for name in counters if by_field({name: 1})}
    return {name: n for name, n in counters.items() if name not in PRIVATE | of_columns}


def outside(done: TrialRun, alone: bool) -> dict[str, Any]:
    """What leaves the operator's side in addition releases, by what it is.

    Files, their rows, row groups and metadata; the plan; lines of the log. Of a run that is alone
    in its process every other file of the folder too, counters and summary: on a cluster they tell
    of starts, leases and repeats as well, whose number is its timing.
    """
    rows: dict[str, int] = {}
    groups: dict[str, list[int]] = {}
    facts: dict[str, tuple[Any, ...]] = {}
    results: dict[str, Any] = {"file names": sorted(path.name for path in done.folder.iterdir())}
    for path in sorted(done.folder.glob("ticks-*")):
        if path.suffix == ".parquet":
            held = pq.read_metadata(path)
            rows[path.name] = held.num_rows
            groups[path.name] = [held.row_group(i).num_rows for i in range(held.num_row_groups)]
            facts[path.name] = (str(held.schema.to_arrow_schema()), held.metadata, held.created_by)
        else:
            rows[path.name] = path.read_bytes().count(b"\n")
    results |= {"rows of files": rows, "row groups": groups, "metadata of files": facts}
    plan = done.folder / "_plan.json"
    results[plan.name] = plan.read_bytes() if plan.exists() else b""
    results["log lines"] = [_VARIES.sub("_", line) for line in done.log]
    if not alone:
        return results
    for path in sorted(done.folder.iterdir()):
        if path.is_file() and not path.name.startswith("ticks-"):
            content = path.read_bytes()
            results[path.name] = (
                _receipt_facts(content) if path.name == receipts.RECEIPT_FILE else content
            )
    results["counters"] = public(done.result.counters)
    summary = done.result.to_json()
    results["summary"] = {name: value for name, value in summary.items() if name not in OWN}
    return results


def _receipt_facts(content: bytes) -> dict[str, Any]:
    """What a receipt says in addition to releases: all but their digests, which are functions of
    them, and the signature of the whole."""
    body = receipts.parse(content).body
    files = {
        name: None if place.span_of(name) is not None else digest
        for name, digest in body["files"].items()
    }
    return {**body, "files": files}


def differing(item: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What of the one is not in the other, or otherwise; of counters, which."""
    results = []
    for name in sorted({*item, *other}):
        mine, theirs = item.get(name), other.get(name)
        if mine == theirs:
            continue
        if name == "counters":
            assert mine is not None and theirs is not None
            which = sorted(at for at in {*mine, *theirs} if mine.get(at) != theirs.get(at))
            name = f"counters ({', '.join(which)})"
        results.append(f"{name} differ")
    return results
