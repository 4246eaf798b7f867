"""Notes in the folders of state of streams: JSON and texts that a crash may have cut."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.stored import Reader, target
from tests.fuzz.target import Target
from weir.transforms.runtime import acked, fence, pull_notes, stored_counts
from weir.transforms.sources.kafka import starts


def _note(good: Sequence[bytes], name: str, read: Callable[[Path], Any]) -> Reader:
    folder = Path(tempfile.mkdtemp())
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)

    def reader(data: bytes) -> Any:
        path.write_bytes(data)
        return read(folder)

    return Reader(good, reader, packed=False)


def _counts() -> Reader:
    good = [b'{"events": 3, "late": 1}', b"{}"]
    return _note(good, "_counts/000001-host-1.json", lambda path: stored_counts.kept(str(path)))


def _acknowledged() -> Reader:
    folder = Path(tempfile.mkdtemp())
    acked.Acknowledged(str(folder), "s", 0).note(acked.ReadTurn(4, 0))
    (path,) = (folder / acked.FOLDER).iterdir()
    good = path.read_bytes()

    def read(data: bytes) -> Any:
        path.write_bytes(data)
        with contextlib.suppress(acked.Outdated):
            acked.Acknowledged(str(folder), "s", 0).check(9)

    return Reader([good], read, packed=False)


def _pulls() -> Reader:
    good = b'{"until": "2026-11-28T05:00:00+00:00"}\n'
    return Reader([good], pull_notes.noted, packed=False)


def _moments() -> Reader:
    def read(folder: Path) -> Any:
        fence.failure(fence.Claim(str(folder), 1))
        return fence.moments(str(folder), fence.FOLDER)

    return _note([b"1.5 job\n", b"1e9 \xff\n"], f"{fence.FOLDER}/000001", read)


def _starts() -> Reader:
    around = fence.Fence
    folder = Path(tempfile.mkdtemp())
    good = json.dumps({"topic": "id", "offsets": {"0": 5}}).encode()
    claim = fence.claim(str(folder), "job")

    def read(data: bytes) -> Any:
        held = around(state=claim)
        if not (folder / starts.FOLDER).exists():
            starts.noted(held, "t", 0, lambda: ("id", {0: 5}))
        (path,) = (folder / starts.FOLDER).iterdir()
        path.write_bytes(data)
        return starts.noted(held, "t", 0, lambda: ("id", {0: 5}))

    return Reader([good], read, packed=False)


READERS: dict[str, Callable[[], Reader]] = {
    "acknowledged": _acknowledged,
    "counts": _counts,
    "moments": _moments,
    "pulls": _pulls,
    "starts": _starts,
}


def targets() -> dict[str, Callable[[], Target]]:
    """Name -> target."""
    return {f"state.{name}": partial(target, make) for name, make in READERS.items()}
