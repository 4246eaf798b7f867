"""Where the readers of a stream began, noted in the state folder.

Until a first checkpoint is complete a crash begins the stream again. ``latest`` would then be
another place, and so would ``earliest`` where records have been removed since: what was published
by then would not be of the same records. So each start is noted once, and read back.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping

from weir.dpcore.errors import in_words
from weir.transforms.runtime import files
from weir.transforms.runtime.fence import Fence

FOLDER = "_kafka"


def noted(
    fence: Fence, topic: str, reader: int, resolve: Callable[[], tuple[str, Mapping[int, int]]]
) -> tuple[str, dict[int, int]]:
    """The topic's id and the first offsets of a reader: those of the note, else fresh ones.

    Args:
      fence: around the job. topic: its name. reader: its number. resolve: asks the brokers.
    """
    folder = fence.reachable
    if folder is None or fence.state is None:
        id, offsets = resolve()
        return id, dict(offsets)
    name = hashlib.blake2b(topic.encode(), digest_size=6).hexdigest()
    path = files.join(files.join(folder, FOLDER), f"{fence.state.epoch:06d}-{name}-{reader}.json")
    stored = files.read(path)
    if stored is None:
        id, offsets = resolve()
        fresh = {"topic": id, "offsets": {str(p): o for p, o in offsets.items()}}
        files.put(path, (json.dumps(fresh) + "\n").encode())
        stored = files.read(path)
        assert stored is not None
    return _note_in(stored)


@in_words
def _note_in(stored: bytes) -> tuple[str, dict[int, int]]:
    note = json.loads(stored)
    return str(note["topic"]), {int(p): int(o) for p, o in note["offsets"].items()}


__all__ = ["FOLDER", "noted"]
