"""One run of the real pipeline over the streams of an audit, under a secret of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dpcore.arrays import Floats
from pipelines.audit.streams import Maker, Rows
from pipelines.audit.transcript import transcripts
from pipelines.config.sections import Secret
from pipelines.graph.parts import parts_of
from pipelines.results.result import Result
from pipelines.run.run import run
from pipelines.runners.flink_target import FlinkTarget
from transforms.runtime.secret import SecretRef


@dataclass(frozen=True)
class Done:
    """What a run left.

    Attributes:
      transcripts: (K, T, m). result: as ``weir run`` tells it. folder: of releases. log: lines that
        it logged.
    """

    transcripts: Floats
    result: Result
    folder: Path
    log: tuple[str, ...]


def through(
    maker: Maker,
    files: Sequence[Rows],
    keys: int,
    place: Path,
    runner: str = "direct",
    secret: SecretRef | None = None,
    more: Sequence[tuple[str, bytes]] = (),
) -> Done:
    """Writes files, runs the job over them, and reads its sink.

    Args:
      files: events, a file each. keys: how many the job declares. place: an empty folder.
      secret: None: one that is drawn for this run. more: (name, bytes) of files as they are.

    Raises:
      WeirError: the run failed.
    """
    audited = maker.audited
    for at, rows in enumerate(files):
        maker.write(rows, place, f"events-{at:03d}")
    for name, data in more:
        (place / name).write_bytes(data)
    out = place / "out"
    job = audited.at(place, keys, out)
    target = None
    if runner == "flink":
        key = place / "audit.key"
        key.write_text((secret or SecretRef.fresh()).resolve().hex())
        key.chmod(0o600)
        job = job.model_copy(update={"secret": Secret(file=str(key))})
        target = FlinkTarget()
    parts = parts_of(job, runner, look=False)
    if secret is not None and target is None:
        parts = replace(parts, secrets=((0, secret),))
    with _log() as lines:
        result = run(parts, runner, flink=target, rehearsal=True)
    found = transcripts(_folder(out), audited.plan, audited.key_texts(keys), audited.ticks)
    return Done(found, result, out, tuple(lines))


def _folder(out: Path) -> Path:
    held = out / "_held"
    return held if held.is_dir() and any(held.iterdir()) else out


@contextmanager
def _log() -> Iterator[list[str]]:
    """The lines that are logged meanwhile."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.levelname} {record.name} {record.getMessage()}")

    root, handler = logging.getLogger(), Keep(logging.INFO)
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
