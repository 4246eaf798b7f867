"""Why a topic cannot be read on: what ends a job, and what is tried again."""

from __future__ import annotations

from weir.transforms.runtime.fence import Fatal

REFUSALS = {
    "UNKNOWN_TOPIC_OR_PART": 10.0,
    "UNKNOWN_TOPIC_ID": 10.0,
    "_UNKNOWN_TOPIC": 10.0,
    "_UNKNOWN_PARTITION": 10.0,
    "TOPIC_AUTHORIZATION_FAILED": 60.0,
    "CLUSTER_AUTHORIZATION_FAILED": 60.0,
    "SASL_AUTHENTICATION_FAILED": 60.0,
    "_AUTHENTICATION": 60.0,
    "_SSL": 60.0,
}
"""Codes that trying again does not change -> seconds for which they are doubted: what has just been
made, or granted, is not known to every broker at once."""
OUT_OF_RANGE = ("_AUTO_OFFSET_RESET", "OFFSET_OUT_OF_RANGE")
"""Codes of an offset that a partition does not have, or not any more."""

_MISSING = ("UNKNOWN", "_UNKNOWN")
_FRESH = "Start a new stream, in new folders."


class TopicGone(Fatal):
    """A topic that is not there, may not be used, or is another one."""


class RecordsLost(Fatal):
    """Records were removed before they were read."""


def gone(topic: str, code: str) -> TopicGone:
    """The error for a topic that was refused for as long as its code is doubted."""
    answers = f"topic {topic} answers {code}, for {REFUSALS[code]:.0f} s by now"
    if code.startswith(_MISSING):
        return TopicGone(f"{answers}: it was deleted, or never made. Create it. {_FRESH}")
    return TopicGone(
        f"{answers}: the workers may not use it. Grant them the right, or correct "
        "source.kafka.options, and start again from where this ended."
    )


def replaced(topic: str) -> TopicGone:
    """The error for a topic that is another one of the same name."""
    return TopicGone(
        f"topic {topic} was deleted and created again: records of the old one that were not read "
        f"are gone, and its offsets say nothing of the new one. {_FRESH}"
    )


def shrunk(topic: str, partition: int, offset: int, end: int) -> TopicGone:
    """The error for a partition that ends before what was read of it."""
    return TopicGone(
        f"partition {partition} of topic {topic} ends at offset {end}, and this stream has read up "
        f"to {offset}: its brokers have lost records that were read. {_FRESH}"
    )


def lost(topic: str, partition: int, offset: int, low: int) -> RecordsLost:
    """The error for an offset below what a partition still has."""
    return RecordsLost(
        f"partition {partition} of topic {topic} begins at offset {low}, and the next one to read "
        f"is {offset}: records in between were removed (retention) before they were read. Restore "
        "them, or start a new stream, in new folders, and raise retention.ms of the topic."
    )


__all__ = [
    "OUT_OF_RANGE", "REFUSALS", "RecordsLost", "TopicGone", "gone", "lost", "replaced", "shrunk",
]  # fmt: skip
