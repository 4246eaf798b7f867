"""Until when the readers of a job may be given messages, noted before they pull any.

What a reader was given and never acknowledged is given again when its ack deadline passes. A job
that goes on with the stream waits for that: one deadline from its own start on, or from the last
moment at which a reader of the job before may have been given a message or moved its deadline on.
That moment is what is noted here, ahead of time, in the state folder.
"""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

from weir.dpcore.errors import CodecError, in_words
from weir.transforms.runtime import files
from weir.transforms.runtime.acked import short_name
from weir.transforms.runtime.fence import Claim, Fence

FOLDER = "_pulls"
AHEAD = 5_000_000
"""Microseconds that a note reaches further than it has to, so that not every pull writes one."""


@in_words
def noted(stored: bytes) -> int:
    """The moment in the file of a note, microseconds since 1970."""
    moment = datetime.fromisoformat(json.loads(stored)["until"])
    return (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)


class PullNotes:
    """The notes of one reader. Thread-safe: a thread of its own moves deadlines on.

    Args:
      fence: around the job; only one with a folder of the state that is in reach keeps notes.
      subscription: its full name. number: of the reader.
    """

    def __init__(self, fence: Fence, subscription: str, number: int) -> None:
        self._fence = fence
        self._claim = fence.state if fence.reachable is not None else None
        self._name = short_name(subscription)
        self._number = number
        self._lock = threading.Lock()
        self._until = 0

    def before(self) -> int | None:
        """Until when the readers of the job before may have been given messages.

        Microseconds since 1970. None: that is not known, or this job has pulled itself already and
        was started again.
        """
        if self._claim is None:
            return None
        inside = files.join(self._claim.folder, FOLDER)
        names = [name for name in files.names(inside) if name.endswith(".json")]
        mine, previous = self._claim.epoch, f"{self._claim.epoch - 1:06d}-{self._name}-"
        for name in names:
            if name[:6].isdigit() and int(name[:6]) < mine - 1:
                files.remove(files.join(inside, name))
        if self._file(self._claim) in names:
            return None
        paths = [files.join(inside, name) for name in names if name.startswith(previous)]
        try:
            return max((noted(files.read(path) or b"") for path in paths), default=None)
        except CodecError:
            return None

    def covers(self, until: int) -> None:
        """Notes that messages may be given to this reader until then, microseconds since 1970.

        The note comes first and the look whether a newer job has taken over second, while that one
        claims first and reads the note second: it knows of this call, or the call is never made.

        Raises:
          Fenced: a newer job has taken over. OSError: the folder cannot be written now.
        """
        if self._claim is None:
            return
        with self._lock:
            if until <= self._until:
                return
            moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=until + AHEAD)
            text = json.dumps({"until": moment.isoformat()}) + "\n"
            inside = files.join(self._claim.folder, FOLDER)
            files.replace(files.join(inside, self._file(self._claim)), text.encode())
            self._fence.check()
            self._until = until + AHEAD

    def _file(self, of: Claim) -> str:
        return f"{of.epoch:06d}-{self._name}-{self._number}.json"


__all__ = ["AHEAD", "FOLDER", "PullNotes", "noted"]
