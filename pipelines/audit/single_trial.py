"""One run of the real pipeline over the streams of an audit, under a secret of its own.

On the direct runner that is the run of files; on Flink it is the live job, fed with messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from weir.dpcore.arrays import Floats
from weir.dpcore.errors import WeirError
from weir.pipelines.audit.messages import messages, payload_of
from weir.pipelines.audit.pubsub_harness import PubSubHarness, server
from weir.pipelines.audit.restarts import Restarts
from weir.pipelines.audit.streams import EventMaker, StreamRows
from weir.pipelines.audit.transcript import transcripts
from weir.pipelines.config.sections import Secret
from weir.pipelines.graph.parts import parts_of
from weir.pipelines.results.result import Result
from weir.pipelines.run.run import run
from weir.pipelines.runners.flink_target import DONE, FlinkTarget
from weir.transforms.runtime.secret import SecretRef

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
    runner: str = "direct",
    secret: SecretRef | None = None,
    more: Sequence[bytes] = (),
) -> TrialRun:
    """Writes files, or on Flink publishes messages, runs the job over them, and reads its sink.

    Args:
      files: events, a file each. keys: how many the job declares. place: an empty folder, but for
        files that are to be read too. runner: direct, or flink.
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
    found = transcripts(_folder(out), audited.plan, audited.key_texts(keys), audited.ticks)
    return TrialRun(found, result, out, tuple(lines))


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
