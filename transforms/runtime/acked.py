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

from weir.dpcore.errors import in_words
from weir.transforms.runtime import files
from weir.transforms.runtime.fence import Fatal

FOLDER = "_acknowledged"


class Outdated(Fatal):
    """A checkpoint that lacks messages which the subscription does not have any more."""


@in_words
def noted(stored: bytes) -> tuple[int, str]:
    """The turn of a note, and when it was written (ISO 8601)."""
    note = json.loads(stored)
    return int(note["turn"]), str(note["at"])


class Acknowledged:
    """The note of one reader.

    Args:
      folder: of the state. subscription: its full name. number: of the reader.
    """

    def __init__(self, folder: str, subscription: str, number: int) -> None:
        name = hashlib.blake2b(subscription.encode(), digest_size=6).hexdigest()
        self._path = files.join(files.join(folder, FOLDER), f"{name}-{number}.json")
        self._number = number
        self._turn = -1

    def note(self, turn: int) -> None:
        """Messages up to a turn are about to be acknowledged, and a checkpoint has them."""
        if turn <= self._turn:
            return
        moment = datetime.now(UTC).isoformat()
        text = json.dumps({"turn": turn, "at": moment}) + "\n"
        files.replace(self._path, text.encode())
        self._turn = turn

    def check(self, turn: int) -> None:
        """A reader starts, or goes back, to a turn.

        Raises:
          Outdated: messages of that turn or later were acknowledged.
        """
        stored = files.read(self._path)
        if stored is None:
            return
        last, moment = noted(stored)
        if last >= turn:
            raise Outdated(
                "the checkpoint that this job goes on from is older than what was acknowledged: "
                f"reader {self._number} is at turn {turn} in it, and what was read up to turn "
                f"{last} was acknowledged at {moment} and does not come again. Go "
                "on from the newest one (--resume latest), or take the subscription back as well "
                "(--resume PLACE --rewind SNAPSHOT; docs/how-to/upgrade.md, Go back)."
            )
