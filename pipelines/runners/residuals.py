"""Whether a job server finds in a checkpoint what sources left undone when it was taken.

Beam 2.76 changed where its Flink runner looks for it. A job server that looks in the other place
finds nothing, and the sources of the stream would stand still for ever, or fail again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

from weir.dpcore.errors import ConfigError
from weir.pipelines.doors.paths import local
from weir.pipelines.engines.job_server import MAP_STATE, Kept, kept_by
from weir.transforms.runtime import files

HEAD = 1 << 20
"""Bytes of a file that are looked at: the names of the states in it come first."""
NAMED = b"sdf_checkpoint:"
"""How names of a state begin that holds the rest of one call."""


def refuse_foreign(savepoint: str, jar: str) -> None:
    """Refuses a checkpoint or savepoint that this job server cannot go on from.

    Args:
      savepoint: its URI.

    Raises:
      ConfigError: it keeps residuals in the other place. Where neither tells, nothing is refused.
    """
    found, kept = in_a_map(savepoint), kept_by(jar)
    if found is None or kept is None or found is (kept is Kept.ONE_MAP):
        return
    made = (
        "Apache's of Beam 2.76 or newer" if found else "that of `make flink`, or an older Apache's"
    )
    raise ConfigError(
        "--resume",
        savepoint,
        f"was made with another job server ({made}), and the one given here ({jar}) does not find "
        "in it where the sources were: they would stand still. Go on with the one that it was "
        "made with: --flink-job-server-jar JAR.",
    )


def in_a_map(savepoint: str) -> bool | None:
    """Whether residuals lie in one map (else under names); None where no file shows it."""
    named = False
    for data in _heads(savepoint):
        if MAP_STATE.encode() in data:
            return True
        named |= NAMED in data  # of timers too, which may lie in a file without the map
    return False if named else None


def _heads(savepoint: str) -> Iterator[bytes]:
    """What is looked at, file by file; the metadata hold small states themselves."""
    folder = local(savepoint)
    for path in sorted(files.join(folder, name) for name in files.names(folder)):
        if files.exists(path):
            with files.open_raw(path) as file:
                yield file.read(HEAD)
