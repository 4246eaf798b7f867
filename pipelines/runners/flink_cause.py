"""Why a job does not run, in Flink's own words where these cannot quote an event."""

from __future__ import annotations

import re
from typing import NamedTuple

from weir.pipelines.engines.flink_rest import FlinkRest
from weir.pipelines.engines.processes import EngineFailed

WORDS = 600
"""Letters of a cause that are told, at most."""
_CAUSE = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error))(?:: (.*))?$", re.MULTILINE)
_OWN = (
    "org.apache.flink.",
    "java.io.",
    "java.nio.",
    "java.util.concurrent.",
    "java.lang.IllegalStateException",
    "java.lang.RuntimeException",
    "java.lang.Exception",
)
"""Errors of Flink's; others of Java's are believed to be where no part of Beam was at work."""
_WORKER = ("SDK", "Traceback", "Python")
"""What stands in every failure that a worker told of, whose words may be of events."""
_BROKEN = re.compile(
    r"EOFException|UTFDataFormat|StreamCorrupted|FileNotFound|NoSuchFile|Cannot find|"
    r"checkpoint\.metadata\.Metadata"
)
"""In the trace of a job whose checkpoint is broken, or gone."""
_REFUSED = re.compile(
    r"(?:dpcore\.errors\.(?:ConfigError|CodecError)|transforms\.(?:sinks\.held\.Contradicted|"
    r"runtime\.fence\.(?:Fenced|Removed)|runtime\.pubsub_client\.Gone|"
    r"sources\.kafka\.faults\.(?:Gone|Lost)|sources\.pubsub\.acked\.Outdated)): "
    r"([^\n\[]{1,1000})"
)


class Cause(NamedTuple):
    """Why a job does not run.

    Attributes:
      words: kind and message of the innermost error. unreadable: it is that what was to be resumed
        is broken, or gone.
    """

    words: str
    unreadable: bool


def cause_of(rest: FlinkRest, job: str) -> Cause | None:
    """The cause of a job's last failure; None where there is none that may be told.

    Raises:
      EngineFailed: Flink does not answer.
    """
    history = rest.get(f"/jobs/{job}/exceptions?maxExceptions=3")
    return cause_in(str(history.get("root-exception") or ""))


def cause_in(text: str) -> Cause | None:
    """What Flink says in a stack trace: of a worker's failure nothing, as it may quote events."""
    found = _CAUSE.findall(text)
    own = _OWN if "org.apache.beam" in text else (*_OWN, "java.")
    if not found or any(word in text for word in _WORKER):
        return None
    if not all(kind.startswith(own) for kind, _ in found):
        return None
    kind, words = found[-1]
    said = f"{kind.rpartition('.')[2]}: {words}" if words else kind.rpartition(".")[2]
    if "operator is not available" in words:
        said = (
            f"{said[:WORDS]} (The state was made by a job of other steps: go on with the options "
            "that it had.)"
        )
        return Cause(said, False)
    return Cause(said[:WORDS], _BROKEN.search(text) is not None)


def refusal_in(text: str) -> str | None:
    """What our own errors say inside a text that holds more; those never hold content."""
    found = _REFUSED.findall(text)
    return found[-1].strip() if found else None


class Unreadable(EngineFailed):
    """What was to be resumed cannot be read.

    Args:
      place: URI of the checkpoint. cause: in Flink's words.
    """

    def __init__(self, place: str, cause: str) -> None:
        super().__init__(f"{place} cannot be read: {cause.removesuffix('.')}.")
        self.place = place
