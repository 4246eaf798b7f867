"""How far a reader has acknowledged, noted in the state folder before it does.

What is acknowledged never comes again, so a job may only go back to a checkpoint that holds it.
Messages are acknowledged when a checkpoint has them, and turns of a reader are numbered in its
checkpoint: the turn that a job goes on with must lie behind the last one whose messages were
acknowledged. An older checkpoint would lose those in between.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import NamedTuple

from weir.dpcore.errors import in_words
from weir.transforms.runtime import files
from weir.transforms.runtime.fence import Fatal

FOLDER = "_acknowledged"


class Outdated(Fatal):
    """A checkpoint that lacks messages which the subscription does not have any more."""


class ReadTurn(NamedTuple):
    """A turn of a reader, in order.

    Attributes:
      number: from 0. began: microseconds since 1970.
    """

    number: int
    began: int


class Note(NamedTuple):
    """What a reader has noted.

    Attributes:
      turn: the last whose messages were acknowledged. began: when that turn did; a checkpoint that
        was complete by then lacks its messages. at: when this was noted.
    """

    turn: int
    began: datetime
    at: datetime


@in_words
def noted(stored: bytes) -> Note:
    """What is in the file of a note."""
    note = json.loads(stored)
    began, at = (datetime.fromisoformat(note[name]) for name in ("began", "at"))
    return Note(int(note["turn"]), began, at)


def short_name(subscription: str) -> str:
    """Of a subscription, in names of files."""
    return hashlib.blake2b(subscription.encode(), digest_size=6).hexdigest()


class Acknowledged:
    """The note of one reader.

    Args:
      folder: of the state. subscription: its full name. number: of the reader.
    """

    def __init__(self, folder: str, subscription: str, number: int) -> None:
        name = f"{short_name(subscription)}-{number}.json"
        self._path = files.join(files.join(folder, FOLDER), name)
        self._number = number
        self._turn = -1

    def note(self, turn: ReadTurn) -> None:
        """Messages up to a turn are about to be acknowledged, and a checkpoint has them."""
        if turn.number <= self._turn:
            return
        began = datetime.fromtimestamp(turn.began / 1e6, UTC)
        note = Note(turn.number, began, datetime.now(UTC))._asdict()
        text = json.dumps(note, default=datetime.isoformat) + "\n"
        files.replace(self._path, text.encode())
        self._turn = turn.number

    def check(self, turn: int) -> None:
        """A reader starts, or goes back, to a turn.

        Raises:
          Outdated: messages of that turn or later were acknowledged.
        """
        stored = files.read(self._path)
        if stored is None:
            return
        note = noted(stored)
        if note.turn >= turn:
            raise Outdated(
                "the checkpoint that this job goes on from is older than what was acknowledged: "
                f"reader {self._number} is at turn {turn} in it, and what was read up to turn "
                f"{note.turn} was acknowledged at {note.at.isoformat()} and does not come again. "
                "Go on from the newest one (--resume latest), or take the subscription back as "
                "well (--resume PLACE --rewind SNAPSHOT; docs/how-to/upgrade.md, Go back)."
            )
